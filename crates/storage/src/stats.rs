//! Counters of the reads of one bucket.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// A relaxed atomic counter.
#[derive(Debug, Default)]
pub(crate) struct AtomicCounter(AtomicU64);

impl AtomicCounter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The atomic counters of [`ReadStats`].
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    pub(crate) bytes_memory: AtomicCounter,
    pub(crate) bytes_disk: AtomicCounter,
    pub(crate) bytes_origin: AtomicCounter,
    pub(crate) bytes_peer: AtomicCounter,
    pub(crate) bytes_to_peers: AtomicCounter,
    pub(crate) bytes_passed_through: AtomicCounter,
    pub(crate) reads_passed_through: AtomicCounter,
    pub(crate) origin_gets: AtomicCounter,
    pub(crate) origin_heads: AtomicCounter,
    pub(crate) peer_reads: AtomicCounter,
    pub(crate) deputy_reads: AtomicCounter,
    pub(crate) donor_reads: AtomicCounter,
    pub(crate) peer_lookups: AtomicCounter,
    pub(crate) pages_fetched: AtomicCounter,
    pub(crate) waits_merged: AtomicCounter,
    pub(crate) prefetched_pages: AtomicCounter,
    pub(crate) retries: AtomicCounter,
    pub(crate) hedges: AtomicCounter,
    pub(crate) changed: AtomicCounter,
}

/// Counters of one bucket's reads since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReadStats {
    /// Bytes served from memory.
    pub bytes_memory: u64,
    /// Bytes read from the disk tier.
    pub bytes_disk: u64,
    /// Bytes received from the origin into the cache.
    pub bytes_origin: u64,
    /// Bytes received from peers into the cache.
    pub bytes_peer: u64,
    /// Bytes sent to peers on request.
    pub bytes_to_peers: u64,
    /// Bytes passed from the origin or a peer to the reader, bypassing the cache.
    pub bytes_passed_through: u64,
    /// Requests that bypassed the cache, including those that returned no bytes.
    pub reads_passed_through: u64,
    /// GET requests sent to the origin.
    pub origin_gets: u64,
    /// HEAD requests sent to the origin.
    pub origin_heads: u64,
    /// Reads sent to peers.
    pub peer_reads: u64,
    /// The subset of `peer_reads` sent to a deputy.
    pub deputy_reads: u64,
    /// The subset of `peer_reads` sent to a donor.
    pub donor_reads: u64,
    /// Version lookups sent to authorities.
    pub peer_lookups: u64,
    /// Pages fetched from the origin.
    pub pages_fetched: u64,
    /// Pages that a reader did not fetch, because another reader's fetch was in flight.
    pub waits_merged: u64,
    /// Pages fetched ahead of a reader.
    pub prefetched_pages: u64,
    /// Retries of requests to the origin.
    pub retries: u64,
    /// Second requests sent because the first one was slow.
    pub hedges: u64,
    /// Fetches that found the object replaced.
    pub changed: u64,
    /// Pages in flight.
    pub in_flight: u64,
    /// Objects whose current version is known.
    pub known_objects: u64,
}

impl ReadCounters {
    /// Returns the counters; the caller sets the gauges (`in_flight`, `known_objects`).
    pub(crate) fn snapshot(&self) -> ReadStats {
        ReadStats {
            bytes_memory: self.bytes_memory.get(),
            bytes_disk: self.bytes_disk.get(),
            bytes_origin: self.bytes_origin.get(),
            bytes_peer: self.bytes_peer.get(),
            bytes_to_peers: self.bytes_to_peers.get(),
            bytes_passed_through: self.bytes_passed_through.get(),
            reads_passed_through: self.reads_passed_through.get(),
            origin_gets: self.origin_gets.get(),
            origin_heads: self.origin_heads.get(),
            peer_reads: self.peer_reads.get(),
            deputy_reads: self.deputy_reads.get(),
            donor_reads: self.donor_reads.get(),
            peer_lookups: self.peer_lookups.get(),
            pages_fetched: self.pages_fetched.get(),
            waits_merged: self.waits_merged.get(),
            prefetched_pages: self.prefetched_pages.get(),
            retries: self.retries.get(),
            hedges: self.hedges.get(),
            changed: self.changed.get(),
            in_flight: 0,
            known_objects: 0,
        }
    }
}
