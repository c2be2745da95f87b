//! Statistics of row groups: bounds hold their values, bloom filters contain them, and untrusted writers are ignored.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Datum, RecordBatch, Scalar},
    compute::kernels::cmp::{gt_eq, lt_eq},
    error::ArrowError,
};
use bytes::Bytes;
use orc_rust::proto::{
    BloomFilterIndex, ColumnEncoding, ColumnStatistics, IntegerStatistics, RowIndex, RowIndexEntry,
    stream::Kind as Streams, r#type::Kind,
};
use prost::Message;
use rand::{SeedableRng, rngs::StdRng};
use stylobate_storage::ByteSize;

use super::{
    open, read_all,
    row_groups::{OTHERS, StoredOrcFile, options},
    sample::{SampleOrcFile, leaf, parent},
};
use crate::{
    file::statistics::PruningStatistics,
    orc::{
        OrcColumnIndex, OrcCompression,
        stripe::StreamKind,
        write::{bloom::OrcBloomFilterBuilder, tests::write},
    },
    predicate::{Column, Literal},
};

/// Returns a value of a column as a literal; `None` if it is null, or no filter compares such values.
fn literal(array: &ArrayRef, row: usize) -> Option<Literal> {
    use arrow::datatypes::*;
    if array.is_null(row) {
        return None;
    }

    let whole = |value: i64| Some(Literal::Integer(i128::from(value)));
    match array.data_type() {
        DataType::Int8 => whole(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => whole(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => whole(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => whole(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => Some(Literal::Float(array.as_primitive::<Float32Type>().value(row).into())),
        DataType::Float64 => Some(Literal::Float(array.as_primitive::<Float64Type>().value(row))),
        DataType::Date32 => Some(Literal::Date(array.as_primitive::<Date32Type>().value(row))),
        DataType::Utf8 => Some(Literal::String(array.as_string::<i32>().value(row).to_owned())),
        DataType::Binary => Some(Literal::Binary(array.as_binary::<i32>().value(row).to_vec())),
        DataType::Decimal128(_, scale) => {
            let unscaled = array.as_primitive::<Decimal128Type>().value(row);
            Some(Literal::Decimal { unscaled, scale: *scale as u8 })
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Some(Literal::Timestamp(array.as_primitive::<TimestampNanosecondType>().value(row).into()))
        }
        _ => None,
    }
}

#[tokio::test]
async fn bloom_filters_of_all_writers_know_every_value_of_their_row_group_and_few_others() {
    let mut random = StdRng::seed_from_u64(26);
    let mut files: Vec<(String, Bytes)> =
        OTHERS.iter().map(|(name, bytes)| ((*name).to_owned(), Bytes::from_static(bytes))).collect();
    for (name, bytes) in OTHERS {
        let whole = read_all(&Bytes::from_static(bytes), 8192).unwrap();
        // Without the statistics of the columns, which the writer may refuse.
        let fields = whole.schema_ref().fields().iter().zip(whole.columns());
        let flat = fields.filter(|(field, _)| !field.data_type().is_nested());
        let flat = flat.map(|(field, column)| (field.name(), column.clone(), true));
        let whole = RecordBatch::try_from_iter_with_nullable(flat).unwrap();
        let options = options(&mut random, OrcCompression::Snappy).with_row_index_stride(100);
        files.push((
            format!("{name} anew"),
            write(&[whole], options.with_stripe_size(ByteSize::mib(4))).await.unwrap().0,
        ));
    }

    let mut wrong = Vec::new();
    for (name, bytes) in files {
        let stored = StoredOrcFile::new(&bytes).await;
        let mut columns = 0;
        for (root, field) in stored.file.schema().fields().iter().enumerate() {
            let column = Column::new(field.name());
            let id = stored.file.tail.root.children[root].id as usize;
            let indexes = stored.indexes(0, &[(id, true)]).await;
            let Some((ranges, statistics)) = stored.file.row_groups(0, indexes) else { continue };
            let array = stored.whole.column(root);
            let values: Vec<Option<Literal>> = (0..array.len()).map(|row| literal(array, row)).collect();
            let mut asked = 0;
            let mut ruled_out = 0;

            for value in values.iter().flatten().step_by(7) {
                let Some(may) = statistics.may_contain(&column, std::slice::from_ref(value)) else {
                    continue;
                };
                assert_eq!(may.len(), ranges.len());
                for (group, range) in ranges.iter().enumerate() {
                    let rows = range.start as usize..range.end as usize;
                    let is_there = values[rows.clone()].contains(&Some(value.clone()));
                    if is_there && !may.value(group) {
                        wrong.push(format!("{name}: {value:?} of {} in {rows:?}", field.name()));
                    }
                    asked += usize::from(!is_there);
                    ruled_out += usize::from(!may.value(group));
                }
            }

            columns += usize::from(asked > 0);
            if ruled_out * 10 < asked * 8 {
                wrong.push(format!("{name}: {ruled_out} of {asked} of {}", field.name()));
            }
        }

        assert!(columns >= 9, "{name}: {columns} columns");
    }

    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

#[tokio::test]
async fn bounds_of_row_groups_hold_their_values() {
    for (name, bytes) in OTHERS {
        let stored = StoredOrcFile::new(&Bytes::from_static(bytes)).await;
        let mut bounded = 0;
        for (root, field) in stored.file.schema().fields().iter().enumerate() {
            let column = Column::new(field.name());
            let id = stored.file.tail.root.children[root].id as usize;
            let indexes = stored.indexes(0, &[(id, false)]).await;
            let (ranges, statistics) = stored.file.row_groups(0, indexes).unwrap();
            let array = stored.whole.column(root);
            let nulls = statistics.null_counts(&column).unwrap();
            let min = statistics.min(&column);
            let max = statistics.max(&column);

            for (group, range) in ranges.iter().enumerate() {
                let part = array.slice(range.start as usize, (range.end - range.start) as usize);
                assert_eq!(nulls.value(group) as usize, part.null_count(), "{name}, {}", field.name());
                let (Some(min), Some(max)) = (&min, &max) else { continue };
                if min.is_null(group) {
                    continue;
                }

                bounded += 1;
                let within =
                    |bound: &ArrayRef, op: fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>| {
                        let passed = op(&part, &Scalar::new(bound.slice(group, 1)));
                        passed.unwrap().iter().flatten().all(|passed| passed)
                    };
                assert!(within(min, gt_eq) && within(max, lt_eq), "{name}, {}", field.name());
            }
        }
        assert!(bounded > 30, "{name}: {bounded}");
    }
}

/// Returns a stripe of two row groups of ten rows each: the first has the values 1 to 5 and the second 6 to 9; both
/// have matching bloom filters.
fn two_groups(kind: Kind, filters: Streams) -> SampleOrcFile {
    let said = |minimum, maximum| {
        let bounds = IntegerStatistics { minimum: Some(minimum), maximum: Some(maximum), sum: None };
        let said = ColumnStatistics {
            int_statistics: Some(bounds),
            number_of_values: Some(10),
            ..ColumnStatistics::default()
        };
        RowIndexEntry { statistics: Some(said), ..RowIndexEntry::default() }
    };

    let index = RowIndex { entry: vec![said(1, 5), said(6, 9)] }.encode_to_vec();
    let filter = |values: std::ops::Range<i64>| {
        let mut bloom = OrcBloomFilterBuilder::new(0.0001);
        values.for_each(|value| bloom.add_whole(value));
        bloom.end_group();
        bloom.filters().next().unwrap()
    };
    let filter = BloomFilterIndex { bloom_filter: vec![filter(1..6), filter(6..10)] }.encode_to_vec();
    let types = vec![parent(Kind::Struct, &[1], &["c"]), leaf(kind)];
    let mut sample =
        SampleOrcFile::new(types).stripe(20, vec![(1, Streams::RowIndex, index), (1, filters, filter)]);
    sample.footer.row_index_stride = Some(10);

    sample
}

/// Returns the row groups that may have a value, by their bloom filters.
fn asked(sample: SampleOrcFile, literal: Literal) -> Option<Vec<bool>> {
    let file = sample.file();
    let opened = open(&file).unwrap();
    let footer = opened.known_footer(0).unwrap();
    let cut = |kind| {
        let range = footer.index(1, kind)?;
        Some(file.slice(range.start as usize..range.end as usize))
    };
    let index = OrcColumnIndex::parse(cut(StreamKind::RowIndex), cut(StreamKind::BloomFilter), None, 2);
    let (ranges, statistics) = opened.row_groups(0, vec![(1, Arc::new(index))]).unwrap();
    assert_eq!(ranges, [0..10, 10..20]);
    let may = statistics.may_contain(&Column::new("c"), &[literal])?;

    Some(may.iter().map(Option::unwrap).collect())
}

#[test]
fn bloom_filters_are_believed_where_their_writer_hashed_as_others_do() {
    let of = |filters, writer: Option<u32>, version: Option<&str>| {
        let mut sample = two_groups(Kind::Long, filters);
        sample.footer.writer = writer;
        sample.footer.software_version = version.map(str::to_owned);
        asked(sample, Literal::Integer(7))
    };
    let second = Some(vec![false, true]);
    assert_eq!(of(Streams::BloomFilterUtf8, None, None), second);
    assert_eq!(of(Streams::BloomFilter, None, None), None, "filters of the first kind");

    for (version, known) in [
        (None, false),
        (Some("1.6.11"), false),
        (Some("1.7.0-SNAPSHOT"), false),
        (Some("1.7.1"), true),
        (Some("2.2.2"), true),
    ] {
        assert_eq!(
            of(Streams::BloomFilterUtf8, Some(1), version),
            second.clone().filter(|_| known),
            "{version:?}"
        );
        assert_eq!(of(Streams::BloomFilterUtf8, Some(0), version), second, "{version:?}");
    }
}

#[test]
fn bloom_filters_of_timestamps_are_believed_where_they_are_in_utc() {
    let of = |kind, encoding: Option<u32>, zone: &str| {
        let mut sample = two_groups(kind, Streams::BloomFilterUtf8);
        sample.stripes[0].encodings[1] =
            ColumnEncoding { bloom_encoding: encoding, ..ColumnEncoding::default() };
        sample.stripes[0].zone = Some(zone.to_owned());
        // The eighth second after 1970, so that no fraction is ambiguous.
        asked(sample, Literal::Timestamp(7_000_000_000))
    };

    let neither = Some(vec![false, false]);
    assert_eq!(of(Kind::Timestamp, Some(1), "UTC"), neither);
    assert_eq!(of(Kind::TimestampInstant, Some(1), "Asia/Tokyo"), neither);
    assert_eq!(of(Kind::Timestamp, Some(1), "Asia/Tokyo"), None);
    assert_eq!(of(Kind::Timestamp, Some(0), "UTC"), None);
    assert_eq!(of(Kind::TimestampInstant, None, "UTC"), None);
}

#[test]
fn an_index_is_asked_for_where_it_may_help_and_can_be_believed() {
    let of = |change: &dyn Fn(&mut SampleOrcFile), equality: bool| {
        let mut sample = two_groups(Kind::Long, Streams::BloomFilterUtf8);
        change(&mut sample);
        let column = Column::new("c");
        open(&sample.file()).unwrap().indexed_columns(0, [(&column, equality)].into_iter())
    };
    assert_eq!(of(&|_| {}, false), [(1, false)]);
    assert_eq!(of(&|_| {}, true), [(1, true)]);
    assert_eq!(of(&|sample| sample.footer.row_index_stride = None, true), []);
    // The only row group is the stripe itself, so only its bloom filter can add information.
    assert_eq!(of(&|sample| sample.footer.row_index_stride = Some(20), false), []);
    assert_eq!(of(&|sample| sample.footer.row_index_stride = Some(20), true), [(1, true)]);
    assert_eq!(of(&|sample| sample.postscript.writer_version = Some(0), true), []);
}
