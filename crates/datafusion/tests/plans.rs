//! Filters, columns and limits pushed into scans, and queries answered from statistics without a scan.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::{
    fs::File,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray},
        datatypes::Int64Type,
    },
    common::stats::Precision,
    physical_plan::{ExecutionPlanProperties, StatisticsArgs},
    scalar::ScalarValue,
};
use futures::TryStreamExt;
use parquet::{
    arrow::ArrowWriter,
    file::{metadata::SortingColumn, properties::WriterProperties},
};
use stylobate_datafusion::{Error, SqlSession};

use self::support::{plan, rows, session, session_over, write_parquet};

/// Rows ordered by `id`: `word` is one of three values, `score` a fraction.
fn numbered(from: i64, rows: i64) -> RecordBatch {
    let ids = from..from + rows;
    let words = ids.clone().map(|id| Some(["one", "two", "three"][(id % 3) as usize]));
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(ids.clone().map(Some).collect::<Int64Array>())),
        ("word", Arc::new(words.collect::<StringArray>())),
        ("score", Arc::new(ids.map(|id| Some(id as f64 / 4.0)).collect::<Float64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

async fn thousand(folder: &Path) -> SqlSession {
    let path = folder.join("t.parquet");
    write_parquet(&path, &numbered(0, 1_000), 100, true);
    session_over("t", &path).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_show_what_is_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let session = thousand(folder.path()).await;
    let shown = async |sql: &str| plan(&session, folder.path(), sql).await;

    insta::assert_snapshot!(
        shown("SELECT word FROM t WHERE id >= 850 AND word <> 'one'").await,
        @"DataSourceExec: files=[file://FOLDER/t.parquet], row_groups=2/10, projection=[word], filter=id >= 850 AND word <> 'one'"
    );
    insta::assert_snapshot!(
        shown("SELECT id FROM t LIMIT 5").await,
        @"DataSourceExec: files=[file://FOLDER/t.parquet], row_groups=1/10, projection=[id], limit=5"
    );

    let partly = shown("SELECT id FROM t WHERE score > 200 AND id > 700").await;
    assert!(partly.contains("FilterExec: score@"), "{partly}");
    assert!(partly.contains("row_groups=3/10") && partly.contains("(inexact)"), "{partly}");
    assert!(!partly.contains("FilterExec: id"), "{partly}");
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_and_bounds_need_no_scan() {
    let folder = tempfile::tempdir().unwrap();
    let session = thousand(folder.path()).await;
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT count(word) FROM t",
        "SELECT min(id), max(id) FROM t",
        "SELECT count(*), max(id) FROM t WHERE id >= 900",
    ] {
        let plan = plan(&session, folder.path(), sql).await;
        assert!(!plan.contains("DataSourceExec"), "{sql}:\n{plan}");
    }
    let last = rows(&session, "SELECT count(*), max(id) FROM t WHERE id >= 900").await;
    assert!(last.contains("| 100 ") && last.contains("| 999 "), "{last}");

    // A limit may exclude the bounds.
    let limited = plan(&session, folder.path(), "SELECT max(id) FROM (SELECT id FROM t LIMIT 5)").await;
    assert!(limited.contains("DataSourceExec"), "{limited}");

    // String bounds may be truncated, and floating-point bounds ignore NaN.
    for sql in
        ["SELECT min(word) FROM t", "SELECT max(score) FROM t", "SELECT count(*) FROM t WHERE id >= 901"]
    {
        let plan = plan(&session, folder.path(), sql).await;
        assert!(plan.contains("DataSourceExec"), "{sql}:\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_are_exact_only_where_they_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let session = thousand(folder.path()).await;
    let statistics = async |sql: &str| {
        let plan = session.context().sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        plan.statistics_from_inputs(&[], &StatisticsArgs::new()).unwrap()
    };

    let all = statistics("SELECT * FROM t").await;
    assert_eq!(all.num_rows, Precision::Exact(1_000));
    assert_eq!(all.column_statistics[0].max_value, Precision::Exact(ScalarValue::Int64(Some(999))));
    assert_eq!(all.column_statistics[0].null_count, Precision::Exact(0));
    let word = &all.column_statistics[1].min_value;
    assert_eq!(*word, Precision::Inexact(ScalarValue::Utf8View(Some("one".to_owned()))));

    let some = statistics("SELECT * FROM t WHERE id >= 950").await;
    assert_eq!(some.num_rows.is_exact(), Some(false));
    assert!(some.num_rows.get_value().unwrap() <= &100);
    let limited = statistics("SELECT * FROM t LIMIT 7").await;
    assert_eq!(limited.num_rows, Precision::Exact(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_share_row_groups_and_none_is_split() {
    let folder = tempfile::tempdir().unwrap();
    let session = thousand(folder.path()).await;
    let partitions = async |sql: &str| {
        let plan = session.context().sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        plan.output_partitioning().partition_count()
    };
    assert_eq!(partitions("SELECT * FROM t").await, 3);
    assert_eq!(partitions("SELECT * FROM t WHERE id < 200").await, 2);

    let ids = rows(&session, "SELECT count(*), count(DISTINCT id), sum(id) FROM t WHERE word <> 'x'").await;
    assert!(ids.contains("1000") && ids.contains("499500"), "{ids}");
    let stolen = "SET datafusion.execution.enable_file_stream_work_stealing = false";
    session.run(stolen).await.unwrap();
    assert_eq!(
        rows(&session, "SELECT count(*), count(DISTINCT id), sum(id) FROM t WHERE word <> 'x'").await,
        ids
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_kept_with_and_without_a_filter() {
    let folder = tempfile::tempdir().unwrap();
    let session = thousand(folder.path()).await;
    let count = async |sql: &str| {
        let batches: Vec<RecordBatch> = session.run(sql).await.unwrap().try_collect().await.unwrap();
        batches.iter().map(RecordBatch::num_rows).sum::<usize>()
    };
    assert_eq!(count("SELECT id FROM t LIMIT 0").await, 0);
    assert_eq!(count("SELECT id FROM t LIMIT 150").await, 150);
    assert_eq!(count("SELECT id FROM t LIMIT 5000").await, 1_000);
    assert_eq!(count("SELECT id FROM t WHERE word = 'two' LIMIT 70").await, 70);
    assert_eq!(count("SELECT id FROM t WHERE score > 10.5 LIMIT 70").await, 70);
    assert_eq!(count("SELECT id FROM t LIMIT 20 OFFSET 990").await, 10);
    assert_eq!(count("SELECT * FROM (SELECT id FROM t LIMIT 100) WHERE id % 2 = 0").await, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filters_of_joins_and_of_top_k_prune_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let session = thousand(folder.path()).await;
    let keys = folder.path().join("keys.parquet");
    write_parquet(&keys, &numbered(400, 20), 100, true);
    session.add_table("keys", &keys.to_string_lossy()).await.unwrap();

    let join = "SELECT count(*) FROM keys JOIN t ON keys.id = t.id WHERE keys.score > 0";
    let shown = rows(&session, &format!("EXPLAIN ANALYZE {join}")).await;
    assert!(shown.contains("dynamic_filter=DynamicFilter"), "{shown}");
    assert!(shown.contains("row_groups_pruned=9"), "{shown}");
    assert!(rows(&session, join).await.contains("20"));

    let top = rows(&session, "EXPLAIN ANALYZE SELECT id, word FROM t ORDER BY id DESC LIMIT 3").await;
    assert!(top.contains("dynamic_filter=DynamicFilter"), "{top}");
    assert!(top.contains("row_group_order=id DESC"), "{top}");
    let top = rows(&session, "SELECT id FROM t ORDER BY id DESC LIMIT 2").await;
    assert!(top.contains("999") && top.contains("998"), "{top}");
}

/// Writes rows with a footer that declares them sorted by `id`, then `word`.
fn write_sorted(path: &Path, batch: &RecordBatch) {
    let sorted = |column_idx| SortingColumn { column_idx, descending: false, nulls_first: false };
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(100))
        .set_sorting_columns(Some(vec![sorted(0), sorted(1)]));
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_a_declared_order_are_not_sorted_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_sorted(&path("a.parquet"), &numbered(0, 600));
    write_sorted(&path("b.parquet"), &numbered(600, 400));
    let session = session().await;
    let both = [path("a.parquet"), path("b.parquet")].map(|path| path.display().to_string());
    session.add_files("t", &both).await.unwrap();

    for sql in
        ["SELECT id, word FROM t ORDER BY id, word", "SELECT id FROM t WHERE word <> 'one' ORDER BY id"]
    {
        let plan = plan(&session, folder.path(), sql).await;
        assert!(!plan.contains("SortExec") && plan.contains("SortPreservingMergeExec: [id@0"), "{plan}");
    }
    let batches: Vec<RecordBatch> =
        session.run("SELECT id FROM t ORDER BY id").await.unwrap().try_collect().await.unwrap();
    let ids = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    assert_eq!(ids.collect::<Vec<_>>(), (0..1_000).collect::<Vec<_>>());
    let groups = plan(&session, folder.path(), "SELECT id, count(*) FROM t GROUP BY id").await;
    assert!(groups.contains("ordering_mode=Sorted"), "{groups}");

    for sql in ["SELECT id FROM t ORDER BY id DESC", "SELECT word FROM t ORDER BY word"] {
        let plan = plan(&session, folder.path(), sql).await;
        assert!(plan.contains("SortExec"), "{plan}");
    }

    // Overlapping row groups have no common order.
    write_sorted(&path("c.parquet"), &numbered(950, 100));
    let overlapping = [path("a.parquet"), path("b.parquet"), path("c.parquet")];
    let overlapping = overlapping.map(|path| path.display().to_string());
    session.add_files("u", &overlapping).await.unwrap();
    let plan = plan(&session, folder.path(), "SELECT id FROM u ORDER BY id").await;
    assert!(plan.contains("SortExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_analyzed_plan_says_where_bytes_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_parquet(&path, &numbered(0, 1_000), 100, true);
    // Nothing is cached of a file that was written just now.
    let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    File::options().write(true).open(&path).unwrap().set_modified(hour_ago).unwrap();
    let session = session_over("t", &path).await;
    let analyzed = "EXPLAIN ANALYZE SELECT sum(id), max(word) FROM t";
    let cold = rows(&session, analyzed).await;
    assert!(!cold.contains("bytes_from_origin=0") && cold.contains("bytes_from_disk=0"), "{cold}");
    // Its columns are now decoded in memory.
    let warm = rows(&session, analyzed).await;
    assert!(warm.contains("bytes_from_origin=0") && warm.contains("bytes_from_memory=0"), "{warm}");
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_tables_with_partition_columns_and_paths_are_names() {
    let folder = tempfile::tempdir().unwrap();
    for (day, from) in [("2026-01-01", 0), ("2026-01-02", 100)] {
        write_parquet(&folder.path().join(format!("t/day={day}/a.parquet")), &numbered(from, 100), 50, true);
    }
    let session = session().await;
    let path = folder.path().join("t");
    let path = path.display();

    let sql = format!("SELECT day, count(*) n, min(id) FROM '{path}' GROUP BY day ORDER BY day");
    let text = rows(&session, &sql).await;
    assert!(text.contains("| 2026-01-01 | 100 | 0 ") && text.contains("| 2026-01-02 | 100 | 100 "), "{text}");
    let one_day = format!("SELECT id FROM '{path}/*/*.parquet' WHERE day = DATE '2026-01-02'");
    let plan = plan(&session, folder.path(), &one_day).await;
    assert!(plan.contains("row_groups=2/4") && !plan.contains("FilterExec"), "{plan}");

    let create = format!("CREATE EXTERNAL TABLE made STORED AS PARQUET LOCATION '{path}'");
    session.run(&create).await.unwrap();
    assert_eq!(session.table_names(), ["made"]);
    assert!(rows(&session, "SELECT count(*) FROM made").await.contains("200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let session = thousand(folder.path()).await;
    let error = async |sql: &str| session.run(sql).await.err().unwrap_or_else(|| panic!("{sql} succeeds"));

    let unknown = error("SELECT * FROM tt").await;
    assert!(matches!(unknown, Error::NoSuchTable { .. }), "{unknown:?}");
    assert_eq!(unknown.to_string(), "no table tt: did you mean t?");
    assert!(error("SELECT * FROM zebra").await.to_string().contains("available tables: t"));
    assert!(error("SELECT * FROM a.parquet").await.to_string().contains("quotes"));
    let missing = error("SELECT * FROM '/no/such/file.parquet'").await;
    assert!(
        matches!(missing, Error::Scan(_)) && missing.to_string().contains("/no/such/file.parquet"),
        "{missing:?}"
    );

    for (sql, part) in [
        ("SELEC 1", "does not parse"),
        ("SELECT nme FROM t", "nme"),
        ("SELECT id + word FROM t WHERE", "does not parse"),
        ("SELECT sum(word, 1) FROM t", "sum"),
        ("INSERT INTO t VALUES (1, 'x', 1.0)", "write"),
        ("SELECT 1; SELECT 2", "several"),
        ("", "no statement"),
    ] {
        let error = error(sql).await;
        assert!(matches!(error, Error::Query { .. }), "{sql}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(part) && text.lines().count() == 1, "{sql}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_spilled_and_the_folder_is_removed() {
    use stylobate_columnar::Cache;
    use stylobate_storage::{ByteSize, CacheOptions};

    let folder = tempfile::tempdir().unwrap();
    let rows = support::many_types(200_000);
    let path = |name: &str| folder.path().join(name);
    write_parquet(&path("coded.parquet"), &rows, 50_000, true);
    write_parquet(&path("plain.parquet"), &rows, 50_000, false);
    let spill = tempfile::tempdir().unwrap();
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    let session = SqlSession::builder(cache).with_threads(2).with_spill_folder(spill.path()).build().unwrap();
    for name in ["coded.parquet", "plain.parquet"] {
        session.add_table("t", &path(name).to_string_lossy()).await.unwrap();
        let sql = "SELECT name, mode, cents, fine, at, id FROM t ORDER BY name, mode, id";
        let sorted = session.run(sql).await.unwrap();
        let batches: Vec<RecordBatch> = sorted.try_collect().await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 200_000);
    }
    drop(session);
    assert_eq!(std::fs::read_dir(spill.path()).unwrap().count(), 0);
}
