//! The trait of row encoders.

use std::io::Write;

use anyhow::Result;
use arrow::{array::RecordBatch, json::LineDelimitedWriter};
use stylobate_columnar::CsvEncoder;

/// Writes batches of one schema in one format.
pub(super) trait RowEncoder {
    /// Writes the rows of a batch and flushes them; tables may buffer rows.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Writes the end of the output after the last row.
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
