//! Zipf traces of reads through a cluster: hits, hops between nodes, and fetches from the origin.

use serde::Serialize;

use crate::{
    lru::LruCaches,
    objects::ObjectSet,
    placed::Homes,
    random::{RankSampler, SimRng},
};

/// Share of a node's cache that may hold stripes of other homes: `PEER_QUOTA_DIVISOR` of the page cache.
const COPIES_DIVISOR: u64 = 8;

/// A trace of reads of whole objects.
pub(crate) struct ReadTrace {
    reads: u32,
    stripes: Vec<TraceStripe>,
}

/// A stripe that is read.
struct TraceStripe {
    /// Index of the read, from 0.
    read: u32,
    /// Index of the stripe among all stripes.
    number: u32,
    bytes: u32,
}

impl ReadTrace {
    /// Draws objects from a Zipf distribution; low numbers are read most.
    pub(crate) fn new(objects: &ObjectSet, exponent: f64, reads: u32, seed: u64) -> Self {
        let sampler = RankSampler::new(objects.len(), exponent);
        let mut random = SimRng::new(seed, exponent.to_bits());
        let mut stripes = Vec::new();
        for read in 0..reads {
            let object = sampler.draw(&mut random);
            // A stripe has at most 64 MiB.
            let parts = objects.stripes(object);
            stripes.extend(parts.map(|part| TraceStripe {
                read,
                number: part.number,
                bytes: part.bytes as u32,
            }));
        }
        Self { reads, stripes }
    }
}

/// Routing of reads by clients and nodes.
#[derive(Clone, Copy)]
pub(crate) enum ReadPath<'h> {
    /// A read goes to any node, which caches on its own.
    Alone { nodes: usize },
    /// A client reads each stripe from its home.
    Placed { nodes: usize, homes: &'h Homes },
    /// A read goes to any node, which reads from the home and keeps copies of its answers.
    AnyNode { nodes: usize, homes: &'h Homes },
}

/// The costs of a trace.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct TraceCost {
    /// Reads of whole objects.
    pub(crate) reads: u64,
    /// Stripe reads, each from one node.
    pub(crate) stripes: u64,
    pub(crate) bytes: u64,
    /// Stripes served by another node than the one that the client asked.
    pub(crate) hops: u64,
    pub(crate) hop_bytes: u64,
    /// Stripes fetched from the origin.
    pub(crate) fetches: u64,
    pub(crate) fetched_bytes: u64,
}

impl TraceCost {
    /// Returns the share of stripes that did not come from the origin.
    pub(crate) fn hit_ratio(&self) -> f64 {
        1.0 - self.fetches as f64 / self.stripes as f64
    }

    /// Returns the share of stripes that took a hop.
    pub(crate) fn hop_ratio(&self) -> f64 {
        self.hops as f64 / self.stripes as f64
    }

    /// Returns bytes transferred between nodes per byte read.
    pub(crate) fn byte_hop_ratio(&self) -> f64 {
        self.hop_bytes as f64 / self.bytes as f64
    }

    /// Returns fetches from the origin per read of an object.
    pub(crate) fn fetches_per_read(&self) -> f64 {
        self.fetches as f64 / self.reads as f64
    }
}

/// Runs a trace through caches of `capacity` bytes in total, and counts its second half; the first half fills them.
pub(crate) fn run_trace(trace: &ReadTrace, path: ReadPath<'_>, capacity: u64, seed: u64) -> TraceCost {
    let (ReadPath::Alone { nodes } | ReadPath::Placed { nodes, .. } | ReadPath::AnyNode { nodes, .. }) = path;
    let share = capacity / nodes as u64;
    let copies_share = if matches!(path, ReadPath::AnyNode { .. }) { share / COPIES_DIVISOR } else { 0 };
    let mut own = LruCaches::new(nodes, share - copies_share);
    let mut copies = LruCaches::new(nodes, copies_share);

    let mut random = SimRng::new(seed, nodes as u64);
    let mut asked = random.below(nodes);
    let mut read = 0;
    let first_counted = trace.reads / 2;
    let mut cost = TraceCost { reads: u64::from(trace.reads - first_counted), ..TraceCost::default() };

    for stripe in &trace.stripes {
        if stripe.read != read {
            read = stripe.read;
            asked = random.below(nodes);
        }
        let bytes = u64::from(stripe.bytes);
        let counted = u64::from(read >= first_counted);
        cost.stripes += counted;
        cost.bytes += counted * bytes;

        let owner = match path {
            ReadPath::Alone { .. } => asked,
            ReadPath::Placed { homes, .. } | ReadPath::AnyNode { homes, .. } => homes.home(stripe.number),
        };
        if matches!(path, ReadPath::AnyNode { .. }) && owner != asked {
            if copies.read(asked, stripe.number, bytes) {
                continue;
            }
            cost.hops += counted;
            cost.hop_bytes += counted * bytes;
        }
        if !own.read(owner, stripe.number, bytes) {
            cost.fetches += counted;
            cost.fetched_bytes += counted * bytes;
        }
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placed::view_of;

    /// Costs of a trace on independent nodes, with placement, and through any node.
    fn costs(nodes: usize, capacity_divisor: u64) -> [TraceCost; 3] {
        let objects = ObjectSet::new(1_000, 1).unwrap();
        let homes = Homes::of(&view_of(nodes, &[1]).unwrap(), &objects, 1).unwrap();
        let trace = ReadTrace::new(&objects, 0.9, 20_000, 1);
        let capacity = objects.bytes() / capacity_divisor;
        let paths = [
            ReadPath::Alone { nodes },
            ReadPath::Placed { nodes, homes: &homes },
            ReadPath::AnyNode { nodes, homes: &homes },
        ];
        paths.map(|path| run_trace(&trace, path, capacity, 1))
    }

    #[test]
    fn a_cluster_of_one_is_one_cache() {
        let [alone, placed, any] = costs(1, 5);
        assert_eq!(alone.fetches, placed.fetches);
        assert_eq!((any.hops, placed.hops), (0, 0));
        assert!(alone.fetches > 0 && alone.hit_ratio() > 0.3);
    }

    #[test]
    fn a_cluster_fetches_less_than_nodes_alone() {
        let [alone, placed, any] = costs(5, 5);
        assert!(placed.fetches < any.fetches && any.fetches < alone.fetches);
        assert_eq!((alone.hops, placed.hops), (0, 0));
        assert!(any.hop_ratio() > 0.4 && any.hop_ratio() < 0.8, "{}", any.hop_ratio());
        assert_eq!((alone.stripes, alone.bytes), (any.stripes, any.bytes));
    }
}
