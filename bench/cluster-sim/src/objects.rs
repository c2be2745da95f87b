//! The objects of the simulation: names, sizes and stripes.

use std::ops::Range;

use anyhow::{Context, Result};
use stylobate_client::{PathHash, StripeKey, stripe_parts};

use crate::random::SimRng;

/// Median of the sizes, which are log-normal.
pub(crate) const MEDIAN_BYTES: f64 = (8 << 20) as f64;
/// Standard deviation of the natural logarithm of the sizes: the mean is 24.6 MiB, and 8% have more than one stripe.
pub(crate) const SIGMA: f64 = 1.5;

/// All objects of a bucket. Sizes are independent of object numbers.
pub(crate) struct ObjectSet {
    paths: Vec<PathHash>,
    sizes: Vec<u64>,
    /// Index of the first stripe of each object, followed by the total number of stripes.
    first_stripes: Vec<u32>,
}

/// A stripe of an object.
pub(crate) struct ObjectStripe {
    /// Index of the stripe among all stripes.
    pub(crate) number: u32,
    pub(crate) key: StripeKey,
    pub(crate) bytes: u64,
}

impl ObjectSet {
    /// Creates `count` objects. Fails if their stripes exceed 32 bits.
    pub(crate) fn new(count: usize, seed: u64) -> Result<Self> {
        let mut objects = Self { paths: Vec::new(), sizes: Vec::new(), first_stripes: vec![0] };
        let mut random = SimRng::new(seed, 0);
        let mut stripes: u32 = 0;
        for number in 0..count {
            let name = format!("table-{}/part-{:05}.parquet", number / 10_000, number % 10_000);
            let size = (random.log_normal(MEDIAN_BYTES, SIGMA) as u64).max(1);
            let own_stripes = stripe_parts(0..size).count() as u32;
            stripes = stripes.checked_add(own_stripes).context("these objects have too many stripes")?;

            objects.paths.push(PathHash::of("lake", &name));
            objects.sizes.push(size);
            objects.first_stripes.push(stripes);
        }
        Ok(objects)
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the bytes of all objects.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Returns the number of stripes of all objects.
    pub(crate) fn stripe_count(&self) -> usize {
        self.first_stripes.last().map_or(0, |count| *count as usize)
    }

    /// Returns the number of objects with more than one stripe.
    pub(crate) fn large_count(&self) -> usize {
        self.first_stripes.windows(2).filter(|pair| pair[1] - pair[0] > 1).count()
    }

    /// Returns the stripes of an object.
    pub(crate) fn stripes(&self, object: usize) -> impl Iterator<Item = ObjectStripe> {
        let path = self.paths[object];
        let numbers = self.first_stripes[object]..;
        let parts = stripe_parts(0..self.sizes[object]);
        numbers.zip(parts).map(move |(number, part)| ObjectStripe {
            number,
            key: path.stripe(part.stripe),
            bytes: part.range.end - part.range.start,
        })
    }

    /// Returns the stripes of a range of objects.
    pub(crate) fn stripes_of(&self, objects: Range<usize>) -> impl Iterator<Item = ObjectStripe> {
        objects.flat_map(|object| self.stripes(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_numbered_through_and_have_all_bytes() {
        let objects = ObjectSet::new(2_000, 1).unwrap();
        let stripes: Vec<_> = objects.stripes_of(0..objects.len()).collect();
        assert!(stripes.iter().map(|stripe| stripe.number).eq(0..objects.stripe_count() as u32));
        assert_eq!(stripes.iter().map(|stripe| stripe.bytes).sum::<u64>(), objects.bytes());
        let large = objects.large_count();
        assert!((100..250).contains(&large), "{large} of 2,000 have more than one stripe");
    }
}
