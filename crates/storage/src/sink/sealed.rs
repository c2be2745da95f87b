//! A complete file or object that has no name yet.

use std::{collections::BTreeSet, fmt, path::PathBuf, sync::Arc};

use async_recursion::async_recursion as boxed;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use super::{
    Overwrite, file::blocking, object::ObjectSink, ring::SinkFile, staged::StagedFile, sync::sync_all,
};
use crate::{Error, Result};

/// Maximum objects completed concurrently.
const OBJECTS: usize = 16;

/// The output of a sink, complete but not visible yet. Dropping it without [`Sealed::publish`] removes it.
pub struct Sealed {
    kind: SealedKind,
    bytes: u64,
}

enum SealedKind {
    File(SealedFile),
    /// An upload is `Send` but not `Sync`; a mutex that is never locked makes its holder `Sync`.
    Object(Mutex<Box<ObjectSink>>),
}

/// A local file under its staging name.
pub(super) struct SealedFile {
    staged: StagedFile,
    /// Keeps other processes from removing the file as a leftover.
    lock: Option<Arc<SinkFile>>,
    overwrite: Overwrite,
    durable: bool,
}

impl Sealed {
    pub(super) fn file(
        staged: StagedFile,
        lock: Option<Arc<SinkFile>>,
        overwrite: Overwrite,
        durable: bool,
        bytes: u64,
    ) -> Self {
        Self { kind: SealedKind::File(SealedFile { staged, lock, overwrite, durable }), bytes }
    }

    pub(super) fn object(sink: ObjectSink, bytes: u64) -> Self {
        Self { kind: SealedKind::Object(Mutex::new(Box::new(sink))), bytes }
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the file or object its name, and returns its size in bytes.
    #[boxed]
    pub async fn publish(self) -> Result<u64> {
        let bytes = self.bytes;
        Self::publish_all([vec![self], Vec::new()]).await.map(|()| bytes)
    }

    /// Publishes many outputs, and then those that reference them. All local files are published by one blocking
    /// call, which cancellation cannot interrupt.
    pub(super) async fn publish_all(steps: [Vec<Self>; 2]) -> Result<()> {
        let mut files = [Vec::new(), Vec::new()];
        for (sealed, files) in steps.into_iter().zip(&mut files) {
            let mut objects = Vec::new();
            for sealed in sealed {
                match sealed.kind {
                    SealedKind::File(staging) => files.push(staging),
                    SealedKind::Object(object) => objects.push(object.into_inner().complete()),
                }
            }

            let completed = futures::stream::iter(objects).buffer_unordered(OBJECTS);
            completed.try_for_each(|()| async { Ok(()) }).await?;
        }

        let Some(first) = files.iter().flatten().next() else { return Ok(()) };
        let path = first.staged.path().to_owned();
        blocking(&path, move || publish_files(files)).await?
    }
}

/// Publishes files. If one fails, the new names given before it are removed again.
fn publish_files(steps: [Vec<SealedFile>; 2]) -> Result<()> {
    // Files that are staged alone were synced when they were sealed.
    let unsynced = steps.iter().flatten().filter(|file| file.durable && !file.staged.is_alone());
    let unsynced = unsynced.map(|file| file.staged.staged_path().to_owned()).collect();
    sync_all(unsynced).map_err(|(path, error)| Error::write(path, error))?;

    let mut fresh: Vec<PathBuf> = Vec::new();
    let mut published = Ok(());

    for files in steps {
        let mut folders = BTreeSet::new();
        for SealedFile { staged, lock, overwrite, durable } in files {
            let path = staged.path().to_owned();
            if durable {
                folders.extend(staged.folders());
            }
            if let Err(error) = staged.publish(overwrite) {
                take_back(&fresh);
                return Err(error);
            }
            drop(lock);
            fresh.extend((overwrite == Overwrite::Refuse).then_some(path));
        }

        if let Err((path, error)) = sync_all(folders.into_iter().collect()) {
            // These have their names; the others still get theirs.
            published = Err(Error::Unsynced { path, source: Arc::new(error) });
        }
    }

    published
}

fn take_back(fresh: &[PathBuf]) {
    for path in fresh {
        if let Err(error) = std::fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "file of a failed write not removed");
        }
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
