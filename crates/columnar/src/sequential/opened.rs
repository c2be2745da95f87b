//! The opened files of a scan, in any of the formats.

use arrow::datatypes::SchemaRef;
use stylobate_storage::OpenObject;
use tokio::runtime::Handle;

use super::{
    SequentialFormat,
    csv::CsvFiles,
    ipc::ArrowFiles,
    json::JsonFiles,
    reading::{BatchCallback, SequentialReadOptions},
};
use crate::{Predicate, Result};

/// Files whose columns are known.
pub(super) enum SequentialFiles {
    Csv(CsvFiles),
    Json(JsonFiles),
    Arrow(ArrowFiles),
}

impl SequentialFiles {
    /// Finds the columns. Blocks, so it must not be used within an async task.
    pub(super) fn open(
        files: Vec<OpenObject>,
        format: SequentialFormat,
        columns: Option<&[String]>,
        filter: Option<&Predicate>,
        runtime: &Handle,
    ) -> Result<Self> {
        Ok(match format {
            SequentialFormat::Csv(options) => {
                Self::Csv(CsvFiles::open(files, options, columns, filter, runtime)?)
            }
            SequentialFormat::Json(options) => {
                Self::Json(JsonFiles::open(files, options, columns, filter, runtime)?)
            }
            SequentialFormat::Arrow => Self::Arrow(ArrowFiles::open(files, columns, filter, runtime)?),
        })
    }

    /// Returns the columns that may be read.
    pub(super) fn schema(&self) -> &SchemaRef {
        match self {
            Self::Csv(files) => files.schema(),
            Self::Json(files) => files.schema(),
            Self::Arrow(files) => files.schema(),
        }
    }

    /// Returns the number of rows, if known.
    pub(super) fn rows(&self) -> Option<u64> {
        match self {
            Self::Csv(files) => files.rows(),
            Self::Json(files) => files.rows(),
            Self::Arrow(_) => None,
        }
    }

    /// Reads all rows until `emit` breaks. Blocks, as [`Self::open`] does.
    pub(super) fn read(&self, reading: &SequentialReadOptions<'_>, emit: BatchCallback<'_>) -> Result<()> {
        match self {
            Self::Csv(files) => files.read(reading, emit),
            Self::Json(files) => files.read(reading, emit),
            Self::Arrow(files) => files.read(reading, emit),
        }
    }
}
