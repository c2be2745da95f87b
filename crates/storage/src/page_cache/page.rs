//! Pages and the blocks that they consist of.
//!
//! A page is looked up and evicted as a whole, but fetched, read from disk and cached in part: it is a set of pieces,
//! each a run of consecutive blocks.

use std::{
    fmt,
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

use crate::{Reservation, object::ObjectHash, versions::paths_in_use::PathInUse};

/// A page: the hash of its version, and its number, counted from the start of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageKey {
    pub(crate) object: ObjectHash,
    pub(crate) page: u32,
}

/// The smallest unit to fetch, checksum and read from disk, unless pages are smaller.
const BLOCK: u64 = 64 << 10;
/// Maximum blocks per page: a set of blocks is a 64-bit mask.
const MAX_BLOCKS: u64 = u64::BITS as u64;

/// Sizes of pages and blocks in bytes, both powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    pub(crate) page: u64,
    pub(crate) block: u64,
}

impl PageLayout {
    /// Returns the layout of pages of `page` bytes.
    pub(crate) fn of(page: u64) -> Self {
        Self { page, block: BLOCK.min(page).max(page / MAX_BLOCKS) }
    }

    /// Returns the blocks that overlap a byte range of a page.
    pub(crate) fn blocks(&self, range: Range<usize>) -> BlockSet {
        let first = range.start as u64 / self.block;
        let end = (range.end as u64).div_ceil(self.block);
        BlockSet::range(first as u32..end as u32)
    }

    /// Returns the block that contains a byte of a page.
    pub(crate) fn block_of(&self, offset: usize) -> u32 {
        (offset as u64 / self.block) as u32
    }
}

/// A set of blocks of one page.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockSet(pub(crate) u64);

impl BlockSet {
    pub(crate) const NONE: Self = Self(0);

    /// Returns the blocks of a range, limited to the first 64.
    pub(crate) fn range(range: Range<u32>) -> Self {
        let below = |end: u32| if end >= u64::BITS { u64::MAX } else { (1 << end) - 1 };
        Self(below(range.end) & !below(range.start.min(range.end)))
    }

    pub(crate) fn has(self, block: u32) -> bool {
        block < u64::BITS && self.0 >> block & 1 == 1
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the first block of the set at or after `from`.
    pub(crate) fn first_from(self, from: u32) -> Option<u32> {
        let rest = self.0.checked_shr(from).filter(|rest| *rest != 0)?;
        Some(from + rest.trailing_zeros())
    }

    /// Returns the end of the run of blocks in the set that begins at `first`.
    pub(crate) fn run_end(self, first: u32) -> u32 {
        let from = self.0.checked_shr(first).unwrap_or(0);
        first + from.trailing_ones()
    }
}

impl fmt::Debug for BlockSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blocks({:#b})", self.0)
    }
}

/// Overhead of an entry in bytes, besides its content.
pub(crate) const ENTRY_OVERHEAD: u64 = 256;

/// A run of blocks of one page in memory, counted in the budget while anything refers to it: the cache, a reader that
/// is about to reach it, the queue of the disk tier, or a response on its way to a client.
#[derive(Debug)]
pub(crate) struct PagePiece {
    start: usize,
    bytes: Bytes,
    /// Checksums of its blocks, computed when a peer first reads one of them.
    checksums: OnceLock<Box<[u64]>>,
    _charge: Reservation,
    _in_use: Arc<PathInUse>,
}

impl PagePiece {
    /// Creates a piece from the bytes of a page that start at `start`.
    pub(crate) fn new(start: usize, bytes: Bytes, charge: Reservation, in_use: Arc<PathInUse>) -> Arc<Self> {
        Arc::new(Self { start, bytes, checksums: OnceLock::new(), _charge: charge, _in_use: in_use })
    }

    /// Returns the offset of the first byte within the page.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Returns the offset past the last byte, within the page.
    pub(crate) fn end(&self) -> usize {
        self.start + self.bytes.len()
    }

    /// Returns the bytes `from..to` of the page, as far as this piece contains them. The result keeps the piece
    /// alive.
    pub(crate) fn slice(self: &Arc<Self>, from: usize, to: usize) -> Bytes {
        let from = from.clamp(self.start, self.end()) - self.start;
        let to = to.clamp(self.start, self.end()) - self.start;
        if from >= to {
            return Bytes::new();
        }
        Bytes::from_owner(PagePieceSlice { piece: self.clone(), range: from..to })
    }

    /// Returns the checksums of its blocks, computed by the first call.
    pub(crate) fn checksums(&self, compute: impl FnOnce(&[u8]) -> Box<[u64]>) -> &[u64] {
        self.checksums.get_or_init(|| compute(&self.bytes))
    }

    /// Returns all bytes. The result keeps the piece alive.
    pub(crate) fn whole(self: &Arc<Self>) -> Bytes {
        self.slice(self.start, self.end())
    }
}

struct PagePieceSlice {
    piece: Arc<PagePiece>,
    range: Range<usize>,
}

impl AsRef<[u8]> for PagePieceSlice {
    fn as_ref(&self) -> &[u8] {
        self.piece.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, ByteSize, Holder};

    #[test]
    fn a_page_has_at_most_64_blocks_of_64_kib_or_more() {
        let blocks = |page: u64| PageLayout::of(page).block;
        assert_eq!(blocks(4 << 10), 4 << 10);
        assert_eq!(blocks(1 << 20), 64 << 10);
        assert_eq!(blocks(16 << 20), 256 << 10);
        assert_eq!(PageLayout::of(1 << 20).blocks(65_535..65_537), BlockSet(0b11));
        assert_eq!(PageLayout::of(1 << 20).blocks(0..1 << 20), BlockSet(0xffff));
        assert_eq!(PageLayout::of(16 << 20).blocks(0..16 << 20), BlockSet(u64::MAX));
    }

    #[test]
    fn sets_of_blocks_know_their_runs() {
        let set = BlockSet::range(2..5).union(BlockSet::range(63..64));
        assert!(set.has(2) && set.has(63) && !set.has(5) && !set.has(64));
        assert_eq!((set.run_end(2), set.run_end(4), set.run_end(5), set.run_end(63)), (5, 5, 5, 64));
        assert_eq!([0, 3, 5, 64].map(|from| set.first_from(from)), [Some(2), Some(3), Some(63), None]);
        assert_eq!(BlockSet::range(5..5), BlockSet::NONE);
        assert!(set.intersects(BlockSet::range(4..9)) && !set.contains(BlockSet::range(4..9)));
    }

    #[test]
    fn a_slice_keeps_its_piece_counted() {
        let budget = Budget::new(ByteSize::bytes(100));
        let charge = budget.try_reserve(Holder::Pages, 5).unwrap();
        let piece = PagePiece::new(10, Bytes::from_static(b"abcde"), charge, PathInUse::sole());
        let slice = piece.slice(8, 13);
        assert_eq!((slice.as_ref(), piece.whole().as_ref()), (b"abc".as_slice(), b"abcde".as_slice()));
        assert!(piece.slice(15, 20).is_empty());
        drop(piece);
        assert_eq!(budget.used(), 5);
        drop(slice);
        assert_eq!(budget.used(), 0);
    }
}
