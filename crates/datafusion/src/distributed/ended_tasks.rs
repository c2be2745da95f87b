//! Releases the state of tasks once their query has ended.
//!
//! The engine's task table evicts removed tasks only when it is accessed: on an idle node, the memory of the last
//! query's joins would stay reserved until the next query.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use datafusion_distributed::{ExecuteTaskRequest, ProducerHead, TaskKey, Worker};
use tokio::{
    sync::Notify,
    task::AbortHandle,
    time::{sleep, timeout},
};
use uuid::Uuid;

/// Interval between two accesses of the table, which evicts tasks that were removed at least 0.3 s ago.
const INTERVAL: Duration = Duration::from_millis(400);
/// Maximum time of an access.
const TIMEOUT: Duration = Duration::from_millis(50);

/// The number of tasks with a plan in memory.
#[derive(Debug, Default)]
pub(super) struct TaskCount {
    count: AtomicUsize,
    begun: Notify,
}

impl TaskCount {
    /// Counts a task until the returned guard is dropped with the task's session.
    pub(super) fn enter(self: &Arc<Self>) -> CountedTask {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.begun.notify_one();
        CountedTask(self.clone())
    }
}

/// Guard of a counted task.
#[derive(Debug)]
pub(super) struct CountedTask(Arc<TaskCount>);

impl Drop for CountedTask {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accesses the task table of a worker periodically while there are tasks. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct EndedTasks(AbortHandle);

impl EndedTasks {
    /// Starts in the current runtime.
    pub(super) fn start(worker: Worker, tasks: Arc<TaskCount>) -> Self {
        let looking = tokio::spawn(async move {
            loop {
                tasks.begun.notified().await;
                while tasks.count.load(Ordering::Relaxed) > 0 {
                    sleep(INTERVAL).await;
                    // No query has this id: the call only accesses the table.
                    let _ = timeout(TIMEOUT, worker.execute_task(no_task())).await;
                }
            }
        });
        Self(looking.abort_handle())
    }
}

impl Drop for EndedTasks {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn no_task() -> ExecuteTaskRequest {
    ExecuteTaskRequest {
        task_key: TaskKey { query_id: Uuid::nil(), stage_id: 0, task_number: 0 },
        target_partition_start: 0,
        target_partition_end: 0,
        producer_head: ProducerHead::None,
    }
}
