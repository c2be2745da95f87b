//! Options of a page cache: memory, disk, policy, and the size of pages.

use std::path::PathBuf;

use crate::{ByteSize, Error, EvictionPolicy, Result};

const MAX_PAGE: ByteSize = ByteSize::mib(16);
const MIN_PAGE: ByteSize = ByteSize::kib(4);
const DEFAULT_PAGE: ByteSize = ByteSize::mib(1);
const MIN_DISK: ByteSize = ByteSize::mib(16);
/// The minimum part size that all providers accept: with less memory, no large object could be written.
const MIN_FOR_UPLOADS: ByteSize = ByteSize::mib(5);
const MAX_FOR_UPLOADS: ByteSize = ByteSize::mib(512);

/// Options for opening a [`PageCache`](crate::PageCache).
#[derive(Clone, Debug)]
pub struct CacheOptions {
    pub(super) memory: ByteSize,
    pub(super) disk: Option<DiskCacheDir>,
    pub(super) policy: EvictionPolicy,
    pub(super) page_size: ByteSize,
    pub(super) uploads: bool,
}

#[derive(Clone, Debug)]
pub(super) struct DiskCacheDir {
    pub(super) dir: PathBuf,
    pub(super) capacity: ByteSize,
}

impl CacheOptions {
    /// Creates options for a cache of `memory` bytes in total: pages, fetches in flight, and all other users of the
    /// same budget.
    pub fn new(memory: ByteSize) -> Self {
        Self {
            memory,
            disk: None,
            policy: EvictionPolicy::default(),
            page_size: DEFAULT_PAGE,
            uploads: false,
        }
    }

    /// Sets the memory budget.
    pub fn with_memory(mut self, memory: ByteSize) -> Self {
        self.memory = memory;
        self
    }

    /// Keeps pages on disk too, in at most `capacity` bytes under `dir`. Default: no disk.
    pub fn with_disk(mut self, dir: impl Into<PathBuf>, capacity: ByteSize) -> Self {
        self.disk = Some(DiskCacheDir { dir: dir.into(), capacity });
        self
    }

    /// Sets the eviction policy of both tiers. Default: `lirs`.
    pub fn with_policy(mut self, policy: EvictionPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the size of a page, a power of two from 4 KiB to 16 MiB. Default: 1 MiB.
    pub fn with_page_size(mut self, page_size: ByteSize) -> Self {
        self.page_size = page_size;
        self
    }

    /// Limits the memory of all uploads to an eighth of the budget: at most 512 MiB, and at least the 5 MiB that
    /// writing large objects requires. Default: no limit.
    pub fn with_uploads(mut self) -> Self {
        self.uploads = true;
        self
    }

    /// Returns the size of a page in bytes.
    pub fn page_size(&self) -> ByteSize {
        self.page_size
    }

    /// Returns the memory budget.
    pub fn memory(&self) -> ByteSize {
        self.memory
    }

    pub(super) fn validate(&self) -> Result<()> {
        let wrong = |reason: String| Err(Error::Cache { reason });
        if !self.page_size.as_u64().is_power_of_two()
            || self.page_size < MIN_PAGE
            || self.page_size > MAX_PAGE
        {
            return wrong(format!(
                "page size {} must be a power of two from {MIN_PAGE} to {MAX_PAGE}",
                self.page_size
            ));
        }

        if let Some(disk) = &self.disk {
            let min = MIN_DISK.max(ByteSize::bytes(self.page_size.as_u64() * 8));
            if disk.capacity < min {
                return wrong(format!("disk capacity {} is too small: give at least {min}", disk.capacity));
            }
        }
        Ok(())
    }

    /// Returns the bytes that all uploads may hold; `None` if they are not limited.
    pub(super) fn upload_share(&self) -> Option<ByteSize> {
        let eighth = ByteSize::bytes(self.memory.as_u64() / 8);
        self.uploads.then(|| eighth.clamp(MIN_FOR_UPLOADS, MAX_FOR_UPLOADS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_may_hold_an_eighth_of_the_memory_and_always_enough_for_one_part() {
        let uploads = |memory| CacheOptions::new(memory).with_uploads().upload_share();
        assert_eq!(uploads(ByteSize::gib(1)), Some(ByteSize::mib(128)));
        assert_eq!(uploads(ByteSize::gib(64)), Some(ByteSize::mib(512)));
        for bytes in [0, 1, ByteSize::mib(32).as_u64()] {
            assert_eq!(uploads(ByteSize::bytes(bytes)), Some(ByteSize::mib(5)), "{bytes}");
        }
        assert_eq!(CacheOptions::new(ByteSize::gib(1)).upload_share(), None);
    }

    #[test]
    fn odd_page_sizes_and_tiny_disks_are_errors() {
        let memory = ByteSize::mib(64);
        for page in [ByteSize::ZERO, ByteSize::kib(3), ByteSize::bytes((1 << 20) + 1), ByteSize::mib(32)] {
            assert!(CacheOptions::new(memory).with_page_size(page).validate().is_err(), "{page}");
        }
        assert!(CacheOptions::new(memory).with_disk("d", ByteSize::mib(1)).validate().is_err());
        assert!(CacheOptions::new(memory).with_disk("d", ByteSize::mib(16)).validate().is_ok());
    }
}
