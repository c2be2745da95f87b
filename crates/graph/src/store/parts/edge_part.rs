//! Base or delta with edges of a type, without its deleted edges.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, AsArray, BooleanArray, Int64Array, new_empty_array, new_null_array},
    compute::filter,
    datatypes::{FieldRef, Int64Type},
};
use smallvec::SmallVec;

use crate::{
    Direction, Result,
    store::{
        access::Access,
        base::{BaseColumnSelection, edges::EdgeBase, find::EdgeBaseMatch},
        budgeted::Budgeted,
        delta::{
            deletion::DeletionSet,
            edges::EdgeDelta,
            rows::{ColumnArrays, arrow_error},
        },
    },
};

/// Base or delta, and its deletions.
pub(crate) struct EdgePart {
    pub(crate) of: EdgePartSource,
    /// Ordinals in the order of each direction.
    pub(crate) out_deleted: Arc<Budgeted<DeletionSet>>,
    pub(crate) in_deleted: Arc<Budgeted<DeletionSet>>,
}

pub(crate) enum EdgePartSource {
    Base(Arc<Budgeted<EdgeBase>>),
    Delta(Arc<Budgeted<EdgeDelta>>),
}

/// Positions of the requested columns in a part: resolved once per view.
pub(crate) enum EdgePartColumns {
    Base(BaseColumnSelection),
    Delta(SmallVec<[Option<usize>; 4]>),
}

/// Neighbours and their edges' properties.
#[derive(Clone, Debug)]
pub(crate) struct NeighborRows {
    pub(crate) neighbors: Int64Array,
    pub(crate) columns: ColumnArrays,
}

/// Live edges of slices: ranges of ordinals, and the number of edges per position.
pub(crate) struct LiveEdgeRanges {
    pub(crate) ranges: Vec<Range<u64>>,
    /// Number of rows per position.
    pub(crate) rows: Vec<u32>,
    pub(crate) total: usize,
}

impl EdgePart {
    /// Finds the edges from one vertex to another.
    pub(crate) async fn find(
        &self,
        access: Access,
        (source, destination): (i64, i64),
        columns: &EdgePartColumns,
        fields: &[FieldRef],
    ) -> Result<Option<NeighborRows>> {
        match (&self.of, columns) {
            (EdgePartSource::Base(base), EdgePartColumns::Base(selection)) => {
                let list = base.list(Direction::Out);
                let resident = || list.find_cached(source, destination, selection);
                let found = access.read(resident, || list.find(source, destination, selection)).await?;
                self.without_deleted(found)
            }
            (EdgePartSource::Delta(delta), columns) => {
                let left = self.left(Direction::Out, vec![delta.find(Direction::Out, source, destination)]);
                match left.total {
                    0 => Ok(None),
                    _ => self.read(access, Direction::Out, &left.ranges, columns, fields).await.map(Some),
                }
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn deleted(&self, direction: Direction) -> &DeletionSet {
        match direction {
            Direction::Out => &self.out_deleted,
            Direction::In => &self.in_deleted,
        }
    }

    /// Returns the number of edges, including deleted ones.
    pub(crate) fn len(&self) -> u64 {
        match &self.of {
            EdgePartSource::Base(base) => base.info().count,
            EdgePartSource::Delta(delta) => delta.len(),
        }
    }

    /// Returns true if one of the vertices may have edges here.
    #[inline]
    pub(crate) fn may_have(&self, direction: Direction, vertices: &[i64]) -> bool {
        match &self.of {
            EdgePartSource::Base(_) => true,
            EdgePartSource::Delta(delta) => delta.may_have(direction, vertices),
        }
    }

    pub(crate) fn columns(&self, fields: &[FieldRef]) -> EdgePartColumns {
        match &self.of {
            EdgePartSource::Base(base) => EdgePartColumns::Base(base.select(fields)),
            EdgePartSource::Delta(delta) => EdgePartColumns::Delta(
                fields.iter().map(|field| delta.rows().position(field.name())).collect(),
            ),
        }
    }

    pub(crate) async fn slices(
        &self,
        access: Access,
        direction: Direction,
        vertices: &[i64],
    ) -> Result<Vec<Range<u64>>> {
        match &self.of {
            EdgePartSource::Base(base) => {
                let list = base.list(direction);
                access.read(|| list.slices_cached(vertices), || list.slices(vertices)).await
            }
            EdgePartSource::Delta(delta) => {
                Ok(vertices.iter().map(|vertex| delta.slice(direction, *vertex)).collect())
            }
        }
    }

    pub(crate) fn count(&self, direction: Direction, slices: &[Range<u64>], degrees: &mut [i64]) {
        let deleted = self.deleted(direction);
        for (degree, slice) in degrees.iter_mut().zip(slices) {
            *degree += (slice.end - slice.start - deleted.count(slice)) as i64;
        }
    }

    pub(crate) fn left(&self, direction: Direction, slices: Vec<Range<u64>>) -> LiveEdgeRanges {
        let deleted = self.deleted(direction);
        let mut left = LiveEdgeRanges {
            ranges: Vec::with_capacity(slices.len()),
            rows: Vec::with_capacity(slices.len()),
            total: 0,
        };

        for slice in slices {
            let before = left.total;
            deleted.left(slice, |range| {
                left.total += (range.end - range.start) as usize;
                left.ranges.push(range);
            });
            left.rows.push((left.total - before) as u32);
        }

        left
    }

    pub(crate) async fn read(
        &self,
        access: Access,
        direction: Direction,
        ranges: &[Range<u64>],
        columns: &EdgePartColumns,
        fields: &[FieldRef],
    ) -> Result<NeighborRows> {
        match (&self.of, columns) {
            (EdgePartSource::Base(base), EdgePartColumns::Base(selection)) => {
                let list = base.list(direction);
                let resident = || list.read_cached(ranges, selection);
                let (neighbors, columns) = access.read(resident, || list.read(ranges, selection)).await?;
                Ok(NeighborRows { neighbors, columns })
            }
            (EdgePartSource::Delta(delta), EdgePartColumns::Delta(positions)) => {
                let wanted: SmallVec<[usize; 4]> = positions.iter().flatten().copied().collect();
                let whole = delta.rows().get_with(access, &wanted).await?;
                of_delta(delta, direction, ranges, whole, positions, fields)
            }
            _ => Ok(NeighborRows::empty(fields)),
        }
    }

    /// Removes deleted edges from edges that were found by source.
    pub(crate) fn without_deleted(&self, found: EdgeBaseMatch) -> Result<Option<NeighborRows>> {
        let EdgeBaseMatch { ordinals, neighbors, columns } = found;
        let gone = self.out_deleted.count(&ordinals);
        if ordinals.is_empty() || gone == ordinals.end - ordinals.start {
            return Ok(None);
        }
        if gone == 0 {
            return Ok(Some(NeighborRows { neighbors, columns }));
        }

        let rows: Vec<bool> = ordinals.map(|ordinal| !self.out_deleted.contains(ordinal)).collect();
        let rows = BooleanArray::from(rows);
        let keep = |array: &dyn Array| {
            filter(array, &rows).map_err(|error| arrow_error("edges between two vertices", error))
        };
        let neighbors = keep(&neighbors)?.as_primitive::<Int64Type>().clone();
        let columns = columns.iter().map(|column| keep(column)).collect::<Result<_>>()?;

        Ok(Some(NeighborRows { neighbors, columns }))
    }
}

/// Builds columns of a delta; `whole` has the existing columns, the others are null.
fn of_delta(
    delta: &EdgeDelta,
    direction: Direction,
    ranges: &[Range<u64>],
    whole: ColumnArrays,
    positions: &[Option<usize>],
    fields: &[FieldRef],
) -> Result<NeighborRows> {
    let (neighbors, found) = delta.read(direction, ranges, &whole)?;
    let mut found = found.into_iter();
    let columns = positions.iter().zip(fields).map(|(position, field)| match position {
        Some(_) => found.next().unwrap_or_else(|| new_null_array(field.data_type(), neighbors.len())),
        None => new_null_array(field.data_type(), neighbors.len()),
    });
    let columns = columns.collect();
    Ok(NeighborRows { neighbors, columns })
}

impl NeighborRows {
    pub(crate) fn empty(fields: &[FieldRef]) -> Self {
        let columns = fields.iter().map(|field| new_empty_array(field.data_type())).collect();
        Self { neighbors: Vec::<i64>::new().into(), columns }
    }
}
