//! The client side of page connections, each of which carries one read at a time and is reused.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use stylobate_client::NodeAddress;
use stylobate_storage::{BlockRun, BlockRuns, PeerError};
use tokio::io::AsyncWriteExt;

use super::{
    page_requests::encode_page_request,
    run_frames::{FrameSource, RunReader},
    signature::{PeerKey, RequestSignature},
};

/// Time for which an idle connection is kept: less than the time for which a peer keeps it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a peer with no read in progress.
pub(super) struct PageConnection {
    source: FrameSource<TokioIo<Upgraded>>,
    session: RequestSignature,
    /// Number of the next read.
    number: u64,
}

/// Idle connections to all peers.
#[derive(Default)]
pub(super) struct IdleConnections {
    /// By peer; the most recently used connection is last.
    peers: Mutex<BTreeMap<NodeAddress, Vec<IdleConnection>>>,
}

struct IdleConnection {
    connection: PageConnection,
    since: Instant,
}

/// Failure of a read on one connection.
pub(super) enum PageFailure {
    /// No byte of an answer arrived. If the connection was idle before, the peer may have closed it.
    Unanswered(PeerError),
    Answered(PeerError),
}

impl From<PageFailure> for PeerError {
    fn from(failure: PageFailure) -> Self {
        match failure {
            PageFailure::Unanswered(error) | PageFailure::Answered(error) => error,
        }
    }
}

impl fmt::Debug for IdleConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers = self.peers.lock();
        f.debug_map().entries(peers.iter().map(|(peer, idle)| (peer, idle.len()))).finish()
    }
}

impl IdleConnections {
    /// Takes the most recently used connection to a peer.
    pub(super) fn take(&self, peer: &NodeAddress) -> Option<PageConnection> {
        let mut peers = self.peers.lock();
        let idle = peers.get_mut(peer)?.pop()?;
        if idle.is_old() {
            // The others have been idle for longer.
            peers.remove(peer);
            return None;
        }
        Some(idle.connection)
    }

    fn put(&self, peer: &NodeAddress, connection: PageConnection) {
        let idle = IdleConnection { connection, since: Instant::now() };
        let mut peers = self.peers.lock();
        match peers.get_mut(peer) {
            Some(others) => others.push(idle),
            None => drop(peers.insert(peer.clone(), vec![idle])),
        }
    }

    /// Closes all idle connections to a peer.
    pub(super) fn close(&self, peer: &NodeAddress) {
        self.peers.lock().remove(peer);
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn close_old(&self) {
        self.peers.lock().retain(|_, idle| {
            idle.retain(|idle| !idle.is_old());
            !idle.is_empty()
        });
    }
}

impl IdleConnection {
    fn is_old(&self) -> bool {
        self.since.elapsed() >= IDLE_TIMEOUT
    }
}

impl PageConnection {
    /// Wraps an upgraded connection; `session` is the signature of the upgrade request.
    pub(super) fn new(upgraded: Upgraded, session: RequestSignature) -> Self {
        Self { source: FrameSource::new(TokioIo::new(upgraded)), session, number: 0 }
    }

    /// Sends a read of `len` bytes, and waits for the first run. The connection returns to `idle` after the last run;
    /// if the future or the stream is dropped earlier, it is closed, which cancels the read.
    pub(super) async fn read(
        mut self,
        key: &PeerKey,
        content: &[u8],
        len: u64,
        peer: &NodeAddress,
        idle: &Arc<IdleConnections>,
    ) -> Result<BlockRuns, PageFailure> {
        let request = encode_page_request(key, self.session, self.number, content);
        let Some((request, signature)) = request else {
            let reason = "the request is too long".to_owned();
            return Err(PageFailure::Answered(PeerError::Failed { reason }));
        };
        let stream = self.source.stream_mut();
        let sent = async {
            stream.write_all(&request).await?;
            stream.flush().await
        };
        if let Err(error) = sent.await {
            let reason = format!("the connection broke off: {error}");
            return Err(PageFailure::Unanswered(PeerError::Failed { reason }));
        }

        let reader = RunReader::new(key.clone(), signature, self.source, len);
        let mut answer = PageAnswer {
            reader: Some(reader),
            session: self.session,
            next_number: self.number + 1,
            peer: peer.clone(),
            idle: idle.clone(),
        };
        match answer.next().await {
            Ok(first) => Ok(answer.into_runs(first)),
            Err(error) if answer.reader.as_ref().is_some_and(RunReader::is_awaited) => {
                Err(PageFailure::Unanswered(error))
            }
            Err(error) => Err(PageFailure::Answered(error)),
        }
    }
}

/// An answer in progress.
struct PageAnswer {
    /// `None` when it is complete.
    reader: Option<RunReader<TokioIo<Upgraded>>>,
    session: RequestSignature,
    /// Number of the next read on the connection.
    next_number: u64,
    peer: NodeAddress,
    idle: Arc<IdleConnections>,
}

impl PageAnswer {
    async fn next(&mut self) -> Result<Option<BlockRun>, PeerError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let run = reader.next().await;

        if let Some(reader) = self.reader.take_if(|reader| reader.is_complete()) {
            let source = reader.into_source();
            let connection = PageConnection { source, session: self.session, number: self.next_number };
            self.idle.put(&self.peer, connection);
        }
        run
    }

    /// Returns the stream of runs, beginning with `first`.
    fn into_runs(self, first: Option<BlockRun>) -> BlockRuns {
        let runs = stream::try_unfold((first, self), |(first, mut answer)| async move {
            let run = match first {
                Some(first) => Some(first),
                None => answer.next().await?,
            };
            Ok::<_, PeerError>(run.map(|run| (run, (None, answer))))
        });
        runs.boxed()
    }
}

#[cfg(test)]
mod tests;
