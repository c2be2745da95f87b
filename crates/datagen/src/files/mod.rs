//! Files of a run: formats, writers, the manifest, and verification.

pub(super) mod file_format;
pub(super) mod file_writer;
pub(super) mod manifest;
pub(super) mod output;
pub(super) mod read_arrow;
pub(super) mod verify;
