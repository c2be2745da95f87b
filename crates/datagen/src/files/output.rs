//! Output of a run: a folder, or a prefix in an object store.

use std::{
    fs::File,
    hash::Hasher,
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectStoreExt, path::Path};
use stylobate_storage::{
    Error as StorageError, Origin, Overwrite, RequestOptions, Sink, SinkOptions, Sinks, run_blocking,
    without_credentials,
};
use url::Url;

use crate::{Error, Result};

/// Number of bytes per read of a local file.
const READ_BYTES: usize = 1 << 20;

/// A folder, or a prefix in a bucket.
#[derive(Clone, Debug)]
pub struct Output {
    name: String,
    location: OutputLocation,
    sinks: Sinks,
}

#[derive(Clone, Debug)]
enum OutputLocation {
    /// A local folder, created with its first file.
    Folder(PathBuf),
    Store(Origin),
}

/// The size of a file and the hash of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileDigest {
    pub(crate) bytes: u64,
    pub(crate) xxh3: u64,
}

impl Output {
    /// Opens a folder, which need not exist yet, or a URL such as `s3://`, `gs://` or `az://`, with `options` as in
    /// [`Origin::parse`].
    pub fn open(url: &str, options: &[(String, String)], sinks: SinkOptions) -> Result<Self> {
        let name = without_credentials(url).trim_end_matches('/').to_owned();
        let location = if !url.contains("://") {
            OutputLocation::Folder(PathBuf::from(url))
        } else if url.starts_with("file:") {
            let path = Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
            let wrong =
                || Error::Output { output: name.clone(), reason: "no path of this machine".to_owned() };
            OutputLocation::Folder(path.ok_or_else(wrong)?)
        } else {
            OutputLocation::Store(Origin::parse(url, options, &RequestOptions::default())?)
        };

        if let OutputLocation::Folder(folder) = &location
            && folder.exists()
            && !folder.is_dir()
        {
            return Err(Error::Output {
                output: name,
                reason: "a file, where a folder was expected".to_owned(),
            });
        }

        Ok(Self { name, location, sinks: Sinks::new(sinks) })
    }

    /// Returns the path or URL, without credentials.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path or URL of a file in the output.
    pub(crate) fn name_of(&self, path: &str) -> String {
        format!("{}/{path}", self.name)
    }

    /// Opens a sink for the bytes of a file.
    pub(crate) async fn sink(&self, path: &str) -> Result<Box<dyn Sink>> {
        Ok(match &self.location {
            OutputLocation::Folder(folder) => self.sinks.file(&folder.join(path), Overwrite::Replace).await?,
            OutputLocation::Store(origin) => {
                self.sinks.object(origin.store().clone(), object(path)?, Overwrite::Replace)
            }
        })
    }

    /// Removes a file, if it exists, and the folder of its table once that is empty.
    pub(crate) async fn remove(&self, path: &str) -> Result<()> {
        let removed = match &self.location {
            OutputLocation::Folder(folder) => {
                let removed = tokio::fs::remove_file(folder.join(path)).await;
                if let Some((table, _)) = path.split_once('/') {
                    // Fails as long as there are other files.
                    let _ = tokio::fs::remove_dir(folder.join(table)).await;
                }
                removed.map_err(|error| self.unread(path, error))
            }
            OutputLocation::Store(origin) => {
                let removed = origin.store().delete(&object(path)?).await;
                removed.map_err(|error| StorageError::from_origin(&self.name_of(path), error))
            }
        };

        match removed {
            Ok(()) | Err(StorageError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a small file.
    pub(crate) async fn read(&self, path: &str) -> Result<Bytes> {
        let fail = |error| StorageError::from_origin(&self.name_of(path), error);
        match &self.location {
            OutputLocation::Folder(folder) => {
                let read = tokio::fs::read(folder.join(path)).await;
                Ok(read.map(Bytes::from).map_err(|error| self.unread(path, error))?)
            }
            OutputLocation::Store(origin) => {
                let got = origin.store().get(&object(path)?).await.map_err(fail)?;
                Ok(got.bytes().await.map_err(fail)?)
            }
        }
    }

    /// Returns the names of direct children, including folders but no hidden files.
    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = match &self.location {
            OutputLocation::Folder(folder) => match std::fs::read_dir(folder) {
                Ok(entries) => {
                    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
                    names.collect::<io::Result<_>>().map_err(|error| self.unread("", error))?
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(self.unread("", error).into()),
            },
            OutputLocation::Store(origin) => {
                let listed = origin.store().list_with_delimiter(None).await;
                let listed = listed.map_err(|error| StorageError::from_origin(&self.name, error))?;
                let objects = listed.objects.into_iter().filter(|object| object.size > 0);
                let paths = listed.common_prefixes.into_iter().chain(objects.map(|object| object.location));
                paths.filter_map(|path| path.filename().map(str::to_owned)).collect()
            }
        };

        names.retain(|name| !name.starts_with('.'));
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the size and hash of a file; `None` if it does not exist.
    pub(crate) async fn digest(&self, path: &str) -> Result<Option<FileDigest>> {
        match self.digest_of(path).await {
            Ok(digest) => Ok(Some(digest)),
            Err(Error::Storage(StorageError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn digest_of(&self, path: &str) -> Result<FileDigest> {
        let fail = |error| StorageError::from_origin(&self.name_of(path), error);
        let mut digest = FileHasher::default();
        match &self.location {
            OutputLocation::Folder(folder) => {
                let file = folder.join(path);
                let read = run_blocking(move || {
                    let mut file = File::open(file)?;
                    let mut buffer = vec![0; READ_BYTES];
                    loop {
                        let read = file.read(&mut buffer)?;
                        if read == 0 {
                            return Ok(digest.finish());
                        }
                        digest.add(buffer.get(..read).unwrap_or_default());
                    }
                });
                Ok(read.await?.map_err(|error: io::Error| self.unread(path, error))?)
            }
            OutputLocation::Store(origin) => {
                let mut stream = origin.store().get(&object(path)?).await.map_err(fail)?.into_stream();
                while let Some(bytes) = stream.next().await.transpose().map_err(fail)? {
                    digest.add(&bytes);
                }
                Ok(digest.finish())
            }
        }
    }

    /// Returns a sequential reader of a file, for a thread that may block.
    pub(crate) async fn reader(&self, path: &str) -> Result<Box<dyn Read + Send>> {
        let fail = |error| StorageError::from_origin(&self.name_of(path), error);
        Ok(match &self.location {
            OutputLocation::Folder(folder) => {
                let file = File::open(folder.join(path)).map_err(|error| self.unread(path, error))?;
                Box::new(io::BufReader::with_capacity(READ_BYTES, file))
            }
            OutputLocation::Store(origin) => {
                let got = origin.store().get(&object(path)?).await.map_err(fail)?;
                let stream = got.into_stream().map_err(io::Error::from);
                Box::new(BlockingObjectReader {
                    stream: Box::pin(stream),
                    left: Bytes::new(),
                    runtime: tokio::runtime::Handle::current(),
                })
            }
        })
    }

    /// Returns the origin that scans read from.
    pub(crate) fn origin(&self) -> Result<Origin> {
        Ok(match &self.location {
            OutputLocation::Folder(folder) => {
                Origin::parse(&folder.to_string_lossy(), &[], &RequestOptions::default())?
            }
            OutputLocation::Store(origin) => origin.clone(),
        })
    }

    fn unread(&self, path: &str, error: io::Error) -> StorageError {
        let path = self.name_of(path);
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StorageError::NotFound { path },
            _ => {
                let source = object_store::Error::Generic { store: "folder", source: error.into() };
                StorageError::Origin { path, source: Arc::new(source) }
            }
        }
    }
}

/// Returns the object path of a file, as listings name it.
fn object(path: &str) -> Result<Path> {
    Ok(Path::parse(path).map_err(|_| StorageError::ImpossiblePath { path: path.to_owned() })?)
}

/// Counts and hashes bytes.
#[derive(Clone, Default)]
pub(crate) struct FileHasher {
    bytes: u64,
    hasher: twox_hash::xxhash3_64::Hasher,
}

impl FileHasher {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hasher.write(bytes);
    }

    pub(crate) fn finish(&self) -> FileDigest {
        FileDigest { bytes: self.bytes, xxh3: self.hasher.finish() }
    }
}

/// Sequential reader of an object, for a thread that may block.
struct BlockingObjectReader {
    stream: futures::stream::BoxStream<'static, io::Result<Bytes>>,
    left: Bytes,
    runtime: tokio::runtime::Handle,
}

impl Read for BlockingObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() {
            match self.runtime.block_on(self.stream.next()).transpose()? {
                Some(bytes) => self.left = bytes,
                None => return Ok(0),
            }
        }

        let some = self.left.split_to(self.left.len().min(buffer.len()));
        if let Some(front) = buffer.get_mut(..some.len()) {
            front.copy_from_slice(&some);
        }
        Ok(some.len())
    }
}
