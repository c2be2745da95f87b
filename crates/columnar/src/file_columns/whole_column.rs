//! Concatenates a column of all row groups, in the type that a reader wants.

use arrow::{
    array::{Array, ArrayRef},
    compute::concat,
    datatypes::DataType,
    error::ArrowError,
};

use crate::{
    Error, Inexact, Result,
    chunk::{Chunk, ChunkRepresentation},
    file::schema::ProjectedColumn,
    format::{FileMetadata, RowGroupBytes},
    kernels::exact_cast::exact_cast,
    parquet::DecodeScratch,
};

/// Decodes a column of all row groups or stripes into one array.
pub(crate) fn whole_column(
    metadata: &FileMetadata,
    column: &ProjectedColumn,
    bytes: &[RowGroupBytes],
    data_type: &DataType,
    scratch: &mut DecodeScratch,
) -> Result<ArrayRef> {
    let mut pieces: Vec<ArrayRef> = Vec::new();
    for (row_group, bytes) in bytes.iter().enumerate() {
        match metadata.decode(row_group, column, bytes, ChunkRepresentation::Native, scratch, None)? {
            Chunk::Dictionary(array) | Chunk::Whole(array) => pieces.push(as_type(&array, data_type)?),
            Chunk::Dense(segments) => {
                for segment in segments.iter() {
                    pieces.push(as_type(segment, data_type)?);
                }
            }
        }
    }

    match pieces.as_slice() {
        [] => Ok(arrow::array::new_empty_array(data_type)),
        [one] => Ok(one.clone()),
        several => {
            let several: Vec<&dyn Array> = several.iter().map(AsRef::as_ref).collect();
            concat(&several).map_err(Error::arrow("row groups of one column"))
        }
    }
}

/// Casts values to another type, if it can represent each of them.
fn as_type(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let from = array.data_type();
    let refused = |reason: String| Error::arrow("a cast")(ArrowError::CastError(reason));

    if !may_become(from, data_type) {
        return Err(refused(format!("{from} is not {data_type}")));
    }

    exact_cast(array, data_type).map_err(|inexact| match inexact {
        Inexact::Row(_) => refused(format!("a value of type {from} is not exactly one of {data_type}")),
        Inexact::Type(reason) => refused(reason),
    })
}

/// Returns whether values of a type may be read as another. Strings are never read as numbers.
fn may_become(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Dictionary, FixedSizeList, Float16, Float32, Float64,
        LargeBinary, LargeList, LargeUtf8, List, Null, Timestamp, Utf8, Utf8View,
    };
    let is_text = |of: &DataType| matches!(of, Utf8 | LargeUtf8 | Utf8View);
    let is_bytes = |of: &DataType| matches!(of, Binary | LargeBinary | BinaryView);

    match (from, to) {
        (Null, _) => true,
        (Dictionary(_, values), to) => may_become(values, to),
        (List(from) | LargeList(from) | FixedSizeList(from, _), List(to) | LargeList(to)) => {
            may_become(from.data_type(), to.data_type())
        }
        (from, to) if from.is_integer() => to.is_integer() || to.is_floating(),
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Date32 | Date64, Date32 | Date64) | (Timestamp(..), Timestamp(..)) => true,
        (from, to) if is_text(to) => is_text(from) || is_bytes(from),
        (from, to) if is_bytes(to) => is_text(from) || is_bytes(from),
        (from, to) => from.equals_datatype(to),
    }
}
