//! Counts the requests of ORC scans to an origin, where row indexes and bloom filters rule out strides.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

#[path = "../../storage/tests/support/mod.rs"]
mod origin;
mod support;

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
        RecordBatch, StringArray, TimestampMicrosecondArray,
    },
    datatypes::Int64Type,
};
use bytes::Bytes;
use object_store::{ObjectStoreExt, memory::InMemory};
use origin::{Bench, bench, noise, quick};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use stylobate_columnar::{
    Cache, Predicate, ScanRequest, Source, col,
    orc::{OrcColumnOptions, OrcCompression, OrcOptions, OrcWriter},
};
use stylobate_storage::{ByteSize, CacheOptions, Consistency, Overwrite, SinkOptions, Sinks};
use support::collect;

/// Rows of a stride, and of the file: a stripe has all of them.
const STRIDE: usize = 1000;
const ROWS: usize = 20_000;

async fn orc(batch: &RecordBatch, options: OrcOptions) -> Bytes {
    let store = Arc::new(InMemory::new());
    let sink = Sinks::new(SinkOptions::default()).object(store.clone(), "x".into(), Overwrite::Replace);
    let mut writer = OrcWriter::new(sink, "x.orc", batch.schema(), options).unwrap();
    writer.write(batch).await.unwrap();
    writer.finish().await.unwrap();
    store.get(&"x".into()).await.unwrap().bytes().await.unwrap()
}

fn options() -> OrcOptions {
    OrcOptions::default().with_row_index_stride(STRIDE).with_compression(OrcCompression::None)
}

/// Returns incompressible text.
fn text(seed: u64, rows: usize) -> ArrayRef {
    let words = (0..rows).map(|row| {
        let bytes = noise(112, seed + row as u64 * 2);
        bytes.iter().map(|byte| char::from(b' ' + byte % 64)).collect::<String>()
    });
    Arc::new(words.map(Some).collect::<StringArray>())
}

/// Creates two columns of noise with a column of even numbers between them.
fn table() -> RecordBatch {
    let even: ArrayRef = Arc::new((0..ROWS as i64).map(|row| row * 2).collect::<Int64Array>());
    RecordBatch::try_from_iter([("before", text(1, ROWS)), ("even", even), ("after", text(2, ROWS))]).unwrap()
}

struct Lake {
    bench: Bench,
    cache: Cache,
}

impl Lake {
    /// Puts one file behind a cache of small pages, so that reads are known to within a few kilobytes.
    async fn with(bytes: Bytes) -> Self {
        let pages = CacheOptions::new(ByteSize::mib(320)).with_page_size(ByteSize::kib(4));
        let bench = bench(pages, Consistency::Immutable, quick()).await;
        bench.put("t.orc", bytes).await;
        let cache = Cache::over(bench.cache.clone());
        Self { bench, cache }
    }

    fn request(&self) -> ScanRequest {
        let store = self.bench.store.clone();
        let pattern = "t.orc".to_owned();
        ScanRequest::over([Source::Store { store, pattern }])
    }

    fn asked(&self) -> u64 {
        self.bench.origin.gets() + self.bench.origin.heads()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_few_matching_strides_no_other_stride_is_fetched() {
    let written = table();
    for codec in [OrcCompression::None, OrcCompression::Zstd(3)] {
        let options = options().with_compression(codec).with_chunk_size(ByteSize::kib(64));
        let bytes = orc(&written, options).await;
        let lake = Lake::with(bytes.clone()).await;
        let filter = col("even").between(11_100, 13_100);
        let read = collect(lake.request().with_filter(filter.clone()), &lake.cache).await.unwrap();
        let expected = written.slice(5_550, 1_001);
        assert_eq!(read.column(1), expected.column(1));
        assert_eq!(support::strings(read.column(0)), support::strings(expected.column(0)));
        assert_eq!(support::strings(read.column(2)), support::strings(expected.column(2)));
        let stats = lake.cache.stats();
        assert_eq!((stats.selected_row_groups, stats.pruned_row_groups, stats.decoded_chunks), (1, 0, 0));
        assert_eq!(stats.pruned_strides, 18);
        let fetched = lake.bench.origin.bytes();
        assert!(fetched < bytes.len() as u64 / 3, "{codec}: {fetched} of {}", bytes.len());
        let asked = lake.asked();
        collect(lake.request().with_filter(filter), &lake.cache).await.unwrap();
        assert_eq!(lake.asked(), asked, "nothing more was asked for");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_index_can_rule_out_a_whole_stripe() {
    let steps: ArrayRef = Arc::new((0..ROWS as i64).map(|row| row * 10).collect::<Int64Array>());
    let batch = RecordBatch::try_from_iter([("noise", text(1, ROWS)), ("steps", steps)]).unwrap();
    let bytes = orc(&batch, options()).await;
    let lake = Lake::with(bytes.clone()).await;
    // Between two strides, and within the bounds of the stripe.
    let filter = col("steps").between(9_991, 9_999);
    assert_eq!(collect(lake.request().with_filter(filter), &lake.cache).await.unwrap().num_rows(), 0);
    let stats = lake.cache.stats();
    assert_eq!((stats.pruned_row_groups, stats.pruned_strides, stats.decoded_chunks), (1, 20, 0));
    let fetched = lake.bench.origin.bytes();
    assert!(fetched < 160 << 10, "{fetched} of {}", bytes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_many_strides_match_the_columns_are_decoded_whole_and_kept() {
    let lake = Lake::with(orc(&table(), options()).await).await;
    let read = collect(lake.request().with_filter(col("even").gt(20_000)), &lake.cache).await.unwrap();
    assert_eq!(read.num_rows(), ROWS / 2 - 1);
    let stats = lake.cache.stats();
    assert_eq!((stats.selected_row_groups, stats.pruned_row_groups, stats.decoded_chunks), (0, 0, 3));
    let asked = lake.asked();
    // Decoded values are tested directly, without the index.
    let few = lake.request().with_filter(col("even").eq(20_002));
    assert_eq!(collect(few, &lake.cache).await.unwrap().num_rows(), 1);
    assert_eq!((lake.asked(), lake.cache.stats().selected_row_groups), (asked, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_row_index_is_asked_for_none() {
    let lake = Lake::with(orc(&table(), options().with_row_index_stride(0)).await).await;
    let read = collect(lake.request().with_filter(col("even").eq(20_002)), &lake.cache).await.unwrap();
    assert_eq!((read.num_rows(), lake.cache.stats().pruned_strides), (1, 0));
}

/// Returns an SQL value of each column that has a bloom filter, from odd or even positions.
fn looked_for(row: i64) -> [(&'static str, String); 7] {
    let value = value(row);
    [
        ("i32", value.to_string()),
        ("i64", value.to_string()),
        ("f64", format!("{}", value as f64 / 4.0)),
        ("text", format!("'v{value}'")),
        (
            "dec",
            format!("{}{}.{:02}", if value < 0 { "-" } else { "" }, value.abs() / 100, value.abs() % 100),
        ),
        ("day", format!("DATE '{}'", day(value))),
        (
            "at",
            format!(
                "TIMESTAMP '1970-01-01 {:02}:{:02}:{:02}'",
                at(value) / 3600,
                at(value) / 60 % 60,
                at(value) % 60
            ),
        ),
    ]
}

fn value(row: i64) -> i64 {
    row * 7_919 % 100_003 - 50_000
}

/// Returns one of the first 28 days of a month.
fn day(value: i64) -> String {
    let value = value.rem_euclid(28 * 12 * 300);
    format!("{:04}-{:02}-{:02}", 1900 + value / 336, value % 336 / 28 + 1, value % 28 + 1)
}

fn at(value: i64) -> i64 {
    value.rem_euclid(86_400)
}

fn filtered_table(rows: i64) -> RecordBatch {
    let values = || (0..rows).map(value);
    let days = values().map(|value| Some(day(value))).collect::<StringArray>();
    let days = arrow::compute::cast(&days, &arrow::datatypes::DataType::Date32).unwrap();
    let columns: [(&str, ArrayRef); 7] = [
        ("i32", Arc::new(values().map(|v| v as i32).collect::<Int32Array>())),
        ("i64", Arc::new(values().collect::<Int64Array>())),
        ("f64", Arc::new(values().map(|v| v as f64 / 4.0).collect::<Float64Array>())),
        ("text", Arc::new(values().map(|v| Some(format!("v{v}"))).collect::<StringArray>())),
        ("dec", {
            let values = values().map(|v| Some(i128::from(v))).collect::<Decimal128Array>();
            Arc::new(values.with_precision_and_scale(25, 2).unwrap())
        }),
        ("day", days),
        ("at", Arc::new(values().map(|v| Some(at(v) * 1_000_000)).collect::<TimestampMicrosecondArray>())),
    ];

    RecordBatch::try_from_iter(columns).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn bloom_filters_rule_out_values_and_never_one_that_is_there() {
    let rows = 5_000;
    let batch = filtered_table(rows);
    let bloom = options().with_all_columns(OrcColumnOptions::default().with_bloom_filter(0.001));
    let bytes = orc(&batch, bloom.with_compression(OrcCompression::Zstd(1))).await;
    let plain = orc(&batch, options()).await;

    for (at, (name, _)) in looked_for(0).into_iter().enumerate() {
        let mut ruled_out = 0;
        let lake = Lake::with(bytes.clone()).await;
        for absent in rows..rows + 15 {
            let filter = format!("{name} = {}", looked_for(absent)[at].1);
            let request =
                lake.request().with_filter(Predicate::parse(&filter).unwrap()).with_columns(["i64"]);
            // Days and times repeat, so they may match rows.
            let read = collect(request, &lake.cache).await.unwrap();
            assert!(read.num_rows() == 0 || matches!(name, "day" | "at"), "{filter}");
            ruled_out = lake.cache.stats().pruned_row_groups;
        }

        assert!(ruled_out > 0, "{name}");
        for present in (0..rows).step_by(701) {
            let filter = format!("{name} IN ({}, {})", looked_for(present)[at].1, looked_for(rows + 1)[at].1);
            let mut found = Vec::new();
            for bytes in [&bytes, &plain] {
                let cold = Lake::with(bytes.clone()).await;
                let request =
                    cold.request().with_filter(Predicate::parse(&filter).unwrap()).with_columns(["i64"]);
                found.push(collect(request, &cold.cache).await.unwrap());
            }

            assert_eq!(found[0], found[1], "{filter}");
            let values = found[0].column(0).as_primitive::<Int64Type>();
            assert!(values.values().contains(&value(present)), "{filter}");
        }
    }
}

/// Creates columns with clustered values and some nulls, and noise that makes stripes large enough.
fn random_table(random: &mut StdRng, rows: usize) -> RecordBatch {
    let mut last = 0_i64;
    let spread = *[1, 3, 50, 5_000].choose(random).unwrap();
    let share = *[0.0, 0.1, 0.7].choose(random).unwrap();
    let gap = random.random_range(0..rows)..random.random_range(0..rows);
    let values: Vec<Option<i64>> = (0..rows)
        .map(|row| {
            last += random.random_range(-spread..spread + 2);
            (!gap.contains(&row) && !random.random_bool(share)).then_some(last)
        })
        .collect();

    let each = |of: &dyn Fn(i64) -> i64| -> Vec<Option<i64>> { values.iter().map(|it| it.map(of)).collect() };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from(values.clone()))),
        (
            "small",
            Arc::new(
                each(&|it| it / 100).into_iter().map(|it| it.map(|it| it as i32)).collect::<Int32Array>(),
            ),
        ),
        ("float", Arc::new(values.iter().map(|it| it.map(|it| it as f64 / 8.0)).collect::<Float64Array>())),
        ("yes", Arc::new(values.iter().map(|it| it.map(|it| it > 200)).collect::<BooleanArray>())),
        ("day", Arc::new(values.iter().map(|it| it.map(|it| (it / 10) as i32)).collect::<Date32Array>())),
        (
            "text",
            Arc::new(values.iter().map(|it| it.map(|it| format!("t{:06}", it / 7))).collect::<StringArray>()),
        ),
        (
            "few",
            Arc::new(values.iter().map(|it| it.map(|it| format!("f{}", it / 900))).collect::<StringArray>()),
        ),
        ("dec", {
            let values = values.iter().map(|it| it.map(i128::from)).collect::<Decimal128Array>();
            Arc::new(values.with_precision_and_scale(20, 2).unwrap())
        }),
        ("at", Arc::new(each(&|it| it * 1_000_000).into_iter().collect::<TimestampMicrosecondArray>())),
        ("noise", text(random.random(), rows)),
    ];

    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// Returns a comparison of a column with a value near one of its own.
fn random_test(random: &mut StdRng, batch: &RecordBatch) -> String {
    let numbers = batch.column(0).as_primitive::<Int64Type>();
    let near = |random: &mut StdRng| {
        let found = (0..20).find_map(|_| {
            let row = random.random_range(0..numbers.len());
            numbers.iter().nth(row).flatten()
        });
        found.unwrap_or_default() + random.random_range(-2..3)
    };

    let column = *["n", "small", "float", "text", "few", "dec", "yes", "n"].choose(random).unwrap();
    let write = |random: &mut StdRng| {
        let value = near(random);
        match column {
            "small" => (value / 100).to_string(),
            "float" => format!("{:?}", value as f64 / 8.0),
            "text" => format!("'t{:06}'", value / 7),
            "few" => format!("'f{}'", value / 900),
            "dec" => {
                format!("{}{}.{:02}", if value < 0 { "-" } else { "" }, value.abs() / 100, value.abs() % 100)
            }
            "yes" => (value % 2 == 0).to_string(),
            _ => value.to_string(),
        }
    };

    let value = write(random);
    let other = write(random);
    match random.random_range(0..8) {
        0 | 1 => format!("{column} = {value}"),
        2 => format!("{column} IN ({value}, {other})"),
        3 if column != "yes" => format!("{column} < {value}"),
        4 if column != "yes" => format!("{column} >= {value}"),
        5 => format!("{column} IS NULL"),
        6 if column != "yes" => format!("{column} BETWEEN {value} AND {other}"),
        _ => format!("NOT {column} = {value}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_ruled_out_the_same_rows_come_out() {
    let mut random = StdRng::seed_from_u64(31);
    let mut selected = 0;
    let mut pruned = 0;
    let mut whole = 0;

    for round in 0..10 {
        let rows = random.random_range(9_000..20_000);
        let batch = random_table(&mut random, rows);
        let codec = [OrcCompression::None, OrcCompression::Zstd(1), OrcCompression::Snappy][round % 3];
        let mut column = OrcColumnOptions::default();
        if random.random_bool(0.7) {
            column = column.with_bloom_filter(0.01);
        }

        let options = options()
            .with_compression(codec)
            .with_all_columns(column)
            .with_chunk_size(ByteSize::kib(*[4, 64, 256].choose(&mut random).unwrap()))
            .with_stripe_size(ByteSize::mib(*[2, 64].choose(&mut random).unwrap()))
            .with_row_index_stride(*[100, 500, 1_000, 3_000].choose(&mut random).unwrap());

        let bytes = orc(&batch, options).await;
        let warm = Lake::with(bytes.clone()).await;
        collect(warm.request(), &warm.cache).await.unwrap();

        for _ in 0..12 {
            let mut filter = random_test(&mut random, &batch);
            if random.random_bool(0.5) {
                let joined = if random.random_bool(0.7) { "AND" } else { "OR" };
                filter = format!("({filter}) {joined} ({})", random_test(&mut random, &batch));
            }

            let cold = Lake::with(bytes.clone()).await;
            let columns = ["n", "day", "few", "at", "noise", "float", "yes", "dec", "text", "small"];
            let request = |lake: &Lake| {
                lake.request().with_filter(Predicate::parse(&filter).unwrap()).with_columns(columns)
            };
            let before = warm.cache.stats().pruned_strides;
            let expected = collect(request(&warm), &warm.cache).await.unwrap();
            assert_eq!(warm.cache.stats().pruned_strides, before, "what is decoded is looked at");
            let read = collect(request(&cold), &cold.cache).await.unwrap();

            for (column, expected) in read.columns().iter().zip(expected.columns()) {
                assert_eq!(support::strings(column), support::strings(expected), "round {round}: {filter}");
            }

            let stats = cold.cache.stats();
            selected += stats.selected_row_groups;
            pruned += stats.pruned_row_groups;
            whole += u64::from(stats.decoded_chunks > 0);
        }
    }

    assert!(selected >= 10 && pruned >= 10 && whole >= 10, "{selected}, {pruned}, {whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_broken_is_as_none() {
    let written = table();
    let bytes = orc(&written, options()).await;
    let without = orc(&written, options().with_row_index_stride(0)).await;
    // The index lies before the data; it also makes the footer longer, but less so.
    let index = 3..3 + bytes.len() - without.len() - 200;
    let filter = || col("even").between(11_100, 13_100);
    let mut broken = bytes.to_vec();
    broken[index.clone()].fill(0xff);
    let lake = Lake::with(broken.into()).await;
    let read = collect(lake.request().with_filter(filter()), &lake.cache).await.unwrap();
    assert_eq!((read.num_rows(), lake.cache.stats().pruned_strides), (1_001, 0));
    assert_eq!(read.column(1), written.slice(5_550, 1_001).column(1));

    let mut random = StdRng::seed_from_u64(32);
    let mut selected = 0;
    let mut whole = 0;
    for _ in 0..60 {
        let mut changed = bytes.to_vec();
        changed[random.random_range(index.clone())] ^= 1 << random.random_range(0..8);
        let lake = Lake::with(changed.into()).await;
        let read = collect(lake.request().with_filter(filter()), &lake.cache).await.unwrap();
        assert!(read.num_rows() <= 1_001);
        selected += lake.cache.stats().selected_row_groups;
        whole += u64::from(lake.cache.stats().decoded_chunks > 0);
    }

    assert!(selected > 10 && whole > 3, "{selected}, {whole}");
}
