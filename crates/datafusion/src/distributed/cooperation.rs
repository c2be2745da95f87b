//! Makes joins yield to other tasks, so that a dropped query ends.
//!
//! Scans yield after a few batches, but a join can produce any number of batches from one: an operator above it that
//! consumes all of them, such as an aggregation, would not return to the runtime before it has seen the last one.

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

/// Operators that produce several batches from one.
const MULTIPLYING: [&str; 6] = [
    "CrossJoinExec",
    "HashJoinExec",
    "NestedLoopJoinExec",
    "PiecewiseMergeJoinExec",
    "SortMergeJoinExec",
    "UnnestExec",
];

/// Adds an operator above each join that yields when the task has used up its time slice. Runs after all other rules.
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
