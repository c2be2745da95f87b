//! Orders the memory reservations of a scan's row groups in the order of reading, so that no row group waits for memory
//! that later ones hold.

use tokio::sync::{oneshot, watch};

/// Position of a row group in that order.
pub(super) struct RowGroupTurn {
    /// Number of earlier row groups that are still being read.
    before: watch::Receiver<usize>,
    /// Completes when the previous row group has its memory or needs none.
    previous: Option<oneshot::Receiver<()>>,
    next: Option<oneshot::Sender<()>>,
}

/// Queue that hands out turns in order.
#[derive(Default)]
pub(super) struct RowGroupTurns {
    last: Option<oneshot::Receiver<()>>,
}

impl RowGroupTurns {
    /// Returns the turn of the next row group, and the sender of the number of row groups before it.
    pub(super) fn next(&mut self, before: usize) -> (RowGroupTurn, watch::Sender<usize>) {
        let (sender, before) = watch::channel(before);
        let (next, after) = oneshot::channel();
        (RowGroupTurn { before, previous: self.last.replace(after), next: Some(next) }, sender)
    }
}

impl RowGroupTurn {
    /// Waits for the previous row group. Returns whether no earlier one is still being read.
    pub(super) async fn begin(&mut self) -> bool {
        if let Some(previous) = self.previous.take() {
            // An error means that the previous row group has ended.
            let _ = previous.await;
        }
        *self.before.borrow_and_update() == 0
    }

    /// Waits until an earlier row group has been read. Returns whether the scan still has a reader.
    pub(super) async fn wait(&mut self) -> bool {
        self.before.changed().await.is_ok()
    }

    /// Lets the next row group reserve memory.
    pub(super) fn pass_on(&mut self) {
        self.next = None;
    }
}
