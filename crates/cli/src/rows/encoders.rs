//! The encoder of each format.

use std::io::Write;

use anyhow::Result;
use arrow::{
    datatypes::SchemaRef,
    json::{WriterBuilder, writer::LineDelimited},
};

use stylobate_columnar::CsvEncoder;

use super::{
    Format,
    dictionaries::ArrowFileEncoder,
    encode::Encode,
    grid::{Bound, Grid},
    portable::ArrowStreamEncoder,
};

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
