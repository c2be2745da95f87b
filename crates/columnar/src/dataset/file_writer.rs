//! One file of a data set, of either format.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use stylobate_storage::{ByteSize, Sealed, Sink};

use crate::{
    Result,
    file::dataset_mark::{DATASET_KEY, DATASET_VALUE},
    orc::{OrcOptions, OrcWriter},
    parquet::{ParquetOptions, ParquetWriter, Written},
};

/// The format of the files of a data set, with its options.
#[derive(Clone, Debug)]
pub enum FileOptions {
    /// Parquet files.
    Parquet(Box<ParquetOptions>),
    /// ORC files.
    Orc(Box<OrcOptions>),
}

impl From<ParquetOptions> for FileOptions {
    fn from(options: ParquetOptions) -> Self {
        Self::Parquet(Box::new(options))
    }
}

impl From<OrcOptions> for FileOptions {
    fn from(options: OrcOptions) -> Self {
        Self::Orc(Box::new(options))
    }
}

impl FileOptions {
    /// Returns the extension of the files, without the dot.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::Parquet(_) => "parquet",
            Self::Orc(_) => "orc",
        }
    }

    /// Returns the memory limit of all files together.
    pub(super) fn memory(&self) -> ByteSize {
        match self {
            Self::Parquet(options) => options.memory,
            Self::Orc(options) => options.memory,
        }
    }

    /// Adapts the options to the files of a data set, which lack the columns that name its folders. At most
    /// `encoded_at_once` bytes of rows are encoded at a time.
    pub(super) fn for_dataset(self, without: &[String], encoded_at_once: usize) -> Self {
        match self {
            Self::Parquet(options) => options
                .without_columns(without)
                .with_encoded_at_once(encoded_at_once)
                .with_metadata(DATASET_KEY, DATASET_VALUE)
                .into(),
            Self::Orc(options) => options
                .without_columns(without)
                .with_encoded_at_once(encoded_at_once)
                .with_metadata(DATASET_KEY, DATASET_VALUE)
                .into(),
        }
    }

    /// Fails if types of columns or options are not supported.
    pub(super) fn check(&self, name: &str, schema: &SchemaRef) -> Result<()> {
        match self {
            Self::Parquet(options) => ParquetWriter::check_options(name, schema, options),
            Self::Orc(options) => OrcWriter::check_options(name, schema, options),
        }
    }

    /// Begins a file.
    pub(super) fn begin(
        &self,
        sink: Box<dyn Sink>,
        name: String,
        schema: SchemaRef,
    ) -> Result<DatasetFileWriter> {
        Ok(match self {
            Self::Parquet(options) => {
                let writer = ParquetWriter::new(sink, name, schema, ParquetOptions::clone(options))?;
                DatasetFileWriter::Parquet(Box::new(writer))
            }
            Self::Orc(options) => {
                let writer = OrcWriter::new(sink, name, schema, OrcOptions::clone(options))?;
                DatasetFileWriter::Orc(Box::new(writer))
            }
        })
    }
}

/// A file that is being written.
pub(super) enum DatasetFileWriter {
    Parquet(Box<ParquetWriter>),
    Orc(Box<OrcWriter>),
}

impl DatasetFileWriter {
    pub(super) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Parquet(writer) => writer.write(batch).await,
            Self::Orc(writer) => writer.write(batch).await,
        }
    }

    /// Returns the bytes passed to the file so far.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Parquet(writer) => writer.bytes(),
            Self::Orc(writer) => writer.bytes(),
        }
    }

    /// Returns the approximate encoded bytes of the open row group or stripe.
    pub(super) fn encoded_bytes(&self) -> u64 {
        match self {
            Self::Parquet(writer) => writer.encoded_bytes(),
            Self::Orc(writer) => writer.encoded_bytes(),
        }
    }

    /// Returns the bytes in memory: encoded columns and buffered rows.
    pub(super) fn memory_used(&self) -> usize {
        match self {
            Self::Parquet(writer) => writer.memory_used(),
            Self::Orc(writer) => writer.memory_used(),
        }
    }

    /// Returns the bytes in memory that are being written to the file.
    pub(super) fn sink_memory(&self) -> usize {
        match self {
            Self::Parquet(writer) => writer.sink_memory(),
            Self::Orc(writer) => writer.sink_memory(),
        }
    }

    /// Releases buffers kept for the next row group. Returns `true` if there were any.
    pub(super) fn rest(&mut self) -> bool {
        match self {
            Self::Parquet(writer) => writer.rest(),
            Self::Orc(_) => false,
        }
    }

    /// Encodes the buffered rows. If more than `to` bytes of memory are in use then, ends the row group or stripe.
    pub(super) async fn shrink(&mut self, to: usize) -> Result<()> {
        match self {
            Self::Parquet(writer) => writer.shrink(to).await,
            Self::Orc(writer) => writer.shrink(to).await,
        }
    }

    /// Completes the file up to its name. Row groups stand for stripes in ORC.
    pub(super) async fn seal(self) -> Result<(Written, Sealed)> {
        match self {
            Self::Parquet(writer) => writer.seal().await,
            Self::Orc(writer) => {
                let (written, sealed) = writer.seal().await?;
                let written =
                    Written { rows: written.rows, bytes: written.bytes, row_groups: written.stripes };
                Ok((written, sealed))
            }
        }
    }
}
