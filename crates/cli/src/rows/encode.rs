//! The encoders of all formats: batches in, bytes out.

use std::io::Write;

use anyhow::Result;
use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    json::{LineDelimitedWriter, WriterBuilder, writer::LineDelimited},
};

use super::{
    Format,
    csv::CsvEncoder,
    dictionaries::ArrowFileEncoder,
    grid::{Bound, Grid},
    portable::ArrowStreamEncoder,
};

/// Writes batches of one schema in one format.
pub(super) trait Encode {
    /// Writes the rows of a batch. What is read while it is written goes out with it, tables excepted.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Writes what comes after the last row.
    fn finish(&mut self) -> Result<()>;
}

/// An encoder of the format over `out`. `bound` is for tables.
pub(super) fn encoder<'a>(
    format: Format,
    schema: &SchemaRef,
    bound: &Bound,
    out: impl Write + 'a,
) -> Result<Box<dyn Encode + 'a>> {
    Ok(match format {
        Format::Table => Box::new(Grid::new(out, schema, bound.clone())),
        Format::Csv => Box::new(CsvEncoder::new(out, schema)?),
        // With nulls, so that every line has every name.
        Format::Json => {
            Box::new(WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(out))
        }
        Format::ArrowStream => Box::new(ArrowStreamEncoder::new(out, schema)?),
        Format::ArrowFile => Box::new(ArrowFileEncoder::new(out, schema)?),
    })
}

impl<W: Write> Encode for LineDelimitedWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Self::write(self, batch)?;
        Ok(self.get_mut().flush()?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(Self::finish(self)?)
    }
}
