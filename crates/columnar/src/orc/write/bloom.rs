//! Builds bloom filters of row groups.

use orc_rust::proto::BloomFilter;

/// Hashes of the values of a stripe's row groups, and the false positive rate of their filters.
pub(in crate::orc) struct OrcBloomFilterBuilder {
    false_positives: f64,
    /// Hashes of the row group that is being filled.
    hashes: Vec<u64>,
    /// Distinct hashes of complete row groups.
    groups: Vec<Box<[u64]>>,
    /// Number of hashes in `groups`.
    ended: usize,
}

impl OrcBloomFilterBuilder {
    pub(in crate::orc) fn new(false_positives: f64) -> Self {
        Self { false_positives, hashes: Vec::new(), groups: Vec::new(), ended: 0 }
    }

    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        self.hashes.push(murmur3(bytes));
    }

    pub(in crate::orc) fn add_whole(&mut self, value: i64) {
        self.hashes.push(mixed(value));
    }

    pub(super) fn add_float(&mut self, value: f64) {
        // A search may be for a zero of either sign.
        if value == 0.0 {
            self.add_whole((-value).to_bits() as i64);
        }
        // All NaNs are one value to Java.
        let value = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
        self.add_whole(value as i64);
    }

    /// Ends the row group.
    pub(in crate::orc) fn end_group(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        self.groups.push(self.hashes.as_slice().into());
        self.ended += self.hashes.len();
        self.hashes.clear();
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        let ended = self.ended + self.groups.capacity() * 2;
        (self.hashes.capacity() + ended) * size_of::<u64>()
    }

    /// Returns the filters of complete row groups: all of the size that the row group with the most distinct values
    /// needs, so that they can be merged.
    pub(in crate::orc) fn filters(self) -> impl Iterator<Item = BloomFilter> {
        let values = self.groups.iter().map(|hashes| hashes.len()).max().unwrap_or_default().max(1) as f64;
        let ln_2 = std::f64::consts::LN_2;
        let bits = (-values * self.false_positives.ln() / (ln_2 * ln_2)).ceil();
        let words = (bits / 64.0).ceil().clamp(1.0, f64::from(i32::MAX / 64)) as usize;
        let bits = words as u32 * u64::BITS;
        let functions = (f64::from(bits) / values * ln_2).round().clamp(1.0, 30.0) as u32;

        let filter = move |hashes: Box<[u64]>| {
            let mut set = vec![0_u8; words * 8];
            for bit in hashes.iter().flat_map(|hash| self::bits(*hash, functions as i32, bits)) {
                // Words are little-endian, so bytes are in the order of their bits.
                if let Some(byte) = set.get_mut(bit as usize / 8) {
                    *byte |= 1 << (bit % 8);
                }
            }

            BloomFilter {
                num_hash_functions: Some(functions),
                utf8bitset: Some(set),
                ..BloomFilter::default()
            }
        };

        self.groups.into_iter().map(filter)
    }
}

/// Returns the bits that a hash sets in a filter of `bits` bits.
pub(in crate::orc) fn bits(hash: u64, functions: i32, bits: u32) -> impl Iterator<Item = u32> {
    let first = hash as i32;
    let second = (hash >> 32) as i32;
    (1..=functions).map(move |function| {
        let combined = first.wrapping_add(function.wrapping_mul(second));
        let combined = if combined < 0 { !combined } else { combined };
        combined as u32 % bits
    })
}

/// Hashes an integer by Thomas Wang's function, as specified.
pub(in crate::orc) fn mixed(value: i64) -> u64 {
    let mut key = value;
    key = (!key).wrapping_add(key << 21);
    key ^= key >> 24;
    key = key.wrapping_add(key << 3).wrapping_add(key << 8);
    key ^= key >> 14;
    key = key.wrapping_add(key << 2).wrapping_add(key << 4);
    key ^= key >> 28;
    key.wrapping_add(key << 31) as u64
}

/// Returns the specified 64 bits of Murmur3, which are the first half of its 128 only for up to 8 bytes.
pub(in crate::orc) fn murmur3(bytes: &[u8]) -> u64 {
    const FACTORS: [u64; 2] = [0x87c3_7b91_1142_53d5, 0x4cf5_ad43_2745_937f];
    const SEED: u64 = 104_729;
    let scrambled = |word: u64| word.wrapping_mul(FACTORS[0]).rotate_left(31).wrapping_mul(FACTORS[1]);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = SEED;

    for word in words {
        hash ^= scrambled(u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(5).wrapping_add(0x52dc_e729);
    }

    if !rest.is_empty() {
        hash ^= scrambled(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }
    hash ^= bytes.len() as u64;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference_writers() {
        for (value, hash) in [
            (0, 0),
            (-1, 6_614_246_905_173_314_819),
            (-2, -5_218_250_166_726_157_773),
            (790_302_201, 1_499_534_499_340_523_007),
            (18_000_000_000, -1_097_054_448_615_658_549),
            (9_223_372_036_064_673_415, 294_188_322_706_112_357),
        ] {
            assert_eq!(mixed(value) as i64, hash, "{value}");
        }

        let times = "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age \
                     of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season \
                     of Light, it was the season of Darkness, it was the spring of hope, it was the winter of \
                     despair, we had everything before us, we had nothing before us, we were all going direct to \
                     Heaven, we were all going direct the other way.";
        assert_eq!(murmur3(times.as_bytes()), 305_830_725_663_368_540);
    }

    fn filters(false_positives: f64, add: impl Fn(&mut OrcBloomFilterBuilder)) -> Vec<BloomFilter> {
        let mut bloom = OrcBloomFilterBuilder::new(false_positives);
        add(&mut bloom);
        bloom.filters().collect()
    }

    #[test]
    fn filters_are_as_large_as_their_values_need_and_of_one_size() {
        let filters = filters(0.01, |bloom| {
            bloom.end_group();
            (0..10_000).for_each(|at| bloom.add_whole(at % 100));
            bloom.end_group();
            (0..10_000).for_each(|at| bloom.add_whole(at % 7));
            bloom.end_group();
        });

        let sizes: Vec<usize> = filters.iter().map(|filter| filter.utf8bitset().len()).collect();
        assert!((119..=128).contains(&sizes[0]) && sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
        assert!(filters.iter().all(|filter| filter.num_hash_functions == filters[0].num_hash_functions));
        assert!(filters[0].utf8bitset().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn either_zero_is_found_where_the_other_is() {
        let of = |value: f64| {
            filters(0.01, |bloom| {
                bloom.add_float(value);
                bloom.end_group();
            })
        };
        assert_eq!(of(0.0), of(-0.0));
        assert_ne!(of(0.0), of(1.0));
    }
}
