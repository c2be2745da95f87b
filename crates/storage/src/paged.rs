//! One version of one object, cut into pages.

use std::{ops::Range, sync::Arc};

use crate::{object::ObjectHash, page_cache::PageKey, versions::Known};

/// A version that may be cached, and where its pages lie.
#[derive(Clone, Debug)]
pub(crate) struct Paged {
    pub(crate) known: Arc<Known>,
    pub(crate) hash: ObjectHash,
    pub(crate) page_size: u64,
}

impl Paged {
    /// The page that holds the byte at `offset`.
    pub(crate) fn page_of(&self, offset: u64) -> u32 {
        (offset / self.page_size) as u32
    }

    pub(crate) fn key(&self, page: u32) -> PageKey {
        PageKey { object: self.hash, page }
    }

    /// Bytes of the object that the page holds.
    pub(crate) fn range(&self, page: u32) -> Range<u64> {
        let start = u64::from(page) * self.page_size;
        start..(start + self.page_size).min(self.known.meta.size)
    }

    /// Number of bytes that the page holds.
    pub(crate) fn len(&self, page: u32) -> usize {
        let Range { start, end } = self.range(page);
        end.saturating_sub(start) as usize
    }
}
