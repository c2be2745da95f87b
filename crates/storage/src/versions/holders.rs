//! The peers that keep a description which this node gave them, to be told before another version is shown.

use parking_lot::Mutex;

use crate::peers::PeerId;

/// The peers that keep the description of one version. Once it is closed, it admits no others.
#[derive(Debug, Default)]
pub(crate) struct VersionHolders {
    state: Mutex<HolderState>,
    /// Held while peers are told.
    telling: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct HolderState {
    peers: Vec<PeerId>,
    is_closed: bool,
}

impl VersionHolders {
    /// Adds a peer. Returns whether it may keep the description.
    pub(crate) fn add(&self, peer: &PeerId) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed && !state.peers.contains(peer) {
            state.peers.push(peer.clone());
        }
        !state.is_closed
    }

    /// Admits no peer any more, and ends when `tell` has told all there are. A second caller waits for the first.
    pub(crate) async fn close<F: Future<Output = ()>>(&self, tell: impl FnOnce(Vec<PeerId>) -> F) {
        let _telling = self.telling.lock().await;
        let peers = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.peers)
        };

        if !peers.is_empty() {
            tell(peers).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_shown_before_all_who_keep_the_old_were_told() {
        let holders = VersionHolders::default();
        let [a, b] = ["a", "b"].map(PeerId::new);
        assert!(holders.add(&a) && holders.add(&b) && holders.add(&a));

        let began = tokio::time::Instant::now();
        let expected = [a.clone(), b];
        let first = holders.close(|peers| async move {
            assert_eq!(peers, expected);
            tokio::time::sleep(Duration::from_secs(1)).await;
        });
        let second = holders.close(|_| async { panic!("they were told") });
        let (_, waited) = futures::join!(first, async {
            second.await;
            began.elapsed()
        });
        assert_eq!(waited, Duration::from_secs(1));
        assert!(!holders.add(&a), "it is closed");
    }
}
