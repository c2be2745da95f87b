//! Neighbours of many vertices at once.
//!
//! Offsets give the rows and chunks of each vertex's edges. Each chunk is read once; then runs of rows are copied.
//! Unordered edges are found by a scan of all chunks of their part.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::{Arc, LazyLock},
};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Int64Array, MutableArrayData, RecordBatch, RecordBatchOptions, UInt32Array,
        make_array,
    },
    compute::{concat_batches, take_record_batch},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt32Type},
};
use async_recursion::async_recursion as boxed;
use smallvec::SmallVec;
use stylobate_columnar::Columns;

use super::{
    chunk_files::ExpectedRowCount,
    columns::gathering,
    distinct::InsertionOrderSet,
    edge_list::{EdgeColumn, EdgeList, PartOffsets},
    edges::Edges,
};
use crate::{Direction, Error, Result};

/// Chunks whose rows are gathered at a time: bounds the memory beyond the cache.
const GATHER_WINDOW: usize = 64;

/// Consecutive edges of one vertex in one chunk.
struct NeighborRun {
    /// Position among the requested vertices.
    position: u32,
    /// Position among the gathered chunks.
    chunk: usize,
    rows: Range<usize>,
}

/// Runs, and the distinct chunks that contain them.
struct NeighborRuns {
    chunks: InsertionOrderSet<(u64, u64)>,
    runs: Vec<NeighborRun>,
}

impl NeighborRuns {
    fn with_capacity(runs: usize) -> Self {
        Self { chunks: InsertionOrderSet::default(), runs: Vec::with_capacity(runs) }
    }

    /// Adds rows of a part whose chunks have `size` rows.
    fn add(&mut self, position: u32, part: u64, rows: Range<u64>, size: u64) {
        let mut start = rows.start;
        while start < rows.end {
            let chunk = start / size;
            let end = rows.end.min((chunk + 1) * size);
            let rows = (start % size) as usize..(end - chunk * size) as usize;
            self.runs.push(NeighborRun { position, chunk: self.chunks.insert((part, chunk)), rows });
            start = end;
        }
    }
}

impl Edges {
    /// Returns the neighbours of vertices: `position` is the row's position in `vertices`, `neighbor` is the index of
    /// the vertex at the other end; then the selected properties. Positions ascend, and the edges of a vertex keep
    /// their stored order.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for an index without a vertex, [`Error::NoSuchAdjacency`] if no list is aligned by
    /// the side of `vertices`, and as [`Edges::chunk`].
    #[boxed]
    pub async fn neighbors(&self, vertices: &[i64], direction: Direction) -> Result<RecordBatch> {
        let view = self.clone().aligned_by(direction.side())?;
        let mut columns: SmallVec<[EdgeColumn; 4]> = SmallVec::new();
        columns.push(EdgeColumn::end(direction.other_side()));
        columns.extend(view.properties.iter().copied());
        let schema = view.neighbor_schema();
        if view.order().is_ordered() {
            OrderedNeighborReader {
                list: &view.list,
                columns: &columns,
                schema: &schema,
                size: view.info().chunk_size,
            }
            .neighbors(vertices)
            .await
        } else {
            view.search(vertices, EdgeColumn::end(direction.side()), &columns, &schema).await
        }
    }

    /// Returns the number of neighbours of each vertex, counting parallel edges.
    ///
    /// # Errors
    ///
    /// Same as [`Edges::neighbors`].
    #[boxed]
    pub async fn degrees(&self, vertices: &[i64], direction: Direction) -> Result<Int64Array> {
        let view = self.clone().aligned_by(direction.side())?;
        if view.order().is_ordered() {
            let ranges = view.list.ranges(vertices).await?;
            return Ok(ranges.iter().map(|(_, rows)| (rows.end - rows.start) as i64).collect());
        }

        let mut degrees = vec![0_i64; vertices.len()];
        let found = view.select::<&str>([])?.neighbors(vertices, direction).await?;
        for position in found.column(0).as_primitive::<UInt32Type>().values() {
            if let Some(degree) = degrees.get_mut(*position as usize) {
                *degree += 1;
            }
        }

        Ok(degrees.into())
    }

    /// Returns the schema of [`Self::neighbors`].
    pub fn neighbor_schema(&self) -> SchemaRef {
        static ENDS: LazyLock<SchemaRef> = LazyLock::new(|| {
            let position = Field::new("position", DataType::UInt32, false);
            Arc::new(Schema::new(vec![position, Field::new("neighbor", DataType::Int64, false)]))
        });
        if self.properties.is_empty() {
            return ENDS.clone();
        }
        let properties = self.property_fields();
        Arc::new(Schema::new(ENDS.fields().iter().cloned().chain(properties).collect::<Vec<_>>()))
    }

    /// Scans all edges of the vertices' parts.
    async fn search(
        &self,
        vertices: &[i64],
        key: EdgeColumn,
        columns: &[EdgeColumn],
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let mut parts: BTreeMap<u64, HashMap<i64, Vec<u32>>> = BTreeMap::new();
        for (position, (part, _)) in self.list.part_positions(vertices).await?.into_iter().enumerate() {
            let vertex = vertices.get(position).copied().unwrap_or_default();
            parts.entry(part).or_default().entry(vertex).or_default().push(position as u32);
        }

        let wanted: Vec<EdgeColumn> = std::iter::once(key).chain(columns.iter().copied()).collect();
        let mut found: Vec<RecordBatch> = Vec::new();
        for (part, vertices) in parts {
            let edges = self.list.whole_part(part).await?;
            for chunk in 0..self.list.chunks(edges) {
                let size = self.info().chunk_size;
                let rows = ExpectedRowCount::Exactly((edges - chunk * size).min(size));
                let arrays = self.list.get(part, chunk, rows, &wanted).await?;
                let Some((keys, arrays)) = arrays.split_first() else { continue };

                let mut runs = Vec::new();
                for (row, key) in keys.as_primitive::<Int64Type>().values().iter().enumerate() {
                    for position in vertices.get(key).into_iter().flatten() {
                        runs.push(NeighborRun { position: *position, chunk: 0, rows: row..row + 1 });
                    }
                }

                runs.sort_by_key(|run| run.position);
                if !runs.is_empty() {
                    let name = |_| self.list.chunk_name(part, chunk);
                    found.push(gather(schema, &[arrays.iter().cloned().collect()], &runs, &name)?);
                }
            }
        }

        in_order(schema, &found)
    }
}

/// Sorts rows by the position of their vertex. Stable, so that the edges of a vertex keep their order.
fn in_order(schema: &SchemaRef, found: &[RecordBatch]) -> Result<RecordBatch> {
    let all = concat_batches(schema, found).map_err(gathering)?;
    let positions = all.column(0).as_primitive::<UInt32Type>().values();
    let mut order: Vec<u32> = (0..positions.len() as u32).collect();
    order.sort_by_key(|row| positions.get(*row as usize).copied());
    take_record_batch(&all, &UInt32Array::from(order)).map_err(gathering)
}

/// Reads edges through offsets.
struct OrderedNeighborReader<'a> {
    list: &'a EdgeList,
    columns: &'a [EdgeColumn],
    schema: &'a SchemaRef,
    /// Edges per chunk.
    size: u64,
}

impl OrderedNeighborReader<'_> {
    async fn neighbors(&self, vertices: &[i64]) -> Result<RecordBatch> {
        let ranges = self.list.ranges(vertices).await?;
        let mut few = NeighborRuns::with_capacity(ranges.len());
        let mut many: Vec<(u32, u64, Range<u64>)> = Vec::new();
        for (position, (part, rows)) in ranges.into_iter().enumerate() {
            if (rows.end - rows.start) / self.size < GATHER_WINDOW as u64 {
                few.add(position as u32, part, rows, self.size);
            } else {
                many.push((position as u32, part, rows));
            }
        }

        if many.is_empty() && few.chunks.values().len() <= GATHER_WINDOW {
            return self.gather(few.chunks.values(), &few.runs).await;
        }
        Box::pin(self.by_windows(few, many)).await
    }

    /// Gathers a bounded number of chunks at a time, in list order, so that each chunk is read once regardless of the
    /// order of the vertices. A vertex with many chunks is read window by window: wrong offsets fail at the first
    /// missing file.
    async fn by_windows(&self, few: NeighborRuns, many: Vec<(u32, u64, Range<u64>)>) -> Result<RecordBatch> {
        let NeighborRuns { chunks, mut runs } = few;
        let mut order: Vec<usize> = (0..chunks.values().len()).collect();
        order.sort_by_key(|chunk| chunks.values().get(*chunk));
        let chunks: Vec<(u64, u64)> =
            order.iter().filter_map(|chunk| chunks.values().get(*chunk).copied()).collect();

        let mut ranks = vec![0; order.len()];
        for (rank, chunk) in order.into_iter().enumerate() {
            if let Some(to) = ranks.get_mut(chunk) {
                *to = rank;
            }
        }

        runs.iter_mut().for_each(|run| run.chunk = ranks.get(run.chunk).copied().unwrap_or(run.chunk));
        runs.sort_by_key(|run| run.chunk);
        let mut done: Vec<RecordBatch> = Vec::new();
        let windows = runs.chunk_by_mut(|a, b| a.chunk / GATHER_WINDOW == b.chunk / GATHER_WINDOW);
        for (runs, chunks) in windows.zip(chunks.chunks(GATHER_WINDOW)) {
            runs.iter_mut().for_each(|run| run.chunk %= GATHER_WINDOW);
            done.push(self.gather(chunks, runs).await?);
        }

        for (position, part, rows) in many {
            let mut start = rows.start;
            while start < rows.end {
                let window = (start / self.size).saturating_add(GATHER_WINDOW as u64);
                let end = rows.end.min(window.saturating_mul(self.size));
                let mut some = NeighborRuns::with_capacity(GATHER_WINDOW);
                some.add(position, part, start..end, self.size);
                done.push(self.gather(some.chunks.values(), &some.runs).await?);
                start = end;
            }
        }

        in_order(self.schema, &done)
    }

    async fn gather(&self, chunks: &[(u64, u64)], runs: &[NeighborRun]) -> Result<RecordBatch> {
        let mut min_rows = vec![0_u64; chunks.len()];
        for run in runs {
            if let Some(min_rows) = min_rows.get_mut(run.chunk) {
                *min_rows = (*min_rows).max(run.rows.end as u64);
            }
        }

        let loads = chunks.iter().zip(min_rows).map(|((part, chunk), min_rows)| {
            self.list.get(*part, *chunk, ExpectedRowCount::Between(min_rows, self.size), self.columns)
        });
        let mut loads: Vec<_> = loads.collect();
        let loaded = match loads.pop() {
            Some(only) if loads.is_empty() => only.await.map(|columns| vec![columns]),
            Some(last) => {
                loads.push(last);
                futures::future::try_join_all(loads).await
            }
            None => Ok(Vec::new()),
        };

        let name = |chunk: usize| match chunks.get(chunk) {
            Some((part, chunk)) => self.list.chunk_name(*part, *chunk),
            None => String::new(),
        };
        let gathered = loaded.and_then(|loaded| gather(self.schema, &loaded, runs, &name));
        match gathered {
            Err(error @ (Error::Missing { .. } | Error::Data { .. })) => {
                Err(self.blamed(chunks, error).await)
            }
            gathered => gathered,
        }
    }

    /// Finds the cause if rows that offsets point to are missing: the offsets may be wrong.
    async fn blamed(&self, chunks: &[(u64, u64)], mut error: Error) -> Error {
        let parts: BTreeSet<u64> = chunks.iter().map(|(part, _)| *part).collect();
        for part in parts {
            error = self.list.blamed(part, error).await;
        }
        error
    }
}

impl EdgeList {
    /// Returns the part of each vertex, and its position in the part.
    async fn part_positions(&self, vertices: &[i64]) -> Result<Vec<(u64, u64)>> {
        let count = self.vertex_count().await?;
        let size = self.part_size();
        let position = |vertex: &i64| match u64::try_from(*vertex) {
            Ok(index) if index < count => Ok((index / size, index % size)),
            _ => Err(Error::OutOfRange { of: "vertices".to_owned(), index: *vertex, count }),
        };
        vertices.iter().map(position).collect()
    }

    /// Returns the part of each vertex, and the rows of its edges in it.
    async fn ranges(&self, vertices: &[i64]) -> Result<Vec<(u64, Range<u64>)>> {
        let positions = self.part_positions(vertices).await?;
        let mut parts: InsertionOrderSet<u64> = InsertionOrderSet::default();
        let part_of: Vec<usize> = positions.iter().map(|(part, _)| parts.insert(*part)).collect();
        let offsets: Vec<PartOffsets<'_>> = match parts.values() {
            [one] => vec![self.offsets(*one).await?],
            several => {
                let mut all = Vec::with_capacity(several.len());
                for some in several.chunks(GATHER_WINDOW) {
                    let loads = some.iter().map(|part| self.offsets(*part));
                    all.extend(futures::future::try_join_all(loads).await?);
                }
                all
            }
        };

        let range = |((part, vertex), of): (&(u64, u64), &usize)| {
            let rows = offsets.get(*of).map(|offsets| offsets.of(*vertex));
            Ok((*part, rows.transpose()?.unwrap_or_default()))
        };
        positions.iter().zip(&part_of).map(range).collect()
    }
}

/// Gathers rows of chunks whose first column is the neighbour. `name` returns a chunk's name for errors.
fn gather(
    schema: &SchemaRef,
    chunks: &[Columns],
    runs: &[NeighborRun],
    name: &dyn Fn(usize) -> String,
) -> Result<RecordBatch> {
    let rows: usize = runs.iter().map(|run| run.rows.len()).sum();
    let mut positions: Vec<u32> = Vec::with_capacity(rows);
    let mut neighbors: Vec<i64> = Vec::with_capacity(rows);
    let ends: Vec<&[i64]> = chunks
        .iter()
        .map(|columns| columns.first().and_then(|array| array.as_primitive_opt::<Int64Type>()))
        .map(|array| array.map_or(&[][..], |array| array.values()))
        .collect();

    for run in runs {
        let found = ends.get(run.chunk).and_then(|values| values.get(run.rows.clone()));
        let found = found.ok_or_else(|| offsets_beyond_end(run, name))?;
        neighbors.extend_from_slice(found);
        positions.resize(positions.len() + found.len(), run.position);
    }

    let mut arrays: Vec<ArrayRef> =
        vec![Arc::new(UInt32Array::from(positions)), Arc::new(Int64Array::from(neighbors))];
    for (at, field) in schema.fields().iter().enumerate().skip(2) {
        let columns: Vec<&ArrayRef> = chunks.iter().filter_map(|columns| columns.get(at - 1)).collect();
        arrays.push(rows_of(&columns, runs, rows, field.data_type(), name)?);
    }

    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(gathering)
}

fn rows_of(
    columns: &[&ArrayRef],
    runs: &[NeighborRun],
    rows: usize,
    data_type: &DataType,
    name: &dyn Fn(usize) -> String,
) -> Result<ArrayRef> {
    if columns.is_empty() || rows == 0 {
        return Ok(arrow::array::new_empty_array(data_type));
    }

    let data: Vec<_> = columns.iter().map(|column| column.to_data()).collect();
    let mut made = MutableArrayData::new(data.iter().collect(), false, rows);
    for run in runs {
        let is_there = data.get(run.chunk).is_some_and(|data| run.rows.end <= data.len());
        if !is_there {
            return Err(offsets_beyond_end(run, name));
        }
        made.try_extend(run.chunk, run.rows.start, run.rows.end).map_err(gathering)?;
    }

    Ok(make_array(made.freeze()))
}

fn offsets_beyond_end(run: &NeighborRun, name: &dyn Fn(usize) -> String) -> Error {
    let reason = format!("offsets lead to row {}, past its end", run.rows.end);
    Error::Data { file: name(run.chunk), reason }
}
