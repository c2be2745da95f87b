//! Destinations of writes: a local path, or a path in an object store.

use std::{fmt, path::PathBuf};

use async_recursion::async_recursion as boxed;
use object_store::{ObjectStoreExt, path::Path};
use url::Url;

use crate::{
    Error, Origin, RequestOptions, Result, folder::file_of_path, split_object_url, without_credentials,
};

/// A local file or folder, or an object or prefix in an object store.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A local path.
    File(PathBuf),
    /// A path in an object store.
    Object {
        /// The store.
        origin: Origin,
        /// The path within it.
        path: Path,
    },
}

impl Destination {
    /// Parses a local path, or a URL with scheme `file`, `s3`, `gs`, `az`, `http` or `https` and options of the
    /// object_store crate.
    ///
    /// # Errors
    ///
    /// [`Error::OriginConfig`], which contains no credentials.
    pub fn parse(url: &str, options: &[(String, String)]) -> Result<Self> {
        let Some((scheme, _)) = url.split_once("://") else {
            return Ok(Self::File(PathBuf::from(url)));
        };

        let invalid =
            |reason: &str| Error::OriginConfig { url: without_credentials(url), reason: reason.to_owned() };

        if scheme.eq_ignore_ascii_case("file") {
            let parsed = Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
            return parsed.map(Self::File).ok_or_else(|| invalid("not a local path"));
        }

        let (store, path) = split_object_url(url).map_err(|_| invalid("its path is not UTF-8"))?;
        let path = Path::parse(path.trim_end_matches('/')).map_err(|error| invalid(&error.to_string()))?;
        let origin = Origin::parse(store, options, &RequestOptions::default())?;
        Ok(Self::Object { origin, path })
    }

    /// Returns the destination for `path` in `origin`: the corresponding file if the origin is a local folder, the
    /// object otherwise.
    pub fn in_origin(origin: &Origin, path: &Path) -> Self {
        match origin.folder() {
            Some(folder) if path.is_root() => Self::File(folder.root().to_owned()),
            Some(folder) => Self::File(folder.root().join(file_of_path(path))),
            None => Self::Object { origin: origin.clone(), path: path.clone() },
        }
    }

    /// Returns whether the file or object exists.
    #[boxed]
    pub async fn exists(&self) -> Result<bool> {
        match self {
            Self::File(path) => {
                let found = tokio::fs::try_exists(path).await;
                found.map_err(|error| Error::write(path, error))
            }
            Self::Object { origin, path } => match origin.store().head(path).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(Error::from_origin(path.as_ref(), error)),
            },
        }
    }

    /// Appends a relative path whose segments are separated by `/`. In an object store, fails with
    /// [`Error::ImpossiblePath`] if it is not a valid path.
    pub fn join(&self, name: &str) -> Result<Self> {
        match self {
            Self::File(path) => Ok(Self::File(path.join(name))),
            Self::Object { origin, path } => {
                let relative = Path::parse(name);
                let relative = relative.map_err(|_| Error::ImpossiblePath { path: name.to_owned() })?;
                let path = path.parts().chain(relative.parts()).collect();
                Ok(Self::Object { origin: origin.clone(), path })
            }
        }
    }
}

/// Displays the path or the URL, without credentials.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Object { origin, path } => f.write_str(&origin.name_of(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_appended_to_a_local_path_or_a_url() {
        let shown = |url: &str| {
            let options = [("region".to_owned(), "x".to_owned())];
            Destination::parse(url, &options).unwrap().join("a=%20/b.parquet").unwrap().to_string()
        };

        assert_eq!(shown("out/x"), "out/x/a=%20/b.parquet");
        assert_eq!(shown("file:///out/x%20y/"), "/out/x y/a=%20/b.parquet");
        assert_eq!(shown("s3://lake/x%20y/"), "s3://lake/x y/a=%20/b.parquet");
        assert_eq!(shown("s3://lake"), "s3://lake/a=%20/b.parquet");
        assert_eq!(shown("s3://lake/~x/%2541/ü"), "s3://lake/~x/%41/ü/a=%20/b.parquet");

        for invalid in
            ["ftp://user:secret@host/x", "s3://user:se/cret@lake/x", "s3://lake/a/../b", "file://host/x"]
        {
            let error = Destination::parse(invalid, &[]).unwrap_err().to_string();
            assert!(!error.contains("cret") && !error.contains("se/"), "{error}");
        }
    }

    #[test]
    fn a_path_of_an_open_store_is_the_file_or_object_that_the_store_reads_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let requests = RequestOptions::default();
        let local = Origin::parse(root.to_str().unwrap(), &[], &requests).unwrap();
        let bucket = Origin::new("bucket", std::sync::Arc::new(object_store::memory::InMemory::new()));

        for name in ["~a", "%41", "a b", "ü", "a/[b]{c}#^"] {
            let path = Path::parse(name).unwrap();
            let Destination::File(file) = Destination::in_origin(&local, &path) else { panic!("{name}") };
            assert_eq!(file, root.join(name));

            let Destination::Object { path: object, .. } = Destination::in_origin(&bucket, &path) else {
                panic!("{name}")
            };
            assert_eq!(object, path);
        }

        let at_root = Destination::in_origin(&local, &Path::default());
        assert!(matches!(at_root, Destination::File(file) if file == root));
    }
}
