//! The folder as an [`ObjectStore`]: each call runs as blocking work.

use std::{
    fmt,
    fs::File,
    ops::Range,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream::BoxStream};
use http::{HeaderMap, StatusCode};
use object_store::{
    CopyMode, CopyOptions, Extensions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, RenameTargetMode, UploadPart, path::Path,
};

use super::{
    Folder, FolderFile, failed,
    list::{FolderListEntry, FolderWalk, WalkStart},
    names::{file_of_path, is_marker},
    record::{KeptHeaders, headers_of},
    write::{CopyChange, FolderWrite, precondition, write_at},
};
use crate::{object::headers::CapturedHeaders, threads::blocking::run_blocking};

/// Objects that a listing collects per blocking call.
const BATCH: usize = 1000;

/// Maximum concurrent removals.
const REMOVALS: usize = 8;

/// Condition on the existing object under which a multipart upload may complete, in the extensions of the upload.
#[derive(Clone, Debug)]
pub struct UploadMode(pub PutMode);

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folder({})", self.root().display())
    }
}

/// Runs blocking work on the runtime's blocking threads, or in place if there is no runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> object_store::Result<T> + Send + 'static,
) -> object_store::Result<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => run_blocking(work).await?,
        Err(_) => work(),
    }
}

/// Returns the headers known so far for a write.
fn headers(
    attributes: &object_store::Attributes,
    extensions: &Extensions,
) -> object_store::Result<HeaderMap> {
    let mut headers = headers_of(attributes)
        .map_err(|reason| object_store::Error::NotSupported { source: reason.into() })?;
    if let Some(kept) = extensions.get::<KeptHeaders>() {
        headers.extend(kept.to_map());
    }
    Ok(headers)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Folder {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let folder = self.clone();
        let path = location.clone();
        blocking(move || {
            let headers = headers(&options.attributes, &options.extensions)?;
            let write = FolderWrite::begin(&folder, &path)?;
            write_at(write.file(), &payload, 0).map_err(|error| failed(&path, error))?;
            write.publish(&options.mode, &headers)
        })
        .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        headers(&options.attributes, &options.extensions)?;
        let folder = self.clone();
        let path = location.clone();
        let write = blocking(move || FolderWrite::begin(&folder, &path)).await?;
        Ok(Box::new(FolderUpload {
            path: location.clone(),
            write: Some(Arc::new(write)),
            length: 0,
            parts: 0,
            written: Arc::default(),
            options,
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let folder = self.clone();
        let path = location.clone();
        blocking(move || folder.get(&path, &options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        let folder = self.clone();
        let path = location.clone();
        let ranges = ranges.to_vec();
        blocking(move || {
            let file = folder.open_file(&path).map_err(|error| failed(&path, error))?;
            let size = file.metadata().map_err(|error| failed(&path, error))?.len();
            ranges.into_iter().map(|range| read(&file, size, &path, range)).collect()
        })
        .await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let folder = self.clone();
        let remove = move |location: object_store::Result<Path>| {
            let folder = folder.clone();
            async move {
                let path = location?;
                blocking(move || folder.remove(&path, |_| true).map(|()| path)).await
            }
        };
        locations.map(remove).buffered(REMOVALS).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.list_with_offset(prefix, &Path::default())
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let directory = prefix.cloned().unwrap_or_default();
        let after = WalkStart::Key(if offset.is_root() { String::new() } else { super::key_of_path(offset) });
        let folder = self.clone();
        let begin = blocking(move || FolderWalk::begin_in(&folder, directory, "", after));
        futures::stream::once(begin).map_ok(objects_of).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let directory = prefix.cloned().unwrap_or_default();
        let folder = self.clone();
        blocking(move || {
            let mut walk = FolderWalk::begin_in(&folder, directory, "/", WalkStart::Key(String::new()))?;
            let mut listed = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
            while let Some(found) = walk.next()? {
                match found {
                    FolderListEntry::Object(object) if is_marker(&object.meta.location) => {}
                    FolderListEntry::Object(object) => listed.objects.push(object.meta),
                    FolderListEntry::Prefix(prefix) => {
                        listed.common_prefixes.extend(super::names::directory_of_prefix(&prefix));
                    }
                }
            }
            Ok(listed)
        })
        .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        let folder = self.clone();
        let from = from.clone();
        let to = to.clone();
        let mode = match options.mode {
            CopyMode::Overwrite => PutMode::Overwrite,
            CopyMode::Create => PutMode::Create,
        };
        let change = options.extensions.get::<CopyChange>().cloned().unwrap_or_default();
        blocking(move || folder.copy_file(&from, &to, &mode, &change)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> object_store::Result<()> {
        let folder = self.clone();
        let from = from.clone();
        let to = to.clone();
        let replaces = options.target_mode == RenameTargetMode::Overwrite;
        blocking(move || folder.rename_file(&from, &to, replaces)).await
    }
}

impl Folder {
    fn get(&self, path: &Path, options: &GetOptions) -> object_store::Result<GetResult> {
        let FolderFile { file, stamp, record, meta } = self.open(path)?;
        options.check_preconditions(&meta)?;
        if options.version.is_some() && options.version != meta.version {
            return Err(precondition(path));
        }

        if let Some(seen) = options.extensions.get::<CapturedHeaders>()
            && let Some(record) = &record
        {
            let etag = meta.e_tag.as_deref().unwrap_or_default();
            seen.set(&record.describe(etag, &stamp), StatusCode::OK);
        }

        let range = match &options.range {
            Some(range) => within(range, meta.size)?,
            None => 0..meta.size,
        };
        let attributes = record.map(|record| record.attributes()).unwrap_or_default();
        let payload = GetResultPayload::File(file, self.root().join(file_of_path(path)));
        Ok(GetResult { payload, meta, range, attributes })
    }
}

/// Streams the objects of a walk, except directory markers.
fn objects_of(walk: FolderWalk) -> impl Stream<Item = object_store::Result<ObjectMeta>> {
    let batches = futures::stream::try_unfold(Some(walk), async |walk| -> object_store::Result<_> {
        let Some(walk) = walk else { return Ok(None) };
        let (batch, walk) = blocking(move || batch_of(walk)).await?;
        Ok(Some((futures::stream::iter(batch.into_iter().map(Ok)), walk)))
    });
    batches.try_flatten()
}

/// Returns the next objects of a walk, and the walk itself unless it has ended.
fn batch_of(mut walk: FolderWalk) -> object_store::Result<(Vec<ObjectMeta>, Option<FolderWalk>)> {
    let mut batch = Vec::new();
    while batch.len() < BATCH {
        match walk.next()? {
            Some(FolderListEntry::Object(listed)) if is_marker(&listed.meta.location) => {}
            Some(FolderListEntry::Object(listed)) => batch.push(listed.meta),
            Some(FolderListEntry::Prefix(_)) => {}
            None => return Ok((batch, None)),
        }
    }
    Ok((batch, Some(walk)))
}

fn within(range: &GetRange, size: u64) -> object_store::Result<Range<u64>> {
    range
        .as_range(size)
        .map_err(|error| object_store::Error::Generic { store: "folder", source: error.into() })
}

fn read(file: &File, size: u64, path: &Path, range: Range<u64>) -> object_store::Result<Bytes> {
    let range = within(&GetRange::Bounded(range), size)?;
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, range.start).map_err(|error| failed(path, error))?;
    Ok(bytes.into())
}

/// An upload whose parts arrive in order, each written at its offset at once.
#[derive(Debug)]
struct FolderUpload {
    path: Path,
    /// `None` once the upload is completed or aborted.
    write: Option<Arc<FolderWrite>>,
    length: u64,
    /// Number of submitted parts.
    parts: usize,
    /// Number of written parts.
    written: Arc<AtomicUsize>,
    options: PutMultipartOptions,
}

impl FolderUpload {
    fn error(reason: &'static str) -> object_store::Error {
        object_store::Error::Generic { store: "folder", source: reason.into() }
    }
}

#[async_trait]
impl MultipartUpload for FolderUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let offset = self.length;
        self.length += data.content_length() as u64;
        self.parts += 1;
        let write = self.write.clone();
        let written = self.written.clone();
        let path = self.path.clone();

        async move {
            let write = write.ok_or_else(|| Self::error("the upload is over"))?;
            blocking(move || {
                write_at(write.file(), &data, offset).map_err(|error| failed(&path, error))?;
                written.fetch_add(1, Ordering::AcqRel);
                Ok(())
            })
            .await
        }
        .boxed()
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        if self.written.load(Ordering::Acquire) != self.parts {
            return Err(Self::error("a part of the upload was not written"));
        }
        let write = self.write.take().and_then(Arc::into_inner);
        let write =
            write.ok_or_else(|| Self::error("the upload is over, or a part of it is being written"))?;

        let headers = headers(&self.options.attributes, &self.options.extensions)?;
        let mode = self.options.extensions.get::<UploadMode>().cloned();
        blocking(move || {
            let mode = mode.map_or(PutMode::Overwrite, |UploadMode(mode)| mode);
            write.publish(&mode, &headers)
        })
        .await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.write = None;
        Ok(())
    }
}
