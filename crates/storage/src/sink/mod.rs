//! Sinks: writers of files and objects that appear under their names only when they are complete.
//!
//! ```text
//! writer -> Sink::write -> slot -> engine's thread -> ring: positioned writes | io_uring     a local file
//!                       -> part -> put_part, a few at a time                                 an object
//!           Sink::seal  -> Sealed: all bytes are written
//!           Sealed::publish -> the name, and all of it durable
//! ```
//!
//! A sink that fails returns the error on the next write and when it is finished. Dropping a sink removes its output,
//! and so does dropping a sealed one that was not published. A [`FileSet`] publishes several at once.

mod destination;
mod engine;
mod file;
mod file_set;
mod folder;
mod leftovers;
mod object;
mod ring;
mod sealed;
mod slot;
mod staged;
mod sync;
#[cfg(test)]
mod tests;
mod unfinished;
#[cfg(target_os = "linux")]
mod uring;

use std::{fmt, io, path::Path, str::FromStr, sync::Arc};

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use object_store::ObjectStore;

pub use self::{
    destination::Destination,
    file_set::{FileSet, FoundFile},
    sealed::Sealed,
    unfinished::wait_for_unfinished_writes,
};
use self::{
    engine::SinkCommand,
    file::{FileSink, FileSinkContext, StagingLocation},
    object::ObjectSink,
    ring::{PositionedWrites, WriteRing},
    slot::SlotPool,
};
use crate::{ByteSize, Durability, Error, Result};

/// A writer that turns bytes, written in order, into a file or an object.
#[async_trait]
pub trait Sink: Send {
    /// Appends bytes. Waits while earlier bytes are being written, and may return their error. After an error, or if
    /// this future was dropped before it finished, the sink can only be dropped: any other call fails.
    async fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Returns the number of bytes written so far.
    fn position(&self) -> u64;

    /// Returns the number of bytes that the sink holds in memory.
    fn memory(&self) -> usize;

    /// Writes the remaining bytes. Only the name is then missing.
    async fn seal(self: Box<Self>) -> Result<Sealed>;

    /// Writes the remaining bytes and gives the file or object its name. Returns its size in bytes. After an error,
    /// the name is absent or unchanged; but see [`Error::Unsynced`].
    async fn finish(self: Box<Self>) -> Result<u64> {
        self.seal().await?.publish().await
    }
}

/// Handling of an existing file or object with the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Replaces it atomically.
    #[default]
    Replace,
    /// Keeps it: publishing fails with [`Error::Exists`]. This includes one that appeared while the new one was
    /// written: always for local files and for objects of one part. For an object of several parts, it is checked
    /// just before completion, since stores cannot complete an upload conditionally.
    Refuse,
}

/// The method of writing local files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SinkKind {
    /// The fastest method in benchmarks.
    #[default]
    Auto,
    /// Positioned writes on a thread.
    Thread,
    /// io_uring through the system's cache; a thread if the system does not support io_uring.
    IoUring,
    /// io_uring, bypassing the system's cache.
    IoUringDirect,
}

/// Options of sinks.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    kind: SinkKind,
    durability: Durability,
    slot_size: ByteSize,
    slots: usize,
    part_size: ByteSize,
    parts: usize,
}

/// Size of one write to the system.
const SLOT_SIZE: ByteSize = ByteSize::mib(1);
/// Number of slots in flight.
const SLOTS: usize = 8;
/// Size of a part of an object: an object has at most 10,000 parts.
const PART_SIZE: ByteSize = ByteSize::mib(16);
/// Number of parts of an object in flight.
const PARTS: usize = 4;

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            kind: SinkKind::Auto,
            durability: Durability::Fsync,
            slot_size: SLOT_SIZE,
            slots: SLOTS,
            part_size: PART_SIZE,
            parts: PARTS,
        }
    }
}

impl SinkOptions {
    /// Sets the method of writing local files. Default: the fastest one in benchmarks.
    pub fn with_kind(mut self, kind: SinkKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the durability of a finished file. Default: it survives a power loss.
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the number of slots in flight, and their size. Default: 8 of 1 MiB.
    pub fn with_slots(mut self, slots: usize, size: ByteSize) -> Self {
        self.slots = slots;
        self.slot_size = size;
        self
    }

    /// Sets the number of parts of an object in flight, and their size. Default: 4 of 16 MiB.
    pub fn with_parts(mut self, parts: usize, size: ByteSize) -> Self {
        self.parts = parts;
        self.part_size = size;
        self
    }
}

/// A factory of sinks that share a thread and slots. Cheap to clone.
#[derive(Clone)]
pub struct Sinks {
    options: Arc<SinkOptions>,
    files: Arc<parking_lot::Mutex<Option<FileEngineHandle>>>,
}

/// Shared state of the sinks of local files, created with the first of them.
#[derive(Clone)]
struct FileEngineHandle {
    commands: std::sync::mpsc::Sender<SinkCommand>,
    pool: SlotPool,
    direct: bool,
}

impl Sinks {
    /// Creates a factory with these options.
    pub fn new(options: SinkOptions) -> Self {
        Self { options: Arc::new(options), files: Arc::default() }
    }

    /// Opens a local file. Creates missing folders.
    #[boxed]
    pub async fn file(&self, path: &Path, overwrite: Overwrite) -> Result<Box<dyn Sink>> {
        self.local(StagingLocation::Beside(path.to_owned()), overwrite).await
    }

    /// Opens an object of a store.
    pub fn object(
        &self,
        store: Arc<dyn ObjectStore>,
        path: object_store::path::Path,
        overwrite: Overwrite,
    ) -> Box<dyn Sink> {
        let bytes = usize::try_from(self.options.part_size.as_u64()).unwrap_or(usize::MAX);
        Box::new(ObjectSink::new(store, path, bytes, self.options.parts, overwrite))
    }

    /// Opens a file or an object. Fails before writing anything if an existing one must not be replaced.
    #[boxed]
    pub async fn open(&self, destination: &Destination, overwrite: Overwrite) -> Result<Box<dyn Sink>> {
        if overwrite == Overwrite::Refuse && destination.exists().await? {
            return Err(Error::exists(destination.to_string()));
        }
        match destination {
            Destination::File(path) => self.file(path, overwrite).await,
            Destination::Object { origin, path } => {
                Ok(self.object(origin.store().clone(), path.clone(), overwrite))
            }
        }
    }

    async fn local(&self, name: StagingLocation, overwrite: Overwrite) -> Result<Box<dyn Sink>> {
        let FileEngineHandle { commands, pool, direct } =
            self.files().map_err(|error| Error::write(name.path(), error))?;
        let durability = self.options.durability;
        let group = FileSinkContext { commands, pool, direct, durability };
        Ok(Box::new(FileSink::create(name, overwrite, group).await?))
    }

    fn files(&self) -> io::Result<FileEngineHandle> {
        let mut files = self.files.lock();
        if let Some(files) = &*files {
            return Ok(files.clone());
        }
        let (begun, chosen) = match self.options.kind {
            SinkKind::Auto | SinkKind::Thread => {
                (self.begin(PositionedWrites::default(), false)?, SinkKind::Thread)
            }
            kind => self.begin_uring(kind)?,
        };
        tracing::debug!(asked = %self.options.kind, %chosen, "how files are written");
        Ok(files.insert(begun).clone())
    }

    #[cfg(target_os = "linux")]
    fn begin_uring(&self, kind: SinkKind) -> io::Result<(FileEngineHandle, SinkKind)> {
        self.begin_or_thread(uring::UringWrites::new(), kind)
    }

    #[cfg(not(target_os = "linux"))]
    fn begin_uring(&self, kind: SinkKind) -> io::Result<(FileEngineHandle, SinkKind)> {
        self.begin_or_thread(Err::<PositionedWrites, _>(io::ErrorKind::Unsupported.into()), kind)
    }

    /// Starts the thread with a ring, or with positioned writes if the ring cannot be created.
    fn begin_or_thread(
        &self,
        ring: io::Result<impl WriteRing + Send + 'static>,
        kind: SinkKind,
    ) -> io::Result<(FileEngineHandle, SinkKind)> {
        let direct = kind == SinkKind::IoUringDirect;
        match ring {
            Ok(ring) => Ok((self.begin(ring, direct)?, kind)),
            Err(error) => {
                tracing::info!(%error, "the system gives no io_uring: files are written by a thread");
                Ok((self.begin(PositionedWrites::default(), direct)?, SinkKind::Thread))
            }
        }
    }

    fn begin(&self, ring: impl WriteRing + Send + 'static, direct: bool) -> io::Result<FileEngineHandle> {
        let (commands, received) = std::sync::mpsc::channel();
        let size = usize::try_from(self.options.slot_size.as_u64()).unwrap_or(usize::MAX);
        let pool = SlotPool::new(self.options.slots, size);
        let thread = std::thread::Builder::new().name("stylobate-sink".to_owned());
        thread.spawn(move || engine::run(ring, &received))?;
        Ok(FileEngineHandle { commands, pool, direct })
    }
}

impl fmt::Debug for Sinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sinks").field("options", &self.options).finish_non_exhaustive()
    }
}

impl fmt::Display for SinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Thread => "thread",
            Self::IoUring => "io_uring",
            Self::IoUringDirect => "io_uring_direct",
        })
    }
}

/// The error for an unknown kind of sink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no sink {0:?}: auto, thread, io_uring or io_uring_direct")]
pub struct UnknownSinkError(pub String);

impl FromStr for SinkKind {
    type Err = UnknownSinkError;

    fn from_str(name: &str) -> std::result::Result<Self, Self::Err> {
        match name.replace('-', "_").as_str() {
            "auto" => Ok(Self::Auto),
            "thread" => Ok(Self::Thread),
            "io_uring" => Ok(Self::IoUring),
            "io_uring_direct" => Ok(Self::IoUringDirect),
            _ => Err(UnknownSinkError(name.to_owned())),
        }
    }
}
