//! Buffers for direct reads: their memory is aligned to a sector.
#![expect(unsafe_code, reason = "memory is handed to the kernel before it is initialized")]

use std::{
    collections::VecDeque,
    fmt, io,
    mem::{MaybeUninit, take},
    ops::{Deref, Range},
    slice,
};

use bytes::Bytes;
use parking_lot::Mutex;

/// Alignment of the offsets, lengths and addresses of direct reads.
pub(super) const SECTOR: usize = 4096;

#[repr(C, align(4096))]
struct Sector([u8; SECTOR]);

/// Memory of dropped buffers, kept for reuse: faulting in the pages of a new mebibyte takes longer than computing its
/// checksums.
static POOL: Mutex<BufferPool> = Mutex::new(BufferPool { free: VecDeque::new(), sectors: 0 });

/// Maximum memory in the pool.
const MAX_POOL_BYTES: usize = 16 << 20;
/// Maximum number of free buffers searched for one of the right size.
const MAX_PROBES: usize = 16;

/// A stack of free buffers: the newest, at the back, is reused first.
struct BufferPool {
    free: VecDeque<Vec<Sector>>,
    sectors: usize,
}

impl BufferPool {
    /// Returns memory of exactly `sectors`, so that small buffers do not hold large allocations.
    fn get(&mut self, sectors: usize) -> Option<Vec<Sector>> {
        let at = self.free.iter().rev().take(MAX_PROBES).position(|memory| memory.capacity() == sectors)?;
        let memory = self.free.remove(self.free.len() - 1 - at)?;
        self.sectors -= memory.capacity();
        Some(memory)
    }

    /// Adds memory, and returns the surplus for the caller to free.
    fn put(&mut self, memory: Vec<Sector>) -> Vec<Vec<Sector>> {
        self.sectors += memory.capacity();
        self.free.push_back(memory);

        let mut surplus = Vec::new();
        while self.sectors * SECTOR > MAX_POOL_BYTES
            && let Some(oldest) = self.free.pop_front()
        {
            self.sectors -= oldest.capacity();
            surplus.push(oldest);
        }
        surplus
    }
}

/// A sector-aligned buffer that is filled from its start.
pub(crate) struct AlignedBuffer {
    /// Its length stays 0: only the spare capacity is used.
    sectors: Vec<Sector>,
    /// Initialized bytes.
    len: usize,
}

impl AlignedBuffer {
    /// Creates an empty buffer with room for at least `bytes`.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        let sectors = bytes.div_ceil(SECTOR);
        let pooled = POOL.lock().get(sectors);

        Self { sectors: pooled.unwrap_or_else(|| Vec::with_capacity(sectors)), len: 0 }
    }

    /// Creates a buffer of `len` zeros.
    pub(super) fn zeroed(len: usize) -> Self {
        let mut buffer = Self::with_capacity(len);
        for byte in buffer.memory().iter_mut().take(len) {
            byte.write(0);
        }
        buffer.len = len;
        buffer
    }

    /// Lets `read` initialize up to `len` bytes after the current ones; it returns the prefix that it initialized.
    /// Returns the number of bytes added; 0 if `read` returned other memory.
    pub(super) fn extend_with(
        &mut self,
        len: usize,
        read: impl for<'b> FnOnce(&'b mut [MaybeUninit<u8>]) -> io::Result<&'b mut [u8]>,
    ) -> io::Result<usize> {
        let target = self.spare(0..len);
        let address = target.as_ptr().addr();
        let capacity = target.len();

        let initialized = read(target)?;
        if initialized.as_ptr().addr() != address || initialized.len() > capacity {
            return Ok(0);
        }

        let added = initialized.len();
        self.len += added;
        Ok(added)
    }

    /// Returns a range of the memory after the current bytes, clamped to the capacity.
    pub(super) fn spare(&mut self, range: Range<usize>) -> &mut [MaybeUninit<u8>] {
        let len = self.memory().len();
        let at = |offset: usize| self.len.saturating_add(offset).min(len);
        let range = at(range.start)..at(range.end);
        self.memory().get_mut(range).unwrap_or_default()
    }

    /// Extends the buffer by the first `len` bytes of the spare memory.
    ///
    /// # Safety
    ///
    /// Those bytes must be initialized.
    pub(super) unsafe fn assume_filled(&mut self, len: usize) {
        self.len += self.spare(0..len).len();
    }

    /// Shortens the buffer to `len` bytes; no effect if it is already shorter.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the first `len` bytes of the capacity are initialized, and `self` is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.sectors.as_mut_ptr().cast(), self.len) }
    }

    /// Converts the buffer to `Bytes` without copying.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    fn memory(&mut self) -> &mut [MaybeUninit<u8>] {
        let spare = self.sectors.spare_capacity_mut();
        // SAFETY: a sector is `SECTOR` bytes without padding, and a byte that may be uninitialized has no invariant.
        // No safe code can overwrite initialized bytes with uninitialized ones through it: callers in this file only
        // write initialized bytes, or hand out the part after `len`.
        unsafe { slice::from_raw_parts_mut(spare.as_mut_ptr().cast(), spare.len() * SECTOR) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.sectors.capacity() > 0 {
            let surplus = POOL.lock().put(take(&mut self.sectors));
            // Free the surplus after releasing the lock.
            drop(surplus);
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes of the capacity are initialized.
        unsafe { slice::from_raw_parts(self.sectors.as_ptr().cast(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy<'b>(from: &[u8], to: &'b mut [MaybeUninit<u8>]) -> &'b mut [u8] {
        let (to, _) = to.split_at_mut(from.len());
        to.write_copy_of_slice(from)
    }

    #[test]
    fn a_buffer_is_aligned_and_holds_what_was_read() {
        for len in [0, 1, SECTOR, 3 * SECTOR + 5] {
            let mut buffer = AlignedBuffer::with_capacity(len + 2);
            assert!(buffer.is_empty());
            assert_eq!(buffer.extend_with(2, |memory| Ok(copy(b"ab", memory))).unwrap(), 2);
            assert_eq!(buffer.as_ptr().align_offset(SECTOR), 0);
            assert_eq!(buffer.extend_with(len, |memory| Ok(copy(&vec![7; len], memory))).unwrap(), len);
            assert_eq!((&buffer[..2], &buffer[2..]), (&b"ab"[..], &vec![7; len][..]));

            buffer.truncate(1);
            buffer.as_mut_slice()[0] = b'z';
            assert_eq!(buffer.into_bytes(), "z");
        }
        assert_eq!(*AlignedBuffer::zeroed(5000), [0; 5000]);
    }

    #[test]
    fn memory_is_used_again_for_buffers_of_its_size_within_a_limit() {
        let mut pool = BufferPool { free: VecDeque::new(), sectors: 0 };
        for sectors in [3, 5, 3] {
            assert!(pool.put(Vec::with_capacity(sectors)).is_empty());
        }
        assert!(pool.get(4).is_none());
        assert_eq!(pool.get(5).map(|memory| memory.capacity()), Some(5));
        assert_eq!(pool.sectors, 6);

        let surplus = pool.put(Vec::with_capacity(MAX_POOL_BYTES / SECTOR - 3));
        assert_eq!((surplus.len(), pool.free.len(), pool.sectors * SECTOR), (1, 2, MAX_POOL_BYTES));
    }

    #[test]
    fn memory_of_others_is_not_taken_for_initialized() {
        let mut buffer = AlignedBuffer::with_capacity(SECTOR);
        let added = buffer.extend_with(SECTOR, |_| Ok(Box::leak(Box::new([1; 16])))).unwrap();
        assert_eq!((added, buffer.len()), (0, 0));
        let failed = buffer.extend_with(SECTOR, |_| Err(io::Error::other("no")));
        assert!(failed.is_err() && buffer.is_empty());
    }
}
