//! The folder of a session for what does not fit into memory.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Attempts to remove a folder. Tasks that were aborted may create a file in it meanwhile, but not after its subfolders
/// are gone.
const ATTEMPTS: usize = 10;

/// A folder that is removed with the value.
#[derive(Debug)]
pub(crate) struct SpillFolder(PathBuf);

impl SpillFolder {
    pub(crate) fn create_in(parent: &Path) -> io::Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("stylobate-sql-").tempdir_in(parent)?.keep()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        remove_spill_folder(&self.0);
    }
}

/// Removes the folder of a session, if it is there. Its queries fail if they go on.
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
                tracing::debug!(%error, folder = %folder.display(), "a spill folder is not removed yet")
            }
        }
    }
}
