//! How a Parquet file is written, as Python says it.

use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{
    ColumnOptions, Compression, DatasetOptions, DictionaryEncoding, Encoding, ParquetOptions, SortedBy,
    StatisticsLevel,
};

use crate::{
    errors::Class,
    write_options::{Place, metadata, parsed, positive, size},
};

/// What `stylobate.write_parquet` was asked for.
#[derive(Default)]
pub(crate) struct ParquetFile {
    pub(crate) options: ParquetOptions,
    pub(crate) place: Place,
    /// A folder of files, and not one file.
    pub(crate) dataset: Option<DatasetOptions>,
}

impl ParquetFile {
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
        let dataset = || self.dataset.clone().unwrap_or_default();
        match name {
            "max_file_bytes" => self.dataset = Some(dataset().with_max_file_size(size(name, value)?)),
            "partition_by" => {
                self.dataset = Some(dataset().with_partition_by(value.extract::<Vec<String>>()?))
            }
            "columns" => return self.with_columns(value),
            "row_group_rows" => self.options = self.options.with_row_group_rows(positive(name, value)?),
            "row_group_bytes" => self.options = self.options.with_row_group_size(size(name, value)?),
            "data_page_version" => {
                self.options = self.options.with_version_2(value.extract::<String>()? == "2.0");
            }
            "memory" => self.options = self.options.with_memory(size(name, value)?),
            "threads" => self.options = self.options.with_threads(positive(name, value)?),
            "sorted_by" => self.options = self.options.with_sorted_by(sorted_by(value)?),
            "metadata" => {
                let pairs = metadata(value)?.into_iter();
                self.options =
                    pairs.fold(self.options, |options, (key, value)| options.with_metadata(key, value));
            }
            other => self.place = self.place.with(other, value)?,
        }
        Ok(self)
    }

    /// A dictionary of columns, and for each of the options that it has. The options of all columns are under None.
    fn with_columns(mut self, columns: &Bound<'_, PyAny>) -> PyResult<Self> {
        for (column, options) in columns.cast::<PyDict>()?.iter() {
            let options = column_options(options.cast()?)?;
            self.options = match column.extract::<Option<String>>()? {
                Some(column) => self.options.with_column(column, options),
                None => self.options.with_all_columns(options),
            };
        }
        Ok(self)
    }
}

fn column_options(given: &Bound<'_, PyDict>) -> PyResult<ColumnOptions> {
    let mut options = ColumnOptions::default();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "compression" => options.with_compression(parsed::<Compression>(&name, &value)?),
            "dictionary" => options.with_dictionary(match value.extract::<Option<bool>>()? {
                None => DictionaryEncoding::Auto,
                Some(true) => DictionaryEncoding::On,
                Some(false) => DictionaryEncoding::Off,
            }),
            "encoding" => options.with_encoding(parsed::<Encoding>(&name, &value)?),
            "statistics" => options.with_statistics(parsed::<StatisticsLevel>(&name, &value)?),
            "bloom_filter" => options.with_bloom_filter(value.extract()?),
            other => return Err(Class::Config.error(value.py(), format!("{other}: no such option"))),
        };
    }
    Ok(options)
}

fn sorted_by(given: &Bound<'_, PyAny>) -> PyResult<Vec<SortedBy>> {
    let columns: Vec<(String, bool, bool)> = given.extract()?;
    let sorted = |(column, descending, nulls_first)| SortedBy { column, descending, nulls_first };
    Ok(columns.into_iter().map(sorted).collect())
}
