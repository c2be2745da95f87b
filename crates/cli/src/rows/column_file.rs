//! Rows into one Parquet or ORC file.

use std::{fmt::Display, str::FromStr};

use anyhow::{Error, Result};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{Stream, StreamExt};
use stylobate_columnar::{
    ColumnOptions, Error as ColumnarError, OrcOptions, OrcWriter, ParquetOptions, ParquetWriter,
};
use stylobate_storage::{
    ByteSize, Destination as Place, Error as StorageError, Overwrite as Existing, Sink, SinkOptions, Sinks,
};

use super::{Drained, Progress, exists};
use crate::failure::usage;

/// What has columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnFormat {
    Parquet,
    Orc,
}

/// How the file is written.
#[derive(Debug)]
pub(crate) struct ColumnFile<'a> {
    pub(crate) format: ColumnFormat,
    pub(crate) place: Place,
    pub(crate) existing: Existing,
    pub(crate) compression: Option<&'a str>,
    pub(crate) row_group_rows: usize,
    /// What the writer may take; without it, what writers take by themselves.
    pub(crate) memory: Option<ByteSize>,
    pub(crate) sinks: SinkOptions,
}

enum Writer {
    Parquet(Box<ParquetWriter>),
    Orc(Box<OrcWriter>),
}

impl ColumnFile<'_> {
    /// Writes all rows. The file has its name when it is whole.
    pub(crate) async fn write<E: Into<Error>>(
        self,
        schema: SchemaRef,
        mut batches: impl Stream<Item = Result<RecordBatch, E>> + Unpin,
        progress: &Progress,
    ) -> Result<Drained> {
        let refused = |error: StorageError| match error {
            StorageError::Exists { path } => exists(path),
            error => error.into(),
        };
        let sink = Sinks::new(self.sinks.clone()).open(&self.place, self.existing).await.map_err(refused)?;
        let mut writer = self.writer(sink, schema)?;
        let (done, mut rows) = (progress.setter(), 0);
        while let Some(batch) = batches.next().await.transpose().map_err(Into::into)? {
            writer.write(&batch).await?;
            rows += batch.num_rows() as u64;
            done(rows, writer.bytes());
        }
        let written = writer.finish().await.map_err(|error| match error {
            ColumnarError::Storage(error) => refused(error),
            error => error.into(),
        })?;
        Ok(written)
    }

    fn writer(&self, sink: Box<dyn Sink>, schema: SchemaRef) -> Result<Writer> {
        let name = self.place.to_string();
        let compression = self.compression;
        Ok(match self.format {
            ColumnFormat::Parquet => {
                let mut all = ColumnOptions::default();
                if let Some(text) = compression {
                    all = all.with_compression(parsed(text)?);
                }
                let mut options =
                    ParquetOptions::default().with_all_columns(all).with_row_group_rows(self.row_group_rows);
                if let Some(memory) = self.memory {
                    options = options.with_memory(memory);
                }
                Writer::Parquet(Box::new(ParquetWriter::new(sink, name, schema, options)?))
            }
            ColumnFormat::Orc => {
                let mut options = OrcOptions::default();
                if let Some(text) = compression {
                    options = options.with_compression(parsed(text)?);
                }
                if let Some(memory) = self.memory {
                    options = options.with_memory(memory);
                }
                Writer::Orc(Box::new(OrcWriter::new(sink, name, schema, options)?))
            }
        })
    }
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error: T::Err| usage(error.to_string()))
}

impl Writer {
    async fn write(&mut self, batch: &RecordBatch) -> Result<(), ColumnarError> {
        match self {
            Self::Parquet(writer) => writer.write(batch).await,
            Self::Orc(writer) => writer.write(batch).await,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Parquet(writer) => writer.bytes(),
            Self::Orc(writer) => writer.bytes(),
        }
    }

    async fn finish(self) -> Result<Drained, ColumnarError> {
        match self {
            Self::Parquet(writer) => {
                let written = writer.finish().await?;
                Ok(Drained { rows: written.rows, bytes: written.bytes })
            }
            Self::Orc(writer) => {
                let written = writer.finish().await?;
                Ok(Drained { rows: written.rows, bytes: written.bytes })
            }
        }
    }
}
