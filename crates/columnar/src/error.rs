//! What can go wrong between a file and its columns.

use std::{borrow::Cow, sync::Arc};

use arrow::error::ArrowError;

/// How many names an error lists.
const NAMED: usize = 30;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. Cheap to clone, since all who wait for one chunk get the error of the one decode.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of an object could not be had. The source says whether to retry.
    #[error(transparent)]
    Storage(#[from] stylobate_storage::Error),

    /// Nothing is where the scan was to look. Correct the path or the pattern.
    #[error("{pattern}: no file there")]
    NoFiles {
        /// The path, folder or pattern as given.
        pattern: String,
    },

    /// The path or pattern cannot be understood. Correct it.
    #[error("{pattern}: {reason}")]
    Pattern {
        /// The path, folder or pattern as given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The file is neither Parquet nor ORC. Leave it out.
    #[error("{object}: neither a Parquet nor an ORC file")]
    Format {
        /// The object.
        object: String,
    },

    /// The Parquet file, or the columns asked for, are encrypted. Give the keys, with
    /// [`ScanRequest::with_decryption`](crate::ScanRequest::with_decryption).
    #[error("{object}: the file is encrypted: give decryption=… with its keys")]
    Encrypted {
        /// The object.
        object: String,
    },

    /// The keys given do not decrypt the file. Give those that it was written with; if they are right, it is corrupt.
    #[error("{object}: {}cannot be decrypted with the keys given: {reason}", place(None, .column.as_deref(), None))]
    Decryption {
        /// The object.
        object: String,
        /// The column that was asked for; `None` for the footer.
        column: Option<String>,
        /// What the decryption says.
        reason: String,
    },

    /// Bytes of the file are not what its format says they are. Write it again from its source.
    #[error("{object}: {}corrupt: {reason}", place(*.row_group, .column.as_deref(), *.offset))]
    Corrupt {
        /// The object.
        object: String,
        /// Row group of a Parquet file or stripe of an ORC file, from 0; `None` for the footer.
        row_group: Option<usize>,
        /// The column, with dots between the names of its fields.
        column: Option<String>,
        /// Where in the object the bytes begin.
        offset: Option<u64>,
        /// What is wrong with them.
        reason: String,
    },

    /// A line of a text file cannot be read as it should be. Correct the file, or the options.
    #[error("{object}: line {line}: {}{reason}", place(None, .column.as_deref(), None))]
    Text {
        /// The object.
        object: String,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: Option<String>,
        /// What is wrong, and what to do.
        reason: String,
    },

    /// The file is right, and uses what this crate cannot read.
    #[error("{object}: {}{reason}", place(None, .column.as_deref(), None))]
    Unsupported {
        /// The object.
        object: String,
        /// The column.
        column: Option<String>,
        /// What it uses.
        reason: String,
    },

    /// A file cannot be written so: its format has no such type, or a value does not fit. Change the column or the
    /// options; there is no file.
    #[error("{object}: {}{reason}", place(None, .column.as_deref(), None))]
    Unwritable {
        /// The file.
        object: String,
        /// The column.
        column: Option<String>,
        /// What is wrong.
        reason: String,
    },

    /// An option has a value that means nothing. Correct it.
    #[error("{}{reason}", place(None, .column.as_deref(), None))]
    Option {
        /// The column that it is of.
        column: Option<String>,
        /// What is wrong with it.
        reason: String,
    },

    /// No file has such a column. Correct its name.
    #[error("no column {column}: there are {}", first_of(available))]
    NoSuchColumn {
        /// The column asked for.
        column: String,
        /// The columns there are, with commas.
        available: String,
    },

    /// A file's column has a type that cannot become the type that other files give it. Scan them apart.
    #[error("{object}: column {column}: {reason}")]
    Schema {
        /// The object.
        object: String,
        /// The column.
        column: String,
        /// Both types.
        reason: String,
    },

    /// The filter cannot be understood, or does not fit the columns. Correct it.
    #[error("filter: {reason}")]
    Predicate {
        /// What is wrong with it.
        reason: String,
    },

    /// A value cannot be represented as asked: an arrow kernel's error.
    #[error("{context}: {source}")]
    Arrow {
        /// What was being done.
        context: String,
        /// The kernel's error.
        source: Arc<ArrowError>,
    },

    /// Work in the background was ended before it had an answer: the runtime is shutting down.
    #[error("the scan was ended: {reason}")]
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

fn place(row_group: Option<usize>, column: Option<&str>, offset: Option<u64>) -> String {
    let mut place = String::new();
    if let Some(row_group) = row_group {
        place += &format!("row group {row_group}, ");
    }
    if let Some(column) = column {
        place += &format!("column {column}, ");
    }
    if let Some(offset) = offset {
        place += &format!("offset {offset}, ");
    }
    match place.strip_suffix(", ") {
        Some(place) => format!("{place}: "),
        None => String::new(),
    }
}
/// The first of many names, and how many more there are: a file may have thousands.
fn first_of(names: &str) -> Cow<'_, str> {
    match names.match_indices(", ").nth(NAMED - 1) {
        None => names.into(),
        Some((end, _)) => {
            let (first, rest) = names.split_at(end);
            format!("{first} and {} more", rest.matches(", ").count()).into()
        }
    }
}
