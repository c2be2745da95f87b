//! Encodes rows as CSV, JSON lines or Arrow IPC.

use std::{fmt, io::Write};

use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    error::ArrowError,
    json::{LineDelimitedWriter, WriterBuilder, writer::LineDelimited},
};

use super::{FileOptions, arrow_file::ArrowFileEncoder, arrow_stream::ArrowStreamEncoder};
use crate::{CsvEncoder, Error, Result};

/// Encoder of batches of one schema into any output, in a format that is written batch by batch: all but Parquet and
/// ORC.
///
/// Arrow IPC is written with types that every reader supports: views become strings and bytes. In a file, a column has
/// one dictionary that grows; in a stream, dictionaries are sent as they arrive.
pub struct RowEncoder<W: Write>(EncoderByFormat<W>);

enum EncoderByFormat<W: Write> {
    Csv(CsvEncoder<W>),
    Json(LineDelimitedWriter<W>),
    ArrowFile(Box<ArrowFileEncoder<W>>),
    ArrowStream(Box<ArrowStreamEncoder<W>>),
}

impl<W: Write> RowEncoder<W> {
    /// Creates an encoder, and writes the preamble: the header of CSV, the schema of Arrow IPC. Fails with
    /// [`Error::Option`] for Parquet and ORC, which [`TableWriter`](crate::TableWriter) writes.
    pub fn new(options: &FileOptions, schema: &SchemaRef, out: W) -> Result<Self> {
        Ok(Self(match options {
            FileOptions::Csv { delimiter } => {
                EncoderByFormat::Csv(CsvEncoder::with_delimiter(out, schema, *delimiter)?)
            }
            // Nulls are written, so that every line has every key.
            FileOptions::Json => EncoderByFormat::Json(
                WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(out),
            ),
            FileOptions::ArrowFile => {
                EncoderByFormat::ArrowFile(Box::new(ArrowFileEncoder::new(out, schema)?))
            }
            FileOptions::ArrowStream => {
                EncoderByFormat::ArrowStream(Box::new(ArrowStreamEncoder::new(out, schema)?))
            }
            FileOptions::Parquet(_) | FileOptions::Orc(_) => {
                let reason =
                    format!("{} files cannot be encoded batch by batch: use TableWriter", options.format());
                return Err(Error::Option { column: None, reason });
            }
        }))
    }

    /// Writes the rows of a batch. Flushes, except in an Arrow IPC file, which is unusable before its end.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.0 {
            EncoderByFormat::Csv(encoder) => encoder.write(batch),
            EncoderByFormat::Json(writer) => writer
                .write(batch)
                .and_then(|()| writer.get_mut().flush().map_err(ArrowError::from))
                .map_err(unwritten_json),
            EncoderByFormat::ArrowFile(encoder) => encoder.write(batch),
            EncoderByFormat::ArrowStream(encoder) => encoder.write(batch),
        }
    }

    /// Writes the trailer after the last row.
    pub fn finish(&mut self) -> Result<()> {
        match &mut self.0 {
            EncoderByFormat::Csv(encoder) => encoder.finish(),
            EncoderByFormat::Json(writer) => writer.finish().map_err(unwritten_json),
            EncoderByFormat::ArrowFile(encoder) => encoder.finish(),
            EncoderByFormat::ArrowStream(encoder) => encoder.finish(),
        }
    }

    /// Returns the output.
    pub(super) fn out(&mut self) -> &mut W {
        match &mut self.0 {
            EncoderByFormat::Csv(encoder) => encoder.out(),
            EncoderByFormat::Json(writer) => writer.get_mut(),
            EncoderByFormat::ArrowFile(encoder) => encoder.out(),
            EncoderByFormat::ArrowStream(encoder) => encoder.out(),
        }
    }
}

impl<W: Write> fmt::Debug for RowEncoder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowEncoder").finish_non_exhaustive()
    }
}

fn unwritten_json(error: ArrowError) -> Error {
    Error::arrow("writing JSON")(error)
}
