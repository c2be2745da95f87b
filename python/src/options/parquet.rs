//! Options of `write_parquet`.

use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{
    DatasetMode, DatasetOptions,
    parquet::{
        ColumnOptions, Compression, DictionaryEncoding, Encoding, ParquetOptions, SortedBy, StatisticsLevel,
    },
};

use crate::{
    errors::ErrorClass,
    options::write::{FileSinkOptions, given, given_by_column, metadata, parsed, positive, size},
};

/// The options of a `stylobate.write_parquet` call.
#[derive(Default)]
pub(crate) struct ParquetWriteRequest {
    pub(crate) options: ParquetOptions,
    pub(crate) place: FileSinkOptions,
    /// Set if the output is a folder of files, not one file.
    pub(crate) dataset: Option<DatasetOptions>,
}

impl ParquetWriteRequest {
    /// Reads names and values that the Python side has normalized.
    pub(crate) fn read(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        given(options, Self::with)
    }

    fn with(mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dataset = || self.dataset.clone().unwrap_or_default();
        match name {
            "max_file_bytes" => self.dataset = Some(dataset().with_max_file_size(size(name, value)?)),
            "partition_by" => {
                self.dataset = Some(dataset().with_partition_by(value.extract::<Vec<String>>()?))
            }
            "mode" => self.dataset = Some(dataset().with_mode(parsed::<DatasetMode>(name, value)?)),
            "columns" => {
                for (column, options) in given_by_column(value, with_column_option)? {
                    self.options = match column {
                        Some(column) => self.options.with_column(column, options),
                        None => self.options.with_all_columns(options),
                    };
                }
            }
            "row_group_size" => self.options = self.options.with_row_group_rows(positive(name, value)?),
            "data_page_size" => self.options = self.options.with_page_size(size(name, value)?),
            "max_rows_per_page" => self.options = self.options.with_page_rows(positive(name, value)?),
            "row_group_bytes" => self.options = self.options.with_row_group_size(size(name, value)?),
            "data_page_version" => {
                self.options = self.options.with_version_2(value.extract::<String>()? == "2.0");
            }
            "memory" => self.options = self.options.with_memory(size(name, value)?),
            "threads" => self.options = self.options.with_threads(positive(name, value)?),
            "sorting_columns" => self.options = self.options.with_sorted_by(sorted_by(value)?),
            "metadata" => {
                let pairs = metadata(value)?.into_iter();
                self.options =
                    pairs.fold(self.options, |options, (key, value)| options.with_metadata(key, value));
            }
            other => self.place = self.place.with(other, value)?,
        }

        Ok(self)
    }
}

fn with_column_option(
    options: ColumnOptions,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<ColumnOptions> {
    Ok(match name {
        "compression" => options.with_compression(parsed::<Compression>(name, value)?),
        "dictionary" => options.with_dictionary(match value.extract::<Option<bool>>()? {
            None => DictionaryEncoding::Auto,
            Some(true) => DictionaryEncoding::On,
            Some(false) => DictionaryEncoding::Off,
        }),
        "encoding" => options.with_encoding(parsed::<Encoding>(name, value)?),
        "statistics" => options.with_statistics(parsed::<StatisticsLevel>(name, value)?),
        "bloom_filter" => options.with_bloom_filter(value.extract()?),
        other => return Err(ErrorClass::Config.error(value.py(), format!("{other}: no such option"))),
    })
}

fn sorted_by(given: &Bound<'_, PyAny>) -> PyResult<Vec<SortedBy>> {
    let columns: Vec<(String, bool, bool)> = given.extract()?;
    let sorted = |(column, descending, nulls_first)| SortedBy { column, descending, nulls_first };
    Ok(columns.into_iter().map(sorted).collect())
}
