//! Writes rows to one Parquet or ORC file, or to a folder of them.

use std::{fmt::Display, str::FromStr};

use anyhow::{Error, Result};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{Stream, StreamExt};
use stylobate_columnar::{
    DatasetOptions, DatasetWriter, Error as ColumnarError, FileOptions,
    orc::{OrcOptions, OrcWriter},
    parquet::{ColumnOptions, ParquetOptions, ParquetWriter},
};
use stylobate_storage::{
    ByteSize, Destination as Place, Error as StorageError, Overwrite as Existing, SinkOptions, Sinks,
};

use super::{ProgressDisplay, WriteTotals, exists};
use crate::failure::usage;

/// A columnar file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnFormat {
    Parquet,
    Orc,
}

/// The destination and options of a columnar output.
#[derive(Debug)]
pub(crate) struct ColumnFile<'a> {
    pub(crate) format: ColumnFormat,
    pub(crate) place: Place,
    pub(crate) existing: Existing,
    /// Layout of a folder of files; `None` for one file.
    pub(crate) dataset: Option<DatasetOptions>,
    pub(crate) compression: Option<&'a str>,
    pub(crate) row_group_rows: usize,
    /// Memory of the writer; `None` for its default.
    pub(crate) memory: Option<ByteSize>,
    pub(crate) sinks: SinkOptions,
}

enum ColumnFileWriter {
    Parquet(Box<ParquetWriter>),
    Orc(Box<OrcWriter>),
    Dataset(Box<DatasetWriter>),
}

impl ColumnFile<'_> {
    /// Writes all rows. The file appears under its name when it is complete.
    pub(crate) async fn write<E: Into<Error>>(
        self,
        schema: SchemaRef,
        mut batches: impl Stream<Item = Result<RecordBatch, E>> + Unpin,
        progress: &ProgressDisplay,
    ) -> Result<WriteTotals> {
        let is_dataset = self.dataset.is_some();
        let refused = |error: ColumnarError| match error {
            ColumnarError::Storage(StorageError::Exists { path }) if is_dataset => {
                usage(format!("{path} has files already: give another folder, or --mode"))
            }
            ColumnarError::Storage(StorageError::Exists { path }) => exists(path),
            error => error.into(),
        };

        let files = self.files()?;
        let mut writer = self.writer(files, schema).await.map_err(refused)?;
        let done = progress.setter();

        let mut rows = 0;
        while let Some(batch) = batches.next().await.transpose().map_err(Into::into)? {
            writer.write(&batch).await?;
            rows += batch.num_rows() as u64;
            done(rows, writer.bytes());
        }

        writer.finish().await.map_err(refused)
    }

    async fn writer(&self, files: FileOptions, schema: SchemaRef) -> Result<ColumnFileWriter, ColumnarError> {
        let name = self.place.to_string();
        let sinks = Sinks::new(self.sinks.clone());
        if let Some(dataset) = &self.dataset {
            let writer = DatasetWriter::create(sinks, self.place.clone(), name, schema, files, dataset);
            return Ok(ColumnFileWriter::Dataset(Box::new(writer.await?)));
        }

        let sink = sinks.open(&self.place, self.existing).await?;
        Ok(match files {
            FileOptions::Parquet(options) => {
                ColumnFileWriter::Parquet(Box::new(ParquetWriter::new(sink, name, schema, *options)?))
            }
            FileOptions::Orc(options) => {
                ColumnFileWriter::Orc(Box::new(OrcWriter::new(sink, name, schema, *options)?))
            }
        })
    }

    fn files(&self) -> Result<FileOptions> {
        Ok(match self.format {
            ColumnFormat::Parquet => {
                let mut all = ColumnOptions::default();
                if let Some(text) = self.compression {
                    all = all.with_compression(parsed(text)?);
                }

                let mut options =
                    ParquetOptions::default().with_all_columns(all).with_row_group_rows(self.row_group_rows);
                if let Some(memory) = self.memory {
                    options = options.with_memory(memory);
                }

                options.into()
            }
            ColumnFormat::Orc => {
                let mut options = OrcOptions::default();
                if let Some(text) = self.compression {
                    options = options.with_compression(parsed(text)?);
                }
                if let Some(memory) = self.memory {
                    options = options.with_memory(memory);
                }
                options.into()
            }
        })
    }
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error: T::Err| usage(error.to_string()))
}

impl ColumnFileWriter {
    async fn write(&mut self, batch: &RecordBatch) -> Result<(), ColumnarError> {
        match self {
            Self::Parquet(writer) => writer.write(batch).await,
            Self::Orc(writer) => writer.write(batch).await,
            Self::Dataset(writer) => writer.write(batch).await,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Parquet(writer) => writer.bytes(),
            Self::Orc(writer) => writer.bytes(),
            Self::Dataset(writer) => writer.bytes(),
        }
    }

    async fn finish(self) -> Result<WriteTotals, ColumnarError> {
        match self {
            Self::Parquet(writer) => {
                let written = writer.finish().await?;
                Ok(WriteTotals { rows: written.rows, bytes: written.bytes })
            }
            Self::Orc(writer) => {
                let written = writer.finish().await?;
                Ok(WriteTotals { rows: written.rows, bytes: written.bytes })
            }
            Self::Dataset(writer) => {
                let written = writer.finish().await?.written;
                Ok(WriteTotals { rows: written.rows, bytes: written.bytes })
            }
        }
    }
}
