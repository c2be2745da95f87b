//! Times graph readers on cached data, in nanoseconds, and prints medians as JSON.

use std::{hint::black_box, time::Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use futures::{FutureExt, TryStreamExt};
use serde_json::{Map, Value, json};
use stylobate_columnar::Cache;
use stylobate_graph::{
    Direction,
    graphar::{Graph, GraphOptions, Vertices},
};
use stylobate_storage::{ByteSize, CacheOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Times graph readers.
#[derive(Parser)]
struct Arguments {
    /// The file that describes the graph.
    graph: String,
    /// A vertex type.
    vertex: String,
    /// The types of the source, edge and destination, separated by commas.
    #[arg(value_delimiter = ',', required = true)]
    edge: Vec<String>,
    /// Number of rounds; prints the median of their means.
    #[arg(long, default_value_t = 101)]
    rounds: usize,
}

/// Calls per round.
const CALLS: usize = 2_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let cache = Cache::open(CacheOptions::new(ByteSize::gib(2))).await?;
    let graph = Graph::open(&cache, arguments.graph.as_str(), GraphOptions::default()).await?;
    let mut found = Map::new();
    opening(&arguments, &cache, &mut found).await?;
    vertices(&arguments, &graph, &mut found).await?;
    edges(&arguments, &graph, &mut found).await?;
    println!("{}", serde_json::to_string_pretty(&found)?);
    Ok(())
}

/// Returns the nanoseconds of one call: the median of the means of the rounds.
fn time(rounds: usize, mut call: impl FnMut(usize)) -> Value {
    let mut means = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let start = Instant::now();
        (0..CALLS).for_each(|at| call(round * CALLS + at));
        means.push(start.elapsed().as_nanos() as f64 / CALLS as f64);
    }
    means.sort_by(f64::total_cmp);
    json!(means.get(means.len() / 2))
}

async fn opening(arguments: &Arguments, cache: &Cache, found: &mut Map<String, Value>) -> Result<()> {
    let mut took = Vec::new();
    for _ in 0..arguments.rounds {
        let start = Instant::now();
        black_box(Graph::open(cache, arguments.graph.as_str(), GraphOptions::default()).await?);
        took.push(start.elapsed().as_nanos() as f64);
    }
    took.sort_by(f64::total_cmp);
    found.insert("open a graph".to_owned(), json!(took.get(took.len() / 2)));
    Ok(())
}

/// Returns a pseudo-random number below `below`, the same in each run.
fn scattered(at: usize, below: u64) -> u64 {
    (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) % below.max(1)
}

async fn vertices(arguments: &Arguments, graph: &Graph, found: &mut Map<String, Value>) -> Result<()> {
    let all = graph.vertices(&arguments.vertex)?;
    let count = all.count().await?;
    let chunks = count.div_ceil(all.chunk_size());
    let names: Vec<String> = all.schema().fields().iter().skip(1).map(|field| field.name().clone()).collect();
    let (first, last) = (names.first().context("a property")?, names.last().context("a property")?);
    let _: Vec<_> = all.stream().try_collect().await?;
    found.insert("vertices".to_owned(), json!(count));
    found.insert("vertex chunks".to_owned(), json!(chunks));
    let rounds = arguments.rounds;
    let name = |view: &Vertices| format!("a cached chunk of {} columns", view.schema().fields().len() - 1);
    for view in [all.clone(), all.clone().select([first])?] {
        ensure!((0..chunks).all(|chunk| view.cached_chunk(chunk).is_some()), "all of it is cached");
        // The loop of the official benchmark: seek, get the chunk, and go to the next one.
        let next = time(rounds, |at| drop(black_box(view.cached_chunk(at as u64 % chunks))));
        found.insert(name(&view), next);
        let random = time(rounds, |at| drop(black_box(view.cached_chunk(scattered(at, chunks)))));
        found.insert(format!("{}, at random", name(&view)), random);
    }
    let views = [all.clone().select([first])?, all.clone().select([last])?];
    let alternating = time(rounds, |at| {
        let view = if at.is_multiple_of(2) { &views[0] } else { &views[1] };
        drop(black_box(view.cached_chunk(scattered(at, chunks))));
    });
    found.insert("a cached chunk, projections in turns".to_owned(), alternating);
    let reader = time(rounds, |_| drop(black_box(graph.vertices(&arguments.vertex))));
    found.insert("create a reader".to_owned(), reader);
    let selected = time(rounds, |_| {
        drop(black_box(graph.vertices(&arguments.vertex).and_then(|all| all.select([first]))));
    });
    found.insert("create a reader and select".to_owned(), selected);
    Ok(())
}

async fn edges(arguments: &Arguments, graph: &Graph, found: &mut Map<String, Value>) -> Result<()> {
    let [source, edge, destination] = arguments.edge.as_slice() else {
        anyhow::bail!("an edge has a source, a type and a destination");
    };
    let all = graph.edges(source, edge, destination)?;
    let edges = all.clone().select::<&str>([])?;
    for (view, of) in [(&edges, ""), (&all, " with its properties")] {
        let _: Vec<_> = view.stream().try_collect().await?;
        let parts = view.parts().await?;
        let cached = |part| view.chunk(part, 0).now_or_never().and_then(Result::ok);
        // Parts without edges have no chunks.
        let parts: Vec<u64> = (0..parts).filter(|part| cached(*part).is_some()).collect();
        let next = time(arguments.rounds, |at| drop(black_box(cached(parts[at % parts.len()]))));
        found.insert(format!("a cached chunk of an adjacency list{of}"), next);
    }
    let count = edges.vertex_count().await?;
    let everyone: Vec<i64> = (0..count as i64).collect();
    edges.neighbors(&everyone, Direction::Out).await?;
    let mut rounds = Vec::new();
    let mut neighbours = 0;
    for round in 0..arguments.rounds {
        let start = Instant::now();
        for at in 0..CALLS {
            let vertex = scattered(round * CALLS + at, count) as i64;
            neighbours += black_box(edges.neighbors(&[vertex], Direction::Out).await?).num_rows();
        }
        rounds.push(start.elapsed().as_nanos() as f64 / CALLS as f64);
    }
    rounds.sort_by(f64::total_cmp);
    found.insert("neighbours of a random vertex".to_owned(), json!(rounds.get(rounds.len() / 2)));
    let mean = neighbours as f64 / (arguments.rounds * CALLS) as f64;
    found.insert("neighbours that it has".to_owned(), json!(mean));
    Ok(())
}
