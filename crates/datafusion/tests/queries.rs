//! Prepared queries, tables provided by callers, and joins that are stopped.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use datafusion::arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, StringViewArray},
    datatypes::DataType,
};
use futures::{StreamExt, TryStreamExt, stream};
use stylobate_columnar::{Cache, Predicate, ScanRequest};
use stylobate_datafusion::{
    Error, QueryMemory, ScanTable, SqlQuery, SqlSession, batches_table, stream_table,
};
use stylobate_storage::{ByteSize, CacheOptions};
use tokio::{runtime::Handle, time::sleep};

use self::support::{many_types, rows, session, session_over, write_parquet};

/// Rows with `id` from 0 and `word`, one of three.
fn words(rows: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new((0..rows).map(Some).collect::<Int64Array>());
    let word = |id: i64| Some(["one", "two", "three"][(id % 3) as usize]);
    let words: ArrayRef = Arc::new((0..rows).map(word).collect::<StringArray>());
    RecordBatch::try_from_iter([("id", ids), ("word", words)]).unwrap()
}

async fn count(query: &SqlQuery) -> usize {
    let batches: Vec<RecordBatch> = query.run().await.unwrap().try_collect().await.unwrap();
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_query_runs_any_number_of_times_after_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_parquet(&path, &words(1_000), 100, true);
    let session = session_over("t", &path).await;
    let query = session.prepare("SELECT word, id FROM t WHERE id >= 400 ORDER BY id").await.unwrap();
    let spill = query.spill_folder().unwrap().to_owned();
    drop(session);

    assert_eq!(query.schema().field(0).data_type(), &DataType::Utf8View);
    assert_eq!(query.schema_without_views().field(0).data_type(), &DataType::Utf8);
    assert_eq!(count(&query).await, 600);
    let (one, other) = tokio::join!(count(&query), count(&query));
    assert_eq!((one, other), (600, 600));

    let rows = query.run().await.unwrap().without_views();
    assert_eq!(rows.schema(), query.schema_without_views());
    drop(query);
    assert!(spill.exists());
    let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap();
    assert!(batches.iter().all(|batch| batch.column(0).data_type() == &DataType::Utf8));
    assert!(!spill.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_not_named_after_the_paths_of_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (first, second) = (path("t.parquet"), path("s-t.parquet"));
    write_parquet(first.as_ref(), &words(9), 100, true);
    write_parquet(second.as_ref(), &words(6), 100, true);
    let session = session().await;
    let columns = async |sql: String| {
        let query = session.prepare(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(count(&query).await > 0, "{sql}");
        query.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };

    let sums =
        format!("SELECT word, sum(id), max(id) AS m, id + 1 FROM '{first}' GROUP BY word, id ORDER BY word");
    assert_eq!(columns(sums).await, ["word", "sum(id)", "m", "id + Int64(1)"]);
    assert_eq!(columns(format!("SELECT count(*) FROM '{first}'")).await, ["count(*)"]);
    assert_eq!(columns(format!("SELECT sum(a.id) FROM '{first}' AS a")).await, ["sum(a.id)"]);

    let joined = format!("FROM '{first}' JOIN '{second}' USING (word)");
    let of = |path: &str| format!(r#"min("{path}".id)"#);
    let one = columns(format!("SELECT {}, count(*) {joined}", of(&second))).await;
    assert_eq!(one, ["min(id)", "count(*)"]);
    let both = columns(format!("SELECT {}, {} {joined}", of(&first), of(&second))).await;
    assert!(both[0].contains(&first) && both[1].contains(&second), "else both were named min(id): {both:?}");

    let explained = rows(&session, &format!("EXPLAIN SELECT sum(id) FROM '{first}'")).await;
    assert!(explained.contains("sum("), "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_the_user_wrote_may_begin_with_the_path_of_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet").to_string_lossy().into_owned();
    let own = format!("{path}.own");
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("id", ids.clone()), (own.as_str(), ids)]).unwrap();
    write_parquet(path.as_ref(), &batch, 100, true);
    let session = session().await;
    let columns = async |sql: String| {
        let query = session.prepare(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(count(&query).await > 0, "{sql}");
        query.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };

    let aliases = format!(r#"SELECT id AS "{path}.x", sum(id) AS "{path}.s" FROM '{path}' GROUP BY id"#);
    assert_eq!(columns(aliases).await, [format!("{path}.x"), format!("{path}.s")]);
    let inner = format!(r#"SELECT id AS "{path}.x" FROM '{path}'"#);
    let outer = format!(r#"SELECT max("{path}.x") FROM ({inner})"#);
    assert_eq!(columns(outer).await, [format!("max({path}.x)")]);
    assert_eq!(columns(format!("SELECT * FROM '{path}'")).await, ["id".to_owned(), own.clone()]);
    assert_eq!(columns(format!(r#"SELECT max("{own}") FROM '{path}'"#)).await, [format!("max({own})")]);
    let literal = columns(format!("SELECT 'see {path}.id', max(id) FROM '{path}'")).await;
    assert!(literal[0].contains(&format!("see {path}.id")), "{literal:?}");
    assert_eq!(literal[1], "max(id)");
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_are_named_and_refused_in_the_terms_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_parquet(&path, &words(9), 100, true);
    let session = session().await;
    let run = async |sql: &str| {
        let rows = session.run(sql).await?;
        let names: Vec<String> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        rows.try_collect::<Vec<_>>().await?;
        Ok::<_, Error>(names)
    };

    let prepare = format!("PREPARE p(BIGINT) AS SELECT sum(id) FROM '{}' WHERE id >= $1", path.display());
    assert_eq!(run(&prepare).await.unwrap(), [""; 0]);
    assert_eq!(run("EXECUTE p(3)").await.unwrap(), ["sum(id)"]);

    for (sql, said) in [
        ("EXECUTE q", "Prepared statement 'q' does not exist"),
        ("EXECUTE p(1, 2)", "Prepared statement 'p' expects 1 parameters, but 2 provided"),
        ("EXPLAIN EXECUTE p(3)", "EXPLAIN takes a query, and no other statement"),
        ("EXPLAIN ANALYZE EXECUTE p(3)", "EXPLAIN takes a query, and no other statement"),
        ("EXPLAIN ANALYZE CREATE VIEW v AS SELECT 1", "EXPLAIN takes a query, and no other statement"),
        ("EXPLAIN DROP VIEW v", "EXPLAIN takes a query, and no other statement"),
        ("START TRANSACTION", "the statement is not supported: give a query"),
    ] {
        let error = run(sql).await.unwrap_err();
        assert!(matches!(&error, Error::Query { reason } if reason == said), "{sql}: {error:?}");
    }

    let query = rows(&session, "EXPLAIN SELECT 1 AS x").await;
    assert!(query.contains("physical_plan "), "{query}");
    for create in ["CREATE TABLE c AS", "CREATE VIEW c AS"] {
        assert_eq!(rows(&session, &format!("EXPLAIN {create} SELECT 1 AS x")).await, query);
    }
    let error = run("EXPLAIN SELECT * FROM nothing").await.unwrap_err();
    assert!(matches!(&error, Error::NoSuchTable { table, .. } if table == "nothing"), "{error:?}");
    let error = session.prepare("EXECUTE p(3)").await.unwrap_err();
    assert!(error.to_string().starts_with("EXECUTE is not supported here"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_queries_are_prepared() {
    let session = session().await;
    for sql in ["CREATE VIEW v AS SELECT 1", "SET datafusion.execution.batch_size = 10", "DROP TABLE t"] {
        let error = session.prepare(sql).await.unwrap_err();
        assert!(matches!(&error, Error::Query { reason } if reason.contains("no rows")), "{sql}: {error:?}");
    }
    for sql in ["EXPLAIN SELECT 1", "SHOW TABLES", "VALUES (1), (2)", "SELECT 1"] {
        let query = session.prepare(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let _ = count(&query).await;
    }
    let error = session.prepare("SELECT 1; SELECT 2").await.unwrap_err();
    assert!(error.to_string().contains("several"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_with_a_filter_and_a_limit_is_a_table_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_parquet(&path, &words(1_000), 100, true);
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    let session = session().await;
    let add = async |name: &str, filter: Option<&str>, limit: Option<u64>| {
        let mut request = ScanRequest::new(path.to_string_lossy());
        if let Some(filter) = filter {
            request = request.with_filter(Predicate::parse(filter).unwrap());
        }
        if let Some(limit) = limit {
            request = request.with_limit(limit);
        }
        session.add(name, ScanTable::open(request, &cache).await.unwrap()).unwrap();
    };
    add("filtered", Some("id >= 150 AND word = 'one'"), None).await;
    add("limited", None, Some(250)).await;
    add("both", Some("word = 'one'"), Some(100)).await;

    let answer = async |sql: &str| {
        let text = rows(&session, sql).await;
        text.lines().nth(3).unwrap().trim_matches(['|', ' ']).to_owned()
    };
    for (sql, expected) in [
        ("SELECT count(*) FROM filtered", "284"),
        ("SELECT min(id) FROM filtered", "150"),
        ("SELECT count(*) FROM filtered WHERE id < 200", "17"),
        ("SELECT count(*) FROM limited", "250"),
        ("SELECT max(id) FROM limited", "249"),
        ("SELECT count(*) FROM limited WHERE id >= 200", "50"),
        ("SELECT count(*) FROM limited WHERE word = 'three'", "83"),
        ("SELECT id FROM limited ORDER BY id DESC LIMIT 1", "249"),
        ("SELECT count(*) FROM (SELECT id FROM limited LIMIT 10)", "10"),
        ("SELECT count(*) FROM limited a JOIN limited b ON a.id = b.id + 200", "50"),
        ("SELECT count(*) FROM both", "100"),
        ("SELECT max(id) FROM both", "297"),
        ("SELECT count(*) FROM both WHERE id > 290", "3"),
    ] {
        assert_eq!(answer(sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_and_streams_are_tables() {
    let session = session().await;
    let batch = words(9);
    session.add_provider("m", batches_table(batch.schema(), vec![batch.clone()]).unwrap()).unwrap();
    let streamed = batch.clone();
    let open = move || stream::iter([Ok(streamed.slice(0, 4)), Ok(streamed.slice(4, 5))]).boxed();
    session.add_provider("s", stream_table(batch.schema(), open).unwrap()).unwrap();
    let fails = || stream::iter([Err("the source is gone".into())]).boxed();
    session.add_provider("f", stream_table(batch.schema(), fails).unwrap()).unwrap();

    let joined =
        rows(&session, "SELECT count(*), sum(m.id) FROM m JOIN s a USING (id) JOIN s b USING (id)").await;
    assert!(joined.contains("| 9 ") && joined.contains("| 36 "), "{joined}");
    let error = session.run("SELECT * FROM f").await.unwrap().try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.to_string(), "the source is gone");

    let views: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
    let other = RecordBatch::try_from_iter([("word", views)]).unwrap();
    assert!(matches!(batches_table(batch.schema(), vec![other]), Err(Error::Query { .. })));

    session.add_provider("Upper", batches_table(batch.schema(), vec![batch]).unwrap()).unwrap();
    let error = session.run("SELECT * FROM Upper").await.unwrap_err().to_string();
    assert_eq!(error, "no table upper: write its name in double quotes: \"Upper\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_share_memory_share_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_parquet(&path, &many_types(100_000), 20_000, true);
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(256))).await.unwrap();
    let memory = QueryMemory::over(cache.clone());
    let open =
        || SqlSession::builder(cache.clone()).with_memory(memory.clone()).with_threads(2).build().unwrap();
    let sessions = [open(), open(), open()];

    let sorted = sessions.iter().map(async |session| {
        session.add_table("t", &path.to_string_lossy()).await.unwrap();
        let query =
            session.prepare("SELECT name, mode, cents, at, id FROM t ORDER BY name, id").await.unwrap();
        let mut rows = query.run().await.unwrap();
        let mut count = 0;
        while let Some(batch) = rows.try_next().await.unwrap() {
            count += batch.num_rows();
            assert!(cache.stats().held_bytes <= 192 << 20, "{}", cache.stats().held_bytes);
        }
        count
    });
    assert_eq!(futures::future::join_all(sorted).await, [100_000; 3]);
    let ended = Instant::now();
    while cache.stats().held_bytes > 0 {
        assert!(ended.elapsed() < Duration::from_secs(30), "{} bytes are held", cache.stats().held_bytes);
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_let_timers_run_and_end_with_their_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_parquet(&path, &words(200_000), 20_000, true);
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    let session = SqlSession::builder(cache.clone()).with_threads(2).build().unwrap();
    session.add_table("t", &path.to_string_lossy()).await.unwrap();

    let tasks = || Handle::current().metrics().num_alive_tasks();
    for sql in [
        "SELECT count(*) FROM t a JOIN t b ON a.id + b.id < 0",
        "SELECT count(*) FROM t a JOIN t b ON a.id * b.id >= 0",
        "SELECT max(a.id * b.id) FROM t a CROSS JOIN t b",
        "SELECT count(*) FROM t a JOIN t b ON a.word = b.word AND a.id * b.id < 0",
        "SELECT count(*) FROM t a JOIN t b ON a.word = b.word",
        "SELECT count(*) FROM t a LEFT JOIN t b ON a.id + b.id < 0 WHERE b.id IS NULL",
    ] {
        let before = tasks();
        let rows = session.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let reading = tokio::spawn(rows.try_collect::<Vec<_>>());
        let begun = Instant::now();
        for _ in 0..5 {
            sleep(Duration::from_millis(50)).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{sql}: timers came after {:?}", begun.elapsed());
        assert!(!reading.is_finished(), "{sql} is not long enough");

        reading.abort();
        assert!(reading.await.unwrap_err().is_cancelled());
        let stopped = Instant::now();
        while tasks() > before {
            assert!(stopped.elapsed() < Duration::from_secs(30), "{sql}: {} tasks go on", tasks() - before);
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(cache.stats().held_bytes, 0, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_joins_as_they_were_planned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_parquet(&path, &words(1_000), 100, true);
    let session = session_over("t", &path).await;
    let join =
        "SELECT count(*) FROM t a JOIN t b ON a.id = b.id AND a.id + b.id > 10 JOIN t c ON a.id < c.id";
    let shown = rows(&session, &format!("EXPLAIN {join}")).await;
    assert!(shown.contains("HashJoinExec") && shown.contains("NestedLoopJoinExec"), "{shown}");
    assert!(!shown.contains("YieldingExec"), "{shown}");

    let analyzed = rows(&session, &format!("EXPLAIN ANALYZE {join}")).await;
    assert!(analyzed.contains("HashJoinExec"), "{analyzed}");
}
