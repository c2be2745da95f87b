//! Tables of the vertices and edges of a graph: schemas and streams of rows.

use std::{collections::HashSet, sync::Arc};

use anyhow::{Error, Result};
use arrow::{
    array::{ArrayRef, AsArray, ListBuilder, RecordBatch, RecordBatchOptions, StringBuilder},
    buffer::BooleanBuffer,
    datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef},
};
use futures::{Stream, StreamExt, TryStreamExt, stream, stream::BoxStream};
use stylobate_graph::graphar::{EdgeInfo, Edges, Graph, LabelFilter, Vertices};

use crate::{failure::usage, graph::free_name::free_name};

/// Rows per batch: chunks may have millions of rows.
const BATCH_ROWS: usize = 1 << 16;

/// The table of a vertex type or edge type.
pub(super) struct ExportTable {
    pub(super) name: String,
    pub(super) schema: SchemaRef,
    pub(super) batches: BoxStream<'static, Result<RecordBatch>>,
}

/// Returns all tables of a graph, vertices first.
pub(super) fn tables(graph: &Graph, keys: bool, labels: bool) -> Result<Vec<ExportTable>> {
    let info = graph.info();
    let mut tables = Vec::with_capacity(info.vertices.len() + info.edges.len());
    for info in &info.vertices {
        let with = if labels { info.labels.as_slice() } else { &[] };
        tables.push(vertices(graph.vertices(&info.vertex_type)?, with)?);
    }

    for info in &info.edges {
        tables.push(edges(graph, info, keys)?);
    }

    Ok(tables)
}

/// Builds the table of a vertex type: its properties in the order of the graph file, followed by its labels.
fn vertices(view: Vertices, labels: &[String]) -> Result<ExportTable> {
    let name = view.vertex_type().to_owned();
    let mut fields: Vec<FieldRef> = view.schema().fields().iter().skip(1).cloned().collect();
    if labels.is_empty() {
        let schema = Arc::new(Schema::new(fields));
        let as_table = schema.clone();
        let batches = sliced(view.stream().map_err(Error::from)).map(move |batch| {
            let batch = batch?;
            of_columns(&as_table, batch.columns().iter().skip(1).cloned().collect(), batch.num_rows())
        });
        return Ok(ExportTable { name, schema, batches: batches.boxed() });
    }

    let mut taken: HashSet<String> = fields.iter().map(|field| field.name().clone()).collect();
    let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
    fields.push(Arc::new(Field::new(free_name("labels", &mut taken), DataType::List(item), false)));
    let schema = Arc::new(Schema::new(fields));
    let with = LabeledVertices::new(view, labels, schema.clone())?;

    Ok(ExportTable { name, schema, batches: with.batches().boxed() })
}

/// Streams vertices by chunk, with the names of their labels.
struct LabeledVertices {
    view: Vertices,
    /// The labels, each with a view of the vertices that have it.
    labels: Vec<(String, Vertices)>,
    schema: SchemaRef,
}

impl LabeledVertices {
    fn new(view: Vertices, labels: &[String], schema: SchemaRef) -> Result<Self> {
        let of = |label: &String| {
            let only = view.clone().labels(&LabelFilter::All(vec![label.clone()]))?;
            Ok((label.clone(), only))
        };
        let labels = labels.iter().map(of).collect::<Result<_>>()?;
        Ok(Self { view, labels, schema })
    }

    fn batches(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        let this = Arc::new(self);
        let chunks = async move {
            let chunks = this.view.count().await?.div_ceil(this.view.chunk_size().max(1));
            let read = move |chunk| {
                let this = this.clone();
                async move { this.chunk(chunk).await }
            };
            Ok::<_, Error>(stream::iter(0..chunks).then(read))
        };

        sliced(stream::once(chunks).try_flatten())
    }

    async fn chunk(&self, number: u64) -> Result<RecordBatch> {
        let chunk = self.view.chunk(number).await?;
        let mut have = Vec::with_capacity(self.labels.len());
        for (label, only) in &self.labels {
            have.push((label, only.passing(number).await?));
        }
        let mut columns: Vec<ArrayRef> = chunk.columns.into_vec();
        columns.push(Arc::new(named(&have, chunk.rows)));
        of_columns(&self.schema, columns, chunk.rows)
    }
}

/// Builds the list of label names for each row.
fn named(have: &[(&String, Option<BooleanBuffer>)], rows: usize) -> arrow::array::ListArray {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        for (label, rows) in have {
            if rows.as_ref().is_none_or(|rows| rows.value(row)) {
                lists.values().append_value(label);
            }
        }
        lists.append(true);
    }

    lists.finish()
}

/// Builds the table of an edge type: both ends, followed by the properties.
fn edges(graph: &Graph, info: &EdgeInfo, keys: bool) -> Result<ExportTable> {
    let view = graph.edges(&info.src_type, &info.edge_type, &info.dst_type)?;
    let ends = if keys {
        let sources = keys_of(graph, &info.src_type)?;
        let destinations = keys_of(graph, &info.dst_type)?;
        Some((sources, destinations))
    } else {
        None
    };

    let schema = edge_schema(&view, ends.as_ref());
    let chunks = sliced(view.stream().map_err(Error::from));
    let Some(ends) = ends else {
        let as_table = schema.clone();
        let batches = chunks.map(move |batch| {
            let batch = batch?;
            of_columns(&as_table, batch.columns().to_vec(), batch.num_rows())
        });
        return Ok(ExportTable { name: info.name(), schema, batches: batches.boxed() });
    };

    let shared = Arc::new((ends, schema.clone()));
    let batches = chunks.and_then(move |batch| {
        let shared = shared.clone();
        async move {
            let ((sources, destinations), schema) = &*shared;
            let mut columns = Vec::new();
            for (at, vertices) in [sources, destinations].into_iter().enumerate() {
                let found = vertices.take(batch.column(at).as_primitive::<Int64Type>().values()).await?;
                columns.extend(found.columns().iter().skip(1).cloned());
            }
            columns.extend(batch.columns().iter().skip(2).cloned());
            of_columns(schema, columns, batch.num_rows())
        }
    });

    Ok(ExportTable { name: info.name(), schema, batches: batches.boxed() })
}

/// Returns a view of the vertices of a type that contains only their primary key.
fn keys_of(graph: &Graph, vertex_type: &str) -> Result<Vertices> {
    let key = graph.info().vertex(vertex_type).and_then(|info| info.primary());
    let none = || usage(format!("vertices of type {vertex_type} have no primary key: leave out --keys"));
    Ok(graph.vertices(vertex_type)?.select([&key.ok_or_else(none)?.name])?)
}

fn edge_schema(view: &Edges, keys: Option<&(Vertices, Vertices)>) -> SchemaRef {
    let stored = view.schema();
    let properties: Vec<FieldRef> = stored.fields().iter().skip(2).cloned().collect();
    let mut taken: HashSet<String> = properties.iter().map(|field| field.name().clone()).collect();
    let key_type = |vertices: &Vertices| vertices.schema().field(1).data_type().clone();
    let (source, destination) = match keys {
        Some((sources, destinations)) => (key_type(sources), key_type(destinations)),
        None => (DataType::Int64, DataType::Int64),
    };

    let mut end = |name: &str, data_type: DataType| -> FieldRef {
        Arc::new(Field::new(free_name(name, &mut taken), data_type, keys.is_some()))
    };
    let ends = [end("src", source), end("dst", destination)];

    Arc::new(Schema::new(ends.into_iter().chain(properties).collect::<Vec<_>>()))
}

fn of_columns(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// Splits batches into smaller ones.
fn sliced(
    batches: impl Stream<Item = Result<RecordBatch>> + Send,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let slices = |batch: RecordBatch| {
        let rows = batch.num_rows();
        let starts = (0..rows).step_by(BATCH_ROWS);
        let slices = starts.map(move |start| Ok(batch.slice(start, BATCH_ROWS.min(rows - start))));
        stream::iter(slices.collect::<Vec<_>>())
    };
    batches.map_ok(slices).try_flatten()
}
