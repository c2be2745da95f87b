//! Errors of generating, writing and reading back data.

use std::sync::Arc;

use arrow::{datatypes::DataType, error::ArrowError};
use stylobate_storage::BlockingWorkError;

use crate::Benchmark;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scale is not a valid number. Choose another.
    #[error("scale {given}: {reason}")]
    Scale {
        /// The given scale.
        given: String,
        /// The requirement.
        reason: String,
    },

    /// There is no such part. Choose another.
    #[error("part {number} of {of}: {reason}")]
    Part {
        /// The number of the part.
        number: u32,
        /// The number of parts.
        of: u32,
        /// The requirement.
        reason: String,
    },

    /// The benchmark has no such table. Correct its name.
    #[error("{benchmark} has no table {name}; available: {}", available.join(", "))]
    NoSuchTable {
        /// The benchmark.
        benchmark: Benchmark,
        /// The given name.
        name: String,
        /// The existing tables.
        available: Vec<&'static str>,
    },

    /// Rows could not be generated. This is a bug in a generator, at least at this scale.
    #[error("table {table}: {reason}")]
    Generator {
        /// The table.
        table: &'static str,
        /// The generator's message.
        reason: String,
    },

    /// The column has a type that no table uses, and thus no checksum. Leave it out.
    #[error("column {column}: {data_type} has no checksum")]
    NoChecksum {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },

    /// The output contains other files. Choose an empty one, or overwrite.
    #[error("{output}: {reason}")]
    Occupied {
        /// The output.
        output: String,
        /// The files found.
        reason: String,
    },

    /// The output cannot be used. Correct it.
    #[error("{output}: {reason}")]
    Output {
        /// The output.
        output: String,
        /// The problem.
        reason: String,
    },

    /// The manifest is missing or invalid.
    #[error("{manifest}: {reason}")]
    Manifest {
        /// Its expected location.
        manifest: String,
        /// The problem.
        reason: String,
    },

    /// A file does not contain the rows of its table.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// The problem.
        reason: String,
    },

    /// An arrow kernel failed.
    #[error("{context}: {source}")]
    Arrow {
        /// The operation.
        context: String,
        /// The kernel's error.
        source: Arc<ArrowError>,
    },

    /// A file could not be encoded or decoded.
    #[error(transparent)]
    Columnar(#[from] stylobate_columnar::Error),

    /// Bytes could not be written or read.
    #[error(transparent)]
    Storage(#[from] stylobate_storage::Error),

    /// A background task ended without a result: it panicked, or the runtime is shutting down.
    #[error("the work was ended: {reason}")]
    Ended {
        /// The reason.
        reason: String,
    },
}

impl From<BlockingWorkError> for Error {
    fn from(error: BlockingWorkError) -> Self {
        Self::Ended { reason: error.to_string() }
    }
}

impl Error {
    /// Returns a function that adds the operation to a kernel's error.
    pub(crate) fn arrow(context: impl Into<String>) -> impl FnOnce(ArrowError) -> Self {
        let context = context.into();
        move |source| Self::Arrow { context, source: Arc::new(source) }
    }
}
