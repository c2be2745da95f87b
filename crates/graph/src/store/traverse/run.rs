//! Runs prepared traversals: gathers the edges of each hop, then the output columns of the rows that remain.

use std::{pin::pin, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, UInt32Array},
    compute::take,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use async_recursion::async_recursion as boxed;
use futures::FutureExt;
use tracing::Instrument;

use super::{
    plan::{TraversalColumnSource, TraversalPlan},
    top::first_rows,
    traversal::{Traversal, TraversalTopK},
};
use crate::{
    Error, Result,
    store::{
        access::{Access, poll_once},
        delta::rows::{ColumnArrays, arrow_error},
        parts::edge_parts::EdgeBatch,
        read::vertex_view,
        snapshot::Snapshot,
        write::changes::VertexIds,
    },
};

/// Rows of one hop.
pub(crate) struct HopRows {
    /// Vertex at the end of each row.
    pub(crate) vertices: Int64Array,
    /// Row of the previous step that it continues.
    parents: Vec<u32>,
    /// Columns of the followed edges.
    columns: ColumnArrays,
}

impl Traversal {
    /// Resolves all names, for a traversal that is run more than once.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertexType`], [`crate::Error::NoSuchEdgeType`] if no edges of a hop's name lead that way,
    /// [`crate::Error::NoSuchProperty`] for unknown columns.
    #[boxed]
    pub async fn prepare(&self) -> Result<PreparedTraversal> {
        let plan = TraversalPlan::new(self).boxed().await?;
        let fields = plan.output.iter().map(|(name, source)| Field::new(name, plan.type_of(source), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let snapshot = self.snapshot.clone();
        Ok(PreparedTraversal {
            inner: Arc::new(PreparedTraversalInner {
                plan,
                top: self.top.clone(),
                schema,
                _snapshot: snapshot,
            }),
        })
    }

    /// Returns the rows, in the order of the hops or of [`Self::top`]. Runs in a single call, which does not wait if
    /// everything required is in memory.
    ///
    /// # Errors
    ///
    /// Same as [`Self::prepare`]; [`crate::Error::NoSuchVertex`] for a missing start.
    #[boxed]
    pub async fn collect(&self) -> Result<RecordBatch> {
        self.prepare().await?.run(&self.ids).await
    }
}

/// Traversal with all names resolved, to be run from any vertices of its first type. Cheap to clone.
#[derive(Clone)]
pub struct PreparedTraversal {
    inner: Arc<PreparedTraversalInner>,
}

struct PreparedTraversalInner {
    plan: TraversalPlan,
    top: Option<TraversalTopK>,
    schema: SchemaRef,
    /// Keeps the version's data alive.
    _snapshot: Snapshot,
}

impl PreparedTraversal {
    /// Returns the schema of results.
    pub fn schema(&self) -> &SchemaRef {
        &self.inner.schema
    }

    /// Returns the rows from these vertices.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertex`] and [`crate::Error::OutOfRange`] for a missing start; [`crate::Error::Missing`]
    /// and [`crate::Error::Data`] if a file is missing or inconsistent.
    pub async fn run(&self, ids: &VertexIds) -> Result<RecordBatch> {
        if let Some(answer) = self.run_cached(ids) {
            return answer;
        }
        let span = tracing::debug_span!("store_traverse", hops = self.inner.plan.hops.len());
        self.answer(Access::Loading, ids).instrument(span).boxed().await
    }

    /// Returns [`Self::run`] if everything required is in memory: no request, no decode, no wait, and no runtime.
    pub fn run_cached(&self, ids: &VertexIds) -> Option<Result<RecordBatch>> {
        poll_once(pin!(self.answer(Access::Resident, ids)))
    }

    /// Follows the hops, orders the rows by [`Traversal::top`], and reads the output columns of those that remain.
    async fn answer(&self, access: Access, ids: &VertexIds) -> Result<RecordBatch> {
        let plan = &self.inner.plan;
        let first = plan.start(access, ids).await?;
        let mut steps = Vec::with_capacity(plan.hops.len() + 1);
        steps.push(HopRows { vertices: first.into(), parents: Vec::new(), columns: ColumnArrays::new() });
        for hop in &plan.hops {
            let Some(before) = steps.last() else { break };
            let vertices = before.vertices.values();
            let gathered = hop.edges.gather(access, hop.direction, vertices).await?;
            let parents = gathered.positions();
            let EdgeBatch { found, .. } = gathered;
            steps.push(HopRows { vertices: found.neighbors, parents, columns: found.columns });
        }

        let all = steps.last().map_or(0, |step| step.vertices.len()) as u32;
        let mut rows: Vec<u32> = (0..all).collect();
        if let (Some(top), Some(by)) = (&self.inner.top, &plan.order_by) {
            let traced = traced(&steps, rows);
            let values = plan.values(access, &steps, by, &traced).await?;
            rows = first_rows(&values, top.rows, top.descending)?;
        }

        let count = rows.len();
        let traced = traced(&steps, rows);
        let steps = steps.as_slice();
        let traced = traced.as_slice();
        let sources: Vec<&TraversalColumnSource> = plan.output.iter().map(|(_, source)| source).collect();
        let columns =
            access.read_all(sources.into_iter(), |source| plan.values(access, steps, source, traced)).await?;

        vertex_view::batch(&self.inner.schema, columns.into_vec(), count)
    }
}

/// Traces each result row back through the hops: returns, for each step, the row that the result comes from.
fn traced(steps: &[HopRows], last: Vec<u32>) -> Vec<Vec<u32>> {
    let mut traced = vec![last];
    for step in steps.iter().skip(1).rev() {
        let rows = traced.last().map(Vec::as_slice).unwrap_or_default();
        let parent = |row: &u32| step.parents.get(*row as usize).copied().unwrap_or_default();
        let before = rows.iter().map(parent).collect();
        traced.push(before);
    }
    traced.reverse();
    traced
}

impl TraversalPlan {
    fn type_of(&self, source: &TraversalColumnSource) -> DataType {
        match source {
            TraversalColumnSource::Position => DataType::UInt32,
            TraversalColumnSource::Index { .. } => DataType::Int64,
            TraversalColumnSource::Edge { hop, column } => {
                let field = self.hops.get(*hop).and_then(|hop| hop.edges.fields().get(*column));
                field.map_or(DataType::Null, |field| field.data_type().clone())
            }
            TraversalColumnSource::Property { view, .. } => {
                let field = self.views.get(*view).and_then(|view| view.selection().fields.first());
                field.map_or(DataType::Null, |field| field.data_type().clone())
            }
        }
    }

    /// Reads a column for traced rows.
    async fn values(
        &self,
        access: Access,
        steps: &[HopRows],
        source: &TraversalColumnSource,
        traced: &[Vec<u32>],
    ) -> Result<ArrayRef> {
        let rows_of = |step: usize| traced.get(step).map(Vec::as_slice).unwrap_or_default();
        let vertices_of = |step: usize| -> Vec<i64> {
            let Some(known) = steps.get(step) else { return Vec::new() };
            let values = known.vertices.values();
            rows_of(step).iter().filter_map(|row| values.get(*row as usize).copied()).collect()
        };
        let column: Option<ArrayRef> = match source {
            TraversalColumnSource::Position => Some(Arc::new(UInt32Array::from(rows_of(0).to_vec()))),
            TraversalColumnSource::Index { step } => Some(Arc::new(Int64Array::from(vertices_of(*step)))),
            TraversalColumnSource::Edge { hop, column } => {
                let rows = UInt32Array::from(rows_of(hop + 1).to_vec());
                let found = steps.get(hop + 1).and_then(|step| step.columns.get(*column));
                let taken = found.map(|found| take(found, &rows, None));
                taken.transpose().map_err(|error| arrow_error("rows of a traversal", error))?
            }
            TraversalColumnSource::Property { view, step } => {
                let view = self.views.get(*view).ok_or_else(unplanned)?;
                view.columns(access, &vertices_of(*step)).await?.pop()
            }
        };

        column.ok_or_else(unplanned)
    }
}

fn unplanned() -> Error {
    Error::Ended { reason: "a column that no step of the traversal has".to_owned() }
}
