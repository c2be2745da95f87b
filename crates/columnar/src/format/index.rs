//! Indexes of row groups and stripes of both formats, and reads of the pages or strides that the indexes select.

use std::{ops::Range, sync::Arc};

use stylobate_storage::OpenObject;

use super::{ColumnarFile, FileMetadata};
use crate::{
    Error, Result,
    chunk::ColumnBatch,
    file::{schema::ProjectedColumn, statistics::PruningStatistics},
    orc::{OrcColumnIndex, SelectedRowGroups},
    parquet::{LeafIndex, PageStatistics, SelectedPages},
    predicate::Column,
};

/// The index of one leaf of a row group by page, or of one column of a stripe by stride. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum ColumnChunkIndex {
    Parquet(Arc<LeafIndex>),
    Orc(Arc<OrcColumnIndex>),
}

/// The pages or strides with some rows of a row group or stripe.
pub(crate) enum RowGroupSubset {
    Pages(SelectedPages),
    Strides(SelectedRowGroups),
    /// Decoded rows.
    Rows(Vec<ColumnBatch>),
}

/// Consecutive ranges of rows, and the statistics of each.
pub(crate) type RangeStatistics<'a> = (Vec<Range<u64>>, Box<dyn PruningStatistics + 'a>);

impl ColumnChunkIndex {
    /// Returns the approximate bytes in memory.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Self::Parquet(index) => index.weight(),
            Self::Orc(index) => index.weight(),
        }
    }
}

impl RowGroupSubset {
    /// Returns the number of bytes to read.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Pages(pages) => pages.bytes(),
            Self::Strides(groups) => groups.bytes(),
            Self::Rows(_) => 0,
        }
    }

    /// Returns the memory that reading and decoding take, in bytes.
    pub(crate) fn working_bytes(&self) -> u64 {
        match self {
            Self::Pages(pages) => pages.bytes(),
            Self::Strides(groups) => groups.working_bytes(),
            Self::Rows(_) => 0,
        }
    }
}

impl FileMetadata {
    /// Returns the leaves whose index may help a filter over these columns, and for each whether its bloom filter may
    /// help. The flag of a column is set if the filter compares it for equality.
    pub(crate) fn indexed_leaves<'a>(
        &self,
        row_group: usize,
        columns: impl Iterator<Item = (&'a Column, bool)>,
    ) -> Vec<(usize, bool)> {
        match &self.file {
            ColumnarFile::Parquet(file) => file.indexed_leaves(row_group, columns),
            ColumnarFile::Orc(file) => file.indexed_columns(row_group, columns),
        }
    }

    /// Reads the indexes of these leaves, each with its bloom filter if requested.
    pub(crate) async fn indexes(
        &self,
        object: &OpenObject,
        row_group: usize,
        leaves: &[(usize, bool)],
    ) -> Result<Vec<ColumnChunkIndex>> {
        Ok(match &self.file {
            ColumnarFile::Parquet(file) => {
                let read = file.leaf_indexes(object, row_group, leaves).await?;
                read.into_iter().map(|index| ColumnChunkIndex::Parquet(Arc::new(index))).collect()
            }
            ColumnarFile::Orc(file) => {
                let read = file.read_indexes(object, row_group, leaves).await?;
                read.into_iter().map(|index| ColumnChunkIndex::Orc(Arc::new(index))).collect()
            }
        })
    }

    /// Returns the ranges of rows of these indexes and their statistics; `None` if there are none.
    pub(crate) fn parts(
        &self,
        row_group: usize,
        indexes: &[(usize, ColumnChunkIndex)],
    ) -> Option<RangeStatistics<'_>> {
        match &self.file {
            ColumnarFile::Parquet(file) => {
                let pages = PageStatistics::new(file, row_group, of_parquet(indexes));
                Some((pages.ranges().collect(), Box::new(pages)))
            }
            ColumnarFile::Orc(file) => {
                let (ranges, statistics) = file.row_groups(row_group, of_orc(indexes))?;
                Some((ranges, Box::new(statistics)))
            }
        }
    }

    /// Returns the leaves whose indexes locate the rows of these columns.
    pub(crate) fn leaves_of(&self, columns: &[ProjectedColumn]) -> Vec<usize> {
        match &self.file {
            ColumnarFile::Parquet(file) => file.leaves_of(columns),
            ColumnarFile::Orc(file) => file.columns_of(columns),
        }
    }

    /// Selects the pages or strides of `columns` with `rows`, which are ascending and disjoint; `None` if an index does
    /// not locate them. Columns are ascending; `indexes` has the index of each of their leaves.
    pub(crate) fn select(
        &self,
        row_group: usize,
        columns: &[ProjectedColumn],
        rows: &[Range<u64>],
        indexes: &[(usize, ColumnChunkIndex)],
    ) -> Option<RowGroupSubset> {
        match &self.file {
            ColumnarFile::Parquet(file) => {
                file.select(row_group, columns, rows, of_parquet(indexes)).map(RowGroupSubset::Pages)
            }
            ColumnarFile::Orc(file) => {
                file.select(row_group, columns, rows, &of_orc(indexes)).map(RowGroupSubset::Strides)
            }
        }
    }

    /// Reads the selected pages or strides.
    pub(crate) async fn read_selected(
        &self,
        object: &OpenObject,
        selected: RowGroupSubset,
    ) -> Result<RowGroupSubset> {
        Ok(match (&self.file, selected) {
            (ColumnarFile::Parquet(file), RowGroupSubset::Pages(pages)) => {
                RowGroupSubset::Pages(file.read_selected(object, pages).await?)
            }
            (ColumnarFile::Orc(file), RowGroupSubset::Strides(groups)) => {
                RowGroupSubset::Strides(file.read_selected(object, groups).await?)
            }
            (_, selected) => selected,
        })
    }

    /// Decodes all strides that were read, on the calling thread: only decoding shows whether the index is right.
    /// `None` if the index is wrong, in which case the stripe itself may still be valid.
    pub(crate) fn decode_strides(
        &self,
        selected: RowGroupSubset,
        batch_rows: usize,
    ) -> Option<RowGroupSubset> {
        match (&self.file, &selected) {
            (ColumnarFile::Orc(file), RowGroupSubset::Strides(groups)) => {
                match file.decode_selected(groups, batch_rows) {
                    Ok(rows) => Some(RowGroupSubset::Rows(rows)),
                    Err(error) => {
                        tracing::debug!(%error, "a stripe is read whole, since its row index does not lead to its rows");
                        None
                    }
                }
            }
            _ => Some(selected),
        }
    }

    /// Streams the selected rows: pages that were read are decoded as rows are pulled.
    pub(crate) fn selected_rows(
        &self,
        selected: &RowGroupSubset,
        batch_rows: usize,
    ) -> Result<Box<dyn Iterator<Item = Result<ColumnBatch>> + Send + 'static>> {
        match (&self.file, selected) {
            (ColumnarFile::Parquet(file), RowGroupSubset::Pages(pages)) => {
                Ok(Box::new(file.selected_rows(pages, batch_rows)?))
            }
            (_, RowGroupSubset::Rows(rows)) => Ok(Box::new(rows.clone().into_iter().map(Ok))),
            _ => Err(Error::Ended { reason: "rows of another format".to_owned() }),
        }
    }
}

fn of_parquet(indexes: &[(usize, ColumnChunkIndex)]) -> Vec<(usize, Arc<LeafIndex>)> {
    let leaf = |(leaf, index): &(usize, ColumnChunkIndex)| match index {
        ColumnChunkIndex::Parquet(index) => Some((*leaf, index.clone())),
        ColumnChunkIndex::Orc(_) => None,
    };
    indexes.iter().filter_map(leaf).collect()
}

fn of_orc(indexes: &[(usize, ColumnChunkIndex)]) -> Vec<(usize, Arc<OrcColumnIndex>)> {
    let column = |(column, index): &(usize, ColumnChunkIndex)| match index {
        ColumnChunkIndex::Orc(index) => Some((*column, index.clone())),
        ColumnChunkIndex::Parquet(_) => None,
    };
    indexes.iter().filter_map(column).collect()
}
