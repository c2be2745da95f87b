//! The mark in the footer of each file that a data set was written with: only such files may be removed by a later write.

/// Key of the mark among the metadata of a file.
pub(crate) const DATASET_KEY: &str = "stylobate.dataset";
/// Value of the mark.
pub(crate) const DATASET_VALUE: &str = "part";

/// What the last bytes of a file say about its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailOrigin {
    /// A write of a data set by this library.
    Dataset,
    /// Anything else.
    Foreign,
    /// That many bytes are needed to tell.
    Needs(u64),
}

impl TailOrigin {
    /// The origin of a file, by whether this library wrote it and the mark that it has.
    pub(crate) fn of(is_own_writer: bool, mark: Option<&[u8]>) -> Self {
        match is_own_writer && mark == Some(DATASET_VALUE.as_bytes()) {
            true => Self::Dataset,
            false => Self::Foreign,
        }
    }
}
