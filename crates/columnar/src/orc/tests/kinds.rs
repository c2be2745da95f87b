//! Tests of types that no available writer produces: nested ones, decimals, dictionaries, clocks of other zones,
//! unions.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Decimal128Array, Int32Array, StringArray, StructArray},
    datatypes::{
        DataType, Field, Int32Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType, UnionMode,
    },
};
use bytes::Bytes;
use orc_rust::proto::{
    ColumnEncoding, ColumnStatistics, TimestampStatistics, Type, stream::Kind as Streams, r#type::Kind,
};

use super::{
    all_fields, decode, open, read_all,
    sample::{SampleOrcFile, bits, decimal, digits, ints, leaf, lengths, parent},
};
use crate::{Error, file::schema::ProjectedColumn};

/// Returns a struct of an int and a struct of a string and a list of ints, and a map of strings to ints; with nulls at
/// each level.
pub(super) fn nested() -> Bytes {
    let types = vec![
        parent(Kind::Struct, &[1, 7], &["outer", "map"]),
        parent(Kind::Struct, &[2, 3], &["number", "inner"]),
        leaf(Kind::Int),
        parent(Kind::Struct, &[4, 5], &["text", "list"]),
        leaf(Kind::String),
        parent(Kind::List, &[6], &[]),
        leaf(Kind::Int),
        parent(Kind::Map, &[8, 9], &[]),
        leaf(Kind::String),
        leaf(Kind::Int),
    ];

    let streams = vec![
        (1, Streams::Present, bits(&[true, false, true, true])),
        (2, Streams::Present, bits(&[true, false, true])),
        (2, Streams::Data, ints(&[1, 4])),
        (3, Streams::Present, bits(&[true, true, false])),
        (4, Streams::Data, b"ac".to_vec()),
        (4, Streams::Length, lengths(&[1, 1])),
        (5, Streams::Length, lengths(&[2, 0])),
        (6, Streams::Present, bits(&[true, false])),
        (6, Streams::Data, ints(&[10])),
        (7, Streams::Present, bits(&[true, true, false, true])),
        (7, Streams::Length, lengths(&[1, 0, 2])),
        (8, Streams::Data, b"xyz".to_vec()),
        (8, Streams::Length, lengths(&[1, 1, 1])),
        (9, Streams::Present, bits(&[true, false, true])),
        (9, Streams::Data, ints(&[5, 6])),
    ];

    SampleOrcFile::new(types).stripe(4, streams).file()
}

/// Returns decimals, timestamps with and without zone, and a dictionary.
pub(super) fn others() -> Bytes {
    let types = vec![
        parent(Kind::Struct, &[1, 2, 3, 4], &["decimal", "clock", "instant", "string"]),
        decimal(10, 2),
        leaf(Kind::Timestamp),
        leaf(Kind::TimestampInstant),
        leaf(Kind::String),
    ];

    let times = |column| {
        [
            (column, Streams::Data, ints(&[0, -1_420_070_402, 1])),
            (column, Streams::Secondary, lengths(&[0, 5 << 3 | 7, 8])),
        ]
    };
    let mut streams = vec![
        (1, Streams::Data, digits(&[5, -123, 40_000])),
        (1, Streams::Secondary, ints(&[0, 2, 4])),
        (4, Streams::Data, lengths(&[1, 0, 1])),
        (4, Streams::DictionaryData, b"longs".to_vec()),
        (4, Streams::Length, lengths(&[4, 1])),
    ];

    streams.extend([times(2), times(3)].concat());
    let mut sample = SampleOrcFile::new(types).stripe(3, streams);
    sample.stripes[0].encodings[4] =
        ColumnEncoding { kind: Some(1), dictionary_size: Some(2), ..Default::default() };
    sample.stripes[0].zone = Some("Asia/Tokyo".into());
    sample.file()
}

#[test]
fn nulls_at_every_level_are_where_they_were() {
    for batch_rows in [1, 2, 3, 100] {
        let read = read_all(&nested(), batch_rows).unwrap();
        let outer = read.column(0).as_struct();
        assert_eq!(outer.nulls().unwrap().iter().collect::<Vec<_>>(), [true, false, true, true]);
        assert_eq!(outer.column(0).as_ref(), &Int32Array::from(vec![Some(1), None, None, Some(4)]));
        let inner = outer.column(1).as_struct();
        assert_eq!(inner.nulls().unwrap().iter().collect::<Vec<_>>(), [true, false, true, false]);
        assert_eq!(inner.column(0).as_ref(), &StringArray::from(vec![Some("a"), None, Some("c"), None]));
        let list = inner.column(1).as_list::<i32>();
        assert_eq!(list.value(0).as_ref(), &Int32Array::from(vec![Some(10), None]));

        assert_eq!(
            (list.is_null(1), list.is_valid(2), list.value_length(2), list.is_null(3)),
            (true, true, 0, true)
        );
        let map = read.column(1).as_map();
        assert_eq!((0..4).map(|row| map.value_length(row)).collect::<Vec<_>>(), [1, 0, 0, 2]);
        assert!(map.is_null(2));
        let entries = map.value(3);
        assert_eq!(entries.column(0).as_ref(), &StringArray::from(vec!["y", "z"]));
        assert_eq!(entries.column(1).as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [None, Some(6)]);
    }
}

#[test]
fn leaves_of_a_struct_are_read_without_the_others() {
    let file = nested();
    let opened = open(&file).unwrap();
    let root = opened.schema().field(0).clone();
    // Leaves of the first column: number, inner.text, inner.list.item.

    for leaves in [vec![0], vec![1], vec![2], vec![0, 2], vec![0, 1, 2]] {
        let field = ProjectedColumn { root: 0, leaves: Some(leaves.clone().into()) };
        let arrays =
            decode(&file, &opened, &[field.clone(), ProjectedColumn::whole(1)], 10).unwrap().remove(0);
        assert_eq!(arrays[0].data_type(), field.field(&Arc::new(root.clone())).data_type(), "{leaves:?}");
        assert_eq!(arrays[0].null_count(), 1);
        assert_eq!(arrays[1].data_type(), opened.schema().field(1).data_type());
    }

    let only = ProjectedColumn { root: 0, leaves: Some([1].into()) };
    let text = Field::new("text", DataType::Utf8, true);
    let arrays = decode(&file, &opened, std::slice::from_ref(&only), 10).unwrap().remove(0);
    let inner = arrays[0].as_struct().column(0).as_struct().clone();
    let expected: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c"), None]));
    assert_eq!(inner, StructArray::new(vec![text].into(), vec![expected], inner.nulls().cloned()));
    assert!(opened.estimated_bytes(0, &[only]) < opened.estimated_bytes(0, &[ProjectedColumn::whole(0)]));
    let half_a_map = ProjectedColumn { root: 1, leaves: Some([0].into()) };
    assert!(matches!(decode(&file, &opened, &[half_a_map], 10), Err(Error::Unsupported { .. })));
}

#[test]
fn decimals_take_the_scale_of_their_column() {
    let read = read_all(&others(), 2).unwrap();
    let expected = Decimal128Array::from(vec![500, -123, 400]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(read.column(0).as_ref(), &expected);
}

#[test]
fn decimals_have_up_to_38_digits_and_no_more() {
    let max_decimal = 10_i128.pow(38) - 1;
    let file = |values: &[i128]| {
        let types = vec![parent(Kind::Struct, &[1], &["d"]), decimal(38, 0)];
        let streams =
            vec![(1, Streams::Data, digits(values)), (1, Streams::Secondary, ints(&vec![0; values.len()]))];
        SampleOrcFile::new(types).stripe(values.len() as u64, streams).file()
    };
    let read = read_all(&file(&[max_decimal, -max_decimal, 0]), 10).unwrap();
    assert_eq!(
        read.column(0).as_ref(),
        &Decimal128Array::from(vec![max_decimal, -max_decimal, 0]).with_precision_and_scale(38, 0).unwrap()
    );
    assert!(read_all(&file(&[max_decimal + 1]), 10).is_err());
    assert!(read_all(&file(&[i128::MIN]), 10).is_err());
}

#[test]
fn short_decimals_of_the_next_version_are_whole_numbers() {
    let types = vec![parent(Kind::Struct, &[1], &["d"]), decimal(18, 3)];
    // A run of three times 2500, zigzag.
    let mut sample = SampleOrcFile::new(types).stripe(3, vec![(1, Streams::Data, vec![0x08, 0x13, 0x88])]);
    sample.postscript.version = vec![1, 9999];
    let expected = Decimal128Array::from(vec![2500; 3]).with_precision_and_scale(18, 3).unwrap();
    assert_eq!(read_all(&sample.file(), 10).unwrap().column(0).as_ref(), &expected);
}

#[test]
fn a_decimal_without_precision_is_one_of_38_digits() {
    let types = vec![parent(Kind::Struct, &[1], &["d"]), leaf(Kind::Decimal)];
    let file = SampleOrcFile::new(types).file();
    assert_eq!(open(&file).unwrap().schema().field(0).data_type(), &DataType::Decimal128(38, 10));
}

#[test]
fn a_clock_shows_what_it_showed_and_an_instant_is_in_utc() {
    let read = read_all(&others(), 10).unwrap();
    let epoch = 1_420_070_400_000_000_000;
    let clock = read.column(1).as_primitive::<TimestampNanosecondType>();
    // In Tokyo the count begins nine hours earlier, which is before 1970 for the second value either way.
    assert_eq!(clock.values()[..], [epoch, -2_500_000_000, epoch + 1_000_000_001]);
    assert_eq!(read.schema().field(1).data_type(), &DataType::Timestamp(TimeUnit::Nanosecond, None));
    let instant = read.column(2).as_primitive::<TimestampNanosecondType>();
    assert_eq!(instant.values()[..], [epoch, -2_500_000_000, epoch + 1_000_000_001]);
    assert_eq!(instant.timezone(), Some("UTC"));
}

fn timestamps(seconds: &[i64], nanoseconds: &[u64], zone: Option<&str>) -> SampleOrcFile {
    let types = vec![parent(Kind::Struct, &[1], &["t"]), leaf(Kind::Timestamp)];
    let streams = vec![(1, Streams::Data, ints(seconds)), (1, Streams::Secondary, lengths(nanoseconds))];
    let mut sample = SampleOrcFile::new(types).stripe(seconds.len() as u64, streams);
    sample.stripes[0].zone = zone.map(str::to_owned);
    sample
}

#[test]
fn summer_time_is_that_of_the_writers_zone() {
    // 2015-07-01T12:00 in Berlin, two hours ahead of UTC, counted from its midnight of 2015, one hour ahead.
    let july = 181 * 86_400 + 11 * 3600;
    let read = read_all(&timestamps(&[july], &[0], Some("Europe/Berlin")).file(), 10).unwrap();
    let noon = (1_420_070_400 + 181 * 86_400 + 12 * 3600) * 1_000_000_000;
    assert_eq!(read.column(0).as_primitive::<TimestampNanosecondType>().value(0), noon);
}

#[test]
fn nanoseconds_that_are_negative_before_1970_count_backwards() {
    let nanoseconds = (-123_456_789_i64 << 3) as u64;
    let read = read_all(&timestamps(&[-1_420_070_401], &[nanoseconds], None).file(), 10).unwrap();
    assert_eq!(read.column(0).as_primitive::<TimestampNanosecondType>().value(0), -1_123_456_789);
}

#[test]
fn a_zone_nobody_knows_is_no_zone_to_guess() {
    let error = read_all(&timestamps(&[1], &[0], Some("Mars/Olympus")).file(), 10).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { column: Some(column), .. } if column == "t"), "{error}");
}

#[test]
fn timestamps_of_other_centuries_are_microseconds_where_the_file_says_that_there_are_some() {
    let year_9999 = 253_402_300_799 - 1_420_070_400;
    let mut sample = timestamps(&[year_9999], &[5 << 3 | 4], None);
    let error = read_all(&timestamps(&[year_9999], &[0], None).file(), 10).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { column: Some(column), .. } if column == "t"), "{error}");

    let times = TimestampStatistics { maximum_utc: Some(253_402_300_799_500), ..Default::default() };
    let known = ColumnStatistics { timestamp_statistics: Some(times), ..Default::default() };
    sample.footer.statistics = vec![ColumnStatistics::default(), known];
    let read = read_all(&sample.file(), 10).unwrap();
    assert_eq!(read.schema().field(0).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    assert_eq!(read.column(0).as_primitive::<TimestampMicrosecondType>().value(0), 253_402_300_799_000_500);
}

#[test]
fn a_dictionary_comes_out_as_its_values() {
    let read = read_all(&others(), 2).unwrap();
    assert_eq!(read.column(3).as_ref(), &StringArray::from(vec!["s", "long", "s"]));
}

#[test]
fn rows_that_the_root_has_not_are_null_in_every_column() {
    let types = vec![parent(Kind::Struct, &[1], &["i"]), leaf(Kind::Int)];
    let streams = vec![(0, Streams::Present, bits(&[true, false, true])), (1, Streams::Data, ints(&[7, 8]))];
    let read = read_all(&SampleOrcFile::new(types).stripe(3, streams).file(), 2).unwrap();
    assert_eq!(read.column(0).as_ref(), &Int32Array::from(vec![Some(7), None, Some(8)]));
}

#[test]
fn columns_that_cannot_be_read_leave_the_others_readable() {
    let types = vec![
        parent(Kind::Struct, &[1, 2, 3], &["good", "empty", "future"]),
        leaf(Kind::Int),
        parent(Kind::Union, &[], &[]),
        Type { kind: Some(99), ..Type::default() },
    ];
    let file = SampleOrcFile::new(types).stripe(2, vec![(1, Streams::Data, ints(&[1, 2]))]).file();
    let opened = open(&file).unwrap();
    assert_eq!(opened.schema().fields().len(), 3);
    let good = decode(&file, &opened, &[ProjectedColumn::whole(0)], 10).unwrap().remove(0);
    assert_eq!(good[0].as_ref(), &Int32Array::from(vec![1, 2]));

    for (root, name) in [(1, "empty"), (2, "future")] {
        let error = decode(&file, &opened, &[ProjectedColumn::whole(root)], 10).unwrap_err();
        assert!(
            matches!(&error, Error::Unsupported { column: Some(column), .. } if column == name),
            "{error}"
        );
    }

    assert!(decode(&file, &opened, &all_fields(&opened), 10).is_err());
}

/// Returns rows of an int, a string, nothing, a null int, a null string, and an int.
fn union_file(tags: &[u8]) -> Bytes {
    let types = vec![
        parent(Kind::Struct, &[1, 2], &["row", "either"]),
        leaf(Kind::Int),
        parent(Kind::Union, &[3, 4], &[]),
        leaf(Kind::Int),
        leaf(Kind::String),
    ];

    let tags = [&[(tags.len() as u8).wrapping_neg()], tags].concat();
    let streams = vec![
        (1, Streams::Data, ints(&[0, 1, 2, 3, 4, 5])),
        (2, Streams::Present, bits(&[true, true, false, true, true, true])),
        (2, Streams::Data, tags),
        (3, Streams::Present, bits(&[true, false, true])),
        (3, Streams::Data, ints(&[7, 8])),
        (4, Streams::Present, bits(&[true, false])),
        (4, Streams::Data, b"text".to_vec()),
        (4, Streams::Length, lengths(&[4])),
    ];

    SampleOrcFile::new(types).stripe(6, streams).file()
}

#[test]
fn unions_have_every_row_in_every_variant_and_nulls_where_it_is_another() {
    for batch_rows in [1, 2, 4, 100] {
        let read = read_all(&union_file(&[0, 1, 0, 1, 0]), batch_rows).unwrap();
        let DataType::Union(fields, UnionMode::Sparse) = read.schema().field(1).data_type().clone() else {
            panic!("{}", read.schema());
        };
        let names: Vec<&str> = fields.iter().map(|(_, field)| field.name().as_str()).collect();
        assert_eq!(names, ["_union_0", "_union_1"]);
        let union = read.column(1).as_union();
        assert_eq!(union.type_ids()[..], [0, 1, 0, 0, 1, 0]);
        let numbers = Int32Array::from(vec![Some(7), None, None, None, None, Some(8)]);
        let texts = StringArray::from(vec![None, Some("text"), None, None, None, None]);
        assert_eq!(union.child(0).as_ref(), &numbers);
        assert_eq!(union.child(1).as_ref(), &texts);
        assert_eq!(union.logical_null_count(), 3);
    }
}

#[test]
fn a_variant_that_a_union_has_not_is_corrupt() {
    let file = union_file(&[0, 1, 2, 1, 0]);
    let error = read_all(&file, 10).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { column: Some(column), .. } if column == "either"), "{error}");
    let opened = open(&file).unwrap();
    let rows = decode(&file, &opened, &[ProjectedColumn::whole(0)], 10).unwrap().remove(0);
    assert_eq!(rows[0].as_ref(), &Int32Array::from(vec![0, 1, 2, 3, 4, 5]));
}

#[test]
fn clocks_before_1900_are_as_their_writer_set_them() {
    // 1850-01-01T00:00 in Los Angeles: 8 hours behind UTC in Java, and 7:52:58 by local mean time in C++.
    let midnight = -3_786_825_600_i64;
    let epoch = 1_420_070_400 + 8 * 3_600;
    for (writer, offset) in
        [(None, -8 * 3_600), (Some(0), -8 * 3_600), (Some(1), -(7 * 3_600 + 52 * 60 + 58))]
    {
        let mut sample = timestamps(&[midnight - offset - epoch], &[0], Some("America/Los_Angeles"));
        sample.footer.writer = writer;
        let read = read_all(&sample.file(), 10).unwrap();
        let read = read.column(0).as_primitive::<TimestampNanosecondType>().value(0);
        assert_eq!(read, midnight * 1_000_000_000, "{writer:?}");
    }
}
