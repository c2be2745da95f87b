//! The threads that somebody may keep busy, and the memory that they decode in.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{Error, Result, parquet::Scratch};

/// Somebody's turns on threads, and what one leaves for the next. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Workers {
    turns: Arc<Semaphore>,
    /// No more than there are turns.
    scratches: Arc<Mutex<Vec<Scratch>>>,
}

impl Workers {
    /// So many turns at the same time.
    pub(crate) fn new(threads: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(threads)), scratches: Arc::default() }
    }

    /// Runs work on a thread that may be kept busy, as soon as there is one more turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.map_err(|_| Error::Ended { reason: "it was dropped".to_owned() })?;
        let work = move || {
            let _until_done = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| Error::Ended { reason: error.to_string() })
    }

    /// The same with memory to decode in.
    pub(crate) async fn decode<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Scratch) -> T + Send + 'static,
    ) -> Result<T> {
        let scratches = self.scratches.clone();
        self.run(move || {
            let mut scratch = scratches.lock().pop().unwrap_or_default();
            let done = work(&mut scratch);
            scratches.lock().push(scratch);
            done
        })
        .await
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("free", &self.turns.available_permits()).finish_non_exhaustive()
    }
}
