//! What can go wrong while data is made, written or read back.

use std::sync::Arc;

use arrow::error::ArrowError;

use crate::Benchmark;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scale is no number that data can be made of. Give another.
    #[error("scale {given}: {reason}")]
    Scale {
        /// What was given.
        given: String,
        /// What is needed.
        reason: String,
    },

    /// There is no such part. Give another.
    #[error("part {number} of {of}: {reason}")]
    Part {
        /// The part.
        number: u32,
        /// Of how many.
        of: u32,
        /// What is needed.
        reason: String,
    },

    /// The benchmark has no such table. Correct its name.
    #[error("{benchmark} has no table {name}: there are {}", available.join(", "))]
    NoSuchTable {
        /// The benchmark.
        benchmark: Benchmark,
        /// The name as given.
        name: String,
        /// The tables there are.
        available: Vec<&'static str>,
    },

    /// Rows could not be made. This is a fault of a generator, at this scale at least.
    #[error("table {table}: {reason}")]
    Generator {
        /// The table.
        table: &'static str,
        /// What happened.
        reason: String,
    },

    /// The place for the files holds something else. Give an empty one, or overwrite.
    #[error("{output}: {reason}")]
    Occupied {
        /// The place.
        output: String,
        /// What is there.
        reason: String,
    },

    /// The place for the files cannot be used. Correct it.
    #[error("{output}: {reason}")]
    Output {
        /// The place.
        output: String,
        /// What is wrong with it.
        reason: String,
    },

    /// There is no manifest, or none that can be understood.
    #[error("{manifest}: {reason}")]
    Manifest {
        /// Where it was looked for.
        manifest: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A file does not hold what its table is made of.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },

    /// An arrow kernel failed.
    #[error("{context}: {source}")]
    Arrow {
        /// What was being done.
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

    /// Work in the background was ended before it was done: the runtime is shutting down.
    #[error("the work was ended: {reason}")]
    Ended {
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Names what was being done when a kernel failed.
    pub(crate) fn arrow(context: impl Into<String>) -> impl FnOnce(ArrowError) -> Self {
        let context = context.into();
        move |source| Self::Arrow { context, source: Arc::new(source) }
    }
}
