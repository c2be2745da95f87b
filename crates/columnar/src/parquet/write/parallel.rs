//! Work on the columns of a row group, done by a few threads side by side.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::Mutex;

/// Why work failed: the column, if it is known, and the reason.
pub(super) type Failed = (Option<String>, String);

/// What becomes of all that is to be done, in its order: threads take the next that nobody took. Dropped, it ends when
/// what is being done is done.
pub(super) async fn in_parallel<T: Send + 'static, U: Send + 'static>(
    threads: usize,
    work: Vec<T>,
    run: impl Fn(T) -> Result<U, Failed> + Copy + Send + Sync + 'static,
) -> Result<Vec<U>, Failed> {
    let count = work.len();
    let queue: Arc<Mutex<VecDeque<(usize, T)>>> =
        Arc::new(Mutex::new(work.into_iter().enumerate().collect()));
    let _end = EndOnDrop(queue.clone());
    let threads = (0..threads.min(count)).map(|_| {
        let queue = queue.clone();
        tokio::task::spawn_blocking(move || {
            let mut done = Vec::new();
            loop {
                let next = queue.lock().pop_front();
                let Some((at, item)) = next else { return Ok(done) };
                let ran = guarded(|| Ok(run(item))).unwrap_or_else(|reason| Err((None, reason)));
                done.push((at, ran.inspect_err(|_| queue.lock().clear())?));
            }
        })
    });
    let mut all: Vec<(usize, U)> = Vec::with_capacity(count);
    for thread in futures::future::join_all(threads).await {
        all.extend(thread.map_err(|ended| (None, ended.to_string()))??);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, done)| done).collect())
}

/// Ends the work of those whom nobody waits for any more.
struct EndOnDrop<T>(Arc<Mutex<VecDeque<(usize, T)>>>);

impl<T> Drop for EndOnDrop<T> {
    fn drop(&mut self) {
        self.0.lock().clear();
    }
}

/// An encoder that meets values which its authors did not think of must not take the process with it.
pub(super) fn guarded<T>(encode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|_| Err("the encoder gave up".to_owned()))
}
