//! Runs queries from standard input by one engine, and prints the time and the rows of each as JSON.

mod answers;

use std::{collections::HashSet, io, sync::Arc, time::Instant};

use anyhow::{Context, Result};
use arrow::array::RecordBatch;
use clap::{Parser, ValueEnum};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::{TryStreamExt, future::try_join_all};
use object_store::parse_url_opts;
use stylobate_columnar::Cache;
use stylobate_datafusion::SqlSession;
use stylobate_storage::{ByteSize, CacheOptions};
use url::Url;

use answers::{Answer, Query};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs queries, one per line: {"sql": "…", "tables": ["lineitem"]}. The time to open tables counts towards the first
/// query that names them.
#[derive(Parser)]
#[command(version = datafusion::DATAFUSION_VERSION)]
struct Arguments {
    /// The folder or URL of the tables, which are Parquet files.
    tables: String,
    /// The query engine.
    #[arg(long, value_enum)]
    engine: Engine,
    /// Number of decoding threads, and of partitions of operators.
    #[arg(long)]
    threads: usize,
    /// Memory limit of Stylobate. DataFusion's own tables have no limit.
    #[arg(long, default_value = "4GiB")]
    memory: ByteSize,
    /// An option of the object store; may be repeated.
    #[arg(long, value_parser = key_and_value)]
    option: Vec<(String, String)>,
}

fn key_and_value(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').context("an option is KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    /// DataFusion over scans of Stylobate.
    Stylobate,
    /// DataFusion's ListingTable.
    Datafusion,
    /// The same, with filters pushed into its Parquet reader.
    DatafusionPushdown,
}

enum EngineSession {
    Scans(SqlSession),
    ListingTables(SessionContext),
}

impl EngineSession {
    async fn open(arguments: &Arguments) -> Result<Self> {
        let pushes_filters = match arguments.engine {
            Engine::Stylobate => return Self::over_scans(arguments).await,
            Engine::Datafusion => false,
            Engine::DatafusionPushdown => true,
        };
        let mut config = SessionConfig::new().with_target_partitions(arguments.threads);
        let parquet = &mut config.options_mut().execution.parquet;
        parquet.pushdown_filters = pushes_filters;
        parquet.reorder_filters = pushes_filters;

        let context = SessionContext::new_with_config(config);
        if arguments.tables.contains("://") {
            let url = Url::parse(&arguments.tables)?;
            let (store, _) = parse_url_opts(&url, arguments.option.clone())?;
            let _ = context.register_object_store(&url, Arc::from(store));
        }
        Ok(Self::ListingTables(context))
    }

    async fn over_scans(arguments: &Arguments) -> Result<Self> {
        let cache = Cache::open(CacheOptions::new(arguments.memory)).await?;
        let session = SqlSession::builder(cache)
            .with_threads(arguments.threads)
            .with_store_options(arguments.option.clone())
            .build()?;
        Ok(Self::Scans(session))
    }

    async fn add_table(&self, name: &str, path: &str) -> Result<()> {
        match self {
            Self::Scans(session) => session.add_table(name, path).await?,
            Self::ListingTables(context) => {
                context.register_parquet(name, path, ParquetReadOptions::default()).await?;
            }
        }
        Ok(())
    }

    async fn run(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        match self {
            Self::Scans(session) => Ok(session.run(sql).await?.try_collect().await?),
            Self::ListingTables(context) => Ok(context.sql(sql).await?.collect().await?),
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(arguments.threads).enable_all().build()?;
    let session = runtime.block_on(EngineSession::open(&arguments))?;

    let mut opened = HashSet::new();
    for line in io::stdin().lines() {
        let query: Query = serde_json::from_str(&line?)?;
        let answer = runtime.block_on(answer(&session, &arguments.tables, &query, &mut opened))?;
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

async fn answer(
    session: &EngineSession,
    folder: &str,
    query: &Query,
    opened: &mut HashSet<String>,
) -> Result<Answer> {
    let start = Instant::now();
    let fresh = query.tables.iter().filter(|table| opened.insert((*table).clone()));
    let fresh: Vec<_> = fresh.map(|table| (table, format!("{folder}/{table}.parquet"))).collect();
    try_join_all(fresh.iter().map(|(table, path)| session.add_table(table, path))).await?;
    let batches = session.run(&query.sql).await?;
    Answer::ended_now(start, &batches)
}
