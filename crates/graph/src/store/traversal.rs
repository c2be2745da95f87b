//! Traversals of several hops, said first and run in one call.
//!
//! ```text
//! start ─▶ hop ─▶ hop ─▶ … ─▶ top ─▶ select
//!            rows: vertex at the end, row of the hop before, columns of the edge
//! ```
//!
//! Hops read neighbours and the columns of edges that are named. Properties of vertices are gathered for the rows that
//! are left in the end, but for the one that `top` orders by.

use arrow::{
    array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array},
    compute::take,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use futures::FutureExt;
use std::sync::Arc;

use super::{
    changes::VertexIds,
    edge_parts::Gathered,
    plan::{Place, Plan},
    rows::{Arrays, arrow_error},
    snapshot::Snapshot,
    top::first_rows,
};
use crate::{Direction, Result};

/// Rows of one hop.
pub(super) struct Step {
    /// The vertex at the end of each row.
    pub(super) vertices: Int64Array,
    /// The row of the step before that it goes on from.
    parents: Vec<u32>,
    /// Columns of the edges that were followed.
    columns: Arrays,
}

/// A hop, as it is said.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    pub(super) edge_type: String,
    pub(super) direction: Direction,
    /// Nothing where the edges say it.
    pub(super) vertex_type: Option<String>,
    pub(super) columns: Vec<String>,
    pub(super) name: Option<String>,
}

/// The rows that are left of all: the first ones by a column.
#[derive(Clone, Debug)]
pub(super) struct Top {
    pub(super) rows: usize,
    pub(super) by: String,
    pub(super) descending: bool,
}

/// Hops from some vertices on, which are followed when the traversal is collected. Cheap to make.
///
/// The vertices of each step are called by their type, and as `Person_0`, `Person_2` by their type and the number of
/// the step where several steps have it, or as [`Self::named`] says. So are edges, whose hops are numbered from 1.
/// Columns are `name` for the columns of edges that were asked for and else for the properties of the last vertices;
/// `Person.name` for properties of the vertices of any step, `Person._index` for their indexes; `LIKES.name` for a
/// column of edges.
#[derive(Clone, Debug)]
pub struct Traversal {
    pub(super) snapshot: Snapshot,
    pub(super) vertex_type: String,
    pub(super) ids: VertexIds,
    pub(super) name: Option<String>,
    pub(super) hops: Vec<Hop>,
    pub(super) top: Option<Top>,
    pub(super) selected: Option<Vec<String>>,
}

impl Snapshot {
    /// Begins a traversal at these vertices.
    pub fn start(&self, vertex_type: &str, ids: VertexIds) -> Traversal {
        Traversal {
            snapshot: self.clone(),
            vertex_type: vertex_type.to_owned(),
            ids,
            name: None,
            hops: Vec::new(),
            top: None,
            selected: None,
        }
    }
}

impl Traversal {
    /// Follows edges to the vertices that they enter. Of what type these are need only be said where edges of several
    /// types have the name.
    pub fn out<'a>(self, edge_type: &str, vertex_type: impl Into<Option<&'a str>>) -> Self {
        self.hop(Direction::Out, edge_type, vertex_type.into())
    }

    /// Follows edges back to the vertices that they leave.
    pub fn in_<'a>(self, edge_type: &str, vertex_type: impl Into<Option<&'a str>>) -> Self {
        self.hop(Direction::In, edge_type, vertex_type.into())
    }

    fn hop(mut self, direction: Direction, edge_type: &str, vertex_type: Option<&str>) -> Self {
        let (edge_type, vertex_type) = (edge_type.to_owned(), vertex_type.map(str::to_owned));
        self.hops.push(Hop { edge_type, direction, vertex_type, columns: Vec::new(), name: None });
        self
    }

    /// Columns of the edges of the last hop.
    pub fn columns<N: Into<String>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        if let Some(hop) = self.hops.last_mut() {
            hop.columns = columns.into_iter().map(Into::into).collect();
        }
        self
    }

    /// What the vertices of the last step are called.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        match self.hops.last_mut() {
            Some(hop) => hop.name = Some(name.into()),
            None => self.name = Some(name.into()),
        }
        self
    }

    /// Leaves the first rows by a column; nulls come last, and rows of equal values in the order of the hops.
    pub fn top(mut self, rows: usize, by: &str, descending: bool) -> Self {
        self.top = Some(Top { rows, by: by.to_owned(), descending });
        self
    }

    /// The columns of the answer. Default: `position`, the number of the vertex that the row began at, then the columns
    /// of edges that were asked for, then the index of the last vertex.
    pub fn select<N: Into<String>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        self.selected = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Finds everything by its name, for a traversal that is run more than once.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertexType`], [`crate::Error::NoSuchEdgeType`] where no edges of a hop's name lead that
    /// way, [`crate::Error::NoSuchProperty`] for columns that are not there.
    pub async fn prepare(&self) -> Result<PreparedTraversal> {
        let plan = Plan::new(self).await?;
        let fields = plan.shown.iter().map(|(name, place)| Field::new(name, plan.type_of(place), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let snapshot = self.snapshot.clone();
        Ok(PreparedTraversal {
            inner: Arc::new(Inner { plan, top: self.top.clone(), schema, _snapshot: snapshot }),
        })
    }

    /// The rows, in the order of the hops or as [`Self::top`] says. All of it runs in one call, and without a wait where
    /// all that is needed is in memory.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`]; [`crate::Error::NoSuchVertex`] for a start that is not there.
    pub async fn collect(&self) -> Result<RecordBatch> {
        self.prepare().await?.run(&self.ids).await
    }
}

/// A traversal of which everything was found by its name, to be run from any vertices of its first type. Cheap to clone.
#[derive(Clone)]
pub struct PreparedTraversal {
    inner: Arc<Inner>,
}

struct Inner {
    plan: Plan,
    top: Option<Top>,
    schema: SchemaRef,
    /// Keeps what the version needs.
    _snapshot: Snapshot,
}

impl PreparedTraversal {
    /// The columns of answers.
    pub fn schema(&self) -> &SchemaRef {
        &self.inner.schema
    }

    /// The rows from these vertices on.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertex`] and [`crate::Error::OutOfRange`] for a start that is not there;
    /// [`crate::Error::Missing`] and [`crate::Error::Data`] where a file is not there, or is not what it should be.
    pub async fn run(&self, ids: &VertexIds) -> Result<RecordBatch> {
        if let Some(answer) = self.run_cached(ids) {
            return answer;
        }
        let empty = || RecordBatch::new_empty(self.inner.schema.clone());
        Ok(Box::pin(self.answer(ids, false)).await?.unwrap_or_else(empty))
    }

    /// The same, if all that is needed is in memory: no request, no decode, no wait, and no runtime.
    pub fn run_cached(&self, ids: &VertexIds) -> Option<Result<RecordBatch>> {
        self.answer(ids, true).now_or_never()?.transpose()
    }

    /// With `cached` nothing where something is not in memory, and without a wait.
    async fn answer(&self, ids: &VertexIds, cached: bool) -> Result<Option<RecordBatch>> {
        let plan = &self.inner.plan;
        let Some(first) = plan.start(ids, cached).await? else { return Ok(None) };
        let mut steps = Vec::with_capacity(plan.hops.len() + 1);
        steps.push(Step { vertices: first.into(), parents: Vec::new(), columns: Arrays::new() });
        for hop in &plan.hops {
            let Some(before) = steps.last() else { break };
            let vertices = before.vertices.values();
            let gathered = match cached {
                true => match hop.edges.gather_cached(hop.direction, vertices) {
                    Some(gathered) => gathered?,
                    None => return Ok(None),
                },
                false => hop.edges.gather(hop.direction, vertices).await?,
            };
            let parents = gathered.positions();
            let Gathered { found, .. } = gathered;
            steps.push(Step { vertices: found.neighbors, parents, columns: found.columns });
        }
        let all = steps.last().map_or(0, |step| step.vertices.len()) as u32;
        let mut rows: Vec<u32> = (0..all).collect();
        if let (Some(top), Some(by)) = (&self.inner.top, &plan.by) {
            let traced = traced(&steps, rows);
            let Some(values) = plan.values(&steps, by, &traced, cached).await? else { return Ok(None) };
            rows = first_rows(&values, top.rows, top.descending)?;
        }
        let count = rows.len();
        let traced = traced(&steps, rows);
        let (steps, traced) = (steps.as_slice(), traced.as_slice());
        let places: Vec<&Place> = plan.shown.iter().map(|(_, place)| place).collect();
        let columns = places.into_iter().map(|place| plan.values(steps, place, traced, cached));
        let columns = futures::future::try_join_all(columns).await?;
        let Some(columns) = columns.into_iter().collect::<Option<Vec<ArrayRef>>>() else { return Ok(None) };
        super::vertex_view::batch(&self.inner.schema, columns, count).map(Some)
    }
}

/// For each step, which of its rows each row of the answer comes from.
fn traced(steps: &[Step], last: Vec<u32>) -> Vec<Vec<u32>> {
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

impl Plan {
    fn type_of(&self, place: &Place) -> DataType {
        match place {
            Place::Position => DataType::UInt32,
            Place::Index { .. } => DataType::Int64,
            Place::Edge { hop, column } => {
                let field = self.hops.get(*hop).and_then(|hop| hop.edges.fields().get(*column));
                field.map_or(DataType::Null, |field| field.data_type().clone())
            }
            Place::Property { view, .. } => {
                let field = self.views.get(*view).and_then(|view| view.selection().fields.first());
                field.map_or(DataType::Null, |field| field.data_type().clone())
            }
        }
    }

    /// A column for rows that were traced; with `cached` nothing where it is not in memory.
    async fn values(
        &self,
        steps: &[Step],
        place: &Place,
        traced: &[Vec<u32>],
        cached: bool,
    ) -> Result<Option<ArrayRef>> {
        let rows_of = |step: usize| traced.get(step).map(Vec::as_slice).unwrap_or_default();
        let vertices_of = |step: usize| -> Vec<i64> {
            let Some(known) = steps.get(step) else { return Vec::new() };
            let values = known.vertices.values();
            rows_of(step).iter().filter_map(|row| values.get(*row as usize).copied()).collect()
        };
        let column: Option<ArrayRef> = match place {
            Place::Position => Some(Arc::new(UInt32Array::from(rows_of(0).to_vec()))),
            Place::Index { step } => Some(Arc::new(Int64Array::from(vertices_of(*step)))),
            Place::Edge { hop, column } => {
                let rows = UInt32Array::from(rows_of(hop + 1).to_vec());
                let found = steps.get(hop + 1).and_then(|step| step.columns.get(*column));
                let taken = found.map(|found| take(found, &rows, None));
                taken.transpose().map_err(|error| arrow_error("rows of a traversal", error))?
            }
            Place::Property { view, step } => {
                let Some(view) = self.views.get(*view) else { return Ok(None) };
                let vertices = vertices_of(*step);
                match cached {
                    true => match view.columns_cached(&vertices) {
                        Some(columns) => columns?.pop(),
                        None => None,
                    },
                    false => view.columns(&vertices).await?.pop(),
                }
            }
        };
        Ok(column)
    }
}
