//! Assigns scans to nodes by the value of a partition folder where an operator requires it, so that no exchange is
//! needed.
//!
//! Without this rule, a table in folders such as `day=2024-01-31` is exchanged between nodes to group, join or number
//! its rows by day, although no file has rows of two days.

use std::sync::Arc;

use datafusion::{
    common::{
        JoinType, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    datasource::source::DataSourceExec,
    physical_expr::{Distribution, PhysicalExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        filter::FilterExec,
        joins::{HashJoinExec, PartitionMode},
        projection::ProjectionExec,
        replace_children_if_necessary,
    },
};

use super::{leaf::named_scan, nodes::QueryNodes};
use crate::tables::source::ScanSource;

/// Partitions scans by the values of partition folders. Must run before `EnsureRequirements`, which adds exchanges.
///
/// A scan is partitioned this way if an operator above requires the partitioning, and if there are at least as
/// many values as partitions on all nodes: with fewer, some partitions would always be empty. Sources that only
/// one node can read are left alone.
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
        // The nodes may have changed by the time of the run: the number only decides whether there are enough
        // values.
        let workers = self.nodes.workers().len();
        if workers < 2 {
            return Ok(plan);
        }

        let min_values = workers.saturating_mul(config.execution.target_partitions);
        let partitioned = plan.transform_down(|node| {
            let mut children: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
            let mut is_changed = false;
            for (child, keys) in children.iter_mut().zip(required_keys(&node)) {
                if let Some(partitioned) = self.partitioned_by_one_of(child, &keys, min_values)? {
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

impl FolderPartitions {
    /// Returns the plan with its scan partitioned by the first of the keys for which that is possible; `None` if
    /// there is none, or if the scan is already partitioned by one of them.
    fn partitioned_by_one_of(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        keys: &[Arc<dyn PhysicalExpr>],
        min_values: usize,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let columns: Vec<usize> = keys.iter().filter_map(column_index).collect();
        let found: Vec<_> = columns.iter().filter_map(|column| scan_column(plan, *column)).collect();
        if found.iter().any(|(scan, position)| scan.partition_column_position() == Some(*position)) {
            return Ok(None);
        }

        for column in columns {
            let Some((scan, position)) = scan_column(plan, column) else { continue };
            let names = scan.table.source_names().unwrap_or_default();
            if !names.iter().all(|name| self.nodes.is_shared(name)) {
                continue;
            }
            if let Some(scan) = scan.partitioned_by(position, min_values)? {
                return with_scan(plan, column, DataSourceExec::from_data_source(scan)).map(Some);
            }
        }
        Ok(None)
    }
}

/// Returns the scan that a column, by position, is read from, and the column's position there; `None` if other
/// nodes cannot open it, or if an operator in between may change the column's values, or the partition of a row.
fn scan_column(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(&ScanSource, usize)> {
    if let Some((scan, _)) = named_scan(plan) {
        return Some((scan, column));
    }
    let (child, column) = input_column(plan, column)?;
    scan_column(plan.children().get(child)?, column)
}

/// Returns the plan with another scan in place of the one that a column, by position, is read from.
fn with_scan(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    scan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some((child, column)) = input_column(plan, column) else { return Ok(scan) };
    let mut children: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
    if let Some(child) = children.get_mut(child) {
        *child = with_scan(child, column, scan)?;
    }
    replace_children_if_necessary(plan.clone(), children)
}

/// Returns the child whose column an operator returns unchanged, and its position there, given the position in the
/// output. The operator's rows are in the partitions of that child.
fn input_column(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(usize, usize)> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return Some((0, column_index(&projection.expr().get(column)?.expr)?));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let projection = filter.projection().as_ref();
        return Some((0, projection.map_or(Some(column), |columns| columns.get(column).copied())?));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        // Grouping sets return nulls in place of some values of their keys.
        let groups = Some(aggregate.group_expr()).filter(|groups| !groups.has_grouping_set())?;
        return Some((0, column_index(&groups.expr().get(column)?.0)?));
    }

    // Each task has all rows of the left side.
    let join = plan.downcast_ref::<HashJoinExec>()?;
    let is_broadcast = *join.partition_mode() == PartitionMode::CollectLeft;
    if !is_broadcast || *join.join_type() != JoinType::Inner {
        return None;
    }
    let column = join.projection.as_ref().map_or(Some(column), |columns| columns.get(column).copied())?;
    let right = column.checked_sub(join.left().schema().fields().len())?;
    Some((1, right))
}

/// Returns the position of the column that an expression returns unchanged.
fn column_index(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}
