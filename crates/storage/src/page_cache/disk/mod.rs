//! The disk tier: blocks of pages in a log of segments that survives a restart.
//!
//! A read returns only bytes that were written under that page and block number and that match their checksum:
//! anything else is a miss. A full, broken or damaged disk only costs cache hits.
//!
//! ```text
//! <dir>/lock                     held by the one process that uses the folder
//! <dir>/pages-v2-<page>-<block>/ segments; folders of other page or block sizes are removed
//!       seg-0, seg-1, …          batches of pieces, appended; see `batch` for the bytes
//!
//!   write ─▶ queue ─▶ writer ─▶ head of the log          sealed segments
//!                        ▲                                     │ the one with the fewest live bytes
//!                        └────────── live pieces ◀─────────────┘ is emptied when few are free
//! ```
//!
//! Removals are not journaled: a page belongs to one version, so a page that reappears after a restart is not stale.

mod aligned;
mod batch;
mod index;
mod io;
mod queue;
mod read;
mod recover;
mod segment;
mod sync;
mod uring;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    fs::{self, File, TryLockError},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Instant,
};

pub(crate) use aligned::AlignedBuffer;
/// For fuzzing.
pub(crate) use batch::header_survives_rewrite;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use self::{
    index::{DiskIndex, DiskPiece, mask_of},
    io::{DiskIo, SystemIo},
    queue::WriteQueue,
    read::BlockRead,
    segment::{LogGeometry, LogSegment},
    uring::ReadRing,
    writer::{DiskLogWriter, WriteRetryPause},
};
use super::PageKey;
use crate::{object::ObjectHash, policy::Eviction, threads::blocking::run_blocking};

/// Creates the eviction policy for pages on disk from its capacity in bytes.
pub(crate) type PolicyFactory = Box<dyn FnOnce(u64) -> Box<dyn Eviction<PageKey>> + Send>;

pub(crate) struct DiskTierOptions {
    pub(crate) dir: PathBuf,
    /// Maximum bytes on disk.
    pub(crate) capacity: u64,
    pub(crate) page_size: u64,
    /// A power of two, at least 4 KiB and at least a 64th of a page.
    pub(crate) block_size: u64,
    /// Maximum bytes queued for writing.
    pub(crate) queue: u64,
    pub(crate) policy: PolicyFactory,
}

impl fmt::Debug for DiskTierOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, capacity, page_size, block_size, queue, policy: _ } = self;
        f.debug_struct("DiskTierOptions")
            .field("dir", dir)
            .field("capacity", capacity)
            .field("page_size", page_size)
            .field("block_size", block_size)
            .field("queue", queue)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskOpenError {
    /// Another process, or another tier of this one, uses the folder.
    #[error("cache folder {} is in use", dir.display())]
    Locked { dir: PathBuf },

    /// The folder cannot be created, read or written.
    #[error("cache folder {}: {source}", dir.display())]
    Folder { dir: PathBuf, source: std::io::Error },
}

/// The reason that a write was refused, or dropped later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropReason {
    /// The disk is slower than the incoming writes.
    QueueFull,
    /// A recent write failed, because the disk is full or broken.
    DiskFailed,
    Closed,
    /// The blocks exceed their page or a segment.
    TooLarge,
}

/// The fill level of the write queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteBacklog {
    /// At most a quarter of the queue.
    Short,
    /// At most half.
    Long,
    /// More than half: a burst may drop many writes.
    Full,
}

/// Writes that were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedWrites {
    pub(crate) queue_full: u64,
    pub(crate) disk_failed: u64,
    pub(crate) closed: u64,
    pub(crate) too_large: u64,
}

/// Counters of the tier. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskTierStats {
    /// Set while writes are refused because the disk is full or failing.
    pub(crate) is_paused: bool,
    /// Maximum bytes on disk.
    pub(crate) capacity: u64,
    /// Bytes of live pages on disk.
    pub(crate) used: u64,
    /// Pages with at least one block on disk.
    pub(crate) pages: u64,
    /// Bytes written for callers, without headers and copies.
    pub(crate) written: u64,
    /// Bytes returned to callers.
    pub(crate) read: u64,
    pub(crate) dropped: DroppedWrites,
    /// Pieces that were unreadable or did not match their checksum.
    pub(crate) rejected: u64,
    /// Bytes copied to reclaim segments.
    pub(crate) rewritten: u64,
    /// Memory of the index, in bytes.
    pub(crate) index_bytes: u64,
    /// Set if pages of an earlier process were recovered.
    pub(crate) is_recovered: bool,
}

#[derive(Debug, Default)]
struct DiskTierCounters {
    written: AtomicU64,
    read: AtomicU64,
    rejected: AtomicU64,
    rewritten: AtomicU64,
    queue_full: AtomicU64,
    disk_failed: AtomicU64,
    closed: AtomicU64,
    too_large: AtomicU64,
}

impl DiskTierCounters {
    fn count_dropped(&self, reason: DropReason) {
        let counter = match reason {
            DropReason::QueueFull => &self.queue_full,
            DropReason::DiskFailed => &self.disk_failed,
            DropReason::Closed => &self.closed,
            DropReason::TooLarge => &self.too_large,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskTierPhase {
    Open,
    /// Reads miss and writes are refused; queued writes are still written.
    Closed,
    /// Queued writes are dropped.
    Abandoned,
}

#[derive(Debug)]
struct DiskTierState {
    index: DiskIndex,
    queue: WriteQueue,
    phase: DiskTierPhase,
    /// Time until which writes are refused after a failure.
    paused_until: Option<Instant>,
}

impl DiskTierState {
    fn is_open(&self) -> bool {
        self.phase == DiskTierPhase::Open
    }

    fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| Instant::now() < until)
    }
}

/// State shared by callers, reads in flight and the writer.
#[derive(Debug)]
struct DiskTierInner {
    geometry: LogGeometry,
    io: Arc<dyn DiskIo>,
    segments: Vec<Arc<LogSegment>>,
    state: Mutex<DiskTierState>,
    /// Notified when the writer has work.
    wake: Condvar,
    counters: DiskTierCounters,
    /// The lock on the folder, released when the writer ends.
    lock: Mutex<Option<File>>,
    is_done: watch::Sender<bool>,
}

/// Blocks of pages on disk. Dropping the tier discards queued writes; `close` writes them.
#[derive(Debug)]
pub(crate) struct DiskTier {
    shared: Arc<DiskTierInner>,
    is_recovered: bool,
    writer: Option<JoinHandle<()>>,
}

impl DiskTier {
    /// Opens the tier, blocking: locks the folder, removes folders of other layouts and recovers the pages of an
    /// earlier process. Damaged content is skipped, not an error.
    pub(crate) fn open(options: DiskTierOptions) -> Result<Self, DiskOpenError> {
        Self::open_with(options, Arc::new(SystemIo), WriteRetryPause::default())
    }

    fn open_with(
        options: DiskTierOptions,
        io: Arc<dyn DiskIo>,
        retry: WriteRetryPause,
    ) -> Result<Self, DiskOpenError> {
        let DiskTierOptions { dir, capacity, page_size, block_size, queue, policy } = options;
        let folder_error = |source| DiskOpenError::Folder { dir: dir.clone(), source };
        let geometry = LogGeometry::new(capacity, page_size, block_size);

        fs::create_dir_all(&dir).map_err(folder_error)?;
        let lock = lock(&dir)?;
        let pages_dir = prepare(&dir, &geometry).map_err(folder_error)?;
        let log = recover::recover(&pages_dir, &geometry, &*io).map_err(folder_error)?;

        let mut index = DiskIndex::new(geometry, policy(geometry.live_capacity()));
        let mut used = vec![false; geometry.segments as usize];
        for batch in log.batches {
            let segment = batch.position.segment;
            if let Some(used) = used.get_mut(segment as usize) {
                *used = true;
            }
            let offsets: Vec<u64> = batch.pieces().map(|(offset, _)| offset).collect();
            for (offset, entry) in offsets.into_iter().zip(batch.entries) {
                index.insert(entry.key, DiskPiece::new(segment, offset, entry));
            }
        }

        let is_recovered = index.pages() > 0;
        let state = DiskTierState {
            index,
            queue: WriteQueue::new(queue),
            phase: DiskTierPhase::Open,
            paused_until: None,
        };
        let shared = Arc::new(DiskTierInner {
            geometry,
            io,
            segments: (0..geometry.segments)
                .map(|index| Arc::new(LogSegment::new(&pages_dir, index)))
                .collect(),
            state: Mutex::new(state),
            wake: Condvar::new(),
            counters: DiskTierCounters::default(),
            lock: Mutex::new(Some(lock)),
            is_done: watch::Sender::new(false),
        });

        let writer = DiskLogWriter::new(shared.clone(), log.tail, &used, retry).map_err(folder_error)?;
        let thread = std::thread::Builder::new().name("disk-cache".to_owned());
        let writer = thread.spawn(move || writer.run()).map_err(folder_error)?;
        Ok(Self { shared, is_recovered, writer: Some(writer) })
    }

    /// Returns a bitmask of the blocks of a page that are on disk. Does no I/O.
    pub(crate) fn blocks(&self, key: &PageKey) -> u64 {
        let state = self.shared.state.lock();
        if state.is_open() { state.index.mask(key) } else { 0 }
    }

    /// Reads exactly these blocks; the last one is short if the object ends in it. Returns `None` if a block is
    /// absent, damaged, or evicted in the meantime. Needs a tokio runtime with I/O enabled.
    pub(crate) async fn read(&self, key: &PageKey, blocks: Range<u32>) -> Option<AlignedBuffer> {
        let read = BlockRead::plan(&self.shared, key, blocks)?;
        if let Some(buffer) = read.run_cached(&self.shared) {
            return Some(buffer);
        }
        if self.shared.io.takes_rings()
            && let Some(ring) = ReadRing::current()
            && let Some(buffer) = read.run_ring(&self.shared, &ring).await
        {
            return Some(buffer);
        }

        let shared = self.shared.clone();
        // Allocated on this thread: memory allocated by many blocking threads and freed by others would stay in their
        // heaps.
        let buffer = read.buffer();
        run_blocking(move || read.run(&shared, buffer)).await.ok().flatten()
    }

    /// Records a hit of a page for the eviction policy.
    pub(crate) fn touch(&self, key: &PageKey) {
        self.shared.state.lock().index.touch(key);
    }

    /// Queues the blocks from `first_block` on for writing, except those already on disk or queued. Only the last
    /// block of an object may be short. Never blocks on I/O.
    pub(crate) fn write(&self, key: PageKey, first_block: u32, bytes: Bytes) -> Result<(), DropReason> {
        self.enqueue(key, first_block, &bytes)
            .inspect_err(|reason| self.shared.counters.count_dropped(*reason))
    }

    fn enqueue(&self, key: PageKey, first_block: u32, bytes: &Bytes) -> Result<(), DropReason> {
        let geometry = &self.shared.geometry;
        let count = (bytes.len() as u64).div_ceil(geometry.block_size);
        let end = u64::from(first_block) + count;
        let batch = batch::lone_batch_len(bytes.len() as u64, geometry.block_size);
        if end > u64::from(geometry.blocks_per_page()) || !geometry.fits(batch) {
            return Err(DropReason::TooLarge);
        }

        let mut state = self.shared.state.lock();
        if !state.is_open() {
            return Err(DropReason::Closed);
        }
        if state.is_paused() {
            return Err(DropReason::DiskFailed);
        }

        let present = state.index.mask(&key) | state.queue.mask(&key);
        let missing = runs(mask_of(&(first_block..end as u32)) & !present);
        let slices: Vec<(Range<u32>, Bytes)> = missing
            .map(|blocks| {
                let offset = |block: u32| (block - first_block) as usize * geometry.block_size as usize;
                let slice = offset(blocks.start)..offset(blocks.end).min(bytes.len());
                (blocks, bytes.slice(slice))
            })
            .collect();

        if slices.is_empty() {
            return Ok(());
        }

        let len = slices.iter().map(|(_, slice)| slice.len() as u64).sum();
        if !state.queue.has_room_for(len) {
            return Err(DropReason::QueueFull);
        }

        for (blocks, slice) in slices {
            state.queue.push(key, blocks.start, mask_of(&blocks), slice);
        }
        drop(state);

        self.shared.wake.notify_one();
        Ok(())
    }

    /// Returns the fill level of the write queue; `Short` if the tier refuses writes, so that callers do not hold
    /// back read-ahead.
    pub(crate) fn backlog(&self) -> WriteBacklog {
        let state = self.shared.state.lock();
        if !state.is_open() || state.is_paused() {
            return WriteBacklog::Short;
        }
        state.queue.backlog()
    }

    /// Returns the number of pages on disk and in the write queue.
    pub(crate) fn pages(&self) -> u64 {
        let state = self.shared.state.lock();
        (state.index.pages() + state.queue.pages()) as u64
    }

    /// Returns the keys of an object's pages, including those in the write queue. Scans the keys of all pages.
    pub(crate) fn pages_of(&self, object: ObjectHash) -> Vec<PageKey> {
        let state = self.shared.state.lock();
        let keys = state.index.keys().chain(state.queue.keys());
        keys.filter(|key| key.object == object).collect()
    }

    /// Removes a page, even if it is queued or being written: it is absent at once, until it is written again.
    pub(crate) fn remove(&self, key: &PageKey) {
        let mut state = self.shared.state.lock();
        state.queue.cancel(key);
        state.index.remove(key);
    }

    /// Writes queued blocks, syncs and releases the folder. From the call on, reads miss and writes are dropped.
    pub(crate) async fn close(&self) {
        self.end(DiskTierPhase::Closed);
        // `shared` owns the sender, so the wait ends only when the writer does.
        self.shared.is_done.subscribe().wait_for(|is_done| *is_done).await.ok();
    }

    pub(crate) fn stats(&self) -> DiskTierStats {
        let counters = &self.shared.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let dropped = DroppedWrites {
            queue_full: get(&counters.queue_full),
            disk_failed: get(&counters.disk_failed),
            closed: get(&counters.closed),
            too_large: get(&counters.too_large),
        };

        let state = self.shared.state.lock();
        DiskTierStats {
            is_paused: state.is_open() && state.is_paused(),
            capacity: self.shared.geometry.capacity(),
            used: state.index.live(),
            pages: state.index.pages() as u64,
            written: get(&counters.written),
            read: get(&counters.read),
            dropped,
            rejected: get(&counters.rejected),
            rewritten: get(&counters.rewritten),
            index_bytes: state.index.memory_bytes() as u64,
            is_recovered: self.is_recovered,
        }
    }

    fn end(&self, phase: DiskTierPhase) {
        let mut state = self.shared.state.lock();
        if state.is_open() {
            state.phase = phase;
        }
        drop(state);
        self.shared.wake.notify_one();
    }
}

impl Drop for DiskTier {
    fn drop(&mut self) {
        // A close in progress continues: even if its caller was cancelled, its pages must be written.
        self.end(DiskTierPhase::Abandoned);
        if let Some(writer) = self.writer.take() {
            writer.join().ok();
        }
    }
}

fn lock(dir: &Path) -> Result<File, DiskOpenError> {
    let error = |source| DiskOpenError::Folder { dir: dir.to_owned(), source };
    let lock =
        File::options().create(true).write(true).truncate(false).open(dir.join("lock")).map_err(error)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DiskOpenError::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(error(source)),
    }
}

/// Returns the folder of the segments, creating it if absent; removes those of other layouts.
fn prepare(dir: &Path, geometry: &LogGeometry) -> std::io::Result<PathBuf> {
    let name = format!("pages-v2-{}-{}", geometry.page_size, geometry.block_size);
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let file_name = entry.file_name();
        if file_name.to_string_lossy().starts_with("pages-v") && file_name.to_string_lossy() != name {
            recover::remove(&entry.path())?;
        }
    }

    let pages_dir = dir.join(name);
    if fs::symlink_metadata(&pages_dir).is_ok_and(|metadata| metadata.is_file()) {
        fs::remove_file(&pages_dir)?;
    }
    fs::create_dir_all(&pages_dir)?;
    Ok(pages_dir)
}

/// Returns the runs of consecutive bits of a mask.
fn runs(mut mask: u64) -> impl Iterator<Item = Range<u32>> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let start = mask.trailing_zeros();
        let end = start + (mask >> start).trailing_ones();
        mask &= !mask_of(&(start..end));
        Some(start..end)
    })
}
