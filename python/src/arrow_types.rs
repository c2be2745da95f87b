//! Arrow types and schemas out of Python: names, or what has `__arrow_c_schema__`.

use std::sync::Arc;

use arrow::{
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
    ffi::FFI_ArrowSchema,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyString},
};

use crate::imported;

/// A type: its name, such as `"int64"` or `"timestamp[us]"`, or one of an Arrow library.
pub(crate) fn data_type(option: &str, given: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(name) = given.cast::<PyString>() {
        let name = name.to_cow()?;
        let unknown = || {
            let known = "int64, float64, bool, string, date, timestamp, decimal(10, 2)";
            PyValueError::new_err(format!("{option}: no type {name:?}: give one such as {known}"))
        };
        return of_name(&name.to_lowercase()).or_else(|| name.parse().ok()).ok_or_else(unknown);
    }
    let schema = c_schema(option, given)?;
    DataType::try_from(&schema).map_err(|error| PyValueError::new_err(format!("{option}: {error}")))
}

/// A schema: that of an Arrow library, or a dictionary of names and types.
pub(crate) fn schema(option: &str, given: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    if let Ok(fields) = given.cast::<PyDict>() {
        let fields = fields
            .iter()
            .map(|(name, given)| Ok(Field::new(name.extract::<String>()?, data_type(option, &given)?, true)));
        return Ok(Arc::new(Schema::new(fields.collect::<PyResult<Vec<_>>>()?)));
    }
    let schema = Schema::try_from(&c_schema(option, given)?);
    schema.map(Arc::new).map_err(|error| PyValueError::new_err(format!("{option}: {error}")))
}

/// Columns and their types, out of a dictionary.
pub(crate) fn column_types(option: &str, given: &Bound<'_, PyDict>) -> PyResult<Vec<(String, DataType)>> {
    given.iter().map(|(column, given)| Ok((column.extract()?, data_type(option, &given)?))).collect()
}

fn c_schema(option: &str, given: &Bound<'_, PyAny>) -> PyResult<FFI_ArrowSchema> {
    if !given.hasattr("__arrow_c_schema__")? {
        let name = given.get_type().qualname()?;
        return Err(PyTypeError::new_err(format!(
            "{option}: a {name} is neither a type's name nor an Arrow type"
        )));
    }
    imported::schema_capsule(&given.call_method0("__arrow_c_schema__")?)
}

/// The types that pyarrow, Polars and DuckDB call so.
fn of_name(name: &str) -> Option<DataType> {
    Some(match name {
        "null" => DataType::Null,
        "bool" | "boolean" => DataType::Boolean,
        "int8" | "tinyint" => DataType::Int8,
        "int16" | "smallint" => DataType::Int16,
        "int32" | "int" | "integer" => DataType::Int32,
        "int64" | "bigint" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float16" | "halffloat" => DataType::Float16,
        "float32" | "float" => DataType::Float32,
        "float64" | "double" => DataType::Float64,
        "string" | "utf8" | "str" | "varchar" | "text" => DataType::Utf8,
        "large_string" | "large_utf8" => DataType::LargeUtf8,
        "string_view" => DataType::Utf8View,
        "binary" | "blob" => DataType::Binary,
        "large_binary" => DataType::LargeBinary,
        "date" | "date32" => DataType::Date32,
        "date64" => DataType::Date64,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" | "datetime" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        other => return with_parameters(other),
    })
}

fn with_parameters(name: &str) -> Option<DataType> {
    if let Some(digits) = name.strip_prefix("decimal").and_then(|rest| rest.strip_suffix(')')) {
        let (_, digits) = digits.split_once('(')?;
        let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
        let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
        return match precision {
            1..=38 => Some(DataType::Decimal128(precision, scale)),
            39..=76 => Some(DataType::Decimal256(precision, scale)),
            _ => None,
        };
    }
    let inner = name.strip_prefix("timestamp[")?.strip_suffix(']')?;
    let (unit, zone) = match inner.split_once(',') {
        Some((unit, zone)) => (unit, Some(zone.trim().trim_start_matches("tz=").into())),
        None => (inner, None),
    };
    let unit = match unit.trim() {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    };
    Some(DataType::Timestamp(unit, zone))
}
