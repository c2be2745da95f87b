//! Repairs footers that other readers accept and the parquet crate refuses: odd fields are dropped or corrected,
//! and footers beyond repair are left unchanged.
//!
//! Field numbers follow `parquet.thrift` of the Parquet format.

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader};

use super::thrift_tree::{I32, I64, STRUCT, ThriftStruct, ThriftValue};

/// Maximum row groups of a footer: the parquet crate numbers them in 16 bits.
const MAX_ROW_GROUPS: usize = i16::MAX as usize;
/// Largest encoding number; 1 was never used.
const MAX_ENCODING: i64 = 9;
/// Largest codec number.
const MAX_CODEC: i64 = 7;
/// Codec that no reader supports; it stands for all unknown ones.
const LZO: i64 = 3;
/// Largest page type number.
const MAX_PAGE_TYPE: i64 = 3;
/// Largest converted type number.
const MAX_CONVERTED_TYPE: i64 = 21;
const DECIMAL: i64 = 5;

/// Decodes a footer after repairing it; `None` if it still cannot be decoded.
pub(crate) fn decode_repaired(footer: &[u8], options: &ParquetMetaDataOptions) -> Option<ParquetMetaData> {
    let mut footer = ThriftStruct::read(footer)?;
    let leaves = repair_schema(&mut footer);
    let groups = take_row_groups(&mut footer, &leaves);
    if matches!(footer.get(7), Some(ThriftValue::List(_, orders)) if orders.len() != leaves.len()) {
        footer.remove(7);
    }
    // The elements of an empty list may be of any type.
    if matches!(footer.get(5), Some(ThriftValue::List(_, pairs)) if pairs.is_empty()) {
        footer.remove(5);
    }
    if footer.number(3).is_none() {
        footer.set(3, ThriftValue::Int(I64, groups.iter().filter_map(rows_of).sum()));
    }

    let mut decoded: Option<ParquetMetaData> = None;
    let mut parts: Vec<Vec<ThriftValue<'_>>> = groups.chunks(MAX_ROW_GROUPS).map(<[_]>::to_vec).collect();
    if parts.is_empty() {
        parts.push(Vec::new());
    }

    for part in parts {
        footer.set(4, ThriftValue::List(STRUCT, part));
        let next =
            ParquetMetaDataReader::decode_metadata_with_options(&footer.to_bytes(), Some(options)).ok()?;
        decoded = Some(match decoded {
            None => next,
            Some(before) => {
                let mut builder = before.into_builder();
                let mut groups = builder.take_row_groups();
                groups.extend(next.into_builder().take_row_groups());
                builder.set_row_groups(groups).build()
            }
        });
    }

    decoded
}

/// Repairs each element of the schema, and returns the physical types of leaves.
fn repair_schema(footer: &mut ThriftStruct<'_>) -> Vec<i64> {
    let mut leaves = Vec::new();
    let elements = footer.list_mut(2).map(|elements| elements.iter_mut()).into_iter().flatten();
    for element in elements {
        let ThriftValue::Struct(element) = element else { continue };
        repair_element(element);
        let is_group = element.number(5).is_some_and(|children| children > 0);
        if let Some(physical) = element.number(1).filter(|_| !is_group) {
            leaves.push(physical);
        }
    }

    leaves
}

fn repair_element(element: &mut ThriftStruct<'_>) {
    let Some(physical) = element.number(1) else {
        // A group: only the converted types of lists and maps apply.
        if element.number(6).is_some_and(|converted| !(1..=3).contains(&converted)) {
            element.remove(6);
        }
        return;
    };

    let converted = element.number(6);
    let fits = converted.is_none_or(|converted| can_annotate(converted, physical, element.number(2)));
    // The newer logical type is enough.
    if !fits || element.get(10).is_some() {
        element.remove(6);
    }
    repair_decimal(element);
}

/// Gives a decimal without a scale the scale 0. If the logical type differs from the older fields, it wins.
fn repair_decimal(element: &mut ThriftStruct<'_>) {
    let logical = element.struct_mut(10).and_then(|logical| logical.struct_mut(DECIMAL));
    let said = logical.map(|decimal| {
        let scale = decimal.number(1).unwrap_or_default();
        decimal.set(1, ThriftValue::Int(I32, scale));
        (scale, decimal.number(2))
    });
    let (scale, precision) = match said {
        Some(said) => said,
        None if element.number(6) == Some(DECIMAL) => {
            (element.number(7).unwrap_or_default(), element.number(8))
        }
        None => return,
    };

    element.set(7, ThriftValue::Int(I32, scale));
    if let Some(precision) = precision {
        element.set(8, ThriftValue::Int(I32, precision));
    }
}

/// Returns whether values of a physical type may have a converted type.
fn can_annotate(converted: i64, physical: i64, length: Option<i64>) -> bool {
    const INT32: i64 = 1;
    const INT64: i64 = 2;
    const BYTE_ARRAY: i64 = 6;
    const FIXED_LEN_BYTE_ARRAY: i64 = 7;
    match converted {
        // UTF8, ENUM, JSON and BSON.
        0 | 4 | 19 | 20 => physical == BYTE_ARRAY,
        DECIMAL => [INT32, INT64, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY].contains(&physical),
        // DATE, TIME_MILLIS, and whole numbers of up to 32 bits.
        6 | 7 | 11..=13 | 15..=17 => physical == INT32,
        // TIME_MICROS, TIMESTAMP_MILLIS, TIMESTAMP_MICROS, and whole numbers of 64 bits.
        8..=10 | 14 | 18 => physical == INT64,
        MAX_CONVERTED_TYPE => physical == FIXED_LEN_BYTE_ARRAY && length == Some(12),
        // MAP, MAP_KEY_VALUE and LIST annotate groups, and the others are unknown.
        _ => false,
    }
}

/// Takes the repaired row groups, except empty ones that lack the columns of the schema.
fn take_row_groups<'a>(footer: &mut ThriftStruct<'a>, leaves: &[i64]) -> Vec<ThriftValue<'a>> {
    let Some(ThriftValue::List(_, mut groups)) = footer.remove(4) else { return Vec::new() };
    groups.retain_mut(|group| {
        let ThriftValue::Struct(inner) = group else { return true };
        // Drops the ordinal of the row group, which is its position anyway.

        inner.remove(7);
        let total = inner.number(2).unwrap_or_default();
        inner.set(2, ThriftValue::Int(I64, total));
        if matches!(inner.get(1), Some(ThriftValue::List(_, columns)) if columns.is_empty()) {
            inner.set(1, ThriftValue::List(STRUCT, Vec::new()));
        }
        let count = inner.list_mut(1).map_or(0, |columns| columns.len());
        let is_empty = inner.number(3).unwrap_or_default() == 0;
        let columns = inner.list_mut(1).map(|columns| columns.iter_mut()).into_iter().flatten();

        for (chunk, physical) in columns.zip(leaves) {
            if let ThriftValue::Struct(chunk) = chunk {
                repair_chunk(chunk, *physical);
            }
        }

        count == leaves.len() || !is_empty
    });

    groups
}

fn rows_of(group: &ThriftValue<'_>) -> Option<i64> {
    match group {
        ThriftValue::Struct(group) => group.number(3),
        _ => None,
    }
}

fn repair_chunk(chunk: &mut ThriftStruct<'_>, physical: i64) {
    if chunk.number(2).is_none() {
        chunk.set(2, ThriftValue::Int(I64, 0));
    }
    let Some(metadata) = chunk.struct_mut(3) else { return };

    let is_known = |encoding: i64| (0..=MAX_ENCODING).contains(&encoding) && encoding != 1;
    if let Some(ThriftValue::List(_, mut encodings)) = metadata.remove(2) {
        encodings.retain(|encoding| matches!(encoding, ThriftValue::Int(_, encoding) if is_known(*encoding)));
        metadata.set(2, ThriftValue::List(I32, encodings));
    }
    if metadata.number(4).is_some_and(|codec| !(0..=MAX_CODEC).contains(&codec)) {
        metadata.set(4, ThriftValue::Int(I32, LZO));
    }
    if let Some(statistics) = metadata.struct_mut(12) {
        repair_statistics(statistics, physical);
    }

    // Incomplete page encoding statistics would be misleading, so they are dropped.
    let is_whole = |stats: &ThriftValue<'_>| match stats {
        ThriftValue::Struct(stats) => {
            stats.number(1).is_some_and(|page| (0..=MAX_PAGE_TYPE).contains(&page))
                && stats.number(2).is_some_and(is_known)
        }
        _ => false,
    };

    if metadata.list_mut(13).is_some_and(|stats| !stats.iter().all(is_whole)) {
        metadata.remove(13);
    }
}

/// Drops negative counts and bounds whose length is not that of their type.
fn repair_statistics(statistics: &mut ThriftStruct<'_>, physical: i64) {
    for count in [3, 4] {
        if statistics.number(count).is_some_and(|count| count < 0) {
            statistics.remove(count);
        }
    }

    let length = match physical {
        0 => 1,
        1 | 4 => 4,
        2 | 5 => 8,
        3 => 12,
        _ => return,
    };

    for bound in [1, 2, 5, 6] {
        if statistics.binary(bound).is_some_and(|bytes| bytes.len() != length) {
            statistics.remove(bound);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(number: i64) -> ThriftValue<'static> {
        ThriftValue::Int(I32, number)
    }

    fn fields(fields: impl IntoIterator<Item = (i64, ThriftValue<'static>)>) -> ThriftStruct<'static> {
        let mut all = ThriftStruct::default();
        fields.into_iter().for_each(|(field, value)| all.set(field, value));
        all
    }

    fn structs(all: Vec<ThriftStruct<'static>>) -> ThriftValue<'static> {
        ThriftValue::List(STRUCT, all.into_iter().map(ThriftValue::Struct).collect())
    }

    fn chunk(codec: i64) -> ThriftStruct<'static> {
        let statistics = fields([(3, ThriftValue::Int(I64, -1)), (6, ThriftValue::Binary(&[1, 0, 0, 0]))]);
        let metadata = fields([
            (1, int(1)),
            (2, ThriftValue::List(I32, vec![int(0), int(77)])),
            (3, ThriftValue::List(8, vec![ThriftValue::Binary(b"d")])),
            (4, int(codec)),
            (5, ThriftValue::Int(I64, 1)),
            (6, ThriftValue::Int(I64, 30)),
            (7, ThriftValue::Int(I64, 30)),
            (9, ThriftValue::Int(I64, 4)),
            (12, ThriftValue::Struct(statistics)),
        ]);

        fields([(3, ThriftValue::Struct(metadata))])
    }

    fn footer(leaf: ThriftStruct<'static>, groups: Vec<ThriftStruct<'static>>) -> Vec<u8> {
        let root = fields([(4, ThriftValue::Binary(b"schema")), (5, int(1))]);
        fields([(1, int(1)), (2, structs(vec![root, leaf])), (4, structs(groups))]).to_bytes()
    }

    fn group(chunks: Vec<ThriftStruct<'static>>) -> ThriftStruct<'static> {
        let rows = chunks.len() as i64;
        fields([
            (1, structs(chunks)),
            (2, ThriftValue::Int(I64, 30)),
            (3, ThriftValue::Int(I64, rows)),
            (7, ThriftValue::Int(4, 0)),
        ])
    }

    #[test]
    fn what_is_odd_is_left_out_and_the_rest_stays() {
        let leaf = [(1, int(1)), (3, int(0)), (4, ThriftValue::Binary(b"d")), (6, int(DECIMAL)), (8, int(9))];
        let bytes = footer(fields(leaf), vec![group(vec![chunk(99)]), group(Vec::new())]);
        let options = ParquetMetaDataOptions::default();
        assert!(ParquetMetaDataReader::decode_metadata(&bytes).is_err());
        let decoded = decode_repaired(&bytes, &options).unwrap();
        assert_eq!(decoded.num_row_groups(), 1, "one without columns has no rows");
        assert_eq!(decoded.file_metadata().num_rows(), 1);
        let chunk = decoded.row_group(0).column(0);
        assert_eq!(chunk.column_descr().type_scale(), 0);
        assert_eq!(chunk.compression(), parquet::basic::Compression::LZO);
        assert_eq!(chunk.statistics().unwrap().min_bytes_opt(), Some(&[1, 0, 0, 0][..]));
        assert_eq!(chunk.statistics().unwrap().null_count_opt(), None);
    }

    #[test]
    fn there_are_more_row_groups_than_16_bits_count() {
        let leaf = fields([(1, int(1)), (3, int(0)), (4, ThriftValue::Binary(b"d"))]);
        let bytes = footer(leaf, vec![group(vec![chunk(0)]); 70_000]);
        let decoded = decode_repaired(&bytes, &ParquetMetaDataOptions::default()).unwrap();
        assert_eq!((decoded.num_row_groups(), decoded.file_metadata().num_rows()), (70_000, 70_000));
    }
}
