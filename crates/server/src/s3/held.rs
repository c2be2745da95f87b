//! What uploads hold in memory: the bytes of one of them, and how much all of them may hold.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use object_store::PutPayload;
use s3s::{S3Result, s3_error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) const MIB: u64 = 1 << 20;

/// Memory that uploads hold together; more of them wait.
pub(super) const UPLOAD_MEMORY: u64 = 512 * MIB;

/// The memory of all uploads: who finds none waits, and with it the client.
#[derive(Clone)]
pub(super) struct UploadMemory {
    free_mib: Arc<Semaphore>,
}

impl Default for UploadMemory {
    fn default() -> Self {
        Self { free_mib: Arc::new(Semaphore::new((UPLOAD_MEMORY / MIB) as usize)) }
    }
}

impl UploadMemory {
    /// Waits for as many bytes. Each upload takes once all that it will need, so that none waits for another.
    pub(super) async fn take(&self, bytes: u64) -> S3Result<OwnedSemaphorePermit> {
        let mib = bytes.min(UPLOAD_MEMORY).div_ceil(MIB) as u32;
        self.free_mib.clone().acquire_many_owned(mib).await.map_err(|_| s3_error!(ServiceUnavailable))
    }
}

/// Bytes that are held, in the pieces that they came in.
#[derive(Default)]
pub(super) struct Held {
    pieces: VecDeque<Bytes>,
    len: u64,
}

impl Held {
    /// Holds these too.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.len += bytes.len() as u64;
        self.pieces.push_back(bytes);
    }

    /// How many bytes are held.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Takes the first `most` bytes.
    pub(super) fn take(&mut self, most: u64) -> PutPayload {
        let mut taken = Vec::with_capacity(self.pieces.len());
        let mut left = most.min(self.len);
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
    use super::*;

    #[test]
    fn held_bytes_are_taken_in_order_and_cut_where_asked() {
        let mut held = Held::default();
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
        let memory = UploadMemory::default();
        let all = memory.take(u64::MAX).await.unwrap();
        assert!(futures::FutureExt::now_or_never(memory.take(1)).is_none());
        drop(all);
        assert!(memory.take(1).await.is_ok());
    }
}
