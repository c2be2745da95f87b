//! Blocking readers of an object's bytes: front to back, decompressed, or at any offset.

use std::{
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
};

use bytes::{Buf, Bytes};
use stylobate_storage::{Corrupt, Error as StorageError, OpenObject};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::Error;

/// Bytes of the first read. Each following read is twice as long, up to [`MAX_READ`].
const FIRST_READ: u64 = 256 << 10;
const MAX_READ: u64 = 4 << 20;
/// The magic number of gzip.
pub(super) const GZIP: &[u8] = &[0x1F, 0x8B];
/// The magic number of Zstandard.
pub(super) const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// Reader of an object front to back, with one read ahead. It blocks, so it must not be used within an async task.
pub(super) struct ObjectReader {
    object: OpenObject,
    runtime: Handle,
    /// Offset of the next read.
    at: u64,
    len: u64,
    next: Option<AbortOnDropHandle<Result<Bytes, StorageError>>>,
    bytes: Bytes,
}

impl ObjectReader {
    pub(super) fn new(object: OpenObject, runtime: Handle) -> Self {
        Self { object, runtime, at: 0, len: FIRST_READ, next: None, bytes: Bytes::new() }
    }

    /// Returns the first bytes without consuming them; fewer if the object is shorter.
    pub(super) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        self.fill()?;
        Ok(self.bytes.get(..count.min(self.bytes.len())).unwrap_or_default())
    }

    fn begin_read(&mut self) {
        let range = self.at..self.object.meta().size.min(self.at.saturating_add(self.len));
        if range.is_empty() {
            return;
        }

        self.at = range.end;
        self.len = (self.len * 2).min(MAX_READ);
        let object = self.object.clone();
        let read = self.runtime.spawn(async move { read(&object, range).await });
        self.next = Some(AbortOnDropHandle::new(read));
    }

    /// Reads more if all bytes were consumed. Returns `false` at the end of the object.
    fn fill(&mut self) -> io::Result<bool> {
        if !self.bytes.is_empty() {
            return Ok(true);
        }
        if self.next.is_none() {
            self.begin_read();
        }

        let Some(next) = self.next.take() else { return Ok(false) };

        self.bytes = self.runtime.block_on(next).map_err(io::Error::other)?.map_err(io::Error::other)?;
        self.begin_read();
        Ok(!self.bytes.is_empty())
    }
}

async fn read(object: &OpenObject, range: Range<u64>) -> Result<Bytes, StorageError> {
    Ok(object.read(std::slice::from_ref(&range)).await?.pop().unwrap_or_default())
}

impl Read for ObjectReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() || !self.fill()? {
            return Ok(0);
        }
        let count = to.len().min(self.bytes.len());
        self.bytes.copy_to_slice(to.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

/// Decompresses gzip and Zstandard, recognized by their magic numbers. Other bytes are passed through.
pub(super) fn decompressed(mut reader: ObjectReader) -> io::Result<Box<dyn Read + Send>> {
    let first = reader.peek(ZSTD.len())?;
    if first.starts_with(GZIP) {
        return Ok(Box::new(flate2::read::MultiGzDecoder::new(reader)));
    }
    if first.starts_with(ZSTD) {
        return Ok(Box::new(zstd::stream::read::Decoder::new(reader)?));
    }
    Ok(Box::new(reader))
}

/// Reader of an object at any offset, with one request per read. It blocks, as [`ObjectReader`] does.
pub(super) struct ObjectFile {
    object: OpenObject,
    runtime: Handle,
    at: u64,
}

impl ObjectFile {
    pub(super) fn new(object: OpenObject, runtime: Handle) -> Self {
        Self { object, runtime, at: 0 }
    }
}

impl Read for ObjectFile {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let end = self.object.meta().size.min(self.at.saturating_add(to.len() as u64));
        if self.at >= end {
            return Ok(0);
        }

        let bytes = self.runtime.block_on(read(&self.object, self.at..end)).map_err(io::Error::other)?;
        let count = bytes.len().min(to.len());
        to.get_mut(..count).unwrap_or_default().copy_from_slice(bytes.get(..count).unwrap_or_default());
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for ObjectFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.object.meta().size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

/// Returns the error of a failed read: that of the store, of the decompression, or of the format.
pub(super) fn read_error(object: &OpenObject, error: &io::Error) -> Error {
    let inner = error.get_ref();
    if let Some(storage) = inner.and_then(|inner| inner.downcast_ref::<StorageError>()) {
        return Error::Storage(storage.clone());
    }
    if let Some(corrupt) = inner.and_then(|inner| inner.downcast_ref::<Corrupt>()) {
        return Error::corrupt(object.name(), corrupt.clone());
    }

    let reason = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the compressed bytes end too early".to_owned(),
        _ => error.to_string(),
    };
    Error::corrupt(object.name(), reason)
}
