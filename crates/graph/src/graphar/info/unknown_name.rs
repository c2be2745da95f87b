//! The error of reading a name that GraphAr does not have.

/// GraphAr has no such file type, data type, cardinality or order. Correct the name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} {name:?}: {known}")]
pub struct UnknownNameError {
    /// What was to be named.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// The names there are.
    pub known: &'static str,
}
