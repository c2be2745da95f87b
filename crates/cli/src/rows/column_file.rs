//! Writes rows to a Parquet or ORC file, or to a folder of such files, through sinks.

use anyhow::{Error, Result};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{Stream, StreamExt};
use stylobate_columnar::{DatasetOptions, Error as ColumnarError, FileOptions, TableOutput, WriteFormat};
use stylobate_storage::{Destination, Error as StorageError, Overwrite as Existing, SinkOptions, Sinks};

use super::{ProgressDisplay, WriteTotals, exists};
use crate::failure::usage;

/// The destination and options of a columnar output.
#[derive(Debug)]
pub(crate) struct ColumnFile {
    pub(crate) options: FileOptions,
    pub(crate) destination: Destination,
    pub(crate) existing: Existing,
    /// Layout of a folder of files; `None` for one file.
    pub(crate) dataset: Option<DatasetOptions>,
    pub(crate) sinks: SinkOptions,
}

impl ColumnFile {
    /// Writes all rows. The file becomes visible under its name once it is complete.
    pub(crate) async fn write<E: Into<Error>>(
        self,
        schema: SchemaRef,
        mut batches: impl Stream<Item = Result<RecordBatch, E>> + Unpin,
        progress: &ProgressDisplay,
    ) -> Result<WriteTotals> {
        let Self { options, destination, existing, dataset, sinks } = self;
        let is_dataset = dataset.is_some();
        let refused = |error: ColumnarError| match error {
            ColumnarError::Storage(StorageError::Exists { path }) if is_dataset => {
                usage(format!("{path} has files already: give another folder, or --mode"))
            }
            ColumnarError::Storage(StorageError::Exists { path }) => exists(path),
            error => error.into(),
        };

        let name = destination.to_string();
        let sinks = Sinks::new(sinks);
        let writer =
            TableOutput::create(sinks, &destination, existing, &name, schema, options, dataset.as_ref())
                .await;
        let mut writer = writer.map_err(refused)?;
        let done = progress.setter();

        let mut rows = 0;
        while let Some(batch) = batches.next().await.transpose().map_err(Into::into)? {
            writer.write(&batch).await?;
            rows += batch.num_rows() as u64;
            done(rows, writer.bytes());
        }

        let written = writer.finish().await.map_err(refused)?.written;
        Ok(WriteTotals { rows: written.rows, bytes: written.bytes })
    }
}

/// Returns the file options of a format, with the codec given on the command line.
pub(crate) fn file_options(format: WriteFormat, compression: Option<&str>) -> Result<FileOptions> {
    let options = FileOptions::from(format);
    match compression {
        None => Ok(options),
        Some(codec) => options.with_compression(codec).map_err(|error| usage(error.to_string())),
    }
}
