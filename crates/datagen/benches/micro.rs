//! Benchmarks the text pool of TPC-H against that of the crate `tpchgen`, and a table with comments from it.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::time::Duration;

use divan::{Bencher, Divan, counter::BytesCount, counter::ItemsCount};
use stylobate_datagen::{Benchmark, Part, Scale, measure};
use tpchgen::{distribution::Distributions, text::TextPool};

/// The allocator used by the command and the Python package.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A quarter of the pool, which is created once per process.
const BYTES: usize = 75 << 20;

fn main() {
    Divan::default().max_time(Duration::from_secs(3)).config_with_args().main();
}

#[divan::bench]
fn ours(bencher: Bencher) {
    bencher.counter(BytesCount::new(BYTES)).bench(|| measure::text_pool(BYTES));
}

#[divan::bench]
fn tpchgen_crate(bencher: Bencher) {
    let words = Distributions::static_default();
    bencher.counter(BytesCount::new(BYTES)).bench(|| TextPool::new(BYTES as i32, words));
}

/// Generates orders at scale 0.1 on one thread; the pool already exists.
#[divan::bench]
fn orders(bencher: Bencher) {
    let rows = generate_orders();
    bencher.counter(ItemsCount::new(rows)).bench(generate_orders);
}

/// Returns the number of rows.
fn generate_orders() -> usize {
    let orders = Benchmark::TpcH.table("orders").unwrap();
    let batches = orders.stream(Scale::new(0.1).unwrap(), Part::WHOLE, 1).unwrap();
    batches.map(|batch| batch.unwrap().num_rows()).sum()
}
