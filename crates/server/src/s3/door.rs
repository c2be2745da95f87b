//! State shared by the S3 operations: the node, and the memory of uploads.

use std::sync::Arc;

use s3s::{S3Result, s3_error};

use super::{
    upload::{completion::CompletedUploads, upload_buffer::UploadMemory},
    wire::error,
};
use crate::node::{Bucket, Node};

/// State shared by the operations. Cheap to clone.
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

    /// Returns the bucket for reading.
    pub(super) fn readable(&self, name: &str) -> S3Result<&Bucket> {
        self.node.bucket(name).ok_or_else(error::no_such_bucket)
    }

    /// Returns the bucket for writing.
    pub(super) fn writable(&self, name: &str) -> S3Result<&Bucket> {
        let bucket = self.readable(name)?;
        if bucket.rules().read_only {
            Err(s3_error!(AccessDenied, "The bucket is read-only."))
        } else {
            Ok(bucket)
        }
    }
}

/// Refuses a request for a version of an object: the node serves current versions only.
pub(super) fn refuse_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some("null") => Ok(()),
        Some(_) => Err(s3_error!(NotImplemented, "versions of objects cannot be named")),
    }
}
