//! The values of an array in the encoding PLAIN, as they lie in the page of a dictionary.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Field},
};
use parquet::{
    basic::{Compression, Encoding, Type as PhysicalType},
    file::properties::{EnabledStatistics, WriterProperties},
    schema::types::ColumnDescPtr,
};

use super::general::General;

/// Values, none of which is null.
pub(super) fn values(values: &ArrayRef, descriptor: &ColumnDescPtr) -> Result<Vec<u8>, String> {
    let bytes = match values.data_type() {
        DataType::Utf8 => prefixed(values.as_string::<i32>().iter().map(|value| value.map(str::as_bytes))),
        DataType::LargeUtf8 => {
            prefixed(values.as_string::<i64>().iter().map(|value| value.map(str::as_bytes)))
        }
        DataType::Utf8View => prefixed(values.as_string_view().iter().map(|value| value.map(str::as_bytes))),
        DataType::Binary => prefixed(values.as_binary::<i32>().iter()),
        DataType::LargeBinary => prefixed(values.as_binary::<i64>().iter()),
        DataType::BinaryView => prefixed(values.as_binary_view().iter()),
        _ => return other(values),
    };
    match descriptor.physical_type() {
        PhysicalType::BYTE_ARRAY => bytes,
        other => Err(format!("strings in a column of {other}")),
    }
}

/// Each behind its length.
fn prefixed<'v>(values: impl Iterator<Item = Option<&'v [u8]>>) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    for value in values {
        let value = value.unwrap_or_default();
        let length = u32::try_from(value.len()).map_err(|_| "a value of more than 4 GiB".to_owned())?;
        plain.extend_from_slice(&length.to_le_bytes());
        plain.extend_from_slice(value);
    }
    Ok(plain)
}

/// Values of other types as the parquet crate writes them: the pages of a column without nulls.
fn other(values: &ArrayRef) -> Result<Vec<u8>, String> {
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::PLAIN)
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build();
    let field = Arc::new(Field::new("v", values.data_type().clone(), false));
    let mut column = General::new(&field, &properties.into()).map_err(|error| error.to_string())?;
    column.write(values).map_err(|error| error.to_string())?;
    let chunks = column.finish().map_err(|error| error.to_string())?;
    let blobs = chunks.into_iter().flat_map(|chunk| chunk.blobs);
    // Headers and bodies in turns.
    Ok(blobs.skip(1).step_by(2).flatten().collect())
}
