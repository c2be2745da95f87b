//! Error of parsing a name that GraphAr does not define.

/// GraphAr has no such file type, data type, cardinality or order. Correct the name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} {name:?}: {known}")]
pub struct UnknownNameError {
    /// Kind of the name.
    pub kind: &'static str,
    /// Unknown name.
    pub name: String,
    /// Known names.
    pub known: &'static str,
}
