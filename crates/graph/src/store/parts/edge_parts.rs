//! Edges of a type in one version: bases and deltas without deleted edges, read as one.
//!
//! ```text
//! vertices ─▶ slices of each part ─▶ live ranges ─▶ neighbours and properties ─▶ merged by position
//! ```
//!
//! If one part has all the rows, its result is returned as is.

use std::pin::pin;

use arrow::{
    array::{Array, ArrayRef, Int64Array, MutableArrayData, make_array},
    datatypes::FieldRef,
};
use futures::FutureExt;
use smallvec::SmallVec;

use super::edge_part::{EdgePart, EdgePartColumns, EdgePartSource, LiveEdgeRanges, NeighborRows};
use crate::{
    Direction, Result,
    store::{
        access::{Access, poll_once},
        base::{BaseColumnSelection, edges::EdgeBase},
        delta::rows::{ColumnArrays, arrow_error},
        log::record::EdgeState,
    },
};

/// All edges of a type in a version.
pub(crate) struct EdgeParts {
    pub(crate) state: EdgeState,
    /// Number of assigned indexes at each end: indexes from this number on are out of range.
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
    /// Returns the only part and its columns if it is a base, as in most stores.
    #[inline]
    pub(crate) fn only_base<'a>(
        &'a self,
        columns: &'a [EdgePartColumns],
    ) -> Option<(&'a EdgePart, &'a EdgeBase, &'a BaseColumnSelection)> {
        match (self.parts.as_slice(), columns) {
            ([part], [EdgePartColumns::Base(selection)]) => match &part.of {
                EdgePartSource::Base(base) => Some((part, base, selection)),
                EdgePartSource::Delta(_) => None,
            },
            _ => None,
        }
    }

    /// Reads the edges of vertices.
    pub(crate) async fn gather(
        &self,
        access: Access,
        direction: Direction,
        vertices: &[i64],
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Result<EdgeBatch> {
        match self.gather_resident(direction, vertices, columns, fields)? {
            Some(gathered) => Ok(gathered),
            None => self.gather_all(access, direction, vertices, columns, fields).boxed().await,
        }
    }

    /// Gathers the edges of vertices if the only part is a base, and everything required is in memory.
    fn gather_resident(
        &self,
        direction: Direction,
        vertices: &[i64],
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Result<Option<EdgeBatch>> {
        let Some((part, base, selection)) = self.only_base(columns) else { return Ok(None) };
        let list = base.list(direction);
        let Some(slices) = list.slices_cached(vertices).transpose()? else { return Ok(None) };
        let LiveEdgeRanges { ranges, rows: counts, total } = part.left(direction, slices);
        if total == 0 {
            return Ok(Some(EdgeBatch { counts, found: NeighborRows::empty(fields) }));
        }

        let read = list.read_cached(&ranges, selection).transpose()?;
        Ok(read.map(|(neighbors, columns)| EdgeBatch { counts, found: NeighborRows { neighbors, columns } }))
    }

    /// Gathers the edges of vertices from all parts.
    async fn gather_all(
        &self,
        access: Access,
        direction: Direction,
        vertices: &[i64],
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Result<EdgeBatch> {
        let parts = self.parts.iter().zip(columns).filter(|(part, _)| part.may_have(direction, vertices));
        let pieces =
            access.read_all(parts, |part| read_part(access, direction, vertices, part, fields)).await?;
        merged(pieces.into_iter().flatten().collect(), vertices.len(), fields)
    }

    /// Returns the number of edges of each vertex.
    pub(crate) async fn degrees(
        &self,
        access: Access,
        direction: Direction,
        vertices: &[i64],
    ) -> Result<Int64Array> {
        let mut degrees = vec![0_i64; vertices.len()];
        let slices =
            access.read_all(self.parts.iter(), |part| part.slices(access, direction, vertices)).await?;
        for (part, slices) in self.parts.iter().zip(slices) {
            part.count(direction, &slices, &mut degrees);
        }
        Ok(degrees.into())
    }

    /// Returns [`Self::find`] if everything required is in memory.
    pub(crate) fn find_cached(
        &self,
        source: i64,
        destination: i64,
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Option<Result<NeighborRows>> {
        if let Some((part, base, selection)) = self.only_base(columns) {
            let found = base.list(Direction::Out).find_cached(source, destination, selection)?;
            let left = found.and_then(|found| part.without_deleted(found));
            return Some(left.map(|left| left.unwrap_or_else(|| NeighborRows::empty(fields))));
        }
        poll_once(pin!(self.find(Access::Resident, source, destination, columns, fields)))
    }

    /// Finds the edges from one vertex to another.
    pub(crate) async fn find(
        &self,
        access: Access,
        source: i64,
        destination: i64,
        columns: &[EdgePartColumns],
        fields: &[FieldRef],
    ) -> Result<NeighborRows> {
        let parts = self.parts.iter().zip(columns);
        let found = access
            .read_all(parts, |(part, columns)| part.find(access, (source, destination), columns, fields))
            .await?;
        merged(found.into_iter().flatten().map(one).collect(), 1, fields).map(|gathered| gathered.found)
    }
}

/// Reads the live edges of vertices in one part: their rows, and the number of each vertex; `None` if there are none.
async fn read_part(
    access: Access,
    direction: Direction,
    vertices: &[i64],
    (part, columns): (&EdgePart, &EdgePartColumns),
    fields: &[FieldRef],
) -> Result<Option<(NeighborRows, Vec<u32>)>> {
    let left = part.left(direction, part.slices(access, direction, vertices).await?);
    if left.total == 0 {
        return Ok(None);
    }
    let found = part.read(access, direction, &left.ranges, columns, fields).await?;
    Ok(Some((found, left.rows)))
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
