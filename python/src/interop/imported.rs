//! Import of tables through Arrow's C interface, including slices of larger arrays; and of DataFusion's codecs.
//!
//! An array of the C interface may have an offset into its children. arrow applies the offset of a struct within a
//! struct or a fixed-size list twice, and panics; so offsets are removed from the imported data before arrays are
//! built.

#![expect(unsafe_code, reason = "the C interface is made of pointers")]

use std::{ffi::CStr, sync::Arc};

use arrow::{
    array::{
        Array, ArrayData, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader,
        StructArray,
    },
    datatypes::{DataType, Schema, SchemaRef},
    error::ArrowError,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type},
    ffi_stream::FFI_ArrowArrayStream,
};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyCapsule, PyTuple},
};
use stylobate_datafusion::FFI_LogicalExtensionCodec;

/// Opens an object with `__arrow_c_array__` or `__arrow_c_stream__` as a reader of its batches.
pub(crate) fn reader(data: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let no_table = |error: ArrowError| match error {
        ArrowError::CDataInterface(reason) => PyTypeError::new_err(format!("data: not a table: {reason}")),
        error => PyTypeError::new_err(format!("data: not a table: {error}")),
    };

    if data.hasattr("__arrow_c_array__")? {
        let capsules = data.call_method0("__arrow_c_array__")?.cast_into::<PyTuple>()?;
        let schema = capsule(&capsules.get_item(0)?, c"arrow_schema", FFI_ArrowSchema::from_raw)?;
        let array = capsule(&capsules.get_item(1)?, c"arrow_array", FFI_ArrowArray::from_raw)?;
        let schema = Arc::new(table_schema(&schema).map_err(no_table)?);
        let batch = rows(array, &schema).map_err(no_table)?;
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }

    let stream = data.call_method0("__arrow_c_stream__")?;
    let stream = capsule(&stream, c"arrow_array_stream", FFI_ArrowArrayStream::from_raw)?;

    Ok(Box::new(ImportedStreamReader::new(stream).map_err(no_table)?))
}

/// Takes the schema out of a capsule.
pub(crate) fn schema_capsule(given: &Bound<'_, PyAny>) -> PyResult<FFI_ArrowSchema> {
    capsule(given, c"arrow_schema", FFI_ArrowSchema::from_raw)
}

/// Clones the codec of a session out of its capsule. The library that made it must have been built with the same major
/// version of DataFusion.
pub(crate) fn datafusion_codec(given: &Bound<'_, PyAny>) -> PyResult<FFI_LogicalExtensionCodec> {
    let name = c"datafusion_logical_extension_codec";
    let pointer = given.cast::<PyCapsule>()?.pointer_checked(Some(name))?;
    // SAFETY: a capsule of this name holds exactly this struct, which major versions of DataFusion do not change; it lives
    // as long as the capsule, which `given` holds.
    Ok(unsafe { pointer.cast::<FFI_LogicalExtensionCodec>().as_ref() }.clone())
}

/// Moves a struct of the C interface out of its capsule.
pub(super) fn capsule<T>(
    capsule: &Bound<'_, PyAny>,
    name: &CStr,
    take: unsafe fn(*mut T) -> T,
) -> PyResult<T> {
    let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(name))?;
    // SAFETY: a capsule of this name holds exactly this struct, aligned; taking it leaves a released one in its place,
    // as the interface requires, and this thread holds the GIL.
    Ok(unsafe { take(pointer.cast().as_ptr()) })
}

/// A stream of the C interface.
struct ImportedStreamReader {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
}

impl ImportedStreamReader {
    fn new(mut stream: FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        let Some(get_schema) = stream.get_schema else {
            return Err(ArrowError::CDataInterface("the stream was read before".to_owned()));
        };

        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream is not released, and the schema is a valid out-parameter.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(last_error(&mut stream, code));
        }

        Ok(Self { schema: Arc::new(table_schema(&schema)?), stream })
    }
}

/// Converts the schema of a table. Fails for the type of a single column, such as that of a series or an array.
fn table_schema(schema: &FFI_ArrowSchema) -> Result<Schema, ArrowError> {
    match DataType::try_from(schema)? {
        DataType::Struct(_) => Schema::try_from(schema),
        column => Err(ArrowError::CDataInterface(format!(
            "it is one column of {column}: give a table or a data frame, such as series.to_frame()"
        ))),
    }
}

/// Returns the last error of the stream.
fn last_error(stream: &mut FFI_ArrowArrayStream, code: i32) -> ArrowError {
    // SAFETY: the stream is not released.
    let text = stream.get_last_error.map(|get| unsafe { get(stream) });
    let text = text.filter(|text| !text.is_null()).map(|text| {
        // SAFETY: the text belongs to the stream, lives until its next call and is NUL-terminated.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    });
    ArrowError::CDataInterface(text.unwrap_or_else(|| format!("the stream ended by error {code}")))
}

impl Iterator for ImportedStreamReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let get_next = self.stream.get_next?;
        let mut array = FFI_ArrowArray::empty();

        // SAFETY: the stream is not released, and the array is a valid out-parameter.
        let code = unsafe { get_next(&raw mut self.stream, &raw mut array) };
        match code {
            0 if array.is_released() => None,
            0 => Some(rows(array, &self.schema)),
            code => Some(Err(last_error(&mut self.stream, code))),
        }
    }
}

impl RecordBatchReader for ImportedStreamReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Converts an array of structs to a record batch.
fn rows(mut array: FFI_ArrowArray, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let rows = DataType::Struct(schema.fields().clone());
    drop_buffers_of_nulls(&mut array, &rows);

    // SAFETY: the interface obliges the producer to export an array that matches its schema.
    let rows = StructArray::from(from_the_first(unsafe { from_ffi_and_data_type(array, rows) }?));
    if rows.null_count() > 0 {
        return Err(ArrowError::InvalidArgumentError("some of its rows are null".to_owned()));
    }

    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), rows.into_parts().1, &options)
}

/// Removes the buffers of null arrays, which must have none: Polars exports one, without content.
fn drop_buffers_of_nulls(array: &mut FFI_ArrowArray, data_type: &DataType) {
    match data_type {
        DataType::Null => array.n_buffers = 0,
        DataType::Struct(fields) => {
            let types = fields.iter().map(|field| field.data_type());
            types.enumerate().for_each(|(at, data_type)| drop_buffers_in_child(array, at, data_type));
        }
        DataType::Union(fields, _) => {
            let types = fields.iter().map(|(_, field)| field.data_type());
            types.enumerate().for_each(|(at, data_type)| drop_buffers_in_child(array, at, data_type));
        }
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => drop_buffers_in_child(array, 0, field.data_type()),
        DataType::RunEndEncoded(_, field) => drop_buffers_in_child(array, 1, field.data_type()),
        DataType::Dictionary(_, values) => {
            // SAFETY: the pointer is null, or that of an array which this one owns exclusively.
            if let Some(dictionary) = unsafe { array.dictionary.as_mut() } {
                drop_buffers_of_nulls(dictionary, values);
            }
        }
        _ => {}
    }
}

fn drop_buffers_in_child(array: &mut FFI_ArrowArray, at: usize, data_type: &DataType) {
    let is_there = i64::try_from(at).is_ok_and(|at| at < array.n_children) && !array.children.is_null();
    if !is_there {
        return;
    }
    // SAFETY: `at` is less than the number of children, whose pointers are null or those of arrays which this one owns
    // exclusively.
    if let Some(child) = unsafe { (*array.children.add(at)).as_mut() } {
        drop_buffers_of_nulls(child, data_type);
    }
}

/// Returns the same values with the offsets of structs and fixed-size lists pushed into their children.
fn from_the_first(data: ArrayData) -> ArrayData {
    let children = data.child_data().iter().cloned().map(from_the_first);
    let (offset, children) = match per_value(&data) {
        Some(each) => {
            (0, children.map(|child| part(child, data.offset() * each, data.len() * each)).collect())
        }
        None => (data.offset(), children.collect()),
    };

    // SAFETY: the same valid values at another offset.
    unsafe { data.into_builder().offset(offset).child_data(children).build_unchecked() }
}

/// Slices an array that [`from_the_first`] returned.
fn part(data: ArrayData, offset: usize, len: usize) -> ArrayData {
    let Some(each) = per_value(&data) else { return data.slice(offset, len) };
    let children =
        data.child_data().iter().cloned().map(|child| part(child, offset * each, len * each)).collect();
    let nulls = data.nulls().map(|nulls| nulls.slice(offset, len));
    // SAFETY: a slice of valid values.
    unsafe { data.into_builder().len(len).nulls(nulls).child_data(children).build_unchecked() }
}

/// Returns the number of child values per value, for types whose children are aligned with them.
fn per_value(data: &ArrayData) -> Option<usize> {
    match data.data_type() {
        DataType::Struct(_) => Some(1),
        DataType::FixedSizeList(_, size) => usize::try_from(*size).ok(),
        _ => None,
    }
}
