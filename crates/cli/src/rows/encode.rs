//! What an encoder is: batches in, bytes out.

use std::io::Write;

use anyhow::Result;
use arrow::{array::RecordBatch, json::LineDelimitedWriter};
use stylobate_columnar::CsvEncoder;

/// Writes batches of one schema in one format.
pub(super) trait RowEncoder {
    /// Writes the rows of a batch. What is read while it is written goes out with it, tables excepted.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Writes what comes after the last row.
    fn finish(&mut self) -> Result<()>;
}

impl<W: Write> RowEncoder for LineDelimitedWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Self::write(self, batch)?;
        Ok(self.get_mut().flush()?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(Self::finish(self)?)
    }
}

impl<W: Write> RowEncoder for CsvEncoder<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(Self::write(self, batch)?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(Self::finish(self)?)
    }
}
