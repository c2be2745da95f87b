//! Direct reads by io_uring: the calling thread submits, and a task of its runtime completes them, so that reads
//! need no extra threads.
//!
//! A ring belongs to a runtime, as a socket does. If the system does not support io_uring (an old kernel, a container
//! that forbids it), or a ring fails, reads use a blocking thread instead.

#![expect(unsafe_code, reason = "the kernel writes to buffers that it is told the addresses of")]

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use io_uring::{IoUring, opcode, types};
use parking_lot::{Mutex, RwLock};
use slab::Slab;
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::{self, Handle},
    sync::oneshot,
};

use super::{aligned::AlignedBuffer, segment::SegmentReadGuard};

/// Maximum reads in flight per ring; others wait.
const MAX_IN_FLIGHT: usize = 256;
/// Maximum rings per runtime: threads that share a ring contend for its lock.
const MAX_RINGS: usize = 8;

/// The rings of all runtimes, by runtime and number. A runtime has up to [`MAX_RINGS`].
type RuntimeRings = HashMap<(runtime::Id, usize), Weak<ReadRing>>;
static RINGS: LazyLock<RwLock<RuntimeRings>> = LazyLock::new(RwLock::default);
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// A ring of the kernel, and its reads in flight.
pub(super) struct ReadRing {
    ring: IoUring,
    /// Both queues of the ring are accessed only under this lock.
    state: Mutex<ReadRingState>,
}

#[derive(Default)]
struct ReadRingState {
    batches: Slab<ReadBatch>,
    /// Reads in flight, by the user data of their completions.
    in_flight: Slab<SegmentRead>,
    waiting: VecDeque<SegmentRead>,
    /// Set if completions are no longer processed, or the kernel accepts no more reads.
    is_closed: bool,
}

/// Concurrent reads that fill one buffer.
struct ReadBatch {
    buffer: AlignedBuffer,
    len: usize,
    /// Number of reads that have not ended.
    left: usize,
    is_failed: bool,
    done: oneshot::Sender<AlignedBuffer>,
}

/// One read of a batch. Owns everything that the read needs, except the buffer, until it has ended.
struct SegmentRead {
    source: SegmentRange,
    batch: usize,
    /// Offset in the buffer.
    start: usize,
}

/// A part of a segment to read. Its offset and length are multiples of a sector.
pub(super) struct SegmentRange {
    file: Arc<File>,
    offset: u64,
    len: usize,
    /// Keeps the segment from being overwritten.
    _segment: SegmentReadGuard,
}

impl SegmentRange {
    /// Creates the range; `None` if the segment's file is not open yet.
    pub(super) fn new(segment: &SegmentReadGuard, offset: u64, len: usize) -> Option<Self> {
        let file = segment.segment().opened()?;
        Some(Self { file, offset, len, _segment: segment.clone() })
    }
}

impl ReadRing {
    /// Returns a ring of the current runtime; `None` if the system does not support io_uring.
    pub(super) fn current() -> Option<Arc<Self>> {
        if IS_REFUSED.load(Ordering::Relaxed) {
            return None;
        }

        let runtime = Handle::current();
        let key = (runtime.id(), thread_number() % MAX_RINGS);
        if let Some(ring) = RINGS.read().get(&key).and_then(Weak::upgrade) {
            return Some(ring);
        }

        let mut rings = RINGS.write();
        if let Some(ring) = rings.get(&key).and_then(Weak::upgrade) {
            return Some(ring);
        }

        let ring = Self::start(&runtime)
            .inspect_err(|error| {
                tracing::debug!(%error, "no io_uring: the disk cache is read by threads");
                let is_permanent =
                    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EACCES));
                IS_REFUSED.fetch_or(is_permanent, Ordering::Relaxed);
            })
            .ok()?;

        rings.retain(|_, ring| ring.strong_count() > 0);
        rings.insert(key, Arc::downgrade(&ring));
        Some(ring)
    }

    /// Creates a ring, and spawns the task that completes its reads.
    fn start(runtime: &Handle) -> io::Result<Arc<Self>> {
        let ring = IoUring::builder().dontfork().build(MAX_IN_FLIGHT as u32)?;
        let ring = Arc::new(Self { ring, state: Mutex::default() });
        let completer = RingCompleter(ring.clone());
        let _guard = runtime.enter();
        // SAFETY: the ring owns the descriptor, and the completer keeps the ring alive.
        let events = unsafe { AsyncFd::register_with_interest(completer, Interest::READABLE) }?;

        runtime.spawn(async move {
            while let Ok(mut guard) = events.readable().await {
                // Clear readiness before processing completions: one that arrives later wakes this task again.
                guard.clear_ready();
                events.get_ref().0.complete();
            }
        });
        Ok(ring)
    }

    /// Fills an empty buffer with the sources, in order, by concurrent reads. Returns `None` if any read fails or is
    /// short.
    pub(super) async fn read(
        &self,
        sources: impl IntoIterator<Item = SegmentRange>,
        buffer: AlignedBuffer,
    ) -> Option<AlignedBuffer> {
        self.submit(sources, buffer).await.ok()
    }

    /// Queues the reads of a batch, and submits as many as fit.
    fn submit(
        &self,
        sources: impl IntoIterator<Item = SegmentRange>,
        buffer: AlignedBuffer,
    ) -> oneshot::Receiver<AlignedBuffer> {
        let (done, is_done) = oneshot::channel();
        let mut state = self.state.lock();
        if state.is_closed {
            self.hand_over(&mut state);
            return is_done;
        }

        let batch = state.batches.insert(ReadBatch { buffer, len: 0, left: 0, is_failed: false, done });
        let mut len = 0;
        for source in sources {
            let start = len;
            len += source.len;
            state.waiting.push_back(SegmentRead { source, batch, start });
            if let Some(batch) = state.batches.get_mut(batch) {
                (batch.len, batch.left) = (len, batch.left + 1);
            }
        }

        if len == 0 {
            state.batches.try_remove(batch);
        } else {
            self.submit_waiting(&mut state);
        }
        is_done
    }

    /// Submits waiting reads until [`MAX_IN_FLIGHT`] are in flight.
    fn submit_waiting(&self, state: &mut ReadRingState) {
        let ReadRingState { batches, in_flight, waiting, .. } = state;
        while in_flight.len() < MAX_IN_FLIGHT
            && let Some(read) = waiting.pop_front()
        {
            let Some(batch) = batches.get_mut(read.batch) else { continue };
            let target = batch.buffer.spare(read.start..read.start + read.source.len);
            let fd = types::Fd(read.source.file.as_raw_fd());
            let entry = opcode::Read::new(fd, target.as_mut_ptr().cast(), target.len() as u32);
            let entry = entry.offset(read.source.offset).build();
            let entry = entry.user_data(in_flight.insert(read) as u64);
            // SAFETY: the queue is used only under the lock, and `target` is memory of the batch. Batch and file live
            // until the kernel reports the end of the read. The queue is as long as `MAX_IN_FLIGHT`.
            unsafe { self.ring.submission_shared().push(&entry) }.ok();
        }

        self.hand_over(state);
    }

    /// Hands the submission queue to the kernel. If the kernel is short of memory, the next completion retries.
    /// Closes the ring if no completion is pending, or on any other error; later reads then retry the remaining
    /// entries, whose buffers cannot be freed before the kernel has completed them.
    fn hand_over(&self, state: &mut ReadRingState) {
        // SAFETY: the queue is used only under the lock.
        let queued = || unsafe { self.ring.submission_shared() }.len();
        while queued() > 0 {
            let is_busy = match self.ring.submit() {
                Ok(submitted) if submitted > 0 => continue,
                Ok(_) => true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)),
            };
            if !is_busy || state.in_flight.len() <= queued() {
                state.close();
            }
            return;
        }
    }

    /// Processes completed reads, and submits waiting ones.
    fn complete(&self) {
        let mut ended = Vec::new();
        let mut state = self.state.lock();
        // SAFETY: the queue is used only under the lock.
        for completion in unsafe { self.ring.completion_shared() } {
            let Some(read) = state.in_flight.try_remove(completion.user_data() as usize) else { continue };
            let is_whole = usize::try_from(completion.result()) == Ok(read.source.len);
            ended.extend(state.end(&read, is_whole));
        }

        self.submit_waiting(&mut state);
        drop(state);

        for mut batch in ended {
            if !batch.is_failed {
                // SAFETY: the kernel has written all of it.
                unsafe { batch.buffer.assume_filled(batch.len) };
                // The caller may have been cancelled.
                batch.done.send(batch.buffer).ok();
            }
        }
    }

    /// Refuses further reads, and waits for the kernel to release all buffers.
    fn close(&self) {
        self.state.lock().close();
        while !self.state.lock().in_flight.is_empty() {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // The kernel may still write to the buffers.
                    let mut state = self.state.lock();
                    std::mem::forget(std::mem::take(&mut state.batches));
                    std::mem::forget(std::mem::take(&mut state.in_flight));
                }
                _ => self.complete(),
            }
        }
    }
}

impl ReadRingState {
    /// Ends a read. Returns its batch if it was the batch's last read.
    fn end(&mut self, read: &SegmentRead, is_whole: bool) -> Option<ReadBatch> {
        let batch = self.batches.get_mut(read.batch)?;
        batch.is_failed |= !is_whole;
        batch.left -= 1;
        if batch.left == 0 { self.batches.try_remove(read.batch) } else { None }
    }

    /// Refuses further reads. Callers stop waiting for those in flight: the kernel may not have received them yet.
    fn close(&mut self) {
        self.is_closed = true;
        for read in std::mem::take(&mut self.waiting) {
            self.end(&read, false);
        }
        for (_, batch) in &mut self.batches {
            batch.is_failed = true;
            (batch.done, _) = oneshot::channel();
        }
    }
}

/// The task that completes the reads of a ring. When the runtime drops the task, it closes the ring.
struct RingCompleter(Arc<ReadRing>);

impl AsRawFd for RingCompleter {
    fn as_raw_fd(&self) -> RawFd {
        self.0.ring.as_raw_fd()
    }
}

impl Drop for RingCompleter {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Returns a small number that identifies the current thread.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }

    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::*;
    use crate::page_cache::disk::{aligned::SECTOR, io::SystemIo, segment::LogSegment};

    const SECTORS: usize = 600;

    /// Creates a segment in which every sector has distinct bytes.
    fn segment(dir: &Path) -> SegmentReadGuard {
        let bytes: Vec<u8> =
            (0..SECTORS).flat_map(|sector| [sector as u8 ^ (sector >> 8) as u8; SECTOR]).collect();
        std::fs::write(dir.join("seg-0"), bytes).unwrap();
        let segment = Arc::new(LogSegment::new(dir, 0));
        segment.direct(&SystemIo).unwrap();
        SegmentReadGuard::new(&segment)
    }

    fn ring() -> Option<Arc<ReadRing>> {
        let ring = ReadRing::current();
        if ring.is_none() {
            eprintln!("skipped: the system provides no io_uring");
        }
        ring
    }

    async fn read(ring: &ReadRing, segment: &SegmentReadGuard, sectors: &[usize]) -> Option<AlignedBuffer> {
        let source = |sector: &usize| SegmentRange::new(segment, (sector * SECTOR) as u64, SECTOR);
        let sources: Vec<SegmentRange> = sectors.iter().map(source).collect::<Option<_>>()?;
        ring.read(sources, AlignedBuffer::with_capacity(sectors.len() * SECTOR)).await
    }

    fn holds_sectors(buffer: &AlignedBuffer, sectors: &[usize]) -> bool {
        let (read, rest) = buffer.as_chunks::<SECTOR>();
        let is = |(bytes, sector): (&[u8; SECTOR], &usize)| {
            *bytes == [*sector as u8 ^ (sector >> 8) as u8; SECTOR]
        };
        rest.is_empty() && read.len() == sectors.len() && read.iter().zip(sectors).all(is)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn more_reads_than_a_ring_takes_at_once_fill_their_buffers_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let segment = segment(dir.path());
        let Some(ring) = ring() else { return };
        let batches: Vec<Vec<usize>> =
            (0..40).map(|batch| (0..50).map(|i| (batch * 37 + i * 11) % SECTORS).collect()).collect();
        let reads = batches.iter().map(|batch| read(&ring, &segment, batch));
        for (buffer, batch) in futures::future::join_all(reads).await.into_iter().zip(&batches) {
            assert!(holds_sectors(&buffer.unwrap(), batch));
        }
        let state = ring.state.lock();
        assert!(state.batches.is_empty() && state.in_flight.is_empty() && state.waiting.is_empty());
    }

    #[tokio::test]
    async fn a_read_beyond_the_end_fails_its_batch_alone() {
        let dir = tempfile::tempdir().unwrap();
        let segment = segment(dir.path());
        let Some(ring) = ring() else { return };
        let (short, whole) =
            tokio::join!(read(&ring, &segment, &[1, SECTORS, 2]), read(&ring, &segment, &[3, 4]));
        assert!(short.is_none());
        assert!(holds_sectors(&whole.unwrap(), &[3, 4]));
        assert!(ring.read([], AlignedBuffer::with_capacity(0)).await.is_none());
    }

    #[tokio::test]
    async fn cancelled_reads_end_and_release_the_segment() {
        let dir = tempfile::tempdir().unwrap();
        let segment = segment(dir.path());
        let Some(ring) = ring() else { return };
        for first in 0..100 {
            let sectors: Vec<usize> = (first..first + 5).collect();
            futures::future::poll_immediate(Box::pin(read(&ring, &segment, &sectors))).await;
        }
        assert!(holds_sectors(&read(&ring, &segment, &[7]).await.unwrap(), &[7]));
        let held = segment.segment();
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while !ring.state.lock().in_flight.is_empty() {
            assert!(std::time::Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(held.is_read(), "by this test");
    }

    #[test]
    fn a_ring_ends_with_its_runtime_and_another_runtime_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let segment = segment(dir.path());
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let first = runtime();
        let second = runtime();
        let Some(ring) = first.block_on(async { ring() }) else { return };
        assert!(holds_sectors(&first.block_on(read(&ring, &segment, &[5])).unwrap(), &[5]));

        // One read is in flight when the runtime ends, another is requested after that.
        let pending =
            ring.submit(SegmentRange::new(&segment, 0, SECTOR), AlignedBuffer::with_capacity(SECTOR));
        drop(first);
        second.block_on(async {
            pending.await.ok();
            assert!(ring.state.lock().in_flight.is_empty());
            assert!(read(&ring, &segment, &[5]).await.is_none());
            let own = ReadRing::current().unwrap();
            assert!(!Arc::ptr_eq(&ring, &own));
            assert!(holds_sectors(&read(&own, &segment, &[6, 9]).await.unwrap(), &[6, 9]));
        });
    }
}
