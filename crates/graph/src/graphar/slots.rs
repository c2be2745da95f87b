//! Sparse vector of values that are initialized once, on first use.

use std::sync::OnceLock;

use tokio::sync::OnceCell;

/// Exclusive upper bound of the numbers that have a slot.
pub(super) const MAX_SLOTS: u64 = 1 << 22;
const SEGMENTS: usize = MAX_SLOTS.trailing_zeros() as usize + 1;

/// Slots in segments, each as large as all previous ones together: lookups are lock-free, and segments are allocated on
/// demand.
pub(super) struct OnceCellVec<T> {
    segments: [OnceLock<Box<[OnceCell<T>]>>; SEGMENTS],
}

impl<T> Default for OnceCellVec<T> {
    fn default() -> Self {
        Self { segments: std::array::from_fn(|_| OnceLock::new()) }
    }
}

impl<T> OnceCellVec<T> {
    /// Returns the value of a number, if initialized.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let (segment, at) = segment_and_offset(number)?;
        self.segments.get(segment)?.get()?.get(at)?.get()
    }

    /// Returns all initialized values.
    pub(super) fn made(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().filter_map(OnceLock::get).flatten().filter_map(OnceCell::get)
    }

    /// Returns the value of a number, or initializes it; concurrent callers wait for it. `None` if the number has no
    /// slot.
    pub(super) async fn get_or_try_make<E>(
        &self,
        number: u64,
        make: impl Future<Output = Result<T, E>>,
    ) -> Option<Result<&T, E>> {
        let (segment, at) = segment_and_offset(number)?;
        let slots = self.segments.get(segment)?.get_or_init(|| {
            let len = if segment == 0 { 1 } else { 1 << (segment - 1) };
            (0..len).map(|_| OnceCell::new()).collect()
        });
        Some(slots.get(at)?.get_or_try_init(|| make).await)
    }
}

/// Returns the segment and offset of a number: segment 0 holds number 0, segment 1 number 1, segment 2 the next two,
/// and so on.
fn segment_and_offset(number: u64) -> Option<(usize, usize)> {
    if number >= MAX_SLOTS {
        return None;
    }
    let segment = (u64::BITS - number.leading_zeros()) as usize;
    let first = if segment == 0 { 0 } else { 1 << (segment - 1) };
    Some((segment, number as usize - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_number_has_a_slot_of_its_own() {
        let slots = OnceCellVec::default();
        for number in 0..300_u64 {
            assert!(slots.get(number).is_none());
            let made = slots.get_or_try_make(number, async { Ok::<_, ()>(number) }).await;
            assert_eq!(made, Some(Ok(&number)));
        }
        assert!((0..300).all(|number| slots.get(number) == Some(&number)));
        assert_eq!(slots.get_or_try_make(5, async { Ok::<_, ()>(6) }).await, Some(Ok(&5)), "made once");
        assert!(slots.get_or_try_make(u64::MAX, async { Ok::<_, ()>(0) }).await.is_none());
        assert_eq!(segment_and_offset(MAX_SLOTS - 1), Some((SEGMENTS - 1, (MAX_SLOTS / 2 - 1) as usize)));
    }

    #[tokio::test]
    async fn what_failed_is_tried_again() {
        let slots = OnceCellVec::default();
        assert_eq!(slots.get_or_try_make(7, async { Err("no") }).await, Some(Err("no")));
        assert_eq!(slots.get_or_try_make(7, async { Ok::<_, &str>(1) }).await, Some(Ok(&1)));
    }
}
