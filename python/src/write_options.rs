//! How a file is written, as Python says it.

use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{
    ColumnOptions, Compression, DatasetOptions, DictionaryEncoding, Encoding, ParquetOptions, SortedBy,
    StatisticsLevel,
};
use stylobate_storage::{ByteSize, Durability, Overwrite, SinkKind, SinkOptions};

use crate::{cache::byte_size, errors::Class};

/// What `stylobate.write_parquet` was asked for.
#[derive(Default)]
pub(crate) struct WriteOptions {
    pub(crate) parquet: ParquetOptions,
    pub(crate) sink: SinkOptions,
    pub(crate) overwrite: Overwrite,
    /// A folder of files, and not one file.
    pub(crate) dataset: Option<DatasetOptions>,
}

impl WriteOptions {
    /// From names and values, which Python's side has put in order.
    pub(crate) fn read(given: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut options = Self::default();
        for (name, value) in given.iter() {
            let name: String = name.extract()?;
            options = options.with(&name, &value)?;
        }
        Ok(options)
    }

    fn with(mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let parquet = self.parquet;
        self.parquet = match name {
            "columns" => return Self { parquet, ..self }.with_columns(value),
            "row_group_rows" => parquet.with_row_group_rows(positive(name, value)?),
            "row_group_bytes" => parquet.with_row_group_size(size(name, value)?),
            "data_page_version" => parquet.with_version_2(value.extract::<String>()? == "2.0"),
            "memory" => parquet.with_memory(size(name, value)?),
            "threads" => parquet.with_threads(positive(name, value)?),
            "sorted_by" => parquet.with_sorted_by(sorted_by(value)?),
            "metadata" => {
                let pairs: Vec<(String, String)> = value.extract()?;
                pairs.into_iter().fold(parquet, |parquet, (key, value)| parquet.with_metadata(key, value))
            }
            other => {
                let options = Self { parquet, ..self };
                return options.with_place(other, value);
            }
        };
        Ok(self)
    }

    /// Where it goes.
    fn with_place(mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dataset = self.dataset.clone().unwrap_or_default();
        match name {
            "max_file_bytes" => self.dataset = Some(dataset.with_max_file_size(size(name, value)?)),
            "partition_by" => {
                self.dataset = Some(dataset.with_partition_by(value.extract::<Vec<String>>()?));
            }
            "sink" => self.sink = self.sink.with_kind(parsed::<SinkKind>(name, value)?),
            "durability" => {
                self.sink = self.sink.with_durability(parsed::<Durability>(name, value)?);
            }
            "overwrite" => {
                self.overwrite = if value.extract()? { Overwrite::Replace } else { Overwrite::Refuse };
            }
            other => return Err(Class::Config.error(value.py(), format!("{other}: no such option"))),
        }
        Ok(self)
    }

    /// A dictionary of columns, and for each of the options that it has. The options of all columns are under None.
    fn with_columns(mut self, columns: &Bound<'_, PyAny>) -> PyResult<Self> {
        for (column, options) in columns.cast::<PyDict>()?.iter() {
            let options = column_options(options.cast()?)?;
            self.parquet = match column.extract::<Option<String>>()? {
                Some(column) => self.parquet.with_column(column, options),
                None => self.parquet.with_all_columns(options),
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

/// A text that the type reads, or whatever else is shown as one.
pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<T> {
    let text: String = value.str()?.extract()?;
    text.parse().map_err(|error: T::Err| Class::Config.error(value.py(), format!("{name}: {error}")))
}

fn size(name: &str, value: &Bound<'_, PyAny>) -> PyResult<ByteSize> {
    match byte_size(name, value)? {
        zero if zero.as_u64() == 0 => Err(at_least_one(name, value)),
        size => Ok(size),
    }
}

fn positive(name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    match value.extract()? {
        0 => Err(at_least_one(name, value)),
        number => Ok(number),
    }
}

fn at_least_one(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    Class::Config.error(value.py(), format!("{name}: give at least 1"))
}
