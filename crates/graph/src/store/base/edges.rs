//! Edges of a base: by vertex from either end, between two vertices, and all in order.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array},
    datatypes::{FieldRef, Int64Type},
};
use futures::{StreamExt, stream::BoxStream};
use stylobate_columnar::ColumnsUse;

use super::{BaseColumnSelection, EdgeBaseInfo, list::BaseAdjacencyList};
use crate::{
    Direction, Result,
    graphar::{GraphFolder, ahead},
    store::{
        budgeted::{Budgeted, MemoryFootprint},
        take::CHUNKS_AHEAD,
    },
};

/// Open base of edges. Nothing is read before its first use.
///
/// The ordinal of an edge is its position in the list of a direction. The edges of a vertex are sorted by neighbour;
/// parallel ones keep the order in which they were added.
pub(crate) struct EdgeBase {
    folder: GraphFolder,
    fields: Vec<FieldRef>,
    info: EdgeBaseInfo,
    out: BaseAdjacencyList,
    into: BaseAdjacencyList,
}

/// Consecutive edges.
pub(crate) struct EdgeBaseRows {
    /// Ordinal of the first.
    pub(crate) first: u64,
    /// Vertices that the list is ordered by.
    pub(crate) vertices: Int64Array,
    pub(crate) neighbors: Int64Array,
    pub(crate) columns: Vec<ArrayRef>,
}

impl Budgeted<EdgeBase> {
    /// Streams all edges in the order of a direction, chunk by chunk. Uncached columns enter the cache only if it has
    /// room.
    pub(crate) fn stream(
        self: &Arc<Self>,
        direction: Direction,
        selection: &BaseColumnSelection,
    ) -> BoxStream<'static, Result<EdgeBaseRows>> {
        let base = self.clone();
        let passing = Arc::new(self.passing());
        let selection = Arc::new(selection.clone());
        let chunks = self.list(direction).chunks();
        let read = move |chunk| {
            let base = base.clone();
            let passing = passing.clone();
            let selection = selection.clone();
            ahead(async move {
                let may_stay = base.list(direction).is_cached(chunk, &selection) || base.folder.has_room();
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
    /// Opens a base; `fields` are the properties of the type, with their result types.
    pub(crate) fn open(folder: &GraphFolder, info: &EdgeBaseInfo, fields: &[FieldRef]) -> Self {
        let list = |direction| BaseAdjacencyList::open(folder, info, direction, fields);
        let out = list(Direction::Out);
        let into = list(Direction::In);
        Self { folder: folder.clone(), fields: fields.to_vec(), info: info.clone(), out, into }
    }

    pub(crate) fn info(&self) -> &EdgeBaseInfo {
        &self.info
    }

    /// Returns the usage of the offset files.
    pub(crate) fn offsets_use(&self) -> ColumnsUse {
        [&self.out, &self.into].map(BaseAdjacencyList::offsets_use).into_iter().sum()
    }

    /// Returns the usage of the files of neighbours and properties.
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

    /// Returns both ends of edges by their ordinals: the vertices that the list is ordered by, and the neighbours.
    pub(crate) async fn ends(
        &self,
        direction: Direction,
        ordinals: Range<u64>,
    ) -> Result<(Int64Array, Int64Array)> {
        self.list(direction).both_ends(ordinals).await
    }

    /// Returns the same base, but does not cache its reads.
    fn passing(&self) -> Self {
        Self::open(&self.folder.passing(), &self.info, &self.fields)
    }

    /// Loads the neighbours and selected columns of a chunk into the cache.
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

    /// Reads a chunk of all edges in the order of a direction.
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
        let neighbors = end(0);
        let vertices = end(1);
        let column = |(at, array): (usize, Option<ArrayRef>)| {
            array.or_else(|| selection.missing(at, neighbors.values().len()))
        };

        let columns = columns.into_iter().enumerate().filter_map(column).collect();
        Ok(EdgeBaseRows { first: list.first_of(chunk), vertices, neighbors, columns })
    }
}
