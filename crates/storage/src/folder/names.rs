//! Conversions between keys of objects, paths of a store, and names of files.
//!
//! ```text
//! key          a//b.parquet                        any text; segments may be empty, ".", "..", hold control characters
//! path         a/.stylobate-name-/b.parquet        what object_store's Path can hold
//! file         a/.stylobate-name-/b.parquet        what a file system can hold
//! ```
//!
//! A segment that a path cannot hold becomes `.stylobate-name-` followed by the segment in hexadecimal. The file has
//! the segment's own name if the file system accepts it. A key that ends in `/` (a directory marker) is stored as a
//! file in that directory.

use std::{borrow::Cow, ffi::OsStr, path::PathBuf};

use object_store::path::Path;

/// Prefix of names reserved by the store.
pub(super) const RESERVED: &str = ".stylobate-";

/// Folder of the parts of unfinished uploads.
pub(crate) const STAGING: &str = ".stylobate-uploads";

/// Name of the file that is a directory marker.
pub(super) const MARKER: &str = ".stylobate-marker";

const ESCAPED: &str = ".stylobate-name-";

/// Returns the path of a key in a folder; `None` for the empty key.
pub fn path_of_key(key: &str) -> Option<Path> {
    let (above, last) = key.rsplit_once('/').map_or((None, key), |(above, last)| (Some(above), last));
    if key.is_empty() {
        return None;
    }

    let last = if last.is_empty() { MARKER.into() } else { segment(last) };
    let above = above.into_iter().flat_map(|above| above.split('/')).map(segment);
    let path = above.chain([last]).collect::<Vec<_>>();
    Path::parse(path.join("/")).ok()
}

/// Returns the path of a directory whose keys begin with `prefix`, which is empty or ends in `/`.
pub(super) fn directory_of_prefix(prefix: &str) -> Option<Path> {
    let Some(names) = prefix.strip_suffix('/') else { return Some(Path::default()) };
    let segments: Vec<_> = names.split('/').map(segment).collect();
    Path::parse(segments.join("/")).ok()
}

/// Returns whether a path is that of a directory marker. Callers that list paths expect only files.
pub(super) fn is_marker(path: &Path) -> bool {
    path.filename() == Some(MARKER)
}

/// Returns the key of the object at a path in a folder.
pub fn key_of_path(path: &Path) -> String {
    let mut key = String::with_capacity(path.as_ref().len());
    let mut segments = path.as_ref().split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match unescaped(segment) {
            _ if is_last && segment == MARKER => {}
            Some(plain) => key.push_str(&plain),
            None => key.push_str(segment),
        }
        if !is_last {
            key.push('/');
        }
    }
    key
}

/// Encodes a segment of a key as a segment of a path.
fn segment(key: &str) -> Cow<'_, str> {
    let is_plain = !matches!(key, "" | "." | "..")
        && !key.starts_with(RESERVED)
        && !key.bytes().any(|byte| byte.is_ascii_control());
    if is_plain {
        return key.into();
    }

    let mut escaped = String::from(ESCAPED);
    for byte in key.bytes() {
        escaped.push_str(&format!("{byte:02x}"));
    }
    escaped.into()
}

/// Decodes an escaped segment of a path to that of a key; `None` if it is not escaped.
fn unescaped(path: &str) -> Option<String> {
    let digits = path.strip_prefix(ESCAPED)?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
            _ => None,
        })
        .collect();
    let key = String::from_utf8(bytes?).ok()?;
    (!key.contains('/') && segment(&key) == path).then_some(key)
}

/// Returns whether a file system can hold the segment of a key under its own name.
fn is_file_name(key: &str) -> bool {
    !matches!(key, "" | "." | "..") && !key.starts_with(RESERVED) && !key.contains('\0')
}

/// Returns the relative file path for an object path.
pub(crate) fn file_of_path(path: &Path) -> PathBuf {
    let name =
        |segment: &str| unescaped(segment).filter(|key| is_file_name(key)).unwrap_or(segment.to_owned());
    path.as_ref().split('/').map(name).collect()
}

/// The meaning of a file's or directory's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodedFileName {
    /// A segment of a key: in path form, then in key form.
    Segment(String, String),
    /// A name that the store reserves.
    Reserved,
    /// Not UTF-8, or not a name that the store would have chosen.
    Foreign,
}

impl DecodedFileName {
    /// Decodes a file's name.
    pub(super) fn of(name: &OsStr) -> Self {
        let Some(name) = name.to_str() else { return Self::Foreign };
        if name == MARKER {
            return Self::Segment(name.to_owned(), String::new());
        }
        if name.starts_with(ESCAPED) {
            return match unescaped(name).filter(|key| !is_file_name(key)) {
                Some(key) => Self::Segment(name.to_owned(), key),
                None => Self::Foreign,
            };
        }

        if name.starts_with(RESERVED) {
            Self::Reserved
        } else {
            Self::Segment(segment(name).into_owned(), name.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(key: &str) -> PathBuf {
        file_of_path(&path_of_key(key).unwrap())
    }

    #[test]
    fn a_usual_key_is_the_name_of_its_file() {
        for key in ["a", "a/b.parquet", "a b/c+d=%2F", "ключ/x", "a\\b", "...", "a\tb", ".hidden"] {
            assert_eq!(file(key), PathBuf::from(key), "{key:?}");
        }
    }

    #[test]
    fn what_no_file_system_takes_has_another_name() {
        assert_eq!(file("a//b"), PathBuf::from("a/.stylobate-name-/b"));
        assert_eq!(file("../x"), PathBuf::from(".stylobate-name-2e2e/x"));
        assert_eq!(file("a/./b"), PathBuf::from("a/.stylobate-name-2e/b"));
        assert_eq!(file("t/"), PathBuf::from("t/.stylobate-marker"));
        assert_eq!(file("a\0"), PathBuf::from(".stylobate-name-6100"));
        assert_eq!(file("/"), PathBuf::from(".stylobate-name-/.stylobate-marker"));
        assert_eq!(path_of_key(""), None);
    }

    #[test]
    fn the_names_of_the_store_itself_are_no_keys() {
        assert_eq!(DecodedFileName::of(OsStr::new(".stylobate-uploads")), DecodedFileName::Reserved);
        assert_eq!(DecodedFileName::of(OsStr::new(".stylobate-name-zz")), DecodedFileName::Foreign);
        assert_eq!(DecodedFileName::of(OsStr::new(".stylobate-name-61")), DecodedFileName::Foreign);
        // A newline and "/../x": no segment has a slash in it.
        let climbing = Path::parse("a/.stylobate-name-0a2f2e2e2f78").unwrap();
        assert_eq!(file_of_path(&climbing), PathBuf::from(climbing.as_ref()));
        assert_ne!(file(".stylobate-uploads/x"), PathBuf::from(".stylobate-uploads/x"));
    }

    proptest! {
        #[test]
        fn every_key_comes_back_from_its_file(key in "[a./\\\\%~\u{0}\n\u{7f}é-]{1,12}|\\.stylobate-(marker|name-61|uploads/x)") {
            let path = path_of_key(&key).unwrap();
            prop_assert_eq!(key_of_path(&path), key.clone());

            // Reading the folder yields the same segments.
            let mut segments = Vec::new();
            let mut keys = Vec::new();
            for name in &file_of_path(&path) {
                let DecodedFileName::Segment(segment, plain) = DecodedFileName::of(name) else { panic!("{name:?} of {key:?}") };
                segments.push(segment);
                keys.push(plain);
            }
            prop_assert_eq!(segments.join("/"), path.to_string());
            prop_assert_eq!(keys.join("/"), key);
        }
    }
}
