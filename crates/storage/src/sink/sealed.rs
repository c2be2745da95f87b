//! A file or an object of which nothing is missing but its name.

use std::{fmt, path::PathBuf, sync::Arc};

use futures::{StreamExt, TryStreamExt};

use super::{Overwrite, file::blocking, object::ObjectSink, ring::Target, staged::Staged};
use crate::{Error, Result};

/// Objects that are given their names at a time.
const OBJECTS: usize = 16;

/// What a sink wrote, whole and not visible yet. Dropped without [`Sealed::publish`], it is removed.
pub struct Sealed {
    kind: Kind,
    bytes: u64,
}

enum Kind {
    File(Staging),
    Object(Box<ObjectSink>),
}

/// A local file under the name that it was written under.
pub(super) struct Staging {
    staged: Staged,
    /// Keeps others from taking it for one that nobody writes any more.
    lock: Option<Arc<Target>>,
    overwrite: Overwrite,
    durable: bool,
}

impl Staging {
    pub(super) fn publish(self) -> Result<()> {
        let published = self.staged.publish(self.overwrite, self.durable);
        drop(self.lock);
        published
    }
}

impl Sealed {
    pub(super) fn file(
        staged: Staged,
        lock: Option<Arc<Target>>,
        overwrite: Overwrite,
        durable: bool,
        bytes: u64,
    ) -> Self {
        Self { kind: Kind::File(Staging { staged, lock, overwrite, durable }), bytes }
    }

    pub(super) fn object(sink: ObjectSink, bytes: u64) -> Self {
        Self { kind: Kind::Object(Box::new(sink)), bytes }
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives it its name, and returns its size in bytes.
    pub async fn publish(self) -> Result<u64> {
        match self.kind {
            Kind::Object(object) => object.complete().await?,
            Kind::File(staging) => {
                let path = staging.staged.path().to_owned();
                blocking(&path, move || staging.publish()).await??;
            }
        }
        Ok(self.bytes)
    }

    /// The same for many. The names of local files are given by a thread that does not stop between two of them.
    pub(super) async fn publish_all(all: Vec<Self>) -> Result<()> {
        let (mut files, mut objects) = (Vec::new(), Vec::new());
        for sealed in all {
            match sealed.kind {
                Kind::File(staging) => files.push(staging),
                Kind::Object(object) => objects.push(object.complete()),
            }
        }
        futures::stream::iter(objects).buffer_unordered(OBJECTS).try_for_each(|()| async { Ok(()) }).await?;
        let Some(first) = files.first() else { return Ok(()) };
        let path = first.staged.path().to_owned();
        blocking(&path, move || publish_files(files)).await?
    }
}

/// Where one cannot have its name, those that had none before give theirs back.
fn publish_files(files: Vec<Staging>) -> Result<()> {
    let mut fresh: Vec<PathBuf> = Vec::new();
    let mut unsynced = None;
    for staging in files {
        let (path, is_fresh) = (staging.staged.path().to_owned(), staging.overwrite == Overwrite::Refuse);
        match staging.publish() {
            Ok(()) => {}
            // It has its name, and so shall the others.
            Err(error @ Error::Unsynced { .. }) => unsynced = Some(error),
            Err(error) => {
                for path in fresh {
                    if let Err(error) = std::fs::remove_file(&path) {
                        tracing::warn!(path = %path.display(), %error, "file of a failed write not removed");
                    }
                }
                return Err(error);
            }
        }
        fresh.extend(is_fresh.then_some(path));
    }
    unsynced.map_or(Ok(()), Err)
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
