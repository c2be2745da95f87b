//! Internals for benchmarks outside this crate: reads by the asynchronous path alone.

use arrow::array::RecordBatch;
use async_recursion::async_recursion as boxed;

use crate::{
    Direction, Result,
    store::{Access, EdgeRows, EdgeView, VertexView},
};

/// Reads like [`EdgeView::of`], without trying [`EdgeView::of_cached`] first.
#[boxed]
pub async fn edges_async(view: &EdgeView, direction: Direction, vertex: i64) -> Result<EdgeRows> {
    let gathered = view.gather(Access::Loading, direction, &[vertex]).await?;
    Ok(gathered.found.into())
}

/// Reads like [`EdgeView::expand`].
#[boxed]
pub async fn expand_async(view: &EdgeView, direction: Direction, vertices: &[i64]) -> Result<RecordBatch> {
    let gathered = view.gather(Access::Loading, direction, vertices).await?;
    view.expanded(gathered)
}

/// Reads like [`VertexView::take`], without trying [`VertexView::take_cached`] first.
pub async fn take_async(view: &VertexView, indexes: &[i64]) -> Result<RecordBatch> {
    let columns = view.columns(Access::Loading, indexes).await?;
    view.answer(indexes, columns)
}
