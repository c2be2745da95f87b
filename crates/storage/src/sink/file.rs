//! A sink that is a local file: slots are filled here and written by the group's thread.

use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc::Sender},
};

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::{
    Durability, Sink,
    engine::Command,
    ring::{Target, Write},
    slot::{Member, Pool, Slot},
    staged::Staged,
};
use crate::{Error, Result};

pub(super) struct FileSink {
    commands: Sender<Command>,
    pool: Pool,
    member: Member,
    target: Arc<Target>,
    staged: Option<Staged>,
    durability: Durability,
    /// The slot that is being filled.
    slot: Option<Slot>,
    /// Bytes in slots that were handed over.
    handed: u64,
}

impl FileSink {
    /// A file that appears at `path` when it is finished. With `direct`, its bytes go past the system's cache where
    /// the file system can do that.
    pub(super) async fn create(
        path: PathBuf,
        commands: Sender<Command>,
        pool: Pool,
        direct: bool,
        durability: Durability,
    ) -> Result<Self> {
        let (staged, target) = blocking(&path.clone(), move || open(&path, direct)).await??;
        let member = pool.join();
        let target = Arc::new(target);
        Ok(Self { commands, pool, member, target, staged: Some(staged), durability, slot: None, handed: 0 })
    }

    fn check(&self) -> Result<()> {
        match self.target.error() {
            Some(source) => Err(Error::Write { path: self.target.path.clone(), source }),
            None => Ok(()),
        }
    }

    fn hand_over(&mut self, slot: Slot) -> Result<()> {
        let length = slot.bytes().len() as u64;
        self.target.state.lock().pending += 1;
        let write = Write {
            target: self.target.clone(),
            slot,
            offset: self.handed,
            done: 0,
            again: 0,
            pool: self.pool.clone(),
        };
        self.handed += length;
        self.send(Command::Write(write))
    }

    fn send(&self, command: Command) -> Result<()> {
        let gone = || io::Error::other("the thread that writes files is gone");
        self.commands.send(command).map_err(|_| Error::write(&self.target.path, gone()))
    }
}

#[async_trait]
impl Sink for FileSink {
    async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check()?;
        while !bytes.is_empty() {
            let mut slot = match self.slot.take() {
                Some(slot) => slot,
                None => self.member.take().await,
            };
            bytes = slot.append(bytes);
            if slot.is_full() {
                self.hand_over(slot)?;
                self.check()?;
            } else {
                self.slot = Some(slot);
            }
        }
        Ok(())
    }

    fn position(&self) -> u64 {
        self.handed + self.slot.as_ref().map_or(0, |slot| slot.bytes().len() as u64)
    }

    async fn finish(mut self: Box<Self>) -> Result<u64> {
        let size = self.position();
        if let Some(mut slot) = self.slot.take() {
            if self.target.direct {
                slot.pad();
            }
            self.hand_over(slot)?;
        }
        let (drained, is_drained) = oneshot::channel();
        self.send(Command::Drain(self.target.clone(), drained))?;
        // An error is that of the thread having gone, which the check below does not see.
        is_drained
            .await
            .map_err(|_| Error::write(&self.target.path, io::Error::other("the thread ended early")))?;
        self.check()?;
        let (target, staged, durability) = (self.target.clone(), self.staged.take(), self.durability);
        let publish = move || {
            if target.direct {
                target.file.set_len(size)?;
            }
            let durable = durability == Durability::Fsync;
            if durable {
                target.file.sync_all()?;
            }
            staged.map_or(Ok(()), |staged| staged.publish(durable))
        };
        let path = &self.target.path;
        blocking(path, publish).await?.map_err(|error| Error::write(path, error))?;
        Ok(size)
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.member.give(slot);
        }
        if self.staged.is_some() {
            // What is still to be written need not be.
            self.target.fail(io::ErrorKind::Interrupted.into());
        }
    }
}

fn open(path: &Path, direct: bool) -> Result<(Staged, Target)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if direct {
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
        match Staged::create(path, &options) {
            Ok((staged, file)) => return Ok((staged, target(path, file, true))),
            Err(Error::Write { source, .. }) if source.kind() == io::ErrorKind::InvalidInput => {
                tracing::debug!(path = %path.display(), "no direct writes here: the system's cache is used");
                options.custom_flags(0);
            }
            Err(error) => return Err(error),
        }
    }
    let (staged, file) = Staged::create(path, &options)?;
    Ok((staged, target(path, file, false)))
}

fn target(path: &Path, file: std::fs::File, direct: bool) -> Target {
    Target { file, path: path.to_owned(), direct, state: Default::default() }
}

async fn blocking<T: Send + 'static>(path: &Path, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let ended = |error: tokio::task::JoinError| Error::write(path, io::Error::other(error));
    tokio::task::spawn_blocking(work).await.map_err(ended)
}
