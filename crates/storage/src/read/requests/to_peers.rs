//! Requests to peers: sources are tried in order, hedged if slow, and all blocks are verified before they count.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant as StdInstant},
};

use bytes::Bytes;
use futures::{Stream, StreamExt, future::try_join_all};
use object_store::path::Path;
use parking_lot::Mutex;
use stylobate_client::HedgePolicy;
use tokio::time::Instant;

use crate::{
    page_cache::checksum,
    peers::{
        BlockRun, BlockRuns, ChangeAudience, DescribeRequest, DescribedObject, PathsChanged, PeerDeadlines,
        PeerError, PeerFault, PeerId, PeerRead, PeerRole, PeerSource, Peers, StripeSources,
    },
    read::paged::PagedObject,
    stats::ReadCounters,
};

/// Quantile of peer latencies after which the next peer is asked as well.
const HEDGE_QUANTILE: f64 = 0.95;

/// Minimum time to wait for a peer before asking the origin instead.
const MIN_WAIT: Duration = Duration::from_millis(250);

/// Assumed latency of a peer while too few latencies are known.
const UNKNOWN_ANSWER: Duration = Duration::from_secs(1);

/// Number of consecutive reads that a peer did not answer in time after which it is skipped.
const LATE_READS: u32 = 3;

/// Number of consecutive reads that the next peer answered first after which a peer is skipped.
const LOST_READS: u32 = 8;

/// Maximum replaced objects per notification of a peer.
const MAX_PATHS_PER_NOTIFICATION: usize = 1_000;

/// Sends requests to peers.
#[derive(Debug)]
pub(crate) struct PeerRequests {
    peers: Arc<dyn Peers>,
    deadlines: PeerDeadlines,
    /// Latencies of the peers that answered.
    hedge: HedgePolicy,
    /// Time spent waiting for peers, whether or not one answered.
    waits: HedgePolicy,
    /// Peers that did not answer the last time they were asked first.
    slow: Arc<Mutex<HashMap<PeerId, PeerSlowness>>>,
    counters: Arc<ReadCounters>,
    /// Set if paths name versions retained by a bucket. Such a version has the same homes as the current one.
    reads_versions: bool,
}

/// Slowness of a peer since its last answer.
#[derive(Clone, Copy, Debug, Default)]
struct PeerSlowness {
    /// Reads that the next peer answered first.
    lost_reads: u32,
    /// Reads that no peer answered in time.
    late_reads: u32,
    /// Set while a probe is in flight, which is sent only to notice when the peer is fast again.
    is_probed: bool,
}

impl PeerSlowness {
    /// Returns whether to ask the next peer, or the origin, instead.
    fn is_passed_over(self) -> bool {
        self.lost_reads >= LOST_READS || self.late_reads >= LATE_READS
    }
}

/// The sources of a fetch, and whether this node keeps the bytes.
#[derive(Clone, Debug)]
pub(crate) struct FetchRoute {
    /// End of the bytes that the route applies to, as an offset in the object.
    pub(crate) end: u64,
    pub(crate) is_home: bool,
    /// Peers to ask in order before the origin.
    pub(crate) peers: Vec<PeerSource>,
}

/// The reason that peers could not serve a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerMiss {
    /// The origin now has another version.
    Changed,
    /// Ask the next source.
    Unavailable,
}

impl FetchRoute {
    /// Returns the route of a node without peers.
    pub(crate) fn to_origin() -> Self {
        Self { end: u64::MAX, is_home: true, peers: Vec::new() }
    }

    /// Returns the route without its peers.
    pub(crate) fn without_peers(self) -> Self {
        Self { peers: Vec::new(), ..self }
    }

    /// Returns the highest role in which the route asks a peer; `None` if it asks only the origin.
    pub(crate) fn reach(&self) -> Option<PeerRole> {
        self.peers.iter().map(|source| source.role).max()
    }
}

impl PeerRequests {
    pub(crate) fn new(peers: Arc<dyn Peers>, counters: Arc<ReadCounters>) -> Self {
        let deadlines = peers.deadlines();
        let hedge = HedgePolicy::new(Some(HEDGE_QUANTILE));
        let waits = HedgePolicy::new(Some(HEDGE_QUANTILE));
        Self { peers, deadlines, hedge, waits, slow: Arc::default(), counters, reads_versions: false }
    }

    /// Returns the sender for object versions retained by the bucket.
    pub(crate) fn for_object_versions(&self) -> Self {
        Self { reads_versions: true, ..Self::new(self.peers.clone(), self.counters.clone()) }
    }

    /// Returns the path that identifies an object in the cluster, and the version id if it names a retained version.
    fn split<'a>(&self, path: &'a Path) -> (&'a str, Option<&'a str>) {
        match path.as_ref().split_once('/') {
            Some((version, key)) if self.reads_versions => (key, Some(version)),
            _ => (path.as_ref(), None),
        }
    }

    /// Returns the sources for the stripe that contains the byte at `offset`.
    pub(crate) fn stripe(&self, path: &Path, offset: u64) -> StripeSources {
        let key = match self.split(path) {
            (key, Some(_)) => Path::parse(key).ok(),
            (_, None) => None,
        };
        self.peers.stripe(key.as_ref().unwrap_or(path), offset)
    }

    /// Returns the route to the bytes from `offset` on. A request from a peer is forwarded only in lower roles.
    pub(crate) fn route(&self, object: &PagedObject, offset: u64) -> FetchRoute {
        let StripeSources { end, is_home, mut peers } = self.stripe(&object.known.path, offset);
        if let Some(asked_as) = object.asked_as {
            peers.retain(|source| source.role < asked_as);
        }

        // A fetch must not split a page, and must not be empty.
        let end = end.max(offset + 1).checked_next_multiple_of(object.layout.page);
        FetchRoute { end: end.unwrap_or(u64::MAX), is_home, peers }
    }

    /// Opens whole blocks at the first of `peers` that has them, or at the second if that is faster. Removes
    /// failed peers from the list. Returns `None` if no peer is left, or if none answers within
    /// [`max_wait`](Self::max_wait).
    ///
    /// Fails if the origin now has another version.
    pub(crate) async fn open(
        &self,
        object: &PagedObject,
        peers: &mut Vec<PeerSource>,
        range: Range<u64>,
        origin_latency: Option<Duration>,
    ) -> Result<Option<PeerStream>, PeerMiss> {
        while let Some(first) = peers.first().filter(|first| self.slowness(&first.peer).is_passed_over()) {
            self.probe(object, first, range.clone(), origin_latency);
            let passed = peers.remove(0);
            // The next peer stands in for the skipped one: it asks the origin for what it lacks, not the skipped
            // peer.
            if let Some(next) = peers.first_mut() {
                next.role = passed.role;
                self.counters.deputy_reads.add(u64::from(passed.role == PeerRole::Home));
            }
        }

        let began = Instant::now();
        let max_wait = self.max_wait(peers, origin_latency);
        match tokio::time::timeout(max_wait, self.open_first(object, peers, range)).await {
            Ok(opened) => {
                if matches!(opened, Ok(Some(_))) {
                    self.waits.note(began.elapsed());
                }
                opened
            }
            Err(_) => {
                // Record timeouts too: the maximum wait grows if peers are often slow.
                self.waits.note(max_wait);
                if let Some(first) = peers.first() {
                    self.slow.lock().entry(first.peer.clone()).or_default().late_reads += 1;
                }
                peers.clear();
                Ok(None)
            }
        }
    }

    /// Returns the time after which the origin is asked, even though peers may still answer. It is doubled if a
    /// deputy is asked, which may wait for the home as long as this node would, and then needs time to ask the
    /// origin.
    fn max_wait(&self, peers: &[PeerSource], origin_latency: Option<Duration>) -> Duration {
        let Some(origin) = origin_latency else { return Duration::MAX };
        let asks_in_turn = peers.iter().any(|source| source.role == PeerRole::Deputy);
        let times = if asks_in_turn { 2 } else { 1 };
        times * usual_time(&self.waits, origin).max(MIN_WAIT)
    }

    fn slowness(&self, peer: &PeerId) -> PeerSlowness {
        self.slow.lock().get(peer).copied().unwrap_or_default()
    }

    /// Sends a probe to a skipped peer, to notice when it is fast again. No caller waits for the answer, and each
    /// peer has at most one probe in flight.
    fn probe(
        &self,
        object: &PagedObject,
        source: &PeerSource,
        range: Range<u64>,
        origin_latency: Option<Duration>,
    ) {
        match self.slow.lock().get_mut(&source.peer) {
            Some(slowness) if !slowness.is_probed => slowness.is_probed = true,
            _ => return,
        }

        self.counters.peer_reads.add(1);
        let read = self.peer_read(object, source, range);
        let usual = usual_time(&self.hedge, origin_latency.unwrap_or(UNKNOWN_ANSWER));
        let peers = self.peers.clone();
        let slow = self.slow.clone();
        let peer = source.peer.clone();
        tokio::spawn(async move {
            let asked = async { peers.read(&peer, read).await?.next().await.transpose() };
            let is_fast = match tokio::time::timeout(usual, asked).await {
                Ok(answer) => !matches!(answer, Err(PeerError::Failed { .. })),
                Err(_) => false,
            };

            let mut slow = slow.lock();
            if is_fast {
                slow.remove(&peer);
            } else if let Some(slowness) = slow.get_mut(&peer) {
                slowness.is_probed = false;
            }
        });
    }

    async fn open_first(
        &self,
        object: &PagedObject,
        peers: &mut Vec<PeerSource>,
        range: Range<u64>,
    ) -> Result<Option<PeerStream>, PeerMiss> {
        while !peers.is_empty() {
            let asked = AtomicUsize::new(0);
            let ask = |attempt: usize, source| {
                asked.fetch_max(attempt + 1, Ordering::Relaxed);
                self.ask(object, source, range.clone())
            };
            let answer = match peers.as_slice() {
                [first, second, ..] => {
                    let hedged = |attempt: usize| {
                        if attempt == 1 {
                            self.counters.hedges.add(1);
                        }
                        ask(attempt, if attempt == 0 { first } else { second })
                    };
                    self.hedge.run(hedged).await
                }
                [only] => {
                    let sent = Instant::now();
                    ask(0, only).await.inspect(|_| self.hedge.note(sent.elapsed()))
                }
                [] => break,
            };

            match answer {
                Ok(stream) => {
                    self.note_first(peers, &stream.peer);
                    return Ok(Some(stream));
                }
                Err(PeerMiss::Changed) => return Err(PeerMiss::Changed),
                Err(PeerMiss::Unavailable) => drop(peers.drain(..asked.into_inner())),
            }
        }

        Ok(None)
    }

    /// Records whether the first of the peers answered, or the second one before it.
    fn note_first(&self, peers: &[PeerSource], answered: &PeerId) {
        let Some(first) = peers.first() else { return };
        let mut slow = self.slow.lock();
        if first.peer == *answered {
            slow.remove(answered);
        } else {
            slow.entry(first.peer.clone()).or_default().lost_reads += 1;
        }
    }

    /// Returns the deadlines within which this node must answer peers, so that they do not consider it down while it
    /// waits for the origin.
    pub(crate) fn own_deadlines(&self) -> PeerDeadlines {
        let PeerDeadlines { block, describe, .. } = self.deadlines;
        PeerDeadlines { block: block / 5 * 4, describe: describe / 5 * 4, ..self.deadlines }
    }

    /// Returns the authority of a path; `None` if it is this node.
    pub(crate) fn authority(&self, path: &Path) -> Option<PeerId> {
        self.peers.authority(path)
    }

    /// Asks the authority of an object for its description.
    pub(crate) async fn describe(
        &self,
        authority: &PeerId,
        request: DescribeRequest,
    ) -> Result<DescribedObject, PeerError> {
        self.call(authority, self.deadlines.describe, self.peers.describe(authority, request)).await
    }

    /// Notifies a peer that objects were replaced. Failures are logged: the peer may show its descriptions for as
    /// long as the rules allow.
    pub(crate) async fn tell(&self, peer: &PeerId, paths: Vec<String>, to: ChangeAudience) {
        let deadline = match to {
            ChangeAudience::Authority | ChangeAudience::Everyone => self.deadlines.tell,
            ChangeAudience::Holder => self.deadlines.tell / 3,
        };
        // The notification of a deleted bucket names no path.
        let parts: Vec<&[String]> =
            if paths.is_empty() { vec![&paths] } else { paths.chunks(MAX_PATHS_PER_NOTIFICATION).collect() };
        let notifications = parts.into_iter().map(|paths| {
            let change = PathsChanged { paths: paths.to_vec(), to };
            self.call(peer, deadline, self.peers.tell(peer, change))
        });
        if let Err(error) = try_join_all(notifications).await {
            tracing::warn!(%peer, %error, "peer not told of replaced objects: it may show the former ones for a while");
        }
    }

    /// Returns all other nodes.
    pub(crate) fn others(&self) -> Vec<PeerId> {
        self.peers.others()
    }

    /// Asks a peer to drop the objects with a prefix. Returns their number; failures are logged.
    pub(crate) async fn evict(&self, peer: &PeerId, prefix: &str) -> u64 {
        let evicted = self.call(peer, self.deadlines.evict, self.peers.evict(peer, prefix)).await;
        evicted.unwrap_or_else(|error| {
            tracing::warn!(%peer, prefix, %error, "objects not evicted at a peer");
            0
        })
    }

    async fn call<T>(
        &self,
        peer: &PeerId,
        deadline: Duration,
        call: impl Future<Output = Result<T, PeerError>>,
    ) -> Result<T, PeerError> {
        let sent = StdInstant::now();
        let fault = match tokio::time::timeout(deadline, call).await {
            Ok(Err(PeerError::Failed { reason })) => PeerFault::Failed { reason },
            Ok(answer) => return answer,
            Err(_) => PeerFault::Late(deadline),
        };

        let reason = fault.to_string();
        self.peers.suspect(peer, sent, fault);
        Err(PeerError::Failed { reason })
    }

    fn peer_read(&self, object: &PagedObject, source: &PeerSource, range: Range<u64>) -> PeerRead {
        let meta = &object.known.meta;
        let (path, kept) = self.split(&object.known.path);
        PeerRead {
            path: path.to_owned(),
            kept: kept.map(str::to_owned),
            size: meta.size,
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone(),
            range,
            role: source.role,
        }
    }

    /// Sends a read to one peer, and waits for the first run of blocks.
    async fn ask(
        &self,
        object: &PagedObject,
        source: &PeerSource,
        range: Range<u64>,
    ) -> Result<PeerStream, PeerMiss> {
        self.counters.peer_reads.add(1);
        match source.role {
            PeerRole::Donor => self.counters.donor_reads.add(1),
            PeerRole::Deputy => self.counters.deputy_reads.add(1),
            PeerRole::Home => {}
        }

        let read = self.peer_read(object, source, range.clone());
        let mut stream = PeerStream {
            peers: self.peers.clone(),
            peer: source.peer.clone(),
            sent: StdInstant::now(),
            deadline: match source.role {
                PeerRole::Donor => self.deadlines.donor,
                PeerRole::Home | PeerRole::Deputy => self.deadlines.block,
            },
            object: object.clone(),
            position: range.start,
            end: range.end,
            first: None,
            runs: futures::stream::empty().boxed(),
        };

        let opening = async {
            let mut runs = self.peers.read(&source.peer, read).await?;
            Ok((runs.next().await, runs))
        };
        let first = match tokio::time::timeout(stream.deadline, opening).await {
            Ok(Ok((first, runs))) => {
                stream.runs = runs;
                stream.accept(first)?
            }
            Ok(Err(error)) => return Err(stream.refused(error)),
            Err(_) => return Err(stream.suspect(PeerFault::Late(stream.deadline))),
        };

        stream.first = Some(first);
        Ok(stream)
    }
}

/// Returns twice the time in which most peers answer, including fetches from the origin.
fn usual_time(times: &HedgePolicy, origin: Duration) -> Duration {
    2 * (times.delay().unwrap_or(UNKNOWN_ANSWER) + origin)
}

/// The answer of a peer: runs of blocks that passed verification.
pub(crate) struct PeerStream {
    peers: Arc<dyn Peers>,
    pub(crate) peer: PeerId,
    sent: StdInstant,
    deadline: Duration,
    object: PagedObject,
    /// Offset of the next block to receive in the object.
    position: u64,
    /// Offset past the last requested block in the object.
    end: u64,
    /// A run that was received but not returned yet.
    first: Option<Bytes>,
    runs: BlockRuns,
}

impl PeerStream {
    /// Returns the next run of blocks.
    pub(crate) async fn next(&mut self) -> Result<Bytes, PeerMiss> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        match tokio::time::timeout(self.deadline, self.runs.next()).await {
            Ok(run) => self.accept(run),
            Err(_) => Err(self.suspect(PeerFault::Late(self.deadline))),
        }
    }

    /// Verifies the run of blocks at the position, and advances past it.
    fn accept(&mut self, run: Option<Result<BlockRun, PeerError>>) -> Result<Bytes, PeerMiss> {
        let BlockRun { bytes, checksums } = match run {
            Some(Ok(run)) => run,
            Some(Err(error)) => return Err(self.refused(error)),
            None => return Err(self.suspect(PeerFault::Short)),
        };
        let object = &self.object;
        let is_asked_for = !bytes.is_empty()
            && bytes.len() as u64 <= self.end - self.position
            && bytes.len() == object.whole_blocks(self.position, bytes.len());
        let is_right = is_asked_for && {
            let (key, first) = object.block_at(self.position);
            checksum::verify(&key, first, &bytes, object.layout.block as usize, &checksums)
        };
        if !is_right {
            return Err(self.suspect(PeerFault::WrongBytes));
        }

        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    fn refused(&self, error: PeerError) -> PeerMiss {
        match error {
            PeerError::Changed => PeerMiss::Changed,
            PeerError::Declined | PeerError::NotFound => PeerMiss::Unavailable,
            PeerError::Failed { reason } => self.suspect(PeerFault::Failed { reason }),
        }
    }

    fn suspect(&self, fault: PeerFault) -> PeerMiss {
        tracing::debug!(peer = %self.peer, %fault, "read from peer failed");
        self.peers.suspect(&self.peer, self.sent, fault);
        PeerMiss::Unavailable
    }

    /// Returns the bytes of a range that starts in the first run. The stream ends early if the peer fails.
    pub(crate) fn into_bytes(self, range: Range<u64>) -> impl Stream<Item = Result<Bytes, PeerMiss>> + Send {
        let start = self.position - self.first.as_ref().map_or(0, Bytes::len) as u64;
        futures::stream::unfold((self, start, range), |(mut stream, offset, wanted)| async move {
            if offset >= wanted.end {
                return None;
            }
            let run = match stream.next().await {
                Ok(run) => run,
                Err(PeerMiss::Unavailable) => return None,
                Err(PeerMiss::Changed) => {
                    let end = wanted.end;
                    return Some((Err(PeerMiss::Changed), (stream, end, wanted)));
                }
            };

            let end = offset + run.len() as u64;
            let from = wanted.start.clamp(offset, end) - offset;
            let to = wanted.end.clamp(offset, end) - offset;
            Some((Ok(run.slice(from as usize..to as usize)), (stream, end, wanted)))
        })
    }
}
