//! Assigns scans to nodes by the value of a partition folder where an operator requires it, so that no exchange is
//! needed.
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
        replace_children_if_necessary,
    },
};

use super::{leaf::named_scan, nodes::QueryNodes};

/// Partitions scans by the values of partition folders. Must run before `EnsureRequirements`, which adds exchanges.
///
/// A scan is partitioned so if an operator above requires the partitioning, and if there are at least as many values as
/// partitions on all nodes: with fewer, some partitions would always be empty.
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
        // The nodes of the run may be others meanwhile: the number only decides whether there are enough values.
        let workers = self.nodes.workers().len();
        if workers < 2 {
            return Ok(plan);
        }

        let min_values = workers.saturating_mul(config.execution.target_partitions);
        let partitioned = plan.transform_down(|node| {
            let mut children: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
            let mut is_changed = false;
            for (child, keys) in children.iter_mut().zip(required_keys(&node)) {
                if let Some(partitioned) = partitioned_by_one_of(child, &keys, min_values)? {
                    *child = partitioned;
                    is_changed = true;
                }
            }
            if !is_changed {
                return Ok(Transformed::no(node));
            }
            replace_children_if_necessary(node, children).map(Transformed::yes)
        })?;
        Ok(partitioned.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns, for each child, the keys that suffice for partitioning it, each by itself; none if the operator does not
/// require it.
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

/// Returns the plan with its scan partitioned by the first of the keys for which that is possible; `None` if there is
/// none, or if the scan is already partitioned by one of them.
fn partitioned_by_one_of(
    plan: &Arc<dyn ExecutionPlan>,
    keys: &[Arc<dyn PhysicalExpr>],
    min_values: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let columns: Vec<usize> = keys.iter().filter_map(column_index).collect();
    let is_partitioned = |column: &usize| {
        scan_column(plan, *column)
            .and_then(|(scan, position)| {
                Some(named_scan(scan)?.0.partition_column_position() == Some(position))
            })
            .unwrap_or_default()
    };
    if columns.iter().any(is_partitioned) {
        return Ok(None);
    }

    for column in columns {
        let Some((scan, position)) = scan_column(plan, column) else { continue };
        let Some((source, _)) = named_scan(scan) else { continue };
        if let Some(source) = source.partitioned_by(position, min_values)? {
            return with_scan(plan, DataSourceExec::from_data_source(source)).map(Some);
        }
    }
    Ok(None)
}

/// Returns the leaf below operators with one input that return a column, by position, as it is, and the column's
/// position there; `None` if another operator is between.
fn scan_column(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(&Arc<dyn ExecutionPlan>, usize)> {
    if plan.children().is_empty() {
        return Some((plan, column));
    }

    let input = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        column_index(&projection.expr().get(column)?.expr)?
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        match filter.projection().as_ref() {
            Some(projected) => *projected.get(column)?,
            None => column,
        }
    } else {
        let aggregate = plan.downcast_ref::<AggregateExec>()?;
        // Grouping sets return nulls in place of some values of their keys.
        let groups = Some(aggregate.group_expr()).filter(|groups| !groups.has_grouping_set())?;
        column_index(&groups.expr().get(column)?.0)?
    };
    match plan.children().as_slice() {
        [child] => scan_column(child, input),
        _ => None,
    }
}

/// Returns a plan in which each operator has one input with another leaf.
fn with_scan(plan: &Arc<dyn ExecutionPlan>, scan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.children().as_slice() {
        [child] => replace_children_if_necessary(plan.clone(), vec![with_scan(child, scan)?]),
        _ => Ok(scan),
    }
}

/// Returns the position of the column that an expression returns as it is.
fn column_index(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}
