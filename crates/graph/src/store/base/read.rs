//! Reads edges of a list: neighbours and columns, without a copy if they are consecutive in one chunk.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    datatypes::{DataType, Int64Type},
};
use futures::{StreamExt, TryStreamExt};
use stylobate_columnar::Columns;

use super::{
    BaseColumnSelection,
    list::{BaseAdjacencyList, ListChunkPosition, LocatedEdges},
};
use crate::{
    Error, Result,
    graphar::{ExpectedRowCount, has_no_nulls},
    store::{
        delta::rows::ColumnArrays,
        take::{ChunkRun, MAX_CONCURRENT_CHUNKS, gather_runs, runs_by_chunk},
    },
};

/// Neighbours and columns of edges.
pub(crate) type NeighborColumns = (Int64Array, ColumnArrays);

/// Neighbours and selected columns of a chunk.
type LoadedEdgeChunk = (ArrayRef, Vec<Option<ArrayRef>>);

impl BaseAdjacencyList {
    /// Returns the neighbours of a chunk if cached.
    #[inline]
    pub(crate) fn neighbors_cached(&self, chunk: u64) -> Option<ArrayRef> {
        self.ends.cached(chunk, 0).filter(has_no_nulls)
    }

    /// Returns neighbours and columns of a vertex's edges if all of them are cached; without a copy if they are in one
    /// chunk.
    #[inline]
    pub(crate) fn read_one_cached(
        &self,
        vertex: i64,
        edges: &Range<u64>,
        selection: &BaseColumnSelection,
    ) -> Option<Result<NeighborColumns>> {
        match self.within_chunk(self.part_of(vertex), edges) {
            Some((chunk, rows)) => {
                let neighbors = self.neighbors_cached(chunk)?;
                self.slice_of_chunk(chunk, &neighbors, rows, selection).map(Ok)
            }
            None => self.read_cached(std::slice::from_ref(edges), selection),
        }
    }

    /// Returns neighbours and columns of edges if all of them are cached.
    pub(crate) fn read_cached(
        &self,
        ranges: &[Range<u64>],
        selection: &BaseColumnSelection,
    ) -> Option<Result<NeighborColumns>> {
        let LocatedEdges { chunks, runs, rows } = match self.locate(ranges) {
            Ok(located) => located,
            Err(error) => return Some(Err(error)),
        };
        let mut loaded = Vec::with_capacity(chunks.numbers().len());
        for chunk in chunks.numbers() {
            loaded.push(self.chunk_cached(*chunk, selection)?);
        }
        Some(gather(&loaded, &runs, rows, selection))
    }

    /// Reads neighbours and columns of edges, range after range.
    pub(crate) async fn read(
        &self,
        ranges: &[Range<u64>],
        selection: &BaseColumnSelection,
    ) -> Result<NeighborColumns> {
        match self.read_cached(ranges, selection) {
            Some(read) => read,
            None => Box::pin(self.load_and_read(ranges, selection)).await,
        }
    }

    /// Returns rows of a chunk with these neighbours, without a copy.
    #[inline]
    pub(crate) fn slice_of_chunk(
        &self,
        chunk: u64,
        neighbors: &ArrayRef,
        rows: Range<usize>,
        selection: &BaseColumnSelection,
    ) -> Option<NeighborColumns> {
        let neighbors = neighbors.as_primitive_opt::<Int64Type>()?.slice(rows.start, rows.len());
        let mut columns = ColumnArrays::new();
        for (at, column) in selection.columns.iter().enumerate() {
            columns.push(match column.stored {
                Some((group, position)) => {
                    self.groups.get(group)?.files.cached(chunk, position)?.slice(rows.start, rows.len())
                }
                None => selection.missing(at, rows.len())?,
            });
        }

        Some((neighbors, columns))
    }

    /// Returns true if all selected columns of a chunk are cached.
    pub(crate) fn is_cached(&self, chunk: u64, selection: &BaseColumnSelection) -> bool {
        self.ends.cached(chunk, 1).is_some_and(|vertices| has_no_nulls(&vertices))
            && self.chunk_cached(chunk, selection).is_some()
    }

    fn chunk_cached(&self, chunk: u64, selection: &BaseColumnSelection) -> Option<LoadedEdgeChunk> {
        let neighbors = self.neighbors_cached(chunk)?;
        let mut columns = Vec::with_capacity(selection.columns.len());
        for column in &selection.columns {
            columns.push(match column.stored {
                Some((group, position)) => Some(self.groups.get(group)?.files.cached(chunk, position)?),
                None => None,
            });
        }
        Some((neighbors, columns))
    }

    /// Keeps only the requested rows of each chunk in memory, apart from cached columns.
    async fn load_and_read(
        &self,
        ranges: &[Range<u64>],
        selection: &BaseColumnSelection,
    ) -> Result<NeighborColumns> {
        let LocatedEdges { chunks, runs, rows } = self.locate(ranges)?;
        let (shares, left) = runs_by_chunk(&runs, chunks.numbers().len());
        let loads = chunks
            .numbers()
            .iter()
            .copied()
            .zip(shares)
            .map(|(chunk, runs)| async move { piece(self.load(chunk, selection).await?, &runs) });

        let pieces: Vec<LoadedEdgeChunk> =
            futures::stream::iter(loads).buffered(MAX_CONCURRENT_CHUNKS).try_collect().await?;
        gather(&pieces, &left, rows, selection)
    }

    /// Loads the neighbours and selected columns of a chunk, reading the files of all groups concurrently.
    async fn load(&self, number: u64, selection: &BaseColumnSelection) -> Result<LoadedEdgeChunk> {
        let neighbors = async {
            let neighbors = self.ends(number, &[0]).await?;
            neighbors.into_iter().next().ok_or_else(|| Error::Missing { file: self.ends_file(number) })
        };
        futures::future::try_join(neighbors, self.properties(number, selection)).await
    }

    /// Reads neighbours (0) and vertices (1) of a chunk.
    pub(crate) async fn ends(&self, number: u64, columns: &[usize]) -> Result<Columns> {
        let rows = ExpectedRowCount::Exactly(self.chunk_at(number).rows);
        let ends = self.ends.get(number, || self.ends_file(number), rows, columns).await?;
        if ends.iter().all(has_no_nulls) {
            Ok(ends)
        } else {
            Err(Error::Data { file: self.ends_file(number), reason: "an edge without an end".to_owned() })
        }
    }

    fn ends_file(&self, number: u64) -> String {
        let ListChunkPosition { part, chunk, .. } = self.chunk_at(number);
        format!("{}adj_list/part{part}/chunk{chunk}", self.folder)
    }

    /// Reads the vertices and the neighbours of edges.
    pub(crate) async fn both_ends(&self, edges: Range<u64>) -> Result<(Int64Array, Int64Array)> {
        let LocatedEdges { chunks, runs, rows } = self.locate(std::slice::from_ref(&edges))?;
        let loads = chunks.numbers().iter().copied().map(|chunk| self.ends(chunk, &[0, 1]));
        let loaded: Vec<Columns> =
            futures::stream::iter(loads).buffered(MAX_CONCURRENT_CHUNKS).try_collect().await?;
        let side = |at: usize| {
            let arrays: Vec<ArrayRef> = loaded.iter().filter_map(|ends| ends.get(at)).cloned().collect();
            let ends = gather_runs(&arrays, &runs, rows, &DataType::Int64)?;
            Ok::<_, Error>(ends.as_primitive::<Int64Type>().clone())
        };
        Ok((side(1)?, side(0)?))
    }

    pub(crate) async fn properties(
        &self,
        number: u64,
        selection: &BaseColumnSelection,
    ) -> Result<Vec<Option<ArrayRef>>> {
        let mut found: Vec<Option<ArrayRef>> = vec![None; selection.columns.len()];
        let ListChunkPosition { part, chunk, rows } = self.chunk_at(number);
        let groups = self.groups.iter().enumerate().map(|(at, group)| async move {
            let (columns, at) = selection.of_group(at);
            if columns.is_empty() {
                return Ok::<_, Error>((at, Columns::new()));
            }
            let path = || format!("{}{}part{part}/chunk{chunk}", self.folder, group.prefix);
            Ok((at, group.files.get(number, path, ExpectedRowCount::Exactly(rows), &columns).await?))
        });

        for (at, arrays) in futures::future::try_join_all(groups).await? {
            for (at, array) in at.into_iter().zip(arrays) {
                if let Some(found) = found.get_mut(at) {
                    *found = Some(array);
                }
            }
        }

        Ok(found)
    }
}

/// Returns rows of a chunk.
fn piece((neighbors, columns): LoadedEdgeChunk, runs: &[ChunkRun]) -> Result<LoadedEdgeChunk> {
    let rows = runs.iter().map(|run| run.rows.len()).sum();
    let of = |array: ArrayRef| {
        let data_type = array.data_type().clone();
        gather_runs(&[array], runs, rows, &data_type)
    };
    let columns = columns.into_iter().map(|column| column.map(of).transpose());
    Ok((of(neighbors)?, columns.collect::<Result<_>>()?))
}

fn gather(
    loaded: &[LoadedEdgeChunk],
    runs: &[ChunkRun],
    rows: usize,
    selection: &BaseColumnSelection,
) -> Result<NeighborColumns> {
    let neighbors: Vec<ArrayRef> = loaded.iter().map(|(neighbors, _)| neighbors.clone()).collect();
    let neighbors = gather_runs(&neighbors, runs, rows, &DataType::Int64)?;
    let mut columns = ColumnArrays::with_capacity(selection.columns.len());
    for (at, column) in selection.columns.iter().enumerate() {
        columns.push(match selection.missing(at, rows) {
            Some(nulls) => nulls,
            None => {
                let arrays: Vec<ArrayRef> =
                    loaded.iter().filter_map(|(_, columns)| columns.get(at)?.clone()).collect();
                gather_runs(&arrays, runs, rows, column.field.data_type())?
            }
        });
    }

    Ok((neighbors.as_primitive::<Int64Type>().clone(), columns))
}
