//! One version of one object, divided into pages.

use std::{ops::Range, sync::Arc};

use crate::{
    object::ObjectHash,
    page_cache::{PageKey, PageLayout},
    peers::PeerRole,
    read::flight::PieceFlight,
    versions::ObjectInfo,
};

/// A version that may be cached, and the layout of its pages.
#[derive(Clone, Debug)]
pub(crate) struct PagedObject {
    pub(crate) known: Arc<ObjectInfo>,
    pub(crate) hash: ObjectHash,
    pub(crate) layout: PageLayout,
    /// The role in which a peer asked for its bytes; `None` if a client of this node reads them.
    pub(crate) asked_as: Option<PeerRole>,
}

impl PagedObject {
    /// Returns the page that holds the byte at `offset`.
    pub(crate) fn page_of(&self, offset: u64) -> u32 {
        (offset / self.layout.page) as u32
    }

    pub(crate) fn key(&self, page: u32) -> PageKey {
        PageKey { object: self.hash, page }
    }

    /// Returns the offset in the object of the page's first byte.
    pub(crate) fn offset(&self, page: u32) -> u64 {
        u64::from(page) * self.layout.page
    }

    /// Returns the number of bytes that the page holds.
    pub(crate) fn len(&self, page: u32) -> usize {
        let start = self.offset(page);
        ((start + self.layout.page).min(self.size()).saturating_sub(start)) as usize
    }

    /// Returns the page and the number within it of the block that holds the byte at `offset`.
    pub(crate) fn block_at(&self, offset: u64) -> (PageKey, u32) {
        let page = self.page_of(offset);
        (self.key(page), self.layout.block_of((offset - self.offset(page)) as usize))
    }

    /// Returns the number of bytes from `offset`, where a block begins, to its end.
    pub(crate) fn block_len(&self, offset: u64) -> usize {
        self.layout.block.min(self.size().saturating_sub(offset)) as usize
    }

    /// Returns how many of `len` bytes from `offset` on, where a block begins, are whole blocks of its page.
    pub(crate) fn whole_blocks(&self, offset: u64, len: usize) -> usize {
        let page = self.page_of(offset);
        let left = (self.offset(page) + self.len(page) as u64).saturating_sub(offset) as usize;
        if len >= left { left } else { len - len % self.layout.block as usize }
    }

    /// Returns whether a read may wait for a flight: a peer's must not wait for one that may wait for that peer.
    pub(crate) fn may_join(&self, flight: &PieceFlight) -> bool {
        self.asked_as.is_none_or(|role| flight.reach() < Some(role))
    }

    /// Returns the number of bytes of the object.
    pub(crate) fn size(&self) -> u64 {
        self.known.meta.size
    }

    /// Extends the range to whole blocks within the object.
    pub(crate) fn align(&self, range: Range<u64>) -> Range<u64> {
        let block = self.layout.block;
        let start = range.start / block * block;
        let end = range.end.div_ceil(block).saturating_mul(block).min(self.size());
        start..end.max(start)
    }

    /// Returns the parts of a range, page by page: the page, and the bytes of it that lie in the range.
    pub(crate) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (u32, Range<usize>)> + '_ {
        let pages =
            if range.is_empty() { 0..0 } else { self.page_of(range.start)..self.page_of(range.end - 1) + 1 };
        pages.map(move |page| {
            let start = self.offset(page);
            let from = range.start.saturating_sub(start) as usize;
            let to = (range.end - start).min(self.len(page) as u64) as usize;
            (page, from..to)
        })
    }
}
