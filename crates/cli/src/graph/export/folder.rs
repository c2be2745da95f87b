//! A folder whose files become visible once all of them are complete.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use stylobate_storage::wait_for_unfinished_writes;
use tempfile::{Builder, TempDir};

use crate::{failure::usage, rows::UNFINISHED_WRITES_TIMEOUT};

/// Temporary files for a folder. Removed on drop, after all threads have finished writing to it.
#[derive(Debug)]
pub(super) struct NewFolder {
    target: PathBuf,
    /// Located next to a new folder, but inside an existing one, which may be a mount point.
    temporary: Option<TempDir>,
    path: PathBuf,
    is_new: bool,
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if self.temporary.is_some() {
            // An abandoned sink may still be creating its file, and with it the folder.
            wait_for_unfinished_writes(UNFINISHED_WRITES_TIMEOUT);
        }
    }
}

impl NewFolder {
    /// Prepares to write into a folder that is missing or empty or, with `replace`, has any content.
    pub(super) fn create(target: &Path, replace: bool) -> Result<Self> {
        let shown = target.display();
        if target.to_string_lossy().contains("://") {
            return Err(usage(format!("{shown}: tables are written into a local folder")));
        }

        let is_new = match fs::read_dir(target).map(|mut entries| entries.next().is_none()) {
            Ok(is_empty) if replace || is_empty => false,
            Ok(_) => {
                return Err(usage(format!(
                    "{shown} is not empty: give another folder, or --force to replace files there"
                )));
            }
            Err(_) if fs::symlink_metadata(target).is_ok() => {
                return Err(usage(format!("{shown} is no folder that can be read")));
            }
            Err(_) => true,
        };

        // Removes a trailing slash, which would yield an empty file name.
        let target: PathBuf = target.components().collect();
        let beside = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };

        let within = if is_new { beside } else { &target };
        if !within.is_dir() {
            return Err(usage(format!("{shown}: there is no folder {}", within.display())));
        }

        let mut builder = Builder::new();
        builder.prefix(".export.").suffix(".unfinished").permissions(Permissions::from_mode(0o777));
        let temporary = builder.tempdir_in(within).with_context(|| format!("creating {shown}"))?;

        let path = temporary.path().to_owned();

        Ok(Self { target, temporary: Some(temporary), path, is_new })
    }

    /// Returns the folder for temporary files.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Publishes the files: into a new folder all at once, into an existing one file by file.
    pub(super) fn publish(mut self, names: &[String]) -> Result<()> {
        let target = self.target.clone();
        let naming = || format!("naming {}", target.display());
        let changed = if self.is_new {
            fs::rename(&self.path, &target).with_context(naming)?;
            // The folder was renamed, so there is nothing to remove.
            let _ = self.temporary.take().map(TempDir::keep);
            target
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new("."))
                .to_owned()
        } else {
            for name in names {
                fs::rename(self.path.join(name), target.join(name)).with_context(naming)?;
            }
            self.temporary.take().map_or(Ok(()), TempDir::close).with_context(naming)?;
            target.clone()
        };

        File::open(&changed).and_then(|folder| folder.sync_all()).with_context(naming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_appears_when_its_files_are_whole() {
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("out/");
        let folder = NewFolder::create(&target, false).unwrap();
        fs::write(folder.path().join("a"), "x").unwrap();
        assert!(!target.exists());
        folder.publish(&["a".to_owned()]).unwrap();
        assert_eq!((names(here.path()), names(&target)), (vec!["out".to_owned()], vec!["a".to_owned()]));
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o700, 0o700);
    }

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let here = tempfile::tempdir().unwrap();
        drop(NewFolder::create(&here.path().join("out"), false).unwrap());
        drop(NewFolder::create(here.path(), false).unwrap());
        assert!(names(here.path()).is_empty());
    }

    #[test]
    fn other_files_stay_and_are_not_disturbed_unasked() {
        let here = tempfile::tempdir().unwrap();
        fs::write(here.path().join("other"), "x").unwrap();
        fs::write(here.path().join("a"), "old").unwrap();
        let error = NewFolder::create(here.path(), false).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        let folder = NewFolder::create(here.path(), true).unwrap();
        fs::write(folder.path().join("a"), "new").unwrap();
        folder.publish(&["a".to_owned()]).unwrap();
        assert_eq!(names(here.path()), ["a", "other"]);
        assert_eq!(fs::read_to_string(here.path().join("a")).unwrap(), "new");
        assert!(NewFolder::create(&here.path().join("other"), true).is_err());
        assert!(NewFolder::create(&here.path().join("no/such"), true).is_err());
    }
}
