//! What files of both formats say of the rows within a row group or stripe, and reading a few of these rows alone.

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

/// What is said of one leaf of a row group, page by page, or of one column of a stripe, stride by stride. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub(crate) enum ColumnChunkIndex {
    Parquet(Arc<LeafIndex>),
    Orc(Arc<OrcColumnIndex>),
}

/// The pages or strides that hold some rows of a row group or stripe.
pub(crate) enum RowGroupSubset {
    Pages(SelectedPages),
    Strides(SelectedRowGroups),
    /// The rows themselves.
    Rows(Vec<ColumnBatch>),
}

/// Ranges of rows, one after another, and what is said of each.
pub(crate) type RangeStatistics<'a> = (Vec<Range<u64>>, Box<dyn PruningStatistics + 'a>);

impl ColumnChunkIndex {
    /// Bytes in memory, about.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Self::Parquet(index) => index.weight(),
            Self::Orc(index) => index.weight(),
        }
    }
}

impl RowGroupSubset {
    /// Bytes that have to be read.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Pages(pages) => pages.bytes(),
            Self::Strides(groups) => groups.bytes(),
            Self::Rows(_) => 0,
        }
    }

    /// Bytes that reading and decoding them will hold.
    pub(crate) fn working_bytes(&self) -> u64 {
        match self {
            Self::Pages(pages) => pages.bytes(),
            Self::Strides(groups) => groups.working_bytes(),
            Self::Rows(_) => 0,
        }
    }
}

impl FileMetadata {
    /// The leaves that may have an index of use to a filter over these columns, each with whether its bloom filter may
    /// be. A column comes with whether it is compared for equality.
    pub(crate) fn indexed_leaves<'a>(
        &self,
        unit: usize,
        columns: impl Iterator<Item = (&'a Column, bool)>,
    ) -> Vec<(usize, bool)> {
        match &self.file {
            ColumnarFile::Parquet(file) => file.indexed_leaves(unit, columns),
            ColumnarFile::Orc(file) => file.indexed_columns(unit, columns),
        }
    }

    /// What there is of the index of these leaves, each with its bloom filter if that is asked for.
    pub(crate) async fn indexes(
        &self,
        object: &OpenObject,
        unit: usize,
        leaves: &[(usize, bool)],
    ) -> Result<Vec<ColumnChunkIndex>> {
        Ok(match &self.file {
            ColumnarFile::Parquet(file) => {
                let read = file.leaf_indexes(object, unit, leaves).await?;
                read.into_iter().map(|index| ColumnChunkIndex::Parquet(Arc::new(index))).collect()
            }
            ColumnarFile::Orc(file) => {
                let read = file.read_indexes(object, unit, leaves).await?;
                read.into_iter().map(|index| ColumnChunkIndex::Orc(Arc::new(index))).collect()
            }
        })
    }

    /// What these indexes say of the rows of a unit; `None` if they say nothing.
    pub(crate) fn parts(
        &self,
        unit: usize,
        indexes: &[(usize, ColumnChunkIndex)],
    ) -> Option<RangeStatistics<'_>> {
        match &self.file {
            ColumnarFile::Parquet(file) => {
                let pages = PageStatistics::new(file, unit, of_parquet(indexes));
                Some((pages.ranges().collect(), Box::new(pages)))
            }
            ColumnarFile::Orc(file) => {
                let (ranges, statistics) = file.row_groups(unit, of_orc(indexes))?;
                Some((ranges, Box::new(statistics)))
            }
        }
    }

    /// The leaves whose index tells where rows of these columns are.
    pub(crate) fn leaves_of(&self, columns: &[ProjectedColumn]) -> Vec<usize> {
        match &self.file {
            ColumnarFile::Parquet(file) => file.leaves_of(columns),
            ColumnarFile::Orc(file) => file.columns_of(columns),
        }
    }

    /// The pages or strides of `columns` that hold `rows`, which are ascending and apart; `None` if an index does not say
    /// where they are. Columns are ascending; `indexes` has the index of each of their leaves.
    pub(crate) fn select(
        &self,
        unit: usize,
        columns: &[ProjectedColumn],
        rows: &[Range<u64>],
        indexes: &[(usize, ColumnChunkIndex)],
    ) -> Option<RowGroupSubset> {
        match &self.file {
            ColumnarFile::Parquet(file) => {
                file.select(unit, columns, rows, of_parquet(indexes)).map(RowGroupSubset::Pages)
            }
            ColumnarFile::Orc(file) => {
                file.select(unit, columns, rows, &of_orc(indexes)).map(RowGroupSubset::Strides)
            }
        }
    }

    /// Reads what was selected.
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

    /// Decodes strides that were read, on the calling thread and all of them: only then is it known whether they are
    /// what the index says. `None` if they are not: without it the stripe may be as it should.
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

    /// The rows that were selected, few at a time: pages that were read are decoded as they are asked for.
    pub(crate) fn selected_rows(
        &self,
        selected: RowGroupSubset,
        batch_rows: usize,
    ) -> Result<Box<dyn Iterator<Item = Result<ColumnBatch>> + Send + 'static>> {
        match (&self.file, selected) {
            (ColumnarFile::Parquet(file), RowGroupSubset::Pages(pages)) => {
                Ok(Box::new(file.selected_rows(&pages, batch_rows)?))
            }
            (_, RowGroupSubset::Rows(rows)) => Ok(Box::new(rows.into_iter().map(Ok))),
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
