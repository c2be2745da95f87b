//! Queries over scans return the same rows as over DataFusion's own tables: predicates by types by encodings.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::{path::Path, sync::Arc};

use datafusion::{
    arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch},
    datasource::MemTable,
    prelude::{ParquetReadOptions, SessionConfig, SessionContext},
};
use stylobate_datafusion::SqlSession;

use self::support::{many_types, plan, rows, rows_of, session_over, write_orc, write_parquet};

const ROWS: usize = 3_000;

/// Conditions that a scan evaluates exactly.
const EXACT: [&str; 52] = [
    "i8 > 5",
    "i16 <= -3",
    "i32 = 7",
    "i32 <> 7",
    "NOT i32 > 7",
    "i32 BETWEEN -3 AND 4",
    "i32 NOT BETWEEN -3 AND 4",
    "i64 >= 8000000000",
    "i64 < 1",
    "u16 >= 49",
    "u32 > 3000000000",
    "u64 > 9223372036854775807",
    "i32 IN (1, 2, 3, 20, -25)",
    "i32 NOT IN (1, 2, 3, 20, -25)",
    "i32 IN (1, NULL)",
    "i32 NOT IN (1, NULL)",
    "i32 IS NULL",
    "i32 IS NOT NULL",
    "i32 IS DISTINCT FROM 3",
    "i32 IS NOT DISTINCT FROM 3",
    "i32 > 2 AND i16 < 10",
    "i32 > 20 OR i16 < -20",
    "NOT (i32 > 2 AND i16 < 10)",
    "(i32 > 2 OR mode = 'AIR') AND day < DATE '1995-01-01'",
    "i32 = 3 OR (i16 = 3 AND (u16 = 3 OR i64 IS NULL))",
    "f32 = CAST(1.5 AS FLOAT)",
    "f64 = 0.3",
    "f64 <> 0.3",
    "f64 IN (0.1, 0.2, 2.4)",
    "flag",
    "NOT flag",
    "flag = true",
    "flag IS NULL",
    "day >= DATE '1994-09-01'",
    "day BETWEEN DATE '1994-09-01' AND DATE '1995-01-01'",
    "cents < 24.50",
    "cents = -100.01",
    "cents IN (1.00, 2.00, 499.99)",
    "fine > 0",
    "fine <= -12.3456789",
    "mode = 'AIR'",
    "mode <> 'AIR'",
    "mode > 'MAIL'",
    "mode IN ('AIR', 'TRUCK', '')",
    "mode LIKE 'A%'",
    "mode LIKE '%I%'",
    "mode LIKE '_AIL'",
    "mode NOT LIKE '%R'",
    "starts_with(mode, 'air%')",
    "name >= 'name-05' AND name < 'name-06'",
    "at < TIMESTAMP '1970-02-01T00:00:00'",
    "at_ms >= TIMESTAMP '1970-01-01T00:00:01'",
];

/// Conditions that are evaluated above the scan, at least in part.
const OTHERS: [&str; 24] = [
    "f64 > 1.5",
    "f64 <= 0",
    "f32 BETWEEN -1 AND 1",
    "f64 IN (0, 1.5)",
    "f64 NOT IN (0, 1.5)",
    "i32 + i16 > 10",
    "i32 > i16",
    "i32 > 2 AND i32 * 2 < 10",
    "i32 > 20 OR i32 * 2 < -40",
    "(i32 = 1 AND i16 * 2 = 2) OR (i32 = 2 AND i16 * 2 = 4)",
    "mode ILIKE 'a%'",
    "upper(mode) = 'AIR'",
    "length(mode) = 4",
    "mode LIKE 'air\\%%'",
    "CAST(i32 AS VARCHAR) = '7'",
    "i32 > 2.5",
    "CAST(i32 AS DOUBLE) > 2.5",
    "CASE WHEN flag THEN i32 > 5 ELSE i32 < -5 END",
    "coalesce(i32, 0) = 0",
    "address['zip'] > 20",
    "address['city'] = 'AIR'",
    "bytes = X'0102'",
    "at_utc > TIMESTAMP '1970-01-01T00:10:00Z'",
    "date_part('year', day) = 1995",
];

/// A session over a scan, and DataFusion over the same rows in memory.
struct BothEngines {
    scan: SqlSession,
    memory: SessionContext,
}

impl BothEngines {
    async fn over(path: &Path, rows: &RecordBatch) -> Self {
        let memory = SessionContext::new();
        let table = MemTable::try_new(rows.schema(), vec![vec![rows.clone()]]).unwrap();
        memory.register_table("t", Arc::new(table)).unwrap();
        Self { scan: session_over("t", path).await, memory }
    }

    async fn agree(&self, sql: &str) {
        let expected = rows_of(&self.memory, sql).await;
        // The second run finds the columns in memory.
        for run in ["cold", "warm"] {
            assert_eq!(rows(&self.scan, sql).await, expected, "{run}: {sql}");
        }
    }
}

fn query(condition: &str) -> String {
    format!("SELECT id, mode FROM t WHERE {condition} ORDER BY id")
}

async fn all_agree(engines: &BothEngines) {
    for condition in EXACT.iter().chain(&OTHERS) {
        engines.agree(&query(condition)).await;
        engines.agree(&format!("SELECT count(*) FROM t WHERE {condition}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_choose_the_same_rows_in_parquet_with_dictionaries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let batch = many_types(ROWS);
    write_parquet(&path, &batch, 700, true);
    all_agree(&BothEngines::over(&path, &batch).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_choose_the_same_rows_in_parquet_without_dictionaries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let batch = many_types(ROWS);
    write_parquet(&path, &batch, 1_000, false);
    all_agree(&BothEngines::over(&path, &batch).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_choose_the_same_rows_in_orc() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    // ORC supports neither unsigned integers nor milliseconds.
    let batch = many_types(ROWS);
    let is_kept =
        |at: &usize| !["u16", "u32", "u64", "at_ms"].contains(&batch.schema().field(*at).name().as_str());
    let kept: Vec<usize> = (0..batch.num_columns()).filter(is_kept).collect();
    let batch = batch.project(&kept).unwrap();
    write_orc(&path, &batch).await;

    let engines = BothEngines::over(&path, &batch).await;
    for condition in EXACT.iter().chain(&OTHERS) {
        if !["u16", "u32", "u64", "at_ms"].iter().any(|name| condition.contains(name)) {
            engines.agree(&query(condition)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_those_of_datafusions_own_parquet_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_parquet(&path, &many_types(ROWS), 700, true);
    let scan = session_over("t", &path).await;
    for pushed in [false, true] {
        let mut config = SessionConfig::new();
        config.options_mut().execution.parquet.pushdown_filters = pushed;
        let own = SessionContext::new_with_config(config);
        own.register_parquet("t", path.to_string_lossy(), ParquetReadOptions::default()).await.unwrap();
        for condition in EXACT.iter().chain(&OTHERS) {
            let sql = query(condition);
            assert_eq!(rows(&scan, &sql).await, rows_of(&own, &sql).await, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_that_a_scan_evaluates_are_not_evaluated_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_parquet(&path, &many_types(ROWS), 700, true);
    let session = session_over("t", &path).await;
    for condition in EXACT {
        let plan = plan(&session, folder.path(), &format!("SELECT id FROM t WHERE {condition}")).await;
        assert!(!plan.contains("FilterExec"), "{condition}:\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_is_ordered_as_datafusion_orders_it() {
    let special =
        [f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 1.5, -1.5, f64::MIN_POSITIVE];
    let values: Vec<Option<f64>> = special.iter().copied().map(Some).chain([None]).cycle().take(90).collect();
    let singles = values.iter().map(|value| value.map(|value| value as f32));
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new((0..90).map(Some).collect::<Int64Array>())),
        ("f", Arc::new(singles.collect::<Float32Array>())),
        ("d", Arc::new(Float64Array::from(values))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();

    for dictionary in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write_parquet(&path, &batch, 7, dictionary);
        let engines = BothEngines::over(&path, &batch).await;
        for column in ["f", "d"] {
            for op in ["=", "<>", "<", "<=", ">", ">="] {
                for value in ["0.0", "-0.0", "1.5", "'NaN'::double", "'inf'::double", "'-inf'::double"] {
                    engines.agree(&format!("SELECT id FROM t WHERE {column} {op} {value} ORDER BY id")).await;
                    engines
                        .agree(&format!("SELECT id FROM t WHERE NOT {column} {op} {value} ORDER BY id"))
                        .await;
                }
            }
            for list in ["(0.0)", "(0.0, 1.5)", "(1.5, 'NaN'::double)", "(-1.5, 1.5)"] {
                engines.agree(&format!("SELECT id FROM t WHERE {column} IN {list} ORDER BY id")).await;
                engines.agree(&format!("SELECT id FROM t WHERE {column} NOT IN {list} ORDER BY id")).await;
            }
            engines.agree(&format!("SELECT min({column}), max({column}), count({column}) FROM t")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_groups_and_sorts_have_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let batch = many_types(ROWS);
    write_parquet(&path, &batch, 300, true);
    let engines = BothEngines::over(&path, &batch).await;
    for sql in [
        "SELECT mode, count(*), sum(i64), min(name), max(day), avg(cents) FROM t GROUP BY mode ORDER BY mode",
        "SELECT count(*) FROM t a JOIN t b ON a.id = b.i64 / 4000000000",
        "SELECT a.id, b.mode FROM t a JOIN t b ON a.i32 = b.id WHERE b.mode = 'AIR' ORDER BY a.id, b.mode",
        "SELECT id FROM t WHERE i32 IN (SELECT i16 FROM t WHERE id < 5) ORDER BY id",
        "SELECT id, name FROM t ORDER BY name DESC, id LIMIT 17",
        "SELECT id, i64 FROM t WHERE flag ORDER BY i64 NULLS FIRST, id LIMIT 40",
        "SELECT max(id), min(id), count(*), count(i32) FROM t",
        "SELECT address['city'] c, count(*) FROM t GROUP BY c ORDER BY c",
        "SELECT count(DISTINCT name), count(DISTINCT mode) FROM t",
        "SELECT id, row_number() OVER (PARTITION BY mode ORDER BY id) FROM t ORDER BY id LIMIT 100",
        "SELECT mode FROM t WHERE i32 > 5 UNION SELECT name FROM t WHERE id < 20 ORDER BY 1",
    ] {
        engines.agree(sql).await;
    }
}
