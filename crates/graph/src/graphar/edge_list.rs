//! One adjacency list of the edges of one type: its counts, its offsets, and the chunk files of its edges.
//!
//! ```text
//! part vc                the edges of the vertices of chunk vc, on the side that the list is aligned by
//!   offset/chunk{vc}     start of each vertex's edges within the part, and the end of the last
//!   adj_list, groups     the edges of the part, in chunks
//! ```

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, Int64Array},
    datatypes::{DataType, Field, FieldRef, Int64Type},
};
use async_recursion::async_recursion as boxed;
use stylobate_columnar::Columns;
use tokio::sync::OnceCell;

use super::{
    chunk_files::{ChunkFiles, ExpectedRowCount},
    columns::{DESTINATION, OFFSET, SOURCE, has_no_nulls, readable},
    graph_folder::GraphFolder,
    info::{Adjacency, EdgeInfo, Side, Strictness},
    slots::{MAX_SLOTS, OnceCellVec},
    vertex_table::VertexTable,
};
use crate::{Error, Result};

/// Column of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum EdgeColumn {
    Source,
    Destination,
    /// Property of a property group.
    Property {
        group: usize,
        column: usize,
    },
}

impl EdgeColumn {
    /// Returns the column of the vertices at one end.
    pub(super) fn end(side: Side) -> Self {
        match side {
            Side::Source => Self::Source,
            Side::Dest => Self::Destination,
        }
    }
}

/// State that all readers of a list share.
pub(super) struct EdgeList {
    folder: GraphFolder,
    info: Arc<EdgeInfo>,
    adjacency: Adjacency,
    /// Vertex table of the side that the list is aligned by.
    vertices: Option<Arc<VertexTable>>,
    vertex_count: OnceCell<u64>,
    edge_counts: OnceCellVec<u64>,
    /// Parts already verified to have no more edges than their count.
    ends: OnceCellVec<()>,
    offsets: ChunkFiles,
    /// Parts whose offsets were verified to ascend.
    in_order: OnceCellVec<()>,
    parts: OnceCellVec<Box<EdgePartFiles>>,
    fields: Arc<EdgeListFields>,
}

/// Chunk files of a part.
struct EdgePartFiles {
    ends: ChunkFiles,
    groups: Vec<ChunkFiles>,
}

/// Fields to read from the files of a list.
struct EdgeListFields {
    ends: Arc<[FieldRef]>,
    groups: Vec<Arc<[FieldRef]>>,
}

impl EdgeList {
    pub(super) fn new(
        folder: GraphFolder,
        info: Arc<EdgeInfo>,
        adjacency: Adjacency,
        vertices: Option<Arc<VertexTable>>,
    ) -> Self {
        let number = |name: &str| -> FieldRef { Arc::new(Field::new(name, DataType::Int64, true)) };
        let groups = info.groups.iter().map(|group| group.properties.iter().map(readable).collect());
        let fields =
            EdgeListFields { ends: [number(SOURCE), number(DESTINATION)].into(), groups: groups.collect() };
        let offsets = ChunkFiles::new(folder.clone(), adjacency.file_type, [number(OFFSET)].into());
        Self {
            folder,
            info,
            adjacency,
            vertices,
            vertex_count: OnceCell::new(),
            edge_counts: OnceCellVec::default(),
            ends: OnceCellVec::default(),
            offsets,
            in_order: OnceCellVec::default(),
            parts: OnceCellVec::default(),
            fields: Arc::new(fields),
        }
    }

    pub(super) fn adjacency(&self) -> &Adjacency {
        &self.adjacency
    }

    /// Returns the number of vertices per part.
    pub(super) fn part_size(&self) -> u64 {
        self.info.part_size(self.adjacency.order).max(1)
    }

    /// Returns the number of vertices on the side that the list is aligned by.
    pub(super) async fn vertex_count(&self) -> Result<u64> {
        Ok(*self.vertex_count.get_or_try_init(|| self.read_vertex_count()).await?)
    }

    /// Reads the list's vertex count, and checks it against the vertex table's if there is one.
    #[boxed]
    async fn read_vertex_count(&self) -> Result<u64> {
        let path = self.info.vertex_count_path(&self.adjacency);
        let of_type = async {
            match &self.vertices {
                None => Ok(None),
                Some(vertices) => match vertices.count().await {
                    Ok(count) => Ok(Some((vertices, count))),
                    Err(Error::Missing { .. }) => Ok(None),
                    Err(error) => Err(error),
                },
            }
        };

        let (count, of_type) = futures::future::try_join(self.folder.count(&path), of_type).await?;
        match of_type {
            Some((vertices, there_are)) if there_are != count => {
                let name = &vertices.info().vertex_type;
                let reason =
                    format!("a count of {count}, where there are {there_are} vertices of type {name}");
                Err(Error::Data { file: self.folder.name(&path), reason })
            }
            _ => Ok(count),
        }
    }

    /// Returns the number of parts.
    pub(super) async fn parts(&self) -> Result<u64> {
        Ok(self.vertex_count().await?.div_ceil(self.part_size()))
    }

    /// Returns the number of edges of a part.
    pub(super) async fn edge_count(&self, part: u64) -> Result<u64> {
        if let Some(count) = self.edge_counts.get(part) {
            return Ok(*count);
        }
        let path = self.info.edge_count_path(&self.adjacency, part);
        let count = self.edge_counts.get_or_try_make(part, async { self.folder.count(&path).await }).await;
        count.unwrap_or_else(|| Err(self.no_part(part))).copied()
    }

    /// Returns the number of edges of a part, after checking that its files hold no more; for readers of the whole
    /// part.
    pub(super) async fn whole_part(&self, part: u64) -> Result<u64> {
        let edges = self.edge_count(part).await?;
        let is_whole = edges % self.info.chunk_size.max(1) != 0 || self.ends.get(part).is_some();
        if !is_whole {
            let look = self.check_end(part, edges);
            self.ends.get_or_try_make(part, look).await.unwrap_or_else(|| Err(self.no_part(part)))?;
        }
        Ok(edges)
    }

    /// Checks that a part ends after `edges` edges, which fill whole chunks: by its offsets or, without offsets, by
    /// the absence of a next chunk.
    #[boxed]
    async fn check_end(&self, part: u64, edges: u64) -> Result<()> {
        if self.adjacency.order.is_ordered() {
            match self.offsets(part).await {
                Ok(offsets) => match offsets.edges() {
                    Some(last) if last == edges => return Ok(()),
                    Some(last) => return Err(offsets.disagree(last, edges)),
                    None => {}
                },
                Err(Error::Missing { .. }) if self.folder.strictness == Strictness::Tolerant => {}
                Err(error) => return Err(error),
            }
        }

        let next = self.info.adjacency_path(&self.adjacency, part, self.chunks(edges));
        self.folder.ends_before(&next, &self.info.edge_count_path(&self.adjacency, part)).await
    }

    /// Returns the number of chunks that `edges` edges fill.
    pub(super) fn chunks(&self, edges: u64) -> u64 {
        edges.div_ceil(self.info.chunk_size.max(1))
    }

    /// Returns the name of a chunk's file for errors.
    pub(super) fn chunk_name(&self, part: u64, chunk: u64) -> String {
        self.folder.name(&self.info.adjacency_path(&self.adjacency, part, chunk))
    }

    fn offsets_of(&self, part: u64, array: Option<Int64Array>) -> PartOffsets<'_> {
        PartOffsets { folder: &self.folder, info: &self.info, adjacency: &self.adjacency, part, array }
    }

    fn no_part(&self, part: u64) -> Error {
        Error::OutOfRange {
            of: format!("parts of {}", self.info.name()),
            index: part as i64,
            count: MAX_SLOTS,
        }
    }

    async fn part(&self, part: u64) -> Result<&EdgePartFiles> {
        if let Some(found) = self.parts.get(part) {
            return Ok(found);
        }
        let make = async {
            let of = |file_type, fields: &Arc<[FieldRef]>| {
                ChunkFiles::new(self.folder.clone(), file_type, fields.clone())
            };
            let groups = self.info.groups.iter().zip(&self.fields.groups);
            Ok(Box::new(EdgePartFiles {
                ends: of(self.adjacency.file_type, &self.fields.ends),
                groups: groups.map(|(group, fields)| of(group.file_type, fields)).collect(),
            }))
        };

        self.parts
            .get_or_try_make(part, make)
            .await
            .unwrap_or_else(|| Err(self.no_part(part)))
            .map(|part| &**part)
    }

    /// Returns columns of a chunk if all of them are cached.
    #[inline]
    pub(super) fn cached(&self, part: u64, chunk: u64, columns: &[EdgeColumn]) -> Option<Columns> {
        let part = self.parts.get(part)?;
        let mut found = Columns::new();
        for column in columns {
            found.push(match column {
                EdgeColumn::Source => part.ends.cached(chunk, 0).filter(has_no_nulls)?,
                EdgeColumn::Destination => part.ends.cached(chunk, 1).filter(has_no_nulls)?,
                EdgeColumn::Property { group, column } => part.groups.get(*group)?.cached(chunk, *column)?,
            });
        }
        Some(found)
    }

    /// Reads columns of a chunk of a part.
    pub(super) async fn get(
        &self,
        part: u64,
        chunk: u64,
        rows: ExpectedRowCount,
        columns: &[EdgeColumn],
    ) -> Result<Columns> {
        match self.cached(part, chunk, columns) {
            Some(found) => Ok(found),
            None => Box::pin(self.load(part, chunk, rows, columns)).await,
        }
    }

    async fn load(
        &self,
        number: u64,
        chunk: u64,
        rows: ExpectedRowCount,
        columns: &[EdgeColumn],
    ) -> Result<Columns> {
        let part = self.part(number).await?;
        let mut found = vec![None; columns.len()];
        let mut take = |at: Vec<usize>, arrays: Columns| {
            for (at, array) in at.into_iter().zip(arrays) {
                if let Some(found) = found.get_mut(at) {
                    *found = Some(array);
                }
            }
        };

        let (ends, at) = positions(columns, |column| match column {
            EdgeColumn::Source => Some(0),
            EdgeColumn::Destination => Some(1),
            EdgeColumn::Property { .. } => None,
        });
        if !ends.is_empty() {
            let path = || self.info.adjacency_path(&self.adjacency, number, chunk);
            let arrays = part.ends.get(chunk, path, rows, &ends).await?;
            if !arrays.iter().all(has_no_nulls) {
                let reason = "an edge without an end".to_owned();
                return Err(Error::Data { file: self.folder.name(&path()), reason });
            }
            take(at, arrays);
        }

        for (index, (files, group)) in part.groups.iter().zip(&self.info.groups).enumerate() {
            let (wanted, at) = positions(columns, |column| match column {
                EdgeColumn::Property { group, column } if *group == index => Some(*column),
                _ => None,
            });
            if !wanted.is_empty() {
                let path = || self.info.property_path(&self.adjacency, group, number, chunk);
                take(at, files.get(chunk, path, rows, &wanted).await?);
            }
        }

        Ok(found.into_iter().flatten().collect())
    }

    /// Reads the offsets of a part; ordered lists only.
    pub(super) async fn offsets(&self, part: u64) -> Result<PartOffsets<'_>> {
        match self.offsets.cached(part, 0).filter(|_| self.in_order.get(part).is_some()) {
            Some(array) => Ok(self.offsets_of(part, Some(array.as_primitive::<Int64Type>().clone()))),
            None => Box::pin(self.load_offsets(part)).await,
        }
    }

    async fn load_offsets(&self, part: u64) -> Result<PartOffsets<'_>> {
        let path = || self.info.offset_path(&self.adjacency, part);
        let vertices = self.vertex_count().await?.saturating_sub(part.saturating_mul(self.part_size()));
        let min_rows = vertices.min(self.part_size()) + 1;
        // The last part may be padded to the size of the others.
        let rows = match self.folder.strictness {
            Strictness::Tolerant => ExpectedRowCount::Between(min_rows, self.part_size() + 1),
            Strictness::Strict => ExpectedRowCount::Exactly(min_rows),
        };

        match self.offsets.get(part, path, rows, &[0]).await {
            Ok(columns) => {
                let array = columns.first().and_then(|array| array.as_primitive_opt::<Int64Type>()).cloned();
                let offsets = self.offsets_of(part, array);
                let check = async { offsets.check() };
                self.in_order
                    .get_or_try_make(part, check)
                    .await
                    .unwrap_or_else(|| Err(self.no_part(part)))?;
                Ok(offsets)
            }
            // A part without edges need not have any files.
            Err(Error::Missing { .. })
                if self.folder.strictness == Strictness::Tolerant && self.edge_count(part).await? == 0 =>
            {
                Ok(self.offsets_of(part, None))
            }
            Err(error) => Err(error),
        }
    }

    /// Finds the cause of a failed read of rows that offsets point to: blames the offsets if they contradict the part's
    /// number of edges, and otherwise returns `error`.
    pub(super) async fn blamed(&self, part: u64, error: Error) -> Error {
        let (Ok(edges), Ok(offsets)) = (self.edge_count(part).await, self.offsets(part).await) else {
            return error;
        };
        match offsets.edges().unwrap_or(0) {
            last if last == edges => error,
            last => offsets.disagree(last, edges),
        }
    }
}

/// Selects columns by `choose`: returns the values of `choose`, and the positions of their columns.
fn positions(
    columns: &[EdgeColumn],
    choose: impl Fn(&EdgeColumn) -> Option<usize>,
) -> (Vec<usize>, Vec<usize>) {
    columns.iter().enumerate().filter_map(|(at, column)| Some((choose(column)?, at))).unzip()
}

/// Bounds of the edges of a part's vertices.
pub(super) struct PartOffsets<'a> {
    pub(super) folder: &'a GraphFolder,
    pub(super) info: &'a EdgeInfo,
    pub(super) adjacency: &'a Adjacency,
    pub(super) part: u64,
    /// `None` if the part has neither edges nor files.
    pub(super) array: Option<Int64Array>,
}

impl PartOffsets<'_> {
    fn file(&self) -> String {
        self.folder.name(&self.info.offset_path(self.adjacency, self.part))
    }

    /// Returns the number of edges according to the offsets, if these exist.
    pub(super) fn edges(&self) -> Option<u64> {
        self.array.as_ref()?.values().last().map(|last| *last as u64)
    }

    /// Returns the error of a part whose number of edges differs from its offsets.
    pub(super) fn disagree(&self, offsets: u64, edges: u64) -> Error {
        let reason = format!("offsets of {offsets} edges, where the part has {edges}");
        Error::Data { file: self.file(), reason }
    }

    /// Checks that offsets ascend from 0.
    pub(super) fn check(&self) -> Result<()> {
        let Some(array) = &self.array else { return Ok(()) };
        let wrong = |reason: &str| Err(Error::Data { file: self.file(), reason: reason.to_owned() });
        match array.values().first() {
            _ if array.null_count() > 0 => wrong("an offset is null"),
            Some(0) if array.values().is_sorted() => Ok(()),
            Some(0) => wrong("the offsets do not ascend"),
            _ => wrong("the offsets do not begin with 0"),
        }
    }

    /// Returns the range of a vertex's edges within the part; `vertex` is relative to the first vertex of the part.
    #[inline]
    pub(super) fn of(&self, vertex: u64) -> Result<std::ops::Range<u64>> {
        let Some(array) = &self.array else { return Ok(0..0) };
        let values = array.values();
        let at = vertex as usize;
        match (values.get(at), values.get(at + 1)) {
            (Some(start), Some(end)) if 0 <= *start && start <= end => Ok(*start as u64..*end as u64),
            _ => Err(Error::Data {
                file: self.file(),
                reason: format!("there are no offsets of vertex {vertex} of the chunk"),
            }),
        }
    }
}
