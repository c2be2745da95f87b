//! What is made once for each of many numbers, of which few may ever be asked for.

use std::sync::OnceLock;

use tokio::sync::OnceCell;

/// Numbers from here on have no slot.
pub(super) const MOST: u64 = 1 << 22;
const SEGMENTS: usize = MOST.trailing_zeros() as usize + 1;

/// Slots in segments, each as large as all before it: found without a lock, and none is made before it is needed.
pub(super) struct OnceCellVec<T> {
    segments: [OnceLock<Box<[OnceCell<T>]>>; SEGMENTS],
}

impl<T> Default for OnceCellVec<T> {
    fn default() -> Self {
        Self { segments: std::array::from_fn(|_| OnceLock::new()) }
    }
}

impl<T> OnceCellVec<T> {
    /// What was made for a number.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let (segment, at) = place(number)?;
        self.segments.get(segment)?.get()?.get(at)?.get()
    }

    /// All that was made.
    pub(super) fn made(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().filter_map(OnceLock::get).flatten().filter_map(OnceCell::get)
    }

    /// What was made for a number, or is made now; others who ask meanwhile wait for it. `None` where a number is too
    /// large to be one.
    pub(super) async fn get_or_try_make<E>(
        &self,
        number: u64,
        make: impl Future<Output = Result<T, E>>,
    ) -> Option<Result<&T, E>> {
        let (segment, at) = place(number)?;
        let slots = self.segments.get(segment)?.get_or_init(|| {
            let len = if segment == 0 { 1 } else { 1 << (segment - 1) };
            (0..len).map(|_| OnceCell::new()).collect()
        });
        Some(slots.get(at)?.get_or_try_init(|| make).await)
    }
}

/// Segment 0 has the number 0, segment 1 the number 1, segment 2 the next two, and so on.
fn place(number: u64) -> Option<(usize, usize)> {
    if number >= MOST {
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
        assert_eq!(place(MOST - 1), Some((SEGMENTS - 1, (MOST / 2 - 1) as usize)));
    }

    #[tokio::test]
    async fn what_failed_is_tried_again() {
        let slots = OnceCellVec::default();
        assert_eq!(slots.get_or_try_make(7, async { Err("no") }).await, Some(Err("no")));
        assert_eq!(slots.get_or_try_make(7, async { Ok::<_, &str>(1) }).await, Some(Ok(&1)));
    }
}
