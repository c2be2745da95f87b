//! Operations on segment files, as a trait that tests implement to inject faults.
//!
//! Writes go through the system's page cache, which absorbs bursts. Reads bypass it, except for recently written
//! segments.

use std::{
    fmt::Debug,
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    num::NonZeroU64,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::{
    fs::{Advice, OFlags, fadvise},
    io::{Errno, ReadWriteFlags, preadv2, pwritev},
};

use super::aligned::{AlignedBuffer, SECTOR};

/// Maximum slices of one vectored write (`IOV_MAX`).
const MAX_SLICES: usize = 1024;

pub(super) trait DiskIo: Send + Sync + Debug {
    /// Opens a file for reading and writing through the page cache, and creates it if absent.
    fn open_buffered(&self, path: &Path) -> io::Result<File>;

    /// Opens a file for reads that bypass the page cache, or for ordinary reads if the file system does not support
    /// that.
    fn open_direct(&self, path: &Path) -> io::Result<File>;

    /// Writes a prefix of `slices` and returns its length.
    fn write(&self, file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;

    /// Reads into the front of `memory` and returns the part that was filled.
    fn read<'b>(
        &self,
        file: &File,
        memory: &'b mut [MaybeUninit<u8>],
        offset: u64,
    ) -> io::Result<&'b mut [u8]>;

    /// Reads bytes from the page cache; fails if that needs I/O.
    fn read_cached(&self, file: &File, memory: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Returns whether reads may bypass this trait and be submitted to io_uring.
    fn takes_rings(&self) -> bool {
        false
    }

    /// Waits until all written data is on the disk.
    fn sync(&self, file: &File) -> io::Result<()>;

    /// Starts writeback of a part of a file, without waiting for it.
    fn start_writeback(&self, file: &File, offset: u64, len: u64);

    /// Drops clean pages of a file from the page cache.
    fn drop_cached(&self, file: &File);

    fn truncate(&self, file: &File, len: u64) -> io::Result<()>;
}

/// The implementation with system calls.
#[derive(Debug)]
pub(super) struct SystemIo;

impl DiskIo for SystemIo {
    fn open_buffered(&self, path: &Path) -> io::Result<File> {
        File::options().read(true).write(true).create(true).truncate(false).open(path)
    }

    fn open_direct(&self, path: &Path) -> io::Result<File> {
        let direct = OFlags::DIRECT.bits().cast_signed();

        match File::options().read(true).custom_flags(direct).open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => File::open(path),
            opened => opened,
        }
    }

    fn write(&self, file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let slices = slices.get(..MAX_SLICES).unwrap_or(slices);

        Ok(rustix::io::retry_on_intr(|| pwritev(file, slices, offset))?)
    }

    fn read<'b>(
        &self,
        file: &File,
        memory: &'b mut [MaybeUninit<u8>],
        offset: u64,
    ) -> io::Result<&'b mut [u8]> {
        // The caller repeats interrupted reads, since the borrow of `memory` ends with the call.
        let (initialized, _) = rustix::io::pread(file, memory, offset)?;
        Ok(initialized)
    }

    fn read_cached(&self, file: &File, memory: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(preadv2(file, &mut [IoSliceMut::new(memory)], offset, ReadWriteFlags::NOWAIT)?)
    }

    fn takes_rings(&self) -> bool {
        true
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn start_writeback(&self, file: &File, offset: u64, len: u64) {
        // For dirty pages, this advice makes Linux start writeback; the pages are kept until they are written.
        fadvise(file, offset, NonZeroU64::new(len), Advice::DontNeed).ok();
    }

    fn drop_cached(&self, file: &File) {
        fadvise(file, 0, None, Advice::DontNeed).ok();
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }
}

/// Writes all of `slices`.
pub(super) fn write_all(
    io: &dyn DiskIo,
    file: &File,
    mut slices: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    while slices.iter().any(|slice| !slice.is_empty()) {
        let written = io.write(file, slices, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        IoSlice::advance_slices(&mut slices, written);
    }
    Ok(())
}

/// Appends exactly `len` bytes at `offset` to `buffer`; both are multiples of [`SECTOR`].
pub(super) fn read_exact(
    io: &dyn DiskIo,
    file: &File,
    buffer: &mut AlignedBuffer,
    offset: u64,
    len: usize,
) -> io::Result<()> {
    let mut read = 0;
    while read < len {
        match buffer.extend_with(len - read, |memory| io.read(file, memory, offset + read as u64)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // A direct read cannot continue within a sector, and ends there only at the end of a file.
        if read < len && read % SECTOR != 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Returns whether the error is an exhausted disk, quota or limit: space may become available without replacing the
/// file.
pub(super) fn is_out_of_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};

    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
