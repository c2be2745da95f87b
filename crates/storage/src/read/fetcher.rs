//! Fetcher of one origin's objects: the requests, the cache and the flights that planning and receiving share.
//!
//! Invariant: a block that a task is fetching is in `flights` or already in the cache. A piece is inserted into the
//! cache before its flight is removed from `flights`; a caller that holds the lock of `flights` and finds a block in
//! neither fetches it.

use std::{collections::HashMap, ops::Range, sync::Arc};

use bytes::Bytes;
use object_store::path::Path;
use parking_lot::Mutex;

use crate::{
    ByteSize, PageCache,
    object::ObjectHash,
    page_cache::PagePiece,
    read::{
        flight::PieceFlights,
        page_assembler::FetchRun,
        paged::PagedObject,
        requests::{
            to_origin::RequestSender,
            to_peers::{FetchRoute, PeerRequests},
        },
    },
    stats::ReadCounters,
};

/// Fetches pieces of one origin's objects.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) requests: RequestSender,
    pub(crate) cache: PageCache,
    pub(crate) counters: Arc<ReadCounters>,
    /// `None` if the node is not in a cluster.
    pub(crate) cluster: Option<PeerRequests>,
    pub(super) flights: PieceFlights,
    max_fetch: u64,
    pub(super) batches: Mutex<PendingFetches>,
}

/// Requests delayed so that they can be merged with nearby ones, by object.
type PendingFetches = HashMap<ObjectHash, Vec<FetchRun>>;

impl Fetcher {
    pub(crate) fn new(
        requests: RequestSender,
        cache: PageCache,
        max_fetch: ByteSize,
        cluster: Option<PeerRequests>,
    ) -> Self {
        let counters = requests.counters.clone();
        let max_fetch = max_fetch.as_u64().max(cache.layout().block);
        Self {
            requests,
            cache,
            counters,
            cluster,
            flights: PieceFlights::default(),
            max_fetch,
            batches: Mutex::default(),
        }
    }

    /// Returns the number of pages in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.flights.lock().len() as u64
    }

    /// Returns the maximum bytes of one request.
    pub(crate) fn max_fetch(&self) -> u64 {
        self.max_fetch
    }

    /// Returns the sources for the bytes from `offset` on.
    pub(super) fn route(&self, object: &PagedObject, offset: u64) -> FetchRoute {
        self.cluster.as_ref().map_or_else(FetchRoute::to_origin, |cluster| cluster.route(object, offset))
    }

    /// Returns whether this node fetches the byte at `offset` from the origin on a miss: it is the stripe's home, and
    /// has no peer to ask first.
    pub(crate) fn fills_from_origin(&self, path: &Path, offset: u64) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| {
            let sources = cluster.stripe(path, offset);
            sources.is_home && sources.peers.is_empty()
        })
    }

    /// Returns the piece in memory that contains the first byte of a range, and the piece's bytes within the range.
    /// Counts a hit.
    pub(crate) fn resident(
        &self,
        object: &PagedObject,
        range: Range<u64>,
    ) -> Option<(Arc<PagePiece>, Bytes)> {
        let (page, part) = object.parts(range).next()?;
        let piece = self.cache.pin_memory(&object.key(page), part.start, part.end)?;
        let bytes = piece.slice(part.start, part.end);
        self.counters.bytes_memory.add(bytes.len() as u64);
        Some((piece, bytes))
    }

    /// Returns the offset of the first byte of a range that is not in memory.
    pub(crate) fn first_not_in_memory(&self, object: &PagedObject, range: Range<u64>) -> Option<u64> {
        let Range { start, .. } = range;
        for (page, part) in object.parts(range) {
            let resident = self.cache.memory_blocks(&object.key(page));
            let first = object.layout.block_of(part.start);
            let missing = u64::from(resident.run_end(first)) * object.layout.block;
            if missing < part.end as u64 {
                return Some((object.offset(page) + missing).max(start));
            }
        }

        None
    }
}
