//! Writes by io_uring: several in flight at once, completed in any order.
//!
//! A write and its slot stay in an entry until the completion with that entry's number and generation arrives, so no
//! buffer is reused or freed while the system may still read it.

#![expect(unsafe_code, reason = "the kernel reads buffers that it is told the addresses of")]

use std::{
    collections::{HashMap, VecDeque},
    io,
    os::fd::{AsRawFd, RawFd},
};

use io_uring::{IoUring, opcode, squeue, types};

use super::ring::{SlotWrite, WriteRing};

/// Maximum writes in flight; further ones wait.
const MAX_IN_FLIGHT: u32 = 64;
/// Maximum registered slots; others are written too, a little more slowly.
const REGISTERED: u32 = 1024;

/// A ring of the kernel.
pub(super) struct UringWrites {
    ring: IoUring,
    entries: Vec<InFlightWrite>,
    free: Vec<u32>,
    /// Writes submitted while all entries were taken, or not accepted by the kernel yet.
    waiting: VecDeque<SlotWrite>,
    /// Id of the slot registered under each index; `None` if the kernel refuses registration. An address would not be
    /// enough: the kernel keeps the former memory, and a new slot at the same address has different memory.
    registered: Option<HashMap<u16, u64>>,
    /// The error after which the kernel no longer accepts writes.
    broken: Option<i32>,
}

#[derive(Default)]
struct InFlightWrite {
    generation: u32,
    write: Option<SlotWrite>,
}

impl UringWrites {
    /// Creates a ring. Fails on an old kernel, or in a container that forbids io_uring.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::builder().setup_clamp().build(MAX_IN_FLIGHT)?;
        let registered = ring.submitter().register_buffers_sparse(REGISTERED).ok().map(|()| HashMap::new());
        let entries = (0..MAX_IN_FLIGHT).map(|_| InFlightWrite::default()).collect();
        Ok(Self {
            ring,
            entries,
            free: (0..MAX_IN_FLIGHT).collect(),
            waiting: VecDeque::new(),
            registered,
            broken: None,
        })
    }

    /// Registers the memory of a slot once; returns whether it is registered.
    fn register(&mut self, write: &SlotWrite) -> bool {
        let Some(registered) = &mut self.registered else { return false };
        let whole = write.slot.whole();
        let index = write.slot.index();
        let id = write.slot.id();
        if u32::from(index) >= REGISTERED {
            return false;
        }
        if registered.get(&index) == Some(&id) {
            return true;
        }

        let buffer = libc::iovec { iov_base: whole.as_ptr().cast_mut().cast(), iov_len: whole.len() };
        // SAFETY: the kernel only reads the memory, for writes whose slot is in an entry. A freed slot leaves nothing
        // but a mapping that no write refers to: a later slot with its index is registered again.
        let updated =
            unsafe { self.ring.submitter().register_buffers_update(u32::from(index), &[buffer], None) };
        match updated {
            Ok(()) => {
                registered.insert(index, id);
                true
            }
            Err(_) => {
                // For example because of a limit on locked memory: give up registration.
                self.registered = None;
                false
            }
        }
    }

    /// Moves waiting writes into free entries.
    fn push_waiting(&mut self) {
        while let Some(write) = self.waiting.pop_front() {
            let Some(number) = self.free.pop() else {
                self.waiting.push_front(write);
                return;
            };
            let is_registered = self.register(&write);
            let Some(in_flight) = self.entries.get_mut(number as usize) else { return };
            let sqe = sqe(&write, is_registered).user_data(tag(number, in_flight.generation));
            in_flight.write = Some(write);

            // SAFETY: file and slot stay in the entry until the completion with this tag arrives.
            let pushed = unsafe { self.ring.submission().push(&sqe) };
            if pushed.is_err() {
                // The queue holds `MAX_IN_FLIGHT` writes, unless the kernel made it shorter.
                self.waiting.extend(in_flight.write.take());
                self.free.push(number);
                return;
            }
        }
    }

    /// Returns a write that a broken ring leaves unfinished. The kernel may still read its slot, which is therefore
    /// leaked: another slot replaces it.
    fn abandoned(&mut self) -> Option<SlotWrite> {
        if let Some(write) = self.waiting.pop_front() {
            return Some(write);
        }
        let number = self.entries.iter().position(|entry| entry.write.is_some())?;
        let mut write = self.entries.get_mut(number)?.write.take()?;
        self.free.push(number as u32);
        let replacement = write.slot.replacement();
        std::mem::forget(std::mem::replace(&mut write.slot, replacement));
        Some(write)
    }

    /// Frees the entry of a completion and returns its write.
    fn complete(&mut self, tag: u64) -> Option<SlotWrite> {
        let number = tag as u32;
        let entry = self.entries.get_mut(number as usize)?;
        if entry.generation != (tag >> 32) as u32 {
            return None;
        }

        let write = entry.write.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(number);
        Some(write)
    }
}

fn tag(number: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(number)
}

fn sqe(write: &SlotWrite, is_registered: bool) -> squeue::Entry {
    let fd: RawFd = write.target.file.as_raw_fd();
    let left = write.left();
    let position = write.position();
    let length = u32::try_from(left.len()).unwrap_or(u32::MAX);
    if is_registered {
        let opcode = opcode::WriteFixed::new(types::Fd(fd), left.as_ptr(), length, write.slot.index());
        opcode.offset(position).build()
    } else {
        opcode::Write::new(types::Fd(fd), left.as_ptr(), length).offset(position).build()
    }
}

impl WriteRing for UringWrites {
    fn submit(&mut self, write: SlotWrite) {
        self.waiting.push_back(write);
        if self.broken.is_some() {
            return;
        }
        self.push_waiting();
        // The kernel accepts the remaining writes during the wait.
        let _ = self.ring.submit();
    }

    fn wait(&mut self) -> Option<(SlotWrite, io::Result<usize>)> {
        loop {
            if self.in_flight() == 0 {
                return None;
            }
            if let Some(error) = self.broken {
                return Some((self.abandoned()?, Err(io::Error::from_raw_os_error(error))));
            }

            let completion = self.ring.completion().next();
            if let Some(completion) = completion {
                let Some(write) = self.complete(completion.user_data()) else { continue };
                self.push_waiting();
                let result = completion.result();
                let written = match u32::try_from(result) {
                    Ok(bytes) => Ok(bytes as usize),
                    Err(_) => Err(io::Error::from_raw_os_error(result.saturating_neg())),
                };
                return Some((write, written));
            }

            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
                Err(error) => self.broken = Some(error.raw_os_error().unwrap_or(libc::EIO)),
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len() + self.waiting.len()
    }
}

impl Drop for UringWrites {
    fn drop(&mut self) {
        // Free buffers only after the kernel has released them.
        while self.wait().is_some() {}
    }
}
