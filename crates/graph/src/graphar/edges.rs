//! Reader of edges of one type, in one of their stored orders and with some of their properties.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};
use async_recursion::async_recursion as boxed;
use futures::{Stream, StreamExt, TryStreamExt};
use smallvec::SmallVec;
use stylobate_columnar::Columns;

use super::{
    ahead::ahead,
    chunk_files::ExpectedRowCount,
    columns::{DESTINATION, SOURCE, gathering, readable},
    edge_list::{EdgeColumn, EdgeList},
    info::{AdjacencyOrder, EdgeInfo, Side},
};
use crate::{Error, Result};

/// Chunks read concurrently.
const MAX_CONCURRENT_CHUNKS: usize = 4;
/// Counts read concurrently.
const MAX_CONCURRENT_COUNTS: usize = 32;

/// State that all readers of one edge type share.
pub(super) struct EdgeTable {
    pub(super) info: Arc<EdgeInfo>,
    pub(super) lists: Vec<Arc<EdgeList>>,
}

/// View of the edges of one type. Cheap to create and to clone; clones share what they read.
#[derive(Clone)]
pub struct Edges {
    pub(super) table: Arc<EdgeTable>,
    pub(super) list: Arc<EdgeList>,
    pub(super) properties: SmallVec<[EdgeColumn; 4]>,
}

/// Whole chunk of edges, as cached.
#[derive(Clone, Debug)]
pub struct EdgeChunk {
    /// Number of edges.
    pub rows: usize,
    /// Sources, destinations, then the selected properties.
    pub columns: Columns,
}

impl Edges {
    /// Returns a view in the first stored order, with all properties.
    pub(super) fn new(table: Arc<EdgeTable>) -> Result<Self> {
        let best = [
            AdjacencyOrder::OrderedBySource,
            AdjacencyOrder::OrderedByDest,
            AdjacencyOrder::UnorderedBySource,
            AdjacencyOrder::UnorderedByDest,
        ];
        let found = best.into_iter().find_map(|order| table.list(order));
        let list = found.ok_or_else(|| table.no_list("at all"))?.clone();
        let groups = table.info.groups.iter().enumerate();
        let properties = groups.flat_map(|(group, of)| {
            (0..of.properties.len()).map(move |column| EdgeColumn::Property { group, column })
        });

        let properties = properties.collect();
        Ok(Self { table, list, properties })
    }

    /// Selects these properties, in this order.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchProperty`].
    pub fn select<N: AsRef<str>>(mut self, properties: impl IntoIterator<Item = N>) -> Result<Self> {
        let positions = properties.into_iter().map(|name| self.table.property(name.as_ref()));
        self.properties = positions.collect::<Result<_>>()?;
        Ok(self)
    }

    /// Switches to another stored order.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchAdjacency`].
    pub fn by(mut self, order: AdjacencyOrder) -> Result<Self> {
        let list = self.table.list(order).ok_or_else(|| self.table.no_list(&order.to_string()))?;
        self.list = list.clone();
        Ok(self)
    }

    /// Switches to an order that is aligned by this side, preferably an ordered one.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchAdjacency`].
    pub fn aligned_by(self, side: Side) -> Result<Self> {
        if self.order().aligned_by() == side && self.order().is_ordered() {
            return Ok(self);
        }
        let (ordered, unordered) = match side {
            Side::Source => (AdjacencyOrder::OrderedBySource, AdjacencyOrder::UnorderedBySource),
            Side::Dest => (AdjacencyOrder::OrderedByDest, AdjacencyOrder::UnorderedByDest),
        };

        match self.table.list(ordered) {
            Some(_) => self.by(ordered),
            None if self.table.list(unordered).is_some() => self.by(unordered),
            None => Err(self.table.no_list(&ordered.to_string())),
        }
    }

    /// Returns the description of the type.
    pub fn info(&self) -> &EdgeInfo {
        &self.table.info
    }

    /// Returns the order that edges are read in.
    pub fn order(&self) -> AdjacencyOrder {
        self.list.adjacency().order
    }

    /// Returns the number of vertices on the side that the list is aligned by.
    #[boxed]
    pub async fn vertex_count(&self) -> Result<u64> {
        self.list.vertex_count().await
    }

    /// Returns the number of edges.
    #[boxed]
    pub async fn count(&self) -> Result<u64> {
        let parts = self.list.parts().await?;
        let counts = futures::stream::iter(0..parts).map(|part| self.list.edge_count(part));
        counts
            .buffer_unordered(MAX_CONCURRENT_COUNTS)
            .try_fold(0, |sum, count| async move { Ok(sum + count) })
            .await
    }

    /// Returns the number of parts: chunks of the vertices that the list is aligned by.
    #[boxed]
    pub async fn parts(&self) -> Result<u64> {
        self.list.parts().await
    }

    /// Returns the number of edges of a part.
    pub async fn part_count(&self, part: u64) -> Result<u64> {
        let parts = self.parts().await?;
        if part < parts { self.list.edge_count(part).await } else { Err(self.outside("parts", part, parts)) }
    }

    /// Returns the schema of a chunk and of [`Self::stream`]: `_graphArSrcIndex`, `_graphArDstIndex`, then the selected
    /// properties.
    pub fn schema(&self) -> SchemaRef {
        let end = |name: &str| -> FieldRef { Arc::new(Field::new(name, DataType::Int64, false)) };
        let ends = [end(SOURCE), end(DESTINATION)].into_iter();
        Arc::new(Schema::new(ends.chain(self.property_fields()).collect::<Vec<_>>()))
    }

    /// Returns the fields of the selected properties.
    pub(super) fn property_fields(&self) -> impl Iterator<Item = FieldRef> {
        self.properties.iter().filter_map(|position| match position {
            EdgeColumn::Property { group, column } => {
                Some(readable(self.table.info.groups.get(*group)?.properties.get(*column)?))
            }
            EdgeColumn::Source | EdgeColumn::Destination => None,
        })
    }

    /// Returns a whole chunk of a part: from the cache without a copy, or read and decoded once for all concurrent
    /// callers.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if there is no such chunk; [`Error::Missing`] and [`Error::Data`] if its files are missing
    /// or inconsistent.
    pub async fn chunk(&self, part: u64, chunk: u64) -> Result<EdgeChunk> {
        let edges = self.part_count(part).await?;
        let size = self.table.info.chunk_size;
        let rest = edges.checked_sub(chunk.saturating_mul(size)).filter(|rest| *rest > 0);
        let rows = rest.ok_or_else(|| self.outside("chunks of a part", chunk, self.list.chunks(edges)))?;
        let rows = rows.min(size);
        let ends = [EdgeColumn::Source, EdgeColumn::Destination].into_iter();
        let wanted: SmallVec<[EdgeColumn; 6]> = ends.chain(self.properties.iter().copied()).collect();
        let columns = self.list.get(part, chunk, ExpectedRowCount::Exactly(rows), &wanted).await?;
        Ok(EdgeChunk { rows: rows as usize, columns })
    }

    fn outside(&self, what: &str, index: u64, count: u64) -> Error {
        Error::OutOfRange { of: format!("{what} of {}", self.table.info.name()), index: index as i64, count }
    }

    /// Streams all edges, one batch per chunk.
    pub fn stream(&self) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        let view = self.clone();
        let chunks = self.clone().chunk_numbers();
        let read = move |(part, chunk)| {
            let view = view.clone();
            ahead(async move {
                let EdgeChunk { rows, columns } = view.chunk(part, chunk).await?;
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                RecordBatch::try_new_with_options(view.schema(), columns.into_vec(), &options)
                    .map_err(gathering)
            })
        };

        chunks.map_ok(read).try_buffered(MAX_CONCURRENT_CHUNKS)
    }

    /// Streams the part and number of each chunk.
    pub(super) fn chunk_numbers(self) -> impl Stream<Item = Result<(u64, u64)>> + Send {
        let parts = async move {
            let parts = self.parts().await?;
            let view = Arc::new(self);
            let counted = move |part| {
                let view = view.clone();
                async move {
                    let chunks = view.list.chunks(view.list.whole_part(part).await?);
                    Ok::<_, Error>(futures::stream::iter((0..chunks).map(move |chunk| Ok((part, chunk)))))
                }
            };

            Ok::<_, Error>(
                futures::stream::iter(0..parts).map(counted).buffered(MAX_CONCURRENT_COUNTS).try_flatten(),
            )
        };

        futures::stream::once(parts).try_flatten()
    }
}

impl EdgeTable {
    fn list(&self, order: AdjacencyOrder) -> Option<&Arc<EdgeList>> {
        self.lists.iter().find(|list| list.adjacency().order == order)
    }

    fn no_list(&self, wanted: &str) -> Error {
        let orders = self.lists.iter().map(|list| list.adjacency().order.to_string());
        let available = orders.collect::<Vec<_>>().join(", ");
        Error::NoSuchAdjacency { edge: self.info.name(), wanted: wanted.to_owned(), available }
    }

    fn property(&self, name: &str) -> Result<EdgeColumn> {
        let found = self.info.property(name).map(|(group, column, _)| EdgeColumn::Property { group, column });
        found.ok_or_else(|| {
            let properties = self.info.groups.iter().flat_map(|group| &group.properties);
            let available: Vec<&str> = properties.map(|property| property.name.as_str()).collect();
            Error::NoSuchProperty {
                of: format!("edge type {}", self.info.name()),
                property: name.to_owned(),
                available: available.join(", "),
            }
        })
    }
}
