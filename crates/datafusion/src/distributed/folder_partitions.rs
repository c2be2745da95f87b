//! Reads the rows of each partition folder on one node where operators need them together.
//!
//! Without this rule, a table in folders such as `day=2024-01-31` is exchanged between nodes to group, join or number
//! its rows by day, although no file has rows of two days.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    datasource::source::DataSourceExec,
    physical_expr::{Distribution, PhysicalExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, aggregates::AggregateExec, filter::FilterExec, projection::ProjectionExec,
    },
};

use super::{leaf::named_scan, nodes::QueryNodes};

/// Partitions scans by the values of partition folders. Must run before exchanges are added.
///
/// A scan is partitioned so if an operator above requires the partitioning, and if there are at least as many values
/// as partitions on all nodes: with fewer, nodes would be idle.
#[derive(Debug)]
pub(super) struct FolderPartitions {
    nodes: Arc<dyn QueryNodes>,
}

impl FolderPartitions {
    pub(super) fn new(nodes: Arc<dyn QueryNodes>) -> Self {
        Self { nodes }
    }
}

impl PhysicalOptimizerRule for FolderPartitions {
    fn name(&self) -> &'static str {
        "folder_partitions"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let workers = self.nodes.workers().len();
        if workers < 2 {
            return Ok(plan);
        }

        let min_values = workers.saturating_mul(config.execution.target_partitions);
        let partitioned = plan.transform_down(|node| {
            let mut children: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
            let mut is_changed = false;
            for (child, keys) in children.iter_mut().zip(required_keys(&node)) {
                let partitioned = keys.iter().filter_map(|key| key.downcast_ref::<Column>()).find_map(
                    |key| partitioned_by(child, key.index(), min_values).transpose(),
                );
                if let Some(partitioned) = partitioned {
                    *child = partitioned?;
                    is_changed = true;
                }
            }
            if !is_changed {
                return Ok(Transformed::no(node));
            }
            node.with_new_children(children).map(Transformed::yes)
        })?;
        Ok(partitioned.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the keys of each child by any of which its rows may be partitioned; empty if the operator requires none.
fn required_keys(node: &Arc<dyn ExecutionPlan>) -> Vec<Vec<Arc<dyn PhysicalExpr>>> {
    // The inputs of a join need the same partitioning, by all keys.
    let max_keys = if node.children().len() > 1 { 1 } else { usize::MAX };
    let requirements = node.input_distribution_requirements().into_per_child().into_iter();
    let keys = requirements.map(|requirement| match requirement {
        Distribution::KeyPartitioned(keys) if keys.len() <= max_keys => keys,
        _ => Vec::new(),
    });
    keys.collect()
}

/// Returns the plan with the scan of an output column, by position, partitioned by the column; `None` if it is not the
/// column of partition folders, or has fewer than `min_values` distinct values.
fn partitioned_by(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    min_values: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some((source, _)) = named_scan(plan) {
        let partitioned = source.hashed_by(column, min_values)?;
        return Ok(partitioned.map(|source| DataSourceExec::from_data_source(source) as _));
    }

    let input = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        projection.expr().get(column).and_then(|projected| position(&projected.expr))
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        filter.projection().as_ref().map_or(Some(column), |projected| projected.get(column).copied())
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        aggregate.group_expr().expr().get(column).and_then(|(key, _)| position(key))
    } else {
        None
    };
    let (Some(input), [child]) = (input, plan.children().as_slice()) else { return Ok(None) };
    let Some(child) = partitioned_by(child, input, min_values)? else { return Ok(None) };
    plan.clone().with_new_children(vec![child]).map(Some)
}

fn position(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}
