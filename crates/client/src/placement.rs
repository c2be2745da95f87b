//! Weighted rendezvous hashing: ranks the nodes of a view for each stripe of each object.
//!
//! Every node draws a number for every stripe, and the best draw wins (Thaler and Ravishankar, 1998). A node that
//! joins takes keys from all others, and a node that leaves gives its keys to all others; no key moves between two
//! nodes that stay. With weights, nodes are ordered by `-log(draw) / weight`, which gives each node exactly its
//! share.
//!
//! Nodes, clients and other languages must agree forever: hashes, the logarithm and comparisons use exact integer
//! arithmetic. `docs/cluster.md` specifies them, and `tests/placement.json` pins them.

use std::{cmp::Ordering, ops::Range};

use twox_hash::XxHash3_64;

use crate::{
    node::{ClusterNode, NodeState},
    view::ClusterView,
};

/// Size of a stripe: a large object spreads over several nodes, but a row group usually has one home.
pub const STRIPE_BYTES: u64 = 64 << 20;

/// Hash of a bucket's name and a path in it: the key of placement. It does not include the object's version, since
/// the home must be found before the version is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathHash(u64);

impl PathHash {
    /// Hashes the name of a bucket, as clients use it, and the key of an object.
    pub fn of(bucket: &str, path: &str) -> Self {
        let mut bytes = Vec::with_capacity(8 + bucket.len() + path.len());
        bytes.extend_from_slice(&(bucket.len() as u64).to_le_bytes());
        bytes.extend_from_slice(bucket.as_bytes());
        bytes.extend_from_slice(path.as_bytes());
        Self(XxHash3_64::oneshot(&bytes))
    }

    /// Returns the hash as a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the key of a stripe of the object; stripes are numbered from 0.
    pub fn stripe(self, number: u64) -> StripeKey {
        StripeKey { path: self, stripe: number }
    }

    /// Returns the key of the stripe that contains the byte at `offset`.
    pub fn stripe_at(self, offset: u64) -> StripeKey {
        self.stripe(offset / STRIPE_BYTES)
    }
}

/// A stripe of an object: the unit of placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StripeKey {
    path: PathHash,
    stripe: u64,
}

impl StripeKey {
    /// Returns the number that the node draws for this stripe.
    fn draw(self, node: &ClusterNode) -> u64 {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.path.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.stripe.to_le_bytes());
        bytes[16..].copy_from_slice(&node.hash().to_le_bytes());
        XxHash3_64::oneshot(&bytes)
    }
}

/// The part of a byte range that lies in one stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripePart {
    /// Stripe number, from 0.
    pub stripe: u64,
    /// Offsets in the object.
    pub range: Range<u64>,
}

/// Splits a byte range of an object by stripes.
pub fn stripe_parts(range: Range<u64>) -> impl Iterator<Item = StripePart> {
    let stripes =
        if range.is_empty() { 0..0 } else { range.start / STRIPE_BYTES..(range.end - 1) / STRIPE_BYTES + 1 };
    stripes.map(move |stripe| {
        let start = stripe * STRIPE_BYTES;
        let end = start.saturating_add(STRIPE_BYTES);
        StripePart { stripe, range: start.max(range.start)..end.min(range.end) }
    })
}

impl ClusterView {
    /// Returns the first `count` nodes in rank for the stripe, among those that are up.
    pub fn rank(&self, key: StripeKey, count: usize) -> Vec<&ClusterNode> {
        self.best(key, count, |state| state == NodeState::Up)
    }

    /// Returns the home of the stripe: the node that owns its pages. `None` if no node is up.
    pub fn home(&self, key: StripeKey) -> Option<&ClusterNode> {
        self.rank(key, 1).pop()
    }

    /// Returns the deputy of the stripe, the second in rank, which stands in for a home that is overloaded or slow.
    pub fn deputy(&self, key: StripeKey) -> Option<&ClusterNode> {
        self.rank(key, 2).into_iter().nth(1)
    }

    /// Returns the authority of a path, the home of its stripe 0: it knows the current version of the object, and is
    /// notified of writes.
    pub fn authority(&self, path: PathHash) -> Option<&ClusterNode> {
        self.home(path.stripe(0))
    }

    /// Returns the donor: the node that may hold the pages of a stripe from an earlier view, which the home
    /// queries on a miss. This is a draining node that would otherwise be the home, or else the home in the
    /// `previous` view. `None` if that is the home itself, or is down.
    pub fn donor<'v>(&'v self, previous: Option<&'v Self>, key: StripeKey) -> Option<&'v ClusterNode> {
        let leaving = self.best(key, 1, |state| state != NodeState::Down).pop();
        if let Some(leaving) = leaving.filter(|node| node.state() == NodeState::Draining) {
            return Some(leaving);
        }

        let before = previous?.home(key)?;
        let known = self.node(before.id().as_str());
        let is_home = self.home(key).is_some_and(|home| home.id() == before.id());
        let is_down = known.is_some_and(|node| node.state() == NodeState::Down);
        // A node that is no longer in the list may still be draining.
        (!is_home && !is_down).then_some(known.unwrap_or(before))
    }

    /// Returns the first `count` nodes in rank, among those whose state is admitted.
    fn best(
        &self,
        key: StripeKey,
        count: usize,
        is_admitted: impl Fn(NodeState) -> bool,
    ) -> Vec<&ClusterNode> {
        let count = count.min(self.nodes().len());
        let mut best: Vec<Candidate<'_>> = Vec::with_capacity(count + 1);

        for node in self.nodes().iter().filter(|node| is_admitted(node.state())) {
            let draw = key.draw(node);
            let worst = best.last().filter(|_| best.len() == count);
            if worst.is_some_and(|worst| worst.rules_out(node, draw)) {
                continue;
            }

            // If all weights are equal, draws alone yield the same order.
            let distance = if self.has_one_weight() { 0 } else { distance(draw) };
            let candidate = Candidate { node, draw, distance };
            let at = best.partition_point(|other| other.rank(&candidate).is_lt());
            best.insert(at, candidate);
            best.truncate(count);
        }

        best.into_iter().map(|candidate| candidate.node).collect()
    }
}

/// A node and its draw for one stripe.
struct Candidate<'v> {
    node: &'v ClusterNode,
    draw: u64,
    distance: u64,
}

impl Candidate<'_> {
    /// Compares by distance divided by weight, then by draw, then by id; less is better.
    fn rank(&self, other: &Self) -> Ordering {
        // Distances have 39 bits and weights 16: no product overflows.
        let ours = self.distance * u64::from(other.node.weight().get());
        let theirs = other.distance * u64::from(self.node.weight().get());
        ours.cmp(&theirs)
            .then_with(|| other.draw.cmp(&self.draw))
            .then_with(|| self.node.id().cmp(other.node.id()))
    }

    /// Returns whether a node with this draw certainly ranks after this candidate, without computing its logarithm:
    /// by the draws if their weights are equal, otherwise by `-log2(x) >= 1 - x`.
    fn rules_out(&self, node: &ClusterNode, draw: u64) -> bool {
        if node.weight() == self.node.weight() {
            return draw < self.draw;
        }
        let min_distance = !draw >> 32;
        let ours = self.distance * u64::from(node.weight().get());
        min_distance * u64::from(self.node.weight().get()) > ours
    }
}

/// Returns `-log2((draw | 1) / 2^64)` in units of 2^-32: from 1 to 2^38, and never more for a larger draw.
///
/// Each squaring of the mantissa yields the next binary digit of its logarithm.
fn distance(draw: u64) -> u64 {
    let odd = draw | 1;
    let zeros = odd.leading_zeros();
    let mut mantissa = odd << zeros;
    let mut fraction: u64 = 0;
    for _ in 0..32 {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let digit = square >> 64;
        mantissa = (square >> digit) as u64;
        fraction = (fraction << 1) | digit as u64;
    }
    ((u64::from(zeros) + 1) << 32) - fraction
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::{address::NodeAddresses, node::NodeWeight};

    #[derive(Deserialize)]
    struct Pinned {
        draws: Vec<PinnedDraw>,
        distances: Vec<PinnedDistance>,
    }

    #[derive(Deserialize)]
    struct PinnedDraw {
        bucket: String,
        path: String,
        stripe: u64,
        node: String,
        draw: String,
    }

    #[derive(Deserialize)]
    struct PinnedDistance {
        draw: String,
        distance: u64,
    }

    fn pinned() -> Pinned {
        serde_json::from_str(include_str!("../tests/placement.json")).unwrap()
    }

    fn node(id: &str, weight: u64) -> ClusterNode {
        let node = ClusterNode::new(id.parse().unwrap(), NodeAddresses::default());
        node.with_weight(NodeWeight::new(weight).unwrap())
    }

    fn view(nodes: impl IntoIterator<Item = ClusterNode>) -> ClusterView {
        ClusterView::new(nodes).unwrap()
    }

    fn in_state(view: &ClusterView, id: &str, state: NodeState) -> ClusterView {
        view.clone().with_states(|node| if node.id().as_str() == id { state } else { node.state() })
    }

    #[test]
    fn draws_and_distances_never_change() {
        let Pinned { draws, distances } = pinned();
        assert!(!draws.is_empty() && !distances.is_empty());
        for PinnedDraw { bucket, path, stripe, node: id, draw } in draws {
            let key = PathHash::of(&bucket, &path).stripe(stripe);
            assert_eq!(format!("{:016x}", key.draw(&node(&id, 1))), draw, "{bucket} {path} {stripe} {id}");
        }
        for PinnedDistance { draw, distance: pinned } in distances {
            assert_eq!(distance(u64::from_str_radix(&draw, 16).unwrap()), pinned, "{draw}");
        }
    }

    #[test]
    fn a_distance_is_a_logarithm() {
        let mut before = u64::MAX;
        let mut draw: u64 = 1;
        while draw < u64::MAX / 2 {
            let exact = -(draw as f64 / 2_f64.powi(64)).log2() * 2_f64.powi(32);
            let ours = distance(draw);
            assert!((ours as f64 - exact).abs() < 16.0, "{draw}: {ours} {exact}");
            assert!(ours <= before && ours >= !draw >> 32, "{draw}");
            before = ours;
            draw = (draw + draw / 3 + 1) | 1;
        }
    }

    #[test]
    fn the_first_in_rank_are_those_of_a_full_sort() {
        for weights in [[1, 1, 1, 1], [1, 2, 3, 1000], [65_535, 65_534, 1, 7]] {
            let view = view((0..40).map(|n| node(&format!("n{n}"), weights[n % 4])));
            for stripe in 0..200 {
                let key = PathHash::of("lake", "t").stripe(stripe);
                let mut sorted: Vec<Candidate<'_>> = view
                    .nodes()
                    .iter()
                    .map(|node| Candidate { node, draw: key.draw(node), distance: distance(key.draw(node)) })
                    .collect();
                sorted.sort_by(Candidate::rank);
                let sorted: Vec<_> = sorted.into_iter().map(|candidate| candidate.node).collect();
                for count in [0, 1, 2, 7, 40, 100] {
                    assert_eq!(
                        view.rank(key, count),
                        &sorted[..count.min(40)],
                        "{weights:?} {stripe} {count}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_home_of_stripe_0_is_the_authority() {
        let view = view(["a", "b", "c"].map(|id| node(id, 1)));
        for name in 0..20 {
            let path = PathHash::of("lake", &format!("part-{name}"));
            assert_eq!(view.authority(path), view.home(path.stripe_at(STRIPE_BYTES - 1)));
            let [home, deputy] = view.rank(path.stripe(5), 2)[..] else { panic!("three nodes are up") };
            assert_eq!((view.home(path.stripe(5)), view.deputy(path.stripe(5))), (Some(home), Some(deputy)));
        }
    }

    #[test]
    fn no_node_is_home_if_none_is_up() {
        let key = PathHash::of("lake", "t").stripe(0);
        let alone = view([node("a", 1)]);
        assert!(alone.home(key).is_some() && alone.deputy(key).is_none());
        assert!(in_state(&alone, "a", NodeState::Down).home(key).is_none());
        let draining = in_state(&alone, "a", NodeState::Draining);
        assert!(draining.home(key).is_none());
        assert_eq!(draining.donor(None, key).map(|node| node.id().as_str()), Some("a"));
    }

    #[test]
    fn the_donor_is_the_previous_home() {
        let three = view(["a", "b", "c"].map(|id| node(id, 1)));
        let four = view(["a", "b", "c", "d"].map(|id| node(id, 1)));
        let mut keys = (0..).map(|stripe| PathHash::of("lake", "t").stripe(stripe));
        let key = keys.find(|key| four.home(*key).unwrap().id().as_str() == "d").unwrap();
        let before = three.home(key).unwrap().id().as_str();
        let donor = |view: &ClusterView, previous: Option<&ClusterView>| {
            view.donor(previous, key).map(|node| node.id().to_string())
        };

        assert_eq!(donor(&four, Some(&three)).as_deref(), Some(before), "d joined");
        assert_eq!(donor(&four, None), None);
        assert_eq!(donor(&four, Some(&four)), None, "its home is its previous home");
        assert_eq!(donor(&in_state(&four, before, NodeState::Down), Some(&three)), None);
        assert_eq!(donor(&three, Some(&four)).as_deref(), Some("d"), "d left, and may still answer");

        // While it drains, it is the donor, even if other nodes join and leave in the meantime.
        let draining = in_state(&four, "d", NodeState::Draining);
        assert_eq!(draining.home(key).unwrap().id().as_str(), before);
        for previous in [None, Some(&three), Some(&four), Some(&draining)] {
            assert_eq!(donor(&draining, previous).as_deref(), Some("d"));
        }

        // A home that was down gets pages that its deputy fetched in the meantime.
        let down = in_state(&four, "d", NodeState::Down);
        assert_eq!(donor(&four, Some(&down)).as_deref(), Some(before));
    }

    #[test]
    fn a_range_is_divided_by_stripes() {
        const S: u64 = STRIPE_BYTES;
        let parts = |range| stripe_parts(range).map(|part| (part.stripe, part.range)).collect::<Vec<_>>();

        assert_eq!(parts(0..0), []);
        assert_eq!(parts(S..S), []);
        assert_eq!(parts(5..6), [(0, 5..6)]);
        assert_eq!(parts(0..S), [(0, 0..S)]);
        assert_eq!(
            parts(S - 1..3 * S + 1),
            [(0, S - 1..S), (1, S..2 * S), (2, 2 * S..3 * S), (3, 3 * S..3 * S + 1)]
        );
        let last = u64::MAX / S;
        assert_eq!(parts(u64::MAX - 1..u64::MAX), [(last, u64::MAX - 1..u64::MAX)]);
    }
}
