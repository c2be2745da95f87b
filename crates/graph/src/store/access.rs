//! Data that a read may access: only memory, or files too.

use futures::{
    FutureExt,
    future::{pending, try_join_all},
};
use smallvec::SmallVec;

use crate::Result;

/// Data that a read may use.
///
/// Reads of several parts are written once, as an `async fn` that takes an `Access`; their `*_cached` variant polls the
/// future once. Only leaf reads exist twice: `x_cached`, which returns `None` if anything is not in memory, and `x`,
/// which tries it first. A warm lookup in one base takes about 90 ns, so `EdgeView::of_cached`,
/// `EdgeParts::find_cached` and `VertexParts::take_cached` call the leaf without creating a future.
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

    /// Runs reads with this access: one after another if none can wait, otherwise concurrently.
    pub(crate) async fn read_all<T, F>(self, reads: impl Iterator<Item = F>) -> Result<SmallVec<[T; 2]>>
    where
        F: Future<Output = Result<T>>,
    {
        if self == Self::Loading {
            return Ok(try_join_all(reads).await?.into());
        }
        if let Some(found) = reads.map(FutureExt::now_or_never).collect() {
            return found;
        }
        pending().await
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
        Ok(access.read_all(numbers.map(|number| square(access, number))).await?.into_iter().sum())
    }

    #[test]
    fn a_resident_read_is_ready_only_if_all_of_it_is_in_memory() {
        assert_eq!(squares(Access::Resident, 7..10).now_or_never().unwrap().unwrap(), 49 + 64 + 81);
        assert!(squares(Access::Resident, 7..11).now_or_never().is_none());
        assert_eq!(squares(Access::Loading, 9..11).now_or_never().unwrap().unwrap(), 81 + 100);
        assert_eq!(squares(Access::Resident, 3..3).now_or_never().unwrap().unwrap(), 0);
    }
}
