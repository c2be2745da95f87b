//! Times warm lookups in graph stores of growing size, in nanoseconds, and prints a table.
//!
//! Each person knows ten others. Figures are medians of the means of rounds of calls for persons all over the graph;
//! each call builds and drops its answer, as a caller would.

use std::{hint::black_box, sync::Arc, time::Instant};

use anyhow::{Context, Result, ensure};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use clap::Parser;
use futures::stream;
use object_store::memory::InMemory;
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::{Cache, Source};
use stylobate_graph::{
    Direction, PropertyType,
    store::{
        BulkLoad, EdgeType, EdgeView, Ends, GraphStore, StoreOptions, StoreSchema, VertexIds, VertexType,
    },
};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Times lookups in a graph store.
#[derive(Parser)]
struct Arguments {
    /// Numbers of edges, one store each.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 1_000_000, 10_000_000])]
    edges: Vec<i64>,
    /// Number of rounds; prints the median of their means.
    #[arg(long, default_value_t = 51)]
    rounds: usize,
}

/// Edges that leave each person.
const DEGREE: i64 = 10;
/// Persons that are looked up, cyclically.
const PERSONS: usize = 100_000;
/// Persons per batched lookup.
const BATCH_SIZE: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    println!("{:>12}  {:<44}{:>10}", "edges", "warm, from Rust", "ns");
    for edges in &arguments.edges {
        let mut line = |what: &str, nanoseconds: f64| {
            println!("{edges:>12}  {what:<44}{nanoseconds:>10.0}");
        };
        Network::load(*edges, arguments.rounds).await?.measure(&mut line).await?;
    }
    Ok(())
}

/// A loaded store, and the persons to look up.
struct Network {
    store: GraphStore,
    rounds: usize,
    /// Edge targets, grouped by source person.
    targets: Vec<i64>,
    persons: Vec<i64>,
}

impl Network {
    async fn load(edges: i64, rounds: usize) -> Result<Self> {
        let persons = edges / DEGREE;
        ensure!(persons > 0, "{edges} edges are none of anybody's: at least {DEGREE}");
        let schema = StoreSchema::new()
            .with_vertices(
                VertexType::new("Person", "id", PropertyType::Int64)
                    .with_property("age", PropertyType::Int64),
            )
            .with_edges(
                EdgeType::new("Person", "KNOWS", "Person").with_property("date", PropertyType::Int64),
            );
        let (cache, source) = bucket().await?;
        let store = GraphStore::create(&cache, source, schema, StoreOptions::default()).await?;
        let mut random = StdRng::seed_from_u64(1);
        let targets: Vec<i64> = (0..edges).map(|_| random.random_range(0..persons)).collect();
        let vertices = batch([("id", (0..persons).collect()), ("age", (0..persons).collect())])?;
        let rows = batch([
            ("src", (0..edges).map(|edge| edge / DEGREE).collect()),
            ("dst", targets.clone()),
            ("date", (0..edges).map(|edge| edge * 7_919 % 1_000_003).collect()),
        ])?;
        let load = BulkLoad::new().with_vertices("Person", stream::iter([Ok(vertices)])).with_edges(
            "KNOWS",
            Ends::Indexes,
            stream::iter([Ok(rows)]),
        );
        store.writer().await?.bulk_load(load).await?;
        let persons = (0..PERSONS).map(|_| random.random_range(0..persons)).collect();
        Ok(Self { store, rounds, targets, persons })
    }

    fn person(&self, call: usize) -> i64 {
        self.persons.get(call % PERSONS).copied().unwrap_or_default()
    }

    /// Returns the nanoseconds of a call.
    fn time(&self, calls: usize, mut call: impl FnMut(usize)) -> f64 {
        let mut means = Vec::with_capacity(self.rounds);
        for round in 0..self.rounds {
            let start = Instant::now();
            (0..calls).for_each(|at| call(round * calls + at));
            means.push(start.elapsed().as_nanos() as f64 / calls as f64);
        }
        means.sort_by(f64::total_cmp);
        means.get(means.len() / 2).copied().unwrap_or_default()
    }

    async fn measure(&self, line: &mut impl FnMut(&str, f64)) -> Result<()> {
        let latest = self.store.latest();
        let everybody: Vec<i64> = (0..self.targets.len() as i64 / DEGREE).collect();
        let dated = latest.edges("KNOWS", Some(&["date"])).await?;
        for direction in [Direction::Out, Direction::In] {
            dated.expand(direction, &everybody).await?;
        }
        latest.vertices("Person", Some(&["age"])).await?.take(&everybody).await?;
        let bare = latest.edges("KNOWS", Some(&[])).await?;
        for (of, view) in [("", &bare), (", one column", &dated)] {
            self.lookups(of, view, line)?;
        }
        let hops = latest
            .start("Person", VertexIds::Indexes(vec![1]))
            .out("KNOWS", None)
            .out("KNOWS", None)
            .columns(["date"])
            .top(20, "date", true)
            .select(["date", "Person_2.age"]);
        let hops = hops.prepare().await?;
        let ids: Vec<VertexIds> =
            self.persons.iter().take(BATCH_SIZE).map(|person| VertexIds::Indexes(vec![*person])).collect();
        let run = |call: usize| {
            let of = ids.get(call % ids.len())?;
            black_box(hops.run_cached(of)?.ok()?);
            Some(())
        };
        run(0).context("not all is in the cache")?;
        let of = format!("two hops, the newest 20 of {}", DEGREE * DEGREE);
        line(&of, self.time(500, |call| _ = run(call)));
        Ok(())
    }

    fn lookups(&self, of: &str, view: &EdgeView, line: &mut impl FnMut(&str, f64)) -> Result<()> {
        for (name, direction) in [("out_edges", Direction::Out), ("in_edges", Direction::In)] {
            let edges = |call| Some(view.of_cached(direction, self.person(call))?.ok()?.neighbors.len());
            edges(0).context("not all is in the cache")?;
            line(&format!("{name}{of}"), self.time(20_000, |call| _ = black_box(edges(call))));
        }
        let lookup = |call| {
            let person = self.person(call);
            let edge = person * DEGREE + call as i64 % DEGREE;
            let found = view.lookup_cached(person, *self.targets.get(edge as usize)?)?.ok()?;
            (!found.neighbors.is_empty()).then_some(found)
        };
        lookup(0).context("an edge is not found")?;
        line(&format!("edge_lookup{of}"), self.time(20_000, |call| drop(black_box(lookup(call)))));
        let expand = |call: usize| {
            let first = call * BATCH_SIZE % PERSONS;
            let some = self.persons.get(first..first + BATCH_SIZE)?;
            view.expand_cached(Direction::Out, some)?.ok()
        };
        expand(0).context("not all is in the cache")?;
        let edges = (BATCH_SIZE as i64 * DEGREE) as f64;
        let name = format!("expand, of each of {edges:.0} edges{of}");
        line(&name, self.time(50, |call| drop(black_box(expand(call)))) / edges);
        Ok(())
    }
}

/// Returns an in-memory bucket, and a cache large enough for all of it.
async fn bucket() -> Result<(Cache, Source)> {
    let pages = PageCache::open(CacheOptions::new(ByteSize::gib(4))).await?;
    let store = ReadThrough::new(
        Origin::new("bucket", Arc::new(InMemory::new())),
        pages.clone(),
        ConsistencyRules::new(Consistency::DEFAULT),
        ReadOptions::default(),
    );
    let cache = Cache::over(pages);
    Ok((cache, Source::Store { store, pattern: "graph".to_owned() }))
}

fn batch<const N: usize>(columns: [(&str, Vec<i64>); N]) -> Result<RecordBatch> {
    let arrays = columns.map(|(name, values)| (name, Arc::new(Int64Array::from(values)) as ArrayRef));
    Ok(RecordBatch::try_from_iter(arrays)?)
}
