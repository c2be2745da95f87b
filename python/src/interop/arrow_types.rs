//! Arrow types and schemas from Python: names, or objects with `__arrow_c_schema__`.

use std::sync::Arc;

use arrow::{
    datatypes::{DataType, Field, Schema, SchemaRef},
    ffi::FFI_ArrowSchema,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyString},
};

use stylobate_columnar::parse_type;

use super::imported;
use crate::errors::ErrorClass;

/// Converts a type: its name, such as `"int64"` or `"timestamp[us]"`, or a type of an Arrow library.
pub(crate) fn data_type(option: &str, given: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(name) = given.cast::<PyString>() {
        let parsed = parse_type(&name.to_cow()?);
        return parsed.map_err(|error| ErrorClass::Config.error(given.py(), format!("{option}: {error}")));
    }
    let schema = c_schema(option, given)?;
    DataType::try_from(&schema).map_err(|error| PyValueError::new_err(format!("{option}: {error}")))
}

/// Converts a schema: one of an Arrow library, or a dictionary of names and types.
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

/// Converts a dictionary of column names and types.
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
