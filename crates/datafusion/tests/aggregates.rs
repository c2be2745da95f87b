//! Aggregations on dictionary codes and in 64-bit integers return the same rows as DataFusion's own.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::{path::Path, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray},
        compute::concat_batches,
    },
    datasource::MemTable,
    prelude::SessionContext,
};
use stylobate_columnar::Cache;
use stylobate_datafusion::SqlSession;
use stylobate_storage::{ByteSize, CacheOptions};

use self::support::{Numbers, many_types, plan, rows, rows_of, session_over, write_orc, write_parquet};

const NODE: &str = "ScanAggregateExec";

/// Aggregations that run on codes and integers, by condition-free text after SELECT.
const REPLACED: [&str; 15] = [
    "mode, sum(cents) FROM t GROUP BY mode",
    "mode, count(*), avg(cents), sum(i64), count(i32) FROM t GROUP BY mode",
    "name, mode, sum(cents * cents), sum(cents * (1 - cents)) FROM t GROUP BY name, mode",
    "mode, name, sum(fine), avg(fine), sum(fine * cents) FROM t GROUP BY mode, name",
    "mode, sum(i32), sum(i8), sum(u16), sum(i64 * i64), sum(i64 + 1) FROM t GROUP BY mode",
    "mode, min(cents), max(day), max(f64), count(flag), sum(cents - fine) FROM t GROUP BY mode",
    "mode, count(*) FROM t WHERE i32 > 3 GROUP BY mode",
    "mode, sum(cents) FROM t WHERE i32 > 3 AND mode <> 'AIR' GROUP BY mode",
    "sum(cents), avg(cents), count(*), count(cents) FROM t",
    "sum(cents * fine), sum(i64) FROM t WHERE i32 > 3",
    "sum(cents), avg(cents), count(*), count(cents) FROM t WHERE i32 > 1000",
    "mode FROM t GROUP BY mode",
    "DISTINCT mode, name FROM t",
    "mode, sum(cents) FROM t GROUP BY mode HAVING sum(cents) > 0",
    "mode, sum(CAST(i32 AS BIGINT) * 3 - 7) FROM t GROUP BY mode",
];

/// Aggregations that DataFusion runs by itself.
const OTHERS: [&str; 8] = [
    "mode, sum(cents) FROM t WHERE i32 > 1000 GROUP BY mode",
    "i8, sum(cents) FROM t GROUP BY i8",
    "upper(mode), sum(cents) FROM t GROUP BY upper(mode)",
    "mode, count(DISTINCT i32) FROM t GROUP BY mode",
    "mode, sum(cents) FILTER (WHERE i32 > 0) FROM t GROUP BY mode",
    "mode, sum(cents) FROM t GROUP BY ROLLUP (mode)",
    "mode, max(mode), sum(cents) FROM t GROUP BY mode",
    "mode, sum(cents) FROM t WHERE f64 > 1.5 GROUP BY mode",
];

fn memory(batch: &RecordBatch) -> SessionContext {
    let memory = SessionContext::new();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap();
    memory.register_table("t", Arc::new(table)).unwrap();
    memory
}

/// Asserts that both return the same rows in any order, the first time and again.
async fn agree(session: &SqlSession, memory: &SessionContext, select: &str) {
    let sql = format!("SELECT {select}");
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = sorted(rows_of(memory, &sql).await);
    for run in ["cold", "warm"] {
        assert_eq!(sorted(rows(session, &sql).await), expected, "{run}: {sql}");
    }
}

/// Two files whose dictionaries differ, in row groups of 700 rows, and all their rows.
fn two_files(folder: &Path, dictionary: bool) -> RecordBatch {
    let batch = many_types(6_000);
    write_parquet(&folder.join("a.parquet"), &batch.slice(0, 2_500), 700, dictionary);
    write_parquet(&folder.join("b.parquet"), &batch.slice(2_500, 3_500), 700, dictionary);
    batch
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_by_codes_have_the_rows_of_groups_by_strings() {
    let folder = tempfile::tempdir().unwrap();
    let batch = two_files(folder.path(), true);
    let session = session_over("t", folder.path()).await;
    let memory = memory(&batch);
    for select in REPLACED {
        let plan = plan(&session, folder.path(), &format!("SELECT {select}")).await;
        assert!(plan.contains(NODE), "{select}\n{plan}");
        agree(&session, &memory, select).await;
    }
    for select in OTHERS {
        let plan = plan(&session, folder.path(), &format!("SELECT {select}")).await;
        assert!(!plan.contains(NODE), "{select}\n{plan}");
        agree(&session, &memory, select).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_thread_groups_by_codes_too() {
    let folder = tempfile::tempdir().unwrap();
    let batch = two_files(folder.path(), true);
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    let session = SqlSession::builder(cache).with_threads(1).build().unwrap();
    session.add_table("t", &folder.path().to_string_lossy()).await.unwrap();
    let memory = memory(&batch);
    for select in REPLACED {
        let plan = plan(&session, folder.path(), &format!("SELECT {select}")).await;
        assert!(plan.contains(NODE), "{select}\n{plan}");
        agree(&session, &memory, select).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strings_without_dictionaries_are_left_to_datafusion() {
    let folder = tempfile::tempdir().unwrap();
    let plain = tempfile::tempdir().unwrap();
    let batch = two_files(plain.path(), false);
    let orc = batch.project(&[0, 12, 14]).unwrap();
    write_orc(&folder.path().join("t.orc"), &orc).await;
    for (folder, batch) in [(plain.path(), &batch), (folder.path(), &orc)] {
        let session = session_over("t", folder).await;
        let select = "mode, sum(cents), count(*) FROM t GROUP BY mode";
        assert!(!plan(&session, folder, &format!("SELECT {select}")).await.contains(NODE));
        agree(&session, &memory(batch), select).await;
        // Sums without keys need no dictionaries.
        agree(&session, &memory(batch), "sum(cents), count(*) FROM t").await;
    }
}

/// Decimals and integers near the limits of 64 and 128 bits, some of them in a few row groups only.
fn extremes(rows: usize) -> RecordBatch {
    let mut numbers = Numbers::new(7);
    let mut rare = |row: usize, often: i128, seldom: i128| {
        let value = if row % 1_500 > 1_400 && numbers.below(3) == 0 { seldom } else { often };
        (numbers.below(9) > 0).then_some(value)
    };
    let wide: Vec<Option<i128>> =
        (0..rows).map(|row| rare(row, row as i128 - 900, 99_999_999_999_999_999_999_999)).collect();
    let border: Vec<Option<i128>> =
        (0..rows).map(|row| rare(row, 3_037_000_499, -(1_i128 << 62) - 5)).collect();
    let ints: Vec<Option<i64>> = (0..rows)
        .map(|row| rare(row, row as i128, i128::from(i64::MIN + 3)).map(|value| value as i64))
        .collect();
    let small: Vec<Option<i32>> = (0..rows).map(|row| rare(row, 12, -3).map(|value| value as i32)).collect();
    let words = (0..rows).map(|row| (row % 11 != 3).then(|| format!("word {}", row % 5)));

    let decimals = |values: Vec<Option<i128>>, precision, scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap())
    };
    let columns: [(&str, ArrayRef); 5] = [
        ("wide", decimals(wide, 26, 3)),
        ("border", decimals(border, 20, 1)),
        ("ints", Arc::new(Int64Array::from(ints))),
        ("small", Arc::new(Int32Array::from(small))),
        ("word", Arc::new(words.collect::<StringArray>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn values_beyond_64_bits_are_summed_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let batch = extremes(9_000);
    write_parquet(&folder.path().join("t.parquet"), &batch, 1_500, true);
    let session = session_over("t", folder.path()).await;
    let memory = memory(&batch);
    for values in [
        "sum(wide), avg(wide)",
        "sum(border), avg(border), count(border)",
        "sum(border * CAST(2.5 AS DECIMAL(3, 1))), sum(border + border), sum(wide - border)",
        "sum(ints), min(ints), count(ints)",
        "sum(ints * ints), sum(ints + ints), sum(ints - 9223372036854775807)",
        "sum(small), sum(CAST(small AS DECIMAL(20, 4)) * border)",
        "sum(CAST(small AS DECIMAL(4, 1))), sum(CAST(border AS DECIMAL(30, 9)))",
    ] {
        agree(&session, &memory, &format!("{values} FROM t")).await;
        agree(&session, &memory, &format!("word, {values} FROM t GROUP BY word")).await;
        agree(&session, &memory, &format!("word, {values} FROM t WHERE small = 12 GROUP BY word")).await;
    }
}

/// Rows with many distinct pairs of keys.
fn many_pairs(rows: usize) -> RecordBatch {
    let mut numbers = Numbers::new(3);
    let mut texts = |distinct: u64, name: &str| -> ArrayRef {
        let mut text = |_| format!("{name} {}", numbers.below(distinct));
        Arc::new((0..rows).map(|row| (row % 101 != 7).then(|| text(row))).collect::<StringArray>())
    };
    let columns: [(&str, ArrayRef); 4] = [
        ("a", texts(900, "a")),
        ("b", texts(700, "b")),
        ("c", texts(3, "c")),
        ("n", Arc::new((0..rows as i64).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_are_found_by_hash_and_returned_in_parts_if_memory_is_short() {
    let folder = tempfile::tempdir().unwrap();
    let batch = many_pairs(60_000);
    write_parquet(&folder.path().join("t.parquet"), &batch, 9_000, true);
    let memory = memory(&batch);
    let mut returned = Vec::new();
    for budget in [ByteSize::mib(64), ByteSize::mib(12)] {
        let cache = Cache::open(CacheOptions::new(budget)).await.unwrap();
        let session = SqlSession::builder(cache).with_threads(2).build().unwrap();
        session.add_table("t", &folder.path().to_string_lossy()).await.unwrap();
        for keys in ["a", "c, a", "a, c", "a, b", "c, b, a"] {
            let groups = format!("SELECT {keys}, sum(n) AS s, count(*) AS n FROM t GROUP BY {keys}");
            agree(&session, &memory, &format!("count(*), sum(s), sum(n), min(s), max(s) FROM ({groups})"))
                .await;
        }
        agree(&session, &memory, "c, a, sum(n), count(*) FROM t GROUP BY c, a").await;

        let analyzed = "EXPLAIN ANALYZE SELECT c, b, a, sum(n) FROM t GROUP BY c, b, a";
        let analyzed = rows(&session, analyzed).await;
        let node = analyzed.lines().find(|line| line.contains(NODE)).unwrap();
        returned.push(node.split("output_rows=").nth(1).unwrap().split(',').next().unwrap().to_owned());
    }
    eprintln!("{returned:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_and_their_metrics_show_the_aggregation() {
    let folder = tempfile::tempdir().unwrap();
    two_files(folder.path(), true);
    let session = session_over("t", folder.path()).await;
    let sql = "SELECT mode, sum(cents * (1 - cents)), avg(cents) FROM t WHERE i32 > 3 GROUP BY mode";
    let shown = plan(&session, folder.path(), sql).await;
    let node = shown.lines().find(|line| line.contains(NODE)).unwrap();
    assert!(node.contains("gby=[mode], aggr=[sum(t.cents * Int64(1) - t.cents), avg(t.cents)]"), "{shown}");
    assert!(shown.contains("dictionaries=[cents, mode]"), "{shown}");

    let analyzed = rows(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let node = analyzed.lines().find(|line| line.contains(NODE)).unwrap();
    assert!(node.contains("output_rows=") && node.contains("elapsed_compute="), "{analyzed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregation_can_be_planned_once_and_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let batch = two_files(folder.path(), true);
    let session = session_over("t", folder.path()).await;
    let sql = "SELECT mode, sum(cents) FROM t GROUP BY mode ORDER BY mode";
    let expected = rows_of(&memory(&batch), sql).await;
    let query = session.prepare(sql).await.unwrap();
    for _ in 0..3 {
        use futures::TryStreamExt;
        let rows = query.run().await.unwrap();
        let schema = rows.schema();
        let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        let whole = concat_batches(&schema, &batches).unwrap();
        let text = datafusion::arrow::util::pretty::pretty_format_batches(&[whole]).unwrap().to_string();
        assert_eq!(text, expected);
    }
}
