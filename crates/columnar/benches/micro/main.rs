//! Compares inner loops of this crate with the crates that could replace them, and measures the reads that they are
//! part of.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod chunk_cache;
mod csv;
mod interner;
mod lzo;
mod page_headers;
mod parquet_sample;
mod sample_bytes;
mod snappy;

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use divan::Divan;
use stylobate_columnar::Cache;
use stylobate_storage::{ByteSize, CacheOptions};
use tokio::runtime::{Builder, Runtime};

/// Runtime of scans, with one worker thread.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// The allocator of the command and of the Python package.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let times = Divan::default().min_time(Duration::from_millis(100)).max_time(Duration::from_millis(700));
    times.config_with_args().main();
}

/// Opens a cache with room for all that a benchmark reads.
fn cache() -> Cache {
    RUNTIME.block_on(Cache::open(CacheOptions::new(ByteSize::gib(1)))).unwrap()
}

/// Returns a modification time so old that files have a version.
fn long_ago() -> SystemTime {
    SystemTime::now() - Duration::from_secs(3600)
}
