//! Scans all vertices or edges of a type, batch by batch, or those that pass a filter.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch},
    buffer::BooleanBuffer,
    compute::{filter, filter_record_batch},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};
use async_recursion::async_recursion as boxed;
use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use stylobate_columnar::{Predicate, RowFilter};

use super::vertex_view::{batch, pick};
use crate::{
    Direction, Result,
    store::{
        access::Access,
        delta::rows::{ColumnArrays, arrow_error},
        names::INDEX,
        parts::{
            edge_part::{EdgePart, EdgePartColumns, EdgePartSource},
            edge_parts::EdgeParts,
            vertex_part::{VertexPart, VertexPartColumns},
            vertex_parts::{VertexParts, VertexSelection},
        },
        schema::{DESTINATION, SOURCE},
        snapshot::Snapshot,
    },
};

/// Columns that a scan reads, filters and returns; positions are those in `schema`.
struct StoreScanPlan {
    /// All columns that are read: the returned ones, then those of the filter.
    schema: SchemaRef,
    /// Positions of the returned columns.
    returned: Vec<usize>,
    /// The filter, and the positions of the columns that it reads.
    filter: Option<(RowFilter, Vec<usize>)>,
}

impl StoreScanPlan {
    /// Builds a plan, and returns it with the properties that it reads. The `own` columns come first and are always
    /// returned.
    fn new(
        of: &str,
        own: Vec<FieldRef>,
        all: &[FieldRef],
        columns: Option<&[&str]>,
        predicate: Option<&Predicate>,
    ) -> Result<(Self, Arc<[FieldRef]>)> {
        let mut fields = pick(of, all, columns)?.to_vec();
        let returned = (0..own.len() + fields.len()).collect();
        let mut filter = None;
        if let Some(predicate) = predicate {
            let whole = Schema::new(own.iter().chain(all).cloned().collect::<Vec<_>>());
            let bound = RowFilter::new(predicate, &whole)?;
            let positions = bound.columns().into_iter().map(|column| match column.checked_sub(own.len()) {
                None => column,
                Some(property) => {
                    let wanted = all.get(property);
                    let known = fields.iter().position(|field| Some(field) == wanted);
                    own.len()
                        + known.unwrap_or_else(|| {
                            fields.extend(wanted.cloned());
                            fields.len() - 1
                        })
                }
            });

            let positions = positions.collect();
            filter = Some((bound, positions));
        }

        let schema = Arc::new(Schema::new(own.into_iter().chain(fields.iter().cloned()).collect::<Vec<_>>()));
        Ok((Self { schema, returned, filter }, fields.into()))
    }

    /// Returns the rows that pass, with the requested columns.
    fn output(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let all = batch(&self.schema, columns, rows)?;
        let passing = match &self.filter {
            None => None,
            Some((filter, positions)) => {
                let inputs: Vec<ArrayRef> =
                    positions.iter().filter_map(|at| all.columns().get(*at).cloned()).collect();
                Some(BooleanArray::from(filter.passing(&inputs, rows)?))
            }
        };

        let returned = all.project(&self.returned).map_err(scanning)?;
        match passing {
            Some(passing) => filter_record_batch(&returned, &passing).map_err(scanning),
            None => Ok(returned),
        }
    }
}

fn scanning(source: arrow::error::ArrowError) -> crate::Error {
    arrow_error("rows of a scan", source)
}

impl Snapshot {
    /// Scans the vertices of a type that satisfy a filter. Batches have `_index`, then the properties in `columns`
    /// (default: all). The filter may read other properties.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertexType`], [`crate::Error::NoSuchProperty`]; [`crate::Error::Columnar`] if the
    /// filter names an unknown property, or does not fit the type of one.
    #[tracing::instrument(
        name = "store_scan",
        level = "debug",
        skip_all,
        fields(store = self.core().name(), version = self.version())
    )]
    #[boxed]
    pub async fn scan_vertices(
        &self,
        vertex_type: &str,
        columns: Option<&[&str]>,
        predicate: Option<&Predicate>,
    ) -> Result<(SchemaRef, impl Stream<Item = Result<RecordBatch>> + Send + use<>)> {
        let parts = self.vertex_parts(self.record().vertex_type(vertex_type)?).await?;
        let of = format!("vertices of type {vertex_type}");
        let index: FieldRef = Arc::new(Field::new(INDEX, DataType::Int64, false));
        let (plan, fields) =
            StoreScanPlan::new(&of, vec![index], &parts.state.schema.fields(), columns, predicate)?;
        let schema = Arc::new(plan.schema.project(&plan.returned).map_err(scanning)?);
        let selection = Arc::new(parts.select(fields));
        let plan = Arc::new(plan);
        let snapshot = self.clone();
        let streams = (0..parts.parts.len()).map(move |at| {
            let parts = parts.clone();
            let selection = selection.clone();
            let plan = plan.clone();
            // Keeps the version's files from garbage collection until the stream ends.
            let pin = snapshot.clone();
            let rows = vertex_rows(parts.clone(), at, selection.clone());
            rows.and_then(move |(first, rows, columns)| {
                let (parts, selection, plan, _pin) =
                    (parts.clone(), selection.clone(), plan.clone(), pin.clone());
                async move { live_vertices(&parts, &selection, &plan, first, (rows, columns)).await }
            })
        });

        let batches = futures::stream::iter(streams).flatten();
        Ok((schema, batches.try_filter(|batch| std::future::ready(batch.num_rows() > 0))))
    }

    /// Scans the edges of a type that satisfy a filter. Batches have `src` and `dst`, the indexes of their ends,
    /// then the properties in `columns` (default: all). The filter may read other properties.
    ///
    /// # Errors
    ///
    /// Same as [`Self::scan_vertices`], with [`crate::Error::NoSuchEdgeType`] for an unknown type.
    #[tracing::instrument(
        name = "store_scan",
        level = "debug",
        skip_all,
        fields(store = self.core().name(), version = self.version())
    )]
    #[boxed]
    pub async fn scan_edges(
        &self,
        edge_type: &str,
        columns: Option<&[&str]>,
        predicate: Option<&Predicate>,
    ) -> Result<(SchemaRef, impl Stream<Item = Result<RecordBatch>> + Send + use<>)> {
        let parts = self.edge_parts(self.record().edge_type(edge_type)?).await?;
        let of = format!("edges of type {}", parts.state.schema.full_name());
        let own = [SOURCE, DESTINATION].map(|name| Arc::new(Field::new(name, DataType::Int64, false)));
        let (plan, fields) =
            StoreScanPlan::new(&of, own.to_vec(), &parts.state.schema.fields(), columns, predicate)?;
        let schema = Arc::new(plan.schema.project(&plan.returned).map_err(scanning)?);
        let plan = Arc::new(plan);
        let snapshot = self.clone();
        let streams = (0..parts.parts.len()).map(move |at| {
            let plan = plan.clone();
            // Keeps the version's files from garbage collection until the stream ends.
            let pin = snapshot.clone();
            let rows = live_edges(parts.clone(), at, fields.clone());
            rows.and_then(move |columns| {
                let plan = plan.clone();
                let _pin = pin.clone();
                async move {
                    let rows = columns.first().map_or(0, Array::len);
                    plan.output(columns, rows)
                }
            })
        });

        let batches = futures::stream::iter(streams).flatten();
        Ok((schema, batches.try_filter(|batch| std::future::ready(batch.num_rows() > 0))))
    }
}

/// Streams rows of a part of vertices, including deleted ones: the index of the first, their number, and columns.
fn vertex_rows(
    parts: Arc<VertexParts>,
    at: usize,
    selection: Arc<VertexSelection>,
) -> BoxStream<'static, Result<(u64, usize, ColumnArrays)>> {
    match (parts.parts.get(at), selection.columns(at)) {
        (Some(VertexPart::Base(base)), Some(VertexPartColumns::Base(columns))) => {
            base.stream(columns).map_ok(|rows| (rows.first as u64, rows.rows, rows.columns.into())).boxed()
        }
        (Some(VertexPart::Delta(delta)), Some(VertexPartColumns::Delta(_))) => {
            let range = delta.range();
            let delta = delta.clone();
            let whole = async move {
                let Some(VertexPartColumns::Delta(positions)) = selection.columns(at) else {
                    return Ok((0, 0, ColumnArrays::new()));
                };
                let rows = delta.rows().len();
                Ok((range.start, rows, delta.rows().all(positions, &selection.fields).await?))
            };

            futures::stream::once(whole).boxed()
        }
        _ => futures::stream::empty().boxed(),
    }
}

/// Returns the batch of a scan from rows of a part: without deleted vertices, with patches, and filtered.
async fn live_vertices(
    parts: &VertexParts,
    selection: &VertexSelection,
    plan: &StoreScanPlan,
    first: u64,
    (rows, columns): (usize, ColumnArrays),
) -> Result<RecordBatch> {
    let range = first..first + rows as u64;
    let mut indexes: Vec<i64> = range.clone().map(|index| index as i64).collect();
    let mut columns = columns;
    if parts.deleted.count(&range) > 0 {
        let left = BooleanBuffer::from_iter(range.map(|index| !parts.deleted.contains(index)));
        let left = BooleanArray::from(left);
        indexes.retain(|index| !parts.deleted.contains(*index as u64));
        let kept = columns.iter().map(|column| filter(column, &left)).collect::<std::result::Result<_, _>>();
        columns = kept.map_err(scanning)?;
    }

    let columns = parts.patched(Access::Loading, &indexes, columns, selection).await?;
    let rows = indexes.len();
    let index: ArrayRef = Arc::new(Int64Array::from(indexes));
    plan.output(std::iter::once(index).chain(columns).collect(), rows)
}

/// Streams the live edges of a part: sources, destinations, properties.
fn live_edges(
    parts: Arc<EdgeParts>,
    at: usize,
    fields: Arc<[FieldRef]>,
) -> BoxStream<'static, Result<Vec<ArrayRef>>> {
    let Some(part) = parts.parts.get(at) else { return futures::stream::empty().boxed() };
    match (&part.of, part.columns(&fields)) {
        (EdgePartSource::Base(base), EdgePartColumns::Base(selection)) => {
            let rows = base.stream(Direction::Out, &selection);
            rows.and_then(move |rows| {
                let ends: [ArrayRef; 2] = [Arc::new(rows.vertices), Arc::new(rows.neighbors)];
                let columns = ends.into_iter().chain(rows.columns).collect();
                std::future::ready(match parts.parts.get(at) {
                    Some(part) => without_deleted(part, rows.first, columns),
                    None => Ok(columns),
                })
            })
            .boxed()
        }
        (EdgePartSource::Delta(delta), columns) => {
            let delta = delta.clone();
            let whole = async move {
                let (Some(part), EdgePartColumns::Delta(positions)) = (parts.parts.get(at), columns) else {
                    return Ok(Vec::new());
                };
                let found = delta.rows().all(&positions, &fields).await?;
                let ends = [delta.keys(Direction::Out), delta.neighbors(Direction::Out)];
                let ends = ends.map(|end| Arc::new(end.clone()) as ArrayRef);
                without_deleted(part, 0, ends.into_iter().chain(found).collect())
            };

            futures::stream::once(whole).boxed()
        }
        _ => futures::stream::empty().boxed(),
    }
}

fn without_deleted(part: &EdgePart, first: u64, columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    let rows = columns.first().map_or(0, Array::len) as u64;
    let deleted = part.deleted(Direction::Out);
    if deleted.count(&(first..first + rows)) == 0 {
        return Ok(columns);
    }
    let left = BooleanBuffer::from_iter((first..first + rows).map(|ordinal| !deleted.contains(ordinal)));
    let left = BooleanArray::from(left);
    columns.iter().map(|column| filter(column, &left).map_err(scanning)).collect()
}
