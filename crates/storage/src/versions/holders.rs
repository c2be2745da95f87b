//! The peers that hold a description given by this node: they must be notified before another version is shown.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::peers::PeerId;

/// The peers that hold the description of one version. Once closed, it admits no further peers.
#[derive(Debug, Default)]
pub(crate) struct VersionHolders {
    state: Mutex<HolderState>,
    /// Locked while peers are being notified.
    notifying: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct HolderState {
    peers: Vec<PeerId>,
    is_closed: bool,
}

impl VersionHolders {
    /// Adds a peer. Returns whether the peer may keep the description.
    pub(crate) fn add(&self, peer: &PeerId) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed && !state.peers.contains(peer) {
            state.peers.push(peer.clone());
        }
        !state.is_closed
    }

    /// Returns whether no peer holds the description. Peers that are being notified still hold it.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().peers.is_empty()
    }

    fn close(&self) -> Vec<PeerId> {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.peers.clone()
    }

    /// Closes the holders of all paths, and completes when `notify` has notified each peer of the paths whose
    /// descriptions it holds. A second caller waits for the first.
    pub(crate) async fn close_all<F: Future<Output = ()>>(
        mut kept: Vec<(String, Arc<Self>)>,
        notify: impl FnOnce(BTreeMap<PeerId, Vec<String>>) -> F,
    ) {
        // Lock in a fixed order, so that two callers cannot deadlock.
        kept.sort_by_key(|(_, holders)| Arc::as_ptr(holders).addr());
        kept.dedup_by(|(_, one), (_, other)| Arc::ptr_eq(one, other));
        let mut guards = Vec::with_capacity(kept.len());
        for (_, holders) in &kept {
            guards.push(holders.notifying.lock().await);
        }

        let mut paths: BTreeMap<PeerId, Vec<String>> = BTreeMap::new();
        for (path, holders) in &kept {
            for peer in holders.close() {
                paths.entry(peer).or_default().push(path.clone());
            }
        }
        if !paths.is_empty() {
            notify(paths).await;
        }

        for (_, holders) in &kept {
            holders.state.lock().peers.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_shown_before_all_who_keep_the_old_were_told() {
        let [x, y]: [Arc<VersionHolders>; 2] = Default::default();
        let [a, b] = ["a", "b"].map(PeerId::new);
        assert!(x.add(&a) && x.add(&b) && x.add(&a) && y.add(&b));
        let [of_x, of_y] = [("x".to_owned(), x.clone()), ("y".to_owned(), y.clone())];

        let began = tokio::time::Instant::now();
        let expected =
            BTreeMap::from([(a.clone(), vec!["x".to_owned()]), (b, vec!["x".to_owned(), "y".to_owned()])]);
        let first = VersionHolders::close_all(vec![of_x.clone(), of_y.clone()], |mut notified| async move {
            notified.values_mut().for_each(|paths| paths.sort());
            assert_eq!(notified, expected);
            tokio::time::sleep(Duration::from_secs(1)).await;
        });
        let second = VersionHolders::close_all(vec![of_y, of_x], |_| async { panic!("they were told") });
        let (_, waited) = futures::join!(first, async {
            second.await;
            began.elapsed()
        });
        assert_eq!(waited, Duration::from_secs(1));
        assert!(x.is_empty() && !x.add(&a), "it is closed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_is_being_told_still_keeps_the_description() {
        let holders: Arc<VersionHolders> = Arc::default();
        holders.add(&PeerId::new("a"));
        let kept = vec![("x".to_owned(), holders.clone())];
        VersionHolders::close_all(kept, |_| async { assert!(!holders.is_empty()) }).await;
        assert!(holders.is_empty());
    }
}
