//! Divides scans among the tasks of a stage, and routes each task to the home of the row groups that it reads.

use std::sync::Arc;

use datafusion::{
    common::{
        Result, internal_err,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    datasource::source::DataSourceExec,
    physical_plan::ExecutionPlan,
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedLeafExec, RouteTasksEvent,
    RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
};

use super::nodes::RunView;
use crate::tables::source::ScanSource;

/// Returns the scan of a leaf and the names of its sources, if other nodes can open them.
pub(super) fn named_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<(&ScanSource, &[String])> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<ScanSource>()?;
    Some((source, source.table.source_names()?))
}

/// Requests one task per worker, or a single task if the scan has one partition, since the plan above may rely on
/// that.
pub(super) fn desired_tasks(
    event: DesiredTaskCountEvent<'_>,
) -> Option<Result<DesiredTaskCountEventResponse>> {
    let (source, _) = named_scan(event.plan)?;
    let view = RunView::of(event.session_config)?;
    Some(Ok(if source.partitions > 1 {
        DesiredTaskCountEventResponse::desired(view.workers.len())
    } else {
        DesiredTaskCountEventResponse::maximum(1)
    }))
}

/// Gives each task the row groups whose home is its worker, or those of its partitions if the scan is partitioned by
/// values.
pub(super) fn divide_scan(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let (source, names) = named_scan(event.plan)?;
    let view = RunView::of(event.session_config)?;
    let tasks = event.task_count.max(1);

    // Task `i` has the partitions from `i * partitions`, as it would have of an exchange.
    let assigned = match source.hash_partitions(tasks.saturating_mul(source.partitions)) {
        Ok(assigned) => assigned,
        Err(error) => return Some(Err(error)),
    };
    let mut shares: Vec<Vec<usize>> = vec![Vec::new(); tasks];
    for (position, start) in source.scan.row_group_starts().iter().enumerate() {
        let task = match &assigned {
            Some(assigned) => assigned.get(position).map(|partition| partition / source.partitions),
            None => Some(view.worker_of(start, names, tasks)),
        };
        let Some(share) = task.and_then(|task| shares.get_mut(task)) else {
            return Some(internal_err!("a row group was assigned to no task"));
        };
        share.push(position);
    }

    let longest = shares.iter().map(Vec::len).max().unwrap_or_default();
    let partitions =
        if assigned.is_some() { source.partitions } else { source.partitions.min(longest).max(1) };
    let variants = shares.into_iter().map(|share| {
        let task = source.with_row_groups(share, partitions);
        DataSourceExec::from_data_source(task) as Arc<dyn ExecutionPlan>
    });
    let leaf = DistributedLeafExec::try_new(event.plan.clone(), variants);
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// Routes task `i` to worker `i`, and a single task to the home of most of its rows.
pub(super) fn route_tasks(event: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    let view = RunView::of(event.task_ctx.session_config())?;
    if event.task_count > 1 {
        let urls = view.workers.iter().cycle().take(event.task_count).cloned().collect();
        return Some(Ok(RouteTasksEventResponse::new(urls)));
    }

    let mut rows = vec![0; view.workers.len()];
    let visited = event.plan.apply(|node| {
        if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>()
            && let Some((source, names)) = named_scan(leaf.original())
        {
            for start in source.scan.row_group_starts() {
                if let Some(rows) = rows.get_mut(view.worker_of(&start, names, view.workers.len())) {
                    *rows += start.rows;
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if let Err(error) = visited {
        return Some(Err(error));
    }
    let (worker, max_rows) = view.workers.iter().zip(rows).max_by_key(|(_, rows)| *rows)?;
    (max_rows > 0).then(|| Ok(RouteTasksEventResponse::new(vec![worker.clone()])))
}
