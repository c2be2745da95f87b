//! Checks footers before they are trusted, and derives sizes and fields from them.

pub(super) mod arrow_schema;
pub(super) mod encrypted;
pub(super) mod logical_types;
pub(super) mod repair;
pub(super) mod statistics;
pub(super) mod thrift_tree;
pub(super) mod writer_trust;

use std::{ops::Range, sync::Arc};

use arrow::datatypes::{DataType, Field};
use parquet::{
    arrow::ARROW_SCHEMA_META_KEY,
    basic::{Encoding, PageType, Type as PhysicalType},
    errors::ParquetError,
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
};

use crate::{Error, Result, chunk::SEGMENT_ROWS, file::schema::is_text, kernels::codes::CodeWidth};

/// Returns whether the bytes of a column chunk are encrypted.
pub(super) fn is_encrypted(chunk: &ColumnChunkMetaData) -> bool {
    chunk.crypto_metadata().is_some()
}

/// Returns the byte range of a column chunk; it is within the file if [`check`] passed.
pub(super) fn range(chunk: &ColumnChunkMetaData) -> Range<u64> {
    let start = chunk.dictionary_page_offset().filter(|_| has_dictionary_page(chunk));
    let start = start.unwrap_or(chunk.data_page_offset()).max(0) as u64;
    start..start.saturating_add(chunk.compressed_size().max(0) as u64)
}

/// Returns whether the chunk has a dictionary page. Some writers use offset 0 for none.
fn has_dictionary_page(chunk: &ColumnChunkMetaData) -> bool {
    chunk.dictionary_page_offset().is_some_and(|offset| offset > 0 && offset < chunk.data_page_offset())
}

/// Returns the footer without bogus dictionary page offsets.
pub(super) fn without_bogus_dictionaries(object: &str, metadata: ParquetMetaData) -> Result<ParquetMetaData> {
    let is_wrong =
        |chunk: &ColumnChunkMetaData| chunk.dictionary_page_offset().is_some() && !has_dictionary_page(chunk);
    if !metadata.row_groups().iter().any(|group| group.columns().iter().any(is_wrong)) {
        return Ok(metadata);
    }

    let mended = |chunk: ColumnChunkMetaData| {
        if is_wrong(&chunk) {
            chunk.into_builder().set_dictionary_page_offset(None).build()
        } else {
            Ok(chunk)
        }
    };

    let mut builder = metadata.into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let mut group = group.into_builder();
        let columns = group.take_columns().into_iter().map(mended).collect::<Result<Vec<_>, _>>()?;
        group.set_column_metadata(columns).build()
    });
    let groups =
        groups.collect::<Result<Vec<_>, _>>().map_err(|error| Error::corrupt(object, error.to_string()))?;

    Ok(builder.set_row_groups(groups).build())
}

/// Checks that no chunk lies outside the file, and that every row group has the columns of the schema.
pub(super) fn check(object: &str, metadata: &ParquetMetaData, size: u64) -> Result<()> {
    let columns = metadata.file_metadata().schema_descr().num_columns();
    for (row_group, group) in metadata.row_groups().iter().enumerate() {
        if group.num_rows() < 0 || group.num_columns() != columns {
            return Err(Error::corrupt(object, format!("row group {row_group} does not fit the schema")));
        }

        for chunk in group.columns() {
            let object = object.to_owned();
            let column = Some(chunk.column_path().string());
            if chunk.file_path().is_some() {
                return Err(Error::Unsupported {
                    object,
                    column,
                    reason: "its data is in another file".to_owned(),
                });
            }
            if chunk.data_page_offset() < 0 || chunk.compressed_size() < 0 || range(chunk).end > size {
                let reason = "its bytes lie outside the file".to_owned();
                return Err(Error::Corrupt {
                    object,
                    row_group: Some(row_group),
                    column,
                    offset: None,
                    reason,
                });
            }
        }
    }

    Ok(())
}

/// Returns whether the file stores the Arrow schema that it was written with.
pub(super) fn has_arrow_schema(metadata: &ParquetMetaData) -> bool {
    let mut pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    pairs.any(|pair| pair.key == ARROW_SCHEMA_META_KEY)
}

pub(super) fn is_dictionary_encoding(encoding: Encoding) -> bool {
    let old = Encoding::PLAIN_DICTIONARY;
    encoding == Encoding::RLE_DICTIONARY || encoding == old
}

/// Returns whether every data page of the chunk is dictionary-encoded; `None` if the footer does not say.
pub(super) fn is_all_dictionary(chunk: &ColumnChunkMetaData) -> Option<bool> {
    // Encrypted chunks are decoded value by value.
    if is_encrypted(chunk) || !chunk.encodings().any(is_dictionary_encoding) {
        return Some(false);
    }
    if let Some(mask) = chunk.page_encoding_stats_mask() {
        return Some(mask.encodings().all(is_dictionary_encoding));
    }

    let is_data = |page: PageType| matches!(page, PageType::DATA_PAGE | PageType::DATA_PAGE_V2);
    let mut data = chunk.page_encoding_stats()?.iter().filter(|stats| is_data(stats.page_type));
    Some(data.all(|stats| is_dictionary_encoding(stats.encoding)))
}

/// Returns whether the list of encodings leaves only dictionary encodings for data pages. Writers of
/// `PLAIN_DICTIONARY` also use it for the dictionary page, so `PLAIN` would be the encoding of values.
pub(crate) fn lists_only_dictionaries(chunk: &ColumnChunkMetaData) -> bool {
    #[expect(deprecated, reason = "old files have it")]
    let allowed = [Encoding::PLAIN_DICTIONARY, Encoding::RLE, Encoding::BIT_PACKED];
    chunk.encodings().all(|encoding| allowed.contains(&encoding))
}

/// Estimates the number of values in the dictionary from sizes in the footer. The exact number is in the header of the
/// dictionary page: reading it would cost a request per chunk before it is known whether the chunk is needed.
pub(super) fn estimated_values(chunk: &ColumnChunkMetaData) -> Option<u64> {
    let dictionary = chunk.dictionary_page_offset().filter(|offset| *offset > 0)?;
    let compressed = (chunk.data_page_offset() - dictionary).max(0) as f64;
    let ratio = chunk.uncompressed_size().max(0) as f64 / chunk.compressed_size().max(1) as f64;
    let width = match (chunk.unencoded_byte_array_data_bytes(), chunk.statistics()) {
        (Some(bytes), _) => bytes.max(0) as f64 / chunk.num_values().max(1) as f64,
        (None, Some(statistics)) => {
            let min = statistics.min_bytes_opt().map_or(0, <[u8]>::len);
            let max = statistics.max_bytes_opt().map_or(min, <[u8]>::len);
            (min + max) as f64 / 2.0
        }
        (None, None) => 1.0,
    };

    Some((compressed * ratio.max(1.0) / (width + 4.0)) as u64)
}

/// Estimates the bytes of all strings or binary values of the chunk, one after another; 0 for other types.
pub(super) fn value_bytes(chunk: &ColumnChunkMetaData) -> u64 {
    match chunk.column_type() {
        PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY => {
            let plain = chunk.uncompressed_size().max(0) as u64;
            let expanded = chunk.unencoded_byte_array_data_bytes().map_or(0, |bytes| bytes.max(0) as u64);
            plain.max(expanded)
        }
        _ => 0,
    }
}

/// Estimates the bytes that reading and decoding the chunk will hold.
pub(super) fn working_bytes(chunk: &ColumnChunkMetaData, rows: u64, dictionary: bool) -> u64 {
    let read = chunk.compressed_size().max(0) as u64;
    let decoded = if dictionary {
        // Codes, in addition to the values.
        let plain = chunk.uncompressed_size().max(0) as u64;
        plain.saturating_add(rows.saturating_mul(estimated_code_bytes(chunk)))
    } else {
        dense_bytes(chunk, rows)
    };

    read.saturating_add(decoded)
}

/// Estimates the bytes that reading and decoding a chunk without codes will hold, if only `passing` rows are kept, each
/// segment as soon as it is decoded.
pub(super) fn passing_bytes(chunk: &ColumnChunkMetaData, rows: u64, passing: u64) -> u64 {
    let read = chunk.compressed_size().max(0) as u64;
    let dense = dense_bytes(chunk, rows);
    // The segment that is being decoded and one that is being concatenated are in memory besides the kept rows.
    let at_once = passing.saturating_add(2 * SEGMENT_ROWS as u64).min(rows);
    let kept = (u128::from(dense) * u128::from(at_once)).checked_div(u128::from(rows)).unwrap_or(0) as u64;

    read.saturating_add(kept)
}

/// Estimates the bytes of each value with its offset, dictionaries expanded.
fn dense_bytes(chunk: &ColumnChunkMetaData, rows: u64) -> u64 {
    // No number is wider than 16 bytes once decoded; lists have more values than rows.
    let count = rows.max(chunk.num_values().max(0) as u64);
    value_bytes(chunk).saturating_add(count.saturating_mul(16))
}

/// Estimates the bytes of a code of the chunk's dictionary. The number of values is a rough estimate, so it is
/// multiplied by a margin.
fn estimated_code_bytes(chunk: &ColumnChunkMetaData) -> u64 {
    const MARGIN: u64 = 4;
    let values = estimated_values(chunk).map_or(u64::MAX, |values| values.saturating_mul(MARGIN));
    match CodeWidth::of(usize::try_from(values).unwrap_or(usize::MAX)) {
        CodeWidth::U8 => 1,
        CodeWidth::U16 => 2,
        CodeWidth::U32 => 4,
    }
}

/// Returns the field without dictionaries, at any depth.
pub(super) fn without_dictionaries(field: &Field) -> Field {
    replaced(field, &|_, values| values.clone(), ListViews::Lists)
}

/// The types that list views are replaced with.
#[derive(Clone, Copy)]
enum ListViews {
    /// Lists, which are decoded.
    Lists,
    /// List views.
    Kept,
}

/// Returns the field as it was written, with list views, and with dictionaries of strings and bytes at every depth;
/// dictionaries of other values are expanded, as in other readers.
pub(super) fn with_dictionaries(field: &Field) -> Field {
    let of_text = |keys: &DataType, values: &DataType| {
        if is_text(values) {
            DataType::Dictionary(Box::new(keys.clone()), Box::new(values.clone()))
        } else {
            values.clone()
        }
    };
    replaced(field, &of_text, ListViews::Kept)
}

/// Returns the field with each dictionary replaced, given its keys and values; run-end encoded arrays become values.
fn replaced(
    field: &Field,
    dictionary: &impl Fn(&DataType, &DataType) -> DataType,
    list_views: ListViews,
) -> Field {
    let inner = |field: &Field| Arc::new(replaced(field, dictionary, list_views));
    let data_type = match field.data_type() {
        DataType::Dictionary(keys, values) => dictionary(keys, values),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| inner(field)).collect()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::ListView(item) => match list_views {
            ListViews::Lists => DataType::List(inner(item)),
            ListViews::Kept => DataType::ListView(inner(item)),
        },
        DataType::LargeListView(item) => match list_views {
            ListViews::Lists => DataType::LargeList(inner(item)),
            ListViews::Kept => DataType::LargeListView(inner(item)),
        },
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(inner(item), *len),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        other => other.clone(),
    };

    field.clone().with_data_type(data_type)
}

/// Returns the error of a footer that was read with keys.
pub(super) fn undecrypted(object: &str, error: ParquetError) -> Error {
    let object = object.to_owned();
    if let ParquetError::NYI(reason) = error {
        return Error::Unsupported { object, column: None, reason };
    }
    // The parquet crate has no error variant for this, so only the message distinguishes it.

    let reason = error.to_string();
    let words = ["decrypt", "key", "AAD", "signature", "crypto"];
    if words.iter().any(|word| reason.contains(word)) {
        Error::Decryption { object, column: None, reason }
    } else {
        Error::corrupt(object, reason)
    }
}

#[cfg(test)]
mod tests {
    use parquet::schema::{parser::parse_message_type, types::SchemaDescriptor};

    use super::*;

    const ROWS: u64 = 1_000_000;

    /// A column chunk of 20-byte strings whose dictionary has the given number of values.
    fn chunk(values: i64) -> ColumnChunkMetaData {
        let schema = parse_message_type("message m { required binary s (STRING); }").unwrap();
        let column = SchemaDescriptor::new(Arc::new(schema)).column(0);
        let dictionary = values * 24;
        let bytes = dictionary + 1_250_000;
        ColumnChunkMetaData::builder(column)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE_DICTIONARY])
            .set_num_values(ROWS as i64)
            .set_total_compressed_size(bytes)
            .set_total_uncompressed_size(bytes)
            .set_dictionary_page_offset(Some(4))
            .set_data_page_offset(4 + dictionary)
            .set_unencoded_byte_array_data_bytes(Some(ROWS as i64 * 20))
            .build()
            .unwrap()
    }

    #[test]
    fn codes_are_estimated_by_the_size_of_their_dictionary() {
        for (values, code_bytes) in [(50, 1), (1_000, 2), (10_000, 2), (30_000, 4), (1_000_000, 4)] {
            let chunk = chunk(values);
            let bytes = chunk.compressed_size() as u64 * 2 + ROWS * code_bytes;
            assert_eq!(working_bytes(&chunk, ROWS, true), bytes, "{values} values");
        }
    }

    #[test]
    fn few_passing_rows_take_little_memory_and_all_of_them_as_much_as_the_chunk() {
        let chunk = chunk(1_000);
        let whole = working_bytes(&chunk, ROWS, false);
        assert!(passing_bytes(&chunk, ROWS, 1) < whole / 4);
        assert_eq!(passing_bytes(&chunk, ROWS, ROWS), whole);
        assert_eq!(passing_bytes(&chunk, 1, 1), working_bytes(&chunk, 1, false));
    }
}
