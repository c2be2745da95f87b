//! Resources shared by the queries of a session or an engine: a memory pool and a spill folder.

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

/// All sort merges together reserve at most `1 / MERGE_DIVISOR` of the memory, divided equally among threads. With
/// DataFusion's 10 MB per thread, little memory would be left to sort with.
const MERGE_DIVISOR: usize = 4;

/// Memory of a cache, and a temporary folder that is removed with this value.
pub(crate) struct SharedRuntime {
    pub(crate) env: Arc<RuntimeEnv>,
    spill: Option<SpillFolder>,
}

impl SharedRuntime {
    /// Creates a runtime over this memory, and a folder below `spill`. Without a folder, queries that exceed the
    /// memory fail.
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

    /// Returns the configuration of sessions whose operators run in this number of partitions.
    pub(crate) fn session_config(&self, threads: usize) -> SessionConfig {
        let config = SessionConfig::new().with_target_partitions(threads).with_information_schema(true);
        let MemoryLimit::Finite(limit) = self.env.memory_pool.memory_limit() else { return config };
        let merge_bytes = config.options().execution.sort_spill_reservation_bytes;
        config.with_sort_spill_reservation_bytes(merge_bytes.min(limit / (MERGE_DIVISOR * threads.max(1))))
    }

    /// Returns the spill folder, if there is one.
    pub(crate) fn spill_folder(&self) -> Option<&Path> {
        self.spill.as_ref().map(SpillFolder::path)
    }
}
