//! Adjacency list of a base: the edges of each vertex are consecutive, and numbered across all parts and chunks.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{DataType, Field, FieldRef, Int64Type},
};
use futures::{StreamExt, TryStreamExt};
use stylobate_columnar::ColumnsUse;

use super::{AdjacencyListInfo, ChunkSize, EdgeBaseInfo, PropertyGroupFiles};
use crate::{
    Direction, Error, Result,
    graphar::{
        ChunkFiles, DESTINATION, ExpectedRowCount, FileType, GraphFolder, OFFSET, SOURCE, has_no_nulls,
    },
    store::{
        budgeted::MemoryFootprint,
        take::{ChunkInterner, ChunkRun, MAX_CONCURRENT_CHUNKS},
    },
};

impl MemoryFootprint for BaseAdjacencyList {
    fn bytes(&self) -> u64 {
        let AdjacencyListInfo { parts, firsts, continued } = &self.info;
        let numbers =
            parts.len() + firsts.len() + continued.len() + self.starts.len() + self.first_chunks.len();
        8 * numbers as u64
    }
}

/// Files of a list, and the range of edges of each.
pub(crate) struct BaseAdjacencyList {
    /// Name of its edges in errors.
    of: String,
    /// Folder of its files, with a trailing slash.
    pub(crate) folder: String,
    pub(crate) vertices: u64,
    part_size: ChunkSize,
    pub(crate) chunk_size: ChunkSize,
    /// Number of edges before each part, then the total.
    starts: Vec<u64>,
    /// Number of chunks before each part, then the total.
    pub(crate) first_chunks: Vec<u64>,
    pub(crate) info: AdjacencyListInfo,
    offsets: ChunkFiles,
    /// The neighbour, then the vertex itself.
    pub(crate) ends: ChunkFiles,
    pub(crate) groups: Vec<PropertyGroupFiles>,
}

/// Chunk of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListChunkPosition {
    pub(crate) part: u64,
    /// Within the part.
    pub(crate) chunk: u64,
    pub(crate) rows: u64,
}

/// Location of edges: their chunks, the runs in these chunks, and the number of edges.
pub(crate) struct LocatedEdges {
    pub(crate) chunks: ChunkInterner,
    pub(crate) runs: Vec<ChunkRun>,
    pub(crate) rows: usize,
}

impl BaseAdjacencyList {
    pub(crate) fn open(
        store_folder: &GraphFolder,
        of: &EdgeBaseInfo,
        direction: Direction,
        fields: &[FieldRef],
    ) -> Self {
        let (info, folder, vertices, part_size, names) = match direction {
            Direction::Out => {
                let names = [DESTINATION, SOURCE];
                (&of.by_source, "ordered_by_source", of.sources, of.source_chunk_size, names)
            }
            Direction::In => {
                let names = [SOURCE, DESTINATION];
                (&of.by_destination, "ordered_by_dest", of.destinations, of.destination_chunk_size, names)
            }
        };

        let number = |name: &str| -> FieldRef { Arc::new(Field::new(name, DataType::Int64, true)) };
        let files =
            |fields: &[FieldRef]| ChunkFiles::new(store_folder.clone(), FileType::Parquet, fields.into());
        let chunk_size = ChunkSize::new(of.edge_chunk_size);
        let before = |size: u64| {
            let mut sum = 0_u64;
            let sums = info.parts.iter().map(|edges| {
                sum = sum.saturating_add(edges.div_ceil(size));
                sum
            });
            std::iter::once(0).chain(sums).collect::<Vec<u64>>()
        };

        Self {
            of: format!("edges of type {}_{}_{}", of.source_type, of.edge_type, of.destination_type),
            folder: format!("{}/{}{folder}/", of.path, of.prefix),
            vertices,
            part_size: ChunkSize::new(part_size),
            chunk_size,
            starts: before(1),
            first_chunks: before(chunk_size.get()),
            info: info.clone(),
            offsets: files(&[number(OFFSET)]),
            ends: files(&names.map(number)),
            groups: PropertyGroupFiles::open_all(store_folder, &of.groups, fields),
        }
    }

    pub(crate) fn offsets_use(&self) -> ColumnsUse {
        self.offsets.usage()
    }

    pub(crate) fn columns_use(&self) -> ColumnsUse {
        let groups = self.groups.iter().map(|group| &group.files);
        std::iter::once(&self.ends).chain(groups).map(ChunkFiles::usage).sum()
    }

    pub(crate) fn parts(&self) -> u64 {
        self.vertices.div_ceil(self.part_size.get())
    }

    pub(crate) fn chunks(&self) -> u64 {
        self.first_chunks.last().copied().unwrap_or(0)
    }

    /// Returns the number of edges of a part.
    pub(crate) fn part_edges(&self, part: u64) -> u64 {
        self.info.parts.get(part as usize).copied().unwrap_or(0)
    }

    pub(crate) fn edges(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Returns the range of a vertex's edges if its offsets are cached.
    #[inline]
    pub(crate) fn slice_cached(&self, vertex: i64) -> Option<Result<Range<u64>>> {
        let vertex = vertex as u64;
        if vertex >= self.vertices {
            return Some(Ok(0..0));
        }
        let (part, row) = self.part_size.split(vertex);
        let offsets = self.offsets_cached(part)?;
        Some(self.range(part, row, &offsets))
    }

    pub(crate) async fn slice(&self, vertex: i64) -> Result<Range<u64>> {
        match self.slice_cached(vertex) {
            Some(range) => range,
            None => {
                let (part, row) = self.part_size.split(vertex as u64);
                self.range(part, row, &Box::pin(self.offsets(part)).await?)
            }
        }
    }

    /// Returns [`Self::slice_cached`] of many vertices.
    pub(crate) fn slices_cached(&self, vertices: &[i64]) -> Option<Result<Vec<Range<u64>>>> {
        let (parts, locations) = self.parts_of(vertices);
        let mut offsets = Vec::with_capacity(parts.numbers().len());
        for part in parts.numbers() {
            offsets.push(self.offsets_cached(*part)?);
        }
        Some(self.ranges(&parts, &locations, &offsets))
    }

    pub(crate) async fn slices(&self, vertices: &[i64]) -> Result<Vec<Range<u64>>> {
        match self.slices_cached(vertices) {
            Some(ranges) => ranges,
            None => Box::pin(self.load_slices(vertices)).await,
        }
    }

    async fn load_slices(&self, vertices: &[i64]) -> Result<Vec<Range<u64>>> {
        let (parts, locations) = self.parts_of(vertices);
        let loads = parts.numbers().iter().copied().map(|part| self.offsets(part));
        let offsets: Vec<ArrayRef> =
            futures::stream::iter(loads).buffered(MAX_CONCURRENT_CHUNKS).try_collect().await?;
        self.ranges(&parts, &locations, &offsets)
    }

    /// Returns the distinct parts of vertices, and for each vertex the position of its part and its row in it; `None`
    /// for a vertex beyond the list, which has no edges.
    fn parts_of(&self, vertices: &[i64]) -> (ChunkInterner, Vec<Option<(usize, u64)>>) {
        let mut parts = ChunkInterner::new(vertices.len(), self.parts());
        let location = |vertex: &i64| {
            let vertex = *vertex as u64;
            let (part, row) = self.part_size.split(vertex);
            (vertex < self.vertices).then(|| (parts.insert(part), row))
        };
        let locations = vertices.iter().map(location).collect();
        (parts, locations)
    }

    fn ranges(
        &self,
        parts: &ChunkInterner,
        locations: &[Option<(usize, u64)>],
        offsets: &[ArrayRef],
    ) -> Result<Vec<Range<u64>>> {
        let range = |location: &Option<(usize, u64)>| {
            let Some((at, row)) = location else { return Ok(0..0) };
            match (parts.numbers().get(*at), offsets.get(*at)) {
                (Some(part), Some(offsets)) => self.range(*part, *row, offsets),
                _ => Ok(0..0),
            }
        };
        locations.iter().map(range).collect()
    }

    #[inline]
    fn range(&self, part: u64, row: u64, offsets: &ArrayRef) -> Result<Range<u64>> {
        let found = offsets.as_primitive_opt::<Int64Type>().and_then(|offsets| {
            let offsets = offsets.values();
            let at = row as usize;
            let start = *offsets.get(at)?;
            let end = *offsets.get(at + 1)?;
            let first = *self.starts.get(part as usize)?;
            let next = *self.starts.get(part as usize + 1)?;
            let is_right = 0 <= start && start <= end && first + end as u64 <= next;
            is_right.then(|| first + start as u64..first + end as u64)
        });

        found.ok_or_else(|| Error::Data {
            file: self.offset_file(part),
            reason: format!("offsets of vertex {row} of the part that lead to no edges"),
        })
    }

    pub(crate) async fn offsets(&self, part: u64) -> Result<ArrayRef> {
        let rest = self.vertices.saturating_sub(part.saturating_mul(self.part_size.get()));
        let rows = ExpectedRowCount::Exactly(rest.min(self.part_size.get()) + 1);
        let columns = self.offsets.get(part, || self.offset_file(part), rows, &[0]).await?;
        let missing = || Error::Missing { file: self.offset_file(part) };
        let offsets = columns.into_iter().next().ok_or_else(missing)?;
        if has_no_nulls(&offsets) {
            Ok(offsets)
        } else {
            Err(Error::Data { file: self.offset_file(part), reason: "an offset is null".to_owned() })
        }
    }

    /// Returns the cached offsets of a part. Arrays with nulls are treated as absent: the load path reports them.
    #[inline]
    fn offsets_cached(&self, part: u64) -> Option<ArrayRef> {
        self.offsets.cached(part, 0).filter(has_no_nulls)
    }

    fn offset_file(&self, part: u64) -> String {
        format!("{}offset/chunk{part}", self.folder)
    }

    /// Returns the chunk that contains all of the edges, and their rows in it; `None` if they span several chunks, or
    /// there are none.
    #[inline]
    pub(crate) fn within_chunk(&self, mut part: usize, edges: &Range<u64>) -> Option<(u64, Range<usize>)> {
        let count = edges.end.checked_sub(edges.start).filter(|count| *count > 0)?;
        let (first, end) = self.bounds(&mut part, edges.start);
        let (chunk, row) = self.chunk_size.split(edges.start.checked_sub(first)?);
        let is_one = edges.end <= end.min(self.edges()) && row + count <= self.chunk_size.get();
        let chunk = self.first_chunks.get(part).copied()? + chunk;
        is_one.then(|| (chunk, row as usize..(row + count) as usize))
    }

    /// Returns the part of a vertex.
    #[inline]
    pub(crate) fn part_of(&self, vertex: i64) -> usize {
        self.part_size.split(vertex as u64).0 as usize
    }

    pub(crate) fn locate(&self, ranges: &[Range<u64>]) -> Result<LocatedEdges> {
        let mut chunks = ChunkInterner::new(ranges.len(), self.chunks());
        let mut runs = Vec::with_capacity(ranges.len());
        let mut rows = 0;
        let mut part = 0;
        for range in ranges.iter().filter(|range| range.start < range.end) {
            if range.end > self.edges() {
                let of = self.of.clone();
                let count = self.edges();
                return Err(Error::OutOfRange { of, index: range.end as i64 - 1, count });
            }
            rows += (range.end - range.start) as usize;

            let mut start = range.start;
            while start < range.end {
                let (first, end) = self.bounds(&mut part, start);
                let (chunk, row) = self.chunk_size.split(start - first);
                let index = chunks.insert(self.first_chunks.get(part).copied().unwrap_or(0) + chunk);
                let end = range.end.min(end).min(first + (chunk + 1) * self.chunk_size.get());
                let row = row as usize;
                runs.push(ChunkRun { chunk: index, rows: row..row + (end - start) as usize });
                start = end;
            }
        }

        Ok(LocatedEdges { chunks, runs, rows })
    }

    /// Returns the bounds of an edge's part. The search starts at `part`, often that of the previous edge.
    #[inline]
    pub(crate) fn bounds(&self, part: &mut usize, edge: u64) -> (u64, u64) {
        let of = |part: usize| {
            let start = self.starts.get(part).copied().unwrap_or(0);
            (start, self.starts.get(part + 1).copied().unwrap_or(u64::MAX))
        };
        let (start, end) = of(*part);
        if start <= edge && edge < end {
            return (start, end);
        }
        *part = self.starts.partition_point(|start| *start <= edge).saturating_sub(1);
        of(*part)
    }

    pub(crate) fn chunk_at(&self, number: u64) -> ListChunkPosition {
        let part = self.first_chunks.partition_point(|first| *first <= number).saturating_sub(1);
        let chunk = number - self.first_chunks.get(part).copied().unwrap_or(0);
        let edges = self.info.parts.get(part).copied().unwrap_or(0);
        let size = self.chunk_size.get();
        ListChunkPosition { part: part as u64, chunk, rows: edges.saturating_sub(chunk * size).min(size) }
    }

    /// Returns the first edge of a chunk, counted over the list.
    pub(crate) fn first_of(&self, number: u64) -> u64 {
        let ListChunkPosition { part, chunk, .. } = self.chunk_at(number);
        self.starts.get(part as usize).copied().unwrap_or(0) + chunk * self.chunk_size.get()
    }
}
