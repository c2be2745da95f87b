//! The results of the simulation, as Markdown, and the bars that they must meet.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::{
    hot::{HOT_SHARE, HotLoad, HotPath, IN_FLIGHT},
    placed::{Balance, Movement, NodeChange},
    traces::TraceCost,
};

/// Maximum bytes of a node, over the mean.
const MAX_BALANCE: f64 = 1.1;
/// Stripes per node from which [`MAX_BALANCE`] holds: with fewer, random variation alone exceeds it.
const MIN_STRIPES_PER_NODE: f64 = 10_000.0;
/// Share of bytes beyond 1/n that may move.
const MOVED_TOLERANCE: f64 = 0.01;

/// All results.
#[derive(Serialize)]
pub(crate) struct SimulationReport {
    pub(crate) seed: u64,
    pub(crate) objects: usize,
    pub(crate) large_objects: usize,
    pub(crate) stripes: usize,
    pub(crate) bytes: u64,
    pub(crate) moved_objects: usize,
    pub(crate) trace_reads: u32,
    pub(crate) equal: Vec<Balance>,
    pub(crate) weighted: Vec<Balance>,
    pub(crate) movements: Vec<Movement>,
    pub(crate) traces: Vec<TraceRow>,
    pub(crate) hot: Vec<HotLoad>,
}

/// One trace, through clusters of one size.
#[derive(Serialize)]
pub(crate) struct TraceRow {
    pub(crate) exponent: f64,
    pub(crate) cache_percent: u64,
    pub(crate) nodes: usize,
    /// One cache of the total capacity.
    pub(crate) ideal: TraceCost,
    pub(crate) placed: TraceCost,
    pub(crate) any_node: TraceCost,
    pub(crate) alone: TraceCost,
}

impl SimulationReport {
    /// Returns a line for each bar that is missed.
    pub(crate) fn missed_bars(&self) -> Vec<String> {
        let balances = self.equal.iter().filter(|found| found.stripes_per_node >= MIN_STRIPES_PER_NODE);
        let uneven =
            balances.filter(|found| found.max > MAX_BALANCE).map(|Balance { nodes, max, .. }| {
                format!("a node of {nodes} has {max:.3} times the mean of bytes; the bar is {MAX_BALANCE}")
            });

        let limit = |nodes: usize| 1.0 / nodes as f64 + MOVED_TOLERANCE;
        let movements = self.movements.iter().filter(|found| found.moved_share > limit(found.nodes));
        let moved = movements.map(|Movement { nodes, change, moved_share, .. }| {
            let limit = limit(*nodes);
            format!(
                "{change:?} of one of {nodes} nodes moves {moved_share:.4} of bytes; the bar is {limit:.4}"
            )
        });
        uneven.chain(moved).collect()
    }

    fn moved(&self, nodes: usize, change: NodeChange) -> &dyn Display {
        let found = self.movements.iter().find(|found| found.nodes == nodes && found.change == change);
        found.map_or(&"", |found| found)
    }

    fn hot_load(&self, nodes: usize, path: HotPath) -> &dyn Display {
        let found = self.hot.iter().find(|found| found.nodes == nodes && found.path == path);
        found.map_or(&"", |found| found)
    }
}

impl Display for Movement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}% ({:.2}%)", self.moved_share * 100.0, self.least_share * 100.0)
    }
}

impl Display for HotLoad {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.0}%)", self.max, self.throughput * 100.0)
    }
}

impl Display for SimulationReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let large = 100.0 * self.large_objects as f64 / self.objects as f64;
        let tebibytes = self.bytes as f64 / (1_u64 << 40) as f64;
        let Self { seed, objects, stripes, moved_objects, trace_reads, .. } = self;
        writeln!(
            f,
            "{objects} objects of {tebibytes:.1} TiB, {stripes} stripes; {large:.1}% of objects are larger than one stripe; seed {seed}."
        )?;

        writeln!(
            f,
            "\nBalance: bytes of the node that has the most (the least), relative to its weight, over the mean.\n"
        )?;
        writeln!(f, "| nodes | stripes per node | equal weights | weights 1:2:4 |\n|---:|---:|---:|---:|")?;
        for (equal, weighted) in self.equal.iter().zip(&self.weighted) {
            let Balance { nodes, stripes_per_node, max, min } = equal;
            let weighted = format!("{:.3} ({:.3})", weighted.max, weighted.min);
            writeln!(f, "| {nodes} | {stripes_per_node:.0} | {max:.3} ({min:.3}) | {weighted} |")?;
        }

        writeln!(
            f,
            "\nMovement: share of bytes that get another home (share that must), of {moved_objects} objects; none between nodes that did not change, and the donor of each was its former home.\n"
        )?;
        writeln!(f, "| nodes | join | leave | drain | weight 1 to 2 |\n|---:|---:|---:|---:|---:|")?;
        for Balance { nodes, .. } in &self.equal {
            let [join, leave, drain, double] = NodeChange::ALL.map(|change| self.moved(*nodes, change));
            writeln!(f, "| {nodes} | {join} | {leave} | {drain} | {double} |")?;
        }

        writeln!(
            f,
            "\nTraces: {trace_reads} reads of whole objects by Zipf's law, the second half counted; LRU. Hit ratio: part of stripes that did not come from the origin.\n"
        )?;
        writeln!(
            f,
            "| Zipf s | cache | nodes | one cache | cluster, client placement | cluster, any node | nodes alone | hops | bytes by peers | fetches per read: placement | any node | alone |"
        )?;
        writeln!(f, "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        for row in &self.traces {
            let TraceRow { exponent, cache_percent, nodes, ideal, placed, any_node, alone } = row;
            let ratios =
                [ideal, placed, any_node, alone].map(|cost| format!("{:.3}", cost.hit_ratio())).join(" | ");
            let fetches =
                [placed, any_node, alone].map(|cost| format!("{:.2}", cost.fetches_per_read())).join(" | ");
            let hops = any_node.hop_ratio();
            let hop_bytes = any_node.byte_hop_ratio();
            writeln!(
                f,
                "| {exponent} | {cache_percent}% | {nodes} | {ratios} | {hops:.2} | {hop_bytes:.2} | {fetches} |"
            )?;
        }

        writeln!(
            f,
            "\nHot object: one stripe takes {:.0}% of requests; as many clients as nodes, {IN_FLIGHT} requests in flight each. Answers of the busiest node over the mean (throughput, of nodes that are always busy).\n",
            HOT_SHARE * 100.0
        )?;
        writeln!(f, "| nodes | home only | shared by load | copies at any node |\n|---:|---:|---:|---:|")?;
        for Balance { nodes, .. } in &self.equal {
            let [home, shared, copy] =
                [HotPath::Home, HotPath::Shared, HotPath::Copy].map(|path| self.hot_load(*nodes, path));
            writeln!(f, "| {nodes} | {home} | {shared} | {copy} |")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_missed_by_chance_only_with_few_stripes() {
        let balance = |stripes_per_node, max| Balance { nodes: 10, stripes_per_node, max, min: 0.9 };
        let movement = |moved_share| Movement {
            nodes: 10,
            change: NodeChange::Join,
            moved_share,
            least_share: 1.0 / 11.0,
        };
        let report = |equal, movements| SimulationReport {
            seed: 1,
            objects: 1,
            large_objects: 0,
            stripes: 1,
            bytes: 1,
            moved_objects: 1,
            trace_reads: 1,
            equal,
            weighted: Vec::new(),
            movements,
            traces: Vec::new(),
            hot: Vec::new(),
        };

        let good = report(vec![balance(1e4, 1.09), balance(100.0, 1.5)], vec![movement(0.109)]);
        assert!(good.missed_bars().is_empty());
        let bad = report(vec![balance(1e4, 1.11)], vec![movement(0.111)]);
        assert_eq!(bad.missed_bars().len(), 2);
    }
}
