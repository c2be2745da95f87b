//! Writes a table to one file, or to a folder of files.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_recursion::async_recursion as boxed;
use stylobate_storage::{Destination, Overwrite, Sinks};

use super::{
    options::DatasetOptions,
    writer::{DatasetWriter, WrittenDataset},
};
use crate::{FileOptions, Result, TableWriter};

/// Writer of record batches to one file or to a data set. If it is dropped before it is finished, no files are left.
#[derive(Debug)]
pub enum TableOutput {
    /// One file.
    File(TableWriter),
    /// A data set below a folder.
    Folder(Box<DatasetWriter>),
}

impl TableOutput {
    /// Opens `destination`. With `dataset` it is a folder, and the mode of the data set governs existing files;
    /// otherwise it is one file, governed by `overwrite`. `name` is used in errors. Must be used within a tokio
    /// runtime.
    #[boxed]
    pub async fn create(
        sinks: Sinks,
        destination: &Destination,
        overwrite: Overwrite,
        name: &str,
        schema: SchemaRef,
        options: FileOptions,
        dataset: Option<&DatasetOptions>,
    ) -> Result<Self> {
        if let Some(dataset) = dataset {
            let name = name.to_owned();
            let writer = DatasetWriter::create(sinks, destination.clone(), name, schema, options, dataset);
            return Ok(Self::Folder(Box::new(writer.await?)));
        }

        let sink = sinks.open(destination, overwrite).await?;
        Ok(Self::File(TableWriter::new(sink, name, schema, options)?))
    }

    /// Returns the number of rows accepted so far.
    pub fn rows(&self) -> u64 {
        match self {
            Self::File(writer) => writer.rows(),
            Self::Folder(dataset) => dataset.rows(),
        }
    }

    /// Returns the number of bytes passed to files so far.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::File(writer) => writer.bytes(),
            Self::Folder(dataset) => dataset.bytes(),
        }
    }

    /// Appends a batch, whose columns must have the types of the schema.
    #[boxed]
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::File(writer) => writer.write(batch).await,
            Self::Folder(dataset) => dataset.write(batch).await,
        }
    }

    /// Writes the rest, and publishes the files under their names. Lists the files of a data set, but not a single
    /// file.
    #[boxed]
    pub async fn finish(self) -> Result<WrittenDataset> {
        match self {
            Self::File(writer) => Ok(WrittenDataset { written: writer.finish().await?, files: Vec::new() }),
            Self::Folder(dataset) => dataset.finish().await,
        }
    }
}
