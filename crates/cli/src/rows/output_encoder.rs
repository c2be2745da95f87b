//! The encoder of rows that are printed: a text table, or a format of files.

use std::io::Write;

use anyhow::Result;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use stylobate_columnar::RowEncoder;

use super::{
    RowFormat,
    grid::{TableEncoder, TableLimits},
};

/// Encodes batches of one schema.
pub(super) enum OutputEncoder<W: Write> {
    Table(TableEncoder<W>),
    File(RowEncoder<W>),
}

impl<W: Write> OutputEncoder<W> {
    /// Creates an encoder of the format over `out`. `bound` is for tables.
    pub(super) fn new(format: RowFormat, schema: &SchemaRef, bound: &TableLimits, out: W) -> Result<Self> {
        Ok(match format {
            RowFormat::Table => Self::Table(TableEncoder::new(out, schema, bound.clone())),
            RowFormat::File(format) => Self::File(RowEncoder::new(&format.into(), schema, out)?),
        })
    }

    /// Writes the rows of a batch. Tables may buffer some.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Table(table) => table.write(batch),
            Self::File(encoder) => Ok(encoder.write(batch)?),
        }
    }

    /// Writes the end of the output after the last row.
    pub(super) fn finish(&mut self) -> Result<()> {
        match self {
            Self::Table(table) => table.finish(),
            Self::File(encoder) => Ok(encoder.finish()?),
        }
    }
}
