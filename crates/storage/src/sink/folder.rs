//! A folder in which files are staged that appear together.
//!
//! ```text
//! .stylobate.<16 hexadecimal digits>.part/     in the target folder, locked by the process that writes
//! ```
//!
//! An unlocked folder is a leftover of a killed process; the next writer to the same target folder removes it.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use parking_lot::RwLock;

use super::unfinished::UnfinishedWriteGuard;
use crate::{Error, Result};

const PREFIX: &str = ".stylobate.";
const SUFFIX: &str = ".part";

/// A locked staging folder. Closing or dropping it removes it with its content.
#[derive(Debug)]
pub(super) struct StagedFolder {
    path: PathBuf,
    staged: PathBuf,
    /// Folders created for it, innermost first: removed again if they remain empty.
    made: Vec<PathBuf>,
    is_closed: RwLock<bool>,
    _lock: File,
    _unfinished: UnfinishedWriteGuard,
}

impl StagedFolder {
    /// Creates the staging folder and any missing parents, and removes leftovers of other processes.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let failed = |source: io::Error| Error::write(path, source);
        let made = missing_folders(path);
        fs::create_dir_all(path).map_err(failed)?;
        remove_leftovers(path).map_err(failed)?;

        loop {
            let staged = path.join(format!("{PREFIX}{:016x}{SUFFIX}", rand::random::<u64>()));
            fs::create_dir(&staged).map_err(failed)?;
            // Another process that removes leftovers may delete it before it is locked.

            let Ok(lock) = File::open(&staged) else { continue };
            let is_lost = matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) || !staged.exists();
            if !is_lost {
                let _unfinished = UnfinishedWriteGuard::begin();
                let path = path.to_owned();
                let is_closed = RwLock::new(false);
                return Ok(Self { path, staged, made, is_closed, _lock: lock, _unfinished });
            }
        }
    }

    /// Returns the final path of a file.
    pub(super) fn final_path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the folders whose entries may change when a file is published in `folder`: that folder, and those
    /// of its ancestors that may be new.
    pub(super) fn around(&self, folder: &Path) -> Vec<PathBuf> {
        let within =
            folder.ancestors().take_while(|above| above.starts_with(&self.path) && *above != self.path);
        let within = within.chain([self.path.as_path()]).map(Path::to_owned);
        within.chain(parents(&self.made)).collect()
    }

    /// Creates an entry at the staging path of a file. Fails once the folder is closed.
    pub(super) fn make<T>(&self, name: &str, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let is_closed = self.is_closed.read();
        if *is_closed {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "the files that it belongs to were given up",
            ));
        }
        make(&self.staged.join(name))
    }

    /// Removes the folder and its content. Files of concurrent writers are removed too, and no new ones can be
    /// created.
    pub(super) fn close(&self) {
        let mut is_closed = self.is_closed.write();
        if std::mem::replace(&mut *is_closed, true) {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.staged) {
            tracing::warn!(path = %self.staged.display(), %error, "unfinished files not removed");
        }
        // Fails at the first folder that is not empty, and so keeps its ancestors.
        let _ = self.made.iter().try_for_each(fs::remove_dir);
    }
}

impl Drop for StagedFolder {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns the folder, or the current directory for an empty path.
pub(super) fn folder_or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// Returns the folder and its ancestors as far as they do not exist, innermost first.
pub(super) fn missing_folders(folder: &Path) -> Vec<PathBuf> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    folder.ancestors().take_while(is_missing).map(Path::to_owned).collect()
}

/// Returns the folders that contain the entries of these folders.
pub(super) fn parents(folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    folders.iter().filter_map(|folder| folder.parent()).map(|parent| folder_or_here(parent).to_owned())
}

fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_leftover = entry.file_name().to_str().is_some_and(is_staged);
        let Some(found) = is_leftover.then(|| File::open(entry.path()).ok()).flatten() else { continue };
        match found.try_lock() {
            Ok(()) => fs::remove_dir_all(entry.path()).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
    Ok(())
}

fn is_staged(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    digits.is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_writes_any_more_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let first = StagedFolder::create(&path).unwrap();
        let left = path.join(".stylobate.0123456789abcdef.part");
        fs::create_dir_all(left.join("x=1")).unwrap();
        fs::write(left.join("x=1/y"), "x").unwrap();
        let second = StagedFolder::create(&path).unwrap();
        assert!(!left.exists() && first.staged.exists() && second.staged.exists());
        drop(second);
        assert!(first.staged.exists());
        first.make("x=1/z", |path| fs::create_dir_all(path)).unwrap();
        first.close();
        first.make("x=1/z", |path| fs::create_dir_all(path)).unwrap_err();
        assert!(
            fs::read_dir(folder.path()).unwrap().next().is_none(),
            "folders that were made are gone again"
        );
    }
}
