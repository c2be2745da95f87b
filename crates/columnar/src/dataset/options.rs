//! How rows are spread over the files of a data set, and what becomes of files that are there.

use std::{fmt, str::FromStr};

use stylobate_storage::ByteSize;

/// What becomes of data files that are there. Files of other writers are never replaced or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DatasetMode {
    /// They are an error, whoever wrote them.
    #[default]
    Error,
    /// They stay, and the new files are added.
    Append,
    /// Those that an earlier data set write left there are removed when the new ones are there.
    Overwrite,
    /// The same, only in folders that get new files.
    OverwritePartitions,
}

impl DatasetMode {
    /// Whether files of earlier writes may be removed.
    pub(super) fn overwrites(self) -> bool {
        match self {
            Self::Error | Self::Append => false,
            Self::Overwrite | Self::OverwritePartitions => true,
        }
    }
}

impl fmt::Display for DatasetMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Append => "append",
            Self::Overwrite => "overwrite",
            Self::OverwritePartitions => "overwrite_partitions",
        })
    }
}

/// The name of no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no mode {0:?}: give error, append, overwrite or overwrite_partitions")]
pub struct UnknownDatasetModeError(pub String);

impl FromStr for DatasetMode {
    type Err = UnknownDatasetModeError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.replace('-', "_").as_str() {
            "error" => Ok(Self::Error),
            "append" => Ok(Self::Append),
            "overwrite" => Ok(Self::Overwrite),
            "overwrite_partitions" => Ok(Self::OverwritePartitions),
            _ => Err(UnknownDatasetModeError(name.to_owned())),
        }
    }
}

/// How rows are spread over files.
#[derive(Clone, Debug, Default)]
pub struct DatasetOptions {
    pub(super) partition_by: Vec<String>,
    pub(super) max_file_size: Option<ByteSize>,
    pub(super) mode: DatasetMode,
}

impl DatasetOptions {
    /// Columns whose values name folders; the files do not have them. Default: none.
    pub fn with_partition_by(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.partition_by = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Bytes of a file, about, after which the next begins. Default: no limit.
    pub fn with_max_file_size(mut self, size: ByteSize) -> Self {
        self.max_file_size = Some(size);
        self
    }

    /// What becomes of data files that are there. Default: they are an error.
    pub fn with_mode(mut self, mode: DatasetMode) -> Self {
        self.mode = mode;
        self
    }
}
