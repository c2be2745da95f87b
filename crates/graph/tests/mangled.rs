//! Graphs with corrupted files: readers return results or errors, and terminate.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]
#![allow(missing_docs, unreachable_pub, reason = "tests")]

#[path = "support/mangle.rs"]
mod mangle;
mod support;

use std::{path::Path, sync::Arc};

use futures::TryStreamExt;
use mangle::mangle;
use object_store::{ObjectStoreExt, memory::InMemory};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::{Cache, Source};
use stylobate_graph::{
    Direction, Result,
    graphar::{Graph, GraphOptions},
};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
};
use support::sample;

/// Files by their names below the graph.
type Files = Vec<(String, Vec<u8>)>;

fn read(folder: &Path, prefix: &str, files: &mut Files) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            read(&entry.path(), &format!("{name}/"), files);
        } else {
            files.push((name, std::fs::read(entry.path()).unwrap()));
        }
    }
}

async fn open(memory: Arc<InMemory>, graph: &str) -> Result<Graph> {
    let pages = PageCache::open(CacheOptions::new(ByteSize::mib(80))).await.unwrap();
    let rules = ConsistencyRules::new(Consistency::DEFAULT);
    let store = ReadThrough::new(Origin::new("lake", memory), pages.clone(), rules, ReadOptions::default());
    let cache = Cache::over(pages);
    let source = Source::Store { store, pattern: format!("lake/{graph}") };
    Graph::open(&cache, source, GraphOptions::default()).await
}

/// Reads everything.
async fn ask(memory: Arc<InMemory>, graph: &str) -> Result<()> {
    let graph = open(memory, graph).await?;
    let persons = graph.vertices("person")?;
    persons.stream().try_for_each(|_| async { Ok(()) }).await?;
    persons.take(&[0, 500, 902]).await?;
    let edges = graph.edges("person", "knows", "person")?;
    edges.neighbors(&(0..903).collect::<Vec<_>>(), Direction::Out).await?;
    edges.csr(Direction::Out).await?;
    edges.stream().try_for_each(|_| async { Ok(()) }).await
}

async fn survives(format: &str, rounds: u64) {
    let Some(folder) = sample(&format!("ldbc_sample/{format}")) else { return };
    let mut files = Files::new();
    read(&folder, "", &mut files);
    let graph = files.iter().map(|(name, _)| name).find(|name| name.ends_with(".graph.yml")).unwrap().clone();

    let memory = Arc::new(InMemory::new());
    let path = |name: &str| object_store::path::Path::from(format!("lake/{name}"));
    for (name, bytes) in &files {
        memory.put(&path(name), bytes.clone().into()).await.unwrap();
    }
    ask(memory.clone(), &graph).await.unwrap();

    let mut refused = 0;
    for seed in 0..rounds {
        let mut random = StdRng::seed_from_u64(seed);
        // Descriptions are chosen as often as chunks, though they are fewer.
        let is_text = |name: &str| name.ends_with(".yml") || name.contains("_count");
        let wants_text = random.random_bool(0.5);
        let chosen: Vec<&(String, Vec<u8>)> =
            files.iter().filter(|(name, _)| is_text(name) == wants_text).collect();
        let (name, bytes) = chosen[random.random_range(0..chosen.len())];
        memory.put(&path(name), mangle(bytes, &mut random).into()).await.unwrap();

        let asked = ask(memory.clone(), &graph);
        let asked = tokio::time::timeout(std::time::Duration::from_secs(60), asked).await;
        let answer = asked.unwrap_or_else(|_| panic!("{name} of seed {seed}: no end"));
        refused += u64::from(answer.is_err());
        memory.put(&path(name), bytes.clone().into()).await.unwrap();
    }

    assert!(refused > rounds / 10, "{refused} of {rounds}");
    ask(memory, &graph).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_of_parquet_with_other_bytes_are_read_or_refused() {
    survives("parquet", 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_of_orc_with_other_bytes_are_read_or_refused() {
    survives("orc", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_of_csv_with_other_bytes_are_read_or_refused() {
    survives("csv", 200).await;
}
