//! What the queries of a session or an engine share: a pool of memory, and a folder for data that does not fit into it.

use std::{
    fs::{self, File},
    io,
    path::Path,
    sync::Arc,
    time::Duration,
};

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

/// What the names of spill folders begin with.
const PREFIX: &str = "stylobate-sql-";
/// A file of each spill folder, locked as long as its process lives.
const LOCK: &str = "lock";
/// Age from which a lock is taken seriously: a younger one may be about to be locked.
const MIN_AGE: Duration = Duration::from_secs(60);

/// Memory of a cache, and a temporary folder that is removed with it.
pub(crate) struct SharedRuntime {
    pub(crate) env: Arc<RuntimeEnv>,
    _spill: Option<SpillFolder>,
}

impl SharedRuntime {
    /// Creates a pool over the memory of the cache, and a folder below `spill`. Without a folder, what does not fit into
    /// memory fails.
    pub(crate) fn create(cache: Cache, spill: Option<&Path>) -> Result<Self> {
        let refused = |source, path: &Path| Error::Spill { path: path.display().to_string(), source };
        let spill =
            spill.map(|path| SpillFolder::create(path).map_err(|error| refused(error, path))).transpose()?;

        let mode = match &spill {
            Some(spill) => DiskManagerMode::Directories(vec![spill.folder.path().to_owned()]),
            None => DiskManagerMode::Disabled,
        };
        let env = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(DiskManager::builder().with_mode(mode))
            .with_memory_pool(Arc::new(CachePool::over(cache)))
            .build_arc()?;
        Ok(Self { env, _spill: spill })
    }
}

/// A folder of this process for data that does not fit into memory.
struct SpillFolder {
    folder: TempDir,
    _lock: File,
}

impl SpillFolder {
    /// Creates a folder, and removes those of processes that were killed.
    fn create(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self { folder, _lock: lock })
    }
}

/// Removes spill folders whose lock is free. One that cannot be removed stays.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && is_abandoned(&entry.path()).unwrap_or(false) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

fn is_abandoned(folder: &Path) -> io::Result<bool> {
    let lock = File::open(folder.join(LOCK))?;
    let is_old = lock.metadata()?.modified()?.elapsed().is_ok_and(|age| age >= MIN_AGE);
    Ok(is_old && lock.try_lock().is_ok())
}

/// Returns the configuration of sessions whose operators work in this number of partitions.
pub(crate) fn session_config(threads: usize) -> SessionConfig {
    SessionConfig::new().with_target_partitions(threads).with_information_schema(true)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn age(folder: &Path) {
        let lock = File::options().write(true).open(folder.join(LOCK)).unwrap();
        lock.set_modified(SystemTime::now() - MIN_AGE).unwrap();
    }

    #[test]
    fn a_folder_of_a_killed_process_is_removed_by_the_next_one() {
        let parent = tempfile::tempdir().unwrap();
        let killed = SpillFolder::create(parent.path()).unwrap();
        let SpillFolder { folder, _lock } = killed;
        let killed = folder.keep();
        drop(_lock);
        fs::write(killed.join("spilled"), "rows").unwrap();
        age(&killed);

        let running = SpillFolder::create(parent.path()).unwrap();
        assert!(!killed.exists());
        age(running.folder.path());
        let young = parent.path().join(format!("{PREFIX}young"));
        fs::create_dir(&young).unwrap();
        File::create(young.join(LOCK)).unwrap();
        let other = SpillFolder::create(parent.path()).unwrap();
        assert!(running.folder.path().exists() && other.folder.path().exists() && young.exists());
    }
}
