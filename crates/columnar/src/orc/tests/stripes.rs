//! Bounds and null counts from stripe statistics, and files that are read through a store instead of from memory.

use arrow::array::{Array, AsArray, BooleanArray, Float64Array, Int32Array, StringArray, UInt64Array};
use arrow::datatypes::{Date32Type, Decimal128Type, TimestampNanosecondType};
use bytes::Bytes;
use orc_rust::proto::{
    BucketStatistics, ColumnStatistics, DateStatistics, DecimalStatistics, DoubleStatistics,
    IntegerStatistics, Metadata, StringStatistics, StripeStatistics, TimestampStatistics, r#type::Kind,
};

use super::{
    OrcFile, all_fields, object_of, open, read_all,
    sample::{SampleOrcFile, decimal, leaf, parent},
    simple_batch, write,
};
use crate::{
    file::{schema::ProjectedColumn, statistics::PruningStatistics},
    predicate::Column,
};

/// Returns three stripes of 10 rows of a column, with these statistics.
fn file_of(types: Vec<orc_rust::proto::Type>, column: usize, said: [ColumnStatistics; 3]) -> SampleOrcFile {
    let columns = types.len();
    let mut sample = SampleOrcFile::new(types).stripe(10, vec![]).stripe(10, vec![]).stripe(10, vec![]);
    let stripe_stats = said.into_iter().map(|said| {
        let mut col_stats = vec![ColumnStatistics::default(); columns];
        col_stats[column] = said;
        StripeStatistics { col_stats }
    });
    sample.metadata = Metadata { stripe_stats: stripe_stats.collect() };
    sample
}

fn single_column(kind: Kind, said: [ColumnStatistics; 3]) -> OrcFile {
    open(&file_of(vec![parent(Kind::Struct, &[1], &["c"]), leaf(kind)], 1, said).file()).unwrap()
}

fn values(count: u64) -> ColumnStatistics {
    ColumnStatistics { number_of_values: Some(count), has_null: Some(count < 10), ..Default::default() }
}

fn integers(minimum: i64, maximum: i64) -> ColumnStatistics {
    let said = IntegerStatistics { minimum: Some(minimum), maximum: Some(maximum), sum: None };
    ColumnStatistics { int_statistics: Some(said), ..values(7) }
}

#[test]
fn bounds_and_nulls_are_those_of_the_stripes_asked_for() {
    let file = single_column(Kind::Int, [integers(1, 5), values(0), integers(i64::from(i32::MIN) - 1, 3)]);
    let statistics = file.statistics(&[0, 1, 2, 0, 9]);
    let column = Column::new("c");
    assert_eq!(statistics.parts(), 5);
    let min = Int32Array::from(vec![Some(1), None, None, Some(1), None]);
    assert_eq!(statistics.min(&column).unwrap().as_ref(), &min);
    let max = Int32Array::from(vec![Some(5), None, Some(3), Some(5), None]);
    assert_eq!(statistics.max(&column).unwrap().as_ref(), &max);
    let nulls = UInt64Array::from(vec![Some(3), Some(10), Some(3), Some(3), None]);
    assert_eq!(statistics.null_counts(&column), Some(nulls));
    let rows = UInt64Array::from(vec![Some(10), Some(10), Some(10), Some(10), None]);
    assert_eq!(statistics.row_counts(), Some(rows));
    assert!(statistics.min(&Column::new("other")).is_none());
}

#[test]
fn columns_within_structs_go_by_their_path_and_ambiguous_names_by_none() {
    let types = vec![
        parent(Kind::Struct, &[1, 3, 4, 5], &["a", "b", "twice", "twice"]),
        parent(Kind::Struct, &[2], &["x"]),
        leaf(Kind::Int),
        leaf(Kind::Int),
        leaf(Kind::Int),
        leaf(Kind::Int),
    ];

    let file = open(&file_of(types, 2, [integers(1, 2), integers(3, 4), values(0)]).file()).unwrap();
    let statistics = file.statistics(&[0, 1, 2]);
    let min = statistics.min(&Column::new("a.x")).unwrap();
    assert_eq!(min.as_ref(), &Int32Array::from(vec![Some(1), Some(3), None]));

    for unknown in ["a", "x", "b", "twice", "a.", ".x", "", "a.x.y"] {
        assert!(statistics.min(&Column::new(unknown)).is_none(), "{unknown}");
    }
}

#[test]
fn truncated_strings_are_bounds_and_nan_is_none() {
    let strings = |minimum: Option<&str>, lower: Option<&str>, upper: &str| {
        let text = |it: Option<&str>| it.map(str::to_owned);
        let said = StringStatistics {
            minimum: text(minimum),
            lower_bound: text(lower),
            upper_bound: text(Some(upper)),
            ..Default::default()
        };
        ColumnStatistics { string_statistics: Some(said), ..values(10) }
    };

    let said = [strings(Some("a"), None, "b"), strings(None, Some("c"), "d"), strings(None, None, "e")];
    let file = single_column(Kind::String, said);
    let column = Column::new("c");
    let statistics = file.statistics(&[0, 1, 2]);
    assert_eq!(
        statistics.min(&column).unwrap().as_ref(),
        &StringArray::from(vec![Some("a"), Some("c"), None])
    );
    assert_eq!(
        statistics.max(&column).unwrap().as_ref(),
        &StringArray::from(vec![Some("b"), Some("d"), None])
    );

    let summed = |minimum, maximum, sum| {
        let said = DoubleStatistics { minimum: Some(minimum), maximum: Some(maximum), sum };
        ColumnStatistics { double_statistics: Some(said), ..values(10) }
    };
    // With a NaN, bounds omit values, and only the sum reveals it.
    for sum in [None, Some(f64::NAN)] {
        let beside_nan = single_column(Kind::Double, [1.0, 2.0, 3.0].map(|value| summed(value, value, sum)));
        assert!(beside_nan.statistics(&[0, 1, 2]).min(&column).is_none());
    }

    let doubles = |minimum, maximum| summed(minimum, maximum, Some(minimum + maximum));
    let file = single_column(
        Kind::Double,
        [doubles(f64::NAN, 1.0), doubles(0.0, 0.0), doubles(-1.5, f64::INFINITY)],
    );
    let statistics = file.statistics(&[0, 1, 2]);
    let min = statistics.min(&column).unwrap();
    assert_eq!(min.as_ref(), &Float64Array::from(vec![None, Some(-0.0), Some(-1.5)]));
    assert!(min.as_primitive::<arrow::datatypes::Float64Type>().value(1).is_sign_negative());
    assert!(statistics.max(&column).unwrap().is_null(0));
}

#[test]
fn booleans_dates_and_decimals_have_bounds_too() {
    let trues = |count| ColumnStatistics {
        bucket_statistics: Some(BucketStatistics { count: vec![count] }),
        ..values(8)
    };
    let file = single_column(Kind::Boolean, [trues(0), trues(3), trues(8)]);
    let column = Column::new("c");
    let statistics = file.statistics(&[0, 1, 2]);
    assert_eq!(statistics.min(&column).unwrap().as_ref(), &BooleanArray::from(vec![false, false, true]));
    assert_eq!(statistics.max(&column).unwrap().as_ref(), &BooleanArray::from(vec![false, true, true]));

    let dates = DateStatistics { minimum: Some(-5), maximum: Some(7) };
    let file = single_column(
        Kind::Date,
        std::array::from_fn(|_| ColumnStatistics { date_statistics: Some(dates.clone()), ..values(1) }),
    );
    assert_eq!(file.statistics(&[0]).min(&column).unwrap().as_primitive::<Date32Type>().value(0), -5);

    let decimals = DecimalStatistics { minimum: Some("-1.5".into()), maximum: Some("20".into()), sum: None };
    let said = || ColumnStatistics { decimal_statistics: Some(decimals.clone()), ..values(1) };
    let types = vec![parent(Kind::Struct, &[1], &["c"]), decimal(9, 2)];
    let mut sample = file_of(types.clone(), 1, [said(), said(), said()]);
    let file = open(&sample.file()).unwrap();
    let statistics = file.statistics(&[0]);
    assert_eq!(statistics.min(&column).unwrap().as_primitive::<Decimal128Type>().value(0), -150);
    assert_eq!(statistics.max(&column).unwrap().as_primitive::<Decimal128Type>().value(0), 2000);

    sample = file_of(types, 1, [said(), said(), said()]);
    sample.postscript.writer_version = Some(6);
    let file = open(&sample.file()).unwrap();
    assert!(file.statistics(&[0]).min(&column).is_none(), "written before decimals were counted right");
    assert!(file.statistics(&[0]).null_counts(&column).is_some());
}

#[test]
fn bounds_of_timestamps_are_wider_than_the_file_says() {
    let times = TimestampStatistics { minimum_utc: Some(-1), maximum_utc: Some(1_000), ..Default::default() };
    let said = || ColumnStatistics { timestamp_statistics: Some(times.clone()), ..values(10) };
    for (kind, slack) in [(Kind::TimestampInstant, 2), (Kind::Timestamp, 26 * 3600)] {
        let file = single_column(kind, [said(), said(), said()]);
        let column = Column::new("c");
        let statistics = file.statistics(&[0]);
        let min = statistics.min(&column).unwrap();
        let max = statistics.max(&column).unwrap();
        assert_eq!(min.data_type(), file.schema().field(0).data_type());
        let min = min.as_primitive::<TimestampNanosecondType>().value(0);
        let max = max.as_primitive::<TimestampNanosecondType>().value(0);
        assert_eq!((min, max), (-1_000_000 - slack * 1_000_000_000, 1_000_000_000 + slack * 1_000_000_000));
    }
}

#[test]
fn a_writer_that_counts_nothing_says_nothing() {
    let file = single_column(Kind::Int, std::array::from_fn(|_| ColumnStatistics::default()));
    let column = Column::new("c");
    let statistics = file.statistics(&[0, 1, 2]);
    assert!(statistics.min(&column).is_none() && statistics.null_counts(&column).is_none());
    let zero = ColumnStatistics { number_of_values: Some(0), ..Default::default() };
    let file = single_column(Kind::Int, [zero.clone(), zero.clone(), zero]);
    let nulls = file.statistics(&[0]).null_counts(&column);
    assert!(nulls.is_none_or(|nulls| nulls.is_null(0)));
    let none = write(&[simple_batch(5)], None);
    assert!(open(&none).unwrap().statistics(&[0]).min(&Column::new("int")).is_none());
}

async fn through_a_store(file: &Bytes) -> (usize, usize) {
    let (_folder, object) = object_of(file).await;
    let opened = OrcFile::open(&object).await.unwrap();
    let expected = read_all(file, 1000).unwrap();
    let mut rows = 0;

    for stripe in 0..opened.stripe_count() {
        for fields in [vec![ProjectedColumn::whole(8), ProjectedColumn::whole(0)], all_fields(&opened)] {
            let bytes = opened.read(&object, stripe, &fields).await.unwrap();
            let batches = opened.decode(stripe, &fields, bytes, 1000).unwrap();
            let mut row = rows;

            for batch in batches {
                let batch = batch.unwrap();
                for (array, field) in batch.iter().zip(&fields) {
                    assert_eq!(array, &expected.column(field.root).slice(row, array.len()));
                }
                row += batch[0].len();
            }
        }

        rows += opened.stripe_rows(stripe) as usize;
    }

    assert_eq!(rows, expected.num_rows());
    (opened.stripe_count(), opened.weight())
}

#[tokio::test]
async fn a_file_is_read_through_a_store_as_it_is_from_memory() {
    let small = write(&[simple_batch(50)], None);
    let (stripes, weight) = through_a_store(&small).await;
    assert!(stripes == 1 && weight < 100_000, "{weight}");
    // Larger than the first read, so that footers of stripes are read on demand.
    let batches: Vec<_> = (0..20).map(|_| simple_batch(3000)).collect();
    let large = write(&batches, None);
    assert!(large.len() > 200_000);
    assert_eq!(through_a_store(&large).await.0, 20);
}

#[test]
fn a_tail_longer_than_the_first_read_is_read_whole() {
    let names: Vec<String> = (0..20_000).map(|column| format!("column {column}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ids: Vec<u32> = (1..=20_000).collect();
    let types = [parent(Kind::Struct, &ids, &names)].into_iter().chain(ids.iter().map(|_| leaf(Kind::Int)));
    let file = SampleOrcFile::new(types.collect()).file();
    assert!(file.len() > 200_000);
    assert_eq!(open(&file).unwrap().schema().fields().len(), 20_000);
}
