//! What the queries of a session or an engine share: a pool of memory, and a folder for data that does not fit into it.

use std::{path::Path, sync::Arc};

use datafusion::{
    execution::{
        disk_manager::{DiskManager, DiskManagerMode},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::SessionConfig,
};
use stylobate_columnar::Cache;
use tempfile::TempDir;

use crate::{
    error::{Error, Result},
    memory::CachePool,
};

/// Memory of a cache, and a temporary folder that is removed with it.
pub(crate) struct SharedRuntime {
    pub(crate) env: Arc<RuntimeEnv>,
    _spill: TempDir,
}

impl SharedRuntime {
    /// Creates a pool over the memory of the cache, and a folder below `spill`.
    pub(crate) fn create(cache: Cache, spill: &Path) -> Result<Self> {
        let refused = |source| Error::Spill { path: spill.display().to_string(), source };
        let folder = tempfile::Builder::new().prefix("stylobate-sql-").tempdir_in(spill).map_err(refused)?;

        let disk =
            DiskManager::builder().with_mode(DiskManagerMode::Directories(vec![folder.path().to_owned()]));
        let env = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(disk)
            .with_memory_pool(Arc::new(CachePool::over(cache)))
            .build_arc()?;
        Ok(Self { env, _spill: folder })
    }
}

/// Returns the configuration of sessions whose operators work in this number of partitions.
pub(crate) fn session_config(threads: usize) -> SessionConfig {
    SessionConfig::new().with_target_partitions(threads).with_information_schema(true)
}
