//! Deterministic mixes of accesses on which eviction policies differ, and a table of their hit ratios.
//!
//! Objects have 64 KiB to 1 MiB, like pages and column chunks. The same seed yields the same accesses on every
//! machine.

use std::{collections::HashMap, fmt::Write};

use super::{Access, simulate};
use crate::ByteSize;

const KIB: u64 = 1024;

/// A workload that is known to distinguish policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Objects drawn by Zipf's law with exponent 0.9.
    Zipf,
    /// A repeated loop over all objects, of twice the size of a cache with half of the footprint.
    Loop,
    /// A loop of 1.25 times the size of a cache with half of the footprint, interleaved with reads of objects that
    /// never recur.
    ShortLoop,
    /// A hot Zipf set with periodic scans over objects that are read only once.
    ScanZipf,
    /// Working sets that replace each other, alternately drawn by Zipf's law and read as loops.
    Phases,
    /// Reuse by recency: the more objects were read since the last use, the less likely the next use. Favours LRU.
    Recency,
    /// Queries of Parquet files: small hot footers, column chunks by Zipf's law, occasional full scans.
    Parquet,
}

impl Mix {
    /// Every mix, in the order of the table.
    pub const ALL: [Self; 7] =
        [Self::Zipf, Self::Loop, Self::ShortLoop, Self::ScanZipf, Self::Phases, Self::Recency, Self::Parquet];

    /// Returns the name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zipf => "zipf",
            Self::Loop => "loop",
            Self::ShortLoop => "short loop",
            Self::ScanZipf => "scan + zipf",
            Self::Phases => "phases",
            Self::Recency => "recency",
            Self::Parquet => "parquet",
        }
    }

    /// Returns the accesses of the mix; the seed determines them.
    pub fn accesses(self, seed: u64) -> Vec<Access> {
        let mut random = SplitMix64Rng::new(seed);

        match self {
            Self::Zipf => zipf(&mut random, 4000, 0.9, 200_000),
            Self::Loop => (0..40_000).map(|i| object(seed, i % 1000)).collect(),
            Self::ShortLoop => short_loop(seed),
            Self::ScanZipf => scan_zipf(&mut random),
            Self::Phases => phases(&mut random),
            Self::Recency => recency(&mut random),
            Self::Parquet => parquet(&mut random),
        }
    }
}

/// Returns the total size of all distinct keys in the accesses.
pub fn footprint(accesses: &[Access]) -> ByteSize {
    let sizes: HashMap<_, _> = accesses.iter().map(|access| (access.key, access.bytes)).collect();
    ByteSize::bytes(sizes.values().sum())
}

/// Renders a Markdown table with the byte hit ratio of every policy on every mix.
///
/// The caches hold 10% and 50% of the footprint of each mix.
pub fn hit_ratio_table(seed: u64) -> String {
    let mut table = String::new();

    for mix in Mix::ALL {
        let accesses = mix.accesses(seed);
        let footprint = footprint(&accesses).as_u64();

        for percent in [10, 50] {
            let ratios = simulate(&accesses, ByteSize::bytes(footprint / 100 * percent));

            if table.is_empty() {
                let names: Vec<_> = ratios.iter().map(|ratio| ratio.policy.as_str()).collect();
                table += &format!("| mix | cache | {} |\n", names.join(" | "));
                table += &format!("|---|---|{}\n", "---:|".repeat(names.len()));
            }

            let cells: Vec<_> = ratios.iter().map(|ratio| format!("{:.3}", ratio.by_bytes())).collect();
            // Writing to a `String` cannot fail.
            let _ = writeln!(table, "| {} | {percent}% | {} |", mix.name(), cells.join(" | "));
        }
    }

    table
}

/// Returns an access to an object of 64 KiB to 1 MiB, in steps of 64 KiB; the seed and the key determine its size.
fn object(seed: u64, key: u64) -> Access {
    let steps = 1 + SplitMix64Rng::new(seed ^ key).below(16);
    Access { key, bytes: steps * 64 * KIB }
}

fn zipf(random: &mut SplitMix64Rng, objects: usize, exponent: f64, len: usize) -> Vec<Access> {
    let law = ZipfSampler::new(objects, exponent);
    let seed = random.next();
    (0..len).map(|_| object(seed, law.draw(random))).collect()
}

fn short_loop(seed: u64) -> Vec<Access> {
    const LOOP: u64 = 1000;
    const ROUNDS: u64 = 40;

    // One-time reads make up 3/8 of the footprint, so that half of the footprint is 4/5 of the loop.
    const ONE_TIME: u64 = LOOP * 3 / 5;

    let mut accesses = Vec::new();
    let mut one_time = 0;
    for i in 0..LOOP * ROUNDS {
        accesses.push(object(seed, i % LOOP));

        if i * ONE_TIME / (LOOP * ROUNDS) > one_time {
            one_time += 1;
            accesses.push(object(seed, LOOP + one_time));
        }
    }

    accesses
}

fn scan_zipf(random: &mut SplitMix64Rng) -> Vec<Access> {
    let law = ZipfSampler::new(1000, 0.9);
    let seed = random.next();
    let mut accesses = Vec::new();
    let mut scanned = 1000;

    for _ in 0..10 {
        accesses.extend((0..10_000).map(|_| object(seed, law.draw(random))));

        accesses.extend((scanned..scanned + 400).map(|key| object(seed, key)));
        scanned += 400;
    }
    accesses
}

fn phases(random: &mut SplitMix64Rng) -> Vec<Access> {
    const PHASES: u64 = 12;
    const OBJECTS: u64 = 400;
    const ROUNDS: u64 = 10;

    let law = ZipfSampler::new(OBJECTS as usize, 0.8);
    let seed = random.next();
    let mut accesses = Vec::new();

    for phase in 0..PHASES {
        let first = phase * OBJECTS;
        for i in 0..OBJECTS * ROUNDS {
            let within = if phase % 2 == 0 { i % OBJECTS } else { law.draw(random) };
            accesses.push(object(seed, first + within));
        }
    }

    accesses
}

fn recency(random: &mut SplitMix64Rng) -> Vec<Access> {
    const OBJECTS: u64 = 4000;
    let mut by_recency: Vec<u64> = (0..OBJECTS).collect();
    let seed = random.next();

    let draw = |_| {
        // The density of a distance d is about 1 / d.
        let distance = (OBJECTS as f64).powf(random.unit()) as usize;
        let key = by_recency.remove(distance.min(by_recency.len()) - 1);
        by_recency.insert(0, key);
        object(seed, key)
    };
    (0..200_000).map(draw).collect()
}

fn parquet(random: &mut SplitMix64Rng) -> Vec<Access> {
    const FILES: usize = 64;
    const COLUMNS: usize = 16;
    const ROW_GROUPS: u64 = 4;
    const CHUNKS: u64 = COLUMNS as u64 * ROW_GROUPS;
    const QUERIES: usize = 12_000;

    /// Number of queries per full scan of a file.
    const QUERIES_PER_SCAN: u64 = 50;

    let files = ZipfSampler::new(FILES, 0.7);
    let columns = ZipfSampler::new(COLUMNS, 1.0);
    let seed = random.next();
    let mut accesses = Vec::new();

    for _ in 0..QUERIES {
        let scans = random.below(QUERIES_PER_SCAN) == 0;
        let file = if scans { random.below(FILES as u64) } else { files.draw(random) };

        let first = file * (CHUNKS + 1);
        accesses.push(Access { key: first, bytes: 16 * KIB });

        if scans {
            accesses.extend((1..=CHUNKS).map(|chunk| object(seed, first + chunk)));
            continue;
        }

        let read = 1 + random.below(4);
        for _ in 0..read {
            let column = columns.draw(random);
            let chunks = (0..ROW_GROUPS).map(|row_group| 1 + row_group * COLUMNS as u64 + column);
            accesses.extend(chunks.map(|chunk| object(seed, first + chunk)));
        }
    }

    accesses
}

/// The SplitMix64 generator: small, and the same on every machine and in every version.
struct SplitMix64Rng(u64);

impl SplitMix64Rng {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);

        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `0.0..1.0`.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A sampler of ranks from 0 by Zipf's law.
struct ZipfSampler {
    cumulative: Vec<f64>,
}

impl ZipfSampler {
    fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut add = |rank: usize| {
            sum += (rank as f64).powf(-exponent);
            sum
        };
        Self { cumulative: (1..=ranks).map(&mut add).collect() }
    }

    fn draw(&self, random: &mut SplitMix64Rng) -> u64 {
        let sum = self.cumulative.last().copied().unwrap_or(0.0);
        let at = random.unit() * sum;
        self.cumulative.partition_point(|upto| *upto <= at) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_accesses_each_time() {
        for mix in Mix::ALL {
            assert_eq!(mix.accesses(7), mix.accesses(7), "{}", mix.name());
            assert_ne!(mix.accesses(7), mix.accesses(8), "{}", mix.name());
        }
    }

    #[test]
    fn a_key_has_one_size() {
        for mix in Mix::ALL {
            let mut sizes = HashMap::new();
            for access in mix.accesses(7) {
                assert_eq!(*sizes.entry(access.key).or_insert(access.bytes), access.bytes, "{}", mix.name());
            }
        }
    }

    #[test]
    fn zipf_draws_the_first_rank_most() {
        let mut random = SplitMix64Rng::new(1);
        let law = ZipfSampler::new(100, 1.0);
        let mut draws = [0; 100];
        for _ in 0..10_000 {
            draws[law.draw(&mut random) as usize] += 1;
        }

        // The harmonic number of 100 is 5.19.
        assert!((1800..2050).contains(&draws[0]), "{}", draws[0]);
        assert!((850..1100).contains(&draws[1]), "{}", draws[1]);
    }
}
