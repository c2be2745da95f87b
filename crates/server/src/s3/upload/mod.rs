//! State of uploads: buffered parts, and headers that a folder keeps with an object.

pub(super) mod completion;
pub(super) mod kept;
pub(super) mod upload_buffer;
