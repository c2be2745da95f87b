//! Random numbers that depend only on the seed, the column and the row, not on earlier draws: any thread can start at
//! any row.

use crate::checksum::hash_of_number;

/// The step between states of SplitMix64.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Random columns, each with its own sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RandomColumn {
    FirstName,
    LastName,
    Age,
    /// Sources of the edge type with this number.
    Source(u64),
    Destination(u64),
    Date(u64),
}

/// Random numbers of one column.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnRandom {
    start: u64,
}

impl ColumnRandom {
    pub(super) fn new(seed: u64, drawn: RandomColumn) -> Self {
        let stream = match drawn {
            RandomColumn::FirstName => 0,
            RandomColumn::LastName => 1,
            RandomColumn::Age => 2,
            RandomColumn::Source(edges) => 4 * edges + 4,
            RandomColumn::Destination(edges) => 4 * edges + 5,
            RandomColumn::Date(edges) => 4 * edges + 6,
        };
        Self { start: hash(hash(seed) ^ stream) }
    }

    /// Returns a number below `count` for a row, which is counted from 0.
    pub(super) fn below(self, row: u64, count: u64) -> u64 {
        let drawn = hash(self.start.wrapping_add(row.wrapping_mul(STEP)));
        ((u128::from(drawn) * u128::from(count)) >> 64) as u64
    }
}

fn hash(number: u64) -> u64 {
    hash_of_number(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_evenly_and_each_column_has_its_own() {
        let draws = [RandomColumn::Age, RandomColumn::Source(0), RandomColumn::Source(1)]
            .map(|drawn| ColumnRandom::new(1, drawn));
        let mut counts = [0; 10];
        let mut same = 0;
        for row in 0..100_000 {
            counts[draws[0].below(row, 10) as usize] += 1;
            same += u32::from(draws[1].below(row, 1_000) == draws[2].below(row, 1_000));
        }

        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert!((50..200).contains(&same), "{same}");
        assert_ne!(draws[0].below(5, 1 << 40), ColumnRandom::new(2, RandomColumn::Age).below(5, 1 << 40));
    }
}
