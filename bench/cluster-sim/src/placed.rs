//! Homes of stripes: how evenly bytes are spread, and which stripes move when the view changes.

use std::{collections::HashMap, ops::Range};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use stylobate_client::{ClusterNode, ClusterView, NodeAddresses, NodeId, NodeState, NodeWeight};

use crate::{objects::ObjectSet, parallel::run_jobs};

/// Objects per job.
const JOB_OBJECTS: usize = 50_000;

/// Returns a node.
pub(crate) fn node(name: &str, weight: u64) -> Result<ClusterNode> {
    let node = ClusterNode::new(NodeId::new(name)?, NodeAddresses::default());
    Ok(node.with_weight(NodeWeight::new(weight)?))
}

/// Returns a view of `count` nodes whose weights cycle through `weights`.
pub(crate) fn view_of(count: usize, weights: &[u64]) -> Result<ClusterView> {
    let weights = weights.iter().cycle();
    let nodes: Result<Vec<_>> =
        (0..count).zip(weights).map(|(number, weight)| node(&format!("node-{number}"), *weight)).collect();
    Ok(ClusterView::new(nodes?)?)
}

/// The home of each stripe in one view, as the number of the node among [`ClusterView::nodes`].
pub(crate) struct Homes(Vec<u16>);

impl Homes {
    /// Computes the home of each stripe.
    pub(crate) fn of(view: &ClusterView, objects: &ObjectSet, threads: usize) -> Result<Self> {
        let ids = view.nodes().iter().map(|node| node.id().as_str());
        let numbers: HashMap<&str, u16> = ids.zip(0..).collect();
        let home_of = |key| view.home(key).and_then(|home| numbers.get(home.id().as_str()));

        let jobs = run_jobs(threads, objects.len().div_ceil(JOB_OBJECTS), |job| {
            let stripes = objects.stripes_of(job_range(job, objects.len()));
            let homes: Option<Vec<u16>> = stripes.map(|stripe| home_of(stripe.key).copied()).collect();
            homes.context("no node is up")
        })?;
        Ok(Self(jobs.concat()))
    }

    /// Returns the home of a stripe.
    pub(crate) fn home(&self, stripe: u32) -> usize {
        usize::from(self.0[stripe as usize])
    }
}

/// Returns the range of objects of a job.
fn job_range(job: usize, len: usize) -> Range<usize> {
    let start = job * JOB_OBJECTS;
    start..len.min(start + JOB_OBJECTS)
}

/// Distribution of bytes over nodes.
#[derive(Serialize)]
pub(crate) struct Balance {
    pub(crate) nodes: usize,
    pub(crate) stripes_per_node: f64,
    /// Bytes of the fullest node, relative to its weight, over the mean.
    pub(crate) max: f64,
    /// Bytes of the emptiest node, relative to its weight, over the mean.
    pub(crate) min: f64,
}

/// Computes the distribution of bytes, relative to weights.
pub(crate) fn balance(view: &ClusterView, objects: &ObjectSet, homes: &Homes) -> Balance {
    let nodes = view.nodes();
    let mut bytes = vec![0; nodes.len()];
    for stripe in objects.stripes_of(0..objects.len()) {
        bytes[homes.home(stripe.number)] += stripe.bytes;
    }

    let total_weight: f64 = nodes.iter().map(|node| f64::from(node.weight().get())).sum();
    let per_weight = objects.bytes() as f64 / total_weight;
    let ratios = nodes.iter().zip(&bytes);
    let ratios = ratios.map(|(node, bytes)| *bytes as f64 / (per_weight * f64::from(node.weight().get())));
    let (min, max) = ratios.fold((f64::MAX, 0.0_f64), |(min, max), ratio| (min.min(ratio), max.max(ratio)));
    let stripes_per_node = objects.stripe_count() as f64 / nodes.len() as f64;
    Balance { nodes: nodes.len(), stripes_per_node, max, min }
}

/// A view change that affects one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeChange {
    /// A node of weight 1 joins.
    Join,
    /// A node is removed from the list.
    Leave,
    /// A node drains.
    Drain,
    /// The weight of a node becomes 2.
    Double,
}

impl NodeChange {
    pub(crate) const ALL: [Self; 4] = [Self::Join, Self::Leave, Self::Drain, Self::Double];

    /// Returns the view after the change, and the id of the node that changed.
    fn apply(self, view: &ClusterView) -> Result<(ClusterView, NodeId)> {
        let nodes = view.nodes();
        let chosen = nodes.get(nodes.len() / 2).context("a view has nodes")?;
        let others = nodes.iter().filter(|node| node.id() != chosen.id()).cloned();
        let added = match self {
            Self::Join => {
                let joined = node("joined", 1)?;
                let id = joined.id().clone();
                return Ok((ClusterView::new(nodes.iter().cloned().chain([joined]))?, id));
            }
            Self::Leave => None,
            Self::Drain => Some(chosen.clone().with_state(NodeState::Draining)),
            Self::Double => Some(chosen.clone().with_weight(NodeWeight::new(2)?)),
        };
        Ok((ClusterView::new(others.chain(added))?, chosen.id().clone()))
    }

    /// Returns the minimum share of bytes that must move, for `nodes` nodes of weight 1.
    fn min_moved_share(self, nodes: f64) -> f64 {
        match self {
            Self::Join => 1.0 / (nodes + 1.0),
            Self::Leave | Self::Drain => 1.0 / nodes,
            Self::Double => 2.0 / (nodes + 1.0) - 1.0 / nodes,
        }
    }

    /// Returns whether a stripe may move between these homes.
    fn explains(self, changed: &NodeId, from: &NodeId, to: &NodeId) -> bool {
        match self {
            Self::Join | Self::Double => to == changed,
            Self::Leave | Self::Drain => from == changed,
        }
    }
}

/// The bytes that a view change moves.
#[derive(Serialize)]
pub(crate) struct Movement {
    pub(crate) nodes: usize,
    pub(crate) change: NodeChange,
    pub(crate) moved_share: f64,
    /// Minimum share of bytes that must move to restore the nodes' shares.
    pub(crate) least_share: f64,
}

/// Computes what a change moves among the first `len` objects.
///
/// Fails if a stripe moves between two nodes that did not change, or if its donor is not its former home.
pub(crate) fn movement(
    view: &ClusterView,
    change: NodeChange,
    objects: &ObjectSet,
    homes: &Homes,
    (len, threads): (usize, usize),
) -> Result<Movement> {
    let (after, changed) = change.apply(view)?;
    let jobs = run_jobs(threads, len.div_ceil(JOB_OBJECTS), |job| {
        let mut bytes = 0;
        let mut moved_bytes = 0;
        for stripe in objects.stripes_of(job_range(job, len)) {
            bytes += stripe.bytes;
            let from = view.nodes()[homes.home(stripe.number)].id();
            let to = after.home(stripe.key).context("no node is up")?.id();
            if from == to {
                continue;
            }

            moved_bytes += stripe.bytes;
            let is_explained = change.explains(&changed, from, to);
            ensure!(is_explained, "{change:?} of {changed} moved a stripe from {from} to {to}");
            let donor = after.donor(Some(view), stripe.key).map(ClusterNode::id);
            ensure!(donor == Some(from), "the donor of a stripe that moved from {from} to {to} is {donor:?}");
        }
        Ok((bytes, moved_bytes))
    })?;

    let bytes: u64 = jobs.iter().map(|(bytes, _)| bytes).sum();
    let moved_bytes: u64 = jobs.iter().map(|(_, moved)| moved).sum();
    let nodes = view.nodes().len();
    Ok(Movement {
        nodes,
        change,
        moved_share: moved_bytes as f64 / bytes as f64,
        least_share: change.min_moved_share(nodes as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_moves_about_what_it_must() {
        let objects = ObjectSet::new(20_000, 1).unwrap();
        let view = view_of(5, &[1]).unwrap();
        let homes = Homes::of(&view, &objects, 2).unwrap();
        for change in NodeChange::ALL {
            let found = movement(&view, change, &objects, &homes, (objects.len(), 1)).unwrap();
            let difference = (found.moved_share - found.least_share).abs();
            assert!(difference < 0.02, "{change:?}: {} {}", found.moved_share, found.least_share);
        }
    }

    #[test]
    fn balance_is_relative_to_weights() {
        let objects = ObjectSet::new(50_000, 1).unwrap();
        let view = view_of(3, &[1, 2, 4]).unwrap();
        let found = balance(&view, &objects, &Homes::of(&view, &objects, 1).unwrap());
        assert!(found.max < 1.1 && found.min > 0.9, "{} {}", found.max, found.min);
    }
}
