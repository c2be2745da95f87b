//! One adjacency list of the edges of one type: its counts, its offsets, and the chunk files of its edges.
//!
//! ```text
//! part vc                the edges of the vertices of chunk vc, on the side that the list is aligned by
//!   offset/chunk{vc}     where the edges of each vertex begin within the part, and where the last ends
//!   adj_list, groups     the edges of the part, in chunks
//! ```

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, Int64Array},
    datatypes::{DataType, Field, FieldRef, Int64Type},
};
use stylobate_columnar::Columns;
use tokio::sync::OnceCell;

use super::{
    chunk_files::{ChunkFiles, Rows},
    columns::{DESTINATION, OFFSET, SOURCE, has_no_nulls, readable},
    info::{Adjacency, EdgeInfo, Side, Strictness},
    place::Place,
    slots::{MOST, Slots},
};
use crate::{Error, Result};

/// A column of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum EdgeColumn {
    Source,
    Destination,
    /// Of a property group.
    Property {
        group: usize,
        column: usize,
    },
}

impl EdgeColumn {
    /// The vertex at one end.
    pub(super) fn end(side: Side) -> Self {
        match side {
            Side::Source => Self::Source,
            Side::Dest => Self::Destination,
        }
    }
}

/// What all readers of a list share.
pub(super) struct EdgeList {
    place: Place,
    info: Arc<EdgeInfo>,
    adjacency: Adjacency,
    vertex_count: OnceCell<u64>,
    edge_counts: Slots<u64>,
    offsets: ChunkFiles,
    /// Parts whose offsets were found to be in order.
    in_order: Slots<()>,
    parts: Slots<Box<Part>>,
    fields: Arc<Fields>,
}

/// The chunk files of a part.
struct Part {
    ends: ChunkFiles,
    groups: Vec<ChunkFiles>,
}

/// What the files of a list are opened for.
struct Fields {
    ends: Arc<[FieldRef]>,
    groups: Vec<Arc<[FieldRef]>>,
}

/// Where the edges of the vertices of a part begin and end.
pub(super) struct Offsets<'a> {
    list: &'a EdgeList,
    part: u64,
    /// `None` where no vertex has an edge.
    array: Option<Int64Array>,
}

impl EdgeList {
    pub(super) fn new(place: Place, info: Arc<EdgeInfo>, adjacency: Adjacency) -> Self {
        let number = |name: &str| -> FieldRef { Arc::new(Field::new(name, DataType::Int64, true)) };
        let groups = info.groups.iter().map(|group| group.properties.iter().map(readable).collect());
        let fields = Fields { ends: [number(SOURCE), number(DESTINATION)].into(), groups: groups.collect() };
        let offsets = ChunkFiles::new(place.clone(), adjacency.file_type, [number(OFFSET)].into());
        Self {
            place,
            info,
            adjacency,
            vertex_count: OnceCell::new(),
            edge_counts: Slots::default(),
            offsets,
            in_order: Slots::default(),
            parts: Slots::default(),
            fields: Arc::new(fields),
        }
    }

    pub(super) fn adjacency(&self) -> &Adjacency {
        &self.adjacency
    }

    /// Vertices of a part.
    pub(super) fn part_size(&self) -> u64 {
        self.info.part_size(self.adjacency.order).max(1)
    }

    /// How many vertices the list is about: those on the side that it is aligned by.
    pub(super) async fn vertex_count(&self) -> Result<u64> {
        let path = || self.info.vertex_count_path(&self.adjacency);
        Ok(*self.vertex_count.get_or_try_init(|| async { self.place.count(&path()).await }).await?)
    }

    /// How many parts there are.
    pub(super) async fn parts(&self) -> Result<u64> {
        Ok(self.vertex_count().await?.div_ceil(self.part_size()))
    }

    /// How many edges a part has.
    pub(super) async fn edge_count(&self, part: u64) -> Result<u64> {
        if let Some(count) = self.edge_counts.get(part) {
            return Ok(*count);
        }
        let path = self.info.edge_count_path(&self.adjacency, part);
        let count = self.edge_counts.get_or_try_make(part, async { self.place.count(&path).await }).await;
        count.unwrap_or_else(|| Err(self.no_part(part))).copied()
    }

    /// How many chunks so many edges are in.
    pub(super) fn chunks(&self, edges: u64) -> u64 {
        edges.div_ceil(self.info.chunk_size.max(1))
    }

    /// What errors call the file of a chunk.
    pub(super) fn chunk_name(&self, part: u64, chunk: u64) -> String {
        self.place.name(&self.info.adjacency_path(&self.adjacency, part, chunk))
    }

    fn no_part(&self, part: u64) -> Error {
        Error::OutOfRange { of: format!("parts of {}", self.info.name()), index: part as i64, count: MOST }
    }

    async fn part(&self, part: u64) -> Result<&Part> {
        if let Some(found) = self.parts.get(part) {
            return Ok(found);
        }
        let make = async {
            let of = |file_type, fields: &Arc<[FieldRef]>| {
                ChunkFiles::new(self.place.clone(), file_type, fields.clone())
            };
            let groups = self.info.groups.iter().zip(&self.fields.groups);
            Ok(Box::new(Part {
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

    /// Columns of a chunk, if all of them are in the cache.
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

    /// Columns of a chunk of a part.
    pub(super) async fn get(
        &self,
        part: u64,
        chunk: u64,
        rows: Rows,
        columns: &[EdgeColumn],
    ) -> Result<Columns> {
        match self.cached(part, chunk, columns) {
            Some(found) => Ok(found),
            None => Box::pin(self.load(part, chunk, rows, columns)).await,
        }
    }

    async fn load(&self, number: u64, chunk: u64, rows: Rows, columns: &[EdgeColumn]) -> Result<Columns> {
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
                return Err(Error::Data { file: self.place.name(&path()), reason });
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

    /// Where the edges of the vertices of a part are; of ordered lists only.
    pub(super) async fn offsets(&self, part: u64) -> Result<Offsets<'_>> {
        match self.offsets.cached(part, 0).filter(|_| self.in_order.get(part).is_some()) {
            Some(array) => {
                Ok(Offsets { list: self, part, array: Some(array.as_primitive::<Int64Type>().clone()) })
            }
            None => Box::pin(self.load_offsets(part)).await,
        }
    }

    async fn load_offsets(&self, part: u64) -> Result<Offsets<'_>> {
        let path = || self.info.offset_path(&self.adjacency, part);
        let vertices = self.vertex_count().await?.saturating_sub(part.saturating_mul(self.part_size()));
        let least = vertices.min(self.part_size()) + 1;
        // The last may be filled up to the size of the others.
        let rows = match self.place.strictness {
            Strictness::Tolerant => Rows::Between(least, self.part_size() + 1),
            Strictness::Strict => Rows::Exactly(least),
        };
        match self.offsets.get(part, path, rows, &[0]).await {
            Ok(columns) => {
                let array = columns.first().and_then(|array| array.as_primitive_opt::<Int64Type>()).cloned();
                let offsets = Offsets { list: self, part, array };
                let check = async { offsets.check() };
                self.in_order
                    .get_or_try_make(part, check)
                    .await
                    .unwrap_or_else(|| Err(self.no_part(part)))?;
                Ok(offsets)
            }
            // A part without edges need not have any files.
            Err(Error::Missing { .. })
                if self.place.strictness == Strictness::Tolerant && self.edge_count(part).await? == 0 =>
            {
                Ok(Offsets { list: self, part, array: None })
            }
            Err(error) => Err(error),
        }
    }

    /// What is wrong where offsets lead to rows that are not there: the offsets, if the part has fewer edges.
    pub(super) async fn blamed(&self, part: u64, error: Error) -> Error {
        let (Ok(edges), Ok(offsets)) = (self.edge_count(part).await, self.offsets(part).await) else {
            return error;
        };
        let last =
            offsets.array.as_ref().and_then(|array| array.values().last()).map_or(0, |last| *last as u64);
        if last == edges { error } else { offsets.disagree(last, edges) }
    }
}

impl Offsets<'_> {
    fn file(&self) -> String {
        self.list.place.name(&self.list.info.offset_path(&self.list.adjacency, self.part))
    }

    /// That the edges of the part are not as many as its offsets say.
    pub(super) fn disagree(&self, offsets: u64, edges: u64) -> Error {
        let reason = format!("offsets of {offsets} edges, where the part has {edges}");
        Error::Data { file: self.file(), reason }
    }

    /// That they ascend from 0.
    fn check(&self) -> Result<()> {
        let Some(array) = &self.array else { return Ok(()) };
        let wrong = |reason: &str| Err(Error::Data { file: self.file(), reason: reason.to_owned() });
        match array.values().first() {
            _ if array.null_count() > 0 => wrong("an offset is null"),
            Some(0) if array.values().is_sorted() => Ok(()),
            Some(0) => wrong("the offsets do not ascend"),
            _ => wrong("the offsets do not begin with 0"),
        }
    }

    /// The rows, within the part, of the edges of a vertex, which is counted from the first of the part.
    #[inline]
    pub(super) fn of(&self, vertex: u64) -> Result<std::ops::Range<u64>> {
        let Some(array) = &self.array else { return Ok(0..0) };
        let (values, at) = (array.values(), vertex as usize);
        match (values.get(at), values.get(at + 1)) {
            (Some(start), Some(end)) if 0 <= *start && start <= end => Ok(*start as u64..*end as u64),
            _ => Err(Error::Data {
                file: self.file(),
                reason: format!("there are no offsets of vertex {vertex} of the chunk"),
            }),
        }
    }
}

/// What a choice makes of columns, and where those are of which it makes anything.
fn positions(
    columns: &[EdgeColumn],
    choose: impl Fn(&EdgeColumn) -> Option<usize>,
) -> (Vec<usize>, Vec<usize>) {
    columns.iter().enumerate().filter_map(|(at, column)| Some((choose(column)?, at))).unzip()
}
