//! Writes bases: all vertices or all edges of one type, from streams of record batches, in bounded memory.
//!
//! A base is part of the store once a record of the log refers to it: until then it is removed after an error, or by
//! garbage collection.

pub(crate) mod edges;
pub(crate) mod vertices;

use std::path::PathBuf;

use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectStore, ObjectStoreExt};
use stylobate_storage::{
    ByteSize, Destination, Durability, Error as StorageError, Overwrite, SinkOptions, Sinks, run_blocking,
};

use super::BaseGroupInfo;
use crate::{
    Result,
    graphar::{GraphWriteOptions, PropertyGroup},
};

/// Concurrent requests to an object store.
pub(crate) const REQUESTS: usize = 16;

/// Rows per chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BaseChunkSizes {
    /// Vertices per chunk, which also cuts edges into parts.
    pub(crate) vertex_chunk: u64,
    pub(crate) edge_chunk: u64,
    pub(crate) keys_chunk: u64,
}

/// Default rows per chunk. A file of this many numbers is no larger than the first request's read-ahead, so that a cold
/// edge lookup costs one request for its offsets, and one for each file of its chunk.
pub(crate) const CHUNK: u64 = 1 << 16;

impl Default for BaseChunkSizes {
    fn default() -> Self {
        Self { vertex_chunk: CHUNK, edge_chunk: CHUNK, keys_chunk: CHUNK }
    }
}

/// Writes bases below the root of a store.
#[derive(Clone, Debug)]
pub(crate) struct BaseWriter {
    pub(crate) root: Destination,
    pub(crate) sizes: BaseChunkSizes,
    /// Memory for sorts, encoders and keys.
    pub(crate) memory: ByteSize,
    pub(crate) durability: Durability,
    pub(crate) threads: usize,
    /// Folder for sorts that do not fit into memory.
    pub(crate) temporary_folder: Option<PathBuf>,
}

impl BaseWriter {
    /// Returns a writer with the default chunk sizes, and as many threads as there are cores.
    pub(crate) fn new(root: Destination, memory: ByteSize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let durability = Durability::default();
        Self { root, sizes: BaseChunkSizes::default(), memory, durability, threads, temporary_folder: None }
    }

    pub(crate) fn options(&self, memory: usize) -> GraphWriteOptions {
        // Names are unique: an existing object was put by this write, in a request that was retried.
        let overwrite = match self.root {
            Destination::File(_) => Overwrite::Refuse,
            Destination::Object { .. } => Overwrite::Replace,
        };
        let options = GraphWriteOptions::default()
            .with_vertex_chunk_size(self.sizes.vertex_chunk.clamp(1, u64::from(u32::MAX)))
            .with_edge_chunk_size(self.sizes.edge_chunk.clamp(1, u64::from(u32::MAX)))
            .with_memory(ByteSize::bytes(memory as u64))
            .with_threads(self.threads)
            .with_durability(self.durability)
            .with_overwrite(overwrite);

        match &self.temporary_folder {
            Some(folder) => options.with_temporary_folder(folder),
            None => options,
        }
    }

    pub(crate) fn sinks(&self) -> Sinks {
        Sinks::new(SinkOptions::default().with_durability(self.durability))
    }

    /// Removes an unused base, ignoring errors.
    pub(crate) async fn give_up(&self, path: &str) {
        if let Err(error) = remove_all(&self.root, path).await {
            tracing::warn!(path, %error, "files of a write that failed not removed");
        }
    }
}

/// Removes all files below a path. Returns their number.
pub(crate) async fn remove_all(root: &Destination, path: &str) -> Result<u64> {
    match root.join(path)? {
        Destination::File(folder) => {
            let shown = folder.display().to_string();
            let remove = move || {
                let count = count_files(&folder)?;
                match std::fs::remove_dir_all(&folder) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                    _ => Ok(count),
                }
            };

            run_blocking(move || {
                remove().map_err(|error| crate::graphar::unwritable(shown, format!("not removed: {error}")))
            })
            .await?
        }
        Destination::Object { origin, path } => {
            let failed = |error| StorageError::from_origin(path.as_ref(), error);
            let store = origin.store().clone();
            let found: Vec<_> = store.list(Some(&path)).try_collect().await.map_err(failed)?;
            let count = found.len() as u64;
            let deletes = found.into_iter().map(|object| {
                let store = store.clone();
                async move {
                    match store.delete(&object.location).await {
                        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                        Err(error) => Err(error),
                    }
                }
            });

            let deleted = futures::stream::iter(deletes).buffer_unordered(REQUESTS);
            deleted.try_collect::<()>().await.map_err(failed)?;
            Ok(count)
        }
    }
}

/// Removes one file. A missing file is no error.
pub(crate) async fn remove_file(root: &Destination, path: &str) -> Result<()> {
    match root.join(path)? {
        Destination::File(file) => {
            let shown = file.display().to_string();
            run_blocking(move || match std::fs::remove_file(&file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(crate::graphar::unwritable(shown, format!("not removed: {error}")))
                }
                _ => Ok(()),
            })
            .await?
        }
        Destination::Object { origin, path } => match origin.store().delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(StorageError::from_origin(path.as_ref(), error).into()),
        },
    }
}

fn count_files(folder: &std::path::Path) -> std::io::Result<u64> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut count = 0;
    for entry in entries {
        let entry = entry?;
        count += if entry.file_type()?.is_dir() { count_files(&entry.path())? } else { 1 };
    }
    Ok(count)
}

/// Returns the groups of properties in the form of a base's description.
pub(crate) fn described(groups: &[PropertyGroup]) -> Vec<BaseGroupInfo> {
    let group = |group: &PropertyGroup| BaseGroupInfo {
        prefix: group.prefix.clone(),
        properties: group.properties.iter().map(|property| property.name.clone()).collect(),
    };
    groups.iter().map(group).collect()
}
