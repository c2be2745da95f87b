//! Object keys, which are used exactly as the client gave them, or refused.
//!
//! A folder can hold every key, under an encoded path. For other origins, a key with a `..`, an empty segment or a
//! control byte is refused rather than normalized.

use object_store::path::Path;
use stylobate_storage::{Origin, is_reserved_key, path_of_key};

/// Maximum length of a key in bytes of UTF-8, as in S3.
const MAX_KEY: usize = 1024;

/// A valid key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckedKey {
    /// The key of an object.
    Object(Path),
    /// A key that ends in `/`: a folder marker, which some clients write and which has no effect.
    Folder,
}

/// Error for a key that no object can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidKey;

impl CheckedKey {
    /// Checks a key for an origin.
    pub(crate) fn at(origin: &Origin, key: &str) -> Result<Self, InvalidKey> {
        if origin.folder().is_none() {
            return Self::parse(key);
        }
        if key.len() > MAX_KEY || is_reserved_key(key) {
            return Err(InvalidKey);
        }
        path_of_key(key).map(Self::Object).ok_or(InvalidKey)
    }

    /// Parses the key as a path, unchanged.
    pub(crate) fn parse(key: &str) -> Result<Self, InvalidKey> {
        if key.len() > MAX_KEY || key.contains('\\') || is_reserved_key(key) {
            return Err(InvalidKey);
        }
        let (name, folder) = match key.strip_suffix('/') {
            Some(name) => (name, true),
            None => (key, false),
        };

        let path = Path::parse(name).map_err(|_| InvalidKey)?;
        // The parser would drop a slash at either end, and read an empty text as the root.
        if path.as_ref() != name || name.is_empty() {
            return Err(InvalidKey);
        }
        Ok(if folder { Self::Folder } else { Self::Object(path) })
    }
}

/// Returns true if a key could begin with this prefix. All segments but the last are complete, and so must be valid
/// in a key.
pub(crate) fn can_begin_a_key(origin: &Origin, prefix: &str) -> bool {
    if origin.folder().is_some() {
        return true;
    }
    match prefix.rsplit_once('/') {
        Some((whole, _)) => {
            !prefix.contains('\\') && CheckedKey::parse(whole).is_ok() && !whole.ends_with('/')
        }
        None => !prefix.contains('\\') && !prefix.chars().any(|c| c.is_ascii_control()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_used_exactly_as_it_is() {
        for key in
            ["a", "a/b/c.parquet", "a b", "a%2Fb", "%2e%2e%2fetc", "ключ", "a+b", "...", "a..b/.c", "x=1/~"]
        {
            assert_eq!(CheckedKey::parse(key), Ok(CheckedKey::Object(Path::parse(key).unwrap())));
            let Ok(CheckedKey::Object(path)) = CheckedKey::parse(key) else {
                panic!("{key} is an object's key")
            };
            assert_eq!(path.as_ref(), key);
        }
    }

    #[test]
    fn a_key_that_would_have_to_be_repaired_is_refused() {
        let refused = [
            "", "/", "//", "/a", "a//b", "a//", "..", ".", "../a", "a/../b", "a/..", "a/./b", "./a", "a\0b",
            "a\nb", "a\\b", "..\\b", "a/\u{7f}",
        ];
        for key in refused {
            assert_eq!(CheckedKey::parse(key), Err(InvalidKey), "{key:?}");
        }
        assert_eq!(CheckedKey::parse(&"a".repeat(1025)), Err(InvalidKey));
    }

    #[test]
    fn a_key_that_ends_in_a_slash_marks_a_folder() {
        assert_eq!(CheckedKey::parse("a/b/"), Ok(CheckedKey::Folder));
        assert_eq!(CheckedKey::parse("a/../"), Err(InvalidKey));
    }

    #[test]
    fn a_prefix_that_no_key_has_is_known_without_asking_the_origin() {
        let origin = Origin::new("x", std::sync::Arc::new(object_store::memory::InMemory::new()));
        let can_begin_a_key = |prefix: &str| can_begin_a_key(&origin, prefix);
        for prefix in ["", "a", "a/", "a/b", ".", "..", "a/.", "part-0"] {
            assert!(can_begin_a_key(prefix), "{prefix:?}");
        }
        for prefix in ["/", "../", "a/../", "a//", "/a", "a\\b", "a\0", "./x"] {
            assert!(!can_begin_a_key(prefix), "{prefix:?}");
        }
    }
}
