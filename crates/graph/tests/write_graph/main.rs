//! Written graphs, and the contents of their files.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub, reason = "a test may panic")]

mod errors;
#[path = "../../../storage/tests/support/eventually.rs"]
mod eventually;
mod formats;
mod places;
mod random;
mod read_back;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::SchemaRef,
};
use futures::stream::{self, Stream};
use stylobate_graph::{
    Result,
    graphar::{EdgeWrite, GraphWriteOptions, GraphWriter, VertexWrite},
};
use stylobate_storage::{Destination, Durability};

/// Streams batches.
fn arriving(batches: Vec<RecordBatch>) -> impl Stream<Item = Result<RecordBatch>> + Send {
    stream::iter(batches.into_iter().map(Ok))
}

/// Cuts a batch into batches of `rows` rows.
fn cut(batch: &RecordBatch, rows: usize) -> Vec<RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(rows);
    starts.map(|start| batch.slice(start, rows.min(batch.num_rows() - start))).collect()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

fn folder(folder: &tempfile::TempDir) -> Destination {
    Destination::File(folder.path().join("graph"))
}

/// Returns options of tests, which need not survive a power failure.
fn options() -> GraphWriteOptions {
    GraphWriteOptions::default().with_durability(Durability::None).with_threads(2)
}

/// Returns persons with these keys.
fn persons(keys: &[i64]) -> (VertexWrite, Vec<RecordBatch>) {
    let rows = batch(vec![("id", numbers(keys.iter().copied()))]);
    (VertexWrite::new("person", rows.schema()).with_key("id"), vec![rows])
}

/// Returns edges between these persons.
fn knows(ends: &[(i64, i64)]) -> (EdgeWrite, Vec<RecordBatch>) {
    let (sources, destinations): (Vec<i64>, Vec<i64>) = ends.iter().copied().unzip();
    let rows = batch(vec![("src", numbers(sources)), ("dst", numbers(destinations))]);
    (edges_of(rows.schema()), vec![rows])
}

fn edges_of(schema: SchemaRef) -> EdgeWrite {
    EdgeWrite::new("person", "knows", "person", schema)
}

/// Returns a writer with persons who have these keys.
async fn with_persons(destination: Destination, options: GraphWriteOptions, keys: &[i64]) -> GraphWriter {
    let mut writer = GraphWriter::create(destination, "social", options).await.unwrap();
    let (vertices, rows) = persons(keys);
    writer.vertices(vertices, arriving(rows)).await.unwrap();
    writer
}
