//! The memory tier: pieces of pages, evicted by policy when the budget needs room.
//!
//! Invariant: a page is not evicted while anything outside the tier holds one of its pieces. Evicting it would free
//! nothing, and the next reader would fetch it a second time.
//!
//! Pages whose home is another node have an eviction order of their own, within a quota: they compete only with each
//! other, and never displace this node's own pages beyond the quota.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{
    long_reads::LongReads,
    page::{BlockSet, ENTRY_OVERHEAD, PageKey, PageLayout, PagePiece},
};
use crate::{
    Budget, EvictionPolicy, Holder,
    budget::{HitMeter, Reclaim},
    object::ObjectHash,
    policy::{self, Eviction, EvictionSlot},
};

/// Divisor of the budget that yields the quota for pages whose home is another node.
const PEER_QUOTA_DIVISOR: u64 = 8;

type MemoryPieces = SmallVec<[Arc<PagePiece>; 1]>;

/// Pages in memory.
#[derive(Debug)]
pub(super) struct MemoryTier {
    layout: PageLayout,
    budget: Budget,
    reads: Arc<LongReads>,
    hits: HitMeter,
    policy: EvictionPolicy,
    pages: Mutex<MemoryPages>,
}

#[derive(Debug)]
struct MemoryPages {
    entries: HashMap<PageKey, MemoryPageEntry>,
    order: Box<dyn Eviction<PageKey>>,
    /// The eviction order of pages whose home is another node, once there has been one.
    peer_order: Option<Box<dyn Eviction<PageKey>>>,
    /// Capacity that the policy sizes its queues by.
    capacity: u64,
    bytes: u64,
    evictions: u64,
}

#[derive(Debug)]
struct MemoryPageEntry {
    slot: EvictionSlot,
    /// True if the slot belongs to the order of other nodes' pages.
    is_of_peer: bool,
    pieces: MemoryPieces,
    blocks: BlockSet,
    bytes: u64,
    /// Blocks read since the policy's last touch.
    seen: BlockSet,
    /// End of the last read.
    next: usize,
}

/// Usage of the memory tier.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryUse {
    pub(super) bytes: u64,
    pub(super) pages: u64,
    pub(super) evictions: u64,
}

impl MemoryTier {
    /// Creates an empty tier and registers it with the budget.
    pub(super) fn new(
        layout: PageLayout,
        policy: EvictionPolicy,
        budget: Budget,
        reads: Arc<LongReads>,
    ) -> Arc<Self> {
        let capacity = budget.capacity();
        let order = policy::new(policy, capacity);
        let pages = MemoryPages {
            entries: HashMap::new(),
            order,
            peer_order: None,
            capacity,
            bytes: 0,
            evictions: 0,
        };

        let pages = Mutex::new(pages);
        let tier = Arc::new(Self { layout, budget, reads, hits: HitMeter::default(), policy, pages });
        let weak = Arc::downgrade(&tier);
        tier.budget.register(Holder::Pages, weak);
        tier
    }

    /// Returns bytes of the page starting at `from`, up to `to` at most, all from one piece. The read counts as a
    /// hit.
    pub(super) fn read(&self, key: &PageKey, from: usize, to: usize) -> Option<Bytes> {
        let piece = self.pin(key, from, to)?;
        Some(piece.slice(from, to))
    }

    /// Returns the piece that contains the byte at `from`, for a reader that will read up to `to`. The read counts as
    /// a hit.
    pub(super) fn pin(&self, key: &PageKey, from: usize, to: usize) -> Option<Arc<PagePiece>> {
        let mut pages = self.pages.lock();
        let MemoryPages { entries, order, peer_order, .. } = &mut *pages;
        let entry = entries.get_mut(key)?;
        let covers = |piece: &&Arc<PagePiece>| (piece.start()..piece.end()).contains(&from);
        let piece = entry.pieces.iter().find(covers)?.clone();

        let end = to.min(piece.end());
        self.hits.add((end - from) as u64);
        if entry.note_read(self.layout, from, end) {
            order_of(entry.is_of_peer, order, peer_order).touch(entry.slot);
        }
        Some(piece)
    }

    /// Returns the blocks of the page that are in memory.
    pub(super) fn blocks(&self, key: &PageKey) -> BlockSet {
        self.pages.lock().entries.get(key).map_or(BlockSet::NONE, |entry| entry.blocks)
    }

    /// Adds a piece whose memory is already reserved.
    pub(super) fn insert(&self, key: PageKey, piece: Arc<PagePiece>) {
        self.insert_as(key, piece, false);
    }

    /// Adds a piece whose home is another node, and evicts such pages down to their quota.
    pub(super) fn insert_of_peer(&self, key: PageKey, piece: Arc<PagePiece>) {
        self.insert_as(key, piece, true);

        let quota = self.peer_quota();
        let mut evicted = Vec::new();
        let mut pages = self.pages.lock();
        while pages.peer_order.as_ref().is_some_and(|order| order.weight() > quota)
            && let Some(entry) = pages.evict_of_peer()
        {
            evicted.push(entry.pieces);
        }
        drop(pages);
    }

    fn peer_quota(&self) -> u64 {
        self.budget.capacity() / PEER_QUOTA_DIVISOR
    }

    fn insert_as(&self, key: PageKey, piece: Arc<PagePiece>, is_of_peer: bool) {
        let blocks = self.layout.blocks(piece.start()..piece.end());
        let bytes = (piece.end() - piece.start()) as u64 + ENTRY_OVERHEAD;
        let mut pages = self.pages.lock();

        let MemoryPages { entries, order, peer_order, .. } = &mut *pages;
        if is_of_peer && peer_order.is_none() {
            *peer_order = Some(policy::new(self.policy, self.peer_quota()));
        }

        if let Some(entry) = entries.get_mut(&key) {
            if entry.blocks.contains(blocks) {
                return;
            }
            entry.blocks = entry.blocks.union(blocks);
            entry.seen = entry.seen.union(blocks);
            entry.next = piece.end();
            entry.pieces.push(piece);
            entry.bytes += bytes;
            order_of(entry.is_of_peer, order, peer_order).resize(entry.slot, entry.bytes);
            if entry.is_of_peer && !is_of_peer {
                // This node has become the home of the page.
                order_of(true, order, peer_order).remove(entry.slot);
                entry.slot = order.insert(key, entry.bytes);
                entry.is_of_peer = false;
            }
        } else {
            let order = order_of(is_of_peer, order, peer_order);
            if order.remembers(&key) {
                // A larger cache would have had it.
                self.hits.add(bytes);
            }
            let slot = order.insert(key, bytes);
            let next = piece.end();
            let pieces = SmallVec::from_elem(piece, 1);
            entries
                .insert(key, MemoryPageEntry { slot, is_of_peer, pieces, blocks, bytes, seen: blocks, next });
        }

        pages.bytes += bytes;
    }

    /// Returns the keys of an object's pages in memory. Scans the keys of all pages.
    pub(super) fn pages_of(&self, object: ObjectHash) -> Vec<PageKey> {
        self.pages.lock().entries.keys().filter(|key| key.object == object).copied().collect()
    }

    /// Removes a page. Returns whether it existed.
    pub(super) fn remove(&self, key: &PageKey) -> bool {
        let removed = {
            let mut pages = self.pages.lock();
            let removed = pages.entries.remove(key);
            if let Some(entry) = &removed {
                let MemoryPages { order, peer_order, .. } = &mut *pages;
                order_of(entry.is_of_peer, order, peer_order).remove(entry.slot);
                pages.bytes -= entry.bytes;
            }
            removed
        };
        removed.is_some()
    }

    pub(super) fn usage(&self) -> MemoryUse {
        let pages = self.pages.lock();
        MemoryUse { bytes: pages.bytes, pages: pages.entries.len() as u64, evictions: pages.evictions }
    }
}

impl Reclaim for MemoryTier {
    fn value(&self) -> f64 {
        self.hits.rate() / self.pages.lock().bytes.max(1) as f64
    }

    fn reclaim(&self, bytes: u64) -> u64 {
        let capacity = self.budget.capacity_for(Holder::Pages);
        let mut freed = 0;
        let mut evicted = Vec::new();
        {
            let mut pages = self.pages.lock();
            pages.set_capacity(capacity);
            while freed < bytes
                && let Some(entry) = pages.evict(&self.reads)
            {
                freed += entry.bytes;
                evicted.push(entry.pieces);
            }
        }

        // Free the memory after releasing the lock, since that takes long.
        drop(evicted);
        freed
    }
}

impl MemoryPages {
    /// Resizes the queues of the policy, unless the change is too small to matter.
    fn set_capacity(&mut self, capacity: u64) {
        if capacity.abs_diff(self.capacity) > self.capacity / 64 {
            self.capacity = capacity;
            self.order.set_capacity(capacity);
        }
    }

    fn evict(&mut self, reads: &LongReads) -> Option<MemoryPageEntry> {
        let entries = &self.entries;
        let mut is_held = |key: &PageKey| entries.get(key).is_some_and(MemoryPageEntry::is_held);
        let mut is_kept = |key: &PageKey| is_held(key) || reads.will_reach(key);
        let key = self.order.evict(&mut is_kept).or_else(|| self.order.evict(&mut is_held));
        let Some(key) = key else { return self.evict_of_peer() };
        self.remove_evicted(&key)
    }

    fn evict_of_peer(&mut self) -> Option<MemoryPageEntry> {
        let entries = &self.entries;
        let mut is_held = |key: &PageKey| entries.get(key).is_some_and(MemoryPageEntry::is_held);
        let key = self.peer_order.as_mut()?.evict(&mut is_held)?;
        self.remove_evicted(&key)
    }

    fn remove_evicted(&mut self, key: &PageKey) -> Option<MemoryPageEntry> {
        let entry = self.entries.remove(key)?;
        self.bytes -= entry.bytes;
        self.evictions += 1;
        Some(entry)
    }
}

/// Returns the eviction order of a page.
fn order_of<'a>(
    is_of_peer: bool,
    order: &'a mut Box<dyn Eviction<PageKey>>,
    peer_order: &'a mut Option<Box<dyn Eviction<PageKey>>>,
) -> &'a mut dyn Eviction<PageKey> {
    match peer_order {
        Some(peer_order) if is_of_peer => peer_order.as_mut(),
        _ => order.as_mut(),
    }
}

impl MemoryPageEntry {
    fn is_held(&self) -> bool {
        self.pieces.iter().any(|piece| Arc::strong_count(piece) > 1)
    }

    /// Records a read and returns whether it is a re-reference. A read that continues the previous one, or that reads
    /// blocks not seen before, is not: a reader may go through a page in small steps.
    fn note_read(&mut self, layout: PageLayout, from: usize, to: usize) -> bool {
        let blocks = layout.blocks(from..to);
        let goes_on = from == self.next;
        let is_again = !goes_on && self.seen.intersects(blocks);
        self.seen = if is_again { blocks } else { self.seen.union(blocks) };
        self.next = to;
        is_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteSize, object::ObjectHash, versions::paths_in_use::PathInUse};

    const PAGE: usize = 1 << 20;

    fn tier(pages: u64) -> (Arc<MemoryTier>, Budget) {
        let budget = Budget::new(ByteSize::bytes(pages * (PAGE as u64 + ENTRY_OVERHEAD)));
        let reads = LongReads::new(PAGE as u64, budget.capacity());
        (MemoryTier::new(PageLayout::of(PAGE as u64), EvictionPolicy::Lru, budget.clone(), reads), budget)
    }

    fn key(page: u32) -> PageKey {
        PageKey { object: ObjectHash(1), page }
    }

    fn piece(budget: &Budget, start: usize, len: usize) -> Option<Arc<PagePiece>> {
        let charge = budget.try_reserve(Holder::Pages, len as u64 + ENTRY_OVERHEAD)?;
        Some(PagePiece::new(start, Bytes::from(vec![7; len]), charge, PathInUse::sole()))
    }

    #[test]
    fn a_full_tier_evicts_for_new_pages_and_never_passes_its_budget() {
        let (tier, budget) = tier(4);
        for page in 0..100 {
            let piece = piece(&budget, 0, PAGE).unwrap();
            tier.insert(key(page), piece);
            assert!(budget.used() <= budget.capacity());
        }
        let MemoryUse { bytes, pages, evictions } = tier.usage();
        assert_eq!((bytes, pages, evictions), (budget.used(), 4, 96));
    }

    #[test]
    fn a_page_that_anything_holds_is_not_evicted() {
        let (tier, budget) = tier(3);
        let held = piece(&budget, 0, PAGE).unwrap();
        tier.insert(key(0), held.clone());
        let answer = {
            let piece = piece(&budget, 0, PAGE).unwrap();
            tier.insert(key(1), piece.clone());
            piece.slice(5, 10)
        };
        for page in 2..20 {
            let piece = piece(&budget, 0, PAGE).unwrap();
            tier.insert(key(page), piece);
        }
        assert!(tier.read(&key(0), 0, 1).is_some() && tier.read(&key(1), 0, 1).is_some());

        let third = piece(&budget, 0, PAGE).unwrap();
        assert!(piece(&budget, 0, PAGE).is_none(), "all three are held");
        drop((held, answer, third));
        assert!(piece(&budget, 0, PAGE).is_some());
    }

    #[test]
    fn pieces_of_a_page_add_up() {
        let (tier, budget) = tier(2);
        tier.insert(key(0), piece(&budget, 0, 65_536).unwrap());
        tier.insert(key(0), piece(&budget, 131_072, 65_536).unwrap());
        assert_eq!(tier.blocks(&key(0)), BlockSet(0b101));
        assert_eq!(tier.read(&key(0), 100, 200_000).unwrap().len(), 65_436);
        assert!(tier.read(&key(0), 65_536, 65_537).is_none());
        tier.insert(key(0), piece(&budget, 65_536, 65_536).unwrap());
        assert_eq!(tier.blocks(&key(0)), BlockSet(0b111));
        assert_eq!(tier.usage().pages, 1);
        assert!(tier.remove(&key(0)) && !tier.remove(&key(0)));
        assert_eq!((budget.used(), tier.usage().bytes), (0, 0));
    }

    #[test]
    fn pages_of_peers_make_room_for_each_other_and_not_for_own_ones() {
        let (tier, budget) = tier(16);
        for page in 0..12 {
            tier.insert(key(page), piece(&budget, 0, PAGE).unwrap());
        }
        for page in 100..150 {
            tier.insert_of_peer(key(page), piece(&budget, 0, PAGE).unwrap());
        }
        let resident = |pages: std::ops::Range<u32>| {
            pages.filter(|page| tier.blocks(&key(*page)) != BlockSet::NONE).collect::<Vec<_>>()
        };
        assert_eq!(resident(0..12).len(), 12);
        assert_eq!(resident(100..150), [148, 149], "an eighth of the budget, the latest");
        assert_eq!(tier.usage().bytes, budget.used());

        tier.insert(key(148), piece(&budget, PAGE / 2, PAGE / 2).unwrap());
        assert!(tier.remove(&key(149)) && !tier.remove(&key(149)));
        assert_eq!(resident(100..150), [148]);
    }

    #[test]
    fn a_page_that_this_node_becomes_home_of_leaves_the_quota_of_peers() {
        let (tier, budget) = tier(8);
        tier.insert_of_peer(key(0), piece(&budget, 0, PAGE / 2).unwrap());
        tier.insert(key(0), piece(&budget, PAGE / 2, PAGE / 2).unwrap());
        for page in 1..20 {
            tier.insert_of_peer(key(page), piece(&budget, 0, PAGE).unwrap());
        }
        assert_eq!(tier.usage().pages, 2);
        assert_eq!(tier.blocks(&key(0)), tier.layout.blocks(0..PAGE));
    }

    #[test]
    fn small_steps_through_a_page_are_one_read_and_coming_back_is_another() {
        let layout = PageLayout::of(PAGE as u64);
        let (tier, budget) = tier(2);
        tier.insert(key(0), piece(&budget, 0, PAGE).unwrap());
        let mut pages = tier.pages.lock();
        let entry = pages.entries.get_mut(&key(0)).unwrap();
        entry.seen = BlockSet::NONE;
        entry.next = 0;
        for start in (0..PAGE).step_by(4096) {
            assert!(!entry.note_read(layout, start, start + 4096), "{start}");
        }
        assert!(entry.note_read(layout, 0, 10), "again from the start");
        assert!(!entry.note_read(layout, 500_000, 500_001), "other blocks");
        assert!(entry.note_read(layout, 3, 4));
    }
}
