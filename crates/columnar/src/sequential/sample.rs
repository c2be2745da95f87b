//! The part of a text file from which the types of its columns are inferred.

/// The records from which types are inferred. A later value that does not fit is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sample {
    /// All of them: the files are read twice.
    All,
    /// The first N records.
    Rows(u64),
    /// The records of the first N bytes.
    Bytes(u64),
}

impl Sample {
    /// Returns `true` if another record belongs to the sample.
    pub(super) fn has_room(self, rows: u64, bytes: u64) -> bool {
        match self {
            Self::All => true,
            Self::Rows(max) => rows < max,
            Self::Bytes(max) => bytes < max,
        }
    }
}

impl Default for Sample {
    /// Returns the sample of the first 64 MiB.
    fn default() -> Self {
        Self::Bytes(64 << 20)
    }
}
