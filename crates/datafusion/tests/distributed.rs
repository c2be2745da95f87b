//! Queries over several workers in one process, each with its own runtime: results, homes of row groups, lost
//! workers, cancellation.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::{
    collections::HashMap,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use datafusion::{
    arrow::{array::RecordBatch, compute::concat_batches, util::pretty::pretty_format_batches},
    execution::runtime_env::RuntimeEnv,
};
use futures::{StreamExt, TryStreamExt};
use stylobate_columnar::{Cache, Error as ScanError, ScanRequest};
use stylobate_datafusion::{
    Error, SqlSession,
    distributed::{Distribution, QueryNodes, QueryWorkerBuilder, UrlSources, WorkerList},
};
use stylobate_storage::{ByteSize, CacheOptions, Error as StorageError};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Server, server::TcpIncoming};
use url::Url;

use self::support::{many_types, rows, session, write_orc, write_parquet};

/// A worker on its own port.
struct TestWorker {
    url: Url,
    cache: Cache,
    env: Arc<RuntimeEnv>,
    /// `None` once it was killed.
    runtime: Option<Runtime>,
}

impl TestWorker {
    async fn serve(listener: TcpListener, urls: Vec<Url>, spill: PathBuf) -> Self {
        let url = url_of(&listener);
        listener.set_nonblocking(true).unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let started = runtime.spawn(async move {
            let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
            let session =
                SqlSession::builder(cache.clone()).with_threads(2).with_spill_folder(spill).build().unwrap();
            let env = session.context().runtime_env();
            let distribution = Distribution::over(Arc::new(WorkerList::new(urls)));
            let sources = Arc::new(UrlSources::default());
            let worker = QueryWorkerBuilder::new(env.clone(), cache.clone(), sources, &distribution);
            let worker = worker.with_threads(2).build();

            let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).unwrap());
            tokio::spawn(async move {
                let _session = session;
                let service = worker.of_engine().into_worker_server();
                Server::builder().add_service(service).serve_with_incoming(incoming).await
            });
            (cache, env)
        });
        let (cache, env) = started.await.unwrap();
        Self { url, cache, env, runtime: Some(runtime) }
    }

    /// Ends all its tasks and connections.
    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for TestWorker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn url_of(listener: &TcpListener) -> Url {
    Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap()
}

/// Workers, and a session that runs its queries on them.
struct TestCluster {
    workers: Vec<TestWorker>,
    session: SqlSession,
    spill: TempDir,
}

impl TestCluster {
    async fn start(count: usize) -> Self {
        let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let urls: Vec<Url> = listeners.iter().map(url_of).collect();
        let spill = tempfile::tempdir().unwrap();
        let mut workers = Vec::new();
        for listener in listeners {
            workers.push(TestWorker::serve(listener, urls.clone(), spill.path().to_owned()).await);
        }

        let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
        let distribution = Distribution::over(Arc::new(WorkerList::new(urls)));
        let session = SqlSession::builder(cache).with_threads(3).with_spill_folder(spill.path());
        let session = session.with_distribution(distribution).build().unwrap();
        Self { workers, session, spill }
    }

    /// Waits until no worker holds memory or spilled rows.
    async fn is_idle(&self) {
        let started = Instant::now();
        loop {
            let reserved: usize = self.workers.iter().map(|worker| worker.env.memory_pool.reserved()).sum();
            let spilled = files_below(self.spill.path());
            if reserved == 0 && spilled == 0 {
                return;
            }
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "{reserved} bytes and {spilled} files are left"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Counts the spill files: all files except the locks of the folders.
fn files_below(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let count =
        |path: PathBuf| if path.is_dir() { files_below(&path) } else { usize::from(!path.ends_with("lock")) };
    entries.map(count).sum()
}

/// Returns the rows of a query as text, or its error.
async fn answer(session: &SqlSession, sql: &str) -> Result<String, Error> {
    let rows = session.run(sql).await?;
    let schema = rows.schema();
    let batches: Vec<RecordBatch> = rows.try_collect().await?;
    Ok(pretty_format_batches(&[concat_batches(&schema, &batches).unwrap()]).unwrap().to_string())
}

/// Writes a folder of Parquet files of many types, a folder of ORC files, and a small file, and adds all of them to
/// the sessions.
async fn write_tables(folder: &Path, sessions: &[&SqlSession]) {
    let all = many_types(4_000);
    // ORC does not support unsigned integers.
    let schema = all.schema();
    let signed = (0..all.num_columns()).filter(|at| !schema.field(*at).data_type().is_unsigned_integer());
    let signed = all.project(&signed.collect::<Vec<_>>()).unwrap();
    std::fs::create_dir_all(folder.join("orc")).unwrap();
    for file in 0..8 {
        let some = all.slice(file * 500, 500);
        write_parquet(&folder.join(format!("facts/{file}.parquet")), &some, 100, file % 2 == 0);
        write_orc(&folder.join(format!("orc/{file}.orc")), &signed.slice(file * 500, 500)).await;
    }
    write_parquet(&folder.join("small.parquet"), &all.slice(0, 40), 100, true);

    for session in sessions {
        add_tables(folder, session).await;
    }
}

async fn add_tables(folder: &Path, session: &SqlSession) {
    for (table, path) in [("facts", "facts"), ("other", "orc"), ("small", "small.parquet")] {
        session.add_table(table, &folder.join(path).to_string_lossy()).await.unwrap();
    }
}

/// Queries with a single correct result.
const QUERIES: [&str; 24] = [
    "SELECT count(*), min(id), max(id), sum(i64), count(DISTINCT mode) FROM facts",
    "SELECT mode, count(*), sum(cents), max(name) FROM facts GROUP BY mode ORDER BY mode NULLS LAST",
    "SELECT flag, day, count(*) FROM facts WHERE i32 > 0 AND mode IN ('AIR', 'SHIP') GROUP BY flag, day ORDER BY 1, 2",
    "SELECT id, name FROM facts WHERE mode LIKE '%I%' ORDER BY name DESC NULLS LAST, id LIMIT 25",
    "SELECT id FROM facts ORDER BY id DESC LIMIT 7",
    "SELECT id, address FROM facts WHERE address.zip = 3 ORDER BY id LIMIT 20",
    "SELECT count(*) FROM (SELECT id FROM facts LIMIT 350)",
    "SELECT count(*) FROM (SELECT id FROM facts WHERE i16 <> 3 LIMIT 1234)",
    "SELECT f.mode, count(*), sum(o.i64) FROM facts f JOIN other o ON f.id = o.id GROUP BY f.mode ORDER BY 1",
    "SELECT f.id, s.name FROM facts f JOIN small s ON f.i16 = s.i16 WHERE f.id < 300 ORDER BY 1, 2 LIMIT 200",
    "SELECT count(*), count(s.id) FROM facts f LEFT JOIN small s ON f.id = s.id",
    "SELECT count(*), count(f.id), count(s.id) FROM facts f FULL JOIN small s ON f.i64 = s.i64",
    "SELECT count(*) FROM small s RIGHT JOIN facts f ON f.id = s.id AND s.i8 > 0",
    "SELECT count(*) FROM facts f WHERE EXISTS (SELECT 1 FROM small s WHERE s.i32 = f.i32)",
    "SELECT count(*) FROM facts f WHERE f.id NOT IN (SELECT s.id FROM small s)",
    "SELECT count(*) FROM facts WHERE i64 > (SELECT avg(i64) FROM other)",
    "SELECT a.n, b.m FROM (SELECT count(*) n FROM facts) a CROSS JOIN (SELECT max(id) m FROM small WHERE i8 > 0) b",
    "SELECT count(*), sum(n) FROM (SELECT count(*) n FROM small WHERE i8 > -100 UNION ALL SELECT id FROM facts)",
    "SELECT i16, n FROM (SELECT i16, count(*) n FROM facts GROUP BY i16 UNION ALL SELECT 99, 1) ORDER BY 1, 2",
    "SELECT mode, id FROM (SELECT mode, id, row_number() OVER (PARTITION BY mode ORDER BY id) r FROM facts)
     WHERE r <= 3 ORDER BY 1, 2",
    "SELECT o.mode, sum(f.i64 * s.i8) FROM facts f JOIN other o ON f.id = o.id JOIN small s ON o.i16 = s.i16
     WHERE f.day > DATE '1995-01-01' GROUP BY o.mode HAVING count(*) > 10 ORDER BY 1",
    "SELECT at, at_utc, at_ms, bytes, fine FROM other WHERE id BETWEEN 1000 AND 1040 ORDER BY id",
    "WITH t AS (SELECT mode, count(*) n FROM facts GROUP BY mode) SELECT max(n), min(n) FROM t",
    "SELECT DISTINCT mode FROM other ORDER BY 1 NULLS FIRST",
];

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let alone = session().await;
    let cluster = TestCluster::start(3).await;
    write_tables(folder.path(), &[&alone, &cluster.session]).await;

    for sql in QUERIES {
        assert_eq!(rows(&cluster.session, sql).await, rows(&alone, sql).await, "{sql}");
    }
    // Run the same query on tables named by path.
    let sql =
        format!("SELECT count(*), sum(i64) FROM '{}/facts/*.parquet' WHERE i8 > 0", folder.path().display());
    assert_eq!(rows(&cluster.session, &sql).await, rows(&alone, &sql).await);
    cluster.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_group_is_read_once_by_its_home() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = TestCluster::start(3).await;
    let facts = folder.path().join("facts");
    for file in 0..12 {
        let some = many_types(1_200).slice(file * 100, 100);
        write_parquet(&facts.join(format!("{file}.parquet")), &some, 50, true);
    }
    let name = facts.to_string_lossy().into_owned();
    cluster.session.add_table("facts", &name).await.unwrap();

    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    let starts = ScanRequest::new(&*name).plan(&cache).await.unwrap().row_group_starts();
    assert_eq!(starts.len(), 24);
    let list = WorkerList::new(cluster.workers.iter().map(|worker| worker.url.clone()));
    let mut expected: HashMap<Url, u64> = HashMap::new();
    for start in starts {
        *expected.entry(list.home(&name, &start.path, start.offset).unwrap()).or_default() += 1;
    }

    assert!(rows(&cluster.session, "SELECT sum(i64) FROM facts").await.contains("sum"));
    for worker in &cluster.workers {
        let decoded = worker.cache.stats().decoded_chunks;
        assert_eq!(decoded, expected.get(&worker.url).copied().unwrap_or_default(), "{}", worker.url);
    }
    assert!(expected.len() > 1, "{expected:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_show_the_stages_and_their_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = TestCluster::start(3).await;
    write_tables(folder.path(), &[&cluster.session]).await;
    let sql = "SELECT mode, count(*) FROM facts GROUP BY mode";
    let plan = rows(&cluster.session, &format!("EXPLAIN {sql}")).await;
    assert!(plan.contains("Stage 1") && plan.contains("tasks=3"), "{plan}");
    assert!(plan.contains("NetworkShuffleExec"), "{plan}");
    let analyzed = rows(&cluster.session, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(analyzed.contains("output_rows=4000") || analyzed.contains("output_rows=4.00 K"), "{analyzed}");
}

/// Writes two tables of folders by day, with several files in each, and adds them to the sessions.
async fn write_days(folder: &Path, sessions: &[&SqlSession]) {
    for (table, days, rows_per_file) in [("sales", 30, 20), ("returns", 24, 7)] {
        for day in 0..days {
            // The last folder has no day.
            let day_name = match day {
                23 => "__HIVE_DEFAULT_PARTITION__".to_owned(),
                _ => format!("2024-01-{:02}", day + 1),
            };
            for file in 0..2 {
                let some = many_types(2_000).slice((day * 2 + file) * rows_per_file, rows_per_file);
                let columns: Vec<usize> =
                    ["id", "mode", "i64", "i16"].map(|name| some.schema().index_of(name).unwrap()).to_vec();
                let path = folder.join(format!("{table}/sold={day_name}/{file}.parquet"));
                write_parquet(&path, &some.project(&columns).unwrap(), 10, true);
            }
        }
        for session in sessions {
            session.add_table(table, &folder.join(table).to_string_lossy()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_partition_folder_are_not_exchanged() {
    let folder = tempfile::tempdir().unwrap();
    let alone = session().await;
    let cluster = TestCluster::start(3).await;
    write_days(folder.path(), &[&alone, &cluster.session]).await;

    let queries = [
        "SELECT sold, count(*), sum(i64) FROM sales GROUP BY sold ORDER BY sold",
        "SELECT mode, sold, count(*), sum(i64) FROM sales GROUP BY mode, sold ORDER BY mode, sold",
        "SELECT sold, count(DISTINCT mode) FROM sales WHERE i64 > 0 GROUP BY sold ORDER BY sold",
        "SELECT sold, id FROM (SELECT sold, id, row_number() OVER (PARTITION BY sold ORDER BY id DESC) r FROM sales)
         WHERE r <= 2 ORDER BY sold, id",
        "SELECT s.sold, count(*), sum(s.i64), sum(r.i64) FROM sales s JOIN returns r ON s.sold = r.sold
         GROUP BY s.sold ORDER BY s.sold",
    ];
    for sql in queries {
        let plan = rows(&cluster.session, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains("partitioned_by=sold") && plan.contains("tasks=3"), "{sql}: {plan}");
        assert!(!plan.contains("NetworkShuffle"), "{sql}: {plan}");
        assert_eq!(rows(&cluster.session, sql).await, rows(&alone, sql).await, "{sql}");
    }

    let others = [
        "SELECT s.sold, count(*), count(r.id) FROM sales s LEFT JOIN returns r ON s.sold = r.sold GROUP BY s.sold
         ORDER BY s.sold",
        "SELECT s.sold, r.sold, count(*) FROM sales s FULL JOIN returns r ON s.sold = r.sold GROUP BY s.sold, r.sold
         ORDER BY s.sold, r.sold",
        "SELECT sold, mode, count(*) FROM sales GROUP BY ROLLUP (sold, mode) ORDER BY sold, mode, 3",
        "SELECT sold, mode, count(*) FROM sales GROUP BY GROUPING SETS ((sold), (mode), ()) ORDER BY sold, mode, 3",
        "SELECT sold, sum(n) FROM (SELECT sold, count(*) n FROM sales GROUP BY sold
         UNION ALL SELECT sold, count(*) n FROM returns GROUP BY sold) GROUP BY sold ORDER BY sold",
        "SELECT sold, max(n) FROM (SELECT mode, sold, count(*) n FROM sales GROUP BY mode, sold) GROUP BY sold
         ORDER BY sold",
        "SELECT sold, count(*) FROM (SELECT sold FROM sales LIMIT 77) GROUP BY sold HAVING count(*) > 1000",
    ];
    for sql in others {
        assert_eq!(rows(&cluster.session, sql).await, rows(&alone, sql).await, "{sql}");
    }

    // The other side is exchanged to where the folders of one day are read.
    let mixed = "SELECT s.sold, count(*), sum(r.i64)
         FROM sales s JOIN (SELECT DISTINCT CAST(sold AS date) d, i16, i64 FROM returns) r ON s.sold = r.d AND s.i16 > r.i16
         GROUP BY s.sold ORDER BY s.sold";
    let plan = rows(&cluster.session, &format!("EXPLAIN {mixed}")).await;
    assert!(plan.contains("partitioned_by=sold"), "{plan}");
    assert_eq!(rows(&cluster.session, mixed).await, rows(&alone, mixed).await);
    cluster.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn few_partition_folders_are_read_by_the_homes_of_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let alone = session().await;
    let cluster = TestCluster::start(3).await;
    for year in 2020..2023 {
        let path = folder.path().join(format!("sales/year={year}/0.parquet"));
        write_parquet(&path, &many_types(600), 50, true);
    }
    for session in [&alone, &cluster.session] {
        session.add_table("sales", &folder.path().join("sales").to_string_lossy()).await.unwrap();
    }

    let sql = "SELECT year, mode, count(*) FROM sales GROUP BY year, mode ORDER BY year, mode";
    let plan = rows(&cluster.session, &format!("EXPLAIN {sql}")).await;
    assert!(plan.contains("NetworkShuffle") && !plan.contains("partitioned_by"), "{plan}");
    assert_eq!(rows(&cluster.session, sql).await, rows(&alone, sql).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_only_this_process_reads_is_read_here() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = TestCluster::start(2).await;
    write_tables(folder.path(), &[&cluster.session]).await;
    let csv = folder.path().join("codes.csv");
    std::fs::write(&csv, "code,word\n3,three\n5,five\n").unwrap();
    cluster.session.add_table("codes", &csv.to_string_lossy()).await.unwrap();

    let sql = "SELECT word, count(*) FROM facts JOIN codes ON i32 = code GROUP BY word ORDER BY word";
    let plan = rows(&cluster.session, &format!("EXPLAIN {sql}")).await;
    let stages = plan.split("Stage 1 ──").nth(1).unwrap_or_default();
    assert!(plan.contains("StreamingTableExec") && !stages.contains("StreamingTableExec"), "{plan}");
    let found = rows(&cluster.session, sql).await;
    assert!(found.contains("five") && found.contains("three"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_replaced_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = TestCluster::start(2).await;
    write_tables(folder.path(), &[&cluster.session]).await;
    write_parquet(&folder.path().join("facts/3.parquet"), &many_types(730), 100, true);
    let error = answer(&cluster.session, "SELECT sum(i64) FROM facts").await.unwrap_err();
    assert!(matches!(&error, Error::Scan(ScanError::Storage(StorageError::Changed { .. }))), "{error:?}");
    assert!(error.to_string().contains("3.parquet"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_tasks_are_those_of_the_query() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = TestCluster::start(2).await;
    write_tables(folder.path(), &[&cluster.session]).await;
    let error = answer(&cluster.session, "SELECT sum(1 / (i32 - i32)) FROM facts").await.unwrap_err();
    assert!(matches!(error, Error::Value { .. }), "{error:?}");
    assert_eq!(error.to_string().lines().count(), 1);
    cluster.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_runs_on_the_workers_that_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let alone = session().await;
    let mut cluster = TestCluster::start(3).await;
    write_tables(folder.path(), &[&alone, &cluster.session]).await;
    let expected = rows(&alone, QUERIES[8]).await;

    assert_eq!(rows(&cluster.session, QUERIES[8]).await, expected);
    cluster.workers[1].kill();
    assert_eq!(rows(&cluster.session, QUERIES[8]).await, expected);
    cluster.workers[0].kill();
    assert_eq!(rows(&cluster.session, QUERIES[8]).await, expected);
    // With one worker or none, the session does all the work itself.
    cluster.workers[2].kill();
    assert_eq!(rows(&cluster.session, QUERIES[8]).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_at_any_moment_gives_the_right_answer_or_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let alone = session().await;
    write_tables(folder.path(), &[&alone]).await;
    let sql = "SELECT f.mode, count(*), sum(o.i64) FROM facts f JOIN other o ON f.i16 = o.i16 GROUP BY f.mode ORDER BY 1";
    let expected = rows(&alone, sql).await;

    for moment in 0..12_u64 {
        let mut cluster = TestCluster::start(3).await;
        add_tables(folder.path(), &cluster.session).await;
        let victim = moment as usize % 3;
        let running = answer(&cluster.session, sql);
        let workers = &mut cluster.workers;
        let killing = async {
            tokio::time::sleep(Duration::from_millis(moment * moment * 2)).await;
            workers[victim].kill();
        };
        let (found, ()) = tokio::join!(running, killing);
        match found {
            Ok(found) => assert_eq!(found, expected, "moment {moment}"),
            Err(Error::LostNode { reason }) => assert_eq!(reason.lines().count(), 1, "{reason}"),
            Err(error) => panic!("moment {moment}: {error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_dropped_ends_on_all_workers() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = TestCluster::start(3).await;
    write_tables(folder.path(), &[&cluster.session]).await;
    // Billions of rows; only the first batches are read.
    let sql = "SELECT a.id, b.id, c.id FROM facts a JOIN other b ON a.flag = b.flag JOIN facts c ON c.flag = a.flag";
    for batches in [0, 1, 3] {
        let mut running = cluster.session.run(sql).await.unwrap();
        for _ in 0..batches {
            running.next().await.unwrap().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(running);
        cluster.is_idle().await;
    }

    let sql = "SELECT count(*) FROM facts a JOIN other b ON a.flag = b.flag JOIN facts c ON c.flag = a.flag";
    let counting = tokio::time::timeout(Duration::from_millis(300), answer(&cluster.session, sql)).await;
    assert!(counting.is_err());
    cluster.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_queries_at_once_give_their_answers() {
    let folder = tempfile::tempdir().unwrap();
    let alone = session().await;
    let cluster = TestCluster::start(3).await;
    write_tables(folder.path(), &[&alone, &cluster.session]).await;
    let mut expected = Vec::new();
    for sql in &QUERIES[..12] {
        expected.push(rows(&alone, sql).await);
    }
    let found = futures::future::join_all(QUERIES[..12].iter().map(|sql| rows(&cluster.session, sql))).await;
    assert_eq!(found, expected);
    cluster.is_idle().await;
}
