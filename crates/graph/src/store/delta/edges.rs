//! Edges that commits added: sorted by source, with a permutation for lookups by destination.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array},
    compute::take,
    datatypes::{DataType, Field, FieldRef, Int64Type, Schema},
};
use stylobate_storage::Corrupt;

use super::{
    deletion::DeletionSet,
    rows::{ColumnArrays, DeltaRows, arrow_error},
};
use crate::{
    Direction, Result,
    store::{
        budgeted::MemoryFootprint,
        schema::{DESTINATION, SOURCE},
    },
};

/// Immutable set of edges, written by one commit or one compaction.
pub(crate) struct EdgeDelta {
    rows: DeltaRows,
    /// Ascending; destinations ascend within a source.
    sources: Int64Array,
    destinations: Int64Array,
    /// Ordinals of the order by source, sorted by destination and then by source.
    by_destination: UInt32Array,
    /// Both ends in the order by destination.
    sorted_destinations: Int64Array,
    sorted_sources: Int64Array,
}

/// Returns the columns of a delta of edges with these properties.
pub(crate) fn fields(properties: &[FieldRef]) -> Arc<[FieldRef]> {
    let end = |name: &str| Arc::new(Field::new(name, DataType::Int64, false));
    [end(SOURCE), end(DESTINATION)].into_iter().chain(properties.iter().cloned()).collect()
}

/// Sorts edges into the order of a delta.
pub(crate) fn sorted(
    sources: &[i64],
    destinations: &[i64],
    fields: &[FieldRef],
    columns: &[ArrayRef],
) -> Result<RecordBatch> {
    let order = order_of(sources, destinations);
    let ends = [sources, destinations].map(|values| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef);
    let mut arrays = Vec::with_capacity(2 + columns.len());
    for array in ends.iter().chain(columns) {
        arrays.push(take(array, &order, None).map_err(sorting)?);
    }
    let schema = Schema::new(self::fields(fields).to_vec());
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(sorting)
}

/// Returns a stable order: parallel edges keep the given order.
fn order_of(first: &[i64], second: &[i64]) -> UInt32Array {
    let mut order: Vec<u32> = (0..first.len() as u32).collect();
    let key = |at: &u32| (first.get(*at as usize), second.get(*at as usize));
    if !order.is_sorted_by_key(key) {
        order.sort_by_key(key);
    }
    order.into()
}

fn sorting(source: arrow::error::ArrowError) -> crate::Error {
    arrow_error("edges of a delta", source)
}

impl EdgeDelta {
    /// Builds a delta from its rows and the columns of both ends.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] with the reason if the rows are invalid.
    pub(crate) fn new(
        rows: DeltaRows,
        sources: &ArrayRef,
        destinations: &ArrayRef,
    ) -> std::result::Result<Self, Corrupt> {
        let end = |array: &ArrayRef| match array.as_primitive_opt::<Int64Type>() {
            Some(array) if array.null_count() == 0 => Ok(array.clone()),
            _ => Err("an end of an edge is no index"),
        };
        let sources = end(sources)?;
        let destinations = end(destinations)?;
        if u32::try_from(sources.len()).is_err() {
            return Err(format!("{} edges are too many", sources.len()).into());
        }

        let pairs = || sources.values().iter().zip(destinations.values());
        if !pairs().is_sorted() {
            return Err("edges are not in the order of their sources".into());
        }
        let by_destination = order_of(destinations.values(), sources.values());
        let reordered = |array: &Int64Array| {
            let values = array.values();
            by_destination
                .values()
                .iter()
                .filter_map(|at| values.get(*at as usize).copied())
                .collect::<Int64Array>()
        };

        let sorted_destinations = reordered(&destinations);
        let sorted_sources = reordered(&sources);
        Ok(Self { rows, sources, destinations, by_destination, sorted_destinations, sorted_sources })
    }

    pub(crate) fn len(&self) -> u64 {
        self.sources.len() as u64
    }

    pub(crate) fn rows(&self) -> &DeltaRows {
        &self.rows
    }

    /// Returns the sorted vertices that edges are looked up by.
    pub(crate) fn keys(&self, direction: Direction) -> &Int64Array {
        match direction {
            Direction::Out => &self.sources,
            Direction::In => &self.sorted_destinations,
        }
    }

    pub(crate) fn neighbors(&self, direction: Direction) -> &Int64Array {
        match direction {
            Direction::Out => &self.destinations,
            Direction::In => &self.sorted_sources,
        }
    }

    /// Returns true if one of the vertices may have edges here: false for most small deltas.
    #[inline]
    pub(crate) fn may_have(&self, direction: Direction, vertices: &[i64]) -> bool {
        let keys = self.keys(direction).values();
        match (keys.first(), keys.last()) {
            (Some(first), Some(last)) => vertices.iter().any(|vertex| first <= vertex && vertex <= last),
            _ => false,
        }
    }

    /// Returns the edges of a vertex, as ordinals in the order of the direction.
    #[inline]
    pub(crate) fn slice(&self, direction: Direction, vertex: i64) -> Range<u64> {
        let keys = self.keys(direction).values();
        let start = keys.partition_point(|key| *key < vertex);
        let rest = keys.get(start..).unwrap_or_default();
        let count = match rest.first() {
            Some(first) if *first == vertex => rest.partition_point(|key| *key == vertex),
            _ => 0,
        };
        start as u64..(start + count) as u64
    }

    /// Returns the edges between two vertices.
    pub(crate) fn find(&self, direction: Direction, vertex: i64, neighbor: i64) -> Range<u64> {
        let slice = self.slice(direction, vertex);
        let neighbors = self.neighbors(direction).values();
        let neighbors = neighbors.get(slice.start as usize..slice.end as usize).unwrap_or_default();
        let start = neighbors.partition_point(|other| *other < neighbor) as u64;
        let end = neighbors.partition_point(|other| *other <= neighbor) as u64;
        slice.start + start..slice.start + end
    }

    /// Converts deleted ordinals from the order by source to that by destination.
    pub(crate) fn by_destination(&self, deleted: &DeletionSet) -> DeletionSet {
        if deleted.is_empty() {
            return DeletionSet::default();
        }
        let positions = self.by_destination.values().iter().enumerate();
        positions
            .filter(|(_, at)| deleted.contains(u64::from(**at)))
            .map(|(position, _)| position as u64)
            .collect()
    }

    /// Returns neighbours and properties of ranges of ordinals. `columns` are whole columns in the order of sources.
    pub(crate) fn read(
        &self,
        direction: Direction,
        ranges: &[Range<u64>],
        columns: &ColumnArrays,
    ) -> Result<(Int64Array, ColumnArrays)> {
        let neighbors = self.neighbors(direction);
        if let [range] = ranges {
            let start = range.start as usize;
            let len = (range.end - range.start) as usize;
            let rows = match direction {
                Direction::Out => None,
                Direction::In => Some(self.by_destination.slice(start, len)),
            };
            let part = |array: &ArrayRef| match &rows {
                None => Ok(array.slice(start, len)),
                Some(rows) => take(array, rows, None),
            };

            let properties = columns.iter().map(part).collect::<Result<_, _>>().map_err(sorting)?;
            return Ok((neighbors.slice(start, len), properties));
        }

        let ordinals = ranges.iter().flat_map(|range| range.start as u32..range.end as u32);
        let ordinals: UInt32Array = ordinals.collect::<Vec<_>>().into();
        let found = take(neighbors, &ordinals, None).map_err(sorting)?;
        let rows = match direction {
            _ if columns.is_empty() => None,
            Direction::Out => Some(ordinals),
            Direction::In => {
                let by_destination = self.by_destination.values();
                Some(
                    ordinals
                        .values()
                        .iter()
                        .filter_map(|at| by_destination.get(*at as usize).copied())
                        .collect(),
                )
            }
        };

        let mut properties = ColumnArrays::new();
        for column in columns {
            if let Some(rows) = &rows {
                properties.push(take(column, rows, None).map_err(sorting)?);
            }
        }

        Ok((found.as_primitive::<Int64Type>().clone(), properties))
    }
}

impl MemoryFootprint for EdgeDelta {
    fn bytes(&self) -> u64 {
        // Rows in memory include both ends, which must not be counted twice.
        let ends = match &self.rows {
            DeltaRows::Decoded(_) => 0,
            DeltaRows::File { .. } => 2,
        };
        self.rows.bytes() + self.len() * (ends * 8 + 4 + 2 * 8)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    fn delta() -> EdgeDelta {
        let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d", "e", "f"]));
        let field: FieldRef = Arc::new(Field::new("name", DataType::Utf8, true));
        // Parallel edges from 5 to 2, and one from 7 to itself.
        let batch = sorted(&[5, 7, 5, 1, 7, 5], &[2, 7, 2, 9, 2, 1], &[field], &[names]).unwrap();
        let sources = batch.column(0).clone();
        let destinations = batch.column(1).clone();
        EdgeDelta::new(DeltaRows::Decoded(batch), &sources, &destinations).unwrap()
    }

    fn names(delta: &EdgeDelta, direction: Direction, ranges: &[Range<u64>]) -> (Vec<i64>, String) {
        let column = delta.rows().cached(2).unwrap();
        let (neighbors, columns) = delta.read(direction, ranges, &ColumnArrays::from_iter([column])).unwrap();
        let names = columns[0].as_string::<i32>().iter().flatten().collect();
        (neighbors.values().to_vec(), names)
    }

    #[test]
    fn edges_are_found_from_both_sides_and_parallel_ones_stay_in_their_order() {
        let delta = delta();
        assert_eq!(
            names(&delta, Direction::Out, &[delta.slice(Direction::Out, 5)]),
            (vec![1, 2, 2], "fac".to_owned())
        );
        assert_eq!(
            names(&delta, Direction::In, &[delta.slice(Direction::In, 2)]),
            (vec![5, 5, 7], "ace".to_owned())
        );

        let both = [delta.slice(Direction::In, 9), delta.slice(Direction::In, 7)];
        assert_eq!(names(&delta, Direction::In, &both), (vec![1, 7], "db".to_owned()));
        assert!(delta.slice(Direction::Out, 6).is_empty() && delta.slice(Direction::Out, 99).is_empty());
        let found = delta.find(Direction::Out, 5, 2);
        assert_eq!(names(&delta, Direction::Out, &[found]), (vec![2, 2], "ac".to_owned()));
        assert!(delta.find(Direction::In, 5, 2).is_empty());
    }

    #[test]
    fn what_was_deleted_is_known_in_both_orders() {
        let delta = delta();
        let deleted: DeletionSet = delta.find(Direction::Out, 5, 2).collect();
        let other = delta.by_destination(&deleted);
        assert_eq!(other.len(), 2);
        let mut left = Vec::new();
        other.left(delta.slice(Direction::In, 2), |range| left.push(range));
        assert_eq!(names(&delta, Direction::In, &left), (vec![7], "e".to_owned()));
        assert_eq!(delta.by_destination.values()[delta.find(Direction::In, 9, 1).start as usize], 0);
    }

    #[test]
    fn rows_that_are_in_no_order_are_refused() {
        let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let batch =
            RecordBatch::try_from_iter([(SOURCE, column(vec![2, 1])), (DESTINATION, column(vec![0, 0]))]);
        let batch = batch.unwrap();
        let sources = batch.column(0).clone();
        let destinations = batch.column(1).clone();
        assert!(EdgeDelta::new(DeltaRows::Decoded(batch), &sources, &destinations).is_err());
    }
}
