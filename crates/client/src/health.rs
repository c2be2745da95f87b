//! Health of a peer, derived from probes and failed requests.
//!
//! ```text
//!            failure                     failure
//!   up ────────────────▶ suspect ────────────────▶ down
//!    ▲    good probe        │                        │
//!    ├──────────────────────┘                        │
//!    └───────────────────────────────────────────────┘ good probes in a row
//! ```
//!
//! A failed request moves on to the next node at once; this module decides whether other requests avoid the peer. A
//! broken connection fails all its requests together: those sent before the current state began are not counted
//! again.

use std::time::{Duration, Instant};

use crate::node::NodeState;

/// Liveness of a peer, from its answers to requests and probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// The peer answers.
    Up,
    /// The peer failed once, or was not probed yet. It gets requests, and an immediate probe.
    Suspect,
    /// The peer gets only probes.
    Down,
}

/// The health of one peer. Times are passed in, so that any clock can drive it.
#[derive(Clone, Debug)]
pub struct PeerHealth {
    liveness: Liveness,
    since: Instant,
    good_probes: u32,
    next_probe: Instant,
}

impl PeerHealth {
    /// Interval between two probes.
    pub const PROBE_INTERVAL: Duration = Duration::from_secs(1);
    /// Number of consecutive good probes after which a peer that was down is up.
    pub const UP_AFTER: u32 = 2;

    /// Creates the health of an unprobed peer: suspect, with a probe due.
    pub fn new(now: Instant) -> Self {
        Self { liveness: Liveness::Suspect, since: now, good_probes: 0, next_probe: now }
    }

    /// Returns whether the peer answers.
    pub fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// Returns the state of the node in a view, given its state in the node list: a draining node stays draining.
    pub fn state_of(&self, listed: NodeState) -> NodeState {
        match (listed, self.liveness) {
            (NodeState::Up, Liveness::Down) => NodeState::Down,
            (listed, _) => listed,
        }
    }

    /// Returns the time of the next probe.
    pub fn next_probe(&self) -> Instant {
        self.next_probe
    }

    /// Returns whether to send a probe now, and schedules the next one.
    pub fn begin_probe(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_probe;
        if is_due {
            self.next_probe = now + Self::PROBE_INTERVAL;
        }
        is_due
    }

    /// Records a good answer to a probe sent at `sent`.
    pub fn probe_succeeded(&mut self, sent: Instant, now: Instant) {
        if sent < self.since {
            return;
        }
        match self.liveness {
            Liveness::Up => {}
            Liveness::Suspect => self.change(Liveness::Up, now),
            Liveness::Down => {
                self.good_probes += 1;
                if self.good_probes >= Self::UP_AFTER {
                    self.change(Liveness::Up, now);
                }
            }
        }
    }

    /// Records that a probe or request sent at `sent` failed: no answer in time, a broken connection, or wrong bytes.
    pub fn failed(&mut self, sent: Instant, now: Instant) {
        if sent < self.since {
            return;
        }
        match self.liveness {
            Liveness::Up => {
                self.change(Liveness::Suspect, now);
                self.next_probe = now;
            }
            Liveness::Suspect => self.change(Liveness::Down, now),
            Liveness::Down => self.good_probes = 0,
        }
    }

    fn change(&mut self, liveness: Liveness, now: Instant) {
        self.liveness = liveness;
        self.since = now;
        self.good_probes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the health of a peer that answered its first probe, and the time after it.
    fn up() -> (PeerHealth, Instant) {
        let start = Instant::now();
        let mut health = PeerHealth::new(start);
        assert!(health.begin_probe(start) && !health.begin_probe(start + 999 * MS));
        health.probe_succeeded(start, start + MS);
        assert_eq!(health.liveness(), Liveness::Up);
        (health, start + 2 * MS)
    }

    #[test]
    fn a_new_peer_gets_requests_until_two_of_them_fail() {
        let start = Instant::now();
        let mut health = PeerHealth::new(start);
        assert_eq!(health.liveness(), Liveness::Suspect);
        health.failed(start, start + MS);
        assert_eq!(health.liveness(), Liveness::Down);
    }

    #[test]
    fn a_failed_request_brings_a_probe_at_once() {
        let (mut health, now) = up();
        assert!(health.next_probe() > now && !health.begin_probe(now));
        health.failed(now, now + MS);
        assert_eq!(health.liveness(), Liveness::Suspect);
        assert!(health.begin_probe(now + MS) && !health.begin_probe(now + 2 * MS));
        health.probe_succeeded(now + MS, now + 2 * MS);
        assert_eq!(health.liveness(), Liveness::Up);
    }

    #[test]
    fn requests_of_one_broken_connection_count_once() {
        let (mut health, now) = up();
        for request in 0..100 {
            health.failed(now, now + request * MS + MS);
        }
        assert_eq!(health.liveness(), Liveness::Suspect);
        health.failed(now + MS, now + 200 * MS);
        assert_eq!(health.liveness(), Liveness::Down, "it was sent after the suspicion");
    }

    #[test]
    fn a_peer_is_up_after_good_probes_in_a_row() {
        let (mut health, mut now) = up();
        health.failed(now, now);
        health.failed(now, now);
        assert_eq!(health.liveness(), Liveness::Down);

        let mut probe = |health: &mut PeerHealth, is_good: bool| {
            now = now.max(health.next_probe());
            assert!(health.begin_probe(now));
            if is_good {
                health.probe_succeeded(now, now + MS);
            } else {
                health.failed(now, now + MS);
            }
            health.liveness()
        };
        for is_good in [true, false, true] {
            assert_eq!(probe(&mut health, is_good), Liveness::Down);
        }
        assert_eq!(probe(&mut health, true), Liveness::Up);
    }

    #[test]
    fn an_answer_to_an_older_probe_clears_no_suspicion() {
        let (mut health, now) = up();
        health.failed(now + MS, now + 2 * MS);
        health.probe_succeeded(now, now + 3 * MS);
        assert_eq!(health.liveness(), Liveness::Suspect);
    }

    #[test]
    fn only_a_placed_node_is_down() {
        let (mut health, now) = up();
        assert_eq!(health.state_of(NodeState::Up), NodeState::Up);
        health.failed(now, now);
        assert_eq!(health.state_of(NodeState::Up), NodeState::Up, "a suspect still gets requests");
        health.failed(now, now);
        assert_eq!(health.state_of(NodeState::Up), NodeState::Down);
        assert_eq!(health.state_of(NodeState::Draining), NodeState::Draining);
    }
}
