//! In-memory buffer of edges in their order of arrival.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::{BatchCoalescer, interleave},
    datatypes::{Schema, SchemaRef},
};

use crate::{
    Error, Result,
    graphar::write::{columns::BATCH_ROWS, keys::indexes::VertexIndexVec, names::unwritable},
    slice_bytes::slice_bytes,
};

/// Binary logarithm of the rows per block of properties: a shift finds the block of a row.
const BLOCK_BITS: u32 = 14;
const BLOCK: usize = 1 << BLOCK_BITS;
/// Bytes that a sort adds per edge: its position in the order, and its sort key.
const OVERHEAD: usize = 24;
/// Limit of the 4-byte edge numbers.
const MAX_EDGES: usize = u32::MAX as usize;

/// Buffer of incoming edges.
#[derive(Debug)]
pub(crate) struct EdgeSortBuffer {
    edges: BufferedEdges,
    /// Coalesces batches into blocks; `None` if edges have no properties.
    blocks: Option<BatchCoalescer>,
    bytes: usize,
    /// Numbers of source and destination vertices.
    bounds: (u64, u64),
    /// Number of edges that fit into memory.
    room: usize,
}

/// Frozen buffer of edges.
#[derive(Debug)]
pub(crate) struct BufferedEdges {
    /// Both ends, and properties.
    schema: SchemaRef,
    pub(crate) source: VertexIndexVec,
    pub(crate) destination: VertexIndexVec,
    /// Blocks of [`BLOCK`] rows; the last may have fewer.
    properties: Vec<RecordBatch>,
}

impl EdgeSortBuffer {
    /// Returns a buffer of `memory` bytes for edges with both ends and properties, between `bounds` vertices.
    pub(crate) fn new(schema: SchemaRef, properties: &Schema, bounds: (u64, u64), memory: usize) -> Self {
        // Rows that arrive together are buffered before any sort.
        let room = (memory / bytes_of_edge(bounds)).min(MAX_EDGES) + BATCH_ROWS;
        let has_some = !properties.fields().is_empty();
        let blocks = has_some.then(|| BatchCoalescer::new(Arc::new(properties.clone()), BLOCK));
        let edges = BufferedEdges {
            schema,
            source: VertexIndexVec::below(bounds.0, room),
            destination: VertexIndexVec::below(bounds.1, room),
            properties: Vec::new(),
        };

        Self { edges, blocks, bytes: 0, bounds, room }
    }

    pub(crate) fn len(&self) -> usize {
        self.edges.len()
    }

    /// Returns the memory in use, in bytes, including that of a sort.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if `more` edges would exceed the limit of edge numbers.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.len() + more > MAX_EDGES
    }

    pub(crate) fn push(
        &mut self,
        source: &[u64],
        destination: &[u64],
        properties: &RecordBatch,
    ) -> Result<()> {
        self.edges.source.extend(source);
        self.edges.destination.extend(destination);
        self.bytes += source.len() * bytes_of_edge(self.bounds) + slice_bytes(properties);
        let Some(blocks) = &mut self.blocks else { return Ok(()) };
        blocks.push_batch(properties.clone()).map_err(failed)?;
        while let Some(block) = blocks.next_completed_batch() {
            self.edges.properties.push(block);
        }
        Ok(())
    }

    /// Returns the buffered edges, and starts a new buffer.
    pub(crate) fn take(&mut self) -> Result<BufferedEdges> {
        if let Some(blocks) = &mut self.blocks {
            blocks.finish_buffered_batch().map_err(failed)?;
            while let Some(block) = blocks.next_completed_batch() {
                self.edges.properties.push(block);
            }
        }
        self.bytes = 0;
        let fresh = self.edges.fresh(self.bounds, self.room);
        Ok(std::mem::replace(&mut self.edges, fresh))
    }
}

/// Returns the bytes of an edge without its properties, including those of a sort.
fn bytes_of_edge((from, to): (u64, u64)) -> usize {
    VertexIndexVec::width(from) + VertexIndexVec::width(to) + OVERHEAD
}

impl BufferedEdges {
    pub(crate) fn len(&self) -> usize {
        self.source.len()
    }

    /// Returns the approximate bytes of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        let properties: usize = self.properties.iter().map(slice_bytes).sum();
        properties / self.len().max(1) + 2 * size_of::<i64>()
    }

    /// Gathers edges in the order of `rows`.
    pub(crate) fn gather(&self, rows: &[u32]) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(self.source.take(rows)), Arc::new(self.destination.take(rows))];
        let indices: Vec<(usize, usize)> = if self.properties.is_empty() {
            Vec::new()
        } else {
            rows.iter().map(|row| ((row >> BLOCK_BITS) as usize, *row as usize % BLOCK)).collect()
        };

        for column in 2..self.schema.fields().len() {
            let blocks = self.properties.iter().filter_map(|block| block.columns().get(column - 2));
            let blocks: Vec<&dyn Array> = blocks.map(AsRef::as_ref).collect();
            columns.push(interleave(&blocks, &indices).map_err(failed)?);
        }
        RecordBatch::try_new(self.schema.clone(), columns).map_err(failed)
    }

    fn fresh(&self, bounds: (u64, u64), room: usize) -> Self {
        let (source, destination) =
            (VertexIndexVec::below(bounds.0, room), VertexIndexVec::below(bounds.1, room));
        Self { schema: self.schema.clone(), source, destination, properties: Vec::new() }
    }
}

pub(crate) fn failed(error: arrow::error::ArrowError) -> Error {
    unwritable("edges", error.to_string())
}
