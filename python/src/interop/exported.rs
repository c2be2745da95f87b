//! Schemas, arrays, batches and streams exported through the Arrow PyCapsule interface.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray},
    datatypes::{Field, FieldRef, SchemaRef},
    error::ArrowError,
};
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyTuple},
};
use pyo3_arrow::{
    error::PyArrowResult,
    ffi::{ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule},
};

use super::sorted_maps::{self, has_sorted_maps};

/// Returns the schema as one struct field, the form that the C interface uses for record batches.
fn as_struct(schema: &SchemaRef) -> FieldRef {
    let field = Field::new_struct("", schema.fields().clone(), false);
    Arc::new(field.with_metadata(schema.metadata().clone()))
}

/// Exports a stream of batches, in the requested schema if possible.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    reader: impl RecordBatchReader + Send + 'static,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyArrowResult<Bound<'py, PyCapsule>> {
    let field = as_struct(&reader.schema());
    let arrays = reader.map(|batch: Result<RecordBatch, ArrowError>| {
        let rows: ArrayRef = Arc::new(StructArray::from(batch?));
        Ok(rows)
    });
    let restores_flags = requested_schema.is_none() && has_sorted_maps(field.data_type());
    let arrays = Box::new(ArrayIterator::new(arrays, field.clone()));
    let exported = to_stream_pycapsule(py, arrays, requested_schema)?;
    if restores_flags { sorted_maps::stream_capsule(&exported, field) } else { Ok(exported) }
}

/// Exports a schema.
fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyArrowResult<Bound<'py, PyCapsule>> {
    let field = as_struct(schema);
    if has_sorted_maps(field.data_type()) {
        sorted_maps::schema_capsule(py, &field)
    } else {
        to_schema_pycapsule(py, schema.as_ref())
    }
}

/// Exports an array, in the requested schema if possible.
fn array_capsules<'py>(
    py: Python<'py>,
    field: FieldRef,
    array: &dyn Array,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyArrowResult<Bound<'py, PyTuple>> {
    let restores_flags = requested_schema.is_none() && has_sorted_maps(field.data_type());
    let exported = to_array_pycapsules(py, field.clone(), array, requested_schema)?;
    if !restores_flags {
        return Ok(exported);
    }

    let schema = sorted_maps::schema_capsule(py, &field)?;
    Ok(PyTuple::new(py, [schema.into_any(), exported.get_item(1)?])?)
}

/// An Arrow schema with `__arrow_c_schema__`.
#[pyclass(frozen, module = "stylobate", name = "Schema")]
pub(crate) struct PySchema {
    schema: SchemaRef,
}

impl From<SchemaRef> for PySchema {
    fn from(schema: SchemaRef) -> Self {
        Self { schema }
    }
}

#[pymethods]
impl PySchema {
    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The types of the columns, as Arrow names them.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.data_type().to_string()).collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    fn __len__(&self) -> usize {
        self.schema.fields().len()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.schema == other.schema
    }

    fn __repr__(&self) -> String {
        let line = |field: &FieldRef| format!("{}: {}", field.name(), field.data_type());
        self.schema.fields().iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// An Arrow array with `__arrow_c_array__`.
#[pyclass(frozen, module = "stylobate", name = "Array")]
pub(crate) struct PyArrowArray {
    array: ArrayRef,
}

impl From<ArrayRef> for PyArrowArray {
    fn from(array: ArrayRef) -> Self {
        Self { array }
    }
}

#[pymethods]
impl PyArrowArray {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyTuple>> {
        let field = Arc::new(Field::new("", self.array.data_type().clone(), true));
        array_capsules(py, field, &self.array, requested_schema)
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }
}

/// An Arrow record batch with `__arrow_c_array__`.
#[pyclass(frozen, module = "stylobate", name = "RecordBatch")]
pub(crate) struct PyRecordBatch {
    batch: RecordBatch,
}

impl From<RecordBatch> for PyRecordBatch {
    fn from(batch: RecordBatch) -> Self {
        Self { batch }
    }
}

#[pymethods]
impl PyRecordBatch {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The schema.
    #[getter]
    fn schema(&self) -> PySchema {
        self.batch.schema().into()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyTuple>> {
        let rows = StructArray::from(self.batch.clone());
        array_capsules(py, as_struct(&self.batch.schema()), &rows, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.batch.schema())
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("RecordBatch({} rows, {} columns)", self.batch.num_rows(), self.batch.num_columns())
    }
}
