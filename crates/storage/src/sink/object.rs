//! An object sink: uploads in parts, a few at a time, or in one request if it is small.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload, path::Path};
use tokio::{
    runtime::Handle,
    task::{JoinHandle, JoinSet},
};

use super::{Overwrite, Sealed, Sink, file::cancelled_write, unfinished::UnfinishedWriteGuard};
use crate::{Error, Result, origin::trace::traced};

/// Maximum number of parts that stores accept for an object.
const MAX_PARTS: u64 = 10_000;
/// Initial capacity of a part, which grows as it is filled: many sinks may be open, most of them barely used.
const INITIAL_PART_CAPACITY: usize = 64 << 10;
/// Maximum size of an object that is held in memory until it is published.
const MAX_BUFFERED_BYTES: usize = 64 << 10;

/// The task that begins an upload. It ends even if the future that waits for it is dropped.
type BeginningUpload = JoinHandle<object_store::Result<Box<dyn MultipartUpload>>>;

pub(super) struct ObjectSink {
    store: Arc<dyn ObjectStore>,
    path: Path,
    part_bytes: usize,
    /// Maximum parts in flight.
    max_in_flight: usize,
    overwrite: Overwrite,
    /// The part being filled.
    part: Vec<u8>,
    position: u64,
    upload: Option<Box<dyn MultipartUpload>>,
    /// Set while the upload begins.
    beginning: Option<BeginningUpload>,
    in_flight: JoinSet<object_store::Result<()>>,
    /// The first error: nothing is sent afterwards.
    error: Option<Error>,
    /// Set while a write is unfinished: if it is dropped, it is unknown how many of its bytes were taken.
    is_mid_write: bool,
}

impl ObjectSink {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        path: Path,
        part_bytes: usize,
        max_in_flight: usize,
        overwrite: Overwrite,
    ) -> Self {
        Self {
            store,
            path,
            part_bytes: part_bytes.max(1),
            max_in_flight: max_in_flight.max(1),
            overwrite,
            part: Vec::new(),
            position: 0,
            upload: None,
            beginning: None,
            in_flight: JoinSet::new(),
            error: None,
            is_mid_write: false,
        }
    }

    /// Sets an upload that has already begun.
    #[cfg(test)]
    pub(super) fn with_upload(mut self, upload: Box<dyn MultipartUpload>) -> Self {
        self.upload = Some(upload);
        self
    }

    fn failed(&self, error: object_store::Error) -> Error {
        match error {
            object_store::Error::AlreadyExists { .. } => Error::exists(self.path.as_ref()),
            error => Error::from_write(self.path.as_ref(), error),
        }
    }

    fn check(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.is_mid_write => Err(Error::write(self.path.as_ref(), cancelled_write())),
            None => Ok(()),
        }
    }

    /// Sends the filled part.
    async fn send(&mut self) -> Result<()> {
        if self.position > MAX_PARTS.saturating_mul(self.part_bytes as u64) {
            let reason =
                format!("more than {MAX_PARTS} parts of {} bytes: make the parts larger", self.part_bytes);
            return Err(Error::InvalidUpload { path: self.path.to_string(), reason });
        }
        while self.in_flight.len() >= self.max_in_flight {
            self.wait().await?;
        }

        let part = PutPayload::from(std::mem::take(&mut self.part));
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => {
                let store = self.store.clone();
                let path = self.path.clone();
                let request = tokio::spawn(traced(async move { store.put_multipart(&path).await }));

                // Kept in the sink, so that dropping the sink aborts the upload even if this future was dropped.
                let begun = self.beginning.insert(request).await;
                self.beginning = None;
                let begun =
                    begun.map_err(|ended| Error::write(self.path.as_ref(), std::io::Error::other(ended)))?;
                none.insert(begun.map_err(|error| Error::from_write(self.path.as_ref(), error))?)
            }
        };

        self.in_flight.spawn(upload.put_part(part));
        Ok(())
    }

    /// Waits for one of the parts in flight.
    async fn wait(&mut self) -> Result<()> {
        match self.in_flight.join_next().await {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(self.failed(error)),
            Some(Err(ended)) => Err(Error::write(self.path.as_ref(), std::io::Error::other(ended))),
        }
    }

    async fn write_parts(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.part.len() == self.part_bytes {
                self.send().await?;
            }
            let (taken, rest) = bytes.split_at(bytes.len().min(self.part_bytes - self.part.len()));
            self.make_room(taken.len());
            self.part.extend_from_slice(taken);
            self.position += taken.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Doubles the capacity of the part, up to the part size.
    fn make_room(&mut self, more: usize) {
        let wanted = self.part.len() + more;
        if wanted > self.part.capacity() {
            let room = (self.part.capacity() * 2)
                .max(INITIAL_PART_CAPACITY)
                .max(wanted)
                .min(self.part_bytes.max(wanted));
            self.part.reserve_exact(room - self.part.len());
        }
    }

    /// Sends the remaining bytes, unless the whole object is small.
    async fn send_rest(&mut self) -> Result<()> {
        let is_little = self.upload.is_none() && self.part.len() <= MAX_BUFFERED_BYTES;
        if !is_little && !self.part.is_empty() {
            self.send().await?;
        }
        while !self.in_flight.is_empty() {
            self.wait().await?;
        }
        Ok(())
    }

    /// Puts the whole object in one request.
    async fn put(&mut self) -> Result<()> {
        let whole = PutPayload::from(std::mem::take(&mut self.part));
        let mode = match self.overwrite {
            Overwrite::Replace => PutMode::Overwrite,
            Overwrite::Refuse => PutMode::Create,
        };
        let put = self.store.put_opts(&self.path, whole, mode.into()).await;
        put.map(drop).map_err(|error| self.failed(error))
    }

    /// Completes the object from its parts, or puts it in one request.
    async fn join(&mut self) -> Result<()> {
        if self.upload.is_none() {
            return self.put().await;
        }
        self.send_rest().await?;

        if self.overwrite == Overwrite::Refuse {
            match self.store.head(&self.path).await {
                Err(object_store::Error::NotFound { .. }) => {}
                Ok(_) => return Err(Error::exists(self.path.as_ref())),
                Err(error) => return Err(self.failed(error)),
            }
        }

        let Some(upload) = &mut self.upload else { return Ok(()) };
        let completed = upload.complete().await;
        completed.map_err(|error| self.failed(error))?;
        self.upload = None;
        Ok(())
    }

    /// Makes the object visible.
    pub(super) async fn complete(mut self) -> Result<()> {
        match self.join().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.give_up(error).await),
        }
    }

    /// Cancels parts in flight, and aborts the upload at the store; if it is only beginning, once it has begun.
    async fn abort(
        mut in_flight: JoinSet<object_store::Result<()>>,
        upload: Option<Box<dyn MultipartUpload>>,
        beginning: Option<BeginningUpload>,
    ) {
        in_flight.shutdown().await;

        let upload = match beginning {
            // If the request fails, there is no upload.
            Some(beginning) => beginning.await.ok().and_then(|begun| begun.ok()),
            None => upload,
        };
        if let Some(mut upload) = upload
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(%error, "unfinished upload not aborted: the store keeps its parts");
        }
    }

    /// Spawns a task that aborts the upload, if there is one. It ends even if the caller is dropped.
    fn spawn_abort(&mut self) -> Option<JoinHandle<()>> {
        let in_flight = std::mem::take(&mut self.in_flight);
        let upload = self.upload.take();
        let beginning = self.beginning.take();
        if upload.is_none() && beginning.is_none() {
            return None;
        }

        let Ok(runtime) = Handle::try_current() else {
            tracing::warn!(path = %self.path, "unfinished upload not aborted: no runtime is left");
            return None;
        };
        let unfinished = UnfinishedWriteGuard::begin();
        Some(runtime.spawn(traced(async move {
            Self::abort(in_flight, upload, beginning).await;
            drop(unfinished);
        })))
    }

    /// Records the error, and aborts the upload. Returns the error.
    async fn give_up(&mut self, error: Error) -> Error {
        self.error = Some(error.clone());
        if let Some(aborting) = self.spawn_abort()
            && let Err(ended) = aborting.await
        {
            tracing::warn!(path = %self.path, error = %ended, "unfinished upload not aborted");
        }
        error
    }
}

#[async_trait]
impl Sink for ObjectSink {
    async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        self.is_mid_write = true;
        let written = self.write_parts(bytes).await;
        self.is_mid_write = false;
        match written {
            Ok(()) => Ok(()),
            Err(error) => Err(self.give_up(error).await),
        }
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn memory(&self) -> usize {
        self.part.capacity() + self.in_flight.len() * self.part_bytes
    }

    async fn seal(mut self: Box<Self>) -> Result<Sealed> {
        self.check()?;
        match self.send_rest().await {
            Ok(()) => {
                let bytes = self.position;
                Ok(Sealed::object(*self, bytes))
            }
            Err(error) => Err(self.give_up(error).await),
        }
    }

    async fn finish(self: Box<Self>) -> Result<u64> {
        self.check()?;
        let bytes = self.position;
        self.complete().await.map(|()| bytes)
    }
}

impl Drop for ObjectSink {
    fn drop(&mut self) {
        self.spawn_abort();
    }
}
