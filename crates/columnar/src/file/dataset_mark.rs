//! The mark in the footer of each file of a data set: a later write removes only files with it.

/// Key of the mark in the metadata of a file.
pub(crate) const DATASET_KEY: &str = "stylobate.dataset";
/// Value of the mark.
pub(crate) const DATASET_VALUE: &str = "part";

/// The writer of a file, according to its last bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailOrigin {
    /// A data set writer of this library.
    Dataset,
    /// Anything else.
    Foreign,
    /// Unknown until this number of bytes is read.
    Needs(u64),
}

impl TailOrigin {
    /// Returns the origin of a file with this mark.
    pub(crate) fn of(is_own_writer: bool, mark: Option<&[u8]>) -> Self {
        if is_own_writer && mark == Some(DATASET_VALUE.as_bytes()) { Self::Dataset } else { Self::Foreign }
    }
}
