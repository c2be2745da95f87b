//! Plans a trace: its files, and for each request the arrival time and the file.
//!
//! The kinds are those of the Parpulse benchmark. Small files are about 1 MB, large ones about 100 MB. Requests
//! choose files by a Zipf distribution; file 0 is the most popular one of its size.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;

use super::{
    data::TraceFileSize,
    random::{ReplayRng, ZipfRanks},
    trace::TraceRequest,
};
use crate::failure::usage;

/// Default files of the kind `parallel`: 9 small and 10 large.
const SMALL_FILES: usize = 9;
const LARGE_FILES: usize = 10;
/// Default files of the kind `serial`: the first half are small, the rest large.
const SERIAL_FILES: usize = 8;
const REQUESTS: usize = 20;
/// Defaults of the kind `parallel`: number of requests, number of requests for large files, and span in milliseconds.
const PARALLEL_REQUESTS: usize = 160;
const PARALLEL_LARGE: usize = 13;
const PARALLEL_MS: u64 = 5_500;
/// Maximum gap between two requests of the kinds `1m` and `100m`, in milliseconds; the minimum is 1.
const MAX_GAP_MS: u64 = 500;

/// The kind of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TraceKind {
    /// 20 requests over 9 files of 1 MB, 1 to 500 ms apart
    #[value(name = "1m")]
    Small,
    /// 20 requests over 10 files of 100 MB, 1 to 500 ms apart
    #[value(name = "100m")]
    Large,
    /// 160 requests within 5.5 s: 147 for 9 small files, 13 for 10 large ones
    Parallel,
    /// 8 files, half of them large, one by one and all twice, 1 s (small) or 10 s (large) apart
    Serial,
}

/// The parameters of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceSpec {
    pub(super) kind: TraceKind,
    pub(super) files: Option<usize>,
    pub(super) requests: Option<usize>,
    pub(super) skew: f64,
    pub(super) seed: u64,
}

/// A trace before its files exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TracePlan {
    /// The size of each file, small files first.
    pub(super) files: Vec<TraceFileSize>,
    /// The requests in order of arrival.
    pub(super) requests: Vec<TraceRequest>,
}

/// Plans files and requests.
///
/// # Errors
///
/// If the parameters are invalid; the message names the option at fault.
pub(super) fn plan(spec: TraceSpec) -> Result<TracePlan> {
    if !(spec.skew.is_finite() && spec.skew >= 0.0) {
        return Err(usage(format!("--skew {}: a number from 0 is needed", spec.skew)));
    }

    let needed = if matches!(spec.kind, TraceKind::Small | TraceKind::Large) { 1 } else { 2 };
    if spec.files.is_some_and(|files| files < needed) {
        return Err(usage(format!("--files: this kind of trace needs at least {needed}")));
    }
    if spec.requests == Some(0) {
        return Err(usage("--requests: at least 1 is needed"));
    }

    let random = &mut ReplayRng::of_part(spec.seed, 0);
    let (small, large) = files(&spec);
    let requests = match spec.kind {
        TraceKind::Small | TraceKind::Large => one_by_one(&spec, small + large, random),
        TraceKind::Parallel => parallel(&spec, small, large, random),
        TraceKind::Serial => serial(&spec, small, large),
    };

    let mut sizes = vec![TraceFileSize::Small; small];
    sizes.resize(small + large, TraceFileSize::Large);

    Ok(TracePlan { files: sizes, requests })
}

/// Returns the number of small and of large files.
fn files(spec: &TraceSpec) -> (usize, usize) {
    let both = SMALL_FILES + LARGE_FILES;
    match (spec.kind, spec.files) {
        (TraceKind::Small, files) => (files.unwrap_or(SMALL_FILES), 0),
        (TraceKind::Large, files) => (0, files.unwrap_or(LARGE_FILES)),
        (TraceKind::Parallel, files) => {
            let files = files.unwrap_or(both);
            let small = (files * SMALL_FILES / both).max(1);
            (small, files - small)
        }
        (TraceKind::Serial, files) => {
            let files = files.unwrap_or(SERIAL_FILES);
            (files / 2, files - files / 2)
        }
    }
}

fn at(ms: u64, object: usize) -> TraceRequest {
    TraceRequest { arrival: Duration::from_millis(ms), object }
}

/// Plans requests with random gaps.
fn one_by_one(spec: &TraceSpec, files: usize, random: &mut ReplayRng) -> Vec<TraceRequest> {
    let zipf = ZipfRanks::new(files, spec.skew);
    let mut clock_ms = 0;
    let mut request = || {
        let request = at(clock_ms, zipf.draw(random));
        clock_ms += 1 + random.below(MAX_GAP_MS);
        request
    };
    (0..spec.requests.unwrap_or(REQUESTS)).map(|_| request()).collect()
}

/// Plans requests at random times within a span proportional to their number, so that the rate is constant.
fn parallel(spec: &TraceSpec, small: usize, large: usize, random: &mut ReplayRng) -> Vec<TraceRequest> {
    let requests = spec.requests.unwrap_or(PARALLEL_REQUESTS);
    let for_large = (requests * PARALLEL_LARGE).div_ceil(PARALLEL_REQUESTS);
    let mut sizes = vec![TraceFileSize::Large; for_large];
    sizes.resize(requests, TraceFileSize::Small);
    random.shuffle(&mut sizes);

    let span_ms = (PARALLEL_MS * requests as u64).div_ceil(PARALLEL_REQUESTS as u64);
    let mut arrivals_ms: Vec<_> = (1..requests).map(|_| random.below(span_ms + 1)).collect();
    arrivals_ms.push(0);
    arrivals_ms.sort_unstable();

    let small_files = ZipfRanks::new(small, spec.skew);
    let large_files = ZipfRanks::new(large, spec.skew);
    let object = |size, random: &mut ReplayRng| match size {
        TraceFileSize::Small => small_files.draw(random),
        TraceFileSize::Large => small + large_files.draw(random),
    };

    arrivals_ms.into_iter().zip(sizes).map(|(ms, size)| at(ms, object(size, random))).collect()
}

/// Plans passes over all files: the first is cold, the second warm.
fn serial(spec: &TraceSpec, small: usize, large: usize) -> Vec<TraceRequest> {
    let files = small + large;
    let gap_ms = |file: usize| if file < small { 1_000 } else { 10_000 };
    let mut clock_ms = 0;
    let mut request = |file| {
        let request = at(clock_ms, file);
        clock_ms += gap_ms(file);
        request
    };

    (0..spec.requests.unwrap_or(2 * files)).map(|index| request(index % files)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: TraceKind) -> TraceSpec {
        TraceSpec { kind, files: None, requests: None, skew: 1.5, seed: 7 }
    }

    fn requests_for(plan: &TracePlan, size: TraceFileSize) -> usize {
        plan.requests.iter().filter(|request| plan.files[request.object] == size).count()
    }

    fn gaps_ms(plan: &TracePlan) -> Vec<u128> {
        plan.requests.windows(2).map(|pair| (pair[1].arrival - pair[0].arrival).as_millis()).collect()
    }

    #[test]
    fn the_kinds_1m_and_100m_have_20_requests_with_gaps_of_1_to_500_ms() {
        for (kind, files, size) in
            [(TraceKind::Small, 9, TraceFileSize::Small), (TraceKind::Large, 10, TraceFileSize::Large)]
        {
            let plan = plan(spec(kind)).unwrap();
            assert_eq!(plan.files, vec![size; files]);
            assert_eq!(plan.requests.len(), 20);
            assert!(gaps_ms(&plan).iter().all(|gap| (1..=500).contains(gap)));
        }
    }

    #[test]
    fn the_kind_parallel_has_147_small_and_13_large_requests_within_5_5_s() {
        let plan = plan(spec(TraceKind::Parallel)).unwrap();
        assert_eq!(plan.files.iter().filter(|size| **size == TraceFileSize::Small).count(), 9);
        assert_eq!(plan.files.len(), 19);
        assert_eq!(requests_for(&plan, TraceFileSize::Small), 147);
        assert_eq!(requests_for(&plan, TraceFileSize::Large), 13);
        assert!(plan.requests.last().unwrap().arrival <= Duration::from_millis(5_500));
        assert!(plan.requests.is_sorted_by_key(|request| request.arrival));
    }

    #[test]
    fn the_kind_serial_reads_8_files_twice_with_gaps_by_size() {
        let plan = plan(spec(TraceKind::Serial)).unwrap();
        assert_eq!(plan.requests.len(), 16);
        for file in 0..8 {
            assert_eq!(plan.requests.iter().filter(|request| request.object == file).count(), 2);
        }
        let pass = [1_000, 1_000, 1_000, 1_000, 10_000, 10_000, 10_000, 10_000];
        assert_eq!(gaps_ms(&plan), [&pass[..], &pass[..7]].concat());
    }

    #[test]
    fn numbers_of_files_and_requests_can_be_chosen() {
        for kind in [TraceKind::Small, TraceKind::Large, TraceKind::Parallel, TraceKind::Serial] {
            for (files, requests) in [(2, 1), (3, 1000), (50, 7)] {
                let spec = TraceSpec { files: Some(files), requests: Some(requests), ..spec(kind) };
                let plan = plan(spec).unwrap();
                assert_eq!((plan.files.len(), plan.requests.len()), (files, requests), "{kind:?}");
                assert!(plan.requests.iter().all(|request| request.object < files));
                assert_eq!(plan.requests[0].arrival, Duration::ZERO);
            }
        }
    }

    #[test]
    fn equal_seeds_make_equal_plans() {
        for kind in [TraceKind::Small, TraceKind::Large, TraceKind::Parallel] {
            assert_eq!(plan(spec(kind)).unwrap(), plan(spec(kind)).unwrap());
            assert_ne!(plan(spec(kind)).unwrap(), plan(TraceSpec { seed: 8, ..spec(kind) }).unwrap());
        }
    }

    #[test]
    fn numbers_that_make_no_trace_are_refused() {
        let error = |spec| plan(spec).unwrap_err().to_string();
        assert!(error(TraceSpec { files: Some(0), ..spec(TraceKind::Small) }).contains("--files"));
        assert!(error(TraceSpec { files: Some(1), ..spec(TraceKind::Serial) }).contains("at least 2"));
        assert!(error(TraceSpec { requests: Some(0), ..spec(TraceKind::Small) }).contains("--requests"));
        assert!(error(TraceSpec { skew: f64::NAN, ..spec(TraceKind::Small) }).contains("--skew"));
    }
}
