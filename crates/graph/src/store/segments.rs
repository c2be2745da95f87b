//! Immutable segments, each opened once for all holders, and dropped with the last holder.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::Result;

/// Number of entries at which dead ones are first removed; they are removed again whenever the number has doubled.
const FIRST_SWEEP: usize = 256;

type SegmentSlot<T> = Arc<tokio::sync::Mutex<Weak<T>>>;

/// Open segments, by an immutable key: a path, or a location in the log. A commit adds segments and invalidates none.
pub(crate) struct OpenSegments<K, T> {
    slots: Mutex<SegmentSlotMap<K, T>>,
}

struct SegmentSlotMap<K, T> {
    by_key: HashMap<K, SegmentSlot<T>>,
    sweep_at: usize,
}

impl<K, T> Default for OpenSegments<K, T> {
    fn default() -> Self {
        Self { slots: Mutex::new(SegmentSlotMap { by_key: HashMap::new(), sweep_at: FIRST_SWEEP }) }
    }
}

impl<K: Eq + Hash, T> OpenSegments<K, T> {
    /// Returns an open segment, or opens it; concurrent callers wait for it. The next caller retries a failed open.
    pub(crate) async fn get(&self, key: K, open: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let slot = self.slot(key);
        let mut held = slot.lock().await;
        if let Some(found) = held.upgrade() {
            return Ok(found);
        }
        let opened = Arc::new(open.await?);
        *held = Arc::downgrade(&opened);
        Ok(opened)
    }

    /// Adds a segment that was built here and need not be opened.
    pub(crate) fn put(&self, key: K, made: &Arc<T>) {
        // A concurrent opener of the same segment gets the same data.
        if let Ok(mut held) = self.slot(key).try_lock() {
            *held = Arc::downgrade(made);
        }
    }

    /// Visits all open segments.
    pub(crate) fn each(&self, mut look: impl FnMut(&T)) {
        let slots: Vec<SegmentSlot<T>> = self.slots.lock().by_key.values().cloned().collect();
        let open = slots.iter().filter_map(|slot| slot.try_lock().ok()?.upgrade());
        open.for_each(|open| look(&open));
    }

    fn slot(&self, key: K) -> SegmentSlot<T> {
        let mut slots = self.slots.lock();
        if slots.by_key.len() >= slots.sweep_at {
            slots.by_key.retain(|_, slot| Arc::strong_count(slot) > 1 || is_open(slot));
            slots.sweep_at = FIRST_SWEEP.max(slots.by_key.len() * 2);
        }
        slots.by_key.entry(key).or_default().clone()
    }
}

fn is_open<T>(slot: &SegmentSlot<T>) -> bool {
    slot.try_lock().is_ok_and(|held| held.strong_count() > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::Error;

    impl<K: Eq + Hash, T> OpenSegments<K, T> {
        fn open(&self) -> usize {
            let mut open = 0;
            self.each(|_| open += 1);
            open
        }
    }

    #[tokio::test]
    async fn what_is_held_is_opened_once_and_what_is_not_is_dropped() {
        let shared: OpenSegments<u32, String> = OpenSegments::default();
        let opened = AtomicU32::new(0);
        let open = || async {
            opened.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok("one".to_owned())
        };
        let (a, b) = futures::join!(shared.get(1, open()), shared.get(1, open()));
        let a = a.unwrap();
        let b = b.unwrap();
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!((opened.load(Ordering::SeqCst), shared.open()), (1, 1));
        drop((a, b));
        assert_eq!(shared.open(), 0);
        shared.get(1, open()).await.unwrap();
        assert_eq!(opened.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn what_failed_is_tried_again() {
        let shared: OpenSegments<u32, u32> = OpenSegments::default();
        let failed = shared.get(1, async { Err(Error::Ended { reason: "no".to_owned() }) }).await;
        failed.unwrap_err();
        assert_eq!(*shared.get(1, async { Ok(7) }).await.unwrap(), 7);
    }
}
