//! Errors of reading and writing columns of files.

use std::{borrow::Cow, sync::Arc};

use arrow::error::ArrowError;
use stylobate_storage::{BlockingWorkError, Corrupt};

/// Maximum names that an error lists.
const MAX_NAMES: usize = 30;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. Cheap to clone, since all tasks that wait for a chunk get the error of its decode.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of an object could not be read. The source says whether to retry.
    #[error(transparent)]
    Storage(#[from] stylobate_storage::Error),

    /// The path or pattern matches no file. Correct it.
    #[error("{pattern}: no file there")]
    NoFiles {
        /// The path, folder or pattern as given.
        pattern: String,
    },

    /// The path or pattern is malformed. Correct it.
    #[error("{pattern}: {reason}")]
    Pattern {
        /// The path, folder or pattern as given.
        pattern: String,
        /// The cause.
        reason: String,
    },

    /// The file is neither Parquet nor ORC. Leave it out.
    #[error("{object}: neither a Parquet nor an ORC file")]
    Format {
        /// The object.
        object: String,
    },

    /// The Parquet file, or the requested columns, are encrypted. Pass the keys to
    /// [`ScanRequest::with_decryption`](crate::ScanRequest::with_decryption).
    #[error("{object}: the file is encrypted: give decryption=… with its keys")]
    Encrypted {
        /// The object.
        object: String,
    },

    /// The keys do not decrypt the file. Pass those with which it was written; if they are right, the file is corrupt.
    #[error("{object}: {}cannot be decrypted with the keys given: {reason}", location_prefix(None, .column.as_deref(), None))]
    Decryption {
        /// The object.
        object: String,
        /// The requested column; `None` for the footer.
        column: Option<String>,
        /// The error of the decryption.
        reason: String,
    },

    /// Bytes of the file violate its format. Write the file again from its source.
    #[error("{object}: {}corrupt: {reason}", location_prefix(*.row_group, .column.as_deref(), *.offset))]
    Corrupt {
        /// The object.
        object: String,
        /// Row group of a Parquet file or stripe of an ORC file, from 0; `None` for the footer.
        row_group: Option<usize>,
        /// The dotted path of the column.
        column: Option<String>,
        /// Offset of the bytes in the object.
        offset: Option<u64>,
        /// The violation.
        reason: String,
    },

    /// A line of a text file cannot be parsed. Correct the file or the options.
    #[error("{object}: line {line}: {}{reason}", location_prefix(None, .column.as_deref(), None))]
    Text {
        /// The object.
        object: String,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: Option<String>,
        /// The cause and the remedy.
        reason: String,
    },

    /// The file is valid, and uses a feature that this crate cannot read.
    #[error("{object}: {}{reason}", location_prefix(None, .column.as_deref(), None))]
    Unsupported {
        /// The object.
        object: String,
        /// The column.
        column: Option<String>,
        /// The feature.
        reason: String,
    },

    /// The values of a batch exceed the 2 GiB that the offsets of one array can address, even in a batch of one
    /// row. Leave the column out.
    #[error("{object}: {}{reason}", location_prefix(None, .column.as_deref(), None))]
    BatchTooLong {
        /// The object.
        object: String,
        /// The column.
        column: Option<String>,
        /// The error of the decoder.
        reason: String,
    },

    /// A file cannot be written: its format lacks a type, or a value does not fit. Change the column or the options; no
    /// file was written.
    #[error("{object}: {}{reason}", location_prefix(None, .column.as_deref(), None))]
    Unwritable {
        /// The file.
        object: String,
        /// The column.
        column: Option<String>,
        /// The cause.
        reason: String,
    },

    /// An option has an invalid value. Correct it.
    #[error("{}{reason}", location_prefix(None, .column.as_deref(), None))]
    Option {
        /// The column of the option.
        column: Option<String>,
        /// The cause.
        reason: String,
    },

    /// No file has the column. Correct its name.
    #[error("no column {column}; available: {}", first_of(available))]
    NoSuchColumn {
        /// The requested column.
        column: String,
        /// The existing columns, separated by commas.
        available: String,
    },

    /// A column's type in a file cannot be merged with that in other files. Scan the files separately.
    #[error("{object}: column {column}: {reason}")]
    Schema {
        /// The object.
        object: String,
        /// The column.
        column: String,
        /// Both types.
        reason: String,
    },

    /// The filter is malformed, or does not fit the columns. Correct it.
    #[error("filter: {reason}")]
    Predicate {
        /// The cause.
        reason: String,
    },

    /// A value cannot be represented in the requested type: an arrow kernel's error.
    #[error("{context}: {source}")]
    Arrow {
        /// The operation.
        context: String,
        /// The kernel's error.
        source: Arc<ArrowError>,
    },

    /// A background task ended without a result: it panicked, or the runtime is shutting down.
    #[error("the scan was ended: {reason}")]
    Ended {
        /// The cause.
        reason: String,
    },
}

impl From<BlockingWorkError> for Error {
    fn from(error: BlockingWorkError) -> Self {
        Self::Ended { reason: error.to_string() }
    }
}

impl Error {
    /// Returns the error of a corrupt object, without a row group and a column.
    pub(crate) fn corrupt(object: impl Into<String>, corrupt: impl Into<Corrupt>) -> Self {
        let Corrupt { offset, reason } = corrupt.into();
        let reason = reason.into_owned();
        Self::Corrupt { object: object.into(), row_group: None, column: None, offset, reason }
    }

    /// Returns the error of a value that does not fit the type of its column in the table.
    pub(crate) fn misfit(object: String, column: &str, error: &ArrowError) -> Self {
        let reason = match error {
            ArrowError::CastError(reason) => reason.clone(),
            other => other.to_string(),
        };
        Self::Schema { object, column: column.to_owned(), reason }
    }

    /// Adds the operation to a kernel's error.
    pub(crate) fn arrow(context: impl Into<String>) -> impl FnOnce(ArrowError) -> Self {
        let context = context.into();
        move |source| Self::Arrow { context, source: Arc::new(source) }
    }
}

/// Formats the location of an error, as a prefix of its reason.
fn location_prefix(row_group: Option<usize>, column: Option<&str>, offset: Option<u64>) -> String {
    let mut prefix = String::new();
    if let Some(row_group) = row_group {
        prefix += &format!("row group {row_group}, ");
    }
    if let Some(column) = column {
        prefix += &format!("column {column}, ");
    }
    if let Some(offset) = offset {
        prefix += &format!("offset {offset}, ");
    }

    match prefix.strip_suffix(", ") {
        Some(prefix) => format!("{prefix}: "),
        None => String::new(),
    }
}

/// Shortens a list of names to the first [`MAX_NAMES`] and the number of others: a file may have thousands.
fn first_of(names: &str) -> Cow<'_, str> {
    match names.match_indices(", ").nth(MAX_NAMES - 1) {
        None => names.into(),
        Some((end, _)) => {
            let (first, rest) = names.split_at(end);
            format!("{first} and {} more", rest.matches(", ").count()).into()
        }
    }
}
