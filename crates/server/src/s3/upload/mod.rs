//! What uploads keep: parts in memory, and what a folder stores beside an object.

pub(super) mod completion;
pub(super) mod kept;
pub(super) mod upload_buffer;
