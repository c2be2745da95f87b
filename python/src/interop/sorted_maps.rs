//! Exports maps of sorted keys through Arrow's C interface: arrow's own export of a field drops the flag.

#![expect(unsafe_code, reason = "the C interface is made of pointers")]

use std::{
    ffi::{c_char, c_int, c_void},
    ptr,
};

use arrow::{
    datatypes::{DataType, Field, FieldRef},
    error::ArrowError,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema},
    ffi_stream::FFI_ArrowArrayStream,
};
use pyo3::{prelude::*, types::PyCapsule};
use pyo3_arrow::error::PyArrowResult;

use super::imported::capsule;

/// The error code returned if the inner stream lacks the called function.
const EINVAL: c_int = 22;

/// Returns true if a type is, or contains, a map whose keys are sorted.
pub(super) fn has_sorted_maps(data_type: &DataType) -> bool {
    let of_children = || children(data_type).into_iter().any(|child| has_sorted_maps(child.data_type()));
    matches!(data_type, DataType::Map(_, true)) || of_children()
}

/// Returns the fields of a nested type, in the order of the C interface. Those of unions are left out.
fn children(data_type: &DataType) -> Vec<&FieldRef> {
    match data_type {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field],
        _ => Vec::new(),
    }
}

/// Exports a field.
fn c_schema(field: &Field) -> Result<FFI_ArrowSchema, ArrowError> {
    let without_flag = FFI_ArrowSchema::try_from(field)?;
    if !has_sorted_maps(field.data_type()) {
        return Ok(without_flag);
    }

    let of_type = FFI_ArrowSchema::try_from(field.data_type())?;
    let flags = without_flag.flags().zip(of_type.flags()).map(|(of_field, of_type)| of_field | of_type);
    let unknown = || ArrowError::CDataInterface(format!("unknown flags of {}", field.name()));
    let children = children(field.data_type()).into_iter().map(|child| c_schema(child));
    let children = children.collect::<Result<Vec<_>, _>>()?;

    FFI_ArrowSchema::try_new(without_flag.format(), children, None)?
        .with_name(field.name())?
        .with_flags(flags.ok_or_else(unknown)?)?
        .with_metadata(field.metadata())
}

/// Exports a field as a capsule.
pub(super) fn schema_capsule<'py>(py: Python<'py>, field: &Field) -> PyArrowResult<Bound<'py, PyCapsule>> {
    Ok(PyCapsule::new_with_value(py, c_schema(field)?, c"arrow_schema")?)
}

/// Takes the stream out of a capsule, and exports it again with the schema of a field.
pub(super) fn stream_capsule<'py>(
    exported: &Bound<'py, PyCapsule>,
    field: FieldRef,
) -> PyArrowResult<Bound<'py, PyCapsule>> {
    // Fails now rather than when a consumer asks for the schema.
    c_schema(&field)?;
    let inner = capsule(exported.as_any(), c"arrow_array_stream", FFI_ArrowArrayStream::from_raw)?;

    let own = Box::new(SortedMapStream { inner, field });
    let stream = FFI_ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Box::into_raw(own).cast::<c_void>(),
    };
    Ok(PyCapsule::new_with_value(exported.py(), stream, c"arrow_array_stream")?)
}

/// Private data of an exported stream.
struct SortedMapStream {
    inner: FFI_ArrowArrayStream,
    field: FieldRef,
}

/// Writes the schema with the flags of its maps.
unsafe extern "C" fn get_schema(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowSchema) -> c_int {
    // SAFETY: a consumer passes a stream of `stream_capsule` that it has not released, to one function at a time.
    let own = unsafe { &*(*stream).private_data.cast::<SortedMapStream>() };
    match c_schema(&own.field) {
        Ok(schema) => {
            // SAFETY: a consumer passes memory for a schema, whose contents are not to be released.
            unsafe { ptr::write(out, schema) };
            0
        }
        Err(_) => EINVAL,
    }
}

/// Forwards the call to the inner stream.
unsafe extern "C" fn get_next(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowArray) -> c_int {
    // SAFETY: as in `get_schema`.
    let own = unsafe { &mut *(*stream).private_data.cast::<SortedMapStream>() };
    match own.inner.get_next {
        // SAFETY: the stream is owned and not released, and `out` is the consumer's.
        Some(get_next) => unsafe { get_next(&raw mut own.inner, out) },
        None => EINVAL,
    }
}

/// Forwards the call to the inner stream.
unsafe extern "C" fn get_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: as in `get_schema`.
    let own = unsafe { &mut *(*stream).private_data.cast::<SortedMapStream>() };
    match own.inner.get_last_error {
        // SAFETY: the stream is owned and not released.
        Some(get_last_error) => unsafe { get_last_error(&raw mut own.inner) },
        None => ptr::null(),
    }
}

/// Releases the stream and the inner one.
unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: a consumer passes null, or a stream that it owns.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return };

    stream.get_schema = None;
    stream.get_next = None;
    stream.get_last_error = None;
    stream.release = None;
    // SAFETY: the pointer is that of the box of `stream_capsule`, since a released stream is not released again.
    drop(unsafe { Box::from_raw(stream.private_data.cast::<SortedMapStream>()) });
    stream.private_data = ptr::null_mut();
}
