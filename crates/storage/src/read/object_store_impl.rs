//! The read-through as an object store: reads through the cache, writes to the origin, then invalidates.

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, UploadPart, path::Path,
};
use parking_lot::Mutex;

use crate::{Error, OpenObject, ReadThrough, Result, read::read_through::InvalidateOnDrop};

/// Maximum deleted objects per notification to other nodes.
const DELETES_PER_NOTIFICATION: usize = 1_000;

/// Number of times that an object without a version is opened again because it changed.
const MAX_REOPENS: usize = 2;

impl fmt::Display for ReadThrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadThrough({})", self.origin().name())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for ReadThrough {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let written = self.invalidate_after(location);
        let put = self.origin().store().put_opts(location, payload, options).await;
        written.finish().await;
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let upload = self.origin().store().put_multipart_opts(location, options).await?;
        Ok(Box::new(InvalidatingUpload { upload, store: self.clone(), location: location.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        Ok(self.open(location, options).await?)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let mut object = self.open_object(location).await?;
        // What is known of an object without a version may describe its former bytes.
        for _ in 0..MAX_REOPENS {
            match read_ranges(&object, ranges).await {
                Err(Error::Changed { .. }) if object.version().is_none() => {
                    object = self.open_object(location).await?;
                }
                read => return Ok(read?),
            }
        }
        Ok(read_ranges(&object, ranges).await?)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        if self.is_clustered() {
            return self.delete_in_cluster(locations);
        }

        let (asked, deleted) = self.delete_at_origin(locations);
        let store = self.clone();
        deleted
            .inspect_ok(move |path| {
                store.invalidate(path);
                asked.lock().remove(path).into_iter().for_each(InvalidateOnDrop::disarm);
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.origin().store().list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.origin().store().list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.origin().store().list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        let written = self.invalidate_after(to);
        let copied = self.origin().store().copy_opts(from, to, options).await;
        written.finish().await;
        copied
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> object_store::Result<()> {
        let removed = self.invalidate_after(from);
        let written = self.invalidate_after(to);
        let renamed = self.origin().store().rename_opts(from, to, options).await;
        futures::future::join(removed.finish(), written.finish()).await;
        renamed
    }
}

impl ReadThrough {
    /// Deletes objects, and notifies the other nodes before reporting each as deleted.
    fn delete_in_cluster(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let (asked, deleted) = self.delete_at_origin(locations);
        let store = self.clone();
        let notified = deleted.ready_chunks(DELETES_PER_NOTIFICATION).then(move |deleted| {
            let store = store.clone();
            let asked = asked.clone();
            async move {
                let paths: Vec<Path> = deleted.iter().flatten().cloned().collect();
                store.invalidate_in_cluster(&paths).await;
                let mut asked = asked.lock();
                paths.iter().filter_map(|path| asked.remove(path)).for_each(InvalidateOnDrop::disarm);
                futures::stream::iter(deleted)
            }
        });
        notified.flatten().boxed()
    }

    /// Deletes objects at the origin. Those whose deletion is not reported are invalidated when the returned map is
    /// dropped: an error does not say which object it concerns.
    fn delete_at_origin(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> (DeletesInProgress, BoxStream<'static, object_store::Result<Path>>) {
        let asked = DeletesInProgress::default();
        let noting = asked.clone();
        let store = self.clone();
        let locations = locations.inspect_ok(move |path| {
            noting.lock().insert(path.clone(), store.invalidate_after(path));
        });
        (asked, self.origin().store().delete_stream(locations.boxed()))
    }
}

/// Reads the ranges of an object; one that ends beyond it is cut off.
async fn read_ranges(object: &OpenObject, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let size = object.meta().size;
    let within = |range: &Range<u64>| range.start.min(range.end)..range.end.min(size);
    let outside = ranges.iter().find(|range| range.start >= size || range.is_empty());
    if let Some(Range { start, end }) = outside.cloned() {
        let path = object.meta().location.to_string();
        return Err(Error::Range { path, start, end, size });
    }

    object.read(&ranges.iter().map(within).collect::<Vec<_>>()).await
}

/// The objects that are being deleted.
type DeletesInProgress = Arc<Mutex<HashMap<Path, InvalidateOnDrop>>>;

/// An upload that invalidates the object once it is complete.
#[derive(Debug)]
struct InvalidatingUpload {
    upload: Box<dyn MultipartUpload>,
    store: ReadThrough,
    location: Path,
}

#[async_trait]
impl MultipartUpload for InvalidatingUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let written = self.store.invalidate_after(&self.location);
        let completed = self.upload.complete().await;
        written.finish().await;
        completed
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.upload.abort().await
    }
}
