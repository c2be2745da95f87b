//! What the queries of a session or an engine share: a pool of memory, and a folder for data that does not fit into it.

use std::{path::Path, sync::Arc};

use datafusion::{
    execution::{
        disk_manager::{DiskManager, DiskManagerMode},
        memory_pool::MemoryLimit,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::SessionConfig,
};

use crate::{
    error::{Error, Result},
    memory::QueryMemory,
    spill::SpillFolder,
};

/// The merges of sorts set aside at most the memory divided by this, an equal share for each thread. With DataFusion's
/// 10 MB per thread, a small memory would have nothing left to sort with.
const MERGE_DIVISOR: usize = 4;

/// Memory of a cache, and a temporary folder that is removed with it.
pub(crate) struct SharedRuntime {
    pub(crate) env: Arc<RuntimeEnv>,
    spill: Option<SpillFolder>,
}

impl SharedRuntime {
    /// Creates a runtime over this memory, and a folder below `spill`. Without a folder, what does not fit into memory
    /// fails.
    pub(crate) fn create(memory: &QueryMemory, spill: Option<&Path>) -> Result<Self> {
        let create = |parent: &Path| {
            let refused = |source| Error::Spill { path: parent.display().to_string(), source };
            SpillFolder::create_in(parent).map_err(refused)
        };
        let spill = spill.map(create).transpose()?;

        let mode = match &spill {
            Some(spill) => DiskManagerMode::Directories(vec![spill.path().to_owned()]),
            None => DiskManagerMode::Disabled,
        };
        let env = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(DiskManager::builder().with_mode(mode))
            .with_memory_pool(memory.pool())
            .build_arc()?;
        Ok(Self { env, spill })
    }

    /// Returns the configuration of sessions whose operators work in this number of partitions.
    pub(crate) fn session_config(&self, threads: usize) -> SessionConfig {
        let config = SessionConfig::new().with_target_partitions(threads).with_information_schema(true);
        let MemoryLimit::Finite(limit) = self.env.memory_pool.memory_limit() else { return config };
        let merge_bytes = config.options().execution.sort_spill_reservation_bytes;
        config.with_sort_spill_reservation_bytes(merge_bytes.min(limit / (MERGE_DIVISOR * threads.max(1))))
    }

    /// Returns the folder for what does not fit into memory, if there is one.
    pub(crate) fn spill_folder(&self) -> Option<&Path> {
        self.spill.as_ref().map(SpillFolder::path)
    }
}
