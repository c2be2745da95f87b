//! Data that a read may access: only memory, or files too.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use futures::future::{pending, try_join_all};
use smallvec::SmallVec;

use crate::Result;

/// Data that a read may use.
///
/// Reads of several parts are written once, as an `async fn` that takes an `Access`; their `*_cached` variant
/// polls the future once. Only leaf reads exist twice: `x_cached`, which returns `None` if anything is not in
/// memory, and `x`, which tries it first. A warm lookup in one base takes about 90 ns, so `EdgeView::of_cached`,
/// `EdgeParts::find_cached`, `EdgeParts::gather` and `VertexParts::take_cached` call the leaf without creating a
/// future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only data in memory: no I/O, no decode, no wait. If anything is missing, the future stays pending forever.
    Resident,
    /// Data in memory, then files.
    Loading,
}

impl Access {
    /// Calls the leaf read of this access. `load` is expected to try `resident` first.
    pub(crate) async fn read<T, F>(
        self,
        resident: impl FnOnce() -> Option<Result<T>>,
        load: impl FnOnce() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        if self == Self::Loading {
            return load().await;
        }
        if let Some(found) = resident() {
            return found;
        }
        pending().await
    }

    /// Runs `read` for each item with this access: one after another if none can wait, otherwise concurrently.
    pub(crate) async fn read_all<I, T, F>(
        self,
        items: impl Iterator<Item = I>,
        read: impl Fn(I) -> F,
    ) -> Result<SmallVec<[T; 2]>>
    where
        F: Future<Output = Result<T>>,
    {
        if self == Self::Loading {
            return Ok(try_join_all(items.map(read)).await?.into());
        }
        if let Some(found) = items.map(|item| poll_once(pin!(read(item)))).collect() {
            return found;
        }
        pending().await
    }
}

/// Polls a future once; returns `None` if it is pending. The future stays where it is: these are large, and moving one
/// takes longer than some lookups.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn square(access: Access, number: u64) -> Result<u64> {
        let resident = || (number < 10).then_some(Ok(number * number));
        access.read(resident, || async move { Ok(number * number) }).await
    }

    async fn squares(access: Access, numbers: std::ops::Range<u64>) -> Result<u64> {
        Ok(access.read_all(numbers, |number| square(access, number)).await?.into_iter().sum())
    }

    #[test]
    fn a_resident_read_is_ready_only_if_all_of_it_is_in_memory() {
        assert_eq!(poll_once(pin!(squares(Access::Resident, 7..10))).unwrap().unwrap(), 49 + 64 + 81);
        assert!(poll_once(pin!(squares(Access::Resident, 7..11))).is_none());
        assert_eq!(poll_once(pin!(squares(Access::Loading, 9..11))).unwrap().unwrap(), 81 + 100);
        assert_eq!(poll_once(pin!(squares(Access::Resident, 3..3))).unwrap().unwrap(), 0);
    }
}
