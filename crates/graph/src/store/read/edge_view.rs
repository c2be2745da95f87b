//! Edges of a type in a version: of one vertex, of many at once, or between two.

use std::{pin::pin, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, UInt32Array},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};
use futures::FutureExt;

use super::vertex_view::{batch, pick};
use crate::{
    Direction, Error, Result,
    store::{
        access::{Access, poll_once},
        delta::rows::ColumnArrays,
        parts::{
            edge_part::{EdgePartColumns, NeighborRows},
            edge_parts::{EdgeBatch, EdgeParts},
        },
        snapshot::Snapshot,
    },
};

/// Edges of a type in a version, with some of their properties. Cheap to clone.
///
/// `*_cached` never does I/O, decodes or waits; it returns `None` if anything required is not in memory. The other
/// methods do not wait either if everything required is.
#[derive(Clone)]
pub struct EdgeView {
    inner: Arc<EdgeViewInner>,
}

struct EdgeViewInner {
    /// Keeps the version's data alive.
    snapshot: Snapshot,
    parts: Arc<EdgeParts>,
    fields: Arc<[FieldRef]>,
    columns: Vec<EdgePartColumns>,
    /// `neighbor` and the properties.
    schema: SchemaRef,
    /// `position`, `neighbor` and the properties.
    expanded: SchemaRef,
}

/// Edges of one vertex, or between two: neighbours, ascending within one commit or base, and one column per property.
/// Rows are copied only if they are combined from several parts.
#[derive(Clone, Debug)]
pub struct EdgeRows {
    /// Indexes of the vertices at the other ends.
    pub neighbors: Int64Array,
    /// Properties of the edges.
    pub columns: ColumnArrays,
}

impl From<NeighborRows> for EdgeRows {
    fn from(found: NeighborRows) -> Self {
        Self { neighbors: found.neighbors, columns: found.columns }
    }
}

impl EdgeView {
    pub(crate) fn new(snapshot: Snapshot, parts: Arc<EdgeParts>, columns: Option<&[&str]>) -> Result<Self> {
        let of = format!("edges of type {}", parts.state.schema.full_name());
        let fields = pick(&of, &parts.state.schema.fields(), columns)?;
        let columns = parts.parts.iter().map(|part| part.columns(&fields)).collect();
        let neighbor: FieldRef = Arc::new(Field::new("neighbor", DataType::Int64, false));
        let position: FieldRef = Arc::new(Field::new("position", DataType::UInt32, false));
        let schema = std::iter::once(neighbor).chain(fields.iter().cloned()).collect::<Vec<_>>();
        let expanded = std::iter::once(position).chain(schema.iter().cloned()).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(schema));
        let expanded = Arc::new(Schema::new(expanded));
        Ok(Self { inner: Arc::new(EdgeViewInner { snapshot, parts, fields, columns, schema, expanded }) })
    }

    /// Returns the version of this view.
    pub fn snapshot(&self) -> &Snapshot {
        &self.inner.snapshot
    }

    pub(crate) fn parts(&self) -> &Arc<EdgeParts> {
        &self.inner.parts
    }

    pub(crate) fn fields(&self) -> &Arc<[FieldRef]> {
        &self.inner.fields
    }

    /// Returns the schema of `neighbor`, then the properties.
    pub fn schema(&self) -> &SchemaRef {
        &self.inner.schema
    }

    /// Returns the schema of `position`, `neighbor`, then the properties.
    pub fn expanded_schema(&self) -> &SchemaRef {
        &self.inner.expanded
    }

    fn check(&self, direction: Direction, vertices: &[i64]) -> Result<()> {
        let schema = &self.inner.parts.state.schema;
        let (of, count) = match direction {
            Direction::Out => (&schema.source, self.inner.parts.sources),
            Direction::In => (&schema.destination, self.inner.parts.destinations),
        };
        match vertices.iter().find(|vertex| **vertex as u64 >= count) {
            None => Ok(()),
            Some(vertex) => {
                Err(Error::OutOfRange { of: format!("vertices of type {of}"), index: *vertex, count })
            }
        }
    }

    /// Reads the edges of one vertex; a deleted vertex has none.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for an index that was never assigned; [`Error::Missing`] and [`Error::Data`] if a file is
    /// missing or inconsistent.
    pub async fn of(&self, direction: Direction, vertex: i64) -> Result<EdgeRows> {
        match self.of_cached(direction, vertex) {
            Some(found) => found,
            None => {
                let gathered = self.gather(Access::Loading, direction, &[vertex]).boxed().await?;
                Ok(gathered.found.into())
            }
        }
    }

    /// Returns [`Self::of`] if everything required is in memory.
    #[inline]
    pub fn of_cached(&self, direction: Direction, vertex: i64) -> Option<Result<EdgeRows>> {
        if let Err(error) = self.check(direction, &[vertex]) {
            return Some(Err(error));
        }
        let inner = &*self.inner;
        if let Some((part, base, selection)) = inner.parts.only_base(&inner.columns) {
            let list = base.list(direction);
            let slice = match list.slice_cached(vertex)? {
                Ok(slice) => slice,
                Err(error) => return Some(Err(error)),
            };
            if slice.is_empty() {
                return Some(Ok(NeighborRows::empty(&inner.fields).into()));
            }
            // Deletions are rare.
            if part.deleted(direction).count(&slice) == 0 {
                let read = list.read_one_cached(vertex, &slice, selection)?;
                return Some(read.map(|(neighbors, columns)| EdgeRows { neighbors, columns }));
            }
        }

        let gathered = self.gather_cached(direction, &[vertex])?;
        Some(gathered.map(|gathered| gathered.found.into()))
    }

    /// Reads the edges that leave a vertex.
    ///
    /// # Errors
    ///
    /// Same as [`Self::of`].
    pub async fn out_edges(&self, vertex: i64) -> Result<EdgeRows> {
        self.of(Direction::Out, vertex).await
    }

    /// Reads the edges that enter a vertex.
    ///
    /// # Errors
    ///
    /// Same as [`Self::of`].
    pub async fn in_edges(&self, vertex: i64) -> Result<EdgeRows> {
        self.of(Direction::In, vertex).await
    }

    /// Reads the edges from one vertex to another: none, one, or several parallel ones.
    ///
    /// # Errors
    ///
    /// Same as [`Self::of`].
    pub async fn lookup(&self, source: i64, destination: i64) -> Result<EdgeRows> {
        match self.lookup_cached(source, destination) {
            Some(found) => found,
            None => {
                let EdgeViewInner { parts, columns, fields, .. } = &*self.inner;
                let found = parts.find(Access::Loading, source, destination, columns, fields);
                Ok(found.boxed().await?.into())
            }
        }
    }

    /// Returns [`Self::lookup`] if everything required is in memory.
    #[inline]
    pub fn lookup_cached(&self, source: i64, destination: i64) -> Option<Result<EdgeRows>> {
        let checked =
            self.check(Direction::Out, &[source]).and_then(|()| self.check(Direction::In, &[destination]));
        if let Err(error) = checked {
            return Some(Err(error));
        }
        let inner = &*self.inner;
        let found = inner.parts.find_cached(source, destination, &inner.columns, &inner.fields)?;
        Some(found.map(Into::into))
    }

    /// Returns the number of edges of each vertex, counting parallel ones.
    ///
    /// # Errors
    ///
    /// Same as [`Self::of`].
    pub async fn degrees(&self, direction: Direction, vertices: &[i64]) -> Result<Int64Array> {
        self.degrees_with(Access::Loading, direction, vertices).boxed().await
    }

    /// Returns [`Self::degrees`] if everything required is in memory.
    pub fn degrees_cached(&self, direction: Direction, vertices: &[i64]) -> Option<Result<Int64Array>> {
        poll_once(pin!(self.degrees_with(Access::Resident, direction, vertices)))
    }

    async fn degrees_with(
        &self,
        access: Access,
        direction: Direction,
        vertices: &[i64],
    ) -> Result<Int64Array> {
        self.check(direction, vertices)?;
        self.inner.parts.degrees(access, direction, vertices).await
    }

    /// Reads the edges of many vertices at once: `position` is the row's position in `vertices` and ascends, `neighbor`
    /// is the index of the vertex at the other end; then the properties.
    ///
    /// # Errors
    ///
    /// Same as [`Self::of`].
    pub async fn expand(&self, direction: Direction, vertices: &[i64]) -> Result<RecordBatch> {
        let gathered = self.gather(Access::Loading, direction, vertices).boxed().await?;
        self.expanded(gathered)
    }

    /// Returns [`Self::expand`] if everything required is in memory.
    pub fn expand_cached(&self, direction: Direction, vertices: &[i64]) -> Option<Result<RecordBatch>> {
        let gathered = self.gather_cached(direction, vertices)?;
        Some(gathered.and_then(|gathered| self.expanded(gathered)))
    }

    pub(crate) fn expanded(&self, gathered: EdgeBatch) -> Result<RecordBatch> {
        let rows = gathered.found.neighbors.len();
        let positions: ArrayRef = Arc::new(UInt32Array::from(gathered.positions()));
        let neighbors: ArrayRef = Arc::new(gathered.found.neighbors);
        let columns = [positions, neighbors].into_iter().chain(gathered.found.columns).collect();
        batch(&self.inner.expanded, columns, rows)
    }

    pub(crate) async fn gather(
        &self,
        access: Access,
        direction: Direction,
        vertices: &[i64],
    ) -> Result<EdgeBatch> {
        self.check(direction, vertices)?;
        let inner = &*self.inner;
        inner.parts.gather(access, direction, vertices, &inner.columns, &inner.fields).await
    }

    fn gather_cached(&self, direction: Direction, vertices: &[i64]) -> Option<Result<EdgeBatch>> {
        poll_once(pin!(self.gather(Access::Resident, direction, vertices)))
    }

    /// Returns the rows of one vertex as a batch: `neighbor`, then the properties.
    ///
    /// # Errors
    ///
    /// [`Error::Columnar`] if the rows come from another view.
    pub fn batch(&self, rows: EdgeRows) -> Result<RecordBatch> {
        let count = rows.neighbors.len();
        let neighbors: ArrayRef = Arc::new(rows.neighbors);
        batch(&self.inner.schema, std::iter::once(neighbors).chain(rows.columns).collect(), count)
    }
}

impl EdgeBatch {
    /// Returns the position of each row's vertex.
    pub(crate) fn positions(&self) -> Vec<u32> {
        let mut positions = Vec::with_capacity(self.found.neighbors.len());
        for (position, count) in self.counts.iter().enumerate() {
            positions.extend(std::iter::repeat_n(position as u32, *count as usize));
        }
        positions
    }
}
