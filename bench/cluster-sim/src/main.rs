//! Simulates clusters with the placement, views and load-based choice of `stylobate-client`. Prints how evenly bytes
//! and load are spread, what view changes move, and what Zipf traces cost. Fails if a bar is missed.

mod hot;
mod lru;
mod objects;
mod parallel;
mod placed;
mod random;
mod report;
mod traces;

use std::{process::ExitCode, thread, time::Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::{
    hot::{HotPath, RankedStripes, run_hot},
    objects::ObjectSet,
    parallel::run_jobs,
    placed::{Homes, NodeChange, balance, movement, view_of},
    report::{SimulationReport, TraceRow},
    traces::{ReadPath, ReadTrace, run_trace},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulates clusters: balance and movement of bytes, hit ratios and peer traffic of Zipf traces, and hot objects.
///
/// Prints Markdown, and progress on standard error; takes about two minutes on two cores. The same seed gives the same
/// numbers. Exits with 1 if a node has more than 1.1 times the mean of bytes with equal weights, or if a change of one
/// node moves more than 1/n + 1% of bytes.
#[derive(Parser)]
#[command(
    name = "stylobate-bench-cluster-sim",
    after_help = "Example: stylobate-bench-cluster-sim --nodes 3,10 --objects 1000000 --reads 1000000 --json"
)]
struct Arguments {
    /// Cluster sizes, 2 to 10,000 nodes.
    #[arg(long, value_delimiter = ',', default_value = "3,10,100,1000", value_parser = clap::value_parser!(u64).range(2..=10_000))]
    nodes: Vec<u64>,
    /// Number of objects, of log-normal sizes: median 8 MiB, sigma 1.5.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1_000..=20_000_000))]
    objects: u64,
    /// Reads per trace; the first half fills the caches.
    #[arg(long, default_value_t = 3_000_000, value_parser = clap::value_parser!(u32).range(2..=100_000_000))]
    reads: u32,
    /// Seed of object sizes and traces.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of threads. Default: the number of cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Exponents of Zipf's law.
const EXPONENTS: [f64; 3] = [0.7, 0.9, 1.1];
/// Total cache capacity, in percent of the bytes of all objects.
const CACHE_PERCENTS: [u64; 2] = [1, 10];
/// Sampling interval: each view change is measured on one object in this many.
const MOVED_DIVISOR: usize = 20;
/// Answers simulated per load with a hot object.
const HOT_ANSWERS: usize = 2_000_000;

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let report = simulate(&arguments)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }

    let missed = report.missed_bars();
    missed.iter().for_each(|bar| eprintln!("missed: {bar}"));
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn simulate(arguments: &Arguments) -> Result<SimulationReport> {
    let start = Instant::now();
    let progress = |done: &str| eprintln!("{:4} s: {done}", start.elapsed().as_secs());
    let seed = arguments.seed;
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = arguments.threads.unwrap_or(cores);
    let objects = ObjectSet::new(arguments.objects as usize, seed)?;
    let mut report = SimulationReport {
        seed,
        objects: objects.len(),
        large_objects: objects.large_count(),
        stripes: objects.stripe_count(),
        bytes: objects.bytes(),
        moved_objects: objects.len() / MOVED_DIVISOR,
        trace_reads: arguments.reads,
        equal: Vec::new(),
        weighted: Vec::new(),
        movements: Vec::new(),
        traces: Vec::new(),
        hot: Vec::new(),
    };

    let mut clusters = Vec::new();
    for nodes in arguments.nodes.iter().map(|nodes| *nodes as usize) {
        let view = view_of(nodes, &[1])?;
        let homes = Homes::of(&view, &objects, threads)?;
        report.equal.push(balance(&view, &objects, &homes));
        for change in NodeChange::ALL {
            let found = movement(&view, change, &objects, &homes, (report.moved_objects, threads))?;
            report.movements.push(found);
        }

        let weighted = view_of(nodes, &[1, 2, 4])?;
        let weighted_homes = Homes::of(&weighted, &objects, threads)?;
        report.weighted.push(balance(&weighted, &objects, &weighted_homes));

        let stripes = RankedStripes::of(&view, &objects)?;
        let paths = [HotPath::Home, HotPath::Shared, HotPath::Copy];
        report.hot.extend(run_jobs(threads, paths.len(), |at| {
            Ok(run_hot(&stripes, paths[at], HOT_ANSWERS, seed))
        })?);
        clusters.push((nodes, homes));
        progress(&format!("placed on {nodes} nodes"));
    }

    for exponent in EXPONENTS {
        let trace = ReadTrace::new(&objects, exponent, report.trace_reads, seed);
        report.traces.extend(trace_rows(&objects, &trace, exponent, &clusters, (seed, threads))?);
        progress(&format!("read by Zipf's law, s = {exponent}"));
    }
    Ok(report)
}

/// Runs a trace through clusters of each size, with each cache size.
fn trace_rows(
    objects: &ObjectSet,
    trace: &ReadTrace,
    exponent: f64,
    clusters: &[(usize, Homes)],
    (seed, threads): (u64, usize),
) -> Result<Vec<TraceRow>> {
    let mut jobs = Vec::new();
    for percent in CACHE_PERCENTS {
        jobs.push((percent, ReadPath::Alone { nodes: 1 }));
        for (nodes, homes) in clusters {
            jobs.push((percent, ReadPath::Placed { nodes: *nodes, homes }));
            jobs.push((percent, ReadPath::AnyNode { nodes: *nodes, homes }));
            jobs.push((percent, ReadPath::Alone { nodes: *nodes }));
        }
    }

    let costs = run_jobs(threads, jobs.len(), |at| {
        let (percent, path) = jobs[at];
        Ok(run_trace(trace, path, objects.bytes() / 100 * percent, seed))
    })?;

    let mut rows = Vec::new();
    for (cache_percent, costs) in CACHE_PERCENTS.into_iter().zip(costs.chunks(1 + 3 * clusters.len())) {
        let (ideal, costs) = costs.split_first().context("one cache comes first")?;
        for ((nodes, _), costs) in clusters.iter().zip(costs.chunks(3)) {
            ensure!(costs.len() == 3, "a cluster is read in three ways");
            let [placed, any_node, alone] = [costs[0], costs[1], costs[2]];
            rows.push(TraceRow {
                exponent,
                cache_percent,
                nodes: *nodes,
                ideal: *ideal,
                placed,
                any_node,
                alone,
            });
        }
    }
    Ok(rows)
}
