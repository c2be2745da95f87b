//! Makes joins let other tasks run, and end when the reader of their query is gone.
//!
//! A join may work on one batch for minutes, since it multiplies rows. tokio cannot preempt a task, so signals,
//! timers and other queries would have to wait. This planner changes plans with joins:
//!
//! - The plan runs in a separate task ([`Yields::Task`]). The thread that reads rows only waits.
//! - Joins and their probe sides return to the runtime after a while ([`Yields::Slices`]).
//! - Filters of joins, which are evaluated for a few thousand pairs of rows at a time, hand the other tasks of their
//!   thread to another thread, and fail once the reader is gone ([`YieldingFilter`]).
//!
//! EXPLAIN shows plans without these nodes.

use std::{
    cell::Cell,
    fmt::{self, Debug, Display, Formatter},
    hash::{Hash, Hasher},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{DataType, FieldRef, Schema, SchemaRef},
    },
    catalog::Session,
    common::{
        Result, Statistics,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    error::DataFusionError,
    execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext, context::QueryPlanner},
    logical_expr::{ColumnarValue, LogicalPlan},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
        ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
        coalesce_partitions::CoalescePartitionsExec,
        joins::{
            CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
            PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec, utils::JoinFilter,
        },
        replace_children_if_necessary,
        stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter},
    },
    physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner},
};
use futures::{Stream, StreamExt};
use stylobate_storage::traced;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Time slice after which a task returns to the runtime, which checks timers and signals once per 61 tasks.
const TASK_SLICE: Duration = Duration::from_millis(2);
/// Time slice after which a thread that evaluates filters hands its other tasks to another thread.
const THREAD_SLICE: Duration = Duration::from_millis(20);
/// Number of batches that a query may be ahead of its reader.
const BATCHES_AHEAD: usize = 2;

/// Plans queries as DataFusion does, with joins that let other tasks run.
#[derive(Debug)]
pub(crate) struct YieldingPlanner;

#[async_trait]
impl QueryPlanner for YieldingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        with_yielding_joins(DefaultPhysicalPlanner::default().create_physical_plan(plan, session).await?)
    }
}

/// Changes the joins of a plan. A plan without joins is unchanged.
fn with_yielding_joins(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let readers = Arc::new(Readers::default());
    let changed = plan.transform_up(|node| yielding_join(node, &readers))?;
    if !changed.transformed {
        return Ok(changed.data);
    }

    let mut input = changed.data;
    if input.output_partitioning().partition_count() > 1 {
        input = Arc::new(CoalescePartitionsExec::new(input));
    }
    let properties = input.properties().clone();
    Ok(YieldingExec::over(input, properties, Yields::Task(readers)))
}

/// Changes a join, its filter and its probe side. The new nodes reuse the original properties objects, so that their
/// parents keep the filters that they share with scans.
fn yielding_join(
    node: Arc<dyn ExecutionPlan>,
    readers: &Arc<Readers>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let join: Arc<dyn ExecutionPlan> = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        join.builder().with_filter(yielding_filter(join.filter(), readers)).build_exec()?
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let builder = NestedLoopJoinExecBuilder::from(join);
        Arc::new(builder.with_filter(yielding_filter(join.filter(), readers)).build()?)
    } else if is_other_join(&node) {
        node.clone()
    } else {
        return Ok(Transformed::no(node));
    };

    let mut children: Vec<_> = join.children().into_iter().cloned().collect();
    if let Some(probe_side) = children.last_mut() {
        let properties = probe_side.properties().clone();
        *probe_side = YieldingExec::over(probe_side.clone(), properties, Yields::Slices);
    }
    let join = replace_children_if_necessary(join, children)?;
    Ok(Transformed::yes(YieldingExec::over(join, node.properties().clone(), Yields::Slices)))
}

fn is_other_join(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<CrossJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<SymmetricHashJoinExec>()
        || node.is::<PiecewiseMergeJoinExec>()
}

fn yielding_filter(filter: Option<&JoinFilter>, readers: &Arc<Readers>) -> Option<JoinFilter> {
    let filter = filter?;
    let condition = YieldingFilter { condition: filter.expression().clone(), readers: readers.clone() };
    Some(JoinFilter::new(Arc::new(condition), filter.column_indices().to_vec(), filter.schema().clone()))
}

/// The number of streams that read a plan.
#[derive(Debug, Default)]
struct Readers(AtomicUsize);

impl Readers {
    fn are_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A stream that reads a plan, counted until it is dropped.
struct Reader(Arc<Readers>);

impl Reader {
    fn of(readers: &Arc<Readers>) -> Self {
        readers.0.fetch_add(1, Ordering::Relaxed);
        Self(readers.clone())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a stream in a task of the current runtime, which is aborted when the returned stream is dropped.
pub(crate) fn in_task(
    schema: SchemaRef,
    begin: impl FnOnce() -> Result<SendableRecordBatchStream> + Send + 'static,
) -> SendableRecordBatchStream {
    let mut receiver = RecordBatchReceiverStream::builder(schema, BATCHES_AHEAD);
    let send = receiver.tx();
    receiver.spawn(traced(async move {
        let mut batches = begin()?;
        while let Some(batch) = batches.next().await {
            let is_last = batch.is_err();
            if send.send(batch).await.is_err() || is_last {
                break;
            }
        }
        Ok(())
    }));
    receiver.build()
}

/// A node that forwards the batches of its input, and lets other tasks run.
#[derive(Debug)]
struct YieldingExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    yields: Yields,
}

/// The way in which a node lets other tasks run.
#[derive(Clone, Debug)]
enum Yields {
    /// The root of a plan: runs it in a separate task, which is aborted when the stream is dropped.
    Task(Arc<Readers>),
    /// A join or its probe side: its stream returns to the runtime after [`TASK_SLICE`].
    Slices,
}

impl YieldingExec {
    fn over(
        input: Arc<dyn ExecutionPlan>,
        properties: Arc<PlanProperties>,
        yields: Yields,
    ) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { input, properties, yields })
    }
}

impl DisplayAs for YieldingExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for YieldingExec {
    fn name(&self) -> &'static str {
        "YieldingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = only_child(children)?;
        let properties = input.properties().clone();
        Ok(Self::over(input, properties, self.yields.clone()))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match &self.yields {
            Yields::Slices => {
                let input = self.input.execute(partition, context)?;
                Ok(Box::pin(YieldingStream { input, since: None }))
            }
            Yields::Task(readers) => {
                let reader = Reader::of(readers);
                let input = self.input.clone();
                let batches = in_task(self.schema(), move || input.execute(partition, context));
                let batches = batches.map(move |batch| {
                    let _open = &reader;
                    batch
                });
                Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
            }
        }
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let unknown = || Arc::new(Statistics::new_unknown(&self.schema()));
        Ok(inputs.first().cloned().unwrap_or_else(unknown))
    }
}

fn only_child(mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    match (children.pop(), children.is_empty()) {
        (Some(child), true) => Ok(child),
        _ => Err(DataFusionError::Internal("a node has one child".to_owned())),
    }
}

/// Forwards batches, and returns `Pending` once per [`TASK_SLICE`].
struct YieldingStream {
    input: SendableRecordBatchStream,
    /// Time of the first poll since it last returned `Pending`.
    since: Option<Instant>,
}

impl Stream for YieldingStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.since.get_or_insert_with(Instant::now).elapsed() > TASK_SLICE {
            self.since = None;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }

        let polled = self.input.poll_next_unpin(context);
        if polled.is_pending() {
            self.since = None;
        }
        polled
    }
}

impl RecordBatchStream for YieldingStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// The filter of a join, evaluated with yields.
struct YieldingFilter {
    condition: Arc<dyn PhysicalExpr>,
    readers: Arc<Readers>,
}

/// Hands the other tasks of this thread to another thread, unless it has done so within [`THREAD_SLICE`].
fn let_other_tasks_run() {
    thread_local! {
        static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    if LAST.get().is_some_and(|last| last.elapsed() < THREAD_SLICE) {
        return;
    }
    LAST.set(Some(Instant::now()));

    let runtime = Handle::try_current();
    if runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread) {
        tokio::task::block_in_place(|| ());
    }
}

impl PhysicalExpr for YieldingFilter {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.readers.are_gone() {
            return Err(DataFusionError::Execution("the query was stopped".to_owned()));
        }
        let_other_tasks_run();
        self.condition.evaluate(batch)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.pop().unwrap_or_else(|| self.condition.clone());
        Ok(Arc::new(Self { condition, readers: self.readers.clone() }))
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

impl Display for YieldingFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.condition, f)
    }
}

impl Debug for YieldingFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.condition, f)
    }
}

impl PartialEq for YieldingFilter {
    fn eq(&self, other: &Self) -> bool {
        self.condition.as_ref() == other.condition.as_ref()
    }
}

impl Eq for YieldingFilter {}

impl Hash for YieldingFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.as_ref().hash(state);
    }
}
