//! Edges of a base: those of a vertex by either end, those between two vertices, and all of them in order.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array},
    datatypes::{FieldRef, Int64Type},
};
use futures::{StreamExt, stream::BoxStream};
use stylobate_columnar::ColumnsUse;

use super::{
    BaseColumnSelection, EdgeBaseInfo, find::EdgeBaseMatch, list::BaseAdjacencyList, read::NeighborColumns,
};
use crate::{
    Direction, Result,
    graphar::{GraphFolder, ahead},
    store::{
        budgeted::{Budgeted, MemoryFootprint},
        take::CHUNKS_AHEAD,
    },
};

/// A base of edges that is open. Nothing is read before it is asked for.
///
/// Edges have ordinals: their places in the list of a direction. Of each vertex they are sorted by the neighbour, and
/// parallel ones are in the order in which they were added.
pub(crate) struct EdgeBase {
    place: GraphFolder,
    fields: Vec<FieldRef>,
    info: EdgeBaseInfo,
    out: BaseAdjacencyList,
    into: BaseAdjacencyList,
}

/// Edges that are read together.
pub(crate) struct EdgeBaseRows {
    /// The ordinal of the first.
    pub(crate) first: u64,
    /// The vertices that the list is ordered by.
    pub(crate) vertices: Int64Array,
    pub(crate) neighbors: Int64Array,
    pub(crate) columns: Vec<ArrayRef>,
}

impl Budgeted<EdgeBase> {
    /// All edges in the order of a direction, a chunk at a time. What is not in the cache stays there only if there is
    /// room.
    pub(crate) fn stream(
        self: &Arc<Self>,
        direction: Direction,
        selection: &BaseColumnSelection,
    ) -> BoxStream<'static, Result<EdgeBaseRows>> {
        let (base, passing) = (self.clone(), Arc::new(self.passing()));
        let selection = Arc::new(selection.clone());
        let chunks = self.list(direction).chunks();
        let read = move |chunk| {
            let (base, passing, selection) = (base.clone(), passing.clone(), selection.clone());
            ahead(async move {
                let may_stay = base.list(direction).is_cached(chunk, &selection) || base.place.has_room();
                let from: &EdgeBase = if may_stay { &base } else { &passing };
                from.chunk(direction, chunk, &selection).await
            })
        };
        futures::stream::iter(0..chunks).map(read).buffered(CHUNKS_AHEAD).boxed()
    }
}

impl MemoryFootprint for EdgeBase {
    fn bytes(&self) -> u64 {
        self.out.bytes() + self.into.bytes()
    }
}

impl EdgeBase {
    /// `fields` are the properties of the type, with the types that answers have.
    pub(crate) fn open(place: &GraphFolder, info: &EdgeBaseInfo, fields: &[FieldRef]) -> Self {
        let list = |direction| BaseAdjacencyList::open(place, info, direction, fields);
        let (out, into) = (list(Direction::Out), list(Direction::In));
        Self { place: place.clone(), fields: fields.to_vec(), info: info.clone(), out, into }
    }

    pub(crate) fn info(&self) -> &EdgeBaseInfo {
        &self.info
    }

    /// Of the files that say where the edges of each vertex are.
    pub(crate) fn offsets_use(&self) -> ColumnsUse {
        [&self.out, &self.into].map(BaseAdjacencyList::offsets_use).into_iter().sum()
    }

    /// Of the files of neighbours and properties.
    pub(crate) fn columns_use(&self) -> ColumnsUse {
        [&self.out, &self.into].map(BaseAdjacencyList::columns_use).into_iter().sum()
    }

    pub(crate) fn select(&self, fields: &[FieldRef]) -> BaseColumnSelection {
        BaseColumnSelection::new(&self.out.groups, fields)
    }

    #[inline]
    pub(crate) fn list(&self, direction: Direction) -> &BaseAdjacencyList {
        match direction {
            Direction::Out => &self.out,
            Direction::In => &self.into,
        }
    }

    /// The ordinals of a vertex's edges, if the offsets are in the cache.
    #[inline]
    pub(crate) fn slice_cached(&self, direction: Direction, vertex: i64) -> Option<Result<Range<u64>>> {
        self.list(direction).slice_cached(vertex)
    }

    /// The ordinals of the edges of each of these vertices.
    pub(crate) async fn slices(&self, direction: Direction, vertices: &[i64]) -> Result<Vec<Range<u64>>> {
        self.list(direction).slices(vertices).await
    }

    /// The same, if all offsets that are needed are in the cache.
    pub(crate) fn slices_cached(
        &self,
        direction: Direction,
        vertices: &[i64],
    ) -> Option<Result<Vec<Range<u64>>>> {
        self.list(direction).slices_cached(vertices)
    }

    /// Neighbours and columns of edges, range after range.
    pub(crate) async fn read(
        &self,
        direction: Direction,
        ranges: &[Range<u64>],
        selection: &BaseColumnSelection,
    ) -> Result<NeighborColumns> {
        self.list(direction).read(ranges, selection).await
    }

    /// The same, if all of it is in the cache.
    #[inline]
    pub(crate) fn read_cached(
        &self,
        direction: Direction,
        ranges: &[Range<u64>],
        selection: &BaseColumnSelection,
    ) -> Option<Result<NeighborColumns>> {
        self.list(direction).read_cached(ranges, selection)
    }

    /// The same of edges of one vertex, which are not copied where they are in one chunk.
    #[inline]
    pub(crate) fn read_one_cached(
        &self,
        direction: Direction,
        vertex: i64,
        edges: &Range<u64>,
        selection: &BaseColumnSelection,
    ) -> Option<Result<NeighborColumns>> {
        self.list(direction).read_one_cached(vertex, edges, selection)
    }

    /// The edges between a vertex and a neighbour.
    pub(crate) async fn find(
        &self,
        direction: Direction,
        vertex: i64,
        neighbor: i64,
        selection: &BaseColumnSelection,
    ) -> Result<EdgeBaseMatch> {
        self.list(direction).find(vertex, neighbor, selection).await
    }

    /// The same, if all of it is in the cache.
    #[inline]
    pub(crate) fn find_cached(
        &self,
        direction: Direction,
        vertex: i64,
        neighbor: i64,
        selection: &BaseColumnSelection,
    ) -> Option<Result<EdgeBaseMatch>> {
        self.list(direction).find_cached(vertex, neighbor, selection)
    }

    /// Both ends of edges by their ordinals: the vertices that the list is ordered by, and the neighbours.
    pub(crate) async fn ends(
        &self,
        direction: Direction,
        ordinals: Range<u64>,
    ) -> Result<(Int64Array, Int64Array)> {
        self.list(direction).both_ends(ordinals).await
    }

    /// The same base with nothing kept of what is read.
    fn passing(&self) -> Self {
        Self::open(&self.place.passing(), &self.info, &self.fields)
    }

    /// Brings the neighbours and what is selected of a chunk into the cache.
    pub(crate) async fn warm(
        &self,
        direction: Direction,
        chunk: u64,
        selection: &BaseColumnSelection,
    ) -> Result<Vec<ArrayRef>> {
        let list = self.list(direction);
        let loaded = futures::future::try_join(list.ends(chunk, &[0]), list.properties(chunk, selection));
        let (ends, columns) = loaded.await?;
        Ok(ends.into_iter().chain(columns.into_iter().flatten()).collect())
    }

    /// A chunk of all edges in the order of a direction.
    pub(crate) async fn chunk(
        &self,
        direction: Direction,
        chunk: u64,
        selection: &BaseColumnSelection,
    ) -> Result<EdgeBaseRows> {
        let list = self.list(direction);
        let loaded = futures::future::try_join(list.ends(chunk, &[0, 1]), list.properties(chunk, selection));
        let (ends, columns) = loaded.await?;
        let end = |at: usize| {
            let ends = ends.get(at).and_then(|ends| ends.as_primitive_opt::<Int64Type>());
            ends.cloned().unwrap_or_else(|| Int64Array::from(Vec::<i64>::new()))
        };
        let (neighbors, vertices) = (end(0), end(1));
        let column = |(at, array): (usize, Option<ArrayRef>)| {
            array.or_else(|| selection.missing(at, neighbors.values().len()))
        };
        let columns = columns.into_iter().enumerate().filter_map(column).collect();
        Ok(EdgeBaseRows { first: list.first_of(chunk), vertices, neighbors, columns })
    }
}
