//! Syncs full segments on a dedicated thread, so that the writer absorbs bursts at the speed of the system's page
//! cache.

use std::{
    fs::File,
    io,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use super::{DiskTierInner, DiskTierPhase, segment::LogSegment};

/// Maximum segments that wait to be synced before the writer blocks.
const MAX_WAITING: usize = 16;

/// A full segment, and the descriptor through which it was written.
type FullSegment = (Arc<LogSegment>, Arc<File>);

/// The thread, and the channel of segments to it.
#[derive(Debug)]
pub(super) struct SegmentSyncer {
    full: SyncSender<FullSegment>,
    thread: JoinHandle<()>,
}

impl SegmentSyncer {
    pub(super) fn start(shared: Arc<DiskTierInner>) -> io::Result<Self> {
        let (full, waiting) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("disk-cache-sync".to_owned());
        let thread = thread.spawn(move || run(&shared, &waiting))?;
        Ok(Self { full, thread })
    }

    /// Queues a segment to be synced. Blocks if the queue is full.
    pub(super) fn sync(&self, segment: Arc<LogSegment>, file: Arc<File>) {
        // Fails only if the thread has ended: the system then writes the segment back eventually.
        self.full.send((segment, file)).ok();
    }

    /// Waits until all segments are synced.
    pub(super) fn finish(self) {
        drop(self.full);
        self.thread.join().ok();
    }
}

fn run(shared: &DiskTierInner, waiting: &Receiver<FullSegment>) {
    for (segment, file) in waiting {
        if shared.state.lock().phase != DiskTierPhase::Abandoned {
            if let Err(error) = shared.io.sync(&file) {
                tracing::warn!(%error, "disk cache not synced: its newest pages may be lost");
            }
            shared.io.drop_cached(&file);
        }
        segment.end_writes(&file);
    }
}
