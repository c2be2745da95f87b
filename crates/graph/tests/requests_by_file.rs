//! Requests by file over a slow origin: each file is requested once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

#[path = "../../storage/tests/support/mod.rs"]
mod origin;
mod support;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt,
    path::Path as Folder,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures::{TryStreamExt, future::join_all, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use origin::quick;
use parking_lot::Mutex;
use stylobate_columnar::{Cache, Source};
use stylobate_graph::{
    Direction,
    graphar::{AdjacencyOrder, Edges, Graph, GraphOptions},
};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadThrough,
};
use support::{ints, sample};

const FOLDER: &str = "lake/social/";
const LIST: &str = "edge/person_knows_person/ordered_by_source/";
/// Long enough for concurrent requests to overlap.
const LATENCY: Duration = Duration::from_millis(5);

/// In-memory origin that records requests: GETs and HEADs by the names of their objects.
#[derive(Debug, Default)]
struct Remembering {
    memory: InMemory,
    asked: Mutex<BTreeMap<String, usize>>,
}

impl fmt::Display for Remembering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remembering")
    }
}

#[async_trait]
impl ObjectStore for Remembering {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.memory.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.memory.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        *self.asked.lock().entry(location.to_string()).or_default() += 1;
        tokio::time::sleep(LATENCY).await;
        self.memory.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.memory.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.memory.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.memory.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.memory.copy_opts(from, to, options).await
    }
}

impl Remembering {
    /// Returns the requests below the graph's folder since the last call.
    fn take(&self) -> BTreeMap<String, usize> {
        let asked = std::mem::take(&mut *self.asked.lock());
        asked.into_iter().map(|(name, count)| (name.trim_start_matches(FOLDER).to_owned(), count)).collect()
    }

    async fn put_all(&self, folder: &Folder, prefix: &str) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                Box::pin(self.put_all(&entry.path(), &format!("{name}/"))).await;
            } else {
                let bytes = std::fs::read(entry.path()).unwrap();
                self.memory.put(&Path::from(name), bytes.into()).await.unwrap();
            }
        }
    }
}

/// Opens the sample in one of its formats over a recording origin, and discards the requests of opening it.
async fn lake(format: &str) -> Option<(Arc<Remembering>, Graph)> {
    let folder = sample(&format!("ldbc_sample/{format}"))?;
    let store = Arc::new(Remembering::default());
    store.put_all(&folder, FOLDER).await;
    let pages = PageCache::open(CacheOptions::new(ByteSize::mib(512))).await.unwrap();
    let rules = ConsistencyRules::new(Consistency::DEFAULT);
    let through = ReadThrough::new(Origin::new("remembering", store.clone()), pages.clone(), rules, quick());
    let cache = Cache::over(pages);
    let source = Source::Store { store: through, pattern: format!("{FOLDER}ldbc_sample.graph.yml") };
    let graph = Graph::open(&cache, source, GraphOptions::default()).await.unwrap();
    let opened = store.take();
    assert_eq!(opened.len(), 3, "the graph's file and two others: {opened:?}");
    assert_each_once(&opened);

    Some((store, graph))
}

#[track_caller]
fn assert_each_once(asked: &BTreeMap<String, usize>) {
    let twice: Vec<_> = asked.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "asked for more than once: {twice:?}");
}

/// Returns all vertices that are reachable from one, step by step.
async fn walk(edges: &Edges, start: i64, direction: Direction) -> HashSet<i64> {
    let mut seen = HashSet::from([start]);
    let mut frontier = vec![start];
    while !frontier.is_empty() {
        let found = edges.neighbors(&frontier, direction).await.unwrap();
        frontier = ints(found.column(1)).into_iter().filter(|vertex| seen.insert(*vertex)).collect();
    }
    seen
}

/// Returns the names below a folder, relative to it: `part3/chunk0` for `adj_list/part3/chunk0`.
fn below(asked: &BTreeMap<String, usize>, folder: &str) -> BTreeSet<String> {
    asked.keys().filter_map(|name| name.strip_prefix(folder)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_asks_once_for_each_file_of_the_parts_that_it_reached() {
    for format in ["parquet", "orc", "csv"] {
        let Some((store, graph)) = lake(format).await else { return };
        let edges = graph.edges("person", "knows", "person").unwrap().select(["creationDate"]).unwrap();
        let seen = walk(&edges, 6, Direction::Out).await;
        assert_eq!(seen.len(), 381, "{format}");
        let asked = store.take();
        assert_each_once(&asked);
        let parts: BTreeSet<String> = seen.iter().map(|vertex| format!("chunk{}", vertex / 100)).collect();
        assert_eq!(below(&asked, &format!("{LIST}offset/")), parts, "{format}");

        let ends = below(&asked, &format!("{LIST}adj_list/"));
        assert_eq!(below(&asked, &format!("{LIST}creationDate/")), ends, "{format}");
        assert!(!ends.is_empty() && asked.keys().all(|name| !name.contains("ordered_by_dest")), "{asked:?}");

        assert_eq!(walk(&edges, 6, Direction::Out).await, seen);
        assert!(store.take().is_empty(), "{format}: nothing is asked for again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn walks_at_the_same_time_share_what_they_ask_for() {
    let Some((store, graph)) = lake("parquet").await else { return };
    let edges = graph.edges("person", "knows", "person").unwrap().select(["creationDate"]).unwrap();
    let walks = (0..16).map(|at| {
        let edges = edges.clone();
        tokio::spawn(async move { walk(&edges, [6, 201, 902, 5][at % 4], Direction::Out).await })
    });
    let reached: Vec<_> = join_all(walks).await.into_iter().map(|walk| walk.unwrap()).collect();
    assert!(reached.iter().zip(reached.iter().skip(4)).all(|(one, other)| one == other));
    assert_each_once(&store.take());
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_lists_ask_once_for_each_of_their_files() {
    let Some((store, graph)) = lake("parquet").await else { return };
    let edges = graph.edges("person", "knows", "person").unwrap();
    let orders =
        [AdjacencyOrder::OrderedBySource, AdjacencyOrder::OrderedByDest, AdjacencyOrder::UnorderedBySource];

    let mut all = BTreeMap::new();
    for order in orders {
        let view = edges.clone().by(order).unwrap();
        let batches: Vec<_> = view.stream().try_collect().await.unwrap();
        assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 6626);
        for (name, count) in store.take() {
            *all.entry(name).or_default() += count;
        }
    }

    let everyone: Vec<i64> = (0..903).collect();
    edges.neighbors(&everyone, Direction::Out).await.unwrap();
    edges.neighbors(&everyone, Direction::In).await.unwrap();
    for (name, count) in store.take() {
        *all.entry(name).or_default() += count;
    }

    assert_each_once(&all);
    for order in orders {
        let folder = format!("edge/person_knows_person/{order}/adj_list/");
        assert!(below(&all, &folder).len() >= 10, "{order}: {all:?}");
    }
}
