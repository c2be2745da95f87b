//! Pages with known bytes, and a disk that fails, blocks or corrupts data on demand.

use std::{
    io::{self, ErrorKind, IoSlice},
    mem::MaybeUninit,
    time::Duration,
};

use super::super::*;
use crate::{
    object::ObjectHash,
    policy::{self, EvictionPolicy},
};

pub(super) const MIB: u64 = 1 << 20;
/// Block size of the default layout.
pub(super) const BLOCK: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct TestDiskLayout {
    pub(super) capacity: u64,
    pub(super) page_size: u64,
    pub(super) queue: u64,
}

pub(super) const LAYOUT: TestDiskLayout =
    TestDiskLayout { capacity: 64 * MIB, page_size: MIB, queue: 256 * MIB };

impl TestDiskLayout {
    pub(super) fn block_size(&self) -> u64 {
        self.page_size.min(BLOCK as u64).max(self.page_size / 64)
    }
}

pub(super) fn options(dir: &Path, layout: TestDiskLayout) -> DiskTierOptions {
    DiskTierOptions {
        dir: dir.to_owned(),
        capacity: layout.capacity,
        page_size: layout.page_size,
        block_size: layout.block_size(),
        queue: layout.queue,
        policy: Box::new(|capacity| policy::new(EvictionPolicy::Fifo, capacity)),
    }
}

pub(super) fn open(dir: &Path) -> DiskTier {
    open_layout(dir, LAYOUT)
}

pub(super) fn open_layout(dir: &Path, layout: TestDiskLayout) -> DiskTier {
    DiskTier::open(options(dir, layout)).unwrap()
}

pub(super) const RETRY: WriteRetryPause =
    WriteRetryPause { min: Duration::from_millis(50), max: Duration::from_millis(200) };

pub(super) fn open_faulty(dir: &Path, layout: TestDiskLayout) -> (DiskTier, Arc<FaultyDisk>) {
    let io = Arc::new(FaultyDisk::default());
    (DiskTier::open_with(options(dir, layout), io.clone(), RETRY).unwrap(), io)
}

/// Waits until all queued writes are done.
pub(super) async fn written(tier: &DiskTier) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !tier.shared.state.lock().queue.is_idle() {
        assert!(Instant::now() < deadline, "writes do not end: {:?}", tier.stats());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(super) fn key(page: u32) -> PageKey {
    PageKey { object: ObjectHash(u128::from(page / 10) << 64 | 17), page }
}

#[derive(Debug)]
pub(super) struct TestRandom(pub(super) u64);

impl TestRandom {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Returns the first bytes of a page, which depend only on the page and their offset.
pub(super) fn content(key: &PageKey, len: usize) -> Bytes {
    let mut random =
        TestRandom(key.object.0 as u64 ^ (key.object.0 >> 64) as u64 ^ (u64::from(key.page) << 32));
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

pub(super) fn segment_files(dir: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> =
        folders.flat_map(|dir| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path())).collect();
    files.sort();
    files
}

pub(super) fn bytes_on_disk(dir: &Path) -> u64 {
    segment_files(dir).iter().map(|file| file.metadata().unwrap().len()).sum()
}

/// The system's disk, with faults that can be toggled.
#[derive(Debug, Default)]
pub(super) struct FaultyDisk {
    faults: Mutex<Faults>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) write_error: Option<ErrorKind>,
    pub(super) read_error: Option<ErrorKind>,
    pub(super) sync_error: Option<ErrorKind>,
    /// Maximum bytes of one write.
    pub(super) max_write: Option<usize>,
    /// Maximum bytes of one read, a multiple of a sector.
    pub(super) max_read: Option<usize>,
    /// Set to refuse reads from the page cache.
    pub(super) is_never_cached: bool,
    /// Set if the file system cannot report which bytes are in the page cache.
    pub(super) is_uncached: bool,
    /// Reads served by the page cache.
    pub(super) cached_reads: u64,
    read_delay: Duration,
    is_holding: bool,
    held: usize,
}

impl FaultyDisk {
    pub(super) fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.faults.lock());
    }

    pub(super) fn cached_reads(&self) -> u64 {
        self.faults.lock().cached_reads
    }

    pub(super) fn is_uncached(&self) -> bool {
        self.faults.lock().is_uncached
    }

    pub(super) fn hold_writes(&self) {
        self.faults.lock().is_holding = true;
    }

    pub(super) fn wait_for_held_write(&self) {
        let mut faults = self.faults.lock();
        while faults.held == 0 {
            self.changed.wait(&mut faults);
        }
    }

    pub(super) fn release_writes(&self) {
        self.faults.lock().is_holding = false;
        self.changed.notify_all();
    }

    pub(super) fn slow_reads(&self, delay: Duration) {
        self.set(|faults| (faults.read_delay, faults.is_never_cached) = (delay, true));
    }
}

fn outcome(error: Option<ErrorKind>) -> io::Result<()> {
    error.map_or(Ok(()), |kind| Err(kind.into()))
}

impl DiskIo for FaultyDisk {
    fn open_buffered(&self, path: &Path) -> io::Result<File> {
        SystemIo.open_buffered(path)
    }

    fn open_direct(&self, path: &Path) -> io::Result<File> {
        SystemIo.open_direct(path)
    }

    fn write(&self, file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut faults = self.faults.lock();
        while faults.is_holding {
            faults.held += 1;
            self.changed.notify_all();
            self.changed.wait(&mut faults);
            faults.held -= 1;
        }
        let max = faults.max_write;
        let error = faults.write_error;
        drop(faults);

        match max {
            // Write a part before the error.
            Some(max) => {
                let slice = slices.iter().find(|slice| !slice.is_empty()).unwrap();
                let written =
                    SystemIo.write(file, &[IoSlice::new(&slice[..slice.len().min(max)])], offset)?;
                outcome(error)?;
                Ok(written)
            }
            None => outcome(error).and_then(|()| SystemIo.write(file, slices, offset)),
        }
    }

    fn read<'b>(
        &self,
        file: &File,
        memory: &'b mut [MaybeUninit<u8>],
        offset: u64,
    ) -> io::Result<&'b mut [u8]> {
        let faults = self.faults.lock();
        let max = faults.max_read;
        let error = faults.read_error;
        let delay = faults.read_delay;
        drop(faults);

        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        outcome(error)?;

        let len = memory.len().min(max.unwrap_or(usize::MAX));
        SystemIo.read(file, &mut memory[..len], offset)
    }

    fn read_cached(&self, file: &File, memory: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.faults.lock().is_never_cached {
            return Err(ErrorKind::WouldBlock.into());
        }

        let read = SystemIo.read_cached(file, memory, offset);
        match &read {
            Ok(read) if *read == memory.len() => self.faults.lock().cached_reads += 1,
            Err(error) if error.kind() == ErrorKind::Unsupported => self.faults.lock().is_uncached = true,
            _ => {}
        }

        read
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        outcome(self.faults.lock().sync_error)?;
        SystemIo.sync(file)
    }

    fn start_writeback(&self, file: &File, offset: u64, len: u64) {
        SystemIo.start_writeback(file, offset, len);
    }

    fn drop_cached(&self, file: &File) {
        SystemIo.drop_cached(file);
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        SystemIo.truncate(file, len)
    }
}
