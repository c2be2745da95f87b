//! Destination of a graph's files: a folder in which they appear together, or an object store in which they become a
//! graph when the graph's own file is put.
//!
//! In an object store, chunks are put under their final names at once: thousands of open uploads would hold as many
//! parts in memory. If the write fails, they are removed.

use std::{collections::HashSet, sync::Arc};

use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use parking_lot::Mutex;
use stylobate_storage::{
    Destination, Durability, Error as StorageError, FileSet, Overwrite, Sealed, Sink, SinkOptions, Sinks,
    run_blocking,
};

use crate::{
    Result,
    graphar::{graph::is_graph, write::names::unwritable},
};

/// Concurrent requests to an object store.
const REQUESTS: usize = 16;

/// Set of output files. If it is dropped before it is published, no files remain.
#[derive(Debug)]
pub(crate) struct GraphOutput {
    base: Destination,
    overwrite: Overwrite,
    target: GraphOutputTarget,
}

#[derive(Debug)]
enum GraphOutputTarget {
    Folder(FileSet),
    Store { sinks: Sinks, put: UploadedObjects },
}

/// Objects that were put, or may have been.
#[derive(Debug)]
struct UploadedObjects {
    store: Arc<dyn ObjectStore>,
    paths: Mutex<Vec<Path>>,
}

/// Complete file.
#[derive(Debug)]
pub(crate) struct FinishedFile {
    pub(crate) bytes: u64,
    /// File to publish; `None` for an object.
    pub(crate) sealed: Option<Sealed>,
}

impl GraphOutput {
    /// Opens an output below `base`. Returns [`StorageError::Exists`] if it has files that must not be replaced.
    pub(crate) async fn create(
        base: Destination,
        overwrite: Overwrite,
        durability: Durability,
    ) -> Result<Self> {
        let sinks = Sinks::new(SinkOptions::default().with_durability(durability));
        let set = FileSet::create(sinks.clone(), base.clone(), overwrite).await?;
        let target = match &base {
            Destination::File(_) => GraphOutputTarget::Folder(set),
            Destination::Object { origin, .. } => {
                let put = UploadedObjects { store: origin.store().clone(), paths: Mutex::default() };
                GraphOutputTarget::Store { sinks, put }
            }
        };

        if overwrite == Overwrite::Replace && matches!(target, GraphOutputTarget::Store { .. }) {
            // From here on, chunks of existing graphs are replaced one by one.
            remove_graphs(&base).await?;
        }
        Ok(Self { base, overwrite, target })
    }

    /// Returns the name of a file for errors.
    pub(crate) fn name_of(&self, file: &str) -> String {
        let named = self.base.join(file).map(|joined| joined.to_string());
        named.unwrap_or_else(|_| file.to_owned())
    }

    /// Opens a file of this name.
    pub(crate) async fn open(&self, file: &str) -> Result<Box<dyn Sink>> {
        match &self.target {
            GraphOutputTarget::Folder(set) => Ok(set.open(file).await?),
            GraphOutputTarget::Store { sinks, put } => {
                Ok(sinks.object(put.store.clone(), self.path(file)?, self.overwrite))
            }
        }
    }

    /// Takes a complete file.
    pub(crate) async fn end(&self, file: &str, sink: Box<dyn Sink>) -> Result<FinishedFile> {
        match &self.target {
            GraphOutputTarget::Folder(_) => {
                let sealed = sink.seal().await?;
                Ok(FinishedFile { bytes: sealed.bytes(), sealed: Some(sealed) })
            }
            GraphOutputTarget::Store { put, .. } => {
                let path = self.path(file)?;
                let bytes = sink.finish().await?;
                // Only now is the object known to be from this write: after an error it may be another writer's.
                put.paths.lock().push(path);
                Ok(FinishedFile { bytes, sealed: None })
            }
        }
    }

    /// Publishes all files under their names. The last of the texts is published last, and makes the others a
    /// graph. Returns the total size of the texts, in bytes.
    pub(crate) async fn publish(
        self,
        files: Vec<(String, Sealed)>,
        texts: Vec<(String, String)>,
    ) -> Result<u64> {
        let (bytes, mut written) = match self.write(texts).await {
            Ok(written) => written,
            Err(error) => {
                drop(files);
                self.remove().await;
                return Err(error);
            }
        };

        let Self { base, overwrite, target } = self;
        match target {
            GraphOutputTarget::Folder(mut set) => {
                if overwrite == Overwrite::Replace {
                    remove_graphs(&base).await?;
                }
                if let Some((file, sealed)) = written.pop() {
                    set.add_last(file, sealed);
                }

                for (file, sealed) in files.into_iter().chain(written) {
                    set.add(file, sealed);
                }
                set.publish(is_of_graph).await?;
            }
            GraphOutputTarget::Store { put, .. } => {
                // From here on the graph exists, even if a later step fails.
                let kept = std::mem::take(&mut *put.paths.lock());
                if overwrite == Overwrite::Replace {
                    remove_others(&base, &kept).await?;
                }
            }
        }

        Ok(bytes)
    }

    /// Writes texts one by one. Returns their total size in bytes, and the files to publish.
    async fn write(&self, texts: Vec<(String, String)>) -> Result<(u64, Vec<(String, Sealed)>)> {
        let mut bytes = 0;
        let mut sealed = Vec::new();
        for (file, text) in texts {
            let mut sink = self.open(&file).await?;
            sink.write(text.as_bytes()).await?;
            let ended = self.end(&file, sink).await?;
            bytes += ended.bytes;
            sealed.extend(ended.sealed.map(|ended| (file, ended)));
        }
        Ok((bytes, sealed))
    }

    /// Removes everything that was written, and waits until it is gone.
    pub(crate) async fn remove(self) {
        match self.target {
            GraphOutputTarget::Folder(set) => {
                if let Err(error) = run_blocking(move || drop(set)).await {
                    tracing::warn!(%error, "unfinished files not removed");
                }
            }
            GraphOutputTarget::Store { put, .. } => {
                let paths = std::mem::take(&mut *put.paths.lock());
                delete(put.store.clone(), paths).await;
            }
        }
    }

    fn path(&self, file: &str) -> Result<Path> {
        match self.base.join(file)? {
            Destination::Object { path, .. } => Ok(path),
            Destination::File(path) => Err(unwritable(path.display().to_string(), "not in an object store")),
        }
    }
}

/// Removes the description files of existing graphs.
async fn remove_graphs(base: &Destination) -> Result<()> {
    match base {
        Destination::File(folder) => {
            let folder = folder.clone();
            let remove = move || {
                for entry in std::fs::read_dir(&folder)? {
                    let entry = entry?;
                    if entry.file_name().to_str().is_some_and(is_graph) {
                        std::fs::remove_file(entry.path())?;
                    }
                }
                Ok(())
            };

            let shown = base.to_string();
            let failed = |error: std::io::Error| unwritable(shown, format!("the graph there stays: {error}"));
            run_blocking(move || remove().map_err(failed)).await?
        }
        Destination::Object { origin, path } => {
            let failed = |error| StorageError::from_origin(path.as_ref(), error);
            let there = origin.store().list_with_delimiter(Some(path)).await.map_err(failed)?;
            let names = there.objects.into_iter().map(|object| object.location);
            for graph in names.filter(|path| path.filename().is_some_and(is_graph)) {
                origin.store().delete(&graph).await.map_err(failed)?;
            }
            Ok(())
        }
    }
}

/// Removes objects of earlier graphs.
async fn remove_others(base: &Destination, kept: &[Path]) -> Result<()> {
    let Destination::Object { origin, path } = base else { return Ok(()) };
    let failed = |error| StorageError::from_origin(path.as_ref(), error);
    let kept: HashSet<&Path> = kept.iter().collect();
    let is_old = |location: &Path| {
        let below: Option<Vec<_>> = location.prefix_match(path).map(Iterator::collect);
        let name = below.map(|parts| parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/"));
        name.is_some_and(|name| is_of_graph(&name)) && !kept.contains(location)
    };

    let found = origin.store().list(Some(path)).map_ok(|object| object.location);
    let found = found.try_filter(|location| futures::future::ready(is_old(location)));
    let found: Vec<Path> = found.try_collect().await.map_err(failed)?;
    delete(origin.store().clone(), found).await;
    Ok(())
}

/// Deletes objects, ignoring errors.
async fn delete(store: Arc<dyn ObjectStore>, paths: Vec<Path>) {
    let deleted = futures::stream::iter(paths).map(|path| {
        let store = store.clone();
        async move { (store.delete(&path).await, path) }
    });
    let mut deleted = deleted.buffer_unordered(REQUESTS);
    while let Some((result, path)) = deleted.next().await {
        match result {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => tracing::warn!(%path, %error, "object of a failed write not removed"),
        }
    }
}

impl Drop for UploadedObjects {
    fn drop(&mut self) {
        let paths = std::mem::take(&mut *self.paths.lock());
        if paths.is_empty() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(delete(self.store.clone(), paths))),
            Err(_) => tracing::warn!("objects of a write that was given up not removed: no runtime is left"),
        }
    }
}

/// Returns true if a file name belongs to a graph, so that a new graph replaces the file.
fn is_of_graph(name: &str) -> bool {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_numbered = |kind: &str| {
        let digits = file.strip_prefix(kind).filter(|digits| !digits.is_empty());
        digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_description = [".graph.yml", ".vertex.yml", ".edge.yml"].iter().any(|end| file.ends_with(end));

    if folder.is_empty() {
        is_description
    } else {
        file == "vertex_count" || is_numbered("edge_count") || is_numbered("chunk")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_graphs_are_replaced() {
        for name in [
            "a.graph.yml",
            "person.vertex.yml",
            "vertex/person/id/chunk12",
            "e/l/edge_count0",
            "x/vertex_count",
        ] {
            assert!(is_of_graph(name), "{name}");
        }

        for name in ["README.md", "chunk0", "raw/chunk", "raw/chunk0.csv", "x/a.graph.yml", "vertex_count"] {
            assert!(!is_of_graph(name), "{name}");
        }
    }
}
