//! A query that is planned once and can be run any number of times, and its rows.

use std::{
    fmt,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use async_recursion::async_recursion as boxed;
use datafusion::{
    arrow::{array::RecordBatch, datatypes::SchemaRef},
    error::DataFusionError,
    execution::SendableRecordBatchStream,
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, execute_stream, stream::RecordBatchStreamAdapter},
    prelude::SessionContext,
};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

use crate::{
    error::{Error, Result},
    runtime::SharedRuntime,
    views::{plain_batch, plain_schema},
    yielding::in_task,
};

/// A planned query. It reads the file versions that its tables were opened with.
pub struct SqlQuery {
    context: SessionContext,
    plan: LogicalPlan,
    schema: SchemaRef,
    /// The plan for the first run.
    first_plan: Mutex<Option<Arc<dyn ExecutionPlan>>>,
    runtime: Arc<SharedRuntime>,
}

impl SqlQuery {
    pub(crate) async fn plan(
        context: SessionContext,
        plan: LogicalPlan,
        runtime: Arc<SharedRuntime>,
    ) -> datafusion::common::Result<Self> {
        let first_plan = context.state().create_physical_plan(&plan).await?;
        let schema = first_plan.schema();
        Ok(Self { context, plan, schema, first_plan: Mutex::new(Some(first_plan)), runtime })
    }

    /// Returns the schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the schema of the rows after [`SqlRows::without_views`].
    pub fn schema_without_views(&self) -> SchemaRef {
        plain_schema(&self.schema)
    }

    /// Returns the spill folder, if there is one.
    pub fn spill_folder(&self) -> Option<&Path> {
        self.runtime.spill_folder()
    }

    /// Starts the query. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Planning errors; see [`SqlSession::prepare`](crate::SqlSession::prepare).
    #[tracing::instrument(name = "sql_run", level = "debug", skip_all)]
    #[boxed]
    pub async fn run(&self) -> Result<SqlRows> {
        let first_plan = self.first_plan.lock().take();
        let plan = match first_plan {
            Some(plan) => plan,
            None => self.context.state().create_physical_plan(&self.plan).await?,
        };
        let rows = execute_stream(plan, self.context.task_ctx())?;
        Ok(SqlRows::new(rows, false, self.runtime.clone()))
    }
}

impl fmt::Debug for SqlQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlQuery").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The rows of a statement. Dropping the stream ends the work.
pub struct SqlRows {
    rows: SendableRecordBatchStream,
    is_explanation: bool,
    /// Keeps the spill folder until the stream is dropped.
    _runtime: Arc<SharedRuntime>,
}

impl SqlRows {
    pub(crate) fn new(
        rows: SendableRecordBatchStream,
        is_explanation: bool,
        runtime: Arc<SharedRuntime>,
    ) -> Self {
        Self { rows, is_explanation, _runtime: runtime }
    }

    /// Returns the schema of every batch; it has no columns if the statement returns no rows.
    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// Returns whether the rows are plans as text, from EXPLAIN.
    pub fn is_explanation(&self) -> bool {
        self.is_explanation
    }

    /// Runs the plan in a task of the current runtime, which buffers a few batches, so that the reading thread only
    /// waits.
    pub fn in_task(self) -> Self {
        let rows = self.rows;
        Self { rows: in_task(rows.schema(), move || Ok(rows)), ..self }
    }

    /// Casts string and binary views to plain types, including those in nested columns: few readers support views.
    pub fn without_views(self) -> Self {
        let schema = plain_schema(&self.schema());
        if schema == self.schema() {
            return self;
        }

        let target = schema.clone();
        let rows = self
            .rows
            .map(move |batch| -> Result<RecordBatch, DataFusionError> { Ok(plain_batch(&batch?, &target)?) });
        Self { rows: Box::pin(RecordBatchStreamAdapter::new(schema, rows)), ..self }
    }
}

impl Stream for SqlRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rows.poll_next_unpin(context).map(|batch| batch.map(|batch| batch.map_err(Error::from)))
    }
}

impl fmt::Debug for SqlRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlRows").field("schema", &self.schema()).finish_non_exhaustive()
    }
}
