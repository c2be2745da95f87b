//! The S3 door: buckets and objects over HTTP, as S3's own clients speak it.
//!
//! ```text
//! S3Door (service)   request id, what is refused before it is read, metrics
//!   ├─ PlainGet     a GET of one object, or of one range: signature (sigv4) and answer (plain)
//!   └─ s3s           path and virtual-hosted style (host), signatures and who may do what (auth), XML
//!        └─ Door     operations ─ read, list, write, delete, copy, multipart
//! ```
//!
//! Keys are used exactly as they are or refused (`keys`). What an origin says about an object, ETag, type and
//! user metadata, is handed on unchanged (`etag`, `attributes`). No text of an origin's error leaves the node
//! (`error`): such a text may hold a signed URL.

mod attributes;
mod authenticate;
mod authorize;
mod body;
mod checksum;
mod chunked;
mod completion;
mod conditions;
mod copy;
mod cors;
mod delete;
mod door;
mod error;
mod etag;
mod form_error;
mod forward;
mod header_text;
mod held;
mod host;
mod ingest;
mod kept;
mod keys;
mod list;
mod multipart;
mod object;
mod object_body;
mod operation;
mod operations;
mod payload;
mod plain;
mod post_form;
mod questions;
mod range;
mod read;
mod request_id;
mod service;
mod sigv4;
mod span;
mod tagging;
mod target;
mod token;
mod uploads;
mod write;

pub use body::DoorBody;
pub use service::{S3Door, service};
