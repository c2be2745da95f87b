//! Spill folders of queries.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Prefix of the names of spill folders.
const PREFIX: &str = "stylobate-sql-";
/// A file in each spill folder that is locked while its process lives.
const LOCK: &str = "lock";
/// Minimum age of an unlocked lock file for its folder to count as abandoned: a younger one may be about to be
/// locked.
const MIN_AGE: Duration = Duration::from_secs(60);
/// Attempts to remove a folder. Aborted tasks may still create a file in it, but not once its subfolders are gone.
const ATTEMPTS: usize = 10;

/// A folder of this process, removed on drop.
#[derive(Debug)]
pub(crate) struct SpillFolder {
    path: PathBuf,
    _lock: File,
}

impl SpillFolder {
    /// Creates a folder, and removes those of processes that were killed.
    pub(crate) fn create_in(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?.keep();
        let lock = File::create(path.join(LOCK))?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        remove_spill_folder(&self.path);
    }
}

/// Removes the folder of a session, if it exists. Queries that continue to use it fail.
pub fn remove_spill_folder(folder: &Path) {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir_all(folder) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !folder.exists() {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, folder = %folder.display(), "a spill folder is not removed yet");
            }
        }
    }
}

/// Removes spill folders whose lock is free. Failures are ignored.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && is_abandoned(&entry.path()).unwrap_or(false) {
            remove_spill_folder(&entry.path());
        }
    }
}

fn is_abandoned(folder: &Path) -> io::Result<bool> {
    let lock = File::open(folder.join(LOCK))?;
    let is_old = lock.metadata()?.modified()?.elapsed().is_ok_and(|age| age >= MIN_AGE);
    Ok(is_old && lock.try_lock().is_ok())
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
        let killed = parent.path().join(format!("{PREFIX}killed"));
        fs::create_dir(&killed).unwrap();
        File::create(killed.join(LOCK)).unwrap();
        fs::write(killed.join("spilled"), "rows").unwrap();
        age(&killed);

        let running = SpillFolder::create_in(parent.path()).unwrap();
        assert!(!killed.exists());
        age(running.path());
        let young = parent.path().join(format!("{PREFIX}young"));
        fs::create_dir(&young).unwrap();
        File::create(young.join(LOCK)).unwrap();

        let other = SpillFolder::create_in(parent.path()).unwrap();
        assert!(running.path().exists() && other.path().exists() && young.exists());
        let removed = other.path().to_owned();
        drop(other);
        assert!(!removed.exists());
    }
}
