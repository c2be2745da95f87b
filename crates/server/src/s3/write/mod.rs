//! Writes: objects, copies, deletions, tags and multipart uploads.

pub(super) mod checksum;
pub(super) mod copy;
pub(super) mod delete;
pub(super) mod headers;
pub(super) mod ingest;
pub(super) mod multipart;
pub(super) mod payload;
pub(super) mod post_form;
pub(super) mod put;
pub(super) mod tagging;
pub(super) mod uploads;
