//! Index of the pieces on disk, and of the live bytes per segment.
//!
//! A piece is a run of consecutive blocks of a page. The pieces of a page never overlap: if a batch contains a block
//! that the page already has, the newer one wins. Nothing here does I/O.

use std::{fmt, ops::Range};

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{aligned::SECTOR, batch::BatchEntry, segment::LogGeometry};
use crate::{
    object::ObjectHash,
    page_cache::PageKey,
    policy::{Eviction, EvictionSlot},
};

/// Heap overhead of an allocation, in bytes.
const ALLOCATION_OVERHEAD: usize = 16;

/// A page's key in 20 bytes, without the padding required by the alignment of `u128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CompactKey {
    object: [u32; 4],
    page: u32,
}

impl From<PageKey> for CompactKey {
    fn from(key: PageKey) -> Self {
        let word = |i: u32| (key.object.0 >> (32 * i)) as u32;
        Self { object: [word(0), word(1), word(2), word(3)], page: key.page }
    }
}

impl From<CompactKey> for PageKey {
    fn from(key: CompactKey) -> Self {
        let object = key.object.iter().rev().fold(0, |object, word| (object << 32) | u128::from(*word));
        Self { object: ObjectHash(object), page: key.page }
    }
}

/// A run of blocks of a page on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskPiece {
    /// One per block.
    pub(super) checksums: Box<[u64]>,
    pub(super) segment: u32,
    /// Offset in sectors from the start of the segment, so that 32 bits suffice.
    sector: u32,
    pub(super) len: u32,
    first_block: u8,
}

impl DiskPiece {
    pub(super) fn new(segment: u32, offset: u64, entry: BatchEntry) -> Self {
        Self {
            checksums: entry.checksums,
            segment,
            sector: (offset / SECTOR as u64) as u32,
            len: entry.len,
            first_block: entry.first_block as u8,
        }
    }

    pub(super) fn offset(&self) -> u64 {
        u64::from(self.sector) * SECTOR as u64
    }

    pub(super) fn blocks(&self) -> Range<u32> {
        let first = u32::from(self.first_block);
        first..first + self.checksums.len() as u32
    }

    /// Returns the padded length on disk, in bytes.
    pub(super) fn padded_len(&self) -> u64 {
        u64::from(self.len).next_multiple_of(SECTOR as u64)
    }

    pub(super) fn location(&self) -> PieceLocation {
        PieceLocation { segment: self.segment, offset: self.offset() }
    }

    pub(super) fn to_entry(&self, key: PageKey) -> BatchEntry {
        let first_block = u32::from(self.first_block);
        BatchEntry { key, first_block, len: self.len, checksums: self.checksums.clone() }
    }

    /// Returns the part of the piece that lies in `blocks`.
    pub(super) fn slice(&self, blocks: &Range<u32>, block_size: u64) -> Option<Self> {
        let own = self.blocks();
        let start = own.start.max(blocks.start);
        let end = own.end.min(blocks.end);
        if start >= end {
            return None;
        }

        let skipped = u64::from(start - own.start) * block_size;
        let len = u64::from(self.len).saturating_sub(skipped).min(u64::from(end - start) * block_size);
        let checksums = self.checksums.get((start - own.start) as usize..(end - own.start) as usize)?;
        Some(Self {
            checksums: checksums.into(),
            segment: self.segment,
            sector: self.sector + (skipped / SECTOR as u64) as u32,
            len: len as u32,
            first_block: start as u8,
        })
    }

    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.checksums) + ALLOCATION_OVERHEAD
    }
}

/// The identity of a piece: its location is not reused while the piece is in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PieceLocation {
    pub(super) segment: u32,
    pub(super) offset: u64,
}

type DiskPieces = SmallVec<[DiskPiece; 1]>;

#[derive(Debug)]
struct DiskPageEntry {
    pieces: DiskPieces,
    slot: EvictionSlot,
    /// Set if the page was hit since it was written or copied.
    is_touched: bool,
}

impl DiskPageEntry {
    fn mask(&self) -> u64 {
        self.pieces.iter().fold(0, |mask, piece| mask | mask_of(&piece.blocks()))
    }

    fn weight(&self) -> u64 {
        self.pieces.iter().map(DiskPiece::padded_len).sum()
    }

    fn heap_bytes(&self) -> usize {
        let spilled = if self.pieces.spilled() { self.pieces.capacity() * size_of::<DiskPiece>() } else { 0 };
        spilled + self.pieces.iter().map(DiskPiece::heap_bytes).sum::<usize>()
    }
}

/// Returns the mask of a range of blocks; a page has at most 64.
pub(super) fn mask_of(blocks: &Range<u32>) -> u64 {
    let below = |block: u32| if block >= 64 { u64::MAX } else { (1 << block) - 1 };

    below(blocks.end) & !below(blocks.start)
}

/// A live piece of a segment that is being reclaimed.
#[derive(Debug)]
pub(super) struct LiveDiskPiece {
    pub(super) key: PageKey,
    pub(super) piece: DiskPiece,
    pub(super) is_touched: bool,
}

#[derive(Clone, Debug, Default)]
struct SegmentUse {
    live: u64,
    /// Pages written to the segment, including those since removed.
    keys: Vec<CompactKey>,
}

pub(super) struct DiskIndex {
    geometry: LogGeometry,
    pages: HashMap<CompactKey, DiskPageEntry>,
    policy: Box<dyn Eviction<PageKey>>,
    segments: Vec<SegmentUse>,
    live: u64,
    heap_bytes: usize,
}

impl DiskIndex {
    pub(super) fn new(geometry: LogGeometry, mut policy: Box<dyn Eviction<PageKey>>) -> Self {
        policy.set_capacity(geometry.live_capacity());
        let segments = vec![SegmentUse::default(); geometry.segments as usize];

        Self { geometry, pages: HashMap::new(), policy, segments, live: 0, heap_bytes: 0 }
    }

    /// Returns the keys of all pages.
    pub(super) fn keys(&self) -> impl Iterator<Item = PageKey> + '_ {
        self.pages.keys().map(|key| PageKey::from(*key))
    }

    /// Returns a bitmask of the blocks of a page that are on disk.
    pub(super) fn mask(&self, key: &PageKey) -> u64 {
        self.pages.get(&CompactKey::from(*key)).map_or(0, DiskPageEntry::mask)
    }

    /// Returns the parts of pieces that make up `blocks`, in order. `None` if a block is absent, or if a short block,
    /// which ends its object, is not the last one.
    pub(super) fn slices(&self, key: &PageKey, blocks: Range<u32>) -> Option<DiskPieces> {
        let entry = self.pages.get(&CompactKey::from(*key))?;
        let mut slices = DiskPieces::new();
        let mut next = blocks.start;

        while next < blocks.end {
            let piece = entry.pieces.iter().find(|piece| piece.blocks().contains(&next))?;
            let slice = piece.slice(&(next..blocks.end), self.geometry.block_size)?;
            next = slice.blocks().end;
            if next < blocks.end && !u64::from(slice.len).is_multiple_of(self.geometry.block_size) {
                return None;
            }
            slices.push(slice);
        }
        (!slices.is_empty()).then_some(slices)
    }

    pub(super) fn touch(&mut self, key: &PageKey) {
        if let Some(entry) = self.pages.get_mut(&CompactKey::from(*key)) {
            entry.is_touched = true;
            self.policy.touch(entry.slot);
        }
    }

    /// Adds a piece, replacing the blocks of older ones, and evicts down to the capacity.
    pub(super) fn insert(&mut self, key: PageKey, piece: DiskPiece) {
        self.add(key, piece);
        self.evict_to_capacity();
    }

    fn evict_to_capacity(&mut self) {
        while self.policy.weight() > self.geometry.live_capacity() && self.evict_one().is_some() {}
    }

    fn add(&mut self, key: PageKey, piece: DiskPiece) {
        let Some(segment) = self.segments.get_mut(piece.segment as usize) else { return };
        let compact = CompactKey::from(key);
        segment.keys.push(compact);

        let Some(entry) = self.pages.get_mut(&compact) else {
            let slot = self.policy.insert(key, piece.padded_len());
            let pieces = DiskPieces::from_iter([piece]);
            let entry = DiskPageEntry { pieces, slot, is_touched: false };
            self.account(None, Some(&entry));
            self.pages.insert(compact, entry);
            return;
        };

        let before = EntryUse::of(entry);
        let blocks = piece.blocks();
        let old = std::mem::take(&mut entry.pieces);
        for old in old {
            if mask_of(&old.blocks()) & mask_of(&blocks) == 0 {
                entry.pieces.push(old);
            } else {
                let sides = [0..blocks.start, blocks.end..64];
                let rest = sides.iter().filter_map(|side| old.slice(side, self.geometry.block_size));
                entry.pieces.extend(rest);
            }
        }

        entry.pieces.push(piece);
        self.policy.resize(entry.slot, entry.weight());

        let after = EntryUse::of(entry);
        self.apply(Some(before), Some(after));
    }

    /// Removes a page.
    pub(super) fn remove(&mut self, key: &PageKey) {
        if let Some(entry) = self.pages.remove(&CompactKey::from(*key)) {
            self.policy.remove(entry.slot);
            self.account(Some(&entry), None);
        }
    }

    /// Removes the piece of a page that contains the bytes at `location`; returns whether it still existed.
    pub(super) fn forget(&mut self, key: &PageKey, location: PieceLocation) -> bool {
        self.retain_pieces(key, |piece| {
            let bytes = piece.offset()..piece.offset() + piece.padded_len();
            piece.segment != location.segment || !bytes.contains(&location.offset)
        })
    }

    /// Keeps the pieces of a page for which `keep` is true; returns whether any was removed.
    fn retain_pieces(&mut self, key: &PageKey, keep: impl Fn(&DiskPiece) -> bool) -> bool {
        let compact = CompactKey::from(*key);
        let Some(entry) = self.pages.get_mut(&compact) else { return false };
        if entry.pieces.iter().all(&keep) {
            return false;
        }
        if !entry.pieces.iter().any(&keep) {
            self.remove(key);
            return true;
        }

        let before = EntryUse::of(entry);
        entry.pieces.retain(|piece| keep(piece));
        self.policy.resize(entry.slot, entry.weight());
        let after = EntryUse::of(entry);
        self.apply(Some(before), Some(after));
        true
    }

    /// Replaces a piece by its copy elsewhere, unless it was removed or replaced in the meantime.
    pub(super) fn relocate(&mut self, key: PageKey, from: &DiskPiece, to: DiskPiece) -> bool {
        let compact = CompactKey::from(key);
        let Some(entry) = self.pages.get_mut(&compact) else { return false };
        let Some(at) = entry.pieces.iter().position(|piece| piece == from) else { return false };
        let Some(segment) = self.segments.get_mut(to.segment as usize) else { return false };

        let before = EntryUse::of(entry);
        segment.keys.push(compact);
        entry.is_touched = false;
        if let Some(piece) = entry.pieces.get_mut(at) {
            *piece = to;
        }
        let after = EntryUse::of(entry);
        self.apply(Some(before), Some(after));
        true
    }

    /// Evicts the next page in the order of the policy; returns its bytes on disk, or `None` if there is no page.
    pub(super) fn evict_one(&mut self) -> Option<u64> {
        let key = self.policy.evict(&mut |_| false)?;
        let entry = self.pages.remove(&CompactKey::from(key))?;
        self.account(Some(&entry), None);
        Some(entry.weight())
    }

    pub(super) fn live_pieces(&self, segment: u32) -> Vec<LiveDiskPiece> {
        let mut keys = self.segments.get(segment as usize).map(|used| used.keys.clone()).unwrap_or_default();
        keys.sort_unstable_by_key(|key| (key.object, key.page));
        keys.dedup();

        let entries = keys.iter().filter_map(|key| Some((PageKey::from(*key), self.pages.get(key)?)));
        entries
            .flat_map(|(key, entry)| {
                let own = entry.pieces.iter().filter(move |piece| piece.segment == segment);
                own.map(move |piece| LiveDiskPiece {
                    key,
                    piece: piece.clone(),
                    is_touched: entry.is_touched,
                })
            })
            .collect()
    }

    /// Removes the remaining pieces of a segment.
    pub(super) fn clear_segment(&mut self, segment: u32) {
        let Some(used) = self.segments.get_mut(segment as usize) else { return };

        for key in std::mem::take(&mut used.keys) {
            self.retain_pieces(&PageKey::from(key), |piece| piece.segment != segment);
        }
    }

    /// Returns the live bytes of a segment.
    pub(super) fn live_of(&self, segment: u32) -> u64 {
        self.segments.get(segment as usize).map_or(0, |used| used.live)
    }

    /// Returns the live bytes of all segments.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Estimates the memory of the index, without the policy.
    pub(super) fn memory_bytes(&self) -> usize {
        let table = self.pages.allocation_size();
        let keys: usize =
            self.segments.iter().map(|used| used.keys.capacity() * size_of::<CompactKey>()).sum();

        table + keys + self.heap_bytes
    }

    fn account(&mut self, before: Option<&DiskPageEntry>, after: Option<&DiskPageEntry>) {
        self.apply(before.map(EntryUse::of), after.map(EntryUse::of));
    }

    fn apply(&mut self, before: Option<EntryUse>, after: Option<EntryUse>) {
        if let Some(before) = before {
            self.heap_bytes -= before.heap_bytes;
            for (segment, bytes) in before.bytes {
                self.live -= bytes;
                if let Some(used) = self.segments.get_mut(segment as usize) {
                    used.live -= bytes;
                }
            }
        }

        if let Some(after) = after {
            self.heap_bytes += after.heap_bytes;
            for (segment, bytes) in after.bytes {
                self.live += bytes;
                if let Some(used) = self.segments.get_mut(segment as usize) {
                    used.live += bytes;
                }
            }
        }
    }
}

impl fmt::Debug for DiskIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskIndex")
            .field("pages", &self.pages.len())
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

/// Bytes used by a page, by segment and in memory.
struct EntryUse {
    bytes: SmallVec<[(u32, u64); 4]>,
    heap_bytes: usize,
}

impl EntryUse {
    fn of(entry: &DiskPageEntry) -> Self {
        let bytes = entry.pieces.iter().map(|piece| (piece.segment, piece.padded_len())).collect();
        Self { bytes, heap_bytes: entry.heap_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{self, EvictionPolicy};

    const BLOCK: u64 = 64 << 10;

    fn index() -> DiskIndex {
        DiskIndex::new(LogGeometry::new(1 << 30, 1 << 20, BLOCK), policy::new(EvictionPolicy::Fifo, 0))
    }

    fn key(page: u32) -> PageKey {
        PageKey { object: ObjectHash(u128::MAX / 7), page }
    }

    fn piece(segment: u32, offset: u64, blocks: Range<u32>, len: u64) -> DiskPiece {
        let checksums = blocks.clone().map(|block| u64::from(block) + offset).collect();
        let entry = BatchEntry { key: key(0), first_block: blocks.start, len: len as u32, checksums };
        DiskPiece::new(segment, offset, entry)
    }

    #[test]
    fn a_compact_key_keeps_the_key() {
        let key = PageKey { object: ObjectHash(0x0123_4567_89ab_cdef_1122_3344_5566_7788), page: 9 };
        assert_eq!(PageKey::from(CompactKey::from(key)), key);
        assert_eq!(size_of::<CompactKey>(), 20);
    }

    #[test]
    fn a_newer_piece_replaces_the_blocks_of_older_ones() {
        let mut index = index();
        index.insert(key(1), piece(0, 4096, 0..8, 8 * BLOCK));
        index.insert(key(1), piece(1, 4096, 2..4, 2 * BLOCK));
        assert_eq!(index.mask(&key(1)), 0xff);
        assert_eq!((index.live_of(0), index.live_of(1)), (6 * BLOCK, 2 * BLOCK));

        let slices = index.slices(&key(1), 1..6).unwrap();
        let found: Vec<_> =
            slices.iter().map(|slice| (slice.segment, slice.offset(), slice.blocks())).collect();
        let expected = [(0, 4096 + BLOCK, 1..2), (1, 4096, 2..4), (0, 4096 + 4 * BLOCK, 4..6)];
        assert_eq!(found, expected);

        index.clear_segment(0);
        assert_eq!(index.mask(&key(1)), 0b1100);
        assert!(index.slices(&key(1), 1..3).is_none());
        index.remove(&key(1));
        assert_eq!((index.live(), index.pages(), index.heap_bytes), (0, 0, 0));
    }

    #[test]
    fn a_short_block_can_only_be_the_last_of_a_read() {
        let mut index = index();
        index.insert(key(1), piece(0, 4096, 0..2, BLOCK + 5));
        index.insert(key(1), piece(1, 4096, 2..3, BLOCK));
        assert_eq!(index.slices(&key(1), 1..2).unwrap()[0].len, 5);
        assert!(index.slices(&key(1), 1..3).is_none());
    }

    #[test]
    fn a_copy_of_a_removed_page_does_not_bring_it_back() {
        let mut index = index();
        let old = piece(0, 4096, 0..2, 2 * BLOCK);
        index.insert(key(1), old.clone());
        index.remove(&key(1));
        assert!(!index.relocate(key(1), &old, piece(1, 4096, 0..2, 2 * BLOCK)));
        assert_eq!(index.mask(&key(1)), 0);
    }

    #[test]
    fn the_index_of_full_pages_of_one_mebibyte_takes_less_than_300_bytes_each() {
        let mut index =
            DiskIndex::new(LogGeometry::new(1 << 40, 1 << 20, BLOCK), policy::new(EvictionPolicy::Fifo, 0));
        for page in 0..5000 {
            let at = u64::from(page) % 60;
            index.add(key(page), piece(page / 60, 4096 + at * 16 * BLOCK, 0..16, 16 * BLOCK));
        }
        assert!(index.memory_bytes() < 5000 * 300, "{} bytes each", index.memory_bytes() / 5000);
    }
}
