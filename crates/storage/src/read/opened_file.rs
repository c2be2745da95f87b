//! A file of a folder origin that may be written in place, or truncated, while it is read.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt, sync::Arc, time::SystemTime};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{StreamExt, stream::BoxStream};
use object_store::{ObjectMeta, path::Path};

use crate::{Error, Result, threads::blocking::run_blocking};

/// Maximum bytes of a chunk of a stream.
const CHUNK: u64 = 256 << 10;

/// An open file, and its state when it was opened. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct OpenedFile {
    file: Arc<File>,
    path: String,
    state: FileState,
}

/// The metadata of a file that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    modified: SystemTime,
    len: u64,
}

impl FileState {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { modified: metadata.modified()?, len: metadata.len() })
    }
}

impl OpenedFile {
    /// Takes over an open file of the object at `path`.
    pub(crate) fn new(file: File, path: &Path) -> Result<Self> {
        let path = path.to_string();
        let state = FileState::of(&file).map_err(|error| failed(&path, error))?;
        Ok(Self { file: Arc::new(file), path, state })
    }

    /// Returns whether the file was in the described state when it was opened.
    pub(crate) fn is(&self, meta: &ObjectMeta) -> bool {
        DateTime::<Utc>::from(self.state.modified) == meta.last_modified && self.state.len == meta.size
    }

    /// Reads `len` bytes from `start` on, off the async threads. The bytes count only if the file is unchanged after
    /// reading them: otherwise the error is [`Error::Changed`].
    pub(crate) async fn read(&self, start: u64, len: usize) -> Result<Bytes> {
        // Allocate on this thread: buffers that are allocated by blocking threads and freed by others would stay in
        // the heaps of the blocking threads.
        let mut bytes = vec![0; len];
        let file = self.file.clone();
        let read = run_blocking(move || -> io::Result<(Bytes, FileState)> {
            file.read_exact_at(&mut bytes, start)?;
            Ok((Bytes::from(bytes), FileState::of(&file)?))
        });

        match read.await.map_err(|error| Error::from_origin(&self.path, error.into()))? {
            Ok((bytes, state)) if state == self.state => Ok(bytes),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(failed(&self.path, error)),
            _ => Err(Error::Changed { path: self.path.clone() }),
        }
    }

    /// Returns the bytes of a range in chunks, each as [`read`](Self::read) returns it.
    pub(crate) fn into_stream(self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let chunks = futures::stream::try_unfold(range.start, move |start| {
            let file = self.clone();
            let len = range.end.saturating_sub(start).min(CHUNK);
            async move {
                if len == 0 {
                    return Ok(None);
                }
                Ok(Some((file.read(start, len as usize).await?, start + len)))
            }
        });
        chunks.boxed()
    }
}

fn failed(path: &str, error: io::Error) -> Error {
    let source = object_store::Error::Generic { store: "folder", source: error.into() };
    Error::from_origin(path, source)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use futures::TryStreamExt;

    use super::*;

    fn open(content: &[u8]) -> (tempfile::NamedTempFile, OpenedFile) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let opened = OpenedFile::new(file.reopen().unwrap(), &Path::from("a")).unwrap();
        (file, opened)
    }

    fn later(file: &File) {
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified + std::time::Duration::from_millis(10)).unwrap();
    }

    #[tokio::test]
    async fn a_range_is_streamed_in_chunks() {
        let content: Vec<u8> = (0..700_000).map(|i| (i % 251) as u8).collect();
        let (_file, opened) = open(&content);
        for range in [0..700_000, 5..6, 262_143..262_145, 100..100] {
            let chunks: Vec<Bytes> = opened.clone().into_stream(range.clone()).try_collect().await.unwrap();
            assert!(chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() as u64 <= CHUNK));
            assert_eq!(chunks.concat(), content[range.start as usize..range.end as usize]);
        }
    }

    #[tokio::test]
    async fn a_file_that_is_written_or_truncated_while_it_is_streamed_fails_the_stream() {
        for truncates in [true, false] {
            let (file, opened) = open(&[1; 600_000]);
            let mut chunks = opened.into_stream(0..600_000);
            assert_eq!(chunks.try_next().await.unwrap().unwrap().len() as u64, CHUNK);
            if truncates {
                file.as_file().set_len(10).unwrap();
            } else {
                file.as_file().write_all_at(&[2; 600_000], 0).unwrap();
            }
            later(file.as_file());
            assert!(matches!(chunks.try_next().await, Err(Error::Changed { .. })));
        }
    }
}
