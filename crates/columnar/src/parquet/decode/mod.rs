//! Decodes column chunks into chunks of the cache: dictionaries with codes, or plain arrays.

pub(super) mod dense;
pub(super) mod dense_bytes;
pub(super) mod dictionary;
pub(super) mod int96;
pub(super) mod stream;
