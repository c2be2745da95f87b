//! Bytes of column chunks in memory, as the parquet crate's page reader takes them.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use parquet::{
    column::page::{Page, PageIterator, PageMetadata, PageReader},
    errors::{ParquetError, Result},
    file::metadata::ColumnChunkMetaData,
};
use stylobate_storage::{Corrupt, LocalFile, OpenObject};

use super::{
    DecodeScratch, FlatPageReader, FlatPageSource,
    reader::{ChunkPageReader, ChunkSource},
    window::{ChunkWindow, ChunkWindowSource},
};
use crate::parquet::{decryptor::ChunkDecryptor, footer};

/// Bytes of some columns of one row group. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum ParquetBytes {
    /// In memory, in the order of leaves.
    Held(Arc<[ChunkBytes]>),
    /// A file that is read as it is decoded.
    File { file: Arc<LocalFile>, object: OpenObject },
}

#[derive(Clone, Debug)]
pub(crate) struct ChunkBytes {
    leaf: usize,
    /// Offset in the file.
    start: u64,
    bytes: Bytes,
}

impl ParquetBytes {
    pub(crate) fn new(leaves: Vec<usize>, ranges: Vec<Range<u64>>, read: Vec<Bytes>) -> Self {
        let chunks = leaves.into_iter().zip(ranges).zip(read);
        Self::Held(
            chunks.map(|((leaf, range), bytes)| ChunkBytes { leaf, start: range.start, bytes }).collect(),
        )
    }

    /// Checks that all bytes read are of the version that was opened.
    pub(crate) async fn check(&self) -> crate::Result<()> {
        match self {
            Self::Held(_) => Ok(()),
            Self::File { file, object } => Ok(object.check_local(file).await?),
        }
    }

    /// Returns the pages of a flat leaf.
    pub(crate) fn flat_pages<'a>(
        &self,
        leaf: usize,
        chunk: &ColumnChunkMetaData,
        scratch: &'a mut DecodeScratch,
    ) -> std::result::Result<FlatPageReader<'a>, Corrupt> {
        let source = match self {
            Self::File { file, .. } => FlatPageSource::File(file.clone()),
            Self::Held(chunks) => {
                let at = chunks.binary_search_by_key(&leaf, |chunk| chunk.leaf);
                let held = at.ok().and_then(|at| chunks.get(at));
                FlatPageSource::Held(held.ok_or_else(|| format!("column {leaf} was not read"))?.bytes.clone())
            }
        };

        FlatPageReader::new(source, chunk, scratch)
    }

    /// Returns the pages of any leaf, for the general reader; those of an encrypted chunk need its decryptor.
    pub(crate) fn pages(
        &self,
        leaf: usize,
        chunk: &ColumnChunkMetaData,
        decryptor: Option<ChunkDecryptor>,
    ) -> Result<Box<dyn PageReader>> {
        let chunks = match self {
            Self::Held(chunks) => chunks,
            Self::File { file, .. } => {
                let window = ChunkWindow::new(ChunkWindowSource::File(file.clone()), footer::range(chunk));
                return Ok(Box::new(ChunkPageReader::sequential(window, chunk, decryptor)?));
            }
        };

        let at = chunks.binary_search_by_key(&leaf, |chunk| chunk.leaf);
        let bytes = at.ok().and_then(|at| chunks.get(at));
        let bytes = bytes.ok_or_else(|| ParquetError::General(format!("column {leaf} was not read")))?;

        Ok(Box::new(ChunkPageReader::sequential(bytes.clone(), chunk, decryptor)?))
    }
}

impl ChunkSource for ChunkBytes {
    fn bytes_from(&self, start: u64, _: usize) -> Result<Bytes> {
        let at = start.checked_sub(self.start).map(|at| at as usize).filter(|at| *at <= self.bytes.len());
        let at = at.ok_or_else(|| ParquetError::EOF("a page outside its column chunk".to_owned()))?;
        Ok(self.bytes.slice(at..))
    }
}

/// Pages of one column as an iterator over its only row group.
pub(crate) struct OneChunk(pub(crate) Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}

/// Pages in memory.
pub(crate) struct ReadyPages(pub(crate) std::vec::IntoIter<Page>);

impl Iterator for ReadyPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl PageReader for ReadyPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.next())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(self.0.as_slice().first().map(|page| PageMetadata {
            num_rows: None,
            num_levels: Some(page.num_values() as usize),
            is_dict: matches!(page, Page::DictionaryPage { .. }),
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.next();
        Ok(())
    }
}
