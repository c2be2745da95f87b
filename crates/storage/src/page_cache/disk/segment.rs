//! Segments: the division of the capacity into files of equal size, and the open descriptors of each.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;

use super::{aligned::SECTOR, io::DiskIo};

const MIB: u64 = 1 << 20;
const MIN_SEGMENT: u64 = 16 * MIB;
const MAX_SEGMENT: u64 = 64 * MIB;
/// Number of segments, and of open files, above which segments grow beyond [`MAX_SEGMENT`], up to
/// [`MAX_LARGE_SEGMENT`].
const MAX_SEGMENTS: u64 = 256;
/// Maximum size of a segment: larger ones would pause writes for too long while they are reclaimed.
const MAX_LARGE_SEGMENT: u64 = 256 * MIB;
const MIN_SEGMENTS: u64 = 4;

/// Sizes of a folder's pages, blocks and segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogGeometry {
    pub(super) page_size: u64,
    pub(super) block_size: u64,
    pub(super) segment_size: u64,
    pub(super) segments: u32,
}

impl LogGeometry {
    /// Divides `capacity` into at least four segments. Their size is an eighth of the capacity, clamped to 16 to 64
    /// MiB and at least two pages. Large capacities have larger segments, up to 256 MiB.
    pub(super) fn new(capacity: u64, page_size: u64, block_size: u64) -> Self {
        let min = MIN_SEGMENT.max(2 * page_size + SECTOR as u64);
        let max = MAX_SEGMENT.max(capacity / MAX_SEGMENTS).min(MAX_LARGE_SEGMENT).max(min);
        let size = (capacity / 8).clamp(min, max).min(capacity / MIN_SEGMENTS);
        let segment_size = size / SECTOR as u64 * SECTOR as u64;
        let segments = capacity.checked_div(segment_size).unwrap_or(0).min(u64::from(u32::MAX));

        Self { page_size, block_size, segment_size, segments: segments as u32 }
    }

    pub(super) fn blocks_per_page(&self) -> u32 {
        (self.page_size / self.block_size.max(1)).clamp(1, 64) as u32
    }

    /// Returns the number of segments kept free: one has room for the live pieces of the next segment to be
    /// reclaimed.
    pub(super) fn reserve(&self) -> usize {
        if self.segments < 16 { 1 } else { 2 }
    }

    /// Returns the bytes that pages may take, as counted by the eviction policy. The remainder ensures that segments
    /// with few live bytes exist to be reclaimed.
    pub(super) fn live_capacity(&self) -> u64 {
        let usable = u64::from(self.segments).saturating_sub(self.reserve() as u64 + 1);

        (usable * self.segment_size + self.segment_size / 2).min(self.capacity() / 10 * 9)
    }

    /// Returns the maximum bytes on disk.
    pub(super) fn capacity(&self) -> u64 {
        u64::from(self.segments) * self.segment_size
    }

    /// Returns whether a batch of `len` bytes fits into a segment.
    pub(super) fn fits(&self, len: u64) -> bool {
        self.segments >= MIN_SEGMENTS as u32 && len <= self.segment_size
    }
}

/// One segment's file.
#[derive(Debug)]
pub(super) struct LogSegment {
    path: PathBuf,
    /// For reads that bypass the page cache. Stays open.
    direct: Mutex<Option<Arc<File>>>,
    /// Set until the segment is synced, while its data is likely still in the page cache.
    buffered: Mutex<Option<Arc<File>>>,
    readers: AtomicU32,
}

impl LogSegment {
    pub(super) fn new(dir: &Path, index: u32) -> Self {
        let path = dir.join(format!("seg-{index}"));
        Self { path, direct: Mutex::default(), buffered: Mutex::default(), readers: AtomicU32::new(0) }
    }

    /// Parses the number in a segment's file name.
    pub(super) fn index_of(path: &Path) -> Option<u32> {
        let digits = path.file_name()?.to_str()?.strip_prefix("seg-")?;
        let index: u32 = digits.parse().ok()?;
        (index.to_string() == digits).then_some(index)
    }

    /// Returns the descriptor for direct reads, opening it on first use.
    pub(super) fn direct(&self, io: &dyn DiskIo) -> io::Result<Arc<File>> {
        let mut direct = self.direct.lock();
        if let Some(file) = &*direct {
            return Ok(file.clone());
        }

        let file = Arc::new(io.open_direct(&self.path)?);
        *direct = Some(file.clone());
        Ok(file)
    }

    /// Returns the descriptor for direct reads, if it is open.
    pub(super) fn opened(&self) -> Option<Arc<File>> {
        self.direct.lock().clone()
    }

    /// Returns the descriptor for reads from the page cache, while they are likely to hit.
    pub(super) fn cached(&self) -> Option<Arc<File>> {
        self.buffered.lock().clone()
    }

    /// Opens the file for writing.
    pub(super) fn begin_writes(&self, io: &dyn DiskIo) -> io::Result<Arc<File>> {
        let file = Arc::new(io.open_buffered(&self.path)?);
        *self.buffered.lock() = Some(file.clone());
        // The old file may have been removed and replaced by a new one.
        self.direct.lock().take();
        Ok(file)
    }

    /// Ends the writes through a descriptor, unless the segment is already being written through another one.
    pub(super) fn end_writes(&self, file: &Arc<File>) {
        let mut buffered = self.buffered.lock();
        if buffered.as_ref().is_some_and(|current| Arc::ptr_eq(current, file)) {
            *buffered = None;
        }
    }

    /// Returns whether the segment is being read, and so must not be overwritten.
    pub(super) fn is_read(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }
}

/// A guard that protects a segment from being overwritten. Acquired under the lock of the index, which is held to
/// look up pieces.
#[derive(Debug)]
pub(super) struct SegmentReadGuard {
    segment: Arc<LogSegment>,
}

impl SegmentReadGuard {
    pub(super) fn new(segment: &Arc<LogSegment>) -> Self {
        segment.readers.fetch_add(1, Ordering::AcqRel);
        Self { segment: segment.clone() }
    }

    pub(super) fn segment(&self) -> &LogSegment {
        &self.segment
    }
}

impl Clone for SegmentReadGuard {
    fn clone(&self) -> Self {
        Self::new(&self.segment)
    }
}

impl Drop for SegmentReadGuard {
    fn drop(&mut self) {
        self.segment.readers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_never_exceed_the_capacity_and_are_at_least_four() {
        let sizes = [(24 * MIB, 6 * MIB, 4), (256 * MIB, 32 * MIB, 8), (4 << 30, 64 * MIB, 64)];
        for (capacity, size, segments) in sizes {
            let geometry = LogGeometry::new(capacity, MIB, 64 << 10);
            assert_eq!((geometry.segment_size, geometry.segments), (size, segments));
        }
        for shift in 12..45 {
            for page_size in [4 << 10, MIB, 16 * MIB] {
                let capacity = (1 << shift) + 12_345;
                let geometry = LogGeometry::new(capacity, page_size, page_size / 16);
                assert!(geometry.capacity() <= capacity && geometry.live_capacity() <= geometry.capacity());
                assert!(geometry.segments >= 4 || geometry.segment_size == 0, "{geometry:?}");
            }
        }
        assert!(LogGeometry::new(100 << 30, MIB, 64 << 10).segments <= 400);
    }

    #[test]
    fn a_batch_that_no_segment_can_hold_does_not_fit() {
        let geometry = LogGeometry::new(4 * MIB, MIB, 64 << 10);
        assert!(!geometry.fits(MIB + 4096));
        assert!(geometry.fits(MIB));
        assert!(!LogGeometry::new(0, MIB, 64 << 10).fits(1));
    }
}
