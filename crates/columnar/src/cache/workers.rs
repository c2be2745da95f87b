//! Blocking work of one scan: no more at a time than it has threads, with scratch memory that is reused.

use std::sync::Arc;

use parking_lot::Mutex;
use stylobate_storage::run_blocking;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use crate::{Error, Result, parquet::DecodeScratch};

/// Permits for blocking work, and the scratch memory that one decode leaves for the next. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DecodeWorkers {
    turns: Arc<Semaphore>,
    /// At most one for each permit.
    scratches: Arc<Mutex<Vec<DecodeScratch>>>,
}

impl DecodeWorkers {
    /// Allows `threads` pieces of work at the same time.
    pub(crate) fn new(threads: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(threads)), scratches: Arc::default() }
    }

    /// Runs work on a blocking thread as soon as a permit is free. If the future is dropped, work that waits for its
    /// permit never begins, and other work runs to its end.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let turns = self.turns.clone();
        let begin = |turn: OwnedSemaphorePermit| {
            run_blocking(move || {
                let _until_done = turn;
                work()
            })
        };

        match turns.clone().try_acquire_owned() {
            Ok(turn) => Ok(begin(turn).await?),
            // The permit goes to a task rather than to the caller, which may not be polled while others wait.
            Err(_) => {
                let waits = tokio::spawn(async move {
                    let turn = turns.acquire_owned().await;
                    let turn = turn.map_err(|_| Error::Ended { reason: "it was dropped".to_owned() })?;
                    Ok::<_, Error>(begin(turn).await?)
                });
                let done = AbortOnDropHandle::new(waits).await;
                done.unwrap_or_else(|error| Err(Error::Ended { reason: error.to_string() }))
            }
        }
    }

    /// Runs work with scratch memory to decode in.
    pub(crate) async fn decode<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut DecodeScratch) -> T + Send + 'static,
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

impl std::fmt::Debug for DecodeWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecodeWorkers").field("free", &self.turns.available_permits()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, task::Poll, time::Duration};

    use super::*;

    #[tokio::test]
    async fn a_waiter_that_is_not_polled_does_not_keep_others_from_a_permit() {
        let workers = DecodeWorkers::new(1);
        let (go, gone) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let workers = workers.clone();
            async move { workers.run(move || gone.recv().is_ok()).await }
        });
        while workers.turns.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        // It waits for its turn and isn't polled again.
        let mut second = Box::pin(workers.run(|| 2));
        assert!(matches!(futures::poll!(&mut second), Poll::Pending));
        tokio::task::yield_now().await;
        go.send(()).unwrap();
        assert!(first.await.unwrap().unwrap());
        let third = tokio::time::timeout(Duration::from_secs(30), workers.run(|| 3)).await;
        assert_eq!(third.unwrap().unwrap(), 3);
        assert_eq!(second.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_dropped_waiter_leaves_the_queue() {
        let workers = DecodeWorkers::new(1);
        let turn = workers.turns.clone().acquire_owned().await.unwrap();
        let mut given_up = Box::pin(workers.run(|| 1));
        assert!(futures::poll!(&mut given_up).is_pending());
        tokio::task::yield_now().await;
        drop(given_up);
        drop(turn);
        let next = tokio::time::timeout(Duration::from_secs(30), workers.run(|| 2)).await;
        assert_eq!(next.unwrap().unwrap(), 2);
    }
}
