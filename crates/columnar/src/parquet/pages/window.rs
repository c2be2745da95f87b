//! Reads a column chunk on demand: only a window of its bytes is in memory.

use std::{
    io::{self, Read},
    ops::Range,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::{
    errors::{ParquetError, Result as ParquetResult},
    file::reader::{ChunkReader, Length},
};
use stylobate_storage::{LocalFile, OpenObject};
use tokio::runtime::Handle;

use super::reader::ChunkSource;

/// Bytes read ahead of a column's pages: few enough to stay in the CPU cache.
const WINDOW: u64 = 256 << 10;
/// Bytes that a window holds for the header of a page, statistics with long strings included.
const HEADER: u64 = 64 << 10;

/// Source of a window's bytes.
#[derive(Clone)]
pub(crate) enum ChunkWindowSource {
    /// An open file.
    File(Arc<LocalFile>),
    /// An object, read by the runtime while the calling thread blocks.
    Object { object: OpenObject, runtime: Handle },
}

/// Column chunk with a window of its bytes in memory.
pub(crate) struct ChunkWindow {
    source: ChunkWindowSource,
    range: Range<u64>,
    held: Mutex<(u64, Bytes)>,
}

impl ChunkWindowSource {
    fn read(&self, range: Range<u64>) -> ParquetResult<Bytes> {
        match self {
            Self::File(file) => Ok(file.read(range)?),
            Self::Object { object, runtime } => {
                let read = runtime.block_on(object.read(std::slice::from_ref(&range)));
                Ok(read.map_err(|error| ParquetError::External(Box::new(error)))?.pop().unwrap_or_default())
            }
        }
    }
}

impl ChunkWindow {
    /// Creates a window on the column chunk at `range`, without reading.
    pub(crate) fn new(source: ChunkWindowSource, range: Range<u64>) -> Self {
        Self { source, range, held: Mutex::default() }
    }

    /// Returns at least `length` bytes from `start`, if the chunk has as many; blocks until they arrive.
    fn at(&self, start: u64, length: u64) -> ParquetResult<Bytes> {
        if !self.range.contains(&start) {
            return Err(ParquetError::EOF("a page outside its column chunk".to_owned()));
        }

        let mut held = self.held.lock();
        let (from, bytes) = &*held;
        if let Some(skip) = start.checked_sub(*from)
            && skip.saturating_add(length) <= bytes.len() as u64
        {
            return Ok(bytes.slice(skip as usize..));
        }
        let end = start.saturating_add(length.max(WINDOW)).min(self.range.end);
        let bytes = self.source.read(start..end)?;
        *held = (start, bytes.clone());

        Ok(bytes)
    }
}

impl ChunkSource for ChunkWindow {
    fn bytes_from(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.at(start, length as u64)
    }
}

impl Length for ChunkWindow {
    fn len(&self) -> u64 {
        self.range.end
    }
}

impl ChunkReader for ChunkWindow {
    type T = PageHeaderBytes;

    fn get_read(&self, start: u64) -> ParquetResult<PageHeaderBytes> {
        Ok(PageHeaderBytes(self.at(start, HEADER.min(self.range.end.saturating_sub(start)))?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let mut bytes = self.at(start, length as u64)?;
        if length > bytes.len() {
            return Err(ParquetError::EOF("a page that ends outside its column chunk".to_owned()));
        }
        Ok(bytes.split_to(length))
    }
}

/// Bytes of a page header, which a window holds entirely.
pub(crate) struct PageHeaderBytes(Bytes);

impl Read for PageHeaderBytes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let taken = self.0.split_to(out.len().min(self.0.len()));
        out.iter_mut().zip(&taken).for_each(|(to, from)| *to = *from);
        Ok(taken.len())
    }
}
