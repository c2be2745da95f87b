//! Constructors of the encoders by format.

use std::io::Write;

use anyhow::Result;
use arrow::{
    datatypes::SchemaRef,
    json::{WriterBuilder, writer::LineDelimited},
};

use stylobate_columnar::CsvEncoder;

use super::{
    RowFormat,
    dictionaries::ArrowFileEncoder,
    encode::RowEncoder,
    grid::{TableEncoder, TableLimits},
    portable::ArrowStreamEncoder,
};

/// Creates an encoder of the format over `out`. `bound` is for tables.
pub(super) fn encoder<'a>(
    format: RowFormat,
    schema: &SchemaRef,
    bound: &TableLimits,
    out: impl Write + 'a,
) -> Result<Box<dyn RowEncoder + 'a>> {
    Ok(match format {
        RowFormat::Table => Box::new(TableEncoder::new(out, schema, bound.clone())),
        RowFormat::Csv => Box::new(CsvEncoder::new(out, schema)?),
        // Nulls are written, so that every line has every key.
        RowFormat::Json => {
            Box::new(WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(out))
        }
        RowFormat::ArrowStream => Box::new(ArrowStreamEncoder::new(out, schema)?),
        RowFormat::ArrowFile => Box::new(ArrowFileEncoder::new(out, schema)?),
    })
}
