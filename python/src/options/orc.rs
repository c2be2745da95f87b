//! Options of ORC files.

use pyo3::prelude::*;
use stylobate_columnar::orc::{OrcColumnOptions, OrcCompression, OrcOptions};

use crate::{
    errors::ErrorClass,
    options::write::{given_by_column, metadata, parsed, positive, size},
};

/// Sets an option by its name.
pub(super) fn with_option(options: OrcOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<OrcOptions> {
    Ok(match name {
        "columns" => with_columns(options, value)?,
        "compression" => options.with_compression(parsed::<OrcCompression>(name, value)?),
        "compression_block_size" => options.with_chunk_size(size(name, value)?),
        "stripe_size" => options.with_stripe_size(size(name, value)?),
        "row_index_stride" => options.with_row_index_stride(value.extract()?),
        "memory" => options.with_memory(size(name, value)?),
        "threads" => options.with_threads(positive(name, value)?),
        "metadata" => metadata(value)?
            .into_iter()
            .fold(options, |options, (key, value)| options.with_metadata(key, value)),
        other => return Err(ErrorClass::Config.error(value.py(), format!("{other}: no such option"))),
    })
}

fn with_columns(options: OrcOptions, columns: &Bound<'_, PyAny>) -> PyResult<OrcOptions> {
    let columns = given_by_column(columns, with_column_option)?.into_iter();
    Ok(columns.fold(options, |options, (column, own)| match column {
        Some(column) => options.with_column(column, own),
        None => options.with_all_columns(own),
    }))
}

fn with_column_option(
    options: OrcColumnOptions,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<OrcColumnOptions> {
    Ok(match name {
        "dictionary_threshold" => options.with_dictionary_threshold(value.extract()?),
        "bloom_filter" => options.with_bloom_filter(value.extract()?),
        other => return Err(ErrorClass::Config.error(value.py(), format!("{other}: no such option"))),
    })
}
