//! Bounded load: the deputy stands in where the home has more requests in flight than its share.
//!
//! Follows "Consistent Hashing with Bounded Loads" (Mirrokni, Thorup and Zadimoghaddam, SODA 2018), with 1.25 as the
//! bound. Hot stripes get a second copy by load alone: no table of them is kept or exchanged.

/// Requests of one observer that nodes have not answered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestsInFlight {
    /// Requests in flight to the home of the stripe.
    pub home: u64,
    /// Requests in flight to its deputy.
    pub deputy: u64,
    /// Requests in flight to all nodes, these two included.
    pub total: u64,
    /// Number of nodes that are up.
    pub nodes: u64,
}

/// The node that a request is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadChoice {
    /// The home of the stripe.
    Home,
    /// The deputy, which fills what it misses from the home.
    Deputy,
}

impl RequestsInFlight {
    /// Requests in flight to a home up to which its load is never too high.
    pub const FLOOR: u64 = 16;

    /// Returns the node for the next request: the deputy if the home has more than [`Self::FLOOR`] requests in flight and
    /// more than 1.25 times the mean, and the deputy has fewer than the home.
    pub fn choose(self) -> LoadChoice {
        let Self { home, deputy, total, nodes } = self;
        let scaled = u128::from(home) * u128::from(nodes);
        let is_over = scaled.saturating_mul(4) > u128::from(total) * 5;
        if home > Self::FLOOR && is_over && deputy < home { LoadChoice::Deputy } else { LoadChoice::Home }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(home: u64, deputy: u64, total: u64, nodes: u64) -> LoadChoice {
        RequestsInFlight { home, deputy, total, nodes }.choose()
    }

    #[test]
    fn the_deputy_stands_in_above_a_quarter_more_than_the_mean() {
        assert_eq!(choose(125, 100, 400, 4), LoadChoice::Home);
        assert_eq!(choose(126, 100, 400, 4), LoadChoice::Deputy);
        assert_eq!(choose(126, 125, 400, 4), LoadChoice::Deputy);
        assert_eq!(choose(126, 126, 400, 4), LoadChoice::Home, "the deputy is no better");
    }

    #[test]
    fn few_requests_are_never_too_many() {
        assert_eq!(choose(RequestsInFlight::FLOOR, 0, RequestsInFlight::FLOOR, 1_000), LoadChoice::Home);
        assert_eq!(
            choose(RequestsInFlight::FLOOR + 1, 0, RequestsInFlight::FLOOR + 1, 1_000),
            LoadChoice::Deputy
        );
    }

    #[test]
    fn extreme_numbers_do_not_overflow() {
        assert_eq!(choose(u64::MAX, 0, u64::MAX, u64::MAX), LoadChoice::Deputy);
        assert_eq!(choose(u64::MAX, 0, u64::MAX, 1), LoadChoice::Home);
        assert_eq!(choose(17, 0, 0, 0), LoadChoice::Home);
    }

    #[test]
    fn one_hot_stripe_is_shared_by_two_nodes() {
        for nodes in [2, 3, 100] {
            let mut load = RequestsInFlight { nodes, ..RequestsInFlight::default() };
            for _ in 0..1_000 {
                match load.choose() {
                    LoadChoice::Home => load.home += 1,
                    LoadChoice::Deputy => load.deputy += 1,
                }
                load.total += 1;
            }
            assert!(load.home >= load.deputy && load.home <= 626, "{load:?}");
        }
    }
}
