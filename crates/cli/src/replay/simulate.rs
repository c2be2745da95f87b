//! Simulates the hit ratios of a trace under each cache policy, without an endpoint.

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use stylobate_storage::{Access, ByteSize, HitRatio, simulate};

use super::trace::ReplayTrace;
use crate::{failure::usage, table};

/// Default capacities, as fractions of the working set.
const SHARES: [f64; 3] = [0.1, 0.5, 2.0];

#[derive(Args, Clone, Debug)]
pub(super) struct SimulateArgs {
    /// Print the hit ratio of each cache policy instead of playing the trace
    #[arg(long)]
    pub(super) simulate: bool,
    /// Cache sizes, such as 512MiB,2GiB [default: 10%, 50% and 200% of the distinct bytes requested]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', requires = "simulate")]
    capacity: Vec<ByteSize>,
    /// Cache pages of this size instead of whole objects
    #[arg(long, value_name = "SIZE", requires = "simulate")]
    page_size: Option<ByteSize>,
}

/// The result of a simulation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CacheSimulation {
    /// Requests in the trace.
    requests: usize,
    /// Bytes of the distinct objects requested.
    working_set_bytes: u64,
    /// Bytes of a page; `null` if whole objects were cached.
    page_bytes: Option<u64>,
    capacities: Vec<CapacityResult>,
}

#[derive(Clone, Debug, Serialize)]
struct CapacityResult {
    capacity_bytes: u64,
    /// The capacity as a multiple of the working set.
    working_sets: f64,
    policies: Vec<PolicyResult>,
}

#[derive(Clone, Debug, Serialize)]
struct PolicyResult {
    /// Hits and accesses, counted in pages if pages were cached.
    #[serde(flatten)]
    counts: HitRatio,
    request_hit_ratio: f64,
    byte_hit_ratio: f64,
}

/// Runs the trace through every policy at each capacity. `objects` is the name of the objects file in errors.
///
/// # Errors
///
/// If a requested object has no size, or the page size is zero.
pub(super) fn run(args: &SimulateArgs, trace: &ReplayTrace, objects: &str) -> Result<CacheSimulation> {
    if args.page_size == Some(ByteSize::ZERO) {
        return Err(usage("--page-size: a page needs at least one byte"));
    }

    let accesses = accesses(trace, args.page_size.map(ByteSize::as_u64), objects)?;
    let working_set = trace.working_set_bytes();
    let of_share = |share: f64| ByteSize::bytes((working_set as f64 * share) as u64);
    let capacities =
        if args.capacity.is_empty() { SHARES.map(of_share).to_vec() } else { args.capacity.clone() };
    let at_capacity = |capacity: ByteSize| CapacityResult {
        capacity_bytes: capacity.as_u64(),
        working_sets: capacity.as_u64() as f64 / working_set.max(1) as f64,
        policies: simulate(&accesses, capacity).into_iter().map(PolicyResult::from).collect(),
    };

    Ok(CacheSimulation {
        requests: trace.requests.len(),
        working_set_bytes: working_set,
        page_bytes: args.page_size.map(ByteSize::as_u64),
        capacities: capacities.into_iter().map(at_capacity).collect(),
    })
}

/// Returns the accesses of a trace: one per request, or one for each page of the requested object.
fn accesses(trace: &ReplayTrace, page_bytes: Option<u64>, objects: &str) -> Result<Vec<Access>> {
    let mut accesses = Vec::new();
    // Pages are numbered across objects: the first key of an object is the number of pages before it.
    let mut first_keys = Vec::with_capacity(trace.objects.len());
    let mut next_key = 0;
    for object in &trace.objects {
        first_keys.push(next_key);
        next_key += page_bytes.map_or(1, |page| object.size.unwrap_or(0).div_ceil(page));
    }

    for request in &trace.requests {
        let object = &trace.objects[request.object];
        let size = object.size.with_context(|| {
            format!("{objects}: {} has no size: write `key,size` lines to simulate", object.key)
        })?;
        let first = first_keys[request.object];

        match page_bytes {
            None => accesses.push(Access { key: first, bytes: size }),
            Some(page) => accesses.extend(
                (0..size.div_ceil(page))
                    .map(|number| Access { key: first + number, bytes: page.min(size - number * page) }),
            ),
        }
    }

    Ok(accesses)
}

impl From<HitRatio> for PolicyResult {
    fn from(counts: HitRatio) -> Self {
        Self { request_hit_ratio: counts.by_requests(), byte_hit_ratio: counts.by_bytes(), counts }
    }
}

impl CacheSimulation {
    /// Formats the simulation as text.
    pub(super) fn table(&self) -> String {
        let cached = match self.page_bytes {
            Some(page) => format!("pages of {}", ByteSize::bytes(page)),
            None => "whole objects".to_owned(),
        };

        let requests = table::count(self.requests, "request");
        let bytes = table::bytes(self.working_set_bytes);
        let mut text = format!("{requests} for {bytes} of distinct objects; the cache holds {cached}\n");
        for at in &self.capacities {
            let capacity = table::bytes(at.capacity_bytes);
            let share = table::percent(at.working_sets);
            let header = ["policy", "hits", "of", "hit ratio", "byte hit ratio"].map(str::to_owned);
            let mut rows = vec![header.to_vec()];
            rows.extend(at.policies.iter().map(PolicyResult::row));
            text += &format!("\ncapacity {capacity}, {share} of the distinct bytes\n{}", table::align(&rows));
        }

        text
    }
}

impl PolicyResult {
    fn row(&self) -> Vec<String> {
        vec![
            self.counts.policy.clone(),
            self.counts.hits.to_string(),
            self.counts.requests.to_string(),
            table::percent(self.request_hit_ratio),
            table::percent(self.byte_hit_ratio),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use object_store::path::Path;

    use super::super::trace::{TraceObject, TraceRequest};
    use super::*;

    fn trace(sizes: &[u64], requests: &[usize]) -> ReplayTrace {
        let object = |size: &u64| TraceObject { key: Path::from("a"), size: Some(*size) };
        let request = |object: &usize| TraceRequest { arrival: Duration::ZERO, object: *object };
        ReplayTrace {
            objects: sizes.iter().map(object).collect(),
            requests: requests.iter().map(request).collect(),
        }
    }

    fn args(capacity: &[ByteSize], page_size: Option<ByteSize>) -> SimulateArgs {
        SimulateArgs { simulate: true, capacity: capacity.to_vec(), page_size }
    }

    #[test]
    fn without_a_capacity_there_are_three_by_the_working_set() {
        let trace = trace(&[1000, 3000, 9_999_999], &[0, 1, 0, 1]);
        let simulation = run(&args(&[], None), &trace, "o").unwrap();
        let capacities: Vec<_> = simulation.capacities.iter().map(|at| at.capacity_bytes).collect();
        assert_eq!(capacities, [400, 2000, 8000]);
        assert!(simulation.capacities[2].policies.iter().all(|policy| policy.counts.hits == 2));
        assert!(simulation.table().contains("capacity 8.0 kB, 200.0% of the distinct bytes"));
    }

    #[test]
    fn with_a_page_size_a_request_reads_every_page_of_its_object() {
        let accesses = accesses(&trace(&[25, 0, 10], &[2, 0, 1]), Some(10), "o").unwrap();
        let pairs: Vec<_> = accesses.iter().map(|access| (access.key, access.bytes)).collect();
        assert_eq!(pairs, [(3, 10), (0, 10), (1, 10), (2, 5)]);
    }

    #[test]
    fn an_object_without_a_size_is_an_error_that_names_it() {
        let mut trace = trace(&[1], &[0]);
        trace.objects[0].size = None;
        let error = run(&args(&[], None), &trace, "objects.csv").unwrap_err().to_string();
        assert_eq!(error, "objects.csv: a has no size: write `key,size` lines to simulate");
    }

    #[test]
    fn a_page_without_bytes_is_refused() {
        assert!(run(&args(&[], Some(ByteSize::ZERO)), &trace(&[1], &[0]), "o").is_err());
    }

    #[test]
    fn the_json_has_counts_and_ratios_per_policy() {
        let simulation = run(&args(&[ByteSize::kib(1)], None), &trace(&[100], &[0, 0]), "o").unwrap();
        let json = serde_json::to_value(simulation).unwrap();
        let policies = json["capacities"][0]["policies"].as_array().unwrap();
        let policy = policies.iter().find(|policy| policy["policy"] == "lru-2").unwrap();
        assert_eq!(policy["hits"], 1);
        assert_eq!(policy["byte_hit_ratio"], 0.5);
    }
}
