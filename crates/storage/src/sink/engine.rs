//! The thread behind a group of sinks: it hands slots to a ring, and sees to it that each is written whole.
//!
//! Short writes go on where they ended, interrupted ones are tried again, and the first error of a file is kept: what
//! comes after it is not written any more. Nothing is freed before the system is done with it.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, TryRecvError},
    },
};

use tokio::sync::oneshot;

use super::ring::{Ring, Target, Write};

/// A write that is interrupted so many times in a row has failed.
const MOST_AGAIN: u32 = 1_000;
/// Room that is asked for at once where the file system would otherwise look for it at every direct write.
const AHEAD: u64 = 64 << 20;

/// What a sink asks for.
pub(super) enum Command {
    Write(Write),
    /// An answer as soon as nothing of the file is under way.
    Drain(Arc<Target>, oneshot::Sender<()>),
}

/// Works until nobody can ask any more and nothing is under way.
pub(super) fn run(ring: impl Ring, commands: &Receiver<Command>) {
    let mut engine = Engine { ring, draining: Vec::new() };
    loop {
        let command = match engine.ring.under_way() {
            0 => commands.recv().map_err(|_| TryRecvError::Disconnected),
            _ => commands.try_recv(),
        };
        match command {
            Ok(command) => engine.obey(command),
            Err(TryRecvError::Disconnected) if engine.ring.under_way() == 0 => return,
            Err(_) => {
                if let Some((write, written)) = engine.ring.wait() {
                    engine.complete(write, written);
                }
            }
        }
    }
}

struct Engine<R> {
    ring: R,
    draining: Vec<(Arc<Target>, oneshot::Sender<()>)>,
}

impl<R: Ring> Engine<R> {
    fn obey(&mut self, command: Command) {
        match command {
            Command::Write(write) => match write.target.error() {
                Some(_) => self.give_back(write),
                None => self.submit(write),
            },
            Command::Drain(target, drained) => {
                self.draining.push((target, drained));
                self.tell_drained();
            }
        }
    }

    fn submit(&mut self, write: Write) {
        match allocate(&write) {
            Ok(()) => self.ring.submit(write),
            Err(error) => {
                write.target.fail(error);
                self.give_back(write);
            }
        }
    }

    fn complete(&mut self, mut write: Write, written: io::Result<usize>) {
        use io::ErrorKind::{Interrupted, WouldBlock};
        match written {
            Ok(0) => {
                write.target.fail(io::ErrorKind::WriteZero.into());
                self.give_back(write);
            }
            Ok(bytes) => {
                write.done += bytes;
                write.again = 0;
                match write.left() {
                    [] => self.give_back(write),
                    _ => self.ring.submit(write),
                }
            }
            Err(error) if matches!(error.kind(), Interrupted | WouldBlock) && write.again < MOST_AGAIN => {
                write.again += 1;
                self.ring.submit(write);
            }
            Err(error) => {
                write.target.fail(error);
                self.give_back(write);
            }
        }
    }

    fn give_back(&mut self, write: Write) {
        let Write { target, slot, pool, .. } = write;
        pool.give(slot);
        target.state.lock().pending -= 1;
        self.tell_drained();
    }

    fn tell_drained(&mut self) {
        let drained = |(target, _): &mut (Arc<Target>, _)| target.state.lock().pending == 0;
        for (_, tell) in self.draining.extract_if(.., drained) {
            // Nobody listens where the sink was dropped meanwhile.
            let _ = tell.send(());
        }
    }
}

/// Asks the file system for room ahead of direct writes.
fn allocate(write: &Write) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    if !write.target.direct {
        return Ok(());
    }
    let mut state = write.target.state.lock();
    let end = write.offset + write.slot.bytes().len() as u64;
    if end <= state.allocated {
        return Ok(());
    }
    let (from, length) = (state.allocated, (end - state.allocated).next_multiple_of(AHEAD));
    match fallocate(&write.target.file, FallocateFlags::KEEP_SIZE, from, length) {
        Ok(()) => state.allocated = from + length,
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => state.allocated = u64::MAX,
        // Less may still fit: the write itself will tell.
        Err(rustix::io::Errno::NOSPC) => state.allocated = end,
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
