//! The S3 door: buckets and objects over HTTP, compatible with S3 clients.
//!
//! ```text
//! S3Door (service)   request ids, refusals before the body is read, metrics
//!   ├─ PlainGet     a GET of one object, or of one range: signature (sigv4) and answer (plain)
//!   └─ s3s           path and virtual-hosted style (host), signatures and authorization (auth), XML
//!        └─ S3Backend   operations ─ read, list, write, delete, copy, multipart
//! ```
//!
//! Keys are used exactly as they are or refused (`keys`). The origin's metadata of an object (ETag, type, user
//! metadata) is passed on unchanged (`etag`, `attributes`). No text of an origin's error leaves the node (`error`):
//! such a text may hold a signed URL.

mod auth;
mod authorize;
mod door;
mod forward;
#[doc(hidden)]
pub mod fuzzing;
mod operation;
mod operations;
mod read;
mod service;
mod sigv4;
mod upload;
mod wire;
mod write;

pub(crate) use read::token as listing_token;
pub use service::{S3Door, service};
pub use wire::body::DoorBody;
