//! The edges of a type in one version: bases and deltas without what was deleted of them, asked as one.
//!
//! ```text
//! vertices ─▶ slices of each part ─▶ what is left of them ─▶ neighbours and properties ─▶ merged by position
//! ```
//!
//! Where one part has all the rows, its answer is the answer.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Int64Array, MutableArrayData, make_array, new_empty_array, new_null_array,
    },
    datatypes::{FieldRef, Int64Type},
};
use async_recursion::async_recursion as boxed;
use futures::FutureExt;
use smallvec::SmallVec;

use super::{
    base::Selection,
    base_edges::EdgeBase,
    budgeted::Budgeted,
    deletion::Deleted,
    delta::EdgeDelta,
    record::EdgeState,
    rows::{Arrays, arrow_error},
};
use crate::{Direction, Result};

/// All edges of a type in a version.
pub(crate) struct EdgeParts {
    pub(crate) state: EdgeState,
    /// Indexes given out at both ends: others are out of range.
    pub(crate) sources: u64,
    pub(crate) destinations: u64,
    /// Bases, then deltas in the order of their commits.
    pub(crate) parts: Vec<EdgePart>,
}

/// A base or a delta, and what was deleted of it.
pub(crate) struct EdgePart {
    pub(crate) of: EdgePartOf,
    /// Ordinals in the order of each direction.
    pub(crate) out_deleted: Arc<Budgeted<Deleted>>,
    pub(crate) in_deleted: Arc<Budgeted<Deleted>>,
}

pub(crate) enum EdgePartOf {
    Base(Arc<Budgeted<EdgeBase>>),
    Delta(Arc<Budgeted<EdgeDelta>>),
}

/// Where a part has the columns that are wanted: resolved once, for a view.
pub(crate) enum PartColumns {
    Base(Selection),
    Delta(SmallVec<[Option<usize>; 4]>),
}

/// Neighbours and their edges' properties.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) neighbors: Int64Array,
    pub(crate) columns: Arrays,
}

/// Edges of vertices, in the order of positions: how many each has, and all of them.
pub(crate) struct Gathered {
    pub(crate) counts: Vec<u32>,
    pub(crate) found: Found,
}

/// What is left of slices: ranges of ordinals, and how many of these each position has.
struct Left {
    ranges: Vec<Range<u64>>,
    /// Rows of each position.
    rows: Vec<u32>,
    total: usize,
}

impl EdgePart {
    pub(crate) fn deleted(&self, direction: Direction) -> &Deleted {
        match direction {
            Direction::Out => &self.out_deleted,
            Direction::In => &self.in_deleted,
        }
    }

    /// Its edges, deleted ones among them.
    pub(crate) fn len(&self) -> u64 {
        match &self.of {
            EdgePartOf::Base(base) => base.info().count,
            EdgePartOf::Delta(delta) => delta.len(),
        }
    }

    /// Whether one of the vertices may have edges here.
    #[inline]
    fn may_have(&self, direction: Direction, vertices: &[i64]) -> bool {
        match &self.of {
            EdgePartOf::Base(_) => true,
            EdgePartOf::Delta(delta) => delta.may_have(direction, vertices),
        }
    }

    pub(crate) fn columns(&self, fields: &[FieldRef]) -> PartColumns {
        match &self.of {
            EdgePartOf::Base(base) => PartColumns::Base(base.select(fields)),
            EdgePartOf::Delta(delta) => {
                PartColumns::Delta(fields.iter().map(|field| delta.rows().position(field.name())).collect())
            }
        }
    }

    fn slices_cached(&self, direction: Direction, vertices: &[i64]) -> Option<Result<Vec<Range<u64>>>> {
        match &self.of {
            EdgePartOf::Base(base) => base.slices_cached(direction, vertices),
            EdgePartOf::Delta(delta) => {
                Some(Ok(vertices.iter().map(|vertex| delta.slice(direction, *vertex)).collect()))
            }
        }
    }

    pub(crate) async fn slices(&self, direction: Direction, vertices: &[i64]) -> Result<Vec<Range<u64>>> {
        match (&self.of, self.slices_cached(direction, vertices)) {
            (_, Some(found)) => found,
            (EdgePartOf::Base(base), None) => base.slices(direction, vertices).await,
            (EdgePartOf::Delta(_), None) => Ok(Vec::new()),
        }
    }

    fn count(&self, direction: Direction, slices: &[Range<u64>], degrees: &mut [i64]) {
        let deleted = self.deleted(direction);
        for (degree, slice) in degrees.iter_mut().zip(slices) {
            *degree += (slice.end - slice.start - deleted.count(slice)) as i64;
        }
    }

    fn left(&self, direction: Direction, slices: Vec<Range<u64>>) -> Left {
        let deleted = self.deleted(direction);
        let mut left = Left {
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

    fn read_cached(
        &self,
        direction: Direction,
        ranges: &[Range<u64>],
        columns: &PartColumns,
        fields: &[FieldRef],
    ) -> Option<Result<Found>> {
        match (&self.of, columns) {
            (EdgePartOf::Base(base), PartColumns::Base(selection)) => {
                let read = base.read_cached(direction, ranges, selection)?;
                Some(read.map(|(neighbors, columns)| Found { neighbors, columns }))
            }
            (EdgePartOf::Delta(delta), PartColumns::Delta(places)) => {
                let mut whole = Arrays::new();
                for place in places.iter().flatten() {
                    whole.push(delta.rows().cached(*place)?);
                }
                Some(of_delta(delta, direction, ranges, whole, places, fields))
            }
            _ => None,
        }
    }

    pub(crate) async fn read(
        &self,
        direction: Direction,
        ranges: &[Range<u64>],
        columns: &PartColumns,
        fields: &[FieldRef],
    ) -> Result<Found> {
        if let Some(found) = self.read_cached(direction, ranges, columns, fields) {
            return found;
        }
        match (&self.of, columns) {
            (EdgePartOf::Base(base), PartColumns::Base(selection)) => {
                let (neighbors, columns) = base.read(direction, ranges, selection).await?;
                Ok(Found { neighbors, columns })
            }
            (EdgePartOf::Delta(delta), PartColumns::Delta(places)) => {
                let wanted: SmallVec<[usize; 4]> = places.iter().flatten().copied().collect();
                let whole = delta.rows().get(&wanted).await?;
                of_delta(delta, direction, ranges, whole, places, fields)
            }
            _ => Ok(Found::empty(fields)),
        }
    }
}

/// `whole` has the columns that there are; the others are null.
fn of_delta(
    delta: &EdgeDelta,
    direction: Direction,
    ranges: &[Range<u64>],
    whole: Arrays,
    places: &[Option<usize>],
    fields: &[FieldRef],
) -> Result<Found> {
    let (neighbors, found) = delta.read(direction, ranges, &whole)?;
    let mut found = found.into_iter();
    let columns = places.iter().zip(fields).map(|(place, field)| match place {
        Some(_) => found.next().unwrap_or_else(|| new_null_array(field.data_type(), neighbors.len())),
        None => new_null_array(field.data_type(), neighbors.len()),
    });
    let columns = columns.collect();
    Ok(Found { neighbors, columns })
}

impl Found {
    pub(crate) fn empty(fields: &[FieldRef]) -> Self {
        let columns = fields.iter().map(|field| new_empty_array(field.data_type())).collect();
        Self { neighbors: Vec::<i64>::new().into(), columns }
    }
}

impl EdgeParts {
    /// The edges of vertices, if all that is needed is in memory.
    pub(crate) fn gather_cached(
        &self,
        direction: Direction,
        vertices: &[i64],
        columns: &[PartColumns],
        fields: &[FieldRef],
    ) -> Option<Result<Gathered>> {
        let mut pieces: Pieces = SmallVec::new();
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

    /// The edges of vertices.
    #[boxed]
    pub(crate) async fn gather(
        &self,
        direction: Direction,
        vertices: &[i64],
        columns: &[PartColumns],
        fields: &[FieldRef],
    ) -> Result<Gathered> {
        if let Some(found) = self.gather_cached(direction, vertices, columns, fields) {
            return found;
        }
        // Boxed, so that this is compiled once and not into each caller.
        self.load(direction, vertices, columns, fields).await
    }

    async fn load(
        &self,
        direction: Direction,
        vertices: &[i64],
        columns: &[PartColumns],
        fields: &[FieldRef],
    ) -> Result<Gathered> {
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
        let pieces = futures::future::try_join_all(load).await?;
        merged(pieces.into_iter().flatten().collect(), vertices.len(), fields)
    }

    /// How many edges each vertex has, if all that is needed is in memory.
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

    /// How many edges each vertex has.
    #[boxed]
    pub(crate) async fn degrees(&self, direction: Direction, vertices: &[i64]) -> Result<Int64Array> {
        if let Some(known) = self.degrees_cached(direction, vertices) {
            return known;
        }
        let mut degrees = vec![0_i64; vertices.len()];
        for part in &self.parts {
            let slices = part.slices(direction, vertices).boxed().await?;
            part.count(direction, &slices, &mut degrees);
        }
        Ok(degrees.into())
    }

    /// The edges from one vertex to another.
    #[boxed]
    pub(crate) async fn find(
        &self,
        source: i64,
        destination: i64,
        columns: &[PartColumns],
        fields: &[FieldRef],
    ) -> Result<Found> {
        if let Some(found) = self.find_cached(source, destination, columns, fields) {
            return found;
        }
        let mut pieces: Pieces = SmallVec::new();
        for (part, columns) in self.parts.iter().zip(columns) {
            let found = match (&part.of, columns) {
                (EdgePartOf::Base(base), PartColumns::Base(selection)) => {
                    let found = base.find(Direction::Out, source, destination, selection).boxed().await?;
                    let columns = found.columns;
                    part.without_deleted(found.ordinals, Found { neighbors: found.neighbors, columns })?
                }
                (EdgePartOf::Delta(delta), columns) => {
                    let left =
                        part.left(Direction::Out, vec![delta.find(Direction::Out, source, destination)]);
                    match left.total {
                        0 => None,
                        _ => Some(part.read(Direction::Out, &left.ranges, columns, fields).boxed().await?),
                    }
                }
                _ => None,
            };
            pieces.extend(found.map(one));
        }
        merged(pieces, 1, fields).map(|gathered| gathered.found)
    }

    /// The same, if all that is needed is in memory.
    pub(crate) fn find_cached(
        &self,
        source: i64,
        destination: i64,
        columns: &[PartColumns],
        fields: &[FieldRef],
    ) -> Option<Result<Found>> {
        // Most stores are one base.
        if let ([part], [PartColumns::Base(selection)]) = (self.parts.as_slice(), columns)
            && let EdgePartOf::Base(base) = &part.of
        {
            let found = match base.find_cached(Direction::Out, source, destination, selection)? {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            let (neighbors, columns) = (found.neighbors, found.columns);
            let left = part.without_deleted(found.ordinals, Found { neighbors, columns });
            return Some(left.map(|left| left.unwrap_or_else(|| Found::empty(fields))));
        }
        let mut pieces: Pieces = SmallVec::new();
        for (part, columns) in self.parts.iter().zip(columns) {
            let found = match (&part.of, columns) {
                (EdgePartOf::Base(base), PartColumns::Base(selection)) => {
                    let found = match base.find_cached(Direction::Out, source, destination, selection)? {
                        Ok(found) => found,
                        Err(error) => return Some(Err(error)),
                    };
                    let columns = found.columns;
                    part.without_deleted(found.ordinals, Found { neighbors: found.neighbors, columns })
                }
                (EdgePartOf::Delta(delta), columns) => {
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

type Pieces = SmallVec<[(Found, Vec<u32>); 2]>;

fn one(found: Found) -> (Found, Vec<u32>) {
    let rows = found.neighbors.len() as u32;
    (found, vec![rows])
}

impl EdgePart {
    /// Rows of these ordinals by source, without those that were deleted.
    fn without_deleted(&self, ordinals: Range<u64>, found: Found) -> Result<Option<Found>> {
        let gone = self.out_deleted.count(&ordinals);
        if ordinals.is_empty() || gone == ordinals.end - ordinals.start {
            return Ok(None);
        }
        if gone == 0 {
            return Ok(Some(found));
        }
        let rows: Vec<bool> = ordinals.map(|ordinal| !self.out_deleted.contains(ordinal)).collect();
        let rows = arrow::array::BooleanArray::from(rows);
        let keep = |array: &dyn Array| {
            arrow::compute::filter(array, &rows)
                .map_err(|error| arrow_error("edges between two vertices", error))
        };
        let neighbors = keep(&found.neighbors)?.as_primitive::<Int64Type>().clone();
        let columns = found.columns.iter().map(|column| keep(column)).collect::<Result<_>>()?;
        Ok(Some(Found { neighbors, columns }))
    }
}

/// Rows of several parts, by position and then by part.
fn merged(mut pieces: Pieces, positions: usize, fields: &[FieldRef]) -> Result<Gathered> {
    if pieces.len() < 2 {
        return Ok(match pieces.pop() {
            Some((found, counts)) => Gathered { counts, found },
            None => Gathered { counts: vec![0; positions], found: Found::empty(fields) },
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
    // Which piece, from where, how many.
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
    let mut columns = Arrays::new();
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
    Ok(Gathered { counts, found: Found { neighbors: neighbors.into(), columns } })
}
