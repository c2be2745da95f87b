//! How an ORC file is written, as Python says it.

use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{OrcColumnOptions, OrcCompression, OrcOptions};

use crate::{
    errors::Class,
    write_options::{Place, given, given_by_column, metadata, parsed, positive, size},
};

/// What `stylobate.write_orc` was asked for.
#[derive(Default)]
pub(crate) struct OrcFile {
    pub(crate) options: OrcOptions,
    pub(crate) place: Place,
}

impl OrcFile {
    /// From names and values, which Python's side has put in order.
    pub(crate) fn read(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        given(options, Self::with)
    }

    fn with(mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let options = self.options;
        self.options = match name {
            "columns" => with_columns(options, value)?,
            "compression" => options.with_compression(parsed::<OrcCompression>(name, value)?),
            "compression_chunk_bytes" => options.with_chunk_size(size(name, value)?),
            "stripe_bytes" => options.with_stripe_size(size(name, value)?),
            "row_index_stride" => options.with_row_index_stride(value.extract()?),
            "memory" => options.with_memory(size(name, value)?),
            "threads" => options.with_threads(positive(name, value)?),
            "metadata" => metadata(value)?
                .into_iter()
                .fold(options, |options, (key, value)| options.with_metadata(key, value)),
            other => return Ok(Self { options, place: self.place.with(other, value)? }),
        };
        Ok(self)
    }
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
        other => return Err(Class::Config.error(value.py(), format!("{other}: no such option"))),
    })
}
