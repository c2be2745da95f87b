//! Origins of objects: a folder, a bucket of any provider, a web server, or a caller-provided store.

mod cloud;
pub(super) mod cost;
mod idle_timeout;
pub(super) mod metrics;
pub(super) mod object_url;
mod object_versions;
mod observed;
pub(super) mod overlap;
pub(super) mod request;
pub(super) mod request_options;
mod s3;
pub(super) mod trace;

use std::{fmt, path::PathBuf, sync::Arc};

use async_recursion::async_recursion as boxed;
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme,
    list::{PaginatedListOptions, PaginatedListStore},
    memory::InMemory,
    multipart::MultipartStore,
    path::Path,
    prefix::PrefixStore,
};
use url::Url;

pub(crate) use self::object_versions::{key_of_version, path_of_version};
pub use self::s3::S3Endpoint;
use self::{cloud::CloudStoreBuilder, object_versions::ObjectVersionStore};
use crate::{
    Durability, Error, Folder, ObjectVersion, OriginMetrics, RequestOptions, Result, folder::FolderOptions,
    key_of_path, without_credentials,
};

/// An object store and its capabilities beyond [`ObjectStore`]. Cheap to clone.
#[derive(Clone)]
pub struct Origin {
    name: String,
    /// Unique to this origin: the URL alone does not distinguish two endpoints or accounts.
    identity: String,
    /// Paths within the bucket are relative to this one.
    prefix: Path,
    store: Arc<dyn ObjectStore>,
    native: Option<CloudStoreApis>,
    s3: Option<Arc<S3Endpoint>>,
    /// Set for a folder, whose files can change while they are read.
    folder: Option<Folder>,
    /// Set if files are complete when they get their names, and never change.
    has_final_files: bool,
    /// Set if the client retries requests itself.
    retries: bool,
    /// Set for a web server: it reads files by name; all other operations need WebDAV.
    is_web: bool,
    /// Set if paths are those of retained versions, `VERSION/KEY`.
    has_versions: bool,
    metrics: Arc<OriginMetrics>,
}

/// Interfaces of cloud stores beyond [`ObjectStore`]; their paths include the prefix.
#[derive(Clone)]
pub(crate) struct CloudStoreApis {
    pub(crate) multipart: Arc<dyn MultipartStore>,
    pub(crate) list: Arc<dyn PaginatedListStore>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Origin {
    /// Creates an origin over any store. The name must be unique, since cached bytes are keyed by it.
    pub fn new(name: impl Into<String>, store: Arc<dyn ObjectStore>) -> Self {
        let name = name.into();
        let identity = name.clone();
        Self {
            name,
            identity,
            prefix: Path::default(),
            store,
            native: None,
            s3: None,
            folder: None,
            has_final_files: false,
            retries: false,
            is_web: false,
            has_versions: false,
            metrics: Arc::default(),
        }
    }

    /// Sets the identity that distinguishes its objects from those of other origins, for names (which appear in
    /// messages) that do not.
    pub fn with_identity(self, identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), ..self }
    }

    /// Declares that all files are complete when they get their names and never change: in a folder, even files
    /// modified a moment ago may then be cached.
    pub fn of_final_files(mut self) -> Self {
        self.has_final_files = true;
        self
    }

    /// Stops following links that lead out of a folder: their targets are not objects.
    pub fn without_links_that_leave(self) -> Result<Self> {
        self.with_folder_options(|options| options.follows_links = false)
    }

    /// Sets the durability of changes to a folder. Default: a completed change survives a power loss.
    pub fn with_durability(self, durability: Durability) -> Result<Self> {
        self.with_folder_options(|options| options.durability = durability)
    }

    fn with_folder_options(self, change: impl FnOnce(&mut FolderOptions)) -> Result<Self> {
        let Some(folder) = &self.folder else { return Ok(self) };
        let mut options = folder.options();
        change(&mut options);
        let root = folder.root().to_owned();
        Self::folder_at(&self.name, &root, options)
            .map(|origin| Self { has_final_files: self.has_final_files, ..origin })
    }

    /// Creates the origin at `url`: a folder (`DIR` or `file://`), `s3://`, `gs://`, `az://`, `http(s)://` or
    /// `memory://`.
    ///
    /// `options` are keys of the object_store crate, such as `endpoint`, `region`, `access_key_id`,
    /// `secret_access_key`, `allow_http`, `skip_signature`; anything they leave out comes from the provider's usual
    /// environment variables.
    ///
    /// # Errors
    ///
    /// [`Error::OriginConfig`], which contains no credentials.
    pub fn parse(url: &str, options: &[(String, String)], requests: &RequestOptions) -> Result<Self> {
        let error = |reason: String| Error::OriginConfig { url: without_credentials(url), reason };
        let (scheme, parsed) = match Url::parse(url) {
            Ok(parsed) if url.contains("://") => {
                let is_signed = matches!(parsed.scheme(), "http" | "https") && parsed.query().is_some();
                let scheme = if is_signed {
                    // A presigned URL is used verbatim, regardless of the provider.
                    Ok((ObjectStoreScheme::Http, Path::default()))
                } else {
                    ObjectStoreScheme::parse(&parsed)
                };
                let scheme = scheme.map_err(|_| match parsed.scheme() {
                    scheme @ ("s3" | "s3a" | "gs" | "az") if parsed.host_str().is_none_or(str::is_empty) => {
                        error(format!("it names no bucket: write {scheme}://BUCKET/PATH"))
                    }
                    _ => error(
                        "unknown kind: give a folder, s3://, gs://, az://, http(s):// or memory://"
                            .to_owned(),
                    ),
                })?;
                (scheme, parsed)
            }
            // Text without a scheme is always a path.
            Err(reason) if url.contains("://") && reason != url::ParseError::RelativeUrlWithoutBase => {
                let hint = "a / in a user or password is written as %2F";
                return Err(error(format!("not a URL: {reason} ({hint})")));
            }
            _ => return Self::folder_of(url, PathBuf::from(url)),
        };

        let (scheme, prefix) = scheme;

        let name = without_credentials(url).trim_end_matches('/').to_owned();
        let metrics = &Arc::default();
        let builder = CloudStoreBuilder { url: &parsed, options, requests, metrics };
        let fail = |source: object_store::Error| error(source.to_string());

        match scheme {
            ObjectStoreScheme::Local => {
                let path = parsed.to_file_path().map_err(|()| error("not a local path".to_owned()))?;
                Self::folder_of(url, path)
            }
            ObjectStoreScheme::Memory => {
                // Its objects do not outlive the process, and its ETags start over.
                let identity = format!("{:032x}", rand::random::<u128>());
                let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
                let origin = Self { identity, ..Self::new(name, store) };
                Ok(origin.below(prefix))
            }
            ObjectStoreScheme::AmazonS3 => {
                let (built, endpoint) = builder.s3().map_err(fail)?;
                let origin = Self::cloud(name, prefix, built);
                let prefix = origin.key_prefix();
                let s3 = endpoint.map(|endpoint| Arc::new(endpoint.with_prefix(prefix)));
                Ok(Self { s3, ..origin }.counted_by(metrics))
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                Ok(Self::cloud(name, prefix, builder.gcs().map_err(fail)?).counted_by(metrics))
            }
            ObjectStoreScheme::MicrosoftAzure => {
                Ok(Self::cloud(name, prefix, builder.azure().map_err(fail)?).counted_by(metrics))
            }
            ObjectStoreScheme::Http => {
                let (store, user) = builder.http().map_err(fail)?;
                let identity = format!("{name} {user}");
                let origin =
                    Self { identity, retries: true, is_web: true, ..Self::new(name, Arc::new(store)) };
                Ok(origin.counted_by(metrics))
            }
            _ => Err(error("unknown kind of origin".to_owned())),
        }
    }

    fn folder_of(url: &str, path: PathBuf) -> Result<Self> {
        let error = |reason: String| Error::OriginConfig { url: without_credentials(url), reason };
        let path = path.canonicalize().map_err(|source| error(format!("no such folder ({source})")))?;
        if !path.is_dir() {
            return Err(error("not a folder".to_owned()));
        }
        Self::folder_at(url, &path, FolderOptions { follows_links: true, ..FolderOptions::default() })
    }

    fn folder_at(url: &str, path: &std::path::Path, options: FolderOptions) -> Result<Self> {
        let error = |source: std::io::Error| Error::OriginConfig {
            url: without_credentials(url),
            reason: source.to_string(),
        };
        let folder = Folder::open_root(path, options).map_err(error)?;
        let name = format!("file://{}", path.display());
        Ok(Self { folder: Some(folder.clone()), ..Self::new(name, Arc::new(folder)) })
    }

    fn cloud<S>(name: String, prefix: Path, (store, account): (S, String)) -> Self
    where
        S: ObjectStore + MultipartStore + PaginatedListStore,
    {
        let store = Arc::new(store);
        let native = CloudStoreApis { multipart: store.clone(), list: store.clone() };
        let identity = format!("{name} {account}");
        let origin = Self { identity, native: Some(native), retries: true, ..Self::new(name, store) };
        origin.below(prefix)
    }

    /// Replaces the metrics by those that the origin's client updates.
    fn counted_by(self, metrics: &Arc<OriginMetrics>) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Restricts the origin to the objects under a prefix, named relative to it.
    fn below(mut self, prefix: Path) -> Self {
        if !prefix.is_root() {
            self.store = Arc::new(PrefixStore::new(self.store, prefix.clone()));
            self.prefix = prefix;
        }
        self
    }

    /// Returns an origin of the object versions that the bucket retains, if it supports versioning. The current
    /// version has the same identity in both, so its bytes are cached once.
    pub(crate) fn object_versions(&self) -> Option<Self> {
        self.s3.as_ref()?;
        let store = Arc::new(ObjectVersionStore::new(self.store.clone()));
        Some(Self { store, native: None, s3: None, has_versions: true, ..self.clone() })
    }

    /// Replaces the store. The origin keeps the capabilities of its kind, but loses its native interfaces.
    #[cfg(test)]
    pub(crate) fn with_store(self, store: Arc<dyn ObjectStore>) -> Self {
        Self { store, native: None, retries: false, ..self }
    }

    /// Returns the URL without credentials.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URL of an object, without credentials. In a folder, it has the name of the file.
    pub fn name_of(&self, path: &Path) -> String {
        let slash = if self.name.ends_with('/') { "" } else { "/" };
        match &self.folder {
            Some(_) => format!("{}{slash}{}", self.name, key_of_path(path)),
            None => format!("{}{slash}{path}", self.name),
        }
    }

    /// Returns the store, with paths relative to the origin.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Returns the bucket's endpoint, if it speaks the S3 protocol.
    pub fn s3(&self) -> Option<&S3Endpoint> {
        self.s3.as_deref()
    }

    /// Returns the counters of its HTTP requests. A folder or a caller-provided store counts only timeouts.
    pub fn metrics(&self) -> &Arc<OriginMetrics> {
        &self.metrics
    }

    pub(crate) fn native(&self) -> Option<&CloudStoreApis> {
        self.native.as_ref()
    }

    /// Returns the folder, if the origin is one.
    pub fn folder(&self) -> Option<&Folder> {
        self.folder.as_ref()
    }

    /// Returns the version that `meta` describes; `None` if it cannot be distinguished from its successor.
    pub(crate) fn version_of(&self, meta: &ObjectMeta) -> Option<ObjectVersion> {
        // The ETag that a folder stores is less specific than the state of the file.
        let state = meta.version.clone().filter(|_| self.is_folder());
        match state {
            Some(state) => {
                ObjectVersion::of(&self.identity, &ObjectMeta { e_tag: Some(state), ..meta.clone() })
            }
            None => ObjectVersion::of(&self.identity, meta),
        }
    }

    /// Returns the path by which an object is identified that was requested at `path`. A store may describe it by
    /// another one: that of an inner store, with a prefix.
    pub(crate) fn key_path(&self, path: &Path) -> Path {
        let key = key_of_version(path.as_ref()).filter(|_| self.has_versions);
        key.and_then(|key| Path::parse(key).ok()).unwrap_or_else(|| path.clone())
    }

    /// Returns whether a recently modified file may still be being written.
    pub(crate) fn may_be_writing(&self) -> bool {
        self.is_folder() && !self.has_final_files
    }

    /// Returns whether it is a web server.
    pub(crate) fn is_web(&self) -> bool {
        self.is_web
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.folder.is_some()
    }

    pub(crate) fn retries_itself(&self) -> bool {
        self.retries
    }

    /// Returns a path of the origin as its native interfaces spell it.
    pub(crate) fn locate(&self, path: &Path) -> Path {
        self.prefix.parts().chain(path.parts()).collect()
    }

    /// Returns the prefix of every key in the native interfaces, including the trailing slash.
    pub(crate) fn key_prefix(&self) -> String {
        if self.prefix.is_root() { String::new() } else { format!("{}/", self.prefix) }
    }

    /// Checks that the origin responds, by requesting one object or listing one key.
    #[boxed]
    pub async fn check(&self) -> Result<()> {
        let failed = |error| Error::from_origin(&self.name, error);
        if let Some(native) = &self.native {
            let options = PaginatedListOptions { max_keys: Some(1), ..PaginatedListOptions::default() };
            let prefix = self.key_prefix();
            native.list.list_paginated(Some(&prefix), options).await.map(drop).map_err(failed)
        } else if let Some(folder) = &self.folder {
            let failed_read = |error: std::io::Error| {
                failed(object_store::Error::Generic { store: "folder", source: error.into() })
            };
            tokio::fs::read_dir(folder.root()).await.map(drop).map_err(failed_read)
        } else {
            match self.store.head(&Path::from(".stylobate-check")).await {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(failed(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str, options: &[(&str, &str)]) -> Result<Origin> {
        let options: Vec<_> = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Origin::parse(url, &options, &RequestOptions::default())
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_that_names_it() {
        let error = parse("no/such/folder", &[]).unwrap_err();
        assert!(error.to_string().contains("no/such/folder"), "{error}");
    }

    #[test]
    fn an_unknown_scheme_or_option_is_an_error() {
        assert!(parse("ftp://host/x", &[]).unwrap_err().to_string().contains("unknown kind"));
        for url in ["s3://", "s3:///x"] {
            assert!(parse(url, &[]).unwrap_err().to_string().ends_with("write s3://BUCKET/PATH"), "{url}");
        }
        let error = parse("s3://bucket", &[("regoin", "x")]).unwrap_err();
        assert!(error.to_string().contains("regoin"), "{error}");
    }

    #[test]
    fn every_kind_of_url_makes_an_origin() {
        let folder = tempfile::tempdir().unwrap();
        let s3 = [("region", "eu-west-1"), ("endpoint", "http://127.0.0.1:1"), ("allow_http", "true")];
        assert_eq!(parse("s3://bucket/a/b/", &s3).unwrap().key_prefix(), "a/b/");
        assert!(parse(folder.path().to_str().unwrap(), &[]).unwrap().is_folder());
        assert!(parse(Url::from_file_path(folder.path()).unwrap().as_str(), &[]).unwrap().is_folder());
        assert!(parse("memory:///", &[]).is_ok());
        assert!(parse("http://127.0.0.1:1/files", &[]).is_ok());
        assert!(parse("az://container/p", &[("account_name", "a"), ("use_emulator", "true")]).is_ok());
    }

    #[test]
    fn origins_that_share_a_url_but_no_endpoint_or_account_are_told_apart() {
        let identity = |url: &str, options: &[(&str, &str)]| parse(url, options).unwrap().identity;
        let s3 = |endpoint: &str| identity("s3://bucket", &[("endpoint", endpoint), ("region", "x")]);
        assert_ne!(s3("http://127.0.0.1:1"), s3("http://127.0.0.1:2"));
        assert_eq!(s3("http://127.0.0.1:1"), s3("http://127.0.0.1:1"));
        let azure = |account: &str| identity("az://container", &[("account_name", account)]);
        assert_ne!(azure("a"), azure("b"));
        assert_ne!(identity("memory:///", &[]), identity("memory:///", &[]));
        assert_ne!(identity("http://a@127.0.0.1:1/", &[]), identity("http://b@127.0.0.1:1/", &[]));
    }

    #[test]
    fn credentials_in_a_url_are_in_no_name_and_no_error() {
        let origin = parse("http://user:hunter2@127.0.0.1:1/files", &[]).unwrap();
        assert_eq!(origin.name(), "http://***@127.0.0.1:1/files");
        for url in [
            "ftp://user:hunter2@host/x",
            "s3://user:hunt/er2@bucket/x",
            "s3://user:hunt/er2@bucket",
            "http://user:hunt/er2@127.0.0.1:1/x",
            "http://user:hunt?er2@127.0.0.1:1/x",
        ] {
            let error = parse(url, &[]).unwrap_err().to_string();
            assert!(!error.contains("hunt") && !error.contains("er2"), "{error}");
        }
    }
}
