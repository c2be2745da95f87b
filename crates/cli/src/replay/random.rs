//! Random numbers that depend on the seed only, and are the same on every machine and in every release.
//!
//! A trace is identified by its seed, so nothing here may depend on the version of a library.

/// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Clone, Debug)]
pub(super) struct ReplayRng(u64);

impl ReplayRng {
    /// Creates a generator from a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates the generator for part `part` of a seed. The parts are independent of each other.
    pub(super) fn of_part(seed: u64, part: u64) -> Self {
        let mut parts = Self::new(seed ^ part.wrapping_mul(0xD1B5_4A32_D192_ED03));
        Self::new(parts.next())
    }

    /// Returns the next 64 random bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns an integer in [0, bound); 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // Lemire's method without rejection: the bias is below bound / 2^64.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Shuffles the items.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

/// A Zipf distribution: rank `r`, from 0, has a probability proportional to `1 / (r + 1)^skew`.
#[derive(Clone, Debug)]
pub(super) struct ZipfRanks {
    /// Cumulative weights by rank.
    cumulative: Vec<f64>,
}

impl ZipfRanks {
    /// Creates the distribution. A skew of 0 is uniform.
    pub(super) fn new(ranks: usize, skew: f64) -> Self {
        let mut total = 0.0;
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-skew);
        let cumulative = (0..ranks).map(|rank| {
            total += weight(rank);
            total
        });
        Self { cumulative: cumulative.collect() }
    }

    /// Draws a rank; returns 0 if there are no ranks.
    pub(super) fn draw(&self, random: &mut ReplayRng) -> usize {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let point = random.unit() * total;
        let rank = self.cumulative.partition_point(|upto| *upto <= point);
        rank.min(self.cumulative.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The first outputs of the reference implementation for the seed 1234567.
        let mut random = ReplayRng::new(1_234_567);
        assert_eq!(
            [random.next(), random.next(), random.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn the_ranks_of_a_seed_never_change() {
        let draw = |seed| {
            let zipf = ZipfRanks::new(9, 1.5);
            let mut random = ReplayRng::new(seed);
            (0..20).map(|_| zipf.draw(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn ranks_come_as_often_as_zipf_says() {
        let zipf = ZipfRanks::new(4, 1.5);
        let mut random = ReplayRng::new(1);
        let mut counts = [0_u32; 4];
        for _ in 0..100_000 {
            counts[zipf.draw(&mut random)] += 1;
        }

        let weights = [1.0, 0.353_553, 0.192_450, 0.125];
        let total: f64 = weights.iter().sum();

        for (count, weight) in counts.iter().zip(weights) {
            let expected = 100_000.0 * weight / total;
            assert!((f64::from(*count) - expected).abs() < 0.03 * expected + 50.0, "{counts:?}");
        }
    }

    #[test]
    fn a_skew_of_zero_draws_all_alike() {
        let zipf = ZipfRanks::new(10, 0.0);
        let mut random = ReplayRng::new(3);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[zipf.draw(&mut random)] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn parts_of_a_seed_differ_and_repeat() {
        assert_eq!(ReplayRng::of_part(7, 1).next(), ReplayRng::of_part(7, 1).next());
        assert_ne!(ReplayRng::of_part(7, 1).next(), ReplayRng::of_part(7, 2).next());
        assert_ne!(ReplayRng::of_part(7, 0).next(), ReplayRng::of_part(8, 0).next());
    }
}
