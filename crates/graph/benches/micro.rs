//! Warm lookups in a graph store, in three ways: by `*_cached`; by the public future, polled once; and by the
//! asynchronous path alone, polled once, as if `*_cached` did not exist.
//!
//! Each store is one base, and each person knows ten others. Each call builds and drops its result, as callers do.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use divan::{Bencher, Divan, black_box_drop};
use futures::stream;
use object_store::memory::InMemory;
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::{Cache, Source};
use stylobate_graph::{
    Direction, PropertyType,
    store::{
        BulkLoad, EdgeType, EdgeView, Ends, GraphStore, StoreOptions, StoreSchema, VertexType, VertexView,
    },
};
use stylobate_storage::{
    ByteSize, CacheOptions, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
};
use tokio::runtime::{Builder, Runtime};

/// The allocator of the command and of the Python package.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Edges of the stores.
const EDGES: [i64; 2] = [10_000, 1_000_000];
/// Edges that leave each person.
const DEGREE: i64 = 10;
/// Random persons, looked up in turns.
const PERSONS: usize = 10_000;
/// Persons looked up together.
const BATCH_SIZE: usize = 100;

fn main() {
    let times = Divan::default().min_time(Duration::from_millis(100)).max_time(Duration::from_millis(700));
    times.config_with_args().main();
}

/// Store in memory with all columns cached, and views of it.
struct WarmStore {
    /// With the property `date`.
    knows: EdgeView,
    /// With the property `age`.
    people: VertexView,
    persons: Vec<i64>,
    /// The other end of the first edge of each person, by index.
    first_friends: Vec<i64>,
    /// Keeps the tasks of the cache alive.
    _runtime: Runtime,
}

/// Returns the store with this many edges, which is loaded once.
fn warm_store(edges: i64) -> &'static WarmStore {
    static STORES: [OnceLock<WarmStore>; EDGES.len()] = [const { OnceLock::new() }; EDGES.len()];

    let at = EDGES.iter().position(|known| *known == edges).unwrap();
    STORES[at].get_or_init(|| WarmStore::load(edges))
}

impl WarmStore {
    fn load(edges: i64) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let count = edges / DEGREE;
        let mut random = StdRng::seed_from_u64(1);
        let targets: Vec<i64> = (0..edges).map(|_| random.random_range(0..count)).collect();
        let persons = (0..PERSONS).map(|_| random.random_range(0..count)).collect();
        let first_friends = targets.iter().step_by(DEGREE as usize).copied().collect();

        let (knows, people) = runtime.block_on(async {
            let store = create_store().await;
            store.writer().await.unwrap().bulk_load(social_network(targets)).await.unwrap();

            let latest = store.latest();
            let knows = latest.edges("KNOWS", Some(&["date"])).await.unwrap();
            let people = latest.vertices("Person", Some(&["age"])).await.unwrap();
            let all: Vec<i64> = (0..count).collect();
            knows.expand(Direction::Out, &all).await.unwrap();
            people.take(&all).await.unwrap();
            people.indexes_of(&keys(&all)).await.unwrap();
            (knows, people)
        });

        Self { knows, people, persons, first_friends, _runtime: runtime }
    }

    /// Measures lookups of one person at a time.
    fn bench_each<A>(&self, bencher: Bencher, lookup: impl Fn(i64) -> A) {
        let mut persons = self.persons.iter().cycle();
        bencher.bench_local(|| persons.next().map(|person| black_box_drop(lookup(*person))));
    }

    /// Measures lookups of several persons at once.
    fn bench_groups<A>(&self, bencher: Bencher, lookup: impl Fn(&[i64]) -> A) {
        let mut groups = self.persons.chunks_exact(BATCH_SIZE).cycle();
        bencher.bench_local(|| groups.next().map(|persons| black_box_drop(lookup(persons))));
    }
}

async fn create_store() -> GraphStore {
    let pages = PageCache::open(CacheOptions::new(ByteSize::gib(1))).await.unwrap();
    let origin = Origin::new("bucket", Arc::new(InMemory::new()));
    let bucket = ReadThrough::new(origin, pages.clone(), ConsistencyRules::default(), ReadOptions::default());
    let source = Source::Store { store: bucket, pattern: "graph".to_owned() };

    let person = VertexType::new("Person", "id", PropertyType::Int64);
    let knows = EdgeType::new("Person", "KNOWS", "Person");
    let schema = StoreSchema::new()
        .with_vertices(person.with_property("age", PropertyType::Int64))
        .with_edges(knows.with_property("date", PropertyType::Int64));
    GraphStore::create(&Cache::over(pages), source, schema, StoreOptions::default()).await.unwrap()
}

/// Returns a load of persons and of edges to `targets`, ten from each person.
fn social_network(targets: Vec<i64>) -> BulkLoad<'static> {
    let edges = targets.len() as i64;
    let persons: Vec<i64> = (0..edges / DEGREE).collect();
    let sources = (0..edges).map(|edge| edge / DEGREE).collect();
    let dates = (0..edges).map(|edge| edge * 7_919 % 1_000_003).collect();

    let vertices = batch([("id", persons.clone()), ("age", persons)]);
    let rows = batch([("src", sources), ("dst", targets), ("date", dates)]);
    BulkLoad::new().with_vertices("Person", stream::iter([Ok(vertices)])).with_edges(
        "KNOWS",
        Ends::Indexes,
        stream::iter([Ok(rows)]),
    )
}

fn batch<const N: usize>(columns: [(&str, Vec<i64>); N]) -> RecordBatch {
    let arrays = columns.map(|(name, values)| (name, Arc::new(Int64Array::from(values)) as ArrayRef));
    RecordBatch::try_from_iter(arrays).unwrap()
}

/// Returns the keys of persons, which are their indexes.
fn keys(persons: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(persons.to_vec()))
}

mod edges_of_one {
    use divan::Bencher;
    use futures::FutureExt;
    use stylobate_graph::{Direction, measure::edges_async};

    use super::{EDGES, warm_store};

    #[divan::bench(args = EDGES)]
    fn cached(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_each(bencher, |person| store.knows.of_cached(Direction::Out, person).unwrap().unwrap());
    }

    #[divan::bench(args = EDGES)]
    fn future(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_each(bencher, |person| {
            store.knows.of(Direction::Out, person).now_or_never().unwrap().unwrap()
        });
    }

    #[divan::bench(args = EDGES)]
    fn future_alone(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_each(bencher, |person| {
            edges_async(&store.knows, Direction::Out, person).now_or_never().unwrap().unwrap()
        });
    }
}

mod edges_of_100 {
    use divan::Bencher;
    use futures::FutureExt;
    use stylobate_graph::{Direction, measure::expand_async};

    use super::{EDGES, warm_store};

    #[divan::bench(args = EDGES)]
    fn cached(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_groups(bencher, |persons| {
            store.knows.expand_cached(Direction::Out, persons).unwrap().unwrap()
        });
    }

    #[divan::bench(args = EDGES)]
    fn future(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_groups(bencher, |persons| {
            store.knows.expand(Direction::Out, persons).now_or_never().unwrap().unwrap()
        });
    }

    #[divan::bench(args = EDGES)]
    fn future_alone(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_groups(bencher, |persons| {
            expand_async(&store.knows, Direction::Out, persons).now_or_never().unwrap().unwrap()
        });
    }
}

mod edge_between_two {
    use divan::Bencher;
    use futures::FutureExt;

    use super::{EDGES, warm_store};

    #[divan::bench(args = EDGES)]
    fn cached(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_each(bencher, |person| {
            store.knows.lookup_cached(person, store.first_friends[person as usize]).unwrap().unwrap()
        });
    }

    #[divan::bench(args = EDGES)]
    fn future(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_each(bencher, |person| {
            let friend = store.first_friends[person as usize];
            store.knows.lookup(person, friend).now_or_never().unwrap().unwrap()
        });
    }
}

mod vertex {
    use divan::Bencher;
    use futures::FutureExt;
    use stylobate_graph::measure::take_async;

    use super::{EDGES, warm_store};

    #[divan::bench(args = EDGES)]
    fn cached(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_each(bencher, |person| store.people.take_cached(&[person]).unwrap().unwrap());
    }

    #[divan::bench(args = EDGES)]
    fn future(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_each(bencher, |person| store.people.take(&[person]).now_or_never().unwrap().unwrap());
    }

    #[divan::bench(args = EDGES)]
    fn future_alone(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_each(bencher, |person| {
            take_async(&store.people, &[person]).now_or_never().unwrap().unwrap()
        });
    }
}

mod vertices_100 {
    use divan::Bencher;
    use futures::FutureExt;
    use stylobate_graph::measure::take_async;

    use super::{EDGES, warm_store};

    #[divan::bench(args = EDGES)]
    fn cached(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_groups(bencher, |persons| store.people.take_cached(persons).unwrap().unwrap());
    }

    #[divan::bench(args = EDGES)]
    fn future(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_groups(bencher, |persons| store.people.take(persons).now_or_never().unwrap().unwrap());
    }

    #[divan::bench(args = EDGES)]
    fn future_alone(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_groups(bencher, |persons| {
            take_async(&store.people, persons).now_or_never().unwrap().unwrap()
        });
    }
}

mod index_of_key {
    use divan::Bencher;
    use futures::FutureExt;

    use super::{EDGES, keys, warm_store};

    #[divan::bench(args = EDGES)]
    fn cached(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store
            .bench_each(bencher, |person| store.people.indexes_of_cached(&keys(&[person])).unwrap().unwrap());
    }

    #[divan::bench(args = EDGES)]
    fn future(bencher: Bencher, edges: i64) {
        let store = warm_store(edges);
        store.bench_each(bencher, |person| {
            store.people.indexes_of(&keys(&[person])).now_or_never().unwrap().unwrap()
        });
    }
}
