//! What a page cache may take, and how it divides that among its parts.

use std::path::PathBuf;

use crate::{ByteSize, Error, EvictionPolicy, Result};

pub(super) const LARGEST_PAGE: ByteSize = ByteSize::mib(16);
const SMALLEST_PAGE: ByteSize = ByteSize::kib(4);
const DEFAULT_PAGE: ByteSize = ByteSize::mib(1);
const DEFAULT_SMALL_OBJECT: ByteSize = ByteSize::mib(10);
/// What headers and alignment add to the pages of a write buffer.
const WRITE_OVERHEAD: ByteSize = ByteSize::kib(64);
const LARGEST_WRITE_BUFFER: ByteSize = ByteSize::mib(32);
/// The smallest part that every provider takes: with less, no large object could be written.
const LEAST_FOR_UPLOADS: ByteSize = ByteSize::mib(5);
const MOST_FOR_UPLOADS: ByteSize = ByteSize::mib(512);

/// How to open a [`PageCache`](crate::PageCache).
#[derive(Clone, Debug)]
pub struct CacheOptions {
    pub(super) memory: ByteSize,
    pub(super) disk: Option<DiskOptions>,
    pub(super) policy: EvictionPolicy,
    pub(super) page_size: ByteSize,
    pub(super) small_object: ByteSize,
    pub(super) uploads: bool,
}

#[derive(Clone, Debug)]
pub(super) struct DiskOptions {
    pub(super) dir: PathBuf,
    pub(super) capacity: ByteSize,
}

/// The parts of the memory budget. What they add up to is the budget; the write buffer counts three times, since
/// one copy fills while another is written and a queue of the same size waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) memory: ByteSize,
    pub(super) in_flight: ByteSize,
    pub(super) write_buffer: ByteSize,
    pub(super) uploads: ByteSize,
}

impl CacheOptions {
    /// A cache of `memory` bytes in all: pages, fetches under way and buffers for the disk.
    pub fn new(memory: ByteSize) -> Self {
        Self {
            memory,
            disk: None,
            policy: EvictionPolicy::default(),
            page_size: DEFAULT_PAGE,
            small_object: DEFAULT_SMALL_OBJECT,
            uploads: false,
        }
    }

    /// Another memory budget.
    pub fn with_memory(mut self, memory: ByteSize) -> Self {
        self.memory = memory;
        self
    }

    /// Keeps pages on disk too, in at most `capacity` bytes under `dir`. Default: no disk.
    pub fn with_disk(mut self, dir: impl Into<PathBuf>, capacity: ByteSize) -> Self {
        self.disk = Some(DiskOptions { dir: dir.into(), capacity });
        self
    }

    /// Which page leaves memory first. Default: `s3fifo`.
    pub fn with_policy(mut self, policy: EvictionPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Size of a page, a power of two from 4 KiB to 16 MiB. Default: 1 MiB.
    pub fn with_page_size(mut self, page_size: ByteSize) -> Self {
        self.page_size = page_size;
        self
    }

    /// Pages of objects larger than this displace nothing in memory when they are fetched: where it is full they go
    /// to disk only, and to memory when they are read again. Without a disk it means nothing. Default: 10 MiB.
    pub fn with_small_object(mut self, small_object: ByteSize) -> Self {
        self.small_object = small_object;
        self
    }

    /// Leaves an eighth of the memory to uploads: 512 MiB at most, and never less than the 5 MiB without which no
    /// large object could be written. Default: nothing is left to them.
    pub fn with_uploads(mut self) -> Self {
        self.uploads = true;
        self
    }

    /// Size of a page in bytes.
    pub fn page_size(&self) -> ByteSize {
        self.page_size
    }

    /// The memory budget.
    pub fn memory(&self) -> ByteSize {
        self.memory
    }

    pub(super) fn validate(&self) -> Result<()> {
        let wrong = |reason: String| Err(Error::Cache { reason });
        if !self.page_size.as_u64().is_power_of_two()
            || self.page_size < SMALLEST_PAGE
            || self.page_size > LARGEST_PAGE
        {
            return wrong(format!(
                "page size {} must be a power of two from {SMALLEST_PAGE} to {LARGEST_PAGE}",
                self.page_size
            ));
        }
        if let Some(disk) = &self.disk {
            let least = ByteSize::bytes(self.block_size().as_u64() * 4);
            if disk.capacity < least {
                return wrong(format!("disk capacity {} is too small: give at least {least}", disk.capacity));
            }
        }
        Ok(())
    }

    /// The unit in which the disk is reclaimed: whole blocks of many pages.
    pub(super) fn block_size(&self) -> ByteSize {
        let small_disk = self.disk.as_ref().is_some_and(|disk| disk.capacity < ByteSize::gib(1));
        let usual = if small_disk { ByteSize::mib(4) } else { ByteSize::mib(16) };
        usual.max(ByteSize::bytes(self.page_size.as_u64() * 2))
    }

    pub(super) fn shares(&self) -> Shares {
        let uploads = match self.uploads {
            true => ByteSize::bytes(self.memory.as_u64() / 8).clamp(LEAST_FOR_UPLOADS, MOST_FOR_UPLOADS),
            false => ByteSize::ZERO,
        };
        let budget = self.memory.as_u64().saturating_sub(uploads.as_u64());
        let page = self.page_size.as_u64();
        // A page under way, a page at rest, and three buffers of two pages for the disk: less holds nothing.
        let buffers = |write_buffer: u64| if self.disk.is_some() { 3 * write_buffer } else { 0 };
        let least_buffer = 2 * page + WRITE_OVERHEAD.as_u64();
        if budget < 4 * page + buffers(least_buffer) {
            let zero = ByteSize::ZERO;
            return Shares { memory: zero, in_flight: zero, write_buffer: zero, uploads };
        }
        let write_buffer = (budget / 16).min(LARGEST_WRITE_BUFFER.as_u64()).max(least_buffer);
        let in_flight = (budget / 4).max(page);
        Shares {
            memory: ByteSize::bytes(budget.saturating_sub(in_flight + buffers(write_buffer)).max(page)),
            in_flight: ByteSize::bytes(in_flight),
            write_buffer: ByteSize::bytes(write_buffer),
            uploads,
        }
    }

    /// Enough shards that threads seldom meet, few enough that each holds many pages.
    pub(super) fn memory_shards(&self, memory: ByteSize) -> usize {
        (memory.as_u64() / (64 * self.page_size.as_u64())).clamp(1, 16) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_budget() {
        for mib in [32, 64, 100, 1024, 65536] {
            let reads = CacheOptions::new(ByteSize::mib(mib)).with_disk("d", ByteSize::gib(1));
            for (options, part) in [(reads.clone(), 2), (reads.with_uploads(), 3)] {
                let Shares { memory, in_flight, write_buffer, uploads } = options.shares();
                let buffers = 3 * write_buffer.as_u64();
                let sum = memory.as_u64() + in_flight.as_u64() + buffers + uploads.as_u64();
                assert_eq!(sum, mib << 20);
                assert!(memory.as_u64() * part >= sum, "{mib} MiB: most of a budget is for pages");
            }
        }
    }

    #[test]
    fn uploads_have_an_eighth_of_the_memory_and_enough_for_one_part_of_none() {
        let uploads = |memory| CacheOptions::new(memory).with_uploads().shares().uploads;
        assert_eq!(uploads(ByteSize::gib(1)), ByteSize::mib(128));
        assert_eq!(uploads(ByteSize::gib(64)), ByteSize::mib(512));
        for bytes in [0, 1, ByteSize::mib(32).as_u64()] {
            assert_eq!(uploads(ByteSize::bytes(bytes)), ByteSize::mib(5), "{bytes}");
        }
        assert_eq!(CacheOptions::new(ByteSize::gib(1)).shares().uploads, ByteSize::ZERO);
    }

    #[test]
    fn a_budget_too_small_for_pages_holds_none() {
        for bytes in [0, 1, ByteSize::mib(1).as_u64(), ByteSize::mib(4).as_u64() - 1] {
            assert_eq!(CacheOptions::new(ByteSize::bytes(bytes)).shares().memory, ByteSize::ZERO);
        }
        assert!(CacheOptions::new(ByteSize::mib(4)).shares().memory > ByteSize::ZERO);
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
