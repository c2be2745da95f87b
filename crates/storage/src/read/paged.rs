//! One version of one object, divided into pages.

use std::{ops::Range, sync::Arc};

use crate::{
    object::ObjectHash,
    page_cache::{PageKey, PageLayout},
    peers::PeerRole,
    read::flight::PieceFlight,
    versions::ObjectInfo,
};

/// A cacheable version, and the layout of its pages.
#[derive(Clone, Debug)]
pub(crate) struct PagedObject {
    pub(crate) known: Arc<ObjectInfo>,
    pub(crate) hash: ObjectHash,
    pub(crate) layout: PageLayout,
    /// The role in which a peer asked for its bytes; `None` for reads by a client of this node.
    pub(crate) asked_as: Option<PeerRole>,
}

impl PagedObject {
    /// Returns the page that contains the byte at `offset`.
    pub(crate) fn page_of(&self, offset: u64) -> u32 {
        (offset / self.layout.page) as u32
    }

    pub(crate) fn key(&self, page: u32) -> PageKey {
        PageKey { object: self.hash, page }
    }

    /// Returns the offset of the page's first byte in the object.
    pub(crate) fn offset(&self, page: u32) -> u64 {
        u64::from(page) * self.layout.page
    }

    /// Returns the number of bytes in the page.
    pub(crate) fn len(&self, page: u32) -> usize {
        let start = self.offset(page);
        ((start + self.layout.page).min(self.size()).saturating_sub(start)) as usize
    }

    /// Returns the page that contains the byte at `offset`, and the number of its block in that page.
    pub(crate) fn block_at(&self, offset: u64) -> (PageKey, u32) {
        let page = self.page_of(offset);
        (self.key(page), self.layout.block_of((offset - self.offset(page)) as usize))
    }

    /// Returns the length of the block that starts at `offset`.
    pub(crate) fn block_len(&self, offset: u64) -> usize {
        self.layout.block.min(self.size().saturating_sub(offset)) as usize
    }

    /// Returns how many of the `len` bytes from `offset`, the start of a block, form whole blocks of its page.
    pub(crate) fn whole_blocks(&self, offset: u64, len: usize) -> usize {
        let page = self.page_of(offset);
        let left = (self.offset(page) + self.len(page) as u64).saturating_sub(offset) as usize;
        if len >= left { left } else { len - len % self.layout.block as usize }
    }

    /// Returns whether a read may wait for a flight: a read by a peer must not wait for a flight that may wait for
    /// that peer.
    pub(crate) fn may_join(&self, flight: &PieceFlight) -> bool {
        self.asked_as.is_none_or(|role| flight.reach() < Some(role))
    }

    /// Returns the size of the object in bytes.
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

    /// Returns the parts of a range by page: the page number, and the byte range within the page.
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
