//! Decoding of untrusted bytes, in memory or on disk: a checked reader and its error.

pub(super) mod byte_reader;
pub(super) mod corrupt;
