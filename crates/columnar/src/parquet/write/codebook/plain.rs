//! PLAIN-encodes the values of an array, for dictionary pages.

use std::sync::Arc;

use arrow::{array::ArrayRef, datatypes::Field};
use parquet::{
    basic::{Compression, Encoding},
    file::properties::{EnabledStatistics, WriterProperties},
};

use crate::parquet::write::general::GenericColumnEncoder;

/// Encodes values without nulls through the parquet crate: the pages of a required column.
pub(crate) fn values(values: &ArrayRef) -> Result<Vec<u8>, String> {
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::PLAIN)
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build();

    let field = Arc::new(Field::new("v", values.data_type().clone(), false));
    let mut column =
        GenericColumnEncoder::new(&field, &field, &properties.into()).map_err(|error| error.to_string())?;
    column.write(values).map_err(|error| error.to_string())?;
    let chunks = column.finish().map_err(|error| error.to_string())?;
    let blobs = chunks.into_iter().flat_map(|chunk| chunk.blobs);
    // Headers and bodies alternate.

    Ok(blobs.skip(1).step_by(2).flatten().collect())
}
