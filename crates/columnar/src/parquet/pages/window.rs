//! Reads a column chunk on demand: only a window of its bytes is in memory.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::errors::{ParquetError, Result as ParquetResult};
use stylobate_storage::{LocalFile, OpenObject};
use tokio::runtime::Handle;

use super::reader::ChunkSource;

/// Bytes read ahead of a column's pages: few enough to stay in the CPU cache.
const WINDOW: u64 = 256 << 10;

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

    /// Returns at least `length` bytes from `start`, if the chunk has that many; blocks until they arrive.
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
