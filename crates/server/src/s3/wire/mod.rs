//! S3's wire format: request targets, headers, bodies and errors.

pub(super) mod attributes;
pub(super) mod body;
pub(super) mod chunked;
pub(super) mod error;
pub(super) mod etag;
pub(super) mod form;
pub(super) mod form_error;
pub(super) mod header_text;
pub(super) mod host;
pub(super) mod keys;
pub(super) mod late_outcome;
pub(super) mod request_id;
pub(super) mod span;
pub(super) mod target;
