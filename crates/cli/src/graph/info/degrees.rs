//! Degree statistics, computed from adjacency offsets alone.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use stylobate_graph::{
    Direction,
    graphar::{AdjacencyOrder, Edges},
};

use crate::rows::ProgressDisplay;

/// Vertices per request, and maximum requests in flight.
const VERTICES_PER_REQUEST: u64 = 1 << 18;
const MAX_IN_FLIGHT: usize = 4;

/// Statistics of the degrees of all vertices on one side of an edge type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DegreeStats {
    /// `out` or `in`.
    pub(super) direction: &'static str,
    pub(super) vertices: u64,
    pub(super) min: u64,
    pub(super) median: u64,
    pub(super) mean: f64,
    pub(super) p99: u64,
    pub(super) max: u64,
    pub(super) without_edges: u64,
    /// Non-empty buckets with power-of-two bounds.
    pub(super) histogram: Vec<DegreeBucket>,
}

/// The number of vertices in a range of degrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DegreeBucket {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) vertices: u64,
}

/// Returns the directions whose degrees an ordered adjacency list provides.
pub(super) fn directions(edges: &Edges) -> Vec<Direction> {
    let has = |order| edges.info().adjacency(order).is_some();
    let mut directions = Vec::new();
    if has(AdjacencyOrder::OrderedBySource) {
        directions.push(Direction::Out);
    }
    if has(AdjacencyOrder::OrderedByDest) {
        directions.push(Direction::In);
    }

    directions
}

/// Returns the number of vertices in the adjacency list that provides the degrees of a direction.
pub(super) async fn vertices(edges: &Edges, direction: Direction) -> Result<u64> {
    let order = match direction {
        Direction::Out => AdjacencyOrder::OrderedBySource,
        Direction::In => AdjacencyOrder::OrderedByDest,
    };
    Ok(edges.clone().by(order)?.vertex_count().await?)
}

impl DegreeStats {
    /// Counts the degrees of all vertices without reading edges. Memory is proportional to the number of distinct
    /// degrees, which is small: many distinct degrees require far more edges.
    pub(super) async fn count(
        edges: &Edges,
        direction: Direction,
        progress: &ProgressDisplay,
    ) -> Result<Self> {
        let vertices = vertices(edges, direction).await?;
        let starts = (0..vertices.div_ceil(VERTICES_PER_REQUEST)).map(|batch| batch * VERTICES_PER_REQUEST);
        let batches = starts.map(|start| async move {
            let indexes: Vec<i64> =
                (start..vertices.min(start + VERTICES_PER_REQUEST)).map(|index| index as i64).collect();
            edges.degrees(&indexes, direction).await
        });

        let mut batches = futures::stream::iter(batches).buffered(MAX_IN_FLIGHT);
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        while let Some(degrees) = batches.try_next().await? {
            for degree in degrees.values() {
                *counts.entry(u64::try_from(*degree).unwrap_or_default()).or_default() += 1;
            }
            progress.add_rows(degrees.values().len());
        }

        Ok(Self::of(direction, &counts))
    }

    pub(super) fn of(direction: Direction, counts: &BTreeMap<u64, u64>) -> Self {
        let vertices: u64 = counts.values().sum();
        let edges: u128 = counts.iter().map(|(degree, count)| u128::from(*degree) * u128::from(*count)).sum();

        let mut histogram: Vec<DegreeBucket> = Vec::new();
        for (degree, count) in counts {
            let DegreeBucket { from, to, .. } = DegreeBucket::of(*degree);
            match histogram.last_mut().filter(|last| last.from == from) {
                Some(last) => last.vertices += count,
                None => histogram.push(DegreeBucket { from, to, vertices: *count }),
            }
        }

        Self {
            direction: match direction {
                Direction::Out => "out",
                Direction::In => "in",
            },
            vertices,
            min: counts.keys().next().copied().unwrap_or_default(),
            median: quantile(counts, vertices, 50),
            mean: edges as f64 / (vertices as f64).max(1.0),
            p99: quantile(counts, vertices, 99),
            max: counts.keys().next_back().copied().unwrap_or_default(),
            without_edges: counts.get(&0).copied().unwrap_or_default(),
            histogram,
        }
    }
}

impl DegreeBucket {
    /// Returns the bucket of a degree: 0, 1, 2 to 3, 4 to 7 and so on.
    fn of(degree: u64) -> Self {
        let from = degree.checked_ilog2().map_or(0, |power| 1 << power);
        Self { from, to: from + from.saturating_sub(1), vertices: 0 }
    }
}

/// Returns the smallest degree that is not exceeded by `percent` of the vertices.
fn quantile(counts: &BTreeMap<u64, u64>, vertices: u64, percent: u64) -> u64 {
    let rank = (u128::from(vertices) * u128::from(percent)).div_ceil(100);
    let mut passed = 0_u128;
    for (degree, count) in counts {
        passed += u128::from(*count);
        if passed >= rank {
            return *degree;
        }
    }

    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(degrees: &[u64]) -> DegreeStats {
        let mut counts = BTreeMap::new();
        for degree in degrees {
            *counts.entry(*degree).or_default() += 1;
        }
        DegreeStats::of(Direction::Out, &counts)
    }

    #[test]
    fn quantiles_are_degrees_that_vertices_have() {
        let degrees = of(&[0, 0, 3, 1, 100]);
        assert_eq!((degrees.min, degrees.median, degrees.p99, degrees.max), (0, 1, 100, 100));
        assert_eq!((degrees.vertices, degrees.without_edges, degrees.mean), (5, 2, 20.8));
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!((of(&hundred).median, of(&hundred).p99), (50, 99));
        let none = of(&[]);
        assert_eq!((none.vertices, none.median, none.mean, none.histogram.len()), (0, 0, 0.0, 0));
    }

    #[test]
    fn a_histogram_goes_by_powers_of_two() {
        let buckets: Vec<_> = of(&[0, 1, 2, 3, 4, 7, 8, 1 << 40])
            .histogram
            .iter()
            .map(|bucket| (bucket.from, bucket.to, bucket.vertices))
            .collect();
        let last = (1 << 40, (1 << 41) - 1, 1);
        assert_eq!(buckets, [(0, 0, 1), (1, 1, 1), (2, 3, 2), (4, 7, 2), (8, 15, 1), last]);
        assert_eq!(DegreeBucket::of(u64::MAX).to, u64::MAX);
    }
}
