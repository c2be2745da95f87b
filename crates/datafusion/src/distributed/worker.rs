//! The worker of a node, which runs tasks of queries that other nodes planned.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    common::Result,
    error::DataFusionError,
    execution::{SessionState, runtime_env::RuntimeEnv},
    prelude::SessionConfig,
};
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext, WorkerSessionBuilder};
use stylobate_columnar::Cache;

use super::{
    channels::NodeChannels,
    codec::ScanCodec,
    ended_tasks::{EndedTasks, TaskCount},
    options,
    session::Distribution,
    task_scan::{ScanOpener, TableSources},
};

/// Builds the worker of a node.
#[derive(Clone)]
pub struct QueryWorkerBuilder {
    runtime: Arc<RuntimeEnv>,
    sessions: WorkerSessions,
}

impl QueryWorkerBuilder {
    /// Creates a builder: tasks use the memory and the spill folder of `runtime`, read `sources` through `cache`, and
    /// request rows from the other workers of `distribution`.
    pub fn new(
        runtime: Arc<RuntimeEnv>,
        cache: Cache,
        sources: Arc<dyn TableSources>,
        distribution: &Distribution,
    ) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let opener = ScanOpener { cache, sources, threads };
        let channels = distribution.channels().clone();
        Self { runtime, sessions: WorkerSessions { opener, channels, tasks: Arc::default() } }
    }

    /// Sets the number of decoding threads per scan. Default: one per core.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.sessions.opener.threads = threads.max(1);
        self
    }

    /// Starts the worker. Must be called within a tokio runtime.
    pub fn build(self) -> QueryWorker {
        let tasks = self.sessions.tasks.clone();
        let worker = Worker::from_session_builder(self.sessions)
            .with_runtime_env(self.runtime)
            .with_version(env!("CARGO_PKG_VERSION"));
        let ended = Arc::new(EndedTasks::start(worker.clone(), tasks));
        QueryWorker { worker, _ended: ended }
    }
}

impl fmt::Debug for QueryWorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryWorkerBuilder").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

/// The worker of a node. Cheap to clone.
#[derive(Clone)]
pub struct QueryWorker {
    worker: Worker,
    _ended: Arc<EndedTasks>,
}

impl QueryWorker {
    /// Returns the engine's worker, whose `into_worker_server` yields the gRPC service. Ended tasks release their
    /// memory as long as this `QueryWorker` exists.
    pub fn of_engine(&self) -> Worker {
        self.worker.clone()
    }
}

impl fmt::Debug for QueryWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryWorker").field("version", &self.worker.version()).finish_non_exhaustive()
    }
}

/// Creates a session for each task.
#[derive(Clone, Debug)]
struct WorkerSessions {
    opener: ScanOpener,
    channels: NodeChannels,
    tasks: Arc<TaskCount>,
}

#[async_trait]
impl WorkerSessionBuilder for WorkerSessions {
    async fn build_session_state(
        &self,
        context: WorkerQueryContext,
    ) -> Result<SessionState, DataFusionError> {
        let mut builder = context.builder;
        let config = builder.config().get_or_insert_with(SessionConfig::default);
        options::apply(&context.headers, config)?;
        config.set_extension(Arc::new(self.tasks.enter()));
        let builder = builder
            .with_distributed_user_codec(ScanCodec::for_worker(self.opener.clone()))
            .with_distributed_channel_resolver(self.channels.clone());
        Ok(builder.build())
    }
}
