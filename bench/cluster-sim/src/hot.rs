//! Load balance over the nodes while one stripe receives a fifth of all requests.
//!
//! A closed loop: each client keeps a fixed number of requests in flight, and sends the next one when one is answered.
//! A node serves its queue one request at a time, with exponential service times of mean 1.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
};

use anyhow::{Result, ensure};
use serde::Serialize;
use stylobate_client::{ClusterNode, ClusterView, RequestsInFlight};

use crate::{objects::ObjectSet, random::SimRng};

/// Share of all requests that ask for the hot stripe.
pub(crate) const HOT_SHARE: f64 = 0.2;
/// Requests that a client keeps in flight.
pub(crate) const IN_FLIGHT: usize = 64;
/// Objects that the other requests ask for.
const OTHER_OBJECTS: usize = 100_000;
/// Ticks per mean service time.
const TICKS: f64 = (1_u64 << 32) as f64;

/// The policy that picks the node for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HotPath {
    /// The home.
    Home,
    /// The home, or a deputy chosen by load.
    Shared,
    /// For the hot stripe, the node that the client is connected to, which has a copy; for others as [`Self::Shared`].
    Copy,
}

/// Load of nodes while one stripe is hot.
#[derive(Serialize)]
pub(crate) struct HotLoad {
    pub(crate) nodes: usize,
    pub(crate) path: HotPath,
    /// Requests answered by the busiest node, over the mean.
    pub(crate) max: f64,
    /// Throughput, over that of nodes that are never idle.
    pub(crate) throughput: f64,
}

/// The first nodes in rank for each requested stripe; stripe 0 is the hot one.
pub(crate) struct RankedStripes {
    nodes: usize,
    /// Nodes per stripe.
    sharers: usize,
    /// The ranks of all stripes, one stripe after another.
    ranks: Vec<usize>,
}

impl RankedStripes {
    /// Ranks the first stripes of some objects. Fails if a node is not up.
    pub(crate) fn of(view: &ClusterView, objects: &ObjectSet) -> Result<Self> {
        let numbers: HashMap<_, _> = view.nodes().iter().map(ClusterNode::id).zip(0..).collect();
        let sharers = view.nodes().len().min(RequestsInFlight::MAX_SHARERS);
        let mut ranks = Vec::new();
        for object in 0..objects.len().min(OTHER_OBJECTS) {
            for stripe in objects.stripes(object).take(1) {
                let ranked = view.rank(stripe.key, sharers);
                ensure!(ranked.len() == sharers, "all nodes must be up");
                ranks.extend(ranked.into_iter().filter_map(|node| numbers.get(node.id()).copied()));
            }
        }
        Ok(Self { nodes: view.nodes().len(), sharers, ranks })
    }

    fn len(&self) -> usize {
        self.ranks.len() / self.sharers
    }

    fn ranked(&self, stripe: usize) -> &[usize] {
        &self.ranks[stripe * self.sharers..(stripe + 1) * self.sharers]
    }
}

/// Simulates `answers` answers and measures the second half.
pub(crate) fn run_hot(stripes: &RankedStripes, path: HotPath, answers: usize, seed: u64) -> HotLoad {
    let nodes = stripes.nodes;
    let mut cluster = BusyCluster::new(stripes, path, seed);
    for _ in 0..IN_FLIGHT {
        (0..nodes).for_each(|client| cluster.send(client));
    }

    (0..answers / 2).for_each(|_| cluster.answer_next());
    let start = cluster.now;
    cluster.answered.fill(0);
    (answers / 2..answers).for_each(|_| cluster.answer_next());

    let counted = (answers - answers / 2) as f64;
    let max = cluster.answered.iter().copied().max().unwrap_or(0);
    HotLoad {
        nodes,
        path,
        max: max as f64 * nodes as f64 / counted,
        throughput: counted * TICKS / (cluster.now - start) as f64 / nodes as f64,
    }
}

/// As many clients as nodes, with their requests in flight. With [`HotPath::Copy`] the clients are the nodes.
struct BusyCluster<'s> {
    stripes: &'s RankedStripes,
    path: HotPath,
    random: SimRng,
    now: u64,
    /// The clients queued at each node, in order of arrival.
    queues: Vec<VecDeque<usize>>,
    /// The time at which each busy node completes its current request.
    next_answers: BinaryHeap<Reverse<(u64, usize)>>,
    /// Requests in flight of each client to each node.
    in_flight: Vec<u32>,
    answered: Vec<u64>,
}

impl<'s> BusyCluster<'s> {
    fn new(stripes: &'s RankedStripes, path: HotPath, seed: u64) -> Self {
        let nodes = stripes.nodes;
        Self {
            stripes,
            path,
            random: SimRng::new(seed, nodes as u64),
            now: 0,
            queues: vec![VecDeque::new(); nodes],
            next_answers: BinaryHeap::new(),
            in_flight: vec![0; nodes * nodes],
            answered: vec![0; nodes],
        }
    }

    fn send(&mut self, client: usize) {
        let node = self.choose(client);
        self.in_flight[client * self.stripes.nodes + node] += 1;
        self.queues[node].push_back(client);
        if self.queues[node].len() == 1 {
            self.begin_answer(node);
        }
    }

    fn choose(&mut self, client: usize) -> usize {
        let is_hot = self.random.unit() < HOT_SHARE;
        let stripe = if is_hot { 0 } else { 1 + self.random.below(self.stripes.len() - 1) };
        let ranked = self.stripes.ranked(stripe);
        match self.path {
            HotPath::Home => return ranked[0],
            HotPath::Copy if is_hot => return client,
            HotPath::Copy | HotPath::Shared => {}
        }

        let nodes = self.stripes.nodes;
        let own = &self.in_flight[client * nodes..(client + 1) * nodes];
        let load = RequestsInFlight { total: IN_FLIGHT as u64, nodes: nodes as u64 };
        let in_flight: Vec<u64> = ranked.iter().map(|node| u64::from(own[*node])).collect();
        ranked[load.choose(&in_flight)]
    }

    fn begin_answer(&mut self, node: usize) {
        let ticks = (self.random.exponential() * TICKS) as u64;
        self.next_answers.push(Reverse((self.now + ticks, node)));
    }

    /// Completes the next request; its client sends another one.
    fn answer_next(&mut self) {
        let Some(Reverse((time, node))) = self.next_answers.pop() else { return };
        let Some(client) = self.queues[node].pop_front() else { return };
        self.now = time;
        self.answered[node] += 1;
        self.in_flight[client * self.stripes.nodes + node] -= 1;

        if !self.queues[node].is_empty() {
            self.begin_answer(node);
        }
        self.send(client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placed::view_of;

    #[test]
    fn nodes_that_stand_in_share_what_is_hot() {
        let objects = ObjectSet::new(5_000, 1).unwrap();
        let stripes = RankedStripes::of(&view_of(20, &[1]).unwrap(), &objects).unwrap();
        let load = |path| run_hot(&stripes, path, 100_000, 1);

        // The home of the hot stripe gets a fifth of all, and a twentieth of the rest.
        let [home, shared, copy] = [HotPath::Home, HotPath::Shared, HotPath::Copy].map(load);
        assert!((home.max - 4.8).abs() < 0.3, "{}", home.max);
        assert!(shared.max < 0.35 * home.max, "{} of {}", shared.max, home.max);
        assert!(copy.max < 1.3 && copy.throughput > 0.8, "{} {}", copy.max, copy.throughput);
        assert!(home.throughput < shared.throughput && shared.throughput < copy.throughput);
    }
}
