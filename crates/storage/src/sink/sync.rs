//! Syncs many files and folders concurrently: a file system commits its journal once per request if they are serial,
//! and once in total if they are concurrent.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    thread,
};

use parking_lot::Mutex;

/// Maximum threads that wait for the disk. More gained nothing in benchmarks.
const THREADS: usize = 16;

/// Each path that was synced, with the number of its directory entries at that time.
#[cfg(test)]
pub(super) static SYNCED: Mutex<Vec<(PathBuf, usize)>> = Mutex::new(Vec::new());
/// Paths whose syncs fail. Tests run concurrently: each uses paths in a folder of its own.
#[cfg(test)]
pub(super) static FAILING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Syncs all paths. After an error, some paths may not be synced.
pub(super) fn sync_all(paths: Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    sync_each(paths, sync_path)
}

/// Syncs the paths that still exist. After an error, some of them may not be synced.
pub(super) fn sync_existing(paths: Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    sync_each(paths, sync_if_exists)
}

fn sync_each(paths: Vec<PathBuf>, sync: fn(&Path) -> io::Result<()>) -> Result<(), (PathBuf, io::Error)> {
    let threads = THREADS.min(paths.len());
    let left = Mutex::new(paths);
    let failed = Mutex::new(None);
    let work = || {
        // Hold the lock only to take the next path, not while syncing it.
        while let Some(path) = { left.lock().pop() } {
            if let Err(error) = sync(&path) {
                left.lock().clear();
                failed.lock().get_or_insert((path, error));
                return;
            }
        }
    };

    thread::scope(|scope| {
        for _ in 1..threads {
            // If no further threads can be spawned, this one does all the work.
            let _ = thread::Builder::new().name("stylobate-sync".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });

    match failed.into_inner() {
        None => Ok(()),
        Some(failed) => Err(failed),
    }
}

fn sync_path(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    note_sync(path)?;
    file.sync_all()
}

fn sync_if_exists(path: &Path) -> io::Result<()> {
    match sync_path(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
fn note_sync(path: &Path) -> io::Result<()> {
    if FAILING.lock().iter().any(|failing| failing == path) {
        return Err(io::Error::other("injected failure"));
    }

    let entries = std::fs::read_dir(path).map_or(0, Iterator::count);
    SYNCED.lock().push((path.to_owned(), entries));
    Ok(())
}

#[cfg(not(test))]
fn note_sync(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_synced_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |number: usize| folder.path().join(number.to_string());
        (0..100).for_each(|number| std::fs::write(file(number), "x").unwrap());
        sync_all((0..100).map(file).chain([folder.path().to_owned()]).collect()).unwrap();
        let (path, error) = sync_all((0..101).map(file).collect()).unwrap_err();
        assert_eq!((path, error.kind()), (file(100), io::ErrorKind::NotFound));
        sync_all(Vec::new()).unwrap();
    }

    #[test]
    fn what_is_gone_needs_no_sync() {
        let folder = tempfile::tempdir().unwrap();
        let paths = || vec![folder.path().join("gone"), folder.path().to_owned()];
        sync_existing(paths()).unwrap();
        FAILING.lock().push(folder.path().to_owned());
        let (path, error) = sync_existing(paths()).unwrap_err();
        assert_eq!((path.as_path(), error.kind()), (folder.path(), io::ErrorKind::Other));
    }
}
