//! The thread of a group of sinks: submits slots to a ring, and ensures that each is fully written.
//!
//! Short writes are continued and interrupted ones are retried. The first error of a file is kept, and nothing more
//! is written to that file. No buffer is freed before the system is done with it.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, TryRecvError},
    },
};

use rustix::io::Errno;
use tokio::sync::oneshot;

use super::ring::{SinkFile, SlotWrite, WriteRing};

/// Maximum number of consecutive interruptions before a write fails.
const MAX_RETRIES: u32 = 1_000;
/// Bytes to preallocate at once if the file system would otherwise allocate at every direct write.
const PREALLOCATION_BYTES: u64 = 64 << 20;

/// A command from a sink to the thread.
pub(super) enum SinkCommand {
    Write(SlotWrite),
    /// Replies once no write of the file is in flight.
    Drain(Arc<SinkFile>, oneshot::Sender<()>),
}

/// Runs until all sinks are gone and no write is in flight.
pub(super) fn run(ring: impl WriteRing, commands: &Receiver<SinkCommand>) {
    let mut engine = SinkEngine { ring, draining: Vec::new() };
    loop {
        let command = match engine.ring.in_flight() {
            0 => commands.recv().map_err(|_| TryRecvError::Disconnected),
            _ => commands.try_recv(),
        };
        match command {
            Ok(command) => engine.handle(command),
            Err(TryRecvError::Disconnected) if engine.ring.in_flight() == 0 => return,
            Err(_) => {
                if let Some((write, written)) = engine.ring.wait() {
                    engine.complete(write, written);
                }
            }
        }
    }
}

struct SinkEngine<R> {
    ring: R,
    draining: Vec<(Arc<SinkFile>, oneshot::Sender<()>)>,
}

impl<R: WriteRing> SinkEngine<R> {
    fn handle(&mut self, command: SinkCommand) {
        match command {
            SinkCommand::Write(write) => match write.target.error() {
                Some(_) => self.give_back(write),
                None => self.submit(write),
            },
            SinkCommand::Drain(target, drained) => {
                self.draining.push((target, drained));
                self.notify_drained();
            }
        }
    }

    fn submit(&mut self, write: SlotWrite) {
        self.allocate(&write);
        self.ring.submit(write);
    }

    /// Preallocates space ahead of direct writes, which makes them faster. Failures are ignored: if the disk is
    /// full, the write itself fails.
    fn allocate(&mut self, write: &SlotWrite) {
        if !write.target.direct {
            return;
        }

        let mut state = write.target.state.lock();
        let end = write.offset + write.slot.bytes().len() as u64;
        if end <= state.allocated {
            return;
        }

        let from = state.allocated;
        let length = (end - state.allocated).next_multiple_of(PREALLOCATION_BYTES);
        state.allocated = match self.ring.allocate(&write.target.file, from, length) {
            Ok(()) => from + length,
            // Less than the requested space may still fit into the file system, the quota or the file size limit.
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => end,
            Err(error) => {
                tracing::debug!(path = %write.target.path.display(), %error, "no room is asked for ahead of writes");
                u64::MAX
            }
        };
    }

    fn complete(&mut self, mut write: SlotWrite, written: io::Result<usize>) {
        use io::ErrorKind::{Interrupted, WouldBlock};

        match written {
            Ok(0) => {
                write.target.fail(io::ErrorKind::WriteZero.into());
                self.give_back(write);
            }
            Ok(bytes) => {
                write.done += bytes;
                write.retries = 0;
                match write.left() {
                    [] => self.give_back(write),
                    _ => self.ring.submit(write),
                }
            }
            Err(error) if matches!(error.kind(), Interrupted | WouldBlock) && write.retries < MAX_RETRIES => {
                write.retries += 1;
                self.ring.submit(write);
            }
            Err(error) => {
                write.target.fail(error);
                self.give_back(write);
            }
        }
    }

    fn give_back(&mut self, write: SlotWrite) {
        let SlotWrite { target, slot, pool, .. } = write;
        pool.give(slot);
        target.state.lock().pending -= 1;
        self.notify_drained();
    }

    fn notify_drained(&mut self) {
        let drained = |(target, _): &mut (Arc<SinkFile>, _)| target.state.lock().pending == 0;
        for (_, sender) in self.draining.extract_if(.., drained) {
            // The receiver is gone if the sink was dropped in the meantime.
            let _ = sender.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::{
        super::{
            ring::{PositionedWrites, SinkFileState},
            slot::SlotPool,
        },
        *,
    };

    const SLOT: usize = 4096;

    /// Positioned writes on a file system where preallocation has scripted results.
    struct ScriptedAllocate {
        writes: PositionedWrites,
        answer: rustix::io::Result<()>,
        asked: Vec<(u64, u64)>,
    }

    impl WriteRing for ScriptedAllocate {
        fn submit(&mut self, write: SlotWrite) {
            self.writes.submit(write);
        }

        fn wait(&mut self) -> Option<(SlotWrite, io::Result<usize>)> {
            self.writes.wait()
        }

        fn in_flight(&self) -> usize {
            self.writes.in_flight()
        }

        fn allocate(&mut self, _: &File, from: u64, length: u64) -> rustix::io::Result<()> {
            self.asked.push((from, length));
            self.answer
        }
    }

    /// Writes three slots. Returns the requested preallocations.
    async fn written(answer: rustix::io::Result<()>) -> Vec<(u64, u64)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let target = Arc::new(SinkFile {
            file: File::create(&path).unwrap(),
            path: path.clone(),
            direct: true,
            state: parking_lot::Mutex::new(SinkFileState { pending: 3, ..SinkFileState::default() }),
        });
        let pool = SlotPool::new(3, SLOT);
        let member = pool.join();
        let ring = ScriptedAllocate { writes: PositionedWrites::default(), answer, asked: Vec::new() };
        let mut engine = SinkEngine { ring, draining: Vec::new() };

        for number in 0..3_u8 {
            let mut slot = member.take().await;
            assert!(slot.append(&[number; SLOT]).is_empty());
            let offset = u64::from(number) * SLOT as u64;
            let write =
                SlotWrite { target: target.clone(), slot, offset, done: 0, retries: 0, pool: pool.clone() };
            engine.handle(SinkCommand::Write(write));
        }

        while let Some((write, written)) = engine.ring.wait() {
            engine.complete(write, written);
        }

        assert!(target.error().is_none(), "{answer:?}: {:?}", target.error());
        assert_eq!(target.state.lock().pending, 0);
        let expected: Vec<u8> = (0..3).flat_map(|number| [number; SLOT]).collect();
        assert!(std::fs::read(&path).unwrap() == expected, "{answer:?}");
        engine.ring.asked
    }

    #[tokio::test]
    async fn a_file_is_written_whatever_the_file_system_says_of_room_ahead() {
        assert_eq!(written(Ok(())).await, [(0, PREALLOCATION_BYTES)]);
        let slot = SLOT as u64;
        for refused in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
            assert_eq!(
                written(Err(refused)).await,
                [(0, PREALLOCATION_BYTES), (slot, PREALLOCATION_BYTES), (2 * slot, PREALLOCATION_BYTES)]
            );
        }
        for unable in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM, Errno::IO, Errno::INVAL, Errno::SPIPE] {
            assert_eq!(written(Err(unable)).await, [(0, PREALLOCATION_BYTES)], "it is asked no more");
        }
    }
}
