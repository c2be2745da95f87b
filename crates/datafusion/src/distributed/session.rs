//! Runs the queries of a session on the workers of a cluster.

use std::sync::Arc;

use datafusion::{
    common::{Result, internal_err},
    execution::{SessionState, SessionStateBuilder},
    prelude::SessionConfig,
};
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt};

use super::{
    channels::{ConnectNode, NodeChannels, PlainConnector},
    codec::ScanCodec,
    cooperation::CooperativeJoins,
    folder_partitions::FolderPartitions,
    leaf::{desired_tasks, divide_scan, route_tasks},
    nodes::{QueryNodes, RunView},
    options,
    planner::ClusterPlanner,
};
use crate::aggregate::AggregateScans;

/// Bytes of rows from other nodes to buffer, for each stage that reads them.
const BUFFERED_BYTES: usize = 8 << 20;

/// Minimum partitions of a plan: with a single one, operators would not expect rows in several partitions.
const MIN_PARTITIONS: usize = 2;

/// Name of the rule of DataFusion that adds exchanges.
const DISTRIBUTING_RULE: &str = "EnsureRequirements";

/// The workers of a cluster, for queries.
#[derive(Clone, Debug)]
pub struct Distribution {
    nodes: Arc<dyn QueryNodes>,
    channels: NodeChannels,
}

impl Distribution {
    /// Creates a distribution over workers that require neither TLS nor credentials.
    pub fn over(nodes: Arc<dyn QueryNodes>) -> Self {
        Self::connected(nodes, Arc::new(PlainConnector))
    }

    /// Creates a distribution over workers that are reached through a connector.
    pub fn connected(nodes: Arc<dyn QueryNodes>, connector: Arc<dyn ConnectNode>) -> Self {
        Self { channels: NodeChannels::new(connector, nodes.clone()), nodes }
    }

    /// Prepares a session. Must be called once; [`Self::run`] then runs its queries.
    ///
    /// # Errors
    ///
    /// If the engine rejects options of the session.
    pub fn prepare(&self, mut builder: SessionStateBuilder) -> Result<SessionStateBuilder> {
        let config = builder.config().get_or_insert_with(SessionConfig::default);
        let partitions = config.target_partitions().max(MIN_PARTITIONS);
        config.options_mut().execution.target_partitions = partitions;

        // Rows with equal keys are on one node if those with equal values of some of the keys are.
        config.options_mut().optimizer.subset_repartition_threshold = 1;

        // Plans that are sent to workers must not contain operators that exist only in this process.
        *builder.query_planner() = None;
        if let Some(rules) = builder.physical_optimizer_rules() {
            rules.retain(|rule| rule.name() != AggregateScans::NAME);
        }
        if let Some(optimizer) = builder.physical_optimizers() {
            optimizer.rules.retain(|rule| rule.name() != AggregateScans::NAME);
            let distributing = optimizer.rules.iter().position(|rule| rule.name() == DISTRIBUTING_RULE);
            let Some(distributing) = distributing else {
                return internal_err!("DataFusion has no rule {DISTRIBUTING_RULE}");
            };
            optimizer.rules.insert(distributing, Arc::new(FolderPartitions::new(self.nodes.clone())));
        }
        let mut builder = builder
            .with_physical_optimizer_rule(Arc::new(CooperativeJoins))
            .with_distributed_user_codec(ScanCodec::for_coordinator())
            .with_distributed_channel_resolver(self.channels.clone())
            .with_distributed_worker_resolver(self.view())
            .with_distributed_desired_task_count_handler(desired_tasks)
            .with_distributed_scale_up_leaf_node_handler(divide_scan)
            .with_distributed_route_tasks_handler(route_tasks)
            // Each task runs all children, so that it reads only the scans of its node.
            .with_distributed_children_isolator_unions(false)?
            .with_distributed_worker_connection_buffer_budget_bytes(BUFFERED_BYTES)?
            .with_distributed_planner();
        if let Some(distributed) = builder.query_planner().take() {
            builder = builder.with_query_planner(Arc::new(ClusterPlanner { distributed }));
        }
        Ok(builder)
    }

    pub(super) fn channels(&self) -> &NodeChannels {
        &self.channels
    }

    /// Returns the workers that are currently up.
    pub(super) fn view(&self) -> RunView {
        RunView::new(self.nodes.clone())
    }

    /// Returns a session that plans for the workers of a view.
    pub(super) fn with_view(state: &SessionState, view: RunView) -> Result<SessionState> {
        let mut state = state.clone();
        let config = state.config_mut();
        let headers = options::to_headers(config);
        config.set_distributed_passthrough_headers(headers)?;
        config.set_distributed_worker_resolver(view.clone());
        config.set_extension(Arc::new(view));
        Ok(state)
    }
}
