//! Runs a query again after a node was lost, or on this node alone if the engine cannot run its stages on others,
//! as long as no rows have been returned.

use std::time::Duration;

use datafusion::{
    arrow::array::RecordBatch,
    common::Result,
    error::DataFusionError,
    execution::{SendableRecordBatchStream, SessionState},
    logical_expr::LogicalPlan,
    physical_plan::{execute_stream, stream::RecordBatchStreamAdapter},
};
use futures::{StreamExt, future::join_all, stream};
use url::Url;

use super::{channels::lost_node, nodes::RunView, session::Distribution};
use crate::error::{LOST_NODE, innermost, one_line};

/// Maximum number of times that a query is run again.
const MAX_RERUNS: u32 = 2;
/// Pause before a query is run again.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum time for a worker to confirm that it is reachable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Error text of an engine's worker that received no plan in time.
const NO_PLAN: &str = "timed-out while waiting for the plan";

/// Part of the text of errors about a plan that contradicts itself.
const INTERNAL: &str = "Internal error";

/// A query, and its progress.
struct QueryRun {
    distribution: Distribution,
    state: SessionState,
    plan: LogicalPlan,
    /// The workers of the current run.
    workers: Vec<Url>,
    rows: SendableRecordBatchStream,
    reruns: u32,
    has_sent: bool,
}

impl Distribution {
    /// Plans a query of a prepared session and starts it. If a worker is lost before the first row was returned, the
    /// query is planned again for the remaining workers, at most twice. If a stage contradicts itself on a worker, as
    /// some windows do, the query is planned for this process alone. Dropping the stream ends the work on all nodes.
    ///
    /// # Errors
    ///
    /// Planning errors.
    pub async fn run(&self, state: SessionState, plan: LogicalPlan) -> Result<SendableRecordBatchStream> {
        let (workers, rows) = begin(self.view(), &state, &plan).await?;
        let schema = rows.schema();
        let distribution = self.clone();
        let run = QueryRun { distribution, state, plan, workers, rows, reruns: 0, has_sent: false };
        let batches = stream::try_unfold(run, |mut run| async move {
            let next = run.next().await?;
            Ok::<_, DataFusionError>(next.map(|batch| (batch, run)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed())))
    }
}

/// Plans for the workers of a view, and starts the run.
async fn begin(
    view: RunView,
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<(Vec<Url>, SendableRecordBatchStream)> {
    let workers = view.workers.clone();
    let state = Distribution::with_view(state, view)?;
    let physical = state.create_physical_plan(plan).await?;
    let rows = execute_stream(physical, state.task_ctx())?;
    Ok((workers, rows))
}

impl QueryRun {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let error = match self.rows.next().await {
                None => return Ok(None),
                Some(Ok(batch)) => {
                    self.has_sent |= batch.num_rows() > 0;
                    return Ok(Some(batch));
                }
                Some(Err(error)) => error,
            };

            // Dropping the rows ends the rest of this run on all nodes.
            let nothing = RecordBatchStreamAdapter::new(self.rows.schema(), stream::empty());
            self.rows = Box::pin(nothing);
            let lost = lost(&self.distribution, &self.workers, &error).await;
            let Some(lost) = lost else {
                if self.has_sent || self.workers.is_empty() || !root_text(&error).contains(INTERNAL) {
                    return Err(error);
                }
                // A sort leaves out columns that a filter makes constant, and a worker that is sent only the sort
                // and the window above it does not see the filter.
                tracing::warn!("a query runs on this node alone: {}", root_text(&error));
                let view = self.distribution.view().without_workers();
                (self.workers, self.rows) = begin(view, &self.state, &self.plan).await?;
                continue;
            };
            if self.has_sent {
                return Err(gave_up(&lost, "after rows were sent: run the query again"));
            }
            if self.reruns == MAX_RERUNS {
                return Err(gave_up(&lost, "and so were others before: run the query again"));
            }

            self.reruns += 1;
            tracing::warn!(run = self.reruns + 1, "a query runs again: {lost}");
            tokio::time::sleep(PAUSE).await;
            (self.workers, self.rows) = begin(self.distribution.view(), &self.state, &self.plan).await?;
        }
    }
}

/// Returns a description of the loss if a run failed because a node was lost: the error reports it, or a worker no
/// longer answers.
async fn lost(distribution: &Distribution, workers: &[Url], error: &DataFusionError) -> Option<String> {
    let channels = distribution.channels();
    let text = root_text(error);
    if let Some(node) = lost_node(&text) {
        if let Some(url) = &node {
            channels.failed(url);
        }
        return Some(text);
    }

    // A worker that was restarted does not know the plan.
    if text.contains(NO_PLAN) {
        return Some(format!("{LOST_NODE}of a task: {text}"));
    }

    let asked = workers.iter().map(|worker| channels.answers(worker, ANSWER_TIMEOUT));
    let answers = join_all(asked).await;
    let silent = workers.iter().zip(answers).find(|(_, answers)| !*answers);
    let (silent, _) = silent.filter(|_| workers.len() > 1)?;
    channels.failed(silent);
    Some(format!("{LOST_NODE}{silent}: {text}"))
}

/// Returns the text of the innermost error.
fn root_text(error: &DataFusionError) -> String {
    let text = match innermost(error) {
        DataFusionError::Execution(text) => text.clone(),
        other => other.strip_backtrace(),
    };
    one_line(&text)
}

fn gave_up(lost: &str, why: &str) -> DataFusionError {
    DataFusionError::Execution(format!("{lost}; it was lost {why}"))
}
