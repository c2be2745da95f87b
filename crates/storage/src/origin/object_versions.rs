//! The versions that a versioned bucket retains of its objects, as a read-only store with paths `VERSION/KEY`.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};

/// A store that reads versions of objects. It supports neither listing nor writing.
#[derive(Debug)]
pub(super) struct ObjectVersionStore {
    store: Arc<dyn ObjectStore>,
}

impl ObjectVersionStore {
    pub(super) fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store }
    }
}

/// Returns the path of a version; `None` if the version or the key cannot be part of a path.
pub(crate) fn path_of_version(key: &Path, version: &str) -> Option<Path> {
    let is_segment = !version.is_empty() && !version.contains('/');
    Path::parse(format!("{version}/{key}")).ok().filter(|_| is_segment)
}

/// Returns the key of the version with this path.
pub(crate) fn key_of_version(path: &str) -> Option<&str> {
    path.split_once('/').map(|(_, key)| key)
}

fn unsupported<T>() -> Result<T> {
    Err(Error::NotSupported { source: "object versions are read-only".into() })
}

impl fmt::Display for ObjectVersionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "versions of {}", self.store)
    }
}

#[async_trait]
impl ObjectStore for ObjectVersionStore {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let Some((version, key)) = path.as_ref().split_once('/') else { return unsupported() };
        let options = GetOptions { version: Some(version.to_owned()), ..options };
        self.store.get_opts(&Path::parse(key)?, options).await
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        unsupported()
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        unsupported()
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::once(async { unsupported() }).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { unsupported() }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        unsupported()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        unsupported()
    }
}
