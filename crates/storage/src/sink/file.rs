//! A local-file sink: fills slots, which the group's thread writes.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc::Sender},
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{
    Overwrite, Sealed, Sink,
    engine::SinkCommand,
    folder::StagedFolder,
    ring::{SinkFile, SlotWrite},
    slot::{SlotPool, SlotPoolMember, WriteSlot},
    staged::StagedFile,
    unfinished::UnfinishedWriteGuard,
};
use crate::{Durability, Error, Result, threads::blocking::run_blocking};

pub(super) struct FileSink {
    commands: Sender<SinkCommand>,
    pool: SlotPool,
    member: SlotPoolMember,
    target: Arc<SinkFile>,
    staged: Option<StagedFile>,
    overwrite: Overwrite,
    durability: Durability,
    /// The slot being filled.
    slot: Option<WriteSlot>,
    /// Bytes in submitted slots.
    handed: u64,
    /// Set while a write is unfinished: if it is dropped, it is unknown which of its bytes the file contains.
    is_mid_write: bool,
}

/// Staging location of a file, and its final name.
pub(super) enum StagingLocation {
    /// In the directory of the final path.
    Beside(PathBuf),
    /// In a folder shared with other files.
    In(Arc<StagedFolder>, String),
}

/// The shared state of a group of sinks, and the options of their files.
pub(super) struct FileSinkContext {
    pub(super) commands: Sender<SinkCommand>,
    pub(super) pool: SlotPool,
    /// Set if writes bypass the system's cache where the file system supports that.
    pub(super) direct: bool,
    pub(super) durability: Durability,
}

impl FileSink {
    /// Creates a file that appears under its name once it is published.
    pub(super) async fn create(
        name: StagingLocation,
        overwrite: Overwrite,
        group: FileSinkContext,
    ) -> Result<Self> {
        let FileSinkContext { commands, pool, direct, durability } = group;
        let path = name.path();
        let (staged, target) = blocking(&path, move || open(&name, direct)).await??;

        let member = pool.join();
        let target = Arc::new(target);
        Ok(Self {
            commands,
            pool,
            member,
            target,
            staged: Some(staged),
            overwrite,
            durability,
            slot: None,
            handed: 0,
            is_mid_write: false,
        })
    }

    fn check(&self) -> Result<()> {
        match self.target.error() {
            Some(source) => Err(Error::Write { path: self.target.path.clone(), source }),
            None if self.is_mid_write => Err(Error::write(&self.target.path, cancelled_write())),
            None => Ok(()),
        }
    }

    fn hand_over(&mut self, slot: WriteSlot) -> Result<()> {
        let length = slot.bytes().len() as u64;
        self.target.state.lock().pending += 1;
        let write = SlotWrite {
            target: self.target.clone(),
            slot,
            offset: self.handed,
            done: 0,
            retries: 0,
            pool: self.pool.clone(),
        };
        self.handed += length;
        self.send(SinkCommand::Write(write))
    }

    fn send(&self, command: SinkCommand) -> Result<()> {
        let gone = || io::Error::other("the thread that writes files is gone");
        self.commands.send(command).map_err(|_| Error::write(&self.target.path, gone()))
    }
}

/// Returns the error for a write that was dropped before it finished.
pub(super) fn cancelled_write() -> io::Error {
    io::Error::other("an earlier write was given up half-way")
}

#[async_trait]
impl Sink for FileSink {
    async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check()?;
        self.is_mid_write = true;
        while !bytes.is_empty() {
            let mut slot = match self.slot.take() {
                Some(slot) => slot,
                None => self.member.take().await,
            };
            bytes = slot.append(bytes);
            if slot.is_full() {
                self.hand_over(slot)?;
            } else {
                self.slot = Some(slot);
            }
        }

        self.is_mid_write = false;
        self.check()
    }

    fn position(&self) -> u64 {
        self.handed + self.slot.as_ref().map_or(0, |slot| slot.bytes().len() as u64)
    }

    fn memory(&self) -> usize {
        self.slot.as_ref().map_or(0, |slot| slot.whole().len())
    }

    async fn seal(mut self: Box<Self>) -> Result<Sealed> {
        self.check()?;

        let bytes = self.position();
        if let Some(mut slot) = self.slot.take() {
            if self.target.direct {
                slot.pad();
            }
            self.hand_over(slot)?;
        }

        let (drained, is_drained) = oneshot::channel();
        self.send(SinkCommand::Drain(self.target.clone(), drained))?;
        // An error means that the thread has ended, which the check below does not detect.
        is_drained
            .await
            .map_err(|_| Error::write(&self.target.path, io::Error::other("the thread ended early")))?;

        self.check()?;

        let target = self.target.clone();
        let durable = self.durability == Durability::Fsync;
        // Files that appear together are synced together.
        let syncs = durable && self.staged.as_ref().is_some_and(StagedFile::is_alone);
        let settle = move || {
            if target.direct {
                target.file.set_len(bytes)?;
            }
            if syncs { target.file.sync_all() } else { Ok(()) }
        };

        let path = &self.target.path;
        if syncs || self.target.direct {
            blocking(path, settle).await?.map_err(|error| Error::write(path, error))?;
        }

        let gone = || Error::write(path, io::ErrorKind::NotFound.into());
        let staged = self.staged.take().ok_or_else(gone)?;
        let lock = staged.is_alone().then(|| self.target.clone());
        Ok(Sealed::file(staged, lock, self.overwrite, durable, bytes))
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.member.give(slot);
        }
        if self.staged.is_some() {
            // The unwritten rest is no longer needed.
            self.target.fail(io::ErrorKind::Interrupted.into());
        }
    }
}

impl StagingLocation {
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Beside(path) => path.clone(),
            Self::In(folder, name) => folder.final_path(name),
        }
    }

    fn create(&self, open_new: impl FnMut(&Path) -> io::Result<File>) -> Result<(StagedFile, File)> {
        match self {
            Self::Beside(path) => StagedFile::create(path, open_new),
            Self::In(folder, name) => StagedFile::create_in(folder.clone(), name, open_new),
        }
    }
}

fn open(name: &StagingLocation, direct: bool) -> Result<(StagedFile, SinkFile)> {
    let path = name.path();
    let mut is_direct = direct;
    let (staged, file) = name.create(|staged| open_new(staged, &mut is_direct))?;
    if direct && !is_direct {
        tracing::debug!(path = %path.display(), "no direct writes here: the system's cache is used");
    }

    let target = SinkFile { file, path, direct: is_direct, state: Mutex::default() };
    Ok((staged, target))
}

/// Creates a file. Sets `is_direct` to false if the file system does not support direct writes.
fn open_new(path: &Path, is_direct: &mut bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if *is_direct {
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                // The file may have been created anyway.
                let _ = fs::remove_file(path);
                options.custom_flags(0);
                *is_direct = false;
            }
            opened => return opened,
        }
    }

    options.open(path)
}

/// Runs work on a thread that may block on the file system. A process that exits waits for it.
pub(super) async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let unfinished = UnfinishedWriteGuard::begin();
    let work = move || {
        let _unfinished = unfinished;
        work()
    };
    run_blocking(work).await.map_err(|error| Error::write(path, io::Error::other(error)))
}
