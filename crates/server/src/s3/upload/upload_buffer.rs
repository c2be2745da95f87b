//! Memory of uploads: the buffered bytes of each upload, and the limit for all of them.
//!
//! All uploads together hold at most a share of the node's memory, for which they queue; the caches shrink by the
//! bytes held. An upload that cannot be cut into parts that fit into the share waits until it has the whole share,
//! and takes the rest from the budget as it becomes free.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use object_store::PutPayload;
use s3s::{S3Result, s3_error};
use stylobate_storage::{Budget, Holder, PageCache, Reservation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) const MIB: u64 = 1 << 20;

/// Minimum part size that every provider accepts; a cache leaves at least this much memory to uploads.
pub(crate) const MIN_PART: u64 = 5 * MIB;

/// Interval at which a borrowing upload retries to reserve memory.
const BORROW_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Memory of all uploads. An upload, and with it its client, waits if none is free.
#[derive(Clone)]
pub(crate) struct UploadMemory {
    free_kib: Arc<Semaphore>,
    share: u64,
    /// Maximum bytes that a single upload may hold.
    max_upload_bytes: u64,
    budget: Budget,
}

/// Memory of one upload, released on drop.
pub(crate) struct UploadPermit {
    _share: OwnedSemaphorePermit,
    _reserved: Vec<Reservation>,
}

impl UploadMemory {
    /// Creates the upload memory in the budget of the cache.
    pub(crate) fn beside(cache: &PageCache) -> Self {
        let share = cache.upload_share().map_or(MIN_PART, |share| share.as_u64());
        let max_upload_bytes = cache.largest_upload().map_or(MIN_PART, |bytes| bytes.as_u64());
        Self::new(share, max_upload_bytes, cache.budget().clone())
    }

    fn new(share: u64, max_upload_bytes: u64, budget: Budget) -> Self {
        Self { free_kib: Arc::new(Semaphore::new((share >> 10) as usize)), share, max_upload_bytes, budget }
    }

    /// Returns the bytes that all uploads may hold together.
    pub(crate) fn share(&self) -> u64 {
        self.share
    }

    /// Returns the maximum bytes that one upload may hold.
    pub(crate) fn max_upload_bytes(&self) -> u64 {
        self.max_upload_bytes
    }

    /// Waits for `bytes`, at most [`max_upload_bytes`](Self::max_upload_bytes). An upload takes all that it will need
    /// at once, so that two uploads cannot wait for each other.
    pub(crate) async fn take(&self, bytes: u64) -> S3Result<UploadPermit> {
        let kib = bytes.div_ceil(1 << 10).min(self.share >> 10) as u32;
        let share = self.free_kib.clone().acquire_many_owned(kib).await;
        let share = share.map_err(|_| s3_error!(ServiceUnavailable))?;
        let bytes = bytes.min(self.max_upload_bytes);
        // This reservation is never refused: the share is small, and bounds all uploads together.
        let mut reserved = vec![self.budget.hold(Holder::Uploads, bytes.min(self.share))];
        reserved.extend(self.borrow(bytes.saturating_sub(self.share)).await);
        Ok(UploadPermit { _share: share, _reserved: reserved })
    }

    /// Reserves budget piece by piece, as it becomes free. Only an upload that holds the whole share borrows.
    async fn borrow(&self, mut bytes: u64) -> Vec<Reservation> {
        let mut borrowed = Vec::new();
        while bytes > 0 {
            let piece = bytes.min(MIB);
            match self.budget.try_reserve(Holder::Uploads, piece) {
                Some(reservation) => {
                    borrowed.push(reservation);
                    bytes -= piece;
                }
                None => tokio::time::sleep(BORROW_RETRY_INTERVAL).await,
            }
        }

        borrowed
    }
}

/// Buffered bytes, as the pieces in which they arrived.
#[derive(Default)]
pub(crate) struct PartBuffer {
    pieces: VecDeque<Bytes>,
    len: u64,
}

impl PartBuffer {
    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.len += bytes.len() as u64;
        self.pieces.push_back(bytes);
    }

    /// Returns the number of buffered bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Removes and returns the first `limit` bytes.
    pub(crate) fn take(&mut self, limit: u64) -> PutPayload {
        let mut taken = Vec::with_capacity(self.pieces.len());
        let mut left = limit.min(self.len);
        self.len -= left;
        while left > 0 {
            let Some(mut piece) = self.pieces.pop_front() else { break };
            if piece.len() as u64 > left {
                self.pieces.push_front(piece.split_off(left as usize));
            }
            left -= piece.len() as u64;
            taken.push(piece);
        }

        PutPayload::from_iter(taken)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use stylobate_storage::ByteSize;

    use super::*;

    #[test]
    fn held_bytes_are_taken_in_order_and_cut_where_asked() {
        let mut held = PartBuffer::default();
        for piece in ["abc", "defg", "h"] {
            held.push(Bytes::from_static(piece.as_bytes()));
        }
        let text = |payload: PutPayload| String::from_utf8(Bytes::from(payload).to_vec()).unwrap();
        assert_eq!(text(held.take(5)), "abcde");
        assert_eq!(held.len, 3);
        assert_eq!(text(held.take(u64::MAX)), "fgh");
        assert_eq!(text(held.take(1)), "");
    }

    #[tokio::test]
    async fn uploads_wait_for_memory_and_none_is_too_large_to_start() {
        let memory = UploadMemory::new(5 * MIB, 5 * MIB, Budget::new(ByteSize::ZERO));
        let all = memory.take(u64::MAX).await.unwrap();
        assert!(memory.take(1).now_or_never().is_none());
        drop(all);
        assert!(memory.take(1).await.is_ok());
    }

    #[tokio::test]
    async fn an_upload_larger_than_the_share_is_alone_and_takes_what_becomes_free() {
        let budget = Budget::new(ByteSize::mib(10));
        let memory = UploadMemory::new(5 * MIB, 9 * MIB, budget.clone());
        let pages = budget.try_reserve(Holder::Pages, 4 * MIB).unwrap();
        let large = tokio::spawn({
            let memory = memory.clone();
            async move { memory.take(8 * MIB).await }
        });

        // The share, and all that pages leave.
        let is_full = async {
            while budget.held_by(Holder::Uploads) < 6 * MIB {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), is_full).await.unwrap();
        assert!(!large.is_finished());
        drop(pages);
        let large = large.await.unwrap().unwrap();
        assert_eq!(budget.held_by(Holder::Uploads), 8 * MIB);
        assert!(memory.take(1).now_or_never().is_none());
        drop(large);
        assert_eq!(budget.used(), 0);
        assert!(memory.take(5 * MIB).await.is_ok());
    }
}
