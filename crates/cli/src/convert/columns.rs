//! The rows of a scan into one Parquet or ORC file.

use std::{fmt::Display, str::FromStr};

use anyhow::Result;
use arrow::array::RecordBatch;
use futures::StreamExt;
use stylobate_columnar::{
    ColumnOptions, Error as ColumnarError, OrcOptions, OrcWriter, ParquetOptions, ParquetWriter, Scan,
};
use stylobate_storage::{
    Destination as Place, Error as StorageError, Overwrite as Existing, Sink, SinkOptions, Sinks,
};

use crate::{
    failure::usage,
    rows::{Drained, Progress, exists},
};

/// What has columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnFormat {
    Parquet,
    Orc,
}

/// How the file is written.
#[derive(Debug)]
pub(super) struct ColumnFile<'a> {
    pub(super) format: ColumnFormat,
    pub(super) place: Place,
    pub(super) existing: Existing,
    pub(super) compression: Option<&'a str>,
    pub(super) row_group_rows: usize,
    pub(super) sinks: SinkOptions,
}

enum Writer {
    Parquet(Box<ParquetWriter>),
    Orc(Box<OrcWriter>),
}

impl ColumnFile<'_> {
    /// Writes all rows. The file has its name when it is whole.
    pub(super) async fn write(self, scan: &Scan, progress: &Progress) -> Result<Drained> {
        let refused = |error: StorageError| match error {
            StorageError::Exists { path } => exists(path),
            error => error.into(),
        };
        let sink = Sinks::new(self.sinks.clone()).open(&self.place, self.existing).await.map_err(refused)?;
        let mut writer = self.writer(sink, scan)?;
        let mut batches = scan.stream();
        while let Some(batch) = batches.next().await.transpose()? {
            writer.write(&batch).await?;
            progress.add_rows(batch.num_rows());
        }
        let written = writer.finish().await.map_err(|error| match error {
            ColumnarError::Storage(error) => refused(error),
            error => error.into(),
        })?;
        progress.clear();
        Ok(written)
    }

    fn writer(&self, sink: Box<dyn Sink>, scan: &Scan) -> Result<Writer> {
        let (name, schema) = (self.place.to_string(), scan.schema().clone());
        let compression = self.compression;
        Ok(match self.format {
            ColumnFormat::Parquet => {
                let mut all = ColumnOptions::default();
                if let Some(text) = compression {
                    all = all.with_compression(parsed(text)?);
                }
                let options =
                    ParquetOptions::default().with_all_columns(all).with_row_group_rows(self.row_group_rows);
                Writer::Parquet(Box::new(ParquetWriter::new(sink, name, schema, options)?))
            }
            ColumnFormat::Orc => {
                let mut options = OrcOptions::default();
                if let Some(text) = compression {
                    options = options.with_compression(parsed(text)?);
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
