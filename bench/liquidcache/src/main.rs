//! Runs queries from standard input by DataFusion over LiquidCache, and prints the time and the rows of each as JSON.

#[path = "../../sql/src/answers.rs"]
mod answers;

use std::{collections::HashSet, io, time::Instant};

use anyhow::Result;
use clap::Parser;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use liquid_cache_datafusion_local::{LiquidCacheLocalBuilder, storage::cache_policies::LiquidPolicy};

use answers::{Answer, Query};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs queries, one per line: {"sql": "…", "tables": ["lineitem"]}, like `stylobate-bench-sql`.
#[derive(Parser)]
#[command(version = "0.1.13 on DataFusion 53")]
struct Arguments {
    /// The folder of the tables, which are Parquet files.
    tables: String,
    /// Number of threads, and of partitions of operators.
    #[arg(long)]
    threads: usize,
    /// Capacity of the memory cache, in bytes.
    #[arg(long)]
    memory: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let disk = tempfile::tempdir()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(arguments.threads).enable_all().build()?;
    let session = LiquidCacheLocalBuilder::new()
        .with_max_memory_bytes(arguments.memory)
        .with_cache_dir(disk.path().to_path_buf())
        .with_cache_policy(Box::new(LiquidPolicy::new()))
        .build(SessionConfig::new().with_target_partitions(arguments.threads));
    let (session, _cache) = runtime.block_on(session)?;

    let mut opened = HashSet::new();
    for line in io::stdin().lines() {
        let query: Query = serde_json::from_str(&line?)?;
        let answer = runtime.block_on(answer(&session, &arguments.tables, &query, &mut opened))?;
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

async fn answer(
    session: &SessionContext,
    folder: &str,
    query: &Query,
    opened: &mut HashSet<String>,
) -> Result<Answer> {
    let start = Instant::now();
    for table in &query.tables {
        if opened.insert(table.clone()) {
            let path = format!("{folder}/{table}.parquet");
            session.register_parquet(table, path, ParquetReadOptions::default()).await?;
        }
    }
    let batches = session.sql(&query.sql).await?.collect().await?;
    Answer::ended_now(start, &batches)
}
