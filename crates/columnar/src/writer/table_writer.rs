//! Writes a table to a sink in any format.

use std::fmt;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_recursion::async_recursion as boxed;
use stylobate_storage::{Sealed, Sink};
use tracing::{Instrument, Span};

use super::{FileOptions, WriteFormat, row_file_writer::RowFileWriter};
use crate::{Error, Result, Written, orc::OrcWriter, parquet::ParquetWriter};

/// Writer of record batches to a file of any format. If it is dropped before [`Self::finish`], no file is left.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use stylobate_columnar::{TableWriter, WriteFormat};
/// use stylobate_storage::{Destination, Overwrite, SinkOptions, Sinks};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let fare: ArrayRef = Arc::new(Int64Array::from(vec![7, 30, 9]));
/// let batch = RecordBatch::try_from_iter([("fare", fare)])?;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("fares.csv");
/// let format = WriteFormat::of_path(&path).unwrap_or(WriteFormat::Parquet);
/// let sink = Sinks::new(SinkOptions::default())
///     .open(&Destination::File(path.clone()), Overwrite::Refuse)
///     .await?;
/// let mut writer = TableWriter::new(sink, "fares.csv", batch.schema(), format.into())?;
/// writer.write(&batch).await?;
/// assert_eq!(writer.finish().await?.rows, 3);
/// assert_eq!(std::fs::read_to_string(path)?, "fare\n7\n30\n9\n");
/// # Ok(())
/// # }
/// ```
pub struct TableWriter {
    name: String,
    format: WriteFormat,
    writer: WriterByFormat,
}

enum WriterByFormat {
    Parquet(Box<ParquetWriter>),
    Orc(Box<OrcWriter>),
    Rows(Box<RowFileWriter>),
}

impl TableWriter {
    /// Creates a file with the columns of `schema`. `name` is used in errors. Must be called within a tokio runtime.
    pub fn new(
        sink: Box<dyn Sink>,
        name: impl Into<String>,
        schema: SchemaRef,
        options: FileOptions,
    ) -> Result<Self> {
        let name = name.into();
        let format = options.format();
        let writer = match options {
            FileOptions::Parquet(options) => {
                let writer = ParquetWriter::new(sink, name.clone(), schema, *options)?;
                WriterByFormat::Parquet(Box::new(writer))
            }
            FileOptions::Orc(options) => {
                let writer = OrcWriter::new(sink, name.clone(), schema, *options)?;
                WriterByFormat::Orc(Box::new(writer))
            }
            rows => {
                let writer = RowFileWriter::new(sink, name.clone(), schema, &rows)?;
                WriterByFormat::Rows(Box::new(writer))
            }
        };

        Ok(Self { name, format, writer })
    }

    /// Returns the number of rows accepted so far.
    pub fn rows(&self) -> u64 {
        match &self.writer {
            WriterByFormat::Parquet(writer) => writer.rows(),
            WriterByFormat::Orc(writer) => writer.rows(),
            WriterByFormat::Rows(writer) => writer.rows(),
        }
    }

    /// Returns the number of bytes handed to the sink so far.
    pub fn bytes(&self) -> u64 {
        match &self.writer {
            WriterByFormat::Parquet(writer) => writer.bytes(),
            WriterByFormat::Orc(writer) => writer.bytes(),
            WriterByFormat::Rows(writer) => writer.bytes(),
        }
    }

    /// Appends a batch, whose columns must have the types of the schema. A batch of other types has no effect;
    /// after any other error, or if the future is dropped, no file is written.
    #[boxed]
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.writer {
            WriterByFormat::Parquet(writer) => writer.write(batch).await,
            WriterByFormat::Orc(writer) => writer.write(batch).await,
            WriterByFormat::Rows(writer) => writer.write(batch).await,
        }
    }

    /// Appends rows that are encoded already, by [`CsvEncoder::without_header`](crate::CsvEncoder::without_header) or
    /// as JSON lines: many threads can encode the rows of a text file.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] for other formats, where the bytes of a row depend on earlier ones. After any other
    /// error, or if the future is dropped, no file is written.
    #[boxed]
    pub async fn write_encoded(&mut self, text: &[u8], rows: usize) -> Result<()> {
        match &mut self.writer {
            WriterByFormat::Rows(writer) if self.format.is_text() => writer.write_encoded(text, rows).await,
            _ => Err(Error::Unwritable {
                object: self.name.clone(),
                column: None,
                reason: format!("rows of {} files cannot be encoded separately", self.format),
            }),
        }
    }

    /// Writes the rest, and publishes the file under its name.
    #[boxed]
    pub async fn finish(self) -> Result<Written> {
        let span = self.span();
        let (written, sink) = self.end().await?;
        sink.finish().instrument(span).await?;
        Ok(written)
    }

    /// Writes the rest, and returns the sink, which has all bytes and is neither sealed nor finished.
    #[boxed]
    pub async fn into_sink(self) -> Result<(Written, Box<dyn Sink>)> {
        self.end().await
    }

    /// Writes the rest. Only publishing the file under its name is left.
    pub(crate) async fn seal(self) -> Result<(Written, Sealed)> {
        let span = self.span();
        let (written, sink) = self.end().await?;
        let sealed = sink.seal().instrument(span).await?;
        Ok((written, sealed))
    }

    async fn end(self) -> Result<(Written, Box<dyn Sink>)> {
        match self.writer {
            WriterByFormat::Parquet(writer) => writer.end().await,
            WriterByFormat::Orc(writer) => {
                let (written, sink) = writer.end().await?;
                let written =
                    Written { rows: written.rows, bytes: written.bytes, row_groups: written.stripes };
                Ok((written, sink))
            }
            WriterByFormat::Rows(writer) => writer.end().await,
        }
    }

    /// Returns the span of the write. Formats of rows have none.
    fn span(&self) -> Span {
        match &self.writer {
            WriterByFormat::Parquet(writer) => writer.span(),
            WriterByFormat::Orc(writer) => writer.span(),
            WriterByFormat::Rows(_) => Span::none(),
        }
    }

    /// Returns the approximate encoded bytes of the open row group or stripe.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        match &self.writer {
            WriterByFormat::Parquet(writer) => writer.encoded_bytes(),
            WriterByFormat::Orc(writer) => writer.encoded_bytes(),
            WriterByFormat::Rows(_) => 0,
        }
    }

    /// Returns the memory in use, in bytes: encoded columns and buffered rows.
    pub(crate) fn memory_used(&self) -> usize {
        match &self.writer {
            WriterByFormat::Parquet(writer) => writer.memory_used(),
            WriterByFormat::Orc(writer) => writer.memory_used(),
            WriterByFormat::Rows(_) => 0,
        }
    }

    /// Returns the number of bytes in memory that are being written to the file.
    pub(crate) fn sink_memory(&self) -> usize {
        match &self.writer {
            WriterByFormat::Parquet(writer) => writer.sink_memory(),
            WriterByFormat::Orc(writer) => writer.sink_memory(),
            WriterByFormat::Rows(writer) => writer.sink_memory(),
        }
    }

    /// Releases buffers kept for the next row group. Returns `true` if there were any.
    pub(crate) fn release_buffers(&mut self) -> bool {
        match &mut self.writer {
            WriterByFormat::Parquet(writer) => writer.release_buffers(),
            WriterByFormat::Orc(_) | WriterByFormat::Rows(_) => false,
        }
    }

    /// Encodes the buffered rows, and ends the row group or stripe if more than `to` bytes of memory are still in use.
    pub(crate) async fn shrink(&mut self, to: usize) -> Result<()> {
        match &mut self.writer {
            WriterByFormat::Parquet(writer) => writer.shrink(to).await,
            WriterByFormat::Orc(writer) => writer.shrink(to).await,
            WriterByFormat::Rows(_) => Ok(()),
        }
    }
}

impl fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableWriter")
            .field("name", &self.name)
            .field("format", &self.format)
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}
