//! Compares the value interner with a hash map that owns its keys, on the same number of rows with fewer or more
//! distinct values.

use divan::{Bencher, black_box, counter::ItemsCount};
use hashbrown::{HashMap, hash_map::EntryRef};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::ValueInterner;

use crate::sample_bytes::strings;

const ROWS: usize = 500_000;
const DISTINCT: [usize; 3] = [1_000, 100_000, 500_000];

/// Rows whose values are consecutive in memory, as on a page.
struct InternerInput {
    bytes: Vec<u8>,
    width: usize,
    distinct: usize,
}

impl InternerInput {
    /// Draws the rows from `distinct` values; each occurs once if there are as many as rows.
    fn new(distinct: usize) -> Self {
        let values = strings(distinct);
        let mut random = StdRng::seed_from_u64(23);
        let mut bytes = Vec::new();
        for row in 0..ROWS {
            let at = if distinct == ROWS { row } else { random.random_range(0..distinct) };
            bytes.extend_from_slice(values[at].as_bytes());
        }

        Self { bytes, width: values[0].len(), distinct }
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        black_box(&self.bytes).chunks_exact(self.width)
    }
}

#[divan::bench(args = DISTINCT)]
fn ours(bencher: Bencher, distinct: usize) {
    let input = InternerInput::new(distinct);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let mut interner = ValueInterner::default();
        let codes = interner.intern_all(input.rows()).unwrap();
        assert!(interner.values().len() > input.distinct / 2);
        codes.len()
    });
}

#[divan::bench(args = DISTINCT)]
fn hash_map(bencher: Bencher, distinct: usize) {
    let input = InternerInput::new(distinct);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let mut known: HashMap<Box<[u8]>, u32> = HashMap::new();
        let mut codes = Vec::with_capacity(ROWS);
        for value in input.rows() {
            let next = known.len() as u32;
            codes.push(match known.entry_ref(value) {
                EntryRef::Occupied(entry) => *entry.get(),
                EntryRef::Vacant(entry) => *entry.insert_with_key(value.into(), next),
            });
        }

        assert!(known.len() > input.distinct / 2);
        black_box(codes).len()
    });
}
