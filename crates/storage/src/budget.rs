//! The one memory budget of the process: who holds how much of it, and who may take more.
//!
//! Whoever wants memory reserves it first. A refusal means "go on without caching": nothing here blocks or fails.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::ByteSize;

/// A number of bytes that several parties share. Cheap to clone: all clones count together.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    capacity: u64,
    used: AtomicU64,
}

impl Budget {
    /// A budget of this many bytes, all of them free.
    pub fn new(capacity: ByteSize) -> Self {
        Self { shared: Arc::new(Shared { capacity: capacity.as_u64(), used: AtomicU64::new(0) }) }
    }

    /// Takes `bytes` until the reservation is dropped, or `None` where they are not free.
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        let take = |used: u64| used.checked_add(bytes).filter(|total| *total <= self.shared.capacity);
        let taken = self.shared.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.is_ok().then(|| Reservation { budget: self.clone(), bytes })
    }

    /// Takes `bytes` until the reservation is dropped, free or not: for what is in memory anyway, so that others take less.
    pub fn hold(&self, bytes: u64) -> Reservation {
        let take = |used: u64| Some(used.saturating_add(bytes));
        let before = self.shared.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        let before = before.unwrap_or_else(|used| used);
        Reservation { budget: self.clone(), bytes: before.saturating_add(bytes) - before }
    }

    /// Bytes in all.
    pub fn capacity(&self) -> u64 {
        self.shared.capacity
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Acquire)
    }
}

/// Bytes of a [`Budget`]; they are free again when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: u64,
}

impl Reservation {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Holds so many bytes from now on. `false`, and all stays as it is, where more are wanted than are free.
    pub fn try_resize(&mut self, bytes: u64) -> bool {
        if bytes > self.bytes {
            let Some(mut more) = self.budget.try_reserve(bytes - self.bytes) else { return false };
            // This one holds it now.
            more.bytes = 0;
        } else {
            self.budget.shared.used.fetch_sub(self.bytes - bytes, Ordering::AcqRel);
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.shared.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_reserved_again() {
        let budget = Budget::new(ByteSize::bytes(10));
        let six = budget.try_reserve(6).unwrap();
        assert!(budget.try_reserve(5).is_none());
        let mut four = budget.try_reserve(4).unwrap();
        assert_eq!(budget.used(), 10);
        assert!(four.try_resize(3));
        assert_eq!((four.bytes(), budget.used()), (3, 9));
        assert!(!four.try_resize(5) && four.try_resize(4));
        assert_eq!((four.bytes(), budget.used()), (4, 10));
        drop((six, four));
        assert_eq!(budget.used(), 0);
        assert!(budget.try_reserve(u64::MAX).is_none());
    }

    #[test]
    fn what_is_there_anyway_leaves_less_to_others() {
        let budget = Budget::new(ByteSize::bytes(10));
        let much = budget.hold(12);
        assert_eq!((much.bytes(), budget.used()), (12, 12));
        assert!(budget.try_reserve(1).is_none());
        drop(much);
        let all = budget.hold(u64::MAX);
        assert_eq!(budget.hold(1).bytes(), 0);
        drop(all);
        assert_eq!(budget.used(), 0);
        assert!(budget.try_reserve(10).is_some());
    }

    #[test]
    fn a_budget_of_nothing_gives_nothing() {
        let budget = Budget::new(ByteSize::ZERO);
        assert!(budget.try_reserve(1).is_none());
        assert!(budget.try_reserve(0).is_some());
    }
}
