//! The bytes of objects, one after the other, for readers that work on threads of their own.

use std::io::{self, Read};

use anyhow::Result;
use bytes::{Buf, Bytes};
use object_store::path::Path;
use stylobate_storage::{OpenObject, ReadThrough};
use tokio::runtime::Handle;

/// Bytes that are read at a time.
const AT_ONCE: u64 = 4 << 20;
/// What programs of one system put before texts in UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Opens files, each in the version that it has now: however often they are read, it is that version.
pub(super) async fn open(files: Vec<(ReadThrough, Path)>) -> Result<Vec<OpenObject>> {
    let mut opened = Vec::with_capacity(files.len());
    for (store, path) in files {
        opened.push(store.open_object(&path).await?);
    }
    Ok(opened)
}

/// Reads objects as one text: each begins on a new line. Not within a task, since it blocks.
pub(super) struct ObjectsReader {
    objects: std::vec::IntoIter<OpenObject>,
    runtime: Handle,
    object: Option<OpenObject>,
    at: u64,
    bytes: Bytes,
}

impl ObjectsReader {
    /// Must be made within a runtime.
    pub(super) fn new(objects: Vec<OpenObject>, runtime: Handle) -> Self {
        Self { objects: objects.into_iter(), runtime, object: None, at: 0, bytes: Bytes::new() }
    }

    /// Reads on where all bytes were handed out; whether there are more.
    fn fill(&mut self) -> io::Result<bool> {
        while self.bytes.is_empty() {
            let Some(object) = &self.object else {
                self.object = self.objects.next();
                self.at = 0;
                if self.object.is_none() {
                    return Ok(false);
                }
                continue;
            };
            let (start, size) = (self.at, object.meta().size);
            if start >= size {
                self.object = None;
                if self.objects.len() > 0 {
                    self.bytes = Bytes::from_static(b"\n");
                }
                continue;
            }
            let range = start..size.min(start + AT_ONCE);
            let read = self.runtime.block_on(object.read(std::slice::from_ref(&range)));
            let mut bytes = read.map_err(io::Error::other)?.pop().unwrap_or_default();
            if start == 0 && bytes.starts_with(MARK) {
                bytes.advance(MARK.len());
            }
            self.at = range.end;
            self.bytes = bytes;
        }
        Ok(true)
    }
}

impl Read for ObjectsReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() || !self.fill()? {
            return Ok(0);
        }
        let count = to.len().min(self.bytes.len());
        self.bytes.copy_to_slice(&mut to[..count]);
        Ok(count)
    }
}
