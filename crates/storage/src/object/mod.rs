//! Versions of objects and ranges of their bytes.

pub(crate) mod attribute_record;
pub(crate) mod headers;

use std::{fmt, ops::Range};

use object_store::ObjectMeta;

/// One version of one object: the only key that bytes are ever cached under.
///
/// Two objects share a version only if store, path, size and ETag are all equal; a replaced object has another
/// version, even if its size is the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectVersion {
    store: String,
    path: String,
    size: u64,
    etag: String,
}

impl ObjectVersion {
    /// Returns the version that `meta` describes, or `None` if the origin gives no strong ETag or version id: such an
    /// object cannot be distinguished from its replacement, so nothing of it may be cached.
    ///
    /// A version id alone is enough: origins with versioning give each version its own.
    pub fn of(store: &str, meta: &ObjectMeta) -> Option<Self> {
        let strong = |tag: &&String| !tag.is_empty() && !tag.starts_with("W/") && !tag.starts_with("w/");
        let etag = meta.e_tag.as_ref().filter(strong).or(meta.version.as_ref())?;
        Some(Self {
            store: store.to_owned(),
            path: meta.location.to_string(),
            size: meta.size,
            etag: etag.clone(),
        })
    }

    /// Returns the size of the object in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the path of the object within its store.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the 128-bit name of this version on disk and in page keys: the head of a BLAKE3 hash, in which each part
    /// is preceded by its length so that no two versions hash the same bytes.
    pub fn hash(&self) -> ObjectHash {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.store, &self.path, &self.etag] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(&self.size.to_le_bytes());
        let mut head = [0; 16];
        hasher.finalize_xof().fill(&mut head);
        ObjectHash(u128::from_le_bytes(head))
    }
}

/// The hash of an [`ObjectVersion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectHash(pub(crate) u128);

/// A range of bytes of an object, `start..end`, with `start <= end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// Creates the range `start..end`, or returns `None` if `end` lies before `start`.
    pub fn new(start: u64, end: u64) -> Option<Self> {
        (start <= end).then_some(Self { start, end })
    }

    /// Creates the range of the first `len` bytes.
    pub fn to(len: u64) -> Self {
        Self { start: 0, end: len }
    }

    /// Returns the offset of the first byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// Returns the offset past the last byte.
    pub fn end(self) -> u64 {
        self.end
    }

    /// Returns the number of bytes.
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// Returns whether the range has no bytes.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl From<ByteRange> for Range<u64> {
    fn from(range: ByteRange) -> Self {
        range.start..range.end
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;

    fn meta(etag: Option<&str>, version: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            location: "a/b".into(),
            last_modified: DateTime::<Utc>::UNIX_EPOCH,
            size: 7,
            e_tag: etag.map(str::to_owned),
            version: version.map(str::to_owned),
        }
    }

    #[test]
    fn only_a_strong_etag_or_a_version_id_makes_a_version() {
        assert!(ObjectVersion::of("s", &meta(Some("\"x\""), None)).is_some());
        assert!(ObjectVersion::of("s", &meta(None, Some("v1"))).is_some());
        assert!(ObjectVersion::of("s", &meta(Some("W/\"x\""), Some("v1"))).is_some());
        assert!(ObjectVersion::of("s", &meta(Some("W/\"x\""), None)).is_none());
        assert!(ObjectVersion::of("s", &meta(Some(""), None)).is_none());
        assert!(ObjectVersion::of("s", &meta(None, None)).is_none());
    }

    #[test]
    fn each_part_of_a_version_changes_its_hash() {
        let hash = |store: &str, etag: &str, size: u64| {
            let meta = ObjectMeta { size, ..meta(Some(etag), None) };
            ObjectVersion::of(store, &meta).unwrap().hash()
        };
        let all =
            [hash("s", "x", 7), hash("s", "y", 7), hash("s", "x", 8), hash("sa", "x", 7), hash("t", "x", 7)];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
        assert_eq!(hash("s", "x", 7), all[0]);
    }
}
