//! Errors of queries and tables.

use datafusion::error::DataFusionError;
use stylobate_columnar::Error as ScanError;
use stylobate_storage::Error as StorageError;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Files could not be found or read. The source names the remedy.
    #[error(transparent)]
    Scan(#[from] ScanError),

    /// The SQL is malformed, names something that does not exist, or has types that do not match. Correct it.
    #[error("{reason}")]
    Query {
        /// The cause.
        reason: String,
    },

    /// A table of the query does not exist. Add it, or correct its name.
    #[error("no table {table}: {hint}")]
    NoSuchTable {
        /// The name in the query.
        table: String,
        /// Tables that exist, or the remedy.
        hint: String,
    },

    /// The query needs more memory than is available. Allow more, or read fewer columns or rows.
    #[error("out of memory: {reason}")]
    Memory {
        /// The operator that needs the memory, and the amount.
        reason: String,
    },

    /// A value of the query cannot be computed, such as a division by zero. Correct the query or the data.
    #[error("{reason}")]
    Value {
        /// The cause.
        reason: String,
    },

    /// A node of the cluster was lost while a query ran, and a rerun failed or was not possible. Run the query again.
    #[error("{reason}")]
    LostNode {
        /// The node, and the failure.
        reason: String,
    },

    /// The temporary folder for spilled data is not usable. Choose another one.
    #[error("spill folder {path}: {source}")]
    Spill {
        /// The folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },

    /// DataFusion failed in another way.
    #[error("{reason}")]
    Engine {
        /// The cause.
        reason: String,
    },
}

/// Prefix of the error of a lost node, which identifies it after it passed through other nodes.
pub(crate) const LOST_NODE: &str = "lost the node ";

/// Prefix of the error of a replaced file, as it passes through other nodes.
const REPLACED_FILE: &str = "a file was replaced while it was read: ";

/// Converts an error of a scan to a form that stays recognizable after it passed through other nodes, which forward
/// errors as text.
#[cfg(feature = "distributed")]
pub(crate) fn for_other_nodes(error: DataFusionError) -> DataFusionError {
    let DataFusionError::External(source) = &error else { return error };
    match source.downcast_ref::<ScanError>() {
        Some(ScanError::Storage(StorageError::Changed { path })) => {
            DataFusionError::Execution(format!("{REPLACED_FILE}{path}"))
        }
        _ => error,
    }
}

/// Wraps an error of a scan for DataFusion, which passes it through plans and back to [`Error::from`].
pub(crate) fn external(error: ScanError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns the root cause of an error.
pub(crate) fn innermost(error: &DataFusionError) -> &DataFusionError {
    let mut root = error.find_root();
    loop {
        root = match root {
            DataFusionError::Collection(all) => match all.first() {
                Some(first) => first.find_root(),
                None => return root,
            },
            DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => inner.find_root(),
            DataFusionError::Shared(inner) => inner.find_root(),
            _ => return root,
        };
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        let root = innermost(&error);

        let reason = one_line(&root.strip_backtrace());
        match root {
            DataFusionError::External(source) => match source.downcast_ref::<ScanError>() {
                Some(scan) => Self::Scan(scan.clone()),
                None => Self::Engine { reason: one_line(&source.to_string()) },
            },
            DataFusionError::SQL(parser, _) => {
                let text = parser.to_string();
                let text = text.trim_start_matches("sql parser error: ");
                Self::Query { reason: format!("the SQL does not parse: {}", one_line(text)) }
            }
            DataFusionError::Plan(_)
            | DataFusionError::SchemaError(..)
            | DataFusionError::NotImplemented(_)
            | DataFusionError::Configuration(_) => Self::Query { reason: without_prefix(&reason) },
            DataFusionError::ResourcesExhausted(_) => Self::Memory { reason: without_prefix(&reason) },
            DataFusionError::ArrowError(source, _) => Self::Value { reason: one_line(&source.to_string()) },
            DataFusionError::Execution(text) if text.starts_with(LOST_NODE) => {
                Self::LostNode { reason: one_line(text) }
            }
            DataFusionError::Execution(text) if text.starts_with(REPLACED_FILE) => {
                let path = text.trim_start_matches(REPLACED_FILE).to_owned();
                Self::Scan(StorageError::Changed { path }.into())
            }
            DataFusionError::Execution(_) => Self::Value { reason: without_prefix(&reason) },
            _ => Self::Engine { reason },
        }
    }
}

/// Returns the name of the table that DataFusion did not find.
pub(crate) fn missing_table(reason: &str) -> Option<&str> {
    let named = reason.strip_prefix("table '").or_else(|| reason.strip_prefix("Table '"))?;
    named.split_once("' not found").map(|(table, _)| table)
}

/// Joins the lines of a text.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes DataFusion's prefix for the kind of error.
fn without_prefix(text: &str) -> String {
    const KINDS: [&str; 6] = [
        "Error during planning: ",
        "Schema error: ",
        "This feature is not implemented: ",
        "Invalid or Unsupported Configuration: ",
        "Resources exhausted: ",
        "Execution error: ",
    ];
    KINDS.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text).to_owned()
}
