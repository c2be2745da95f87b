//! Reader of vertices of one type: some of their properties, and some of the vertices.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array},
    buffer::BooleanBuffer,
    compute::{concat_batches, filter_record_batch, interleave, take_record_batch},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};
use async_recursion::async_recursion as boxed;
use futures::{Stream, StreamExt, TryStreamExt};
use smallvec::SmallVec;
use stylobate_columnar::{Columns, Predicate, RowFilter};

use super::{
    ahead::ahead,
    columns::{INDEX, gathering},
    distinct::InsertionOrderSet,
    vertex_table::{PropertyColumnIndex, VertexTable},
};
use crate::{Error, Result};

/// Chunks read concurrently.
const MAX_CONCURRENT_CHUNKS: usize = 4;
/// Chunks whose rows are gathered at a time: bounds the memory beyond the cache.
const GATHER_WINDOW: usize = 64;

/// View of the vertices of one type: all of them, or those that pass a filter and labels. Cheap to create and to
/// clone; clones share what they read.
#[derive(Clone)]
pub struct Vertices {
    table: Arc<VertexTable>,
    selected: SmallVec<[PropertyColumnIndex; 4]>,
    filter: Option<Arc<BoundVertexFilter>>,
    labels: Option<Arc<BoundLabelFilter>>,
}

struct BoundVertexFilter {
    rows: RowFilter,
    predicate: Predicate,
    /// Properties that the predicate reads.
    columns: Vec<PropertyColumnIndex>,
}

/// Filter of vertices by labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelFilter {
    /// Vertices with at least one of these labels.
    Any(Vec<String>),
    /// Vertices with all of these labels.
    All(Vec<String>),
}

struct BoundLabelFilter {
    positions: Vec<usize>,
    all: bool,
}

/// Whole chunk of vertices, as cached.
#[derive(Clone, Debug)]
pub struct VertexChunk {
    /// Index of the first vertex.
    pub first: u64,
    /// Number of vertices.
    pub rows: usize,
    /// Selected properties, one array each.
    pub columns: Columns,
}

impl Vertices {
    pub(super) fn new(table: Arc<VertexTable>) -> Self {
        let groups = table.info().groups.iter().enumerate();
        let selected = groups.flat_map(|(group, of)| {
            (1..=of.properties.len()).map(move |column| PropertyColumnIndex { group, column })
        });
        let selected = selected.collect();
        Self { table, selected, filter: None, labels: None }
    }

    /// Selects these properties, in this order.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchProperty`].
    pub fn select<N: AsRef<str>>(mut self, properties: impl IntoIterator<Item = N>) -> Result<Self> {
        let columns = properties.into_iter().map(|name| self.table.property(name.as_ref()));
        self.selected = columns.collect::<Result<_>>()?;
        Ok(self)
    }

    /// Keeps vertices that satisfy the predicate, which may read properties that are not selected. A second filter
    /// narrows the first.
    ///
    /// # Errors
    ///
    /// [`Error::Columnar`] if it names an unknown property, or does not fit the type of one.
    pub fn filter(mut self, predicate: &Predicate) -> Result<Self> {
        let predicate = match &self.filter {
            None => predicate.clone(),
            Some(filter) => filter.predicate.clone().and(predicate.clone()),
        };
        let schema = self.table.schema();
        let rows = RowFilter::new(&predicate, schema)?;
        let names = rows.columns().into_iter().map(|at| self.table.property(schema.field(at).name()));
        let columns = names.collect::<Result<_>>()?;
        self.filter = Some(Arc::new(BoundVertexFilter { rows, columns, predicate }));
        Ok(self)
    }

    /// Keeps vertices with these labels.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchLabel`].
    pub fn labels(mut self, wanted: &LabelFilter) -> Result<Self> {
        let (names, all) = match wanted {
            LabelFilter::Any(names) => (names, false),
            LabelFilter::All(names) => (names, true),
        };
        let positions = names.iter().map(|name| self.table.label(name)).collect::<Result<_>>()?;
        self.labels = Some(Arc::new(BoundLabelFilter { positions, all }));
        Ok(self)
    }

    /// Returns the name of the type.
    pub fn vertex_type(&self) -> &str {
        &self.table.info().vertex_type
    }

    /// Returns the number of vertices, regardless of the filter.
    pub async fn count(&self) -> Result<u64> {
        self.table.count().await
    }

    /// Returns the number of vertices per chunk; the last may have fewer.
    pub fn chunk_size(&self) -> u64 {
        self.table.info().chunk_size
    }

    /// Returns the schema of batches: `_graphArVertexIndex`, then the selected properties.
    pub fn schema(&self) -> SchemaRef {
        let index: FieldRef = Arc::new(Field::new(INDEX, DataType::Int64, false));
        let groups = &self.table.info().groups;
        let properties = self.selected.iter().filter_map(|selected| {
            let property = groups.get(selected.group)?.properties.get(selected.column - 1)?;
            Some(super::columns::readable(property))
        });
        Arc::new(Schema::new(std::iter::once(index).chain(properties).collect::<Vec<_>>()))
    }

    /// Returns a whole chunk with the selected properties, regardless of the filter: from the cache without a copy, or
    /// read and decoded once for all concurrent callers.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if there is no such chunk; [`Error::Missing`] and [`Error::Data`] if its files are missing
    /// or inconsistent.
    #[inline]
    pub async fn chunk(&self, chunk: u64) -> Result<VertexChunk> {
        match self.cached_chunk(chunk) {
            Some(found) => Ok(found),
            None => self.load_chunk(chunk).await,
        }
    }

    /// Returns [`Self::chunk`] if all of it is cached.
    #[inline]
    pub fn cached_chunk(&self, chunk: u64) -> Option<VertexChunk> {
        let count = self.table.known_count()?;
        let first = chunk.checked_mul(self.chunk_size())?;
        let rows = count.checked_sub(first).filter(|rest| *rest > 0)?.min(self.chunk_size()) as usize;
        let mut columns = Columns::new();
        for column in &self.selected {
            columns.push(self.table.cached(chunk, *column)?);
        }
        Some(VertexChunk { first, rows, columns })
    }

    #[boxed]
    async fn load_chunk(&self, chunk: u64) -> Result<VertexChunk> {
        let rows = self.table.chunk_rows(chunk, self.table.count().await?)? as usize;
        let columns = self.table.load(chunk, &self.selected).await?;
        Ok(VertexChunk { first: chunk * self.chunk_size(), rows, columns })
    }

    /// Returns the vertices of a chunk that pass the filter and the labels; `None` for all.
    #[boxed]
    pub async fn passing(&self, chunk: u64) -> Result<Option<BooleanBuffer>> {
        let mut passing = None;
        if let Some(filter) = &self.filter {
            let columns = self.table.load(chunk, &filter.columns).await?;
            let rows = self.table.chunk_rows(chunk, self.table.count().await?)? as usize;
            passing = Some(filter.rows.passing(&columns, rows)?);
        }
        if let Some(labels) = &self.labels {
            let of_labels = self.labelled(labels, chunk).await?;
            passing = Some(match passing {
                None => of_labels,
                Some(passing) => &passing & &of_labels,
            });
        }

        Ok(passing)
    }

    async fn labelled(&self, labels: &BoundLabelFilter, chunk: u64) -> Result<BooleanBuffer> {
        let rows = self.table.chunk_rows(chunk, self.table.count().await?)? as usize;
        let mut has = self.table.labels(chunk, &labels.positions).await?.into_iter();
        let Some(first) = has.next() else {
            return Ok(if labels.all {
                BooleanBuffer::new_set(rows)
            } else {
                BooleanBuffer::new_unset(rows)
            });
        };
        Ok(has.fold(first, |one, other| if labels.all { &one & &other } else { &one | &other }))
    }

    /// Streams the vertices that pass the filter and the labels, in order: one batch per chunk, with their indexes
    /// first.
    pub fn stream(&self) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        self.stream_range(0..u64::MAX)
    }

    /// Streams like [`Self::stream`], restricted to a range of indexes; indexes without a vertex are skipped.
    pub fn stream_range(&self, range: Range<u64>) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        let view = self.clone();
        let chunks = async move {
            let count = view.count().await?;
            if range.end >= count {
                view.table.check_end().await?;
            }
            let end = range.end.min(count);
            let first = range.start.min(end) / view.chunk_size();
            let chunks = first..end.div_ceil(view.chunk_size()).max(first);
            let range = range.start.min(end)..end;
            let read = move |chunk| {
                let view = view.clone();
                let range = range.clone();
                ahead(async move { view.rows_of(chunk, range).await })
            };

            Ok::<_, Error>(futures::stream::iter(chunks).map(read).buffered(MAX_CONCURRENT_CHUNKS))
        };

        let batches = futures::stream::once(chunks).try_flatten();
        batches.try_filter(|batch| std::future::ready(batch.num_rows() > 0))
    }

    async fn rows_of(&self, chunk: u64, range: Range<u64>) -> Result<RecordBatch> {
        let passing = self.passing(chunk).await?;
        if passing.as_ref().is_some_and(|passing| passing.count_set_bits() == 0) {
            return Ok(RecordBatch::new_empty(self.schema()));
        }
        let VertexChunk { first, rows, columns } = self.chunk(chunk).await?;
        let indexes = Int64Array::from_iter_values(first as i64..first as i64 + rows as i64);
        let arrays = std::iter::once(Arc::new(indexes) as ArrayRef).chain(columns).collect();
        let batch = batch(self.schema(), arrays, rows)?;
        let start = range.start.saturating_sub(first).min(rows as u64) as usize;
        let end = range.end.saturating_sub(first).min(rows as u64) as usize;
        let batch = batch.slice(start, end.saturating_sub(start));

        match passing {
            None => Ok(batch),
            Some(passing) => {
                let passing = BooleanArray::from(passing.slice(start, batch.num_rows()));
                filter_record_batch(&batch, &passing).map_err(gathering)
            }
        }
    }

    /// Returns the vertices with these indexes, in this order and with repetitions, regardless of the filter.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for an index without a vertex.
    #[boxed]
    pub async fn take(&self, indexes: &[i64]) -> Result<RecordBatch> {
        let count = self.count().await?;
        let mut chunks = InsertionOrderSet::default();
        let mut rows = Vec::with_capacity(indexes.len());
        for index in indexes {
            let outside = || Error::OutOfRange {
                of: format!("vertices of type {}", self.vertex_type()),
                index: *index,
                count,
            };
            let index = u64::try_from(*index).ok().filter(|index| *index < count).ok_or_else(outside)?;
            let chunk = chunks.insert(index / self.chunk_size());
            rows.push((chunk, (index % self.chunk_size()) as usize));
        }

        if chunks.values().len() > GATHER_WINDOW {
            self.take_by_chunk(indexes, chunks.values(), &rows).await
        } else {
            self.gather(indexes, chunks.values(), &rows).await
        }
    }

    /// Takes rows from a bounded number of chunks at a time, so that each chunk is read once regardless of the order of
    /// the indexes.
    async fn take_by_chunk(
        &self,
        indexes: &[i64],
        chunks: &[u64],
        rows: &[(usize, usize)],
    ) -> Result<RecordBatch> {
        let mut by_chunk: Vec<(usize, &(usize, usize))> = rows.iter().enumerate().collect();
        by_chunk.sort_by_key(|(_, (chunk, _))| *chunk);
        let mut taken = Vec::new();
        for (window, rows) in
            by_chunk.chunk_by(|(_, (a, _)), (b, _)| a / GATHER_WINDOW == b / GATHER_WINDOW).enumerate()
        {
            let indexes: Vec<i64> = rows.iter().filter_map(|(at, _)| indexes.get(*at).copied()).collect();
            let first = window * GATHER_WINDOW;
            let rows: Vec<_> = rows.iter().map(|(_, (chunk, row))| (chunk - first, *row)).collect();
            let chunks = chunks.get(first..).unwrap_or_default();
            let chunks = chunks.get(..GATHER_WINDOW).unwrap_or(chunks);
            taken.push(self.gather(&indexes, chunks, &rows).await?);
        }

        let taken = concat_batches(&self.schema(), &taken).map_err(gathering)?;
        let mut indices = vec![0_u64; by_chunk.len()];
        for (position, (at, _)) in by_chunk.iter().enumerate() {
            if let Some(to) = indices.get_mut(*at) {
                *to = position as u64;
            }
        }

        take_record_batch(&taken, &UInt64Array::from(indices)).map_err(gathering)
    }

    async fn gather(&self, indexes: &[i64], chunks: &[u64], rows: &[(usize, usize)]) -> Result<RecordBatch> {
        let loads = chunks.iter().map(|chunk| self.chunk(*chunk));
        let loaded: Vec<VertexChunk> = match chunks {
            [one] => vec![self.chunk(*one).await?],
            _ => futures::future::try_join_all(loads).await?,
        };

        let schema = self.schema();
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(indexes.to_vec()))];
        for (at, field) in schema.fields().iter().skip(1).enumerate() {
            let of: Vec<&dyn Array> =
                loaded.iter().filter_map(|chunk| chunk.columns.get(at)).map(AsRef::as_ref).collect();
            arrays.push(if of.is_empty() {
                arrow::array::new_empty_array(field.data_type())
            } else {
                interleave(&of, rows).map_err(gathering)?
            });
        }

        batch(schema, arrays, indexes.len())
    }
}

fn batch(schema: SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(gathering)
}
