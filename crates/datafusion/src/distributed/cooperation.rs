//! Makes joins yield to other tasks, so that a query that is dropped ends.
//!
//! Scans yield after some batches. A join can make any number of batches of one: an operator above it that takes all of
//! them, such as an aggregation, would not return to the runtime before it has seen the last one.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, coop::CooperativeExec},
};

/// Operators that make several batches of one.
const MULTIPLYING: [&str; 6] = [
    "CrossJoinExec",
    "HashJoinExec",
    "NestedLoopJoinExec",
    "PiecewiseMergeJoinExec",
    "SortMergeJoinExec",
    "UnnestExec",
];

/// Adds a step above each join that yields when the task used up its share of time. Runs after all other rules.
#[derive(Debug)]
pub(super) struct CooperativeJoins;

impl PhysicalOptimizerRule for CooperativeJoins {
    fn name(&self) -> &'static str {
        "cooperative_joins"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let cooperative = plan.transform_up(|plan| {
            if MULTIPLYING.contains(&plan.name()) {
                return Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan)) as _));
            }
            Ok(Transformed::no(plan))
        })?;
        Ok(cooperative.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
