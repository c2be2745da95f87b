//! Finds the scans of a plan whose batches are held by operators, so that these batches are compacted.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    datasource::source::DataSourceExec,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::sort::SortExec,
        union::UnionExec,
    },
};

use super::source::ScanSource;

/// Marks the scans of a plan whose batches are held by sorts, joins and exchanges.
#[derive(Debug)]
pub(crate) struct CompactHeldBatches;

impl PhysicalOptimizerRule for CompactHeldBatches {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.apply(|node| {
            if let Some(held) = held_input(node) {
                mark_scans(held);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "compact_held_batches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the input whose batches an operator holds, if any. A sort with a limit copies the rows that it keeps.
fn held_input(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let is_sort = node.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_none());
    let holds = is_sort
        || node.is::<RepartitionExec>()
        || node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<PiecewiseMergeJoinExec>();
    node.children().first().copied().filter(|_| holds)
}

/// Marks the scans whose batches a node passes on unchanged.
fn mark_scans(node: &Arc<dyn ExecutionPlan>) {
    if let Some(leaf) = node.downcast_ref::<DataSourceExec>() {
        if let Some(source) = leaf.data_source().downcast_ref::<ScanSource>() {
            source.are_held.set();
        }
        return;
    }

    let passes_on = node.is::<ProjectionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>()
        || node.is::<RepartitionExec>()
        || node.is::<UnionExec>();
    if passes_on {
        node.children().into_iter().for_each(mark_scans);
    }
}
