//! Plans queries for the workers of a cluster, or for this process alone if nothing else is possible.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{
        Result,
        display::{PlanType, StringifiedPlan},
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    execution::context::QueryPlanner,
    logical_expr::LogicalPlan,
    physical_plan::{
        ExecutionPlan, empty::EmptyExec, explain::ExplainExec, placeholder_row::PlaceholderRowExec,
    },
};
use datafusion_distributed::{DistributedExec, DistributedLeafExec, NetworkBoundaryExt, display_plan_ascii};

use super::nodes::RunView;
use crate::yielding::YieldingPlanner;

/// Plans for the workers in the session configuration.
#[derive(Debug)]
pub(super) struct ClusterPlanner {
    /// The planner of the crate `datafusion-distributed`.
    pub(super) distributed: Arc<dyn QueryPlanner + Send + Sync>,
}

#[async_trait]
impl QueryPlanner for ClusterPlanner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let workers = RunView::of(session.config()).map_or(0, |view| view.workers.len());
        if workers < 2 {
            return self.local(logical, session).await;
        }
        if let LogicalPlan::Explain(explain) = logical {
            let plan = self.distributed_or_local(&explain.plan, session).await?;
            return self.explained(plan, logical, session).await;
        }
        self.distributed_or_local(logical, session).await
    }
}

impl ClusterPlanner {
    async fn local(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        YieldingPlanner.create_physical_plan(logical, session).await
    }

    async fn distributed_or_local(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.distributed.create_physical_plan(logical, session).await?;
        if reads_only_what_all_can(&plan)? { Ok(plan) } else { self.local(logical, session).await }
    }

    /// Shows the stages instead of the plan that this process alone would run.
    async fn explained(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let local = self.local(logical, session).await?;
        let Some(explain) = local.downcast_ref::<ExplainExec>().filter(|_| plan.is::<DistributedExec>())
        else {
            return Ok(local);
        };

        let stages = display_plan_ascii(plan.as_ref(), false);
        let shown = explain.stringified_plans().iter().map(|shown| match shown.plan_type {
            PlanType::FinalPhysicalPlan => StringifiedPlan::new(PlanType::FinalPhysicalPlan, stages.clone()),
            _ => shown.clone(),
        });
        Ok(Arc::new(ExplainExec::new(explain.schema(), shown.collect(), explain.verbose())))
    }
}

/// Returns whether all stages that are sent to workers read only sources that every worker can open.
fn reads_only_what_all_can(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut can_all = true;
    plan.apply(|node| {
        if node.is_network_boundary() {
            for stage in node.children() {
                can_all &= is_sendable(stage)?;
            }
            return Ok(TreeNodeRecursion::Jump);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(can_all)
}

fn is_sendable(stage: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut is_sendable = true;
    stage.apply(|node| {
        let is_leaf = node.children().is_empty();
        let is_known =
            node.is::<DistributedLeafExec>() || node.is::<EmptyExec>() || node.is::<PlaceholderRowExec>();
        is_sendable &= !is_leaf || is_known;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_sendable)
}
