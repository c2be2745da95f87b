//! The writer: appends queued writes to the log, and reclaims segments.
//!
//! One thread per tier. Writes go to the system's page cache in batches; another thread syncs a segment once it is
//! full. When few segments are free, the writer empties the one with the fewest live bytes: it copies up to half a
//! segment to the head of the log and drops the rest.
//!
//! A failed write drops the queued writes. New ones are refused during a pause, which doubles with each failure.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, IoSlice},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    DiskTierInner, DiskTierPhase, DropReason,
    aligned::{AlignedBuffer, SECTOR},
    batch::{self, BatchEntry, BatchHeader, BatchPosition},
    index::{DiskPiece, LiveDiskPiece},
    io::{is_out_of_space, read_exact, write_all},
    queue::QueuedWrite,
    recover::LogTail,
    sync::SegmentSyncer,
};
use crate::page_cache::checksum;

/// Approximate size of a batch in bytes: the last piece may exceed it.
const BATCH_BYTES: u64 = 4 << 20;

const ZEROS: [u8; SECTOR] = [0; SECTOR];

/// Number of attempts to make room after which live pieces are dropped instead of copied.
const MAX_COPYING_ROUNDS: usize = 4;

/// Pauses after failed writes: the first and the longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteRetryPause {
    pub(super) min: Duration,
    pub(super) max: Duration,
}

impl Default for WriteRetryPause {
    fn default() -> Self {
        Self { min: Duration::from_secs(1), max: Duration::from_secs(30) }
    }
}

/// The segment at the head of the log.
#[derive(Debug)]
struct ActiveSegment {
    index: u32,
    /// `None` until the first batch is written.
    generation: Option<u64>,
    end: u64,
    file: Arc<File>,
}

#[derive(Debug)]
pub(super) struct DiskLogWriter {
    shared: Arc<DiskTierInner>,
    syncer: SegmentSyncer,
    active: Option<ActiveSegment>,
    /// End of the log of an earlier process, until the writer resumes there.
    tail: Option<LogTail>,
    free: VecDeque<u32>,
    sealed: Vec<u32>,
    next_sequence: u64,
    retry: WriteRetryPause,
    pause: Duration,
}

impl DiskLogWriter {
    /// Creates a writer that continues the log after `tail`; `used` marks the segments with batches.
    pub(super) fn new(
        shared: Arc<DiskTierInner>,
        tail: Option<LogTail>,
        used: &[bool],
        retry: WriteRetryPause,
    ) -> io::Result<Self> {
        let newest = tail.map(|tail| tail.newest.segment);
        let is_used = |index: &u32| used.get(*index as usize).copied().unwrap_or(false);
        let (sealed, free): (Vec<u32>, Vec<u32>) =
            (0..shared.geometry.segments).filter(|index| Some(*index) != newest).partition(is_used);

        // Batches that a power loss left after the tail have smaller sequences than all new ones.
        let last_sequence = tail.map_or(0, |tail| tail.newest.sequence | u64::from(u32::MAX));
        Ok(Self {
            syncer: SegmentSyncer::start(shared.clone())?,
            shared,
            active: None,
            tail,
            free: free.into(),
            sealed,
            next_sequence: last_sequence.wrapping_add(1),
            retry,
            pause: retry.min,
        })
    }

    /// Writes until the tier is closed and its queue is empty, or until it is abandoned.
    pub(super) fn run(mut self) {
        let _guard = DiskLogWriterGuard(self.shared.clone());

        while let Some(writes) = self.wait() {
            self.write(writes);
        }
        if !self.is_abandoned() {
            self.seal();
            self.syncer.finish();
        }
    }

    fn wait(&self) -> Option<VecDeque<QueuedWrite>> {
        let mut state = self.shared.state.lock();
        loop {
            if state.phase == DiskTierPhase::Abandoned {
                return None;
            }
            let writes = state.queue.pop(BATCH_BYTES);
            if !writes.is_empty() {
                return Some(writes.into());
            }
            if state.phase == DiskTierPhase::Closed {
                return None;
            }
            self.shared.wake.wait(&mut state);
        }
    }

    fn write(&mut self, mut writes: VecDeque<QueuedWrite>) {
        while !writes.is_empty() && !self.is_abandoned() {
            match self.write_batch(&mut writes) {
                Ok(()) => self.pause = self.retry.min,
                Err(error) => self.fail(&error, std::mem::take(&mut writes)),
            }
        }
    }

    /// Writes as many of `writes` as fit into the segment, at least one.
    fn write_batch(&mut self, writes: &mut VecDeque<QueuedWrite>) -> io::Result<()> {
        let Some(first) = writes.front() else { return Ok(()) };
        let block_size = self.shared.geometry.block_size;
        self.make_room(batch_len([first.bytes.len() as u64], block_size))?;

        let room = self.room();
        let lens = || writes.iter().map(|write| write.bytes.len() as u64);
        let mut count = writes.len();
        while count > 1 && batch_len(lens().take(count), block_size) > room {
            count -= 1;
        }

        let entries = writes.iter().take(count).map(|write| {
            let QueuedWrite { key, first_block, bytes, .. } = write;
            let checksums = checksum::of_blocks(key, *first_block, bytes, block_size as usize);
            BatchEntry { key: *key, first_block: *first_block, len: bytes.len() as u32, checksums }
        });
        let data: Vec<&[u8]> = writes.iter().take(count).map(|write| &*write.bytes).collect();
        let header = self.append(entries.collect(), &data)?;

        let mut state = self.shared.state.lock();
        for (piece, write) in header_pieces(header).into_iter().zip(writes.drain(..count)) {
            self.shared.counters.written.fetch_add(write.bytes.len() as u64, Ordering::Relaxed);
            if state.queue.finish(&write) {
                state.index.insert(write.key, piece);
            }
        }

        Ok(())
    }

    /// Appends a batch to the active segment, which has room for it.
    fn append(&mut self, entries: Vec<BatchEntry>, data: &[&[u8]]) -> io::Result<BatchHeader> {
        let Some(active) = &mut self.active else { return Err(io::Error::other("no active segment")) };
        let sequence = self.next_sequence;
        let generation = active.generation.unwrap_or(sequence);
        let position = BatchPosition { segment: active.index, generation, sequence, offset: active.end };
        let header = BatchHeader { position, entries };
        self.next_sequence = self.next_sequence.wrapping_add(1);

        let encoded = header.encode();
        let mut slices = vec![IoSlice::new(&encoded)];
        for bytes in data {
            slices.push(IoSlice::new(bytes));
            let padding = bytes.len().next_multiple_of(SECTOR) - bytes.len();
            if padding > 0 {
                slices.push(IoSlice::new(ZEROS.get(..padding).unwrap_or_default()));
            }
        }

        write_all(&*self.shared.io, &active.file, &mut slices, active.end)?;
        // Start writeback in small steps: syncing a whole segment at once would stall reads.
        self.shared.io.start_writeback(&active.file, active.end, header.end() - active.end);

        active.generation = Some(generation);
        active.end = header.end();
        Ok(header)
    }

    /// Returns the bytes left in the active segment.
    fn room(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| self.shared.geometry.segment_size.saturating_sub(active.end))
    }

    /// Ensures that the active segment has room for `len` bytes.
    fn make_room(&mut self, len: u64) -> io::Result<()> {
        self.resume()?;

        let mut round = 0;
        while self.room() < len {
            self.seal();
            self.activate()?;

            let may_copy = round < MAX_COPYING_ROUNDS;
            while self.free.len() < self.shared.geometry.reserve() && !self.sealed.is_empty() {
                self.reclaim(may_copy)?;
            }
            round += 1;
        }
        Ok(())
    }

    /// Resumes the segment in which an earlier process stopped.
    fn resume(&mut self) -> io::Result<()> {
        let Some(tail) = self.tail.take() else { return Ok(()) };
        let index = tail.newest.segment;

        match self.open(index) {
            Ok(file) => {
                let generation = Some(tail.newest.generation);
                self.active = Some(ActiveSegment { index, generation, end: tail.end, file });
                Ok(())
            }
            Err(error) => {
                self.sealed.push(index);
                Err(error)
            }
        }
    }

    /// Activates a free segment, once no reads of it are in flight.
    fn activate(&mut self) -> io::Result<()> {
        if self.free.is_empty() {
            self.reclaim(false)?;
        }

        let index = loop {
            let is_read = |index: &u32| self.shared.segments.get(*index as usize).is_none_or(|s| s.is_read());
            if let Some(at) = self.free.iter().position(|index| !is_read(index)) {
                break self.free.remove(at);
            }
            if self.free.is_empty() || self.is_abandoned() {
                break None;
            }
            thread::sleep(Duration::from_millis(1));
        };
        let Some(index) = index else { return Err(io::Error::other("no free segment")) };

        match self.open(index) {
            Ok(file) => {
                self.active = Some(ActiveSegment { index, generation: None, end: 0, file });
                Ok(())
            }
            Err(error) => {
                self.free.push_back(index);
                Err(error)
            }
        }
    }

    fn open(&self, index: u32) -> io::Result<Arc<File>> {
        let segment = self.shared.segments.get(index as usize);
        segment.ok_or_else(|| io::Error::other("no such segment"))?.begin_writes(&*self.shared.io)
    }

    /// Ends the active segment. Another thread syncs it and drops it from the page cache.
    fn seal(&mut self) {
        let Some(active) = self.active.take() else { return };
        self.sealed.push(active.index);
        if let Some(segment) = self.shared.segments.get(active.index as usize) {
            self.syncer.sync(segment.clone(), active.file);
        }
    }

    /// Empties the sealed segment with the fewest live bytes.
    fn reclaim(&mut self, may_copy: bool) -> io::Result<()> {
        let Some(victim) = self.choose_victim() else { return Ok(()) };
        let copied = if may_copy && self.active.is_some() { self.copy_live(victim) } else { Ok(()) };

        self.shared.state.lock().index.clear_segment(victim);
        self.sealed.retain(|index| *index != victim);
        self.free.push_back(victim);
        copied
    }

    /// Chooses the segment to reclaim. Evicts pages until at most half of some segment is live, but at most half a
    /// segment in total: pages spread over all segments must not cost more than a segment holds.
    fn choose_victim(&self) -> Option<u32> {
        let half = self.shared.geometry.segment_size / 2;
        let mut state = self.shared.state.lock();
        let mut evicted = 0;

        loop {
            let victim = self.sealed.iter().copied().min_by_key(|index| state.index.live_of(*index))?;
            if state.index.live_of(victim) <= half || evicted >= half {
                return Some(victim);
            }
            match state.index.evict_one() {
                Some(bytes) => evicted += bytes,
                None => return Some(victim),
            }
        }
    }

    /// Copies live pieces of a segment, up to half a segment in total; pieces of pages with hits come first.
    fn copy_live(&mut self, victim: u32) -> io::Result<()> {
        let mut live = self.shared.state.lock().index.live_pieces(victim);
        live.sort_by_key(|live| (!live.is_touched, live.piece.offset()));

        let mut budget = self.shared.geometry.segment_size / 2;
        live.retain(|live| {
            let fits = live.piece.padded_len() <= budget;
            if fits {
                budget -= live.piece.padded_len();
            }
            fits
        });

        let block_size = self.shared.geometry.block_size;
        let mut rest = live.into_iter().peekable();
        while rest.peek().is_some() && !self.is_abandoned() {
            let mut group: Vec<LiveDiskPiece> = Vec::new();
            let mut bytes = 0;
            while bytes < BATCH_BYTES
                && let Some(next) = rest.peek()
            {
                let lens = group.iter().chain([next]).map(|live| u64::from(live.piece.len));
                if batch_len(lens, block_size) > self.room() {
                    break;
                }
                bytes += next.piece.padded_len();
                group.extend(rest.next());
            }

            if !group.is_empty() {
                self.copy(group)?;
            } else if self.active.as_ref().is_some_and(|active| active.end > 0) && !self.free.is_empty() {
                self.seal();
                self.activate()?;
            } else {
                break;
            }
        }

        Ok(())
    }

    fn copy(&mut self, group: Vec<LiveDiskPiece>) -> io::Result<()> {
        let copies: Vec<(LiveDiskPiece, AlignedBuffer)> =
            group.into_iter().filter_map(|live| self.read_live(&live).map(|bytes| (live, bytes))).collect();
        if copies.is_empty() {
            return Ok(());
        }

        let entries = copies.iter().map(|(live, _)| live.piece.to_entry(live.key)).collect();
        let data: Vec<&[u8]> = copies.iter().map(|(_, bytes)| &**bytes).collect();
        let header = self.append(entries, &data)?;

        let mut state = self.shared.state.lock();
        for (piece, (live, bytes)) in header_pieces(header).into_iter().zip(&copies) {
            self.shared.counters.rewritten.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            state.index.relocate(live.key, &live.piece, piece);
        }
        Ok(())
    }

    /// Reads a piece to copy; removes it from the index if it is damaged.
    fn read_live(&self, live: &LiveDiskPiece) -> Option<AlignedBuffer> {
        let io = &*self.shared.io;
        let piece = &live.piece;
        let mut buffer = AlignedBuffer::with_capacity(piece.padded_len() as usize);

        let file = self.shared.segments.get(piece.segment as usize)?.direct(io);
        let read = file
            .and_then(|file| read_exact(io, &file, &mut buffer, piece.offset(), piece.padded_len() as usize));
        buffer.truncate(piece.len as usize);

        let block_size = self.shared.geometry.block_size as usize;
        if read.is_ok()
            && checksum::verify(&live.key, piece.blocks().start, &buffer, block_size, &piece.checksums)
        {
            return Some(buffer);
        }

        if self.shared.state.lock().index.forget(&live.key, piece.location()) {
            self.shared.counters.rejected.fetch_add(1, Ordering::Relaxed);
        }
        None
    }

    /// Drops queued writes, and refuses new ones for a while.
    fn fail(&mut self, error: &io::Error, writes: VecDeque<QueuedWrite>) {
        if self.pause == self.retry.min {
            tracing::warn!(%error, pause = ?self.pause, "disk cache cannot be written");
        } else {
            tracing::debug!(%error, pause = ?self.pause, "disk cache still cannot be written");
        }

        if is_out_of_space(error) {
            // Remove the partial write, so that it takes no space. The next attempt starts at the same offset.
            if let Some(active) = &self.active {
                self.shared.io.truncate(&active.file, active.end).ok();
            }
        } else if let Some(active) = self.active.take() {
            self.sealed.push(active.index);
            if let Some(segment) = self.shared.segments.get(active.index as usize) {
                segment.end_writes(&active.file);
            }
        }

        let mut state = self.shared.state.lock();
        state.paused_until = Some(Instant::now() + self.pause);
        self.pause = (2 * self.pause).min(self.retry.max);
        let queued = state.queue.pop(u64::MAX);

        for write in writes.iter().chain(&queued) {
            if state.queue.finish(write) {
                self.shared.counters.count_dropped(DropReason::DiskFailed);
            }
        }
    }

    fn is_abandoned(&self) -> bool {
        self.shared.state.lock().phase == DiskTierPhase::Abandoned
    }
}

/// Ends the tier when the writer ends, even by a panic, so that callers of `close` return.
struct DiskLogWriterGuard(Arc<DiskTierInner>);

impl Drop for DiskLogWriterGuard {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.phase == DiskTierPhase::Open {
            state.phase = DiskTierPhase::Closed;
        }
        drop(state);

        // Dropping the file alone is not enough: a process that is starting briefly has a copy of every descriptor.
        if let Some(lock) = self.0.lock.lock().take() {
            lock.unlock().ok();
        }
        self.0.is_done.send_replace(true);
    }
}

/// Returns the length of a batch of pieces of lengths `lens`.
fn batch_len(lens: impl IntoIterator<Item = u64>, block_size: u64) -> u64 {
    let mut entries = 0;
    let mut data = 0;
    for len in lens {
        entries += batch::encoded_len(len.div_ceil(block_size) as usize);
        data += len.next_multiple_of(SECTOR as u64);
    }
    batch::header_len(entries) as u64 + data
}

/// Returns the pieces of a written batch.
fn header_pieces(header: BatchHeader) -> Vec<DiskPiece> {
    let offsets: Vec<u64> = header.pieces().map(|(offset, _)| offset).collect();
    let segment = header.position.segment;

    offsets
        .into_iter()
        .zip(header.entries)
        .map(|(offset, entry)| DiskPiece::new(segment, offset, entry))
        .collect()
}
