//! The values of an array in the encoding PLAIN, as they lie in the page of a dictionary.

use std::sync::Arc;

use arrow::{array::ArrayRef, datatypes::Field};
use parquet::{
    basic::{Compression, Encoding},
    file::properties::{EnabledStatistics, WriterProperties},
};

use crate::parquet::write::general::GenericColumnEncoder;

/// Values, none of which is null, as the parquet crate writes them: the pages of a column without nulls.
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
    // Headers and bodies in turns.
    Ok(blobs.skip(1).step_by(2).flatten().collect())
}
