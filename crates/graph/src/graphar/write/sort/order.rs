//! Order of edges in an adjacency list.
//!
//! Edges are first partitioned into the parts of the list, stably. Then stretches of parts are sorted in parallel, as
//! integers that pack both ends and the position of an edge: only integers are compared, and edges with the same ends
//! keep their order.

use std::{ops::Range, thread};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::Int64Type,
};
use parking_lot::Mutex;

use super::buffer::BufferedEdges;
use crate::{
    graphar::{AdjacencyOrder, Side},
    sort::RunOrder,
};

/// Minimum number of edges that one thread sorts.
const STRETCH: usize = 1 << 16;

/// Layout of a list's edges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdjacencyLayout {
    pub(crate) order: AdjacencyOrder,
    /// Vertices per part.
    pub(crate) part_size: u64,
    /// Number of vertices that it is aligned by.
    pub(crate) vertices: u64,
}

impl AdjacencyLayout {
    /// Returns the vertex that decides the part of an edge, and the other.
    pub(crate) fn aligned(&self, source: u64, destination: u64) -> (u64, u64) {
        match self.order.aligned_by() {
            Side::Source => (source, destination),
            Side::Dest => (destination, source),
        }
    }

    /// Returns the sort key; edges with equal keys keep their order.
    pub(crate) fn key(&self, source: u64, destination: u64) -> (u64, u64) {
        let (major, minor) = self.aligned(source, destination);
        if self.order.is_ordered() { (major, minor) } else { (self.part(major), 0) }
    }

    /// Returns the part of a vertex's edges.
    pub(crate) fn part(&self, vertex: u64) -> u64 {
        if self.part_size >= self.vertices { 0 } else { vertex / self.part_size.max(1) }
    }

    pub(crate) fn parts(&self) -> u64 {
        self.vertices.div_ceil(self.part_size.max(1))
    }

    /// Returns the row numbers of all edges, in list order.
    pub(crate) fn sort(&self, edges: &BufferedEdges, threads: usize) -> Vec<u32> {
        let (mut rows, ends) = self.partition(edges);
        if !self.order.is_ordered() {
            return rows;
        }

        let mut left = rows.as_mut_slice();
        let mut stretches = Vec::new();
        for range in stretches_of(&ends) {
            let (stretch, rest) = left.split_at_mut(range.len().min(left.len()));
            stretches.push(stretch);
            left = rest;
        }

        // The largest last, since `pop` takes from the end.
        stretches.sort_by_key(|stretch| stretch.len());
        let threads = threads.min(stretches.len());
        let stretches = Mutex::new(stretches);
        let work = || {
            while let Some(stretch) = { stretches.lock().pop() } {
                self.sort_stretch(edges, stretch);
            }
        };

        thread::scope(|scope| {
            for _ in 1..threads {
                // If no thread can be spawned, this one does all the work.
                let _ = thread::Builder::new().name("stylobate-sort".to_owned()).spawn_scoped(scope, work);
            }
            work();
        });
        rows
    }

    /// Returns the row numbers of edges part by part, and the end of each part.
    fn partition(&self, edges: &BufferedEdges) -> (Vec<u32>, Vec<u32>) {
        let count = edges.len() as u32;
        let parts = usize::try_from(self.parts()).unwrap_or(usize::MAX);
        if parts <= 1 {
            return ((0..count).collect(), vec![count]);
        }

        let part = |row: u32| self.part(self.aligned(edges.source.get(row), edges.destination.get(row)).0);
        let mut next = vec![0_u32; parts];
        for row in 0..count {
            if let Some(edges) = next.get_mut(part(row) as usize) {
                *edges += 1;
            }
        }

        let mut start = 0;
        for offset in &mut next {
            start += std::mem::replace(offset, start);
        }

        let mut rows = vec![0_u32; edges.len()];
        for row in 0..count {
            let Some(offset) = next.get_mut(part(row) as usize) else { continue };
            if let Some(slot) = rows.get_mut(*offset as usize) {
                *slot = row;
            }
            *offset += 1;
        }

        (rows, next)
    }

    fn sort_stretch(&self, edges: &BufferedEdges, rows: &mut [u32]) {
        let key = |row: u32| self.aligned(edges.source.get(row), edges.destination.get(row));
        let keys = || rows.iter().map(|row| key(*row));
        let (min_major, max_major) =
            keys().fold((u64::MAX, 0), |(min, max), (major, _)| (min.min(major), max.max(major)));
        let minor_bits = bits(keys().map(|(_, minor)| minor).max().unwrap_or(0));
        let position_bits = bits(rows.len() as u64);
        let all_bits = bits(max_major.saturating_sub(min_major)) + minor_bits + position_bits;
        let position_mask = (1_u64 << position_bits) - 1;

        if all_bits <= u64::BITS {
            let pack = |position: usize, row: u32| {
                let (major, minor) = key(row);
                // A shift by all bits would overflow, but nothing is left to shift then.
                let major = (major - min_major).checked_shl(minor_bits).unwrap_or(0);
                ((major | minor) << position_bits) | position as u64
            };
            sort_packed(rows, pack, |packed| (packed & position_mask) as usize);
        } else if all_bits <= u128::BITS {
            let pack = |position: usize, row: u32| {
                let (major, minor) = key(row);
                ((u128::from(major - min_major) << minor_bits | u128::from(minor)) << position_bits)
                    | position as u128
            };
            sort_packed(rows, pack, |packed| (packed & u128::from(position_mask)) as usize);
        } else {
            rows.sort_by_key(|row| key(*row));
        }
    }
}

impl RunOrder for AdjacencyLayout {
    type Key = (u64, u64);

    const OF: &'static str = "edges";

    fn row_key(&self, edges: &RecordBatch, row: usize) -> Option<Self::Key> {
        let end = |column: usize| {
            let ends = edges.columns().get(column)?.as_primitive_opt::<Int64Type>()?;
            ends.values().get(row).map(|index| *index as u64)
        };
        Some(self.key(end(0)?, end(1)?))
    }
}

fn sort_packed<K: Ord + Copy>(rows: &mut [u32], pack: impl Fn(usize, u32) -> K, unpack: impl Fn(K) -> usize) {
    let before = rows.to_vec();
    let mut packed: Vec<K> = before.iter().enumerate().map(|(position, row)| pack(position, *row)).collect();
    packed.sort_unstable();
    for (row, packed) in rows.iter_mut().zip(packed) {
        *row = before.get(unpack(packed)).copied().unwrap_or_default();
    }
}

/// Returns the bits of numbers up to `max`.
fn bits(max: u64) -> u32 {
    u64::BITS - max.leading_zeros()
}

/// Groups whole parts into stretches large enough for a thread.
fn stretches_of(ends: &[u32]) -> Vec<Range<usize>> {
    let mut stretches = Vec::new();
    let mut start = 0;
    for (number, end) in ends.iter().enumerate() {
        let end = *end as usize;
        let is_last = number + 1 == ends.len();
        if end > start && (end - start >= STRETCH || is_last) {
            stretches.push(start..end);
            start = end;
        }
    }

    stretches
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::graphar::write::sort::buffer::EdgeSortBuffer;

    fn edges(ends: &[(u64, u64)], vertices: u64) -> BufferedEdges {
        let field = |name| Field::new(name, DataType::Int64, false);
        let none = Schema::empty();
        let schema = Arc::new(Schema::new(vec![field("src"), field("dst")]));
        let mut buffer = EdgeSortBuffer::new(schema, &none, (vertices, vertices), 0);
        let (source, destination): (Vec<u64>, Vec<u64>) = ends.iter().copied().unzip();
        buffer.push(&source, &destination, &RecordBatch::new_empty(Arc::new(none))).unwrap();
        buffer.take().unwrap()
    }

    #[test]
    fn edges_are_in_the_order_of_a_stable_sort() {
        let mut random = StdRng::seed_from_u64(1);
        for (count, vertices, part_size) in [
            (0, 5, 2),
            (1, 1, 1),
            (1000, 10, 3),
            (1000, 1, 4),
            (200_000, 5_000, 7),
            (300_000, 1 << 45, 1 << 43),
        ] {
            let ends: Vec<(u64, u64)> = (0..count)
                .map(|_| (random.random_range(0..vertices), random.random_range(0..vertices)))
                .collect();
            let all = edges(&ends, vertices);
            for order in [
                AdjacencyOrder::OrderedBySource,
                AdjacencyOrder::OrderedByDest,
                AdjacencyOrder::UnorderedBySource,
                AdjacencyOrder::UnorderedByDest,
            ] {
                let arrangement = AdjacencyLayout { order, part_size, vertices };
                let mut wanted: Vec<u32> = (0..count as u32).collect();
                wanted.sort_by_key(|row| {
                    let (source, destination) = ends[*row as usize];
                    arrangement.key(source, destination)
                });

                for threads in [1, 4] {
                    assert!(
                        arrangement.sort(&all, threads) == wanted,
                        "{order} {count} {vertices} {part_size}"
                    );
                }
            }
        }
    }

    #[test]
    fn ends_of_any_width_are_sorted() {
        let max = i64::MAX as u64;
        let ends = [(max, max), (0, max), (max, 0), (0, max), (0, 0)];
        let arrangement =
            AdjacencyLayout { order: AdjacencyOrder::OrderedBySource, part_size: max, vertices: max };
        assert_eq!(arrangement.sort(&edges(&ends, u64::MAX), 2), [4, 1, 3, 2, 0]);
        let ends = [(0, 1 << 62), (1, 3)];
        assert_eq!(arrangement.sort(&edges(&ends, u64::MAX), 2), [0, 1]);
    }
}
