//! Bounded load: other nodes stand in for a home that has more than its share of requests in flight.
//!
//! Follows "Consistent Hashing with Bounded Loads" (Mirrokni, Thorup and Zadimoghaddam, SODA 2018), with 1.25 as the
//! bound: requests that exceed a node's bound go to the next in rank. Hot stripes get more copies through load alone:
//! no table of hot stripes is kept or exchanged.

/// Requests of one observer that nodes have not answered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestsInFlight {
    /// Requests in flight to all nodes.
    pub total: u64,
    /// Number of nodes that are up.
    pub nodes: u64,
}

impl RequestsInFlight {
    /// Number of requests in flight up to which the load of a home is never too high.
    pub const HOME_FLOOR: u64 = 16;
    /// The same for a node that stands in. Small, so that the requests for one stripe spread over all of them even if
    /// its clients have few requests in flight.
    pub const STAND_IN_FLOOR: u64 = 4;
    /// Maximum number of nodes that share the requests for one stripe, including its home.
    pub const MAX_SHARERS: usize = 8;

    /// Returns the rank of the node for the next request; 0 is the home. `ranked` contains the requests in flight to
    /// the first nodes in rank for the stripe; nodes after the first [`Self::MAX_SHARERS`] are ignored.
    ///
    /// Chooses the first node whose load is not too high: at most its floor, or at most 1.25 times the mean. If the
    /// load of all nodes is too high, chooses the node with the fewest requests.
    pub fn choose(self, ranked: &[u64]) -> usize {
        let ranks = ranked.iter().copied().enumerate().take(Self::MAX_SHARERS);
        let free = ranks.clone().find(|(rank, in_flight)| !self.is_over(*rank, *in_flight));
        let chosen = free.or_else(|| ranks.min_by_key(|(_, in_flight)| *in_flight));
        chosen.map_or(0, |(rank, _)| rank)
    }

    fn is_over(self, rank: usize, in_flight: u64) -> bool {
        let floor = if rank == 0 { Self::HOME_FLOOR } else { Self::STAND_IN_FLOOR };
        let scaled = u128::from(in_flight) * u128::from(self.nodes);
        in_flight > floor && scaled.saturating_mul(4) > u128::from(self.total) * 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME_FLOOR: u64 = RequestsInFlight::HOME_FLOOR;
    const STAND_IN_FLOOR: u64 = RequestsInFlight::STAND_IN_FLOOR;

    fn choose(ranked: &[u64], total: u64, nodes: u64) -> usize {
        RequestsInFlight { total, nodes }.choose(ranked)
    }

    #[test]
    fn the_next_in_rank_stands_in_above_a_quarter_more_than_the_mean() {
        assert_eq!(choose(&[125, 100, 0], 400, 4), 0);
        assert_eq!(choose(&[126, 100, 0], 400, 4), 1);
        assert_eq!(choose(&[126, 125, 0], 400, 4), 1);
        assert_eq!(choose(&[126, 126, 0], 400, 4), 2);
    }

    #[test]
    fn if_all_have_too_many_the_one_with_the_fewest_is_asked() {
        assert_eq!(choose(&[200, 190, 195], 585, 5), 1);
        assert_eq!(choose(&[126, 126], 400, 4), 0, "the deputy is no better");
        assert_eq!(choose(&[130, 127, 126, 126], 400, 4), 2);
        let ranked = [50, 40, 40, 40, 40, 40, 40, 39, 0];
        assert_eq!(choose(&ranked, ranked.iter().sum(), 1_000), 7, "no more than eight nodes");
    }

    #[test]
    fn few_requests_are_never_too_many() {
        assert_eq!(choose(&[HOME_FLOOR, 0], HOME_FLOOR, 1_000), 0);
        assert_eq!(choose(&[HOME_FLOOR + 1, STAND_IN_FLOOR, 0], HOME_FLOOR + 1, 1_000), 1);
        assert_eq!(choose(&[HOME_FLOOR + 1, STAND_IN_FLOOR + 1, 0], HOME_FLOOR + 1, 1_000), 2);
    }

    #[test]
    fn extreme_numbers_do_not_overflow() {
        assert_eq!(choose(&[u64::MAX, 0], u64::MAX, u64::MAX), 1);
        assert_eq!(choose(&[u64::MAX, 0], u64::MAX, 1), 0);
        assert_eq!(choose(&[17, 0], 0, 0), 0);
        assert_eq!(choose(&[], 0, 0), 0);
    }

    #[test]
    fn one_hot_stripe_is_shared_by_up_to_eight_nodes() {
        for nodes in [2, 3, 8, 100] {
            let sharers = nodes.min(RequestsInFlight::MAX_SHARERS);
            let mut ranked = vec![0; sharers];
            for total in 0..1_000 {
                let rank = choose(&ranked, total, nodes as u64);
                ranked[rank] += 1;
            }
            let bound = (1_250 / sharers) as u64 + 1;
            assert!(ranked.iter().all(|in_flight| *in_flight <= bound), "{nodes}: {ranked:?}");
        }
    }
}
