//! Placement over views of up to 1,000 nodes: balance, movement, and results that never change.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::collections::HashMap;

use proptest::prelude::*;
use serde::Deserialize;
use stylobate_client::{
    ClusterNode, ClusterView, NodeAddresses, NodeState, NodeWeight, PathHash, RequestsInFlight, StripeKey,
};

/// Stripes per object of [`keys`].
const STRIPES: u64 = 8;

fn node(id: &str, weight: u64) -> ClusterNode {
    let node = ClusterNode::new(id.parse().unwrap(), NodeAddresses::default());
    node.with_weight(NodeWeight::new(weight).unwrap())
}

/// Returns `count` nodes with weights taken cyclically from `weights`.
fn nodes(count: usize, salt: u32, weights: &[u64]) -> Vec<ClusterNode> {
    (0..count).map(|n| node(&format!("node-{salt}-{n}"), weights[n % weights.len()])).collect()
}

fn view(nodes: impl IntoIterator<Item = ClusterNode>) -> ClusterView {
    ClusterView::new(nodes).unwrap()
}

/// Returns the keys of all stripes of some objects.
fn keys(count: usize, salt: u32) -> impl Iterator<Item = StripeKey> {
    let path = move |n: u64| PathHash::of("lake", &format!("table-{salt}/part-{n}.parquet"));
    (0..count as u64).map(move |n| path(n / STRIPES).stripe(n % STRIPES))
}

fn home(view: &ClusterView, key: StripeKey) -> &str {
    view.home(key).unwrap().id().as_str()
}

/// Returns the number of keys whose home is each node.
fn loads(view: &ClusterView, keys: impl Iterator<Item = StripeKey>) -> HashMap<&str, u64> {
    let mut loads = HashMap::new();
    for key in keys {
        *loads.entry(home(view, key)).or_default() += 1;
    }
    loads
}

fn total_weight(view: &ClusterView) -> f64 {
    view.nodes().iter().map(|node| f64::from(node.weight().get())).sum()
}

/// Returns the maximum number of keys for a node with this share, exceeded with a probability of about 10^-9.
fn max_of_share(keys: usize, share: f64) -> f64 {
    let mean = keys as f64 * share;
    mean + 6.0 * mean.sqrt() + 10.0
}

/// Checks that the keys whose homes differ between the views belong to one node, and do not exceed its share.
fn check_moves(without: &ClusterView, with: &ClusterView, id: &str, keys: impl Iterator<Item = StripeKey>) {
    let mut count = 0;
    let mut moved = 0;
    for key in keys {
        count += 1;
        if home(with, key) == id {
            moved += 1;
        } else {
            assert_eq!(home(without, key), home(with, key), "a key moved between two nodes that stay");
        }
    }
    let share = f64::from(with.node(id).unwrap().weight().get()) / total_weight(with);
    assert!(f64::from(moved) <= max_of_share(count, share), "{moved} of {count} moved, the share is {share}");
}

fn weights() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![Just(vec![1]), prop::collection::vec(1_u64..=8, 1..=5)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 8, ..ProptestConfig::default() })]

    #[test]
    fn a_join_or_a_leave_moves_the_keys_of_one_node(
        count in 1_usize..1_000, salt: u32, weights in weights(), weight in 1_u64..=8,
    ) {
        let without = nodes(count, salt, &weights);
        let with = view(without.iter().cloned().chain([node("other", weight)]));
        check_moves(&view(without), &with, "other", keys(1_000, salt));
    }

    #[test]
    fn a_node_that_drains_or_is_down_moves_its_own_keys(
        count in 2_usize..=1_000, salt: u32, weights in weights(), chosen: prop::sample::Index,
    ) {
        let up = view(nodes(count, salt, &weights));
        let id = chosen.get(up.nodes()).id().as_str().to_owned();
        for state in [NodeState::Draining, NodeState::Down] {
            let changed = up.clone().with_states(|node| {
                if node.id().as_str() == id { state } else { node.state() }
            });
            check_moves(&changed, &up, &id, keys(500, salt));

            for key in keys(500, salt).filter(|key| home(&up, *key) == id) {
                let next = up.deputy(key).unwrap().id();
                prop_assert_eq!(changed.home(key).unwrap().id(), next, "the deputy takes over");
                let donor = changed.donor(Some(&up), key).map(|node| node.id().as_str());
                let expected = (state == NodeState::Draining).then_some(id.as_str());
                prop_assert_eq!(donor, expected, "a draining node gives, one that is down does not");
            }
        }
    }

    #[test]
    fn a_larger_weight_attracts_keys_and_moves_no_others(
        count in 2_usize..=300, salt: u32, weights in weights(), chosen: prop::sample::Index, more in 1_u64..=8,
    ) {
        let before = view(nodes(count, salt, &weights));
        let id = chosen.get(before.nodes()).id().as_str().to_owned();
        let after = view(before.nodes().iter().cloned().map(|node| {
            let weight = u64::from(node.weight().get()) + if node.id().as_str() == id { more } else { 0 };
            node.with_weight(NodeWeight::new(weight).unwrap())
        }));
        for key in keys(1_000, salt) {
            let now = home(&after, key);
            prop_assert!(now == home(&before, key) || now == id);
        }
    }

    #[test]
    fn weights_matter_by_their_ratios_only(
        count in 1_usize..=100, salt: u32, weights in weights(), factor in 2_u64..=8_000,
    ) {
        let scaled: Vec<u64> = weights.iter().map(|weight| weight * factor).collect();
        let one = view(nodes(count, salt, &weights));
        let other = view(nodes(count, salt, &scaled));
        for key in keys(200, salt) {
            prop_assert_eq!(home(&one, key), home(&other, key));
        }
    }

    #[test]
    fn the_order_of_the_list_does_not_matter(
        (listed, shuffled) in (1_usize..=200, any::<u32>(), weights()).prop_flat_map(|(count, salt, weights)| {
            let listed = nodes(count, salt, &weights);
            (Just(listed.clone()), Just(listed).prop_shuffle())
        }),
    ) {
        let listed = view(listed);
        let shuffled = view(shuffled);
        prop_assert_eq!(listed.digest(), shuffled.digest());
        for key in keys(100, 0) {
            prop_assert_eq!(listed.rank(key, 3), shuffled.rank(key, 3));
        }
    }

    #[test]
    fn a_rank_has_each_node_once_and_its_head_is_a_shorter_rank(
        count in 1_usize..=1_000, salt: u32, weights in weights(), first in 0_usize..=10,
    ) {
        let view = view(nodes(count, salt, &weights));
        for key in keys(10, salt) {
            let all = view.rank(key, usize::MAX);
            prop_assert_eq!(all.len(), count);
            prop_assert_eq!(&view.rank(key, first), &all[..first.min(count)]);
            let mut ids: Vec<_> = all.iter().map(|node| node.id()).collect();
            ids.sort();
            ids.dedup();
            prop_assert_eq!(ids.len(), count);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 2, ..ProptestConfig::default() })]

    #[test]
    fn nodes_of_one_weight_have_at_most_a_tenth_more_than_the_mean(count in 2_usize..=40, salt: u32) {
        // Six standard deviations of the load of a node are a tenth of 3,600 keys.
        const KEYS_PER_NODE: usize = 3_600;
        let view = view(nodes(count, salt, &[1]));
        let loads = loads(&view, keys(count * KEYS_PER_NODE, salt));
        let max = loads.values().max().copied().unwrap_or_default();
        prop_assert!(max as f64 <= 1.1 * KEYS_PER_NODE as f64, "{} of {}", max, KEYS_PER_NODE);
    }

    #[test]
    fn each_node_has_the_share_of_its_weight(salt: u32, weights in prop::collection::vec(1_u64..=20, 2..=20)) {
        const KEYS: usize = 40_000;
        let view = view(nodes(weights.len(), salt, &weights));
        let total = total_weight(&view);
        let loads = loads(&view, keys(KEYS, salt));
        for node in view.nodes() {
            let mean = KEYS as f64 * f64::from(node.weight().get()) / total;
            let load = loads.get(node.id().as_str()).copied().unwrap_or_default() as f64;
            prop_assert!((load - mean).abs() <= 6.0 * mean.sqrt() + 10.0, "{} has {} of {}", node.id(), load, mean);
        }
    }
}

/// Tests the loads against a uniform distribution by Pearson's chi-squared statistic, which bounds the imbalance that
/// more keys would not even out.
#[test]
fn loads_of_a_thousand_nodes_are_distributed_as_random_ones() {
    const NODES: usize = 1_000;
    const KEYS: usize = 20 * NODES;
    let view = view(nodes(NODES, 0, &[1]));
    let loads = loads(&view, keys(KEYS, 0));
    let mean = KEYS as f64 / NODES as f64;
    let deviation = |node: &ClusterNode| {
        let load = loads.get(node.id().as_str()).copied().unwrap_or_default() as f64;
        (load - mean).powi(2) / mean
    };

    let statistic: f64 = view.nodes().iter().map(deviation).sum();
    let spread = (2.0 * NODES as f64).sqrt();
    assert!((statistic - NODES as f64).abs() < 6.0 * spread, "{statistic}");
}

#[derive(Deserialize)]
struct PinnedPlacement {
    path_hashes: Vec<PinnedPathHash>,
    views: Vec<PinnedView>,
    choices: Vec<PinnedChoice>,
}

/// A choice by load.
#[derive(Debug, Deserialize)]
struct PinnedChoice {
    /// Requests in flight to the first nodes in rank.
    in_flight: Vec<u64>,
    total: u64,
    nodes: u64,
    place: usize,
}

#[derive(Deserialize)]
struct PinnedPathHash {
    bucket: String,
    path: String,
    hash: String,
}

#[derive(Deserialize)]
struct PinnedView {
    name: String,
    nodes: Vec<PinnedNode>,
    digest: String,
    ranks: Vec<PinnedRank>,
}

#[derive(Deserialize)]
struct PinnedNode {
    id: String,
    weight: u64,
    state: String,
}

#[derive(Deserialize)]
struct PinnedRank {
    bucket: String,
    path: String,
    stripe: u64,
    /// Ids of the first nodes in rank; fewer than requested only if there are no more.
    rank: Vec<String>,
}

impl PinnedNode {
    fn node(&self) -> ClusterNode {
        let states = [NodeState::Up, NodeState::Draining, NodeState::Down];
        let state = states.into_iter().find(|state| state.name() == self.state).unwrap();
        node(&self.id, self.weight).with_state(state)
    }
}

/// The file was generated by another implementation of `docs/cluster.md`. Changing a result moves the pages of
/// running clusters.
#[test]
fn placement_never_changes() {
    let pinned: PinnedPlacement = serde_json::from_str(include_str!("placement.json")).unwrap();
    for PinnedPathHash { bucket, path, hash } in &pinned.path_hashes {
        assert_eq!(format!("{:016x}", PathHash::of(bucket, path).as_u64()), *hash, "{bucket} {path}");
    }

    for PinnedView { name, nodes, digest, ranks } in &pinned.views {
        let view = view(nodes.iter().map(PinnedNode::node));
        assert_eq!(view.digest().to_string(), *digest, "{name}");
        for PinnedRank { bucket, path, stripe, rank } in ranks {
            let key = PathHash::of(bucket, path).stripe(*stripe);
            let ranked = view.rank(key, rank.len().max(1));
            let ids: Vec<_> = ranked.iter().map(|node| node.id().as_str()).collect();
            assert_eq!(ids, *rank, "{name}: {bucket} {path} {stripe}");
        }
    }
}

/// Clients in other languages are checked against the same file.
#[test]
fn the_choice_by_load_is_as_specified() {
    let pinned: PinnedPlacement = serde_json::from_str(include_str!("placement.json")).unwrap();
    for choice in &pinned.choices {
        let load = RequestsInFlight { total: choice.total, nodes: choice.nodes };
        assert_eq!(load.choose(&choice.in_flight), choice.place, "{choice:?}");
    }
}
