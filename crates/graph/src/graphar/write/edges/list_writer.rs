//! Writer of an adjacency list: parts, their chunks and offsets, and the number of edges of each.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch},
    datatypes::{Int64Type, SchemaRef},
};

use super::request::{edge_files, offset_file};
use crate::{
    Result,
    graphar::{
        Adjacency, EdgeInfo, Side,
        write::{
            files::encoders::{ChunkEncoderPool, OpenChunk},
            names::unwritable,
            sort::order::AdjacencyLayout,
        },
    },
};

/// Writer of an adjacency list, which takes edges in list order.
#[derive(Debug)]
pub(crate) struct AdjacencyListWriter<'a> {
    encoders: &'a mut ChunkEncoderPool,
    info: &'a EdgeInfo,
    list: &'a Adjacency,
    schema: &'a SchemaRef,
    arrangement: AdjacencyLayout,
    /// Part being filled.
    part: u64,
    part_edges: u64,
    /// Number of edges of each vertex of the part; empty if the list is not ordered.
    degrees: Vec<i64>,
    chunk: Option<OpenChunk>,
    chunks: u64,
    edges: u64,
    /// Both ends of the last edge.
    last: Option<(i64, i64)>,
    written: WrittenAdjacencyList,
}

/// Metadata of a list beyond its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenAdjacencyList {
    /// Number of edges per part.
    pub(crate) parts: Vec<u64>,
    /// Other end of the first edge of each chunk, part by part.
    pub(crate) firsts: Vec<i64>,
    /// Chunks, numbered across all parts, whose first edge has the same ends as the edge before it.
    pub(crate) continued: Vec<u64>,
}

impl<'a> AdjacencyListWriter<'a> {
    pub(crate) fn new(
        encoders: &'a mut ChunkEncoderPool,
        info: &'a EdgeInfo,
        list: &'a Adjacency,
        schema: &'a SchemaRef,
        arrangement: AdjacencyLayout,
    ) -> Self {
        let mut writer = Self {
            encoders,
            info,
            list,
            schema,
            arrangement,
            part: 0,
            part_edges: 0,
            degrees: Vec::new(),
            chunk: None,
            chunks: 0,
            edges: 0,
            last: None,
            written: WrittenAdjacencyList::default(),
        };

        writer.begin_part();
        writer
    }

    /// Adds edges: both ends, and properties.
    pub(crate) async fn write(&mut self, edges: &RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < edges.num_rows() {
            let (part, end) = self.stretch(edges, start)?;
            while self.part < part {
                self.end_part().await?;
            }
            self.count(edges, start, end)?;
            while start < end {
                start += self.write_to_chunk(&edges.slice(start, end - start)).await?;
            }
        }

        Ok(())
    }

    /// Ends the last part. Returns the number of edges and the list's metadata.
    pub(crate) async fn finish(mut self) -> Result<(u64, WrittenAdjacencyList)> {
        while self.part < self.arrangement.parts() {
            self.end_part().await?;
        }
        let count = self.arrangement.vertices.to_le_bytes().to_vec();
        self.encoders.file(self.info.vertex_count_path(self.list), count).await?;
        Ok((self.edges, self.written))
    }

    /// Returns the part of an edge, and the end of the run of edges in that part.
    fn stretch(&self, edges: &RecordBatch, start: usize) -> Result<(u64, usize)> {
        let aligned = self.aligned(edges)?.get(start..).unwrap_or_default();
        let part = |vertex: &i64| self.arrangement.part(*vertex as u64);
        let first = aligned.first().map(part).unwrap_or_default();
        let length = aligned.partition_point(|vertex| part(vertex) == first);
        Ok((first, start + length.max(1)))
    }

    /// Returns the vertices that the list is aligned by.
    fn aligned<'b>(&self, edges: &'b RecordBatch) -> Result<&'b [i64]> {
        self.side(edges, self.list.order.aligned_by())
    }

    /// Returns the vertices on one side.
    fn side<'b>(&self, edges: &'b RecordBatch, side: Side) -> Result<&'b [i64]> {
        let column = match side {
            Side::Source => 0,
            Side::Dest => 1,
        };
        let ends = edges.columns().get(column).and_then(|ends| ends.as_primitive_opt::<Int64Type>());
        let ends = ends.ok_or_else(|| unwritable(self.info.name(), "a batch without ends"))?;
        Ok(ends.values())
    }

    /// Returns the vertex that an edge is listed by, and its neighbour.
    fn ends(&self, edges: &RecordBatch, row: usize) -> Result<Option<(i64, i64)>> {
        let other = match self.list.order.aligned_by() {
            Side::Source => Side::Dest,
            Side::Dest => Side::Source,
        };
        let aligned = self.aligned(edges)?;
        let other = self.side(edges, other)?;
        Ok(aligned.get(row).copied().zip(other.get(row).copied()))
    }

    fn count(&mut self, edges: &RecordBatch, start: usize, end: usize) -> Result<()> {
        let count = (end - start) as u64;
        self.part_edges += count;
        self.edges += count;
        if !self.list.order.is_ordered() {
            return Ok(());
        }

        let first = self.part * self.arrangement.part_size;
        for vertex in self.aligned(edges)?.get(start..end).unwrap_or_default() {
            if let Some(degree) = self.degrees.get_mut((*vertex as u64 - first) as usize) {
                *degree += 1;
            }
        }

        Ok(())
    }

    /// Adds edges to the part's current chunk until it is full. Returns the number added.
    async fn write_to_chunk(&mut self, edges: &RecordBatch) -> Result<usize> {
        let mut chunk = match self.chunk.take() {
            Some(chunk) => chunk,
            None => {
                let files = edge_files(self.info, self.list, self.schema, self.part, self.chunks);
                if let Some(first) = self.ends(edges, 0)? {
                    if self.last == Some(first) {
                        self.written.continued.push(self.written.firsts.len() as u64);
                    }
                    self.written.firsts.push(first.1);
                }
                self.chunks += 1;
                self.encoders.open(files).await?
            }
        };

        let room = self.info.chunk_size.saturating_sub(chunk.rows);
        let taken = edges.num_rows().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.encoders.write(&mut chunk, &edges.slice(0, taken)).await?;
        self.last = self.ends(edges, taken.saturating_sub(1))?;
        if chunk.rows >= self.info.chunk_size {
            self.encoders.end(chunk);
        } else {
            self.chunk = Some(chunk);
        }

        Ok(taken)
    }

    fn begin_part(&mut self) {
        (self.part_edges, self.chunks) = (0, 0);
        self.degrees.clear();
        if self.list.order.is_ordered() {
            let AdjacencyLayout { part_size, vertices, .. } = self.arrangement;
            let vertices = vertices.saturating_sub(self.part.saturating_mul(part_size)).min(part_size);
            self.degrees.resize(usize::try_from(vertices).unwrap_or(usize::MAX), 0);
        }
    }

    async fn end_part(&mut self) -> Result<()> {
        if let Some(chunk) = self.chunk.take() {
            self.encoders.end(chunk);
        }
        self.written.parts.push(self.part_edges);
        let path = self.info.edge_count_path(self.list, self.part);
        self.encoders.file(path, self.part_edges.to_le_bytes().to_vec()).await?;
        if self.list.order.is_ordered() {
            self.write_offsets().await?;
        }
        self.part += 1;
        self.begin_part();

        Ok(())
    }

    /// Writes the part's offsets: the start of each vertex's edges, and the end of the last.
    async fn write_offsets(&mut self) -> Result<()> {
        let mut end = 0;
        let ends = self.degrees.iter().map(|degree| {
            end += degree;
            end
        });
        let offsets: Int64Array = std::iter::once(0).chain(ends).collect::<Vec<i64>>().into();
        let plan = offset_file(self.info, self.list, self.part, offsets.values().len() as u64);
        let batch = RecordBatch::try_new(plan.schema.clone(), vec![Arc::new(offsets) as ArrayRef]);
        let batch = batch.map_err(|error| unwritable(&plan.file, error.to_string()))?;
        let mut chunk = self.encoders.open(vec![(plan, vec![0])]).await?;
        self.encoders.write(&mut chunk, &batch).await?;
        self.encoders.end(chunk);

        Ok(())
    }
}
