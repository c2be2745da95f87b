//! Origins with the same objects: over the same folder or prefix, or one below the other.

use object_store::path::Path;

use super::Origin;
use crate::path_of_key;

/// Two origins with objects in common. Translates paths from the first to the second.
#[derive(Clone, Debug)]
pub(crate) struct OriginOverlap {
    from: Path,
    to: Path,
}

impl OriginOverlap {
    /// Returns the overlap of two origins; `None` if they have no objects in common.
    pub(crate) fn of(from: &Origin, to: &Origin) -> Option<Self> {
        let (store, from) = from.location()?;
        let (other_store, to) = to.location()?;
        let is_nested = from.prefix_matches(&to) || to.prefix_matches(&from);
        (store == other_store && is_nested).then_some(Self { from, to })
    }

    /// Returns the path in the second origin of an object in the first; `None` if it is not an object of both.
    pub(crate) fn path(&self, path: &Path) -> Option<Path> {
        let in_store: Path = self.from.parts().chain(path.parts()).collect();
        let path: Path = in_store.prefix_match(&self.to)?.collect();
        (!path.is_root()).then_some(path)
    }
}

impl Origin {
    /// Returns the name of the store that contains the origin's objects, and their prefix in it. `None` for a folder
    /// whose path is not UTF-8, and for a bucket with an S3 endpoint: requests that change it are forwarded past the
    /// store, and the forwarder knows all buckets that they affect.
    fn location(&self) -> Option<(String, Path)> {
        if self.s3.is_some() {
            return None;
        }
        if let Some(folder) = &self.folder {
            let root = folder.root().to_str()?.trim_start_matches('/');
            // The root of the file system has no prefix.
            let root = if root.is_empty() { Path::default() } else { path_of_key(root)? };
            return Some(("file".to_owned(), root));
        }

        let prefix: &str = self.prefix.as_ref();
        let bucket = self.name.strip_suffix(prefix).unwrap_or(self.name.as_str());
        let account = self.identity.strip_prefix(self.name.as_str()).unwrap_or(self.identity.as_str());
        Some((format!("{}{account}", bucket.trim_end_matches('/')), self.prefix.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestOptions;

    fn cloud(url: &str, account: &str) -> Origin {
        let options = [("account_name", account), ("use_emulator", "true")];
        let options: Vec<_> = options.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        Origin::parse(url, &options, &RequestOptions::default()).unwrap()
    }

    fn folder(path: &std::path::Path) -> Origin {
        Origin::parse(path.to_str().unwrap(), &[], &RequestOptions::default()).unwrap()
    }

    fn translated(from: &Origin, to: &Origin, path: &str) -> Option<String> {
        let overlap = OriginOverlap::of(from, to)?;
        overlap.path(&Path::parse(path).unwrap()).map(|path| path.to_string())
    }

    #[test]
    fn paths_are_translated_between_a_folder_and_those_below_it() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a b", "a b/c", "a b-d"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        let whole = folder(root.path());
        let twin = folder(root.path());
        let below = folder(&root.path().join("a b"));
        let beside = folder(&root.path().join("a b-d"));

        assert_eq!(translated(&whole, &twin, "a b/c/x").as_deref(), Some("a b/c/x"));
        assert_eq!(translated(&whole, &below, "a b/c/x").as_deref(), Some("c/x"));
        assert_eq!(translated(&below, &whole, "c/x").as_deref(), Some("a b/c/x"));
        assert_eq!(translated(&whole, &below, "a b-d/x"), None);
        assert_eq!(translated(&whole, &below, "a b"), None);
        assert!(OriginOverlap::of(&below, &beside).is_none());
    }

    #[test]
    fn paths_are_translated_between_the_prefixes_of_a_bucket() {
        let bucket = cloud("az://container", "a");
        let below = cloud("az://container/p/q/", "a");
        assert_eq!(translated(&bucket, &below, "p/q/x").as_deref(), Some("x"));
        assert_eq!(translated(&below, &bucket, "x").as_deref(), Some("p/q/x"));
        assert_eq!(translated(&below, &below, "x").as_deref(), Some("x"));
        for other in
            [cloud("az://container", "b"), cloud("az://other", "a"), cloud("az://container/p/r", "a")]
        {
            assert!(OriginOverlap::of(&below, &other).is_none(), "{other:?}");
        }
    }
}
