//! Reads of blocks: from the system's page cache if possible, otherwise direct, by io_uring or on another thread.

use std::{
    io,
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use rustix::io::Errno;
use smallvec::SmallVec;

use super::{
    DiskTierInner,
    aligned::AlignedBuffer,
    index::DiskPiece,
    io::read_exact,
    segment::{LogSegment, SegmentReadGuard},
    uring::{ReadRing, SegmentRange},
};
use crate::page_cache::{PageKey, checksum};

/// The part of a piece to read.
#[derive(Debug)]
struct PieceRead {
    slice: DiskPiece,
    reader: SegmentReadGuard,
}

/// A read of consecutive blocks of a page. Protects their segments from being overwritten.
#[derive(Debug)]
pub(super) struct BlockRead {
    key: PageKey,
    parts: SmallVec<[PieceRead; 1]>,
}

#[derive(Debug)]
enum PieceReadError {
    Io(io::Error),
    Damaged,
}

impl PieceReadError {
    /// Returns whether the process or the system ran out of descriptors or memory, which does not mean that the piece
    /// is damaged.
    fn is_exhaustion(&self) -> bool {
        match self {
            Self::Io(error) => {
                let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(Errno::raw_os_error);
                error.raw_os_error().is_some_and(|code| exhausted.contains(&code))
            }
            Self::Damaged => false,
        }
    }
}

impl BlockRead {
    /// Looks up the blocks; `None` if one is absent.
    pub(super) fn plan(shared: &DiskTierInner, key: &PageKey, blocks: Range<u32>) -> Option<Self> {
        let state = shared.state.lock();
        if !state.is_open() {
            return None;
        }

        let slices = state.index.slices(key, blocks)?;
        let part = |slice: DiskPiece| {
            let segment: &Arc<LogSegment> = shared.segments.get(slice.segment as usize)?;
            Some(PieceRead { reader: SegmentReadGuard::new(segment), slice })
        };
        let parts = slices.into_iter().map(part).collect::<Option<_>>()?;
        Some(Self { key: *key, parts })
    }

    /// Reads from the page cache; `None` if that needs I/O, or if a checksum does not match.
    pub(super) fn run_cached(&self, shared: &DiskTierInner) -> Option<AlignedBuffer> {
        let files: SmallVec<[_; 1]> =
            self.parts.iter().map(|part| part.reader.segment().cached()).collect::<Option<_>>()?;

        let len = self.parts.iter().map(|part| part.slice.len as usize).sum();
        let mut buffer = AlignedBuffer::zeroed(len);
        let mut rest = buffer.as_mut_slice();
        for (part, file) in self.parts.iter().zip(files) {
            let (target, after) = rest.split_at_mut_checked(part.slice.len as usize)?;
            if shared.io.read_cached(&file, target, part.slice.offset()).ok()? != target.len() {
                return None;
            }
            if !self.verify(shared, part, target) {
                return None;
            }
            rest = after;
        }

        shared.counters.read.fetch_add(len as u64, Ordering::Relaxed);
        Some(buffer)
    }

    /// Reads from disk by a ring; `None` if that fails for any reason. [`run`](Self::run) then determines the reason.
    pub(super) async fn run_ring(&self, shared: &DiskTierInner, ring: &ReadRing) -> Option<AlignedBuffer> {
        let source = |part: &PieceRead| {
            SegmentRange::new(&part.reader, part.slice.offset(), part.slice.padded_len() as usize)
        };
        let sources: SmallVec<[SegmentRange; 1]> = self.parts.iter().map(source).collect::<Option<_>>()?;
        let mut buffer = ring.read(sources, self.buffer()).await?;

        let mut start = 0;
        for part in &self.parts {
            // Only the last part of an object can end within a sector.
            let end = start + part.slice.len as usize;
            if !self.verify(shared, part, buffer.get(start..end)?) {
                return None;
            }
            start = end;
        }

        buffer.truncate(start);
        shared.counters.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Some(buffer)
    }

    /// Creates an empty buffer with room for the blocks.
    pub(super) fn buffer(&self) -> AlignedBuffer {
        AlignedBuffer::with_capacity(self.parts.iter().map(|part| part.slice.padded_len() as usize).sum())
    }

    /// Reads from disk into an empty buffer, blocking; removes a piece from the index if it is unreadable or does not
    /// match its checksum.
    pub(super) fn run(&self, shared: &DiskTierInner, mut buffer: AlignedBuffer) -> Option<AlignedBuffer> {
        for part in &self.parts {
            if let Err(error) = self.read_part(shared, part, &mut buffer) {
                self.reject(shared, part, &error);
                return None;
            }
        }

        shared.counters.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Some(buffer)
    }

    fn read_part(
        &self,
        shared: &DiskTierInner,
        part: &PieceRead,
        buffer: &mut AlignedBuffer,
    ) -> Result<(), PieceReadError> {
        let io = &*shared.io;
        let start = buffer.len();
        let file = part.reader.segment().direct(io).map_err(PieceReadError::Io)?;

        read_exact(io, &file, buffer, part.slice.offset(), part.slice.padded_len() as usize)
            .map_err(PieceReadError::Io)?;
        buffer.truncate(start + part.slice.len as usize);

        let bytes = buffer.get(start..).unwrap_or_default();
        if self.verify(shared, part, bytes) { Ok(()) } else { Err(PieceReadError::Damaged) }
    }

    fn verify(&self, shared: &DiskTierInner, part: &PieceRead, bytes: &[u8]) -> bool {
        let first = part.slice.blocks().start;
        let block_size = shared.geometry.block_size as usize;

        checksum::verify(&self.key, first, bytes, block_size, &part.slice.checksums)
    }

    fn reject(&self, shared: &DiskTierInner, part: &PieceRead, error: &PieceReadError) {
        if error.is_exhaustion() {
            return;
        }
        let location = part.slice.location();
        if shared.state.lock().index.forget(&self.key, location) {
            shared.counters.rejected.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(?error, ?location, "piece in the disk cache cannot be used");
        }
    }
}
