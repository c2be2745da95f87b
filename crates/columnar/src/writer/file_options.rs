//! The format of files to be written, with its options.

use arrow::datatypes::SchemaRef;
use stylobate_storage::ByteSize;

use super::WriteFormat;
use crate::{
    Error, Result,
    file::dataset_mark::{DATASET_KEY, DATASET_VALUE},
    orc::{OrcCompression, OrcOptions, OrcWriter},
    parquet::{Compression, ParquetOptions, ParquetWriter},
};

/// The format of files, with its options.
#[derive(Clone, Debug)]
pub enum FileOptions {
    /// Parquet.
    Parquet(Box<ParquetOptions>),
    /// ORC.
    Orc(Box<OrcOptions>),
    /// Values separated by a delimiter, with a header.
    Csv {
        /// A tab, or an ASCII punctuation mark that occurs in no number, date or time and is not a quote.
        delimiter: u8,
    },
    /// JSON lines.
    Json,
    /// An Arrow IPC file.
    ArrowFile,
    /// An Arrow IPC stream.
    ArrowStream,
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

/// The default options of a format. The delimiter of CSV is a comma.
impl From<WriteFormat> for FileOptions {
    fn from(format: WriteFormat) -> Self {
        match format {
            WriteFormat::Parquet => ParquetOptions::default().into(),
            WriteFormat::Orc => OrcOptions::default().into(),
            WriteFormat::Csv => Self::Csv { delimiter: b',' },
            WriteFormat::Json => Self::Json,
            WriteFormat::ArrowFile => Self::ArrowFile,
            WriteFormat::ArrowStream => Self::ArrowStream,
        }
    }
}

impl FileOptions {
    /// Returns the format.
    pub fn format(&self) -> WriteFormat {
        match self {
            Self::Parquet(_) => WriteFormat::Parquet,
            Self::Orc(_) => WriteFormat::Orc,
            Self::Csv { .. } => WriteFormat::Csv,
            Self::Json => WriteFormat::Json,
            Self::ArrowFile => WriteFormat::ArrowFile,
            Self::ArrowStream => WriteFormat::ArrowStream,
        }
    }

    /// Sets the codec of all columns, by its name in the format: `zstd(3)`. Default: snappy in Parquet, zstd(3) in ORC.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] if the format has no such codec or does not support compression.
    pub fn with_compression(self, codec: &str) -> Result<Self> {
        let unknown = |reason: String| Error::Option { column: None, reason };
        match self {
            Self::Parquet(options) => {
                let compression = codec.parse::<Compression>().map_err(|error| unknown(error.to_string()))?;
                Ok(options.with_compression(compression).into())
            }
            Self::Orc(options) => {
                let compression =
                    codec.parse::<OrcCompression>().map_err(|error| unknown(error.to_string()))?;
                Ok(options.with_compression(compression).into())
            }
            other => Err(unknown(format!("{} files have no compression", other.format()))),
        }
    }

    /// Sets the maximum rows of a row group. Only Parquet has such a limit. Default: 1,048,576.
    pub fn with_row_group_rows(self, rows: usize) -> Self {
        match self {
            Self::Parquet(options) => options.with_row_group_rows(rows).into(),
            other => other,
        }
    }

    /// Sets the memory limit of the writer: a row group or stripe that needs more ends early. Other formats buffer no
    /// rows, and ignore it. Default: 256 MiB.
    pub fn with_memory(self, memory: ByteSize) -> Self {
        match self {
            Self::Parquet(options) => options.with_memory(memory).into(),
            Self::Orc(options) => options.with_memory(memory).into(),
            other => other,
        }
    }

    /// Sets the threads that encode columns. Formats without columns are encoded on one thread. Default: the number of
    /// cores.
    pub fn with_threads(self, threads: usize) -> Self {
        match self {
            Self::Parquet(options) => options.with_threads(threads).into(),
            Self::Orc(options) => options.with_threads(threads).into(),
            other => other,
        }
    }

    /// Returns the memory limit of all files together.
    pub(crate) fn memory(&self) -> ByteSize {
        match self {
            Self::Parquet(options) => options.memory,
            Self::Orc(options) => options.memory,
            _ => ByteSize::ZERO,
        }
    }

    /// Adapts the options to the files of a data set, which lack the columns that name its folders. At most
    /// `encoded_at_once` bytes of rows are encoded at a time. Fails for formats whose files cannot carry the mark of a
    /// data set.
    pub(crate) fn for_dataset(self, without: &[String], encoded_at_once: usize) -> Result<Self> {
        match self {
            Self::Parquet(options) => Ok(options
                .without_columns(without)
                .with_encoded_at_once(encoded_at_once)
                .with_metadata(DATASET_KEY, DATASET_VALUE)
                .into()),
            Self::Orc(options) => Ok(options
                .without_columns(without)
                .with_encoded_at_once(encoded_at_once)
                .with_metadata(DATASET_KEY, DATASET_VALUE)
                .into()),
            other => {
                let reason = format!("the files of a data set are parquet or orc, not {}", other.format());
                Err(Error::Option { column: None, reason })
            }
        }
    }

    /// Fails if types of columns or options are not supported.
    pub(crate) fn check(&self, name: &str, schema: &SchemaRef) -> Result<()> {
        match self {
            Self::Parquet(options) => ParquetWriter::check_options(name, schema, options),
            Self::Orc(options) => OrcWriter::check_options(name, schema, options),
            _ => Ok(()),
        }
    }
}
