//! Syncs many files and folders concurrently: a file system commits its journal once per request if they are serial,
//! and once in total if they are concurrent.

use std::{fs::File, io, path::PathBuf, thread};

use parking_lot::Mutex;

/// Maximum threads that wait for the disk. More gained nothing in benchmarks.
const THREADS: usize = 16;

/// Syncs all paths. After an error, some paths may not be synced.
pub(super) fn sync_all(paths: Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let threads = THREADS.min(paths.len());
    let left = Mutex::new(paths);
    let failed = Mutex::new(None);
    let work = || {
        // Hold the lock only to take the next path, not while syncing it.
        while let Some(path) = { left.lock().pop() } {
            if let Err(error) = File::open(&path).and_then(|file| file.sync_all()) {
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
}
