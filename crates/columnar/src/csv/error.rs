//! Errors of the CSV reader, which reads any input and so cannot name a file.

use std::io;

use arrow::error::ArrowError;

use super::RecordError;

/// An error of a [`CsvReader`](crate::CsvReader). It does not name the file: the caller adds it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsvError {
    /// The delimiter is a quote or a line end. Choose another.
    #[error("{reason}")]
    Delimiter {
        /// The cause.
        reason: String,
    },

    /// The input could not be read. The source says whether to retry.
    #[error(transparent)]
    Read(#[from] io::Error),

    /// The text is not CSV. Correct the file.
    #[error("line {line}: {reason}")]
    Syntax {
        /// The line, from 1.
        line: u64,
        /// The cause and the remedy.
        reason: String,
    },

    /// The header is missing or is not UTF-8. Correct the file.
    #[error("{reason}")]
    Header {
        /// The cause.
        reason: &'static str,
    },

    /// The header lacks a selected column. Correct its name.
    #[error("its header has no column {column}")]
    NoSuchColumn {
        /// The selected column.
        column: String,
    },

    /// A record has a different number of fields than the header, or is not UTF-8. Correct the file.
    #[error("row {row}: {reason}")]
    Row {
        /// The row, from 0.
        row: u64,
        /// The cause.
        reason: String,
    },

    /// A value does not have the type of its column. Select the column with another type.
    #[error("column {column}: {source}")]
    Value {
        /// The column.
        column: String,
        /// The error of the cast.
        source: ArrowError,
    },

    /// The columns do not form a batch: a non-nullable column has nulls.
    #[error(transparent)]
    Batch(ArrowError),
}

impl From<RecordError> for CsvError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Read(error) => Self::Read(error),
            RecordError::Syntax { line, reason } => Self::Syntax { line, reason },
        }
    }
}
