//! Options of Parquet files.

use pyo3::prelude::*;
use stylobate_columnar::parquet::{
    ColumnOptions, Compression, DictionaryEncoding, Encoding, ParquetOptions, SortedBy, StatisticsLevel,
};

use crate::{
    errors::ErrorClass,
    options::write::{given_by_column, metadata, parsed, positive, size},
};

/// Sets an option by its name.
pub(super) fn with_option(
    options: ParquetOptions,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<ParquetOptions> {
    Ok(match name {
        "columns" => with_columns(options, value)?,
        "row_group_size" => options.with_row_group_rows(positive(name, value)?),
        "data_page_size" => options.with_page_size(size(name, value)?),
        "max_rows_per_page" => options.with_page_rows(positive(name, value)?),
        "row_group_bytes" => options.with_row_group_size(size(name, value)?),
        "data_page_version" => options.with_version_2(value.extract::<String>()? == "2.0"),
        "memory" => options.with_memory(size(name, value)?),
        "threads" => options.with_threads(positive(name, value)?),
        "sorting_columns" => options.with_sorted_by(sorted_by(value)?),
        "metadata" => metadata(value)?
            .into_iter()
            .fold(options, |options, (key, value)| options.with_metadata(key, value)),
        other => return Err(ErrorClass::Config.error(value.py(), format!("{other}: no such option"))),
    })
}

fn with_columns(options: ParquetOptions, columns: &Bound<'_, PyAny>) -> PyResult<ParquetOptions> {
    let columns = given_by_column(columns, with_column_option)?.into_iter();
    Ok(columns.fold(options, |options, (column, own)| match column {
        Some(column) => options.with_column(column, own),
        None => options.with_all_columns(own),
    }))
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
