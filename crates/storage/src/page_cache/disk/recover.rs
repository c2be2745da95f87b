//! Recovery: finds the batches that earlier processes wrote.
//!
//! Reads only headers. Data is verified when it is read for use, so the duration of a recovery depends on the number
//! of batches.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use parking_lot::Mutex;

use super::{
    aligned::{AlignedBuffer, SECTOR},
    batch::{self, BatchHeader, BatchPosition},
    io::{DiskIo, read_exact},
    segment::{LogGeometry, LogSegment},
};

const THREADS: usize = 8;

/// The state of a folder's log.
#[derive(Debug, Default)]
pub(super) struct RecoveredLog {
    /// In the order in which they were written.
    pub(super) batches: Vec<BatchHeader>,
    pub(super) tail: Option<LogTail>,
}

/// End of the newest batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogTail {
    pub(super) newest: BatchPosition,
    pub(super) end: u64,
}

/// Makes the folder match the geometry and reads the headers of its batches. Damaged content is skipped.
pub(super) fn recover(dir: &Path, geometry: &LogGeometry, io: &dyn DiskIo) -> io::Result<RecoveredLog> {
    let segments = prepare(dir, geometry)?;
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());

    thread::scope(|scope| {
        for _ in 0..THREADS.min(segments.len()) {
            scope.spawn(|| {
                while let Some((index, path)) = segments.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let batches = walk(path, *index, geometry, io);
                    found.lock().extend(batches);
                }
            });
        }
    });

    let mut batches = found.into_inner();
    batches.sort_by_key(|batch: &BatchHeader| batch.position.sequence);
    let tail = batches.last().map(|newest| LogTail { newest: newest.position, end: newest.end() });
    Ok(RecoveredLog { batches, tail })
}

/// Lists the segment files. Removes anything else, and segments beyond the capacity: it limits the bytes on disk, not
/// only those in use.
fn prepare(dir: &Path, geometry: &LogGeometry) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut segments = Vec::new();

    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        match LogSegment::index_of(&path).filter(|index| *index < geometry.segments) {
            Some(index) if metadata.is_file() => {
                if shorten(&path, &metadata, geometry).is_ok() {
                    segments.push((index, path));
                } else {
                    remove(&path)?;
                }
            }
            _ => remove(&path)?,
        }
    }

    Ok(segments)
}

fn shorten(path: &Path, metadata: &fs::Metadata, geometry: &LogGeometry) -> io::Result<()> {
    if metadata.len() > geometry.segment_size {
        fs::File::options().write(true).open(path)?.set_len(geometry.segment_size)?;
    }
    Ok(())
}

/// Removes a file, a link, or a folder with its content.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Reads the batches of a segment from its start, as long as each continues the previous one.
fn walk(path: &Path, segment: u32, geometry: &LogGeometry, io: &dyn DiskIo) -> Vec<BatchHeader> {
    let mut batches: Vec<BatchHeader> = Vec::new();
    let Ok(file) = io.open_direct(path) else { return batches };

    let mut offset = 0;
    while offset + SECTOR as u64 <= geometry.segment_size {
        let Some(header) = read_header(&file, offset, geometry, io) else { break };
        let position = header.position;
        let continues = match batches.last() {
            None => position.sequence == position.generation,
            Some(last) => {
                position.generation == last.position.generation && position.sequence > last.position.sequence
            }
        };
        if !continues || (position.segment, position.offset) != (segment, offset) {
            break;
        }

        offset = header.end();
        batches.push(header);
    }

    batches
}

fn read_header(file: &fs::File, offset: u64, geometry: &LogGeometry, io: &dyn DiskIo) -> Option<BatchHeader> {
    let mut buffer = AlignedBuffer::with_capacity(SECTOR);
    read_exact(io, file, &mut buffer, offset, SECTOR).ok()?;

    let len = batch::encoded_header_len(&buffer)?;
    if len > SECTOR {
        buffer = AlignedBuffer::with_capacity(len);
        read_exact(io, file, &mut buffer, offset, len).ok()?;
    }
    BatchHeader::decode(&buffer, geometry)
}
