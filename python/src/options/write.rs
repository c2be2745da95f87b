//! Conversion of values from Python that several options share.

use pyo3::{prelude::*, types::PyDict};
use stylobate_storage::ByteSize;

use crate::{cache::byte_size, errors::ErrorClass};

/// Applies names and values to the default, one after another.
pub(super) fn parse_options<T: Default>(
    options: &Bound<'_, PyDict>,
    with: impl Fn(T, &str, &Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<T> {
    options
        .iter()
        .try_fold(T::default(), |made, (name, value)| with(made, &name.extract::<String>()?, &value))
}

/// Like [`given`], for a dictionary of columns, where None holds the options of all columns.
pub(crate) fn given_by_column<T: Default>(
    columns: &Bound<'_, PyAny>,
    with: impl Fn(T, &str, &Bound<'_, PyAny>) -> PyResult<T> + Copy,
) -> PyResult<Vec<(Option<String>, T)>> {
    let columns = columns.cast::<PyDict>()?.iter();
    columns.map(|(column, options)| Ok((column.extract()?, parse_options(options.cast()?, with)?))).collect()
}

/// Extracts key-value pairs for the footer of a file.
pub(crate) fn metadata(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    value.extract()
}

/// Parses the value, or its `str()`.
pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<T> {
    let text: String = value.str()?.extract()?;
    text.parse().map_err(|error: T::Err| ErrorClass::Config.error(value.py(), format!("{name}: {error}")))
}

pub(crate) fn size(name: &str, value: &Bound<'_, PyAny>) -> PyResult<ByteSize> {
    match byte_size(name, value)? {
        zero if zero.as_u64() == 0 => Err(at_least_one(name, value)),
        size => Ok(size),
    }
}

pub(crate) fn positive(name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    match value.extract()? {
        0 => Err(at_least_one(name, value)),
        number => Ok(number),
    }
}

fn at_least_one(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    ErrorClass::Config.error(value.py(), format!("{name}: give at least 1"))
}
