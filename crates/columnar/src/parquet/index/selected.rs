//! Reads some rows of a row group: the pages that hold them, and no other bytes of their columns.

use std::{ops::Range, sync::Arc};

use ::bytes::Bytes;
use parquet::{
    arrow::{array_reader::RowGroups, arrow_reader::RowSelection},
    column::page::PageIterator,
    errors::{ParquetError, Result as ParquetResult},
    file::metadata::{ParquetMetaData, RowGroupMetaData},
};
use stylobate_storage::OpenObject;

use super::LeafIndex;
use crate::{
    Result,
    chunk::ColumnBatch,
    file::schema::ProjectedColumn,
    parquet::{
        ParquetFile, footer,
        pages::{
            chunk_bytes::OneChunk,
            reader::{ChunkPageReader, ChunkSource},
        },
    },
};

/// Pages of some columns that hold the requested rows, and their bytes once read.
pub(crate) struct SelectedPages {
    row_group: usize,
    columns: Vec<ProjectedColumn>,
    selection: RowSelection,
    leaves: Vec<(usize, Arc<LeafIndex>)>,
    ranges: Vec<Range<u64>>,
    pieces: FetchedPages,
}

/// Pages in memory, each with its offset. Cheap to clone.
#[derive(Clone, Default)]
struct FetchedPages(Arc<[(u64, Bytes)]>);

impl SelectedPages {
    /// Returns the number of bytes to read.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }
}

impl ParquetFile {
    /// Returns the pages of `columns` that hold `rows`, which are ascending and disjoint; `None` if the index of a leaf
    /// does not locate its pages. Columns are ascending; `leaves` has the index of each of their leaves.
    pub(crate) fn select(
        &self,
        row_group: usize,
        columns: &[ProjectedColumn],
        rows: &[Range<u64>],
        leaves: Vec<(usize, Arc<LeafIndex>)>,
    ) -> Option<SelectedPages> {
        let total = self.row_group_rows(row_group) as usize;
        let wanted = rows.iter().map(|range| range.start as usize..range.end as usize);
        let selection = RowSelection::from_consecutive_ranges(wanted, total);
        let mut ranges = Vec::new();

        for (leaf, index) in &leaves {
            let locations = index.pages.as_ref()?.locations();
            let chunk = self.column_chunk(row_group, *leaf).ok()?;
            if chunk.byte_range().0 != footer::range(chunk).start {
                return None;
            }

            let chunk = footer::range(chunk);
            let first = u64::try_from(locations.first()?.offset).ok()?;
            // The bytes before the first page are the dictionary.
            ranges.extend((chunk.start < first).then_some(chunk.start..first));
            ranges.extend(selection.scan_ranges(locations));
        }

        ranges.sort_unstable_by_key(|range| range.start);
        let pieces = FetchedPages::default();
        Some(SelectedPages { row_group, columns: columns.to_vec(), selection, leaves, ranges, pieces })
    }

    /// Reads the pages.
    pub(crate) async fn read_selected(
        &self,
        object: &OpenObject,
        mut pages: SelectedPages,
    ) -> Result<SelectedPages> {
        let read = object.read(&pages.ranges).await?;
        pages.pieces = FetchedPages(pages.ranges.iter().map(|range| range.start).zip(read).collect());
        Ok(pages)
    }

    /// Returns the requested rows of the pages in memory, in small batches.
    pub(crate) fn selected_rows(
        &self,
        pages: &SelectedPages,
        batch_rows: usize,
    ) -> Result<impl Iterator<Item = Result<ColumnBatch>> + use<>> {
        let SelectedPages { row_group, columns, selection, .. } = pages;
        self.batches(
            *row_group,
            columns,
            batch_rows,
            Some(selection),
            &SelectedPagesRowGroup { file: self, pages },
        )
    }
}

impl FetchedPages {
    fn at(&self, start: u64) -> ParquetResult<Bytes> {
        let after = self.0.partition_point(|(from, _)| *from <= start);
        let piece = after.checked_sub(1).and_then(|at| self.0.get(at));
        let bytes = piece.and_then(|(from, bytes)| {
            let skip = usize::try_from(start - from).ok().filter(|skip| *skip < bytes.len())?;
            Some(bytes.slice(skip..))
        });
        bytes.ok_or_else(|| ParquetError::EOF("a page that its index does not name".to_owned()))
    }
}

impl ChunkSource for FetchedPages {
    fn bytes_from(&self, start: u64, _: usize) -> ParquetResult<Bytes> {
        self.at(start)
    }
}

struct SelectedPagesRowGroup<'a> {
    file: &'a ParquetFile,
    pages: &'a SelectedPages,
}

impl RowGroups for SelectedPagesRowGroup<'_> {
    fn num_rows(&self) -> usize {
        self.file.row_group_rows(self.pages.row_group) as usize
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let chunk = self.file.column_chunk(self.pages.row_group, leaf);
        let chunk = chunk.map_err(|error| ParquetError::General(error.to_string()))?;
        let index = self.pages.leaves.iter().find(|(known, _)| *known == leaf);
        let pages = index.and_then(|(_, index)| index.pages.as_ref());
        let pages = pages.ok_or_else(|| ParquetError::General(format!("no index of column {leaf}")))?;
        let pieces = self.pages.pieces.clone();
        let pages = ChunkPageReader::located(pieces, chunk, pages.locations(), self.num_rows())?;
        Ok(Box::new(OneChunk(Some(Box::new(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.file.metadata.row_groups().get(self.pages.row_group).into_iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.file.metadata
    }
}
