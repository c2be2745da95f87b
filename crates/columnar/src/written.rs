//! The rows and bytes of a written file.

/// Result of writing a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of rows.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of row groups, or stripes; 0 in formats that have neither.
    pub row_groups: usize,
}
