//! Options of a data set: its partitioning, file size and write mode.

use std::{fmt, str::FromStr};

use stylobate_storage::ByteSize;

/// Treatment of existing data files. Files of other writers are never replaced or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DatasetMode {
    /// Fails if the folder has any data file, written by any program.
    #[default]
    Error,
    /// Keeps existing files and adds the new ones.
    Append,
    /// Removes the files of earlier data set writes once the new ones exist.
    Overwrite,
    /// Removes the files of earlier data set writes, but only in folders that get new files.
    OverwritePartitions,
}

impl DatasetMode {
    /// Returns `true` if files of earlier writes may be removed.
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

/// Error of an unknown name of a mode.
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

/// Options of a data set.
#[derive(Clone, Debug, Default)]
pub struct DatasetOptions {
    pub(super) partition_by: Vec<String>,
    pub(super) max_file_size: Option<ByteSize>,
    pub(super) mode: DatasetMode,
}

impl DatasetOptions {
    /// Sets the columns whose values name folders; the files lack them. Default: none.
    pub fn with_partition_by(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.partition_by = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the approximate size of a file after which the next one begins. Default: no limit.
    pub fn with_max_file_size(mut self, size: ByteSize) -> Self {
        self.max_file_size = Some(size);
        self
    }

    /// Sets the treatment of existing data files. Default: they are an error.
    pub fn with_mode(mut self, mode: DatasetMode) -> Self {
        self.mode = mode;
        self
    }
}
