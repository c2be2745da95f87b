//! State of uploads: parts in memory, and headers that a folder stores beside an object.

pub(super) mod completion;
pub(super) mod kept;
pub(super) mod upload_buffer;
