//! The order in which row groups of a scan take memory: that in which they are read, so that none lacks what later ones
//! hold until it is done.

use tokio::sync::{oneshot, watch};

/// What a row group is told of those before it, and tells the next.
pub(super) struct RowGroupTurn {
    /// How many before it are still being read.
    before: watch::Receiver<usize>,
    /// Ends once the one before has its memory, or needs none.
    previous: Option<oneshot::Receiver<()>>,
    next: Option<oneshot::Sender<()>>,
}

/// Makes turns, one after another.
#[derive(Default)]
pub(super) struct RowGroupTurns {
    last: Option<oneshot::Receiver<()>>,
}

impl RowGroupTurns {
    /// The turn of the next row group, and what it is told by.
    pub(super) fn next(&mut self, before: usize) -> (RowGroupTurn, watch::Sender<usize>) {
        let (told, before) = watch::channel(before);
        let (next, after) = oneshot::channel();
        (RowGroupTurn { before, previous: self.last.replace(after), next: Some(next) }, told)
    }
}

impl RowGroupTurn {
    /// Waits for the one before. Returns whether it is being read itself, with none before it.
    pub(super) async fn begin(&mut self) -> bool {
        if let Some(previous) = self.previous.take() {
            // An error means that it ended.
            let _ = previous.await;
        }
        *self.before.borrow_and_update() == 0
    }

    /// Waits until one before it is read. Returns whether there is still a reader.
    pub(super) async fn wait(&mut self) -> bool {
        self.before.changed().await.is_ok()
    }

    /// Lets the next one take memory.
    pub(super) fn pass_on(&mut self) {
        self.next = None;
    }
}
