//! Counts the requests of scans to an origin, and the chunks that they decode.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../storage/tests/support/mod.rs"]
mod origin;
mod support;

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{
        ArrayRef, AsArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
        RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, UInt32Array,
    },
    datatypes::Int64Type,
};
use bytes::Bytes;
use origin::{Bench, bench, noise, quick};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    file::properties::WriterProperties,
};
use stylobate_columnar::{Cache, Predicate, ScanRequest, Source, col};
use stylobate_storage::{ByteSize, CacheOptions, Consistency};
use support::collect;

/// A column: its name, its values, and a value's notation in SQL.
type Typed<'a> = (&'a str, ArrayRef, &'a dyn Fn(i64) -> String);

/// Rows of a row group.
const GROUP: usize = 20_000;
const GROUPS: usize = 3;

fn parquet(batch: &RecordBatch, properties: WriterProperties) -> Bytes {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}

/// Creates two columns of incompressible noise with a column of even numbers between them.
fn table(rows: usize) -> RecordBatch {
    let text = |seed: u64| -> ArrayRef {
        let words = (0..rows).map(|row| {
            let bytes = noise(56, seed + row as u64 * 2);
            bytes.iter().map(|byte| char::from(b' ' + byte % 64)).collect::<String>()
        });
        Arc::new(words.map(|word| Some(format!("{word}{word}"))).collect::<StringArray>())
    };

    let even: ArrayRef = Arc::new((0..rows as i64).map(|row| row * 2).collect::<Int64Array>());
    RecordBatch::try_from_iter([("before", text(1)), ("even", even), ("after", text(2))]).unwrap()
}

fn properties() -> parquet::file::properties::WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP))
        .set_data_page_row_count_limit(1000)
        .set_write_batch_size(1000)
        .set_dictionary_enabled(false)
}

struct Lake {
    bench: Bench,
    cache: Cache,
    bytes: Bytes,
}

impl Lake {
    /// Puts one file behind a cache of small pages, so that reads are known to within a few kilobytes.
    async fn with(bytes: Bytes) -> Self {
        let pages = CacheOptions::new(ByteSize::mib(320)).with_page_size(ByteSize::kib(4));
        let bench = bench(pages, Consistency::Immutable, quick()).await;
        bench.put("t.parquet", bytes.clone()).await;
        let cache = Cache::over(bench.cache.clone());
        Self { bench, cache, bytes }
    }

    fn request(&self) -> ScanRequest {
        let store = self.bench.store.clone();
        let pattern = "t.parquet".to_owned();
        ScanRequest::over([Source::Store { store, pattern }])
    }

    fn asked(&self) -> u64 {
        self.bench.origin.gets() + self.bench.origin.heads()
    }

    /// Returns the fetched bytes of a column's chunk, except for pages at its ends.
    fn fetched_of(&self, group: usize, column: usize) -> u64 {
        let reader = ParquetRecordBatchReaderBuilder::try_new(self.bytes.clone()).unwrap();
        let (start, length) = reader.metadata().row_group(group).column(column).byte_range();
        let chunk = start + (128 << 10)..(start + length).saturating_sub(128 << 10);
        let ranges = self.bench.origin.ranges.lock();
        let within =
            |range: &Range<u64>| range.end.min(chunk.end).saturating_sub(range.start.max(chunk.start));
        ranges.iter().map(within).sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_scan_over_the_same_columns_asks_and_decodes_nothing() {
    let lake = Lake::with(parquet(&table(GROUP * GROUPS), properties().build())).await;
    let first = lake.request().with_filter(col("even").gt(10)).with_columns(["before", "even"]);
    assert_eq!(collect(first, &lake.cache).await.unwrap().num_rows(), GROUP * GROUPS - 6);
    let asked = lake.asked();
    let decoded = lake.cache.stats().decoded_chunks;
    assert_eq!(decoded, 2 * GROUPS as u64);
    let others = [
        lake.request().with_filter(col("even").lt(70_000)).with_columns(["before"]),
        lake.request().with_filter(col("before").gt("A").and(col("even").gt(7))).with_columns(["even"]),
        lake.request()
            .with_filter(Predicate::parse("even IN (4, 41002, 5) OR before IS NULL").unwrap())
            .with_columns(["even", "before"]),
        lake.request().with_columns(["even", "before"]),
    ];

    for other in others {
        assert!(collect(other, &lake.cache).await.unwrap().num_rows() > 0);
    }

    assert_eq!(lake.asked(), asked, "nothing was asked for");
    assert_eq!(lake.cache.stats().decoded_chunks, decoded, "nothing was decoded");
    assert_eq!(lake.cache.stats().parsed_files, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scans_that_race_for_a_cold_column_fetch_and_decode_it_once() {
    let lake = Arc::new(Lake::with(parquet(&table(GROUP * GROUPS), properties().build())).await);
    let scans = (0..8).map(|_| {
        let lake = lake.clone();
        tokio::spawn(async move {
            collect(lake.request().with_columns(["after"]), &lake.cache).await.unwrap().num_rows()
        })
    });

    for scan in scans.collect::<Vec<_>>() {
        assert_eq!(scan.await.unwrap(), GROUP * GROUPS);
    }

    assert_eq!(lake.cache.stats().decoded_chunks, GROUPS as u64);
    assert_eq!(lake.cache.stats().parsed_files, 1);
    assert_eq!((0..GROUPS).map(|group| lake.fetched_of(group, 0)).sum::<u64>(), 0);
    let mut ranges = lake.bench.origin.ranges.lock().clone();
    ranges.sort_unstable_by_key(|range| range.start);
    // The request for the end of the file begins within a block, since the size was not known.
    let twice: u64 = ranges.windows(2).map(|pair| pair[0].end.saturating_sub(pair[1].start)).sum();
    assert!(twice < 4 << 10, "{twice} bytes were fetched twice: {ranges:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_row_group_without_matching_rows_no_other_column_is_fetched() {
    // Without statistics and index, only the values themselves decide.
    let silent = properties().set_statistics_enabled(parquet::file::properties::EnabledStatistics::None);
    let lake = Lake::with(parquet(&table(GROUP * GROUPS), silent.build())).await;
    let wanted = GROUP as i64 * 2 + 100;
    let read = collect(lake.request().with_filter(col("even").eq(wanted)), &lake.cache).await.unwrap();
    assert_eq!(read.num_rows(), 1);
    assert_eq!(lake.cache.stats().pruned_row_groups, 0);

    for (group, fetched) in [(0, false), (1, true), (2, false)] {
        assert!(lake.fetched_of(group, 0) > 0 || !fetched);
        assert_eq!(lake.fetched_of(group, 0) > 0, fetched, "row group {group}");
        assert_eq!(lake.fetched_of(group, 2) > 0, fetched, "row group {group}");
    }

    assert_eq!(lake.cache.stats().decoded_chunks, GROUPS as u64 + 2);
    let none = lake.request().with_filter(col("even").eq(wanted + 1));
    let asked = lake.asked();
    assert_eq!(collect(none, &lake.cache).await.unwrap().num_rows(), 0);
    assert_eq!(lake.asked(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_struct_only_the_fields_that_a_filter_looks_at_are_fetched() {
    let inner = StructArray::from(table(GROUP * GROUPS));
    let number: ArrayRef = Arc::new((0..GROUP as i64 * GROUPS as i64).collect::<Int64Array>());
    let batch = RecordBatch::try_from_iter([("number", number), ("s", Arc::new(inner) as ArrayRef)]).unwrap();
    let lake = Lake::with(parquet(&batch, properties().build())).await;
    let filter = col("s.even").gt_eq(2 * GROUP as i64).and(col("s.even").not_eq(2 * GROUP as i64 + 2));
    let read =
        collect(lake.request().with_filter(filter).with_columns(["number"]), &lake.cache).await.unwrap();
    assert_eq!(read.num_rows(), 2 * GROUP - 1);
    assert_eq!(read.column(0).as_primitive::<Int64Type>().value(1), GROUP as i64 + 2);

    for group in 0..GROUPS {
        assert_eq!((lake.fetched_of(group, 1), lake.fetched_of(group, 3)), (0, 0), "row group {group}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_few_matching_pages_no_other_page_is_fetched() {
    let written = table(GROUP * GROUPS);
    for dictionary in [false, true] {
        // The dictionaries are small, and the writer abandons them early.
        let properties = properties().set_dictionary_page_size_limit(64 << 10);
        let bytes = parquet(&written, properties.set_dictionary_enabled(dictionary).build());
        let lake = Lake::with(bytes.clone()).await;
        let filter = col("even").between(50_100, 52_100);
        let read = collect(lake.request().with_filter(filter.clone()), &lake.cache).await.unwrap();
        let rows = 25_050..26_051;
        let expected = written.slice(rows.start, rows.len());
        assert_eq!(read.column(1), expected.column(1));
        assert_eq!(support::strings(read.column(0)), support::strings(expected.column(0)));
        assert_eq!(lake.cache.stats().selected_row_groups, 1);
        assert_eq!(lake.cache.stats().pruned_row_groups, 2, "statistics rule out the others");
        assert_eq!(lake.cache.stats().decoded_chunks, 0);
        let fetched = lake.bench.origin.bytes();
        assert!(
            fetched < bytes.len() as u64 / if dictionary { 4 } else { 8 },
            "{fetched} of {}",
            bytes.len()
        );

        let asked = lake.asked();
        collect(lake.request().with_filter(filter), &lake.cache).await.unwrap();
        assert_eq!(lake.asked(), asked);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_index_can_rule_out_a_whole_row_group() {
    let steps: ArrayRef = Arc::new((0..GROUP as i64).map(|row| row * 10).collect::<Int64Array>());
    let noise = table(GROUP).column(0).clone();
    let batch = RecordBatch::try_from_iter([("noise", noise), ("steps", steps)]).unwrap();
    let lake = Lake::with(parquet(&batch, properties().build())).await;
    // Between two pages, and within the bounds of the row group.
    let filter = col("steps").between(9_991, 9_999);
    assert_eq!(collect(lake.request().with_filter(filter), &lake.cache).await.unwrap().num_rows(), 0);
    assert_eq!(lake.cache.stats().pruned_row_groups, 1);
    assert_eq!(lake.cache.stats().decoded_chunks, 0);
    assert_eq!(lake.fetched_of(0, 0) + lake.fetched_of(0, 1), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_nulls_and_of_values_are_told_apart() {
    let rows = 10_000_i64;
    let some = |row: &i64| (2_000..5_000).contains(row);
    let sparse: ArrayRef = Arc::new((0..rows).map(|row| some(&row).then_some(row)).collect::<Int64Array>());
    let noise = table(rows as usize).column(0).clone();
    let lake = Lake::with(parquet(
        &RecordBatch::try_from_iter([("noise", noise), ("sparse", sparse)]).unwrap(),
        properties().build(),
    ))
    .await;

    for (filter, expected) in [
        ("sparse IS NULL", 7_000),
        ("sparse IS NOT NULL", 3_000),
        ("sparse IS NULL AND sparse = 2500", 0),
        ("sparse >= 4999", 1),
        ("NOT sparse < 4999", 1),
        ("sparse IS NULL OR sparse < 2001", 7_001),
    ] {
        let request = lake.request().with_filter(Predicate::parse(filter).unwrap());
        let read = collect(request, &lake.cache).await.unwrap();
        assert_eq!(read.num_rows(), expected, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bloom_filters_rule_out_values_and_never_one_that_is_there() {
    let rows = 3_000_i32;
    let value = |row: i32| i64::from(row) * 7_919 % 100_003 - 50_000;
    let values = || (0..rows).map(value);
    let columns: [Typed<'_>; 8] = [
        ("i32", Arc::new(values().map(|v| v as i32).collect::<Int32Array>()), &|v| v.to_string()),
        ("u32", Arc::new(values().map(|v| v as u32).collect::<UInt32Array>()), &|v| (v as u32).to_string()),
        ("i64", Arc::new(values().collect::<Int64Array>()), &|v| v.to_string()),
        ("f32", Arc::new(values().map(|v| v as f32 / 4.0).collect::<Float32Array>()), &|v| {
            (v as f64 / 4.0).to_string()
        }),
        ("f64", Arc::new(values().map(|v| v as f64 / 4.0).collect::<Float64Array>()), &|v| {
            (v as f64 / 4.0).to_string()
        }),
        ("text", Arc::new(values().map(|v| Some(format!("v{v}"))).collect::<StringArray>()), &|v| {
            format!("'v{v}'")
        }),
        (
            "dec",
            Arc::new(
                values()
                    .map(|v| Some(i128::from(v)))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(25, 2)
                    .unwrap(),
            ),
            &|v| format!("{}{}.{:02}", if v < 0 { "-" } else { "" }, v.abs() / 100, v.abs() % 100),
        ),
        (
            "at",
            Arc::new(values().map(|v| Some(v * 1_000_000)).collect::<TimestampMicrosecondArray>()),
            &|v| format!("TIMESTAMP '{}'", chrono_text(v)),
        ),
    ];

    let day: ArrayRef = Arc::new(values().map(|v| Some((v / 10) as i32)).collect::<Date32Array>());
    let batch = RecordBatch::try_from_iter(
        columns.iter().map(|(name, array, _)| (*name, array.clone())).chain([("day", day)]),
    );
    let bytes = parquet(&batch.unwrap(), properties().set_bloom_filter_enabled(true).build());

    for (name, _, literal) in &columns {
        let lake = Lake::with(bytes.clone()).await;
        // Absent values come first: once a column is decoded, its filter is not consulted.
        let mut ruled_out = 0;
        for absent in (0..20).map(|row| value(rows + row)) {
            let filter = format!("{name} = {}", literal(absent));
            let request =
                lake.request().with_filter(Predicate::parse(&filter).unwrap()).with_columns(["i64"]);
            assert_eq!(collect(request, &lake.cache).await.unwrap().num_rows(), 0, "{filter}");
            ruled_out = lake.cache.stats().pruned_row_groups;
        }

        assert!(ruled_out > 0, "{name}");
        for present in (0..rows).step_by(97).map(value) {
            let cold = Lake::with(bytes.clone()).await;
            let filter = format!("{name} IN ({}, {})", literal(present), literal(value(rows)));
            let request =
                cold.request().with_filter(Predicate::parse(&filter).unwrap()).with_columns(["i64"]);
            let read = collect(request, &cold.cache).await.unwrap();
            assert_eq!(read.column(0).as_primitive::<Int64Type>().values(), &[present], "{filter}");
        }
    }
}

/// Formats seconds since 1970 as a SQL timestamp.
fn chrono_text(seconds: i64) -> String {
    let days = seconds.div_euclid(86_400);
    let rest = seconds.rem_euclid(86_400);
    assert!((-1..1).contains(&days), "the test stays near 1970");
    let day = if days < 0 { "1969-12-31" } else { "1970-01-01" };
    format!("{day} {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}
