//! Requests of graph readers to a counting origin, and the chunks that they decode.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../storage/tests/support/mod.rs"]
mod origin;
mod support;

use std::{collections::HashSet, path::Path};

use origin::{Bench, bench, quick};
use stylobate_columnar::{Cache, Source, col};
use stylobate_graph::{
    Direction,
    graphar::{Graph, GraphOptions, LabelFilter, Vertices},
};
use stylobate_storage::{ByteSize, CacheOptions, Consistency};
use support::{collect, ints, sample};

struct Lake {
    bench: Bench,
    cache: Cache,
    graph: Graph,
}

async fn put_all(bench: &Bench, folder: &Path, prefix: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            Box::pin(put_all(bench, &entry.path(), &name)).await;
        } else {
            bench.put(&name, std::fs::read(entry.path()).unwrap()).await;
        }
    }
}

/// Opens the sample over an origin that counts.
async fn lake(decoded: ByteSize) -> Option<Lake> {
    let folder = sample("ldbc_sample/parquet")?;
    let memory = ByteSize::bytes(ByteSize::mib(64).as_u64() + decoded.as_u64());
    let bench = bench(CacheOptions::new(memory), Consistency::DEFAULT, quick()).await;
    put_all(&bench, &folder, "lake/social").await;
    let cache = match decoded.as_u64() {
        0 => Cache::passing(bench.cache.clone()),
        _ => Cache::over(bench.cache.clone()),
    };

    let pattern = "lake/social/ldbc_sample.graph.yml".to_owned();
    let source = Source::Store { store: bench.store.clone(), pattern };
    let graph = Graph::open(&cache, source, GraphOptions::default()).await.unwrap();
    Some(Lake { bench, cache, graph })
}

impl Lake {
    fn asked(&self) -> u64 {
        self.bench.origin.gets() + self.bench.origin.heads()
    }
}

async fn rows(vertices: &Vertices) -> usize {
    collect(&vertices.schema(), vertices.stream()).await.num_rows()
}

#[tokio::test(flavor = "multi_thread")]
async fn selecting_and_filtering_a_hot_graph_asks_and_decodes_nothing() {
    let Some(lake) = lake(ByteSize::mib(64)).await else { return };
    let persons = lake.graph.vertices("person").unwrap();
    assert_eq!(rows(&persons).await, 903);
    let asked = lake.asked();
    let decoded = lake.cache.stats().decoded_chunks;
    for _ in 0..3 {
        for selected in [vec!["id"], vec!["gender", "firstName"], vec![], vec!["lastName"]] {
            let selected = persons.clone().select(selected).unwrap();
            assert_eq!(rows(&selected).await, 903);
            let women = selected.clone().filter(&col("gender").eq("female")).unwrap();
            let men = selected.clone().filter(&col("gender").eq("male")).unwrap();
            assert_eq!(rows(&women).await + rows(&men).await, 903);
            assert_eq!(selected.chunk(3).await.unwrap().rows, 100);
            selected.take(&[5, 900]).await.unwrap();
        }
    }

    assert_eq!(lake.asked(), asked, "nothing was asked for");
    assert_eq!(lake.cache.stats().decoded_chunks, decoded, "nothing was decoded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_chunk_is_fetched_and_decoded_once_for_all_who_want_it() {
    let Some(lake) = lake(ByteSize::mib(64)).await else { return };
    let persons = lake.graph.vertices("person").unwrap();
    persons.count().await.unwrap();
    let asked = lake.asked();
    let readers = (0..16).map(|_| {
        let persons = persons.clone();
        tokio::spawn(async move { persons.chunk(4).await.unwrap().columns.len() })
    });

    for reader in futures::future::join_all(readers).await {
        assert_eq!(reader.unwrap(), 4);
    }
    assert_eq!(lake.asked() - asked, 2, "one request for each of the two files");
    assert_eq!(lake.cache.stats().decoded_chunks, 4, "each column was decoded once");
    assert_eq!(lake.cache.stats().parsed_files, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_traversal_asks_for_each_file_that_it_needs_once() {
    let Some(lake) = lake(ByteSize::mib(64)).await else { return };
    let yml = lake.asked();
    assert_eq!(yml, 3, "the graph's file and two others");

    let edges = lake.graph.edges("person", "knows", "person").unwrap().select::<&str>([]).unwrap();
    let mut seen: HashSet<i64> = HashSet::from([6]);
    let mut frontier = vec![6];
    let mut parts = HashSet::new();
    while !frontier.is_empty() {
        parts.extend(frontier.iter().map(|vertex| vertex / 100));
        let found = edges.neighbors(&frontier, Direction::Out).await.unwrap();
        frontier = ints(found.column(1)).into_iter().filter(|vertex| seen.insert(*vertex)).collect();
        frontier.sort_unstable();
        frontier.dedup();
    }

    assert!(seen.len() > 300, "{}", seen.len());
    // One for the count of vertices; per part one for its offsets, and one or two for chunks of edges.
    let min_requests = 1 + 2 * parts.len() as u64;
    let max_requests = 1 + 3 * parts.len() as u64;
    let asked = lake.asked() - yml;
    assert!(
        (min_requests..=max_requests).contains(&asked),
        "{asked} requests, not {min_requests} to {max_requests}"
    );
    let again = lake.asked();
    edges.neighbors(&(0..903).collect::<Vec<_>>(), Direction::Out).await.unwrap();

    let rest = lake.asked() - again;
    assert!(rest <= 3 * (10 - parts.len() as u64), "{rest} requests for what was not yet reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_every_question_is_still_answered() {
    let Some(lake) = lake(ByteSize::ZERO).await else { return };
    let persons = lake.graph.vertices("person").unwrap();
    assert_eq!(rows(&persons).await, 903);
    assert_eq!(rows(&persons).await, 903);
    let edges = lake.graph.edges("person", "knows", "person").unwrap();
    let all: Vec<i64> = (0..903).collect();
    assert_eq!(edges.neighbors(&all, Direction::Out).await.unwrap().num_rows(), 6626);
    assert_eq!(edges.csr(Direction::In).await.unwrap().neighbors.len(), 6626);
    assert!(persons.labels(&LabelFilter::All(Vec::new())).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_after_it_was_read_is_never_mixed_with_its_successor() {
    let Some(lake) = lake(ByteSize::ZERO).await else { return };
    let persons = lake.graph.vertices("person").unwrap().select(["id"]).unwrap();
    let before = persons.chunk(0).await.unwrap();
    let other = std::fs::read(sample("ldbc_sample/parquet/vertex/person/id/chunk1").unwrap()).unwrap();
    lake.bench.put("lake/social/vertex/person/id/chunk0", other).await;
    match persons.chunk(0).await {
        Ok(chunk) => assert_eq!(chunk.columns, before.columns),
        Err(error) => assert!(error.to_string().contains("changed"), "{error}"),
    }
}
