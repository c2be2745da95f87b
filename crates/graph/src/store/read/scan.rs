//! All vertices or edges of a type, batch by batch, or those that a filter leaves.

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

/// What a scan reads, keeps and hands out.
struct StoreScanPlan {
    /// All columns that are read: those of the filter behind those that are handed out.
    schema: SchemaRef,
    /// So many columns are handed out.
    shown: Vec<usize>,
    filter: Option<(RowFilter, Vec<usize>)>,
}

impl StoreScanPlan {
    /// `own` columns come first and are handed out always.
    fn new(
        of: &str,
        own: Vec<FieldRef>,
        all: &[FieldRef],
        columns: Option<&[&str]>,
        predicate: Option<&Predicate>,
    ) -> Result<(Self, Arc<[FieldRef]>)> {
        let mut fields = pick(of, all, columns)?.to_vec();
        let shown = (0..own.len() + fields.len()).collect();
        let mut filter = None;
        if let Some(predicate) = predicate {
            let whole = Schema::new(own.iter().chain(all).cloned().collect::<Vec<_>>());
            let bound = RowFilter::new(predicate, &whole)?;
            let places = bound.columns().into_iter().map(|column| match column.checked_sub(own.len()) {
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
            let places = places.collect();
            filter = Some((bound, places));
        }
        let schema = Arc::new(Schema::new(own.into_iter().chain(fields.iter().cloned()).collect::<Vec<_>>()));
        Ok((Self { schema, shown, filter }, fields.into()))
    }

    /// The rows that pass, of the columns that are wanted.
    fn answer(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let all = batch(&self.schema, columns, rows)?;
        let passing = match &self.filter {
            None => None,
            Some((filter, places)) => {
                let looked_at: Vec<ArrayRef> =
                    places.iter().filter_map(|at| all.columns().get(*at).cloned()).collect();
                Some(BooleanArray::from(filter.passing(&looked_at, rows)?))
            }
        };
        let shown = all.project(&self.shown).map_err(scanning)?;
        match passing {
            Some(passing) => filter_record_batch(&shown, &passing).map_err(scanning),
            None => Ok(shown),
        }
    }
}

fn scanning(source: arrow::error::ArrowError) -> crate::Error {
    arrow_error("rows of a scan", source)
}

impl Snapshot {
    /// All vertices of a type of which a filter is true: `_index`, then the properties; without a list all properties.
    /// The filter may look at others.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertexType`], [`crate::Error::NoSuchProperty`]; [`crate::Error::Columnar`] where the
    /// filter names no property, or does not fit its type.
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
        let (wanted, fields) =
            StoreScanPlan::new(&of, vec![index], &parts.state.schema.fields(), columns, predicate)?;
        let shown = Arc::new(wanted.schema.project(&wanted.shown).map_err(scanning)?);
        let selection = Arc::new(parts.select(fields));
        let wanted = Arc::new(wanted);
        let snapshot = self.clone();
        let streams = (0..parts.parts.len()).map(move |at| {
            let (parts, selection, wanted) = (parts.clone(), selection.clone(), wanted.clone());
            let pin = snapshot.clone();
            let rows = rows_of(parts.clone(), at, selection.clone());
            rows.and_then(move |(first, rows, columns)| {
                let (parts, selection, wanted, _pin) =
                    (parts.clone(), selection.clone(), wanted.clone(), pin.clone());
                async move { of_vertices(&parts, &selection, &wanted, first, (rows, columns)).await }
            })
        });
        let batches = futures::stream::iter(streams).flatten();
        Ok((shown, batches.try_filter(|batch| std::future::ready(batch.num_rows() > 0))))
    }

    /// All edges of a type of which a filter is true: `src` and `dst`, the indexes of their ends, then the properties;
    /// without a list all properties. The filter may look at others.
    ///
    /// # Errors
    ///
    /// As [`Self::scan_vertices`], with [`crate::Error::NoSuchEdgeType`].
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
        let (wanted, fields) =
            StoreScanPlan::new(&of, own.to_vec(), &parts.state.schema.fields(), columns, predicate)?;
        let shown = Arc::new(wanted.schema.project(&wanted.shown).map_err(scanning)?);
        let wanted = Arc::new(wanted);
        let snapshot = self.clone();
        let streams = (0..parts.parts.len()).map(move |at| {
            let (wanted, pin) = (wanted.clone(), snapshot.clone());
            let rows = edges_of(parts.clone(), at, fields.clone());
            rows.and_then(move |columns| {
                let (wanted, _pin) = (wanted.clone(), pin.clone());
                async move {
                    let rows = columns.first().map_or(0, Array::len);
                    wanted.answer(columns, rows)
                }
            })
        });
        let batches = futures::stream::iter(streams).flatten();
        Ok((shown, batches.try_filter(|batch| std::future::ready(batch.num_rows() > 0))))
    }
}

/// Rows of a part of vertices, deleted ones among them: the index of the first, and columns.
fn rows_of(
    parts: Arc<VertexParts>,
    at: usize,
    selection: Arc<VertexSelection>,
) -> BoxStream<'static, Result<(u64, usize, ColumnArrays)>> {
    match (parts.parts.get(at), selection.columns(at)) {
        (Some(VertexPart::Base(base)), Some(VertexPartColumns::Base(columns))) => {
            base.stream(columns).map_ok(|rows| (rows.first as u64, rows.rows, rows.columns.into())).boxed()
        }
        (Some(VertexPart::Delta(delta)), Some(VertexPartColumns::Delta(_))) => {
            let (delta, range) = (delta.clone(), delta.range());
            let whole = async move {
                let Some(VertexPartColumns::Delta(places)) = selection.columns(at) else {
                    return Ok((0, 0, ColumnArrays::new()));
                };
                let rows = delta.rows().len();
                Ok((range.start, rows, delta.rows().all(places, &selection.fields).await?))
            };
            futures::stream::once(whole).boxed()
        }
        _ => futures::stream::empty().boxed(),
    }
}

async fn of_vertices(
    parts: &VertexParts,
    selection: &VertexSelection,
    wanted: &StoreScanPlan,
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
    let columns = parts.patched(&indexes, columns, selection).await?;
    let rows = indexes.len();
    let index: ArrayRef = Arc::new(Int64Array::from(indexes));
    wanted.answer(std::iter::once(index).chain(columns).collect(), rows)
}

/// Rows of a part of edges that are there: sources, destinations, properties.
fn edges_of(
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
                let (Some(part), EdgePartColumns::Delta(places)) = (parts.parts.get(at), columns) else {
                    return Ok(Vec::new());
                };
                let found = delta.rows().all(&places, &fields).await?;
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
