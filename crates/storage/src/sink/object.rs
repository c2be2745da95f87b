//! A sink that is an object: sent in parts, a few at a time, or at once where it is small.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, path::Path};
use tokio::task::JoinSet;

use super::Sink;
use crate::{Error, Result};

/// Stores take so many parts of an object.
const MOST_PARTS: u64 = 10_000;

pub(super) struct ObjectSink {
    store: Arc<dyn ObjectStore>,
    path: Path,
    part_bytes: usize,
    /// Parts that are sent at a time.
    most_under_way: usize,
    /// The part that is being filled.
    part: Vec<u8>,
    position: u64,
    upload: Option<Box<dyn MultipartUpload>>,
    under_way: JoinSet<object_store::Result<()>>,
    /// The first thing that went wrong: nothing is sent after it.
    error: Option<Error>,
}

impl ObjectSink {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        path: Path,
        part_bytes: usize,
        most_under_way: usize,
    ) -> Self {
        Self {
            store,
            path,
            part_bytes: part_bytes.max(1),
            most_under_way: most_under_way.max(1),
            part: Vec::new(),
            position: 0,
            upload: None,
            under_way: JoinSet::new(),
            error: None,
        }
    }

    /// An upload that was begun already.
    #[cfg(test)]
    pub(super) fn with_upload(mut self, upload: Box<dyn MultipartUpload>) -> Self {
        self.upload = Some(upload);
        self
    }

    fn failed(&self, error: object_store::Error) -> Error {
        Error::from_write(self.path.as_ref(), error)
    }

    /// Sends the part that was filled.
    async fn send(&mut self) -> Result<()> {
        if self.position > MOST_PARTS.saturating_mul(self.part_bytes as u64) {
            let reason =
                format!("more than {MOST_PARTS} parts of {} bytes: make the parts larger", self.part_bytes);
            return Err(Error::InvalidUpload { path: self.path.to_string(), reason });
        }
        while self.under_way.len() >= self.most_under_way {
            self.wait().await?;
        }
        let part = PutPayload::from(std::mem::take(&mut self.part));
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => {
                let begun = self.store.put_multipart(&self.path).await;
                none.insert(begun.map_err(|error| Error::from_write(self.path.as_ref(), error))?)
            }
        };
        self.under_way.spawn(upload.put_part(part));
        Ok(())
    }

    /// Waits for one of the parts that are under way.
    async fn wait(&mut self) -> Result<()> {
        match self.under_way.join_next().await {
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
            if self.part.capacity() == 0 {
                self.part.reserve_exact(self.part_bytes);
            }
            let (taken, rest) = bytes.split_at(bytes.len().min(self.part_bytes - self.part.len()));
            self.part.extend_from_slice(taken);
            self.position += taken.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<()> {
        if self.upload.is_none() {
            let whole = PutPayload::from(std::mem::take(&mut self.part));
            return match self.store.put(&self.path, whole).await {
                Ok(_) => Ok(()),
                Err(error) => Err(self.failed(error)),
            };
        }
        if !self.part.is_empty() {
            self.send().await?;
        }
        while !self.under_way.is_empty() {
            self.wait().await?;
        }
        let Some(upload) = &mut self.upload else { return Ok(()) };
        let completed = upload.complete().await;
        completed.map_err(|error| self.failed(error))?;
        self.upload = None;
        Ok(())
    }

    /// Ends what is under way, and has the store forget the parts that it has.
    async fn abort(
        mut under_way: JoinSet<object_store::Result<()>>,
        upload: Option<Box<dyn MultipartUpload>>,
    ) {
        under_way.shutdown().await;
        if let Some(mut upload) = upload
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(%error, "unfinished upload not aborted: the store keeps its parts");
        }
    }

    async fn give_up(&mut self, error: Error) -> Error {
        Self::abort(std::mem::take(&mut self.under_way), self.upload.take()).await;
        self.error = Some(error.clone());
        error
    }
}

#[async_trait]
impl Sink for ObjectSink {
    async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        match self.write_parts(bytes).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.give_up(error).await),
        }
    }

    fn position(&self) -> u64 {
        self.position
    }

    async fn finish(mut self: Box<Self>) -> Result<u64> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        match self.complete().await {
            Ok(()) => Ok(self.position),
            Err(error) => Err(self.give_up(error).await),
        }
    }
}

impl Drop for ObjectSink {
    fn drop(&mut self) {
        let (under_way, upload) = (std::mem::take(&mut self.under_way), self.upload.take());
        if upload.is_none() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(Self::abort(under_way, upload))),
            Err(_) => tracing::warn!(path = %self.path, "unfinished upload not aborted: no runtime is left"),
        }
    }
}
