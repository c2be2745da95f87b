//! What the operations work on: the node, and the memory that uploads may hold.

use std::sync::Arc;

use s3s::{S3Result, s3_error};

use super::{
    upload::{completion::CompletedUploads, upload_buffer::UploadMemory},
    wire::error,
};
use crate::node::{Bucket, Node};

/// What the operations work on. Cheap to clone.
#[derive(Clone)]
pub(super) struct S3Backend {
    pub(super) node: Arc<Node>,
    pub(super) memory: UploadMemory,
    pub(super) completed: Arc<CompletedUploads>,
}

impl S3Backend {
    pub(super) fn new(node: Arc<Node>) -> Self {
        let memory = UploadMemory::beside(node.cache());
        Self { node, memory, completed: Arc::default() }
    }

    /// The bucket to read from.
    pub(super) fn readable(&self, name: &str) -> S3Result<&Bucket> {
        self.node.bucket(name).ok_or_else(error::no_such_bucket)
    }

    /// The bucket to write to.
    pub(super) fn writable(&self, name: &str) -> S3Result<&Bucket> {
        let bucket = self.readable(name)?;
        match bucket.rules().read_only {
            true => Err(s3_error!(AccessDenied, "The bucket is read-only.")),
            false => Ok(bucket),
        }
    }
}

/// Whether a request names a version of an object: the node serves current versions only.
pub(super) fn refuse_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some("null") => Ok(()),
        Some(_) => Err(s3_error!(NotImplemented, "versions of objects cannot be named")),
    }
}
