//! Eviction policies of the tiers: their names, and the trait that they implement.

mod fifo;
mod history;
mod lfu;
mod lirs;
mod lru;
mod queue;
mod s3fifo;
mod sieve;

#[cfg(test)]
mod tests;

use std::{
    fmt::{self, Debug},
    hash::Hash,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

/// An eviction policy for the tiers of the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvictionPolicy {
    /// Low inter-reference recency, with use counts and an adaptive queue of new pages. The default: it keeps the
    /// pages with the shortest reuse distance, so that neither a scan nor a loop larger than the cache flushes it.
    #[default]
    Lirs,
    /// Least recently used.
    Lru,
    /// Least frequently used (W-TinyLFU: a window, and a count-min sketch that ages).
    Lfu,
    /// Three queues: small, main and ghost. A scan does not flush pages that are read repeatedly.
    S3Fifo,
    /// One queue with a moving hand.
    Sieve,
    /// First in, first out.
    Fifo,
}

impl EvictionPolicy {
    /// Every policy, in documentation order.
    pub const ALL: [Self; 6] = [Self::Lirs, Self::Lru, Self::Lfu, Self::S3Fifo, Self::Sieve, Self::Fifo];

    /// Returns the name used in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::S3Fifo => "s3fifo",
            Self::Sieve => "sieve",
            Self::Fifo => "fifo",
            Self::Lirs => "lirs",
        }
    }
}

impl fmt::Display for EvictionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that is not a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not an eviction policy: use lirs, lru, lfu, s3fifo, sieve or fifo")]
pub struct UnknownPolicyError {
    name: String,
}

impl FromStr for EvictionPolicy {
    type Err = UnknownPolicyError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|policy| policy.name() == name);
        known.ok_or_else(|| UnknownPolicyError { name: name.to_owned() })
    }
}

/// Handle of a resident key. Valid until the key is evicted or removed; it may then be reused for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EvictionSlot(u32);

/// Eviction order over weighed keys. Not thread-safe: callers hold a lock.
///
/// The caller owns the map from keys to slots and inserts a key only while it is not resident. It decides when to
/// evict: the policy accepts insertions of any weight.
///
/// All operations take amortised constant time, except that `evict` also pays for each held key it passes.
pub(crate) trait Eviction<K>: Send + Debug {
    /// Adds a key that has become resident after a miss. The caller makes room, before or after, with
    /// [`Self::evict`].
    fn insert(&mut self, key: K, weight: u64) -> EvictionSlot;

    /// Records a re-reference of a resident key.
    fn touch(&mut self, slot: EvictionSlot);

    /// Changes the weight of a resident key whose entry grew.
    fn resize(&mut self, slot: EvictionSlot, weight: u64);

    /// Removes a resident key for a reason other than eviction, without remembering it.
    fn remove(&mut self, slot: EvictionSlot);

    /// Removes the next victim among the keys for which `is_held` is false, and remembers it. Returns `None` if all
    /// keys are held.
    ///
    /// Held candidates get a second chance, so that the next call does not meet them first.
    fn evict(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<K>;

    /// Sets the capacity by which the policy sizes its queues and its history. The caller evicts afterwards.
    fn set_capacity(&mut self, bytes: u64);

    /// Returns whether the key was evicted within about the last capacity of evicted bytes: a larger cache would have
    /// had a hit.
    fn remembers(&self, key: &K) -> bool;

    /// Returns the sum of the weights of the resident keys.
    fn weight(&self) -> u64;

    /// Returns the number of resident keys.
    fn len(&self) -> usize;
}

/// Creates an empty policy for a cache of `capacity` bytes.
pub(crate) fn new<K>(policy: EvictionPolicy, capacity: u64) -> Box<dyn Eviction<K>>
where
    K: Copy + Eq + Hash + Debug + Send + 'static,
{
    match policy {
        EvictionPolicy::Lru => Box::new(lru::Lru::new(capacity)),
        EvictionPolicy::Lfu => Box::new(lfu::TinyLfu::new(capacity)),
        EvictionPolicy::S3Fifo => Box::new(s3fifo::S3Fifo::new(capacity)),
        EvictionPolicy::Sieve => Box::new(sieve::Sieve::new(capacity)),
        EvictionPolicy::Fifo => Box::new(fifo::Fifo::new(capacity)),
        EvictionPolicy::Lirs => Box::new(lirs::Lirs::new(capacity)),
    }
}
