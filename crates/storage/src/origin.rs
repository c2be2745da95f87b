//! Where objects come from: a folder, a bucket of any provider, a web server, or a store made by the caller.

use std::{fmt, path::PathBuf, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, ObjectStoreScheme, RetryConfig,
    aws::AmazonS3Builder,
    azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder,
    http::HttpBuilder,
    list::{PaginatedListOptions, PaginatedListStore},
    local::LocalFileSystem,
    memory::InMemory,
    multipart::MultipartStore,
    path::Path,
    prefix::PrefixStore,
};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::{Error, RequestOptions, Result};

/// Longest that one request may take from its first byte to its last: a part of an upload over a slow line.
const REQUEST_TIMEOUT: &str = "300s";

/// An object store and what of it goes beyond [`ObjectStore`]. Cheap to clone.
#[derive(Clone)]
pub struct Origin {
    name: String,
    /// Paths within the bucket are relative to this one.
    prefix: Path,
    store: Arc<dyn ObjectStore>,
    native: Option<Native>,
    /// A folder: it keeps no content type or metadata, and its files can change while they are read.
    folder: Option<PathBuf>,
    /// Its client sends requests again by itself.
    retries: bool,
}

/// What cloud stores offer besides; paths include the prefix.
#[derive(Clone)]
pub(crate) struct Native {
    pub(crate) multipart: Arc<dyn MultipartStore>,
    pub(crate) list: Arc<dyn PaginatedListStore>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Origin {
    /// An origin over any store, under a name that tells it from all others: what is cached, is cached under it.
    pub fn new(name: impl Into<String>, store: Arc<dyn ObjectStore>) -> Self {
        Self { name: name.into(), prefix: Path::default(), store, native: None, folder: None, retries: false }
    }

    /// The origin at `url`: a folder (`DIR` or `file://`), `s3://`, `gs://`, `az://`, `http(s)://` or `memory://`.
    ///
    /// `options` are keys of the object_store crate, such as `endpoint`, `region`, `access_key_id`,
    /// `secret_access_key`, `allow_http`, `skip_signature`; what they leave out comes from the provider's usual
    /// environment variables. Fails with [`Error::OriginConfig`], in which no credentials appear.
    pub fn parse(url: &str, options: &[(String, String)], requests: &RequestOptions) -> Result<Self> {
        let error = |reason: String| Error::OriginConfig { url: without_credentials(url), reason };
        let (scheme, parsed) = match Url::parse(url) {
            Ok(parsed) if url.contains("://") => {
                let scheme = ObjectStoreScheme::parse(&parsed).map_err(|_| {
                    error(
                        "unknown kind: give a folder, s3://, gs://, az://, http(s):// or memory://"
                            .to_owned(),
                    )
                })?;
                (scheme, parsed)
            }
            _ => return Self::folder(url, PathBuf::from(url)),
        };
        let (scheme, prefix) = scheme;
        let name = without_credentials(url).trim_end_matches('/').to_owned();
        let builder = Builder { url: &parsed, options, requests };
        let fail = |source: object_store::Error| error(source.to_string());
        match scheme {
            ObjectStoreScheme::Local => {
                let path =
                    parsed.to_file_path().map_err(|()| error("not a path of this machine".to_owned()))?;
                Self::folder(url, path)
            }
            ObjectStoreScheme::Memory => Ok(Self::cloud(name, prefix, InMemoryOrigin::default(), false)),
            ObjectStoreScheme::AmazonS3 => {
                Ok(Self::cloud(name, prefix, CloudStore(builder.s3().map_err(fail)?), true))
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                Ok(Self::cloud(name, prefix, CloudStore(builder.gcs().map_err(fail)?), true))
            }
            ObjectStoreScheme::MicrosoftAzure => {
                Ok(Self::cloud(name, prefix, CloudStore(builder.azure().map_err(fail)?), true))
            }
            ObjectStoreScheme::Http => {
                let store: Arc<dyn ObjectStore> = Arc::new(builder.http().map_err(fail)?);
                Ok(Self { retries: true, ..Self::new(name, store) })
            }
            _ => Err(error("unknown kind of origin".to_owned())),
        }
    }

    fn folder(url: &str, path: PathBuf) -> Result<Self> {
        let error = |reason: String| Error::OriginConfig { url: url.to_owned(), reason };
        let path = path.canonicalize().map_err(|source| error(format!("no such folder ({source})")))?;
        if !path.is_dir() {
            return Err(error("not a folder".to_owned()));
        }
        let store = LocalFileSystem::new_with_prefix(&path).map_err(|source| error(source.to_string()))?;
        let name = format!("file://{}", path.display());
        Ok(Self { folder: Some(path), ..Self::new(name, Arc::new(store)) })
    }

    fn cloud(name: String, prefix: Path, store: impl IntoStores, retries: bool) -> Self {
        let (store, native) = store.into_stores();
        let store = if prefix.is_root() { store } else { Arc::new(PrefixStore::new(store, prefix.clone())) };
        Self { name, prefix, store, native, folder: None, retries }
    }

    /// The URL without credentials.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store, with paths relative to the origin.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    pub(crate) fn native(&self) -> Option<&Native> {
        self.native.as_ref()
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.folder.is_some()
    }

    pub(crate) fn retries_itself(&self) -> bool {
        self.retries
    }

    /// A path of the origin as its native interfaces name it.
    pub(crate) fn locate(&self, path: &Path) -> Path {
        self.prefix.parts().chain(path.parts()).collect()
    }

    /// The prefix that its native interfaces put before every key, with the slash.
    pub(crate) fn key_prefix(&self) -> String {
        if self.prefix.is_root() { String::new() } else { format!("{}/", self.prefix) }
    }

    /// Asks for one object or a listing of one key: whether the origin answers at all.
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
            tokio::fs::read_dir(folder).await.map(drop).map_err(failed_read)
        } else {
            match self.store.head(&Path::from(".stylobate-check")).await {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(failed(error)),
            }
        }
    }
}

fn without_credentials(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            let cleared = parsed.set_username("").and_then(|()| parsed.set_password(None));
            if cleared.is_ok() { parsed.to_string() } else { format!("{}://", parsed.scheme()) }
        }
        _ => url.to_owned(),
    }
}

trait IntoStores {
    fn into_stores(self) -> (Arc<dyn ObjectStore>, Option<Native>);
}

struct CloudStore<S>(S);

impl<S: ObjectStore + MultipartStore + PaginatedListStore> IntoStores for CloudStore<S> {
    fn into_stores(self) -> (Arc<dyn ObjectStore>, Option<Native>) {
        let store = Arc::new(self.0);
        (store.clone(), Some(Native { multipart: store.clone(), list: store }))
    }
}

#[derive(Default)]
struct InMemoryOrigin(InMemory);

impl IntoStores for InMemoryOrigin {
    fn into_stores(self) -> (Arc<dyn ObjectStore>, Option<Native>) {
        (Arc::new(self.0), None)
    }
}

struct Builder<'a> {
    url: &'a Url,
    options: &'a [(String, String)],
    requests: &'a RequestOptions,
}

/// Applies the options to a builder of the object_store crate; a key that it does not know is an error.
macro_rules! configured {
    ($self:ident, $builder:expr) => {{
        let mut builder = $builder.with_url($self.url.as_str()).with_retry($self.retry());
        for (key, value) in $self.options() {
            builder = builder.with_config(key.to_ascii_lowercase().parse()?, value);
        }
        builder.build()
    }};
}

impl Builder<'_> {
    fn retry(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig { init_backoff: self.requests.backoff, ..BackoffConfig::default() },
            max_retries: self.requests.attempts.saturating_sub(1) as usize,
            retry_timeout: self.requests.deadline,
        }
    }

    /// The options given, after the defaults that they override.
    fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        [("timeout", REQUEST_TIMEOUT)].into_iter().chain(given)
    }

    fn s3(&self) -> object_store::Result<object_store::aws::AmazonS3> {
        configured!(self, AmazonS3Builder::from_env())
    }

    fn gcs(&self) -> object_store::Result<object_store::gcp::GoogleCloudStorage> {
        configured!(self, GoogleCloudStorageBuilder::from_env())
    }

    fn azure(&self) -> object_store::Result<object_store::azure::MicrosoftAzure> {
        configured!(self, MicrosoftAzureBuilder::from_env())
    }

    fn http(&self) -> object_store::Result<object_store::http::HttpStore> {
        let mut client = ClientOptions::new().with_allow_http(true);
        for (key, value) in self.options() {
            client = client.with_config(key.to_ascii_lowercase().parse()?, value);
        }
        if !self.url.username().is_empty() {
            client = client.with_default_headers(basic_auth(self.url));
        }
        HttpBuilder::new()
            .with_url(without_credentials(self.url.as_str()))
            .with_client_options(client)
            .with_retry(self.retry())
            .build()
    }
}

/// The URL's user and password as a header, so that no error of the client can quote them with the URL.
fn basic_auth(url: &Url) -> HeaderMap {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pair = format!("{}:{}", decode(url.username()), decode(url.password().unwrap_or_default()));
    let mut headers = HeaderMap::new();
    if let Ok(mut value) = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair))) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    headers
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
    fn credentials_in_a_url_are_in_no_name_and_no_error() {
        let origin = parse("http://user:hunter2@127.0.0.1:1/files", &[]).unwrap();
        assert_eq!(origin.name(), "http://127.0.0.1:1/files");
        let error = parse("ftp://user:hunter2@host/x", &[]).unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
