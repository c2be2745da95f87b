//! Edges of a type in one version: bases and deltas without deleted edges, read as one.
//!
//! ```text
//! vertices ─▶ slices of each part ─▶ live ranges ─▶ neighbours and properties ─▶ merged by position
//! ```
//!
//! If one part has all the rows, its result is returned as is.

use arrow::{
    array::{Array, ArrayRef, Int64Array, MutableArrayData, make_array},
    datatypes::FieldRef,
};
use async_recursion::async_recursion as boxed;
use futures::{FutureExt, future::try_join_all};
use smallvec::SmallVec;

use super::edge_part::{EdgePart, EdgePartColumns, EdgePartSource, NeighborRows};
use crate::{
    Direction, Result,
    store::{
        delta::rows::{ColumnArrays, arrow_error},
        log::record::EdgeState,
    },
};

/// All edges of a type in a version.
pub(crate) struct EdgeParts {
    pub(crate) state: EdgeState,
    /// Assigned indexes at both ends: others are out of range.
    pub(crate) sources: u64,
    pub(crate) destinations: u64,
    /// Bases, then deltas in the order of their commits.
    pub(crate) parts: Vec<EdgePart>,
}

/// Edges of vertices, in the order of positions: the number of each, and their rows.
pub(crate) struct EdgeBatch {
    pub(crate) counts: Vec<u32>,
    pub(crate) found: NeighborRows,
}

impl EdgeParts {
    /// Returns the edges of vertices if everything required is in memory.
    pub(crate) fn gather_cached(
        &self,
        direction: Direction,
        vertices: &[i64],
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Option<Result<EdgeBatch>> {
        let mut pieces: EdgePartPieces = SmallVec::new();
        for (part, columns) in self.parts.iter().zip(columns) {
            if !part.may_have(direction, vertices) {
                continue;
            }
            let slices = match part.slices_cached(direction, vertices)? {
                Ok(slices) => slices,
                Err(error) => return Some(Err(error)),
            };
            let left = part.left(direction, slices);

            if left.total > 0 {
                match part.read_cached(direction, &left.ranges, columns, fields)? {
                    Ok(found) => pieces.push((found, left.rows)),
                    Err(error) => return Some(Err(error)),
                }
            }
        }

        Some(merged(pieces, vertices.len(), fields))
    }

    /// Reads the edges of vertices.
    #[boxed]
    pub(crate) async fn gather(
        &self,
        direction: Direction,
        vertices: &[i64],
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Result<EdgeBatch> {
        if let Some(found) = self.gather_cached(direction, vertices, columns, fields) {
            return found;
        }
        self.load(direction, vertices, columns, fields).await
    }

    pub(crate) async fn load(
        &self,
        direction: Direction,
        vertices: &[i64],
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Result<EdgeBatch> {
        let parts = self.parts.iter().zip(columns).filter(|(part, _)| part.may_have(direction, vertices));
        let load = parts.map(|(part, columns)| async move {
            let left = part.left(direction, part.slices(direction, vertices).await?);
            match left.total {
                0 => Ok(None),
                _ => part
                    .read(direction, &left.ranges, columns, fields)
                    .await
                    .map(|found| Some((found, left.rows))),
            }
        });

        let pieces = try_join_all(load).await?;
        merged(pieces.into_iter().flatten().collect(), vertices.len(), fields)
    }

    /// Returns the number of edges of each vertex if everything required is in memory.
    pub(crate) fn degrees_cached(
        &self,
        direction: Direction,
        vertices: &[i64],
    ) -> Option<Result<Int64Array>> {
        let mut degrees = vec![0_i64; vertices.len()];
        for part in &self.parts {
            match part.slices_cached(direction, vertices)? {
                Ok(slices) => part.count(direction, &slices, &mut degrees),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(degrees.into()))
    }

    /// Returns the number of edges of each vertex.
    #[boxed]
    pub(crate) async fn degrees(&self, direction: Direction, vertices: &[i64]) -> Result<Int64Array> {
        if let Some(known) = self.degrees_cached(direction, vertices) {
            return known;
        }
        let mut degrees = vec![0_i64; vertices.len()];
        let slices = self.parts.iter().map(|part| part.slices(direction, vertices).boxed());
        for (part, slices) in self.parts.iter().zip(try_join_all(slices).await?) {
            part.count(direction, &slices, &mut degrees);
        }
        Ok(degrees.into())
    }

    /// Finds the edges from one vertex to another.
    #[boxed]
    pub(crate) async fn find(
        &self,
        source: i64,
        destination: i64,
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Result<NeighborRows> {
        if let Some(found) = self.find_cached(source, destination, columns, fields) {
            return found;
        }
        let parts = self.parts.iter().zip(columns);
        let found = parts.map(|(part, columns)| part.find((source, destination), columns, fields).boxed());
        let pieces: EdgePartPieces = try_join_all(found).await?.into_iter().flatten().map(one).collect();
        merged(pieces, 1, fields).map(|gathered| gathered.found)
    }

    /// Returns [`Self::find`] if everything required is in memory.
    pub(crate) fn find_cached(
        &self,
        source: i64,
        destination: i64,
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Option<Result<NeighborRows>> {
        // Most stores are one base.
        if let ([part], [EdgePartColumns::Base(selection)]) = (self.parts.as_slice(), columns)
            && let EdgePartSource::Base(base) = &part.of
        {
            let found = match base.find_cached(Direction::Out, source, destination, selection)? {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            let neighbors = found.neighbors;
            let columns = found.columns;
            let left = part.without_deleted(found.ordinals, NeighborRows { neighbors, columns });
            return Some(left.map(|left| left.unwrap_or_else(|| NeighborRows::empty(fields))));
        }

        let mut pieces: EdgePartPieces = SmallVec::new();
        for (part, columns) in self.parts.iter().zip(columns) {
            let found = match (&part.of, columns) {
                (EdgePartSource::Base(base), EdgePartColumns::Base(selection)) => {
                    let found = match base.find_cached(Direction::Out, source, destination, selection)? {
                        Ok(found) => found,
                        Err(error) => return Some(Err(error)),
                    };
                    let columns = found.columns;
                    part.without_deleted(found.ordinals, NeighborRows { neighbors: found.neighbors, columns })
                }
                (EdgePartSource::Delta(delta), columns) => {
                    let left =
                        part.left(Direction::Out, vec![delta.find(Direction::Out, source, destination)]);
                    match left.total {
                        0 => Ok(None),
                        _ => part.read_cached(Direction::Out, &left.ranges, columns, fields)?.map(Some),
                    }
                }
                _ => Ok(None),
            };

            match found {
                Ok(found) => pieces.extend(found.map(one)),
                Err(error) => return Some(Err(error)),
            }
        }

        Some(merged(pieces, 1, fields).map(|gathered| gathered.found))
    }
}

type EdgePartPieces = SmallVec<[(NeighborRows, Vec<u32>); 2]>;

fn one(found: NeighborRows) -> (NeighborRows, Vec<u32>) {
    let rows = found.neighbors.len() as u32;
    (found, vec![rows])
}

/// Merges rows of several parts, by position and then by part.
fn merged(mut pieces: EdgePartPieces, positions: usize, fields: &[FieldRef]) -> Result<EdgeBatch> {
    if pieces.len() < 2 {
        return Ok(match pieces.pop() {
            Some((found, counts)) => EdgeBatch { counts, found },
            None => EdgeBatch { counts: vec![0; positions], found: NeighborRows::empty(fields) },
        });
    }

    let mut counts = vec![0_u32; positions];
    let mut total = 0;
    for (found, rows) in &pieces {
        total += found.neighbors.len();
        for (count, rows) in counts.iter_mut().zip(rows) {
            *count += rows;
        }
    }

    // Piece, start and length.
    let mut runs: Vec<(usize, usize, usize)> = Vec::with_capacity(positions);
    let mut starts: SmallVec<[usize; 8]> = pieces.iter().map(|_| 0).collect();
    for position in 0..positions {
        for (at, ((_, rows), start)) in pieces.iter().zip(&mut starts).enumerate() {
            let rows = rows.get(position).copied().unwrap_or_default() as usize;
            if rows > 0 {
                runs.push((at, *start, rows));
                *start += rows;
            }
        }
    }

    let mut neighbors: Vec<i64> = Vec::with_capacity(total);
    for (piece, start, rows) in &runs {
        let from =
            pieces.get(*piece).and_then(|(found, _)| found.neighbors.values().get(*start..start + rows));
        neighbors.extend_from_slice(from.unwrap_or_default());
    }

    let mut columns = ColumnArrays::new();
    for at in 0..fields.len() {
        let of: Vec<_> =
            pieces.iter().filter_map(|(found, _)| Some(found.columns.get(at)?.to_data())).collect();
        let mut made = MutableArrayData::new(of.iter().collect(), false, total);
        for (piece, start, rows) in &runs {
            made.try_extend(*piece, *start, start + rows)
                .map_err(|error| arrow_error("edges of parts", error))?;
        }
        columns.push(make_array(made.freeze()) as ArrayRef);
    }

    Ok(EdgeBatch { counts, found: NeighborRows { neighbors: neighbors.into(), columns } })
}
