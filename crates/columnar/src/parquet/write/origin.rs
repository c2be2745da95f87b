//! Determines from the footer of a Parquet file whether it was written as part of a data set.

use parquet::file::metadata::ParquetMetaDataReader;

use crate::{
    file::dataset_mark::{DATASET_KEY, TailOrigin},
    parquet::WRITER,
};

/// Bytes of the footer's length and the magic number.
const END: usize = 8;
const MAGIC: &[u8] = b"PAR1";

/// Returns the writer that is named in the last bytes of a file. Bytes that are not the end of a Parquet file are
/// foreign.
pub(crate) fn origin(end: &[u8]) -> TailOrigin {
    let Some((before, last)) = end.split_last_chunk::<END>() else { return TailOrigin::Foreign };
    let (length, magic) = last.split_at(END - MAGIC.len());
    let Ok(length) = <[u8; 4]>::try_from(length).map(u32::from_le_bytes) else { return TailOrigin::Foreign };
    if magic != MAGIC {
        return TailOrigin::Foreign;
    }

    let Some(start) = before.len().checked_sub(length as usize) else {
        return TailOrigin::Needs(u64::from(length) + END as u64);
    };

    let footer = before.get(start..).unwrap_or_default();
    let Ok(metadata) = ParquetMetaDataReader::decode_metadata(footer) else { return TailOrigin::Foreign };
    let file = metadata.file_metadata();
    let is_own = file.created_by().is_some_and(|writer| writer.starts_with(WRITER));
    let pairs = file.key_value_metadata().into_iter().flatten();
    let mark = pairs.filter(|pair| pair.key == DATASET_KEY).find_map(|pair| pair.value.as_ref());

    TailOrigin::of(is_own, mark.map(String::as_bytes))
}
