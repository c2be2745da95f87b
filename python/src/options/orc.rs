//! Options of `write_orc`.

use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{
    DatasetMode, DatasetOptions,
    orc::{OrcColumnOptions, OrcCompression, OrcOptions},
};

use crate::{
    errors::ErrorClass,
    options::write::{FileSinkOptions, given, given_by_column, metadata, parsed, positive, size},
};

/// The options of a `stylobate.write_orc` call.
#[derive(Default)]
pub(crate) struct OrcWriteRequest {
    pub(crate) options: OrcOptions,
    pub(crate) place: FileSinkOptions,
    /// Set if the output is a folder of files, not one file.
    pub(crate) dataset: Option<DatasetOptions>,
}

impl OrcWriteRequest {
    /// Reads names and values that the Python side has normalized.
    pub(crate) fn read(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        given(options, Self::with)
    }

    fn with(mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dataset = || self.dataset.clone().unwrap_or_default();
        match name {
            "max_file_bytes" => self.dataset = Some(dataset().with_max_file_size(size(name, value)?)),
            "partition_by" => {
                self.dataset = Some(dataset().with_partition_by(value.extract::<Vec<String>>()?));
            }
            "mode" => self.dataset = Some(dataset().with_mode(parsed::<DatasetMode>(name, value)?)),
            "sink" | "durability" | "overwrite" => self.place = self.place.with(name, value)?,
            _ => self.options = with_option(self.options, name, value)?,
        }

        Ok(self)
    }
}

fn with_option(options: OrcOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<OrcOptions> {
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
