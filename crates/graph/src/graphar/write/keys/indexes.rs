//! Vector of vertex indexes, in 4 bytes each if they fit.

use arrow::array::Int64Array;

/// Numbers below a bound that is known in advance.
#[derive(Debug)]
pub(crate) enum VertexIndexVec {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl VertexIndexVec {
    /// Returns an empty vector for numbers below `bound`, with address space reserved for `room` of them: unused space
    /// takes no memory, and growth copies nothing.
    pub(crate) fn below(bound: u64, room: usize) -> Self {
        if Self::width(bound) == size_of::<u32>() {
            Self::Narrow(with_room(room))
        } else {
            Self::Wide(with_room(room))
        }
    }

    /// Returns the bytes per number below `bound`.
    pub(crate) fn width(bound: u64) -> usize {
        if bound <= 1 << 32 { size_of::<u32>() } else { size_of::<u64>() }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Narrow(all) => all.len(),
            Self::Wide(all) => all.len(),
        }
    }

    /// Appends numbers, which are below the bound.
    pub(crate) fn extend(&mut self, more: &[u64]) {
        match self {
            Self::Narrow(all) => {
                make_room(all, more.len());
                all.extend(more.iter().map(|index| *index as u32));
            }
            Self::Wide(all) => {
                make_room(all, more.len());
                all.extend_from_slice(more);
            }
        }
    }

    /// Returns the number at a position, which was appended.
    pub(crate) fn get(&self, at: u32) -> u64 {
        let found = match self {
            Self::Narrow(all) => all.get(at as usize).copied().map(u64::from),
            Self::Wide(all) => all.get(at as usize).copied(),
        };
        found.unwrap_or_default()
    }

    /// Returns the numbers at some positions.
    pub(crate) fn take(&self, positions: &[u32]) -> Int64Array {
        positions.iter().map(|at| self.get(*at) as i64).collect::<Vec<i64>>().into()
    }
}

/// Reserves space if the allocator grants it; otherwise the vector grows on demand.
fn with_room<T>(room: usize) -> Vec<T> {
    let mut all = Vec::new();
    let _ = all.try_reserve_exact(room);
    all
}

/// Grows by at least an eighth: doubling would copy what may be most of the memory.
pub(crate) fn make_room<T>(all: &mut Vec<T>, more: usize) {
    if all.capacity() - all.len() < more {
        all.reserve_exact(more.max(all.len() / 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_whatever_their_width() {
        for bound in [10, 1 << 32, 1 << 40] {
            let mut indexes = VertexIndexVec::below(bound, 2);
            indexes.extend(&[0, bound - 1]);
            indexes.extend(&[5]);
            assert_eq!((indexes.len(), indexes.get(1), indexes.get(2)), (3, bound - 1, 5));
            assert_eq!(indexes.take(&[2, 1]).values().as_ref(), [5, (bound - 1) as i64]);
        }
        assert_eq!((VertexIndexVec::width(9), VertexIndexVec::width(u64::MAX)), (4, 8));
    }
}
