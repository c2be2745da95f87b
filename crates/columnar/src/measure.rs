//! Internals that benchmarks outside this crate measure.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use stylobate_storage::{Budget, ByteSize, Corrupt, ObjectHash};

use crate::{
    cache::chunk_cache::{ChunkCache, ChunkLookup},
    chunk::{Chunk, ChunkRepresentation, ChunkRequest},
    file::schema::ProjectedColumn,
    kernels::snappy,
    orc::lzo,
    parquet::PageHeader,
    recent::RecentChunks,
};

/// Decompresses a snappy block as a page of a column chunk: returns a slice of the block if that is a single literal,
/// otherwise one of `room`.
pub fn decompress_snappy<'b>(block: &'b [u8], room: &'b mut Vec<u8>) -> Result<&'b [u8], Corrupt> {
    if let Some(stored) = snappy::stored(block) {
        return Ok(stored);
    }

    let space = snappy::length(block)?.saturating_add(snappy::SLACK);
    if room.len() < space {
        *room = vec![0; space];
    }

    let length = snappy::decompress(block, room, |_| Ok(()))?;
    Ok(room.get(..length).unwrap_or_default())
}

/// Decompresses an LZO chunk of an ORC stream to the beginning of `out`; returns the number of bytes.
pub fn decompress_lzo(chunk: &[u8], out: &mut [u8]) -> Result<usize, Corrupt> {
    lzo::decompress(chunk, out)
}

/// Parses the headers of all pages of a column chunk; returns their number.
pub fn read_page_headers(mut chunk: &[u8]) -> Result<usize, Corrupt> {
    let mut pages = 0;
    while !chunk.is_empty() {
        let (header, length) = PageHeader::read(chunk)?.ok_or("a page's header ends early")?;
        let end = length.saturating_add(header.compressed);
        chunk = chunk.get(end..).ok_or("a page that ends outside its column chunk")?;
        pages += 1;
    }

    Ok(pages)
}

/// Chunk cache that has four columns of each row group of a file.
#[derive(Debug)]
pub struct CachedRowGroups {
    cache: ChunkCache,
    recent: RecentChunks,
    columns: [ChunkRequest; 4],
}

impl CachedRowGroups {
    /// Fills a cache with `groups` row groups of an object.
    pub async fn new(object: ObjectHash, groups: usize) -> Self {
        let cache = ChunkCache::new(&Budget::new(ByteSize::gib(4)), 1 << 32);
        let columns = [0, 1, 2, 3].map(|root| (ProjectedColumn::whole(root), ChunkRepresentation::Native));
        let recent = RecentChunks::new(groups, columns.len());
        let array: ArrayRef = Arc::new(Int64Array::from(vec![0; 1000]));

        // Fresh entries are remembered by the next lookup.
        for row_group in (0..groups).chain(0..groups) {
            for column in &columns {
                if let ChunkLookup::Missing(promise) = cache.find(&recent, object, row_group, column).await {
                    promise.publish(Chunk::Dense(Arc::new([array.clone()])));
                }
            }
        }

        Self { cache, recent, columns }
    }

    /// Finds the columns of a row group, as scans do while nothing was evicted; returns their number, or 0 if one is
    /// missing.
    pub fn find(&self, row_group: usize) -> usize {
        self.cache.recent(&self.recent, row_group, &self.columns).map_or(0, |chunks| chunks.len())
    }
}
