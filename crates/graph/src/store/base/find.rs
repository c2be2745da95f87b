//! Finds the edges between two vertices: reads the offsets, then one chunk, regardless of the vertices' degrees.

use std::ops::Range;

use arrow::{
    array::{Array, AsArray, Int64Array},
    datatypes::Int64Type,
};

use super::{BaseColumnSelection, list::BaseAdjacencyList, read::NeighborColumns};
use crate::{Result, store::delta::rows::ColumnArrays};

/// Edges of one vertex to one neighbour.
#[derive(Clone, Debug)]
pub(crate) struct EdgeBaseMatch {
    pub(crate) ordinals: Range<u64>,
    pub(crate) neighbors: Int64Array,
    pub(crate) columns: ColumnArrays,
}

impl BaseAdjacencyList {
    /// Narrows a vertex's edges to those that can lead to a neighbour: within one chunk, unless its first edge is
    /// parallel to the last of the previous chunk.
    fn candidates(&self, vertex: i64, edges: Range<u64>, neighbor: i64) -> Range<u64> {
        let mut part = self.part_of(vertex);
        if edges.is_empty() || self.within_chunk(part, &edges).is_some() {
            return edges;
        }
        let (start, _) = self.bounds(&mut part, edges.start);
        let before = self.first_chunks.get(part).copied().unwrap_or(0);
        let number = |edge: u64| before + self.chunk_size.split(edge - start).0;
        let first = number(edges.start);
        let last = number(edges.end - 1);
        let firsts = self.info.firsts.get(first as usize + 1..last as usize + 1).unwrap_or_default();
        if first == last || firsts.len() as u64 != last - first {
            return edges;
        }

        let found = first + firsts.partition_point(|other| *other <= neighbor) as u64;
        let mut earliest = found;
        let is_continued = |chunk: u64| {
            self.info.firsts.get(chunk as usize) == Some(&neighbor)
                && self.info.continued.binary_search(&chunk).is_ok()
        };

        while earliest > first && is_continued(earliest) {
            earliest -= 1;
        }
        let begins = |chunk: u64| start + (chunk - before) * self.chunk_size.get();
        edges.start.max(begins(earliest))..edges.end.min(begins(found + 1))
    }

    /// Returns the edges from a vertex to a neighbour if all required data is cached.
    pub(crate) fn find_cached(
        &self,
        vertex: i64,
        neighbor: i64,
        selection: &BaseColumnSelection,
    ) -> Option<Result<EdgeBaseMatch>> {
        let edges = match self.slice_cached(vertex)? {
            Ok(edges) => self.candidates(vertex, edges, neighbor),
            Err(error) => return Some(Err(error)),
        };
        if let Some((chunk, within)) = self.within_chunk(self.part_of(vertex), &edges) {
            let ends = self.neighbors_cached(chunk)?;
            let values = ends.as_primitive_opt::<Int64Type>()?.values().get(within.clone())?;
            let rows = equal_range(values, neighbor);
            let ordinals = edges.start + rows.start as u64..edges.start + rows.end as u64;
            let rows = within.start + rows.start..within.start + rows.end;
            let (neighbors, columns) = self.slice_of_chunk(chunk, &ends, rows, selection)?;
            return Some(Ok(EdgeBaseMatch { ordinals, neighbors, columns }));
        }

        let read = self.read_cached(std::slice::from_ref(&edges), selection)?;
        Some(read.map(|read| found(&edges, read, neighbor)))
    }

    /// Finds the edges from a vertex to a neighbour: reads the offsets, then one chunk.
    pub(crate) async fn find(
        &self,
        vertex: i64,
        neighbor: i64,
        selection: &BaseColumnSelection,
    ) -> Result<EdgeBaseMatch> {
        if let Some(found) = self.find_cached(vertex, neighbor, selection) {
            return found;
        }
        let edges = self.candidates(vertex, self.slice(vertex).await?, neighbor);
        let read = self.read(std::slice::from_ref(&edges), selection).await?;
        Ok(found(&edges, read, neighbor))
    }
}

fn found(edges: &Range<u64>, (neighbors, columns): NeighborColumns, neighbor: i64) -> EdgeBaseMatch {
    let rows = equal_range(neighbors.values(), neighbor);
    let columns = columns.iter().map(|column| column.slice(rows.start, rows.len())).collect();
    EdgeBaseMatch {
        ordinals: edges.start + rows.start as u64..edges.start + rows.end as u64,
        neighbors: neighbors.slice(rows.start, rows.len()),
        columns,
    }
}

fn equal_range(sorted: &[i64], wanted: i64) -> Range<usize> {
    let start = sorted.partition_point(|value| *value < wanted);
    let rest = sorted.get(start..).unwrap_or_default();
    // Parallel edges are few.
    let count = rest.iter().take_while(|value| **value == wanted).count();
    start..start + count
}
