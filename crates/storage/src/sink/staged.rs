//! A file that gets its name once it is complete; until then it has a temporary one in the same directory.
//!
//! It is locked by the process that writes it, so an unlocked one is a leftover of a killed process.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Overwrite,
    folder::{StagedFolder, folder_or_here, missing_folders, parents},
    leftovers::{remove_leftovers, staged_name},
    unfinished::UnfinishedWriteGuard,
};
use crate::{Error, Result};

/// A file under its temporary name. Dropping it without [`StagedFile::publish`] removes it.
#[derive(Debug)]
pub(super) struct StagedFile {
    path: PathBuf,
    staged: PathBuf,
    /// The folder in which it is staged together with others; the folder is locked instead of the file.
    folder: Option<Arc<StagedFolder>>,
    /// Folders created for it alone, innermost first.
    made: Vec<PathBuf>,
    is_published: bool,
    _unfinished: UnfinishedWriteGuard,
}

impl StagedFile {
    /// Creates missing folders, removes leftovers of other processes, and opens a new file by `open_new`, which is
    /// called again if another process removes that file.
    pub(super) fn create(
        path: &Path,
        mut open_new: impl FnMut(&Path) -> io::Result<File>,
    ) -> Result<(Self, File)> {
        let failed = |source: io::Error| Error::write(path, source);
        let (folder, name) =
            folder_and_name(path).ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        let made = missing_folders(folder);
        std::fs::create_dir_all(folder).map_err(failed)?;
        remove_leftovers(folder, name).map_err(failed)?;

        loop {
            let staged = folder.join(staged_name(name));
            let file = open_new(&staged).map_err(failed)?;
            // Another process that removes leftovers may have deleted the file before it was locked. On a file system
            // without locks, none are removed.
            let is_lost = matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !staged.exists();

            let staged = Self {
                path: path.to_owned(),
                staged,
                folder: None,
                made: made.clone(),
                is_published: is_lost,
                _unfinished: UnfinishedWriteGuard::begin(),
            };

            if !is_lost {
                return Ok((staged, file));
            }
        }
    }

    /// Opens a new file by `open_new`, which gets this name, relative to the folder, once it is published.
    pub(super) fn create_in(
        folder: Arc<StagedFolder>,
        name: &str,
        open_new: impl FnOnce(&Path) -> io::Result<File>,
    ) -> Result<(Self, File)> {
        let path = folder.final_path(name);
        let make = |staged: &Path| {
            std::fs::create_dir_all(staged.parent().unwrap_or(staged))?;
            Ok((staged.to_owned(), open_new(staged)?))
        };
        let (staged, file) = folder.make(name, make).map_err(|source| Error::write(&path, source))?;
        let _unfinished = UnfinishedWriteGuard::begin();
        let made = Vec::new();
        Ok((Self { path, staged, folder: Some(folder), made, is_published: false, _unfinished }, file))
    }

    /// Returns the final path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the temporary path.
    pub(super) fn staged_path(&self) -> &Path {
        &self.staged
    }

    /// Returns whether the file is staged beside its final path, and locked exactly while it is open.
    pub(super) fn is_alone(&self) -> bool {
        self.folder.is_none()
    }

    /// Returns the folders to sync once the file is published: those whose entries change then, or changed when missing
    /// folders were created.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let parent = folder_or_here(self.path.parent().unwrap_or(&self.path));
        match &self.folder {
            None => [parent.to_owned()].into_iter().chain(parents(&self.made)).collect(),
            Some(folder) => folder.around(parent),
        }
    }

    /// Gives the file its name, replacing an existing file unless that is refused. The caller syncs the folder.
    pub(super) fn publish(mut self, overwrite: Overwrite) -> Result<()> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::exists(&self.path),
            _ => Error::write(&self.path, source),
        };
        let parent = folder_or_here(self.path.parent().unwrap_or(&self.path));
        if self.folder.is_some() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }

        match overwrite {
            Overwrite::Replace => std::fs::rename(&self.staged, &self.path).map_err(failed)?,
            Overwrite::Refuse => rename_to_new(&self.staged, &self.path).map_err(failed)?,
        }
        self.is_published = true;
        Ok(())
    }
}

/// Renames a file, unless the new name exists.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::{
            fs::{CWD, RenameFlags, renameat_with},
            io::Errno,
        };
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            renamed => return Ok(renamed?),
        }
    }
    link_to_new(from, to)
}

/// Links and unlinks the file, on a file system that lacks such a rename.
fn link_to_new(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.is_published
            && let Err(error) = std::fs::remove_file(&self.staged)
            // A closed folder has been removed with its content.
            && !(self.folder.is_some() && error.kind() == io::ErrorKind::NotFound)
        {
            tracing::warn!(path = %self.staged.display(), %error, "unfinished file not removed");
        }
    }
}

fn folder_and_name(path: &Path) -> Option<(&Path, &str)> {
    Some((folder_or_here(path.parent()?), path.file_name()?.to_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_new(path: &Path) -> io::Result<File> {
        File::options().write(true).create_new(true).open(path)
    }

    #[test]
    fn only_what_nobody_writes_any_more_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let left = folder.path().join(".a.parquet.0123456789abcdef.part");
        let other = folder.path().join(".b.parquet.0123456789abcdef.part");
        std::fs::write(&left, "x").unwrap();
        std::fs::write(&other, "x").unwrap();
        let (first, _first_file) = StagedFile::create(&path, open_new).unwrap();
        let (second, _second_file) = StagedFile::create(&path, open_new).unwrap();
        assert!(!left.exists() && other.exists() && first.staged.exists());
        first.publish(Overwrite::Replace).unwrap();
        drop(second);
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".b.parquet.0123456789abcdef.part", "a.parquet"]);
    }

    #[test]
    fn missing_folders_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c.parquet");
        let (staged, _file) = StagedFile::create(&path, open_new).unwrap();
        assert!(!path.exists());
        staged.publish(Overwrite::Refuse).unwrap();
        assert!(path.exists());
        assert!(StagedFile::create(Path::new("/"), open_new).is_err());
    }

    #[test]
    fn the_folders_in_which_folders_were_made_are_synced_too() {
        let folder = tempfile::tempdir().unwrap();
        let within = |name: &str| folder.path().join(name);
        let (staged, _file) = StagedFile::create(&within("a/b/c"), open_new).unwrap();
        assert_eq!(staged.folders(), [within("a/b"), within("a"), folder.path().to_owned()]);
        std::fs::create_dir(within("d")).unwrap();
        let (staged, _file) = StagedFile::create(&within("d/e"), open_new).unwrap();
        assert_eq!(staged.folders(), [within("d")]);
    }

    #[test]
    fn a_file_that_came_meanwhile_is_not_replaced_where_that_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let (staged, _file) = StagedFile::create(&path, open_new).unwrap();
        std::fs::write(&path, "another's").unwrap();
        let refused = staged.publish(Overwrite::Refuse).unwrap_err();
        assert!(matches!(refused, Error::Exists { .. }), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"another's");
        let other = folder.path().join("b");
        std::fs::write(&other, "mine").unwrap();
        assert_eq!(link_to_new(&other, &path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        link_to_new(&other, &folder.path().join("c")).unwrap();
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }
}
