//! Errors of reads and writes of objects.

use std::{path::PathBuf, sync::Arc};

use crate::redacted;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. It is cheap to clone, since one failed fetch answers every reader that waited for it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The origin has no object at this path. Nothing to retry.
    #[error("{path}: no such object")]
    NotFound {
        /// The path within the store, or the URL of a local file.
        path: String,
    },

    /// The object was replaced while it was being read. Open it again: bytes read so far belong to the old version and
    /// must not be joined with the new one.
    #[error("{path}: object changed during read")]
    Changed {
        /// The path within the store, or the URL of a local file.
        path: String,
    },

    /// A condition of the request does not hold for the object (`If-Match`, `If-Unmodified-Since`, put-if-absent).
    #[error("{path}: precondition failed")]
    Precondition {
        /// The path within the store.
        path: String,
    },

    /// The object is the one the caller already has (`If-None-Match`, `If-Modified-Since`).
    #[error("{path}: not modified")]
    NotModified {
        /// The path within the store.
        path: String,
    },

    /// The range lies outside the object. Ask for a range within `size`.
    #[error("{path}: range {start}..{end} is outside the object of {size} bytes")]
    Range {
        /// The path within the store.
        path: String,
        /// First requested byte.
        start: u64,
        /// One past the last requested byte.
        end: u64,
        /// Size of the object in bytes.
        size: u64,
    },

    /// The origin sent fewer or more bytes than it announced. Retry: nothing of the response was kept.
    #[error("{path}: origin sent {received} of {expected} bytes of {start}..{end}")]
    Truncated {
        /// The path within the store.
        path: String,
        /// First byte of the request.
        start: u64,
        /// One past the last byte of the request.
        end: u64,
        /// Bytes requested.
        expected: u64,
        /// Bytes received.
        received: u64,
    },

    /// The origin did not answer in time, retries included. Retry later, or raise the deadline.
    #[error("{path}: origin did not answer within {deadline_ms} ms")]
    Deadline {
        /// The path within the store.
        path: String,
        /// The deadline that passed, in milliseconds.
        deadline_ms: u64,
    },

    /// The origin cannot hold an object at this path, such as a file whose name is too long. Choose another one.
    #[error("{path}: the origin cannot hold such an object")]
    ImpossiblePath {
        /// The path within the store.
        path: String,
    },

    /// The origin refused or failed; its own error is the source. The text omits URL queries, which may be signed.
    #[error("{path}: {}", redacted(&source.to_string()))]
    Origin {
        /// The path within the store.
        path: String,
        /// The origin's error.
        source: Arc<object_store::Error>,
    },

    /// A file cannot be written; the system's error is the source. Free space, or choose another location.
    #[error("{path}: cannot be written: {source}")]
    Write {
        /// The file, or the path within the store.
        path: PathBuf,
        /// The system's error.
        source: Arc<std::io::Error>,
    },

    /// A file or object of this name exists already, and was not to be replaced. It is unchanged.
    #[error("{path}: exists already")]
    Exists {
        /// The file, or the path within the store.
        path: String,
    },

    /// The file is complete and has its name, but the system failed to make it durable: a power loss may lose it. Write
    /// it again, or check the disk.
    #[error("{path}: written, but may not survive a loss of power: {source}")]
    Unsynced {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: Arc<std::io::Error>,
    },

    /// The upload does not exist: it was completed, aborted, or never begun for this path. Begin a new one.
    #[error("{path}: no such upload")]
    NoSuchUpload {
        /// The path within the store.
        path: String,
    },

    /// The parts of an upload do not make an object. Correct the list of parts.
    #[error("{path}: {reason}")]
    InvalidUpload {
        /// The path within the store.
        path: String,
        /// The problem with them.
        reason: String,
    },

    /// A part of an upload, other than the last one, has too few bytes. Send larger parts.
    #[error("{path}: part {number} has {size} bytes, fewer than {min_size}")]
    PartTooSmall {
        /// The path within the store.
        path: String,
        /// The number of the part.
        number: u32,
        /// Its size in bytes.
        size: u64,
        /// Minimum bytes of each part but the last.
        min_size: u64,
    },

    /// The joined parts do not have the requested checksum. Send them again.
    #[error("{path}: {reason}")]
    WrongChecksum {
        /// The path within the store.
        path: String,
        /// The checksum that differs.
        reason: String,
    },

    /// The origin's URL or one of its options cannot be used. Correct the configuration.
    #[error("origin {url}: {reason}")]
    OriginConfig {
        /// The URL as given, without credentials.
        url: String,
        /// The problem and its remedy.
        reason: String,
    },

    /// The folder of the disk cache belongs to another running process. Stop it, or choose another folder.
    #[error("cache folder {dir} is in use by another process: stop it or choose another folder")]
    CacheLocked {
        /// The folder.
        dir: PathBuf,
    },

    /// The folder of the disk cache cannot be used. Correct its permissions, or choose another folder.
    #[error("cache folder {dir} cannot be used: {source}")]
    CacheFolder {
        /// The folder.
        dir: PathBuf,
        /// The file system's error.
        source: Arc<std::io::Error>,
    },

    /// The cache cannot be built with these options, or failed as a whole. Correct the options.
    #[error("page cache: {reason}")]
    Cache {
        /// The problem and its remedy.
        reason: String,
    },
}

impl Error {
    /// Converts an object store's error about `path` to the kind of error that a caller can act on.
    pub fn from_origin(path: &str, error: object_store::Error) -> Self {
        let path = path.to_owned();
        match error {
            object_store::Error::NotFound { source, .. } if !names_missing_bucket(&*source) => {
                Self::NotFound { path }
            }
            object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. } => {
                Self::Precondition { path }
            }
            object_store::Error::NotModified { .. } => Self::NotModified { path },
            source if is_impossible_file(&source) => Self::NotFound { path },
            source if Self::is_beyond_web_server(&source) => {
                let unable = "the web server cannot do this: without WebDAV, files are read by name only";
                let source = object_store::Error::NotSupported { source: unable.into() };
                Self::Origin { path, source: Arc::new(source) }
            }
            source => Self::Origin { path, source: Arc::new(source) },
        }
    }

    /// Converts an object store's error about a write to `path`: an impossible path is "not found" to a read, and
    /// refused here.
    pub fn from_write(path: &str, error: object_store::Error) -> Self {
        if is_impossible_file(&error) {
            Self::ImpossiblePath { path: path.to_owned() }
        } else {
            Self::from_origin(path, error)
        }
    }

    /// Returns whether a plain web server refused to do more than serve files: to list them, or to change one.
    pub(crate) fn is_beyond_web_server(error: &object_store::Error) -> bool {
        let object_store::Error::Generic { store: "HTTP", source } = error else { return false };
        // The status is in the text only. A page instead of a PROPFIND response is a refusal as well.
        let text = source.to_string();
        ["405 Method Not Allowed", "501 Not Implemented", "PROPFIND"].iter().any(|sign| text.contains(sign))
    }

    /// Wraps the system's error about a write to `path`.
    pub(crate) fn write(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Write { path: path.into(), source: Arc::new(source) }
    }

    /// Returns the error for a target that exists and is not to be replaced.
    pub(crate) fn exists(path: impl AsRef<std::path::Path>) -> Self {
        Self::Exists { path: path.as_ref().display().to_string() }
    }

    /// Returns whether the origin does not support the operation at all, such as a listing of a plain web server.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Origin { source, .. } if matches!(
            **source,
            object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. }
        ))
    }

    /// Returns whether the same request may succeed when it is sent again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Truncated { .. } => true,
            Self::Origin { source, .. } => matches!(**source, object_store::Error::Generic { .. }),
            Self::NotFound { .. }
            | Self::Changed { .. }
            | Self::Precondition { .. }
            | Self::NotModified { .. }
            | Self::Range { .. }
            | Self::Deadline { .. }
            | Self::ImpossiblePath { .. }
            | Self::Write { .. }
            | Self::Exists { .. }
            | Self::Unsynced { .. }
            | Self::NoSuchUpload { .. }
            | Self::InvalidUpload { .. }
            | Self::PartTooSmall { .. }
            | Self::WrongChecksum { .. }
            | Self::OriginConfig { .. }
            | Self::CacheLocked { .. }
            | Self::CacheFolder { .. }
            | Self::Cache { .. } => false,
        }
    }
}

/// Returns whether the bucket itself is missing, which must not be taken for a missing object.
fn names_missing_bucket(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .any(|error| error.to_string().contains("<Code>NoSuchBucket</Code>"))
}

/// Returns whether a folder cannot hold such a file at all: a name that is too long or that its client reserves, a path
/// below a file, a directory's own path.
fn is_impossible_file(error: &object_store::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            use std::io::ErrorKind::{InvalidFilename, IsADirectory, NotADirectory};
            return matches!(error.kind(), InvalidFilename | IsADirectory | NotADirectory);
        }
        cause = error.source();
    }
    // This error has no public type: only its text identifies it.
    matches!(error, object_store::Error::Generic { store: "LocalFileSystem", source }
        if source.to_string().starts_with("Filenames containing trailing"))
}

/// Lets a [`ReadThrough`](crate::ReadThrough) be used as any object store. The source keeps our error:
/// `source.downcast_ref::<stylobate_storage::Error>()` returns it.
impl From<Error> for object_store::Error {
    fn from(error: Error) -> Self {
        match &error {
            Error::NotFound { path } => Self::NotFound { path: path.clone(), source: error.into() },
            Error::Changed { path } | Error::Precondition { path } => {
                Self::Precondition { path: path.clone(), source: error.into() }
            }
            Error::NotModified { path } => Self::NotModified { path: path.clone(), source: error.into() },
            Error::Origin { path, source } => {
                let path = path.clone();
                let source = source.clone();

                match &*source {
                    object_store::Error::PermissionDenied { .. } => {
                        Self::PermissionDenied { path, source: error.into() }
                    }
                    object_store::Error::Unauthenticated { .. } => {
                        Self::Unauthenticated { path, source: error.into() }
                    }
                    object_store::Error::NotSupported { .. } => Self::NotSupported { source: error.into() },
                    _ => Self::Generic { store: "Stylobate", source: error.into() },
                }
            }
            _ => Self::Generic { store: "Stylobate", source: error.into() },
        }
    }
}
