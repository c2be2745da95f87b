//! How an ORC file is written, as Python says it.

use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{OrcColumnOptions, OrcCompression, OrcOptions};

use crate::{
    errors::Class,
    write_options::{Place, metadata, parsed, positive, size},
};

/// What `stylobate.write_orc` was asked for.
#[derive(Default)]
pub(crate) struct OrcFile {
    pub(crate) options: OrcOptions,
    pub(crate) place: Place,
}

impl OrcFile {
    /// From names and values, which Python's side has put in order.
    pub(crate) fn read(given: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut file = Self::default();
        for (name, value) in given.iter() {
            let name: String = name.extract()?;
            file = file.with(&name, &value)?;
        }
        Ok(file)
    }

    fn with(mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let options = self.options;
        self.options = match name {
            "columns" => with_columns(options, value.cast()?)?,
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

/// A dictionary of columns, and for each of the options that it has. The options of all columns are under None.
fn with_columns(mut options: OrcOptions, columns: &Bound<'_, PyDict>) -> PyResult<OrcOptions> {
    for (column, given) in columns.iter() {
        let own = column_options(given.cast()?)?;
        options = match column.extract::<Option<String>>()? {
            Some(column) => options.with_column(column, own),
            None => options.with_all_columns(own),
        };
    }
    Ok(options)
}

fn column_options(given: &Bound<'_, PyDict>) -> PyResult<OrcColumnOptions> {
    let mut options = OrcColumnOptions::default();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "dictionary_threshold" => options.with_dictionary_threshold(value.extract()?),
            "bloom_filter" => options.with_bloom_filter(value.extract()?),
            other => return Err(Class::Config.error(value.py(), format!("{other}: no such option"))),
        };
    }
    Ok(options)
}
