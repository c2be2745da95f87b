//! Reproducible random numbers: uniform, exponential, log-normal and Zipf.

/// The SplitMix64 generator: small, with the same output in every version.
pub(crate) struct SimRng(u64);

impl SimRng {
    /// Creates the generator of one stream of a seed; streams of a seed are independent of each other.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Self(mixed.next())
    }

    /// Returns 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);

        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns an integer in `0..bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns a number in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns an exponentially distributed number of mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Returns a log-normally distributed number.
    pub(crate) fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        // Box-Muller transform.
        let radius = (2.0 * self.exponential()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.unit()).cos();
        median * (sigma * normal).exp()
    }
}

/// Draws ranks from a Zipf distribution: rank `k` of 1 to `ranks` with probability proportional to `k^-exponent`.
///
/// Takes constant time and memory, by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", ACM TOMACS 6(3), 1996): draws a number from a continuous density
/// above the histogram by inverting its integral, and rejects it if it is above the bar of its rank.
pub(crate) struct RankSampler {
    ranks: f64,
    exponent: f64,
    /// Integral up to the left edge of the first bar, and to the right edge of the last one.
    integrals: [f64; 2],
    /// Distance below a rank within which a number is always accepted.
    sure_distance: f64,
}

impl RankSampler {
    pub(crate) fn new(ranks: usize, exponent: f64) -> Self {
        let mut sampler = Self { ranks: ranks as f64, exponent, integrals: [0.0; 2], sure_distance: 0.0 };
        sampler.integrals = [sampler.integral(1.5) - 1.0, sampler.integral(sampler.ranks + 0.5)];
        sampler.sure_distance = 2.0 - sampler.inverse(sampler.integral(2.5) - sampler.density(2.0));
        sampler
    }

    /// Returns a rank, counted from 0.
    pub(crate) fn draw(&self, random: &mut SimRng) -> usize {
        let [first, last] = self.integrals;
        loop {
            let area = last + random.unit() * (first - last);
            let at = self.inverse(area);
            let rank = at.round().clamp(1.0, self.ranks);
            let is_below_bar =
                rank - at <= self.sure_distance || area >= self.integral(rank + 0.5) - self.density(rank);
            if is_below_bar {
                return rank as usize - 1;
            }
        }
    }

    fn density(&self, at: f64) -> f64 {
        at.powf(-self.exponent)
    }

    /// Returns the integral of the density from 1 to `at`.
    fn integral(&self, at: f64) -> f64 {
        let log = at.ln();
        let scaled = (1.0 - self.exponent) * log;
        // `expm1(x) / x` tends to 1 here, where the integral is the logarithm.
        if scaled.abs() < 1e-8 { log } else { scaled.exp_m1() / scaled * log }
    }

    /// Returns the upper limit at which the integral equals `area`.
    fn inverse(&self, area: f64) -> f64 {
        let scaled = ((1.0 - self.exponent) * area).max(-1.0);
        if scaled.abs() < 1e-8 { area.exp() } else { (scaled.ln_1p() / scaled * area).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_as_frequent_as_zipf_says() {
        const DRAWS: usize = 400_000;
        for exponent in [0.7, 0.9, 1.0, 1.1, 2.0] {
            for ranks in [1, 2, 7, 1_000] {
                let sampler = RankSampler::new(ranks, exponent);
                let mut random = SimRng::new(1, ranks as u64);
                let mut counts = vec![0_u32; ranks];
                (0..DRAWS).for_each(|_| counts[sampler.draw(&mut random)] += 1);

                let sum: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).sum();
                for (rank, count) in counts.into_iter().enumerate() {
                    let expected = DRAWS as f64 * ((rank + 1) as f64).powf(-exponent) / sum;
                    let tolerance = 6.0 * expected.sqrt() + 1.0;
                    let difference = (f64::from(count) - expected).abs();
                    assert!(difference <= tolerance, "{exponent} {ranks} {rank}: {count}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn half_of_log_normal_numbers_are_below_the_median() {
        let mut random = SimRng::new(1, 0);
        let mut numbers: Vec<f64> = (0..100_000).map(|_| random.log_normal(8.0, 1.5)).collect();
        numbers.sort_by(f64::total_cmp);
        // The quantile at one standard deviation above the median is e^sigma times the median.
        for (quantile, expected) in [(0.5, 8.0), (0.8413, 8.0 * 1.5_f64.exp()), (0.1587, 8.0 / 1.5_f64.exp())]
        {
            let found = numbers[(quantile * numbers.len() as f64) as usize];
            assert!((found / expected - 1.0).abs() < 0.05, "{quantile}: {found}, not {expected}");
        }
    }

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let first = |seed, stream| SimRng::new(seed, stream).next();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
    }
}
