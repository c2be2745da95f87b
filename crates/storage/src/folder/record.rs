//! Records that a folder stores for objects besides their bytes: descriptive headers and tags.
//!
//! ```text
//! user.stylobate                                          an extended attribute of the file, in JSON
//! .stylobate-attributes/<hash of path>-<inode>            the same in a file, if the attribute has no room
//! ```
//!
//! A record is valid for one size and modification time: a file that another program has written since has no record.

use std::{
    fs::{File, Metadata},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Utc};
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue,
    header::{
        CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG,
        LAST_MODIFIED,
    },
};
use object_store::{Attribute, AttributeValue, Attributes, path::Path};
use parking_lot::Mutex;
use rustix::{fs::XattrFlags, io::Errno};
use serde::{Deserialize, Serialize};

use super::beneath::{FolderRoot, directory_attempts};

const ATTRIBUTE: &str = "user.stylobate";
pub(crate) const BESIDE: &str = ".stylobate-attributes";

const USER_METADATA: &str = "x-amz-meta-";
pub(super) const STORAGE_CLASS: HeaderName = HeaderName::from_static("x-amz-storage-class");
pub(super) const TAGGING: HeaderName = HeaderName::from_static("x-amz-tagging");
const TAGGING_COUNT: HeaderName = HeaderName::from_static("x-amz-tagging-count");

/// Initial buffer size for an attribute's value, in bytes.
const INITIAL_VALUE_CAPACITY: usize = 1024;

/// Headers that a folder stores with an object, passed in the extensions of a write. They may be added until the
/// write completes: an ETag or a checksum is known only after the last byte. Clones share the headers.
#[derive(Clone, Debug, Default)]
pub struct KeptHeaders(Arc<Mutex<HeaderMap>>);

impl KeptHeaders {
    /// Adds or replaces a header.
    pub fn set(&self, name: HeaderName, value: HeaderValue) {
        self.0.lock().insert(name, value);
    }

    /// Adds the headers of `others`, replacing those of the same name.
    pub(crate) fn extend(&self, others: &Self) {
        let others = others.to_map();
        self.0.lock().extend(others);
    }

    /// Returns write extensions that carry these headers.
    pub fn into_extensions(self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(self);
        extensions
    }

    pub(super) fn to_map(&self) -> HeaderMap {
        self.0.lock().clone()
    }

    pub(crate) fn to_record(&self) -> Vec<(String, String)> {
        to_text(&self.0.lock())
    }

    pub(crate) fn of_record(record: &[(String, String)]) -> Self {
        Self(Arc::new(Mutex::new(of_text(record))))
    }
}

/// Encodes headers as text, leaving out values that are not UTF-8.
fn to_text(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned);
    headers.iter().filter_map(|(name, value)| Some((name.to_string(), text(value)?))).collect()
}

fn of_text(headers: &[(String, String)]) -> HeaderMap {
    let header = |(name, value): &(String, String)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    };
    headers.iter().filter_map(header).collect()
}

/// The identity of a file's state: inode, modification and change times, size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    pub(super) inode: u64,
    pub(super) size: u64,
    modified: i128,
    changed: i128,
}

impl FileStamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            inode: metadata.ino(),
            size: metadata.len(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    pub(super) fn to_text(&self) -> String {
        let Self { inode, size, modified, changed } = self;
        format!("{inode:x}-{modified:x}-{changed:x}-{size:x}")
    }

    /// Returns the later of the modification and change times.
    pub(super) fn last_changed(&self) -> SystemTime {
        let nanoseconds = u64::try_from(self.modified.max(self.changed)).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
    }

    pub(super) fn last_modified(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_nanos(i64::try_from(self.modified).unwrap_or(i64::MAX))
    }
}

/// The record of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    size: u64,
    modified: String,
    headers: Vec<(String, String)>,
}

impl FileRecord {
    /// Creates the record of a file whose state is `stamp`.
    pub(super) fn new(stamp: &FileStamp, headers: &HeaderMap) -> Self {
        Self { size: stamp.size, modified: format!("{:x}", stamp.modified), headers: to_text(headers) }
    }

    fn is_of(&self, stamp: &FileStamp) -> bool {
        self.size == stamp.size && self.modified == format!("{:x}", stamp.modified)
    }

    /// Returns the headers as given, including tags.
    pub(super) fn headers(&self) -> HeaderMap {
        of_text(&self.headers)
    }

    fn get(&self, name: &HeaderName) -> Option<&str> {
        self.headers.iter().find_map(|(found, value)| (found == name.as_str()).then_some(value.as_str()))
    }

    /// Returns the tags in S3's header encoding.
    pub(super) fn tags(&self) -> Option<&str> {
        self.get(&TAGGING)
    }

    pub(super) fn set_tags(&mut self, tags: Option<&str>) {
        self.headers.retain(|(name, _)| name != TAGGING.as_str());
        let tags = tags.filter(|tags| !tags.is_empty());
        self.headers.extend(tags.map(|tags| (TAGGING.to_string(), tags.to_owned())));
    }

    /// Returns the quoted ETag, if one is recorded.
    pub(super) fn etag(&self) -> Option<&str> {
        self.get(&ETAG)
    }

    /// Returns the headers with which S3 would describe the object.
    pub(super) fn describe(&self, etag: &str, stamp: &FileStamp) -> HeaderMap {
        let mut headers = self.headers();
        if let Some(tags) = headers.remove(TAGGING) {
            let count = tags.as_bytes().split(|byte| *byte == b'&').count();
            headers.insert(TAGGING_COUNT, HeaderValue::from(count));
        }

        let changed = stamp.last_modified().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        for (name, value) in [(ETAG, etag), (LAST_MODIFIED, changed.as_str())] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        headers
    }

    /// Returns the headers as attributes of an object store.
    pub(super) fn attributes(&self) -> Attributes {
        let attribute = |(name, value): &(String, String)| {
            let name = attribute_of(name)?;
            Some((name, AttributeValue::from(value.clone())))
        };
        self.headers.iter().filter_map(attribute).collect()
    }
}

/// Attributes of an object store, and the headers that they map to.
static ATTRIBUTES: [(Attribute, HeaderName); 6] = [
    (Attribute::CacheControl, CACHE_CONTROL),
    (Attribute::ContentDisposition, CONTENT_DISPOSITION),
    (Attribute::ContentEncoding, CONTENT_ENCODING),
    (Attribute::ContentLanguage, CONTENT_LANGUAGE),
    (Attribute::ContentType, CONTENT_TYPE),
    (Attribute::StorageClass, STORAGE_CLASS),
];

fn attribute_of(header: &str) -> Option<Attribute> {
    if let Some(key) = header.strip_prefix(USER_METADATA) {
        return Some(Attribute::Metadata(key.to_owned().into()));
    }
    let named = ATTRIBUTES.iter().find(|(_, name)| name.as_str() == header);
    named.map(|(attribute, _)| attribute.clone())
}

/// Converts attributes to headers. The error describes the one that cannot be a header.
pub(super) fn headers_of(attributes: &Attributes) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (attribute, value) in attributes {
        let name = match attribute {
            Attribute::Metadata(key) => HeaderName::try_from(format!("{USER_METADATA}{key}")).ok(),
            attribute => {
                ATTRIBUTES.iter().find(|(known, _)| known == attribute).map(|(_, name)| name.clone())
            }
        };
        let value = HeaderValue::from_bytes(value.as_bytes()).ok();
        let (Some(name), Some(value)) = (name, value) else {
            return Err(format!("{attribute:?} cannot be kept as a header"));
        };
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns the path of the record file for a file at `path` whose attributes have no room for it.
fn beside(root: &FolderRoot, path: &Path, inode: u64) -> PathBuf {
    let hash = blake3::hash(path.as_ref().as_bytes()).to_hex();
    let (above, name) = hash.split_at(2);
    root.path().join(BESIDE).join(above).join(format!("{name}-{inode:x}"))
}

/// Reads the record of an open file; `None` if it has none or has changed since.
pub(super) fn read(
    root: &FolderRoot,
    path: &Path,
    file: &File,
    stamp: &FileStamp,
) -> io::Result<Option<FileRecord>> {
    read_by(root, path, stamp, |value| rustix::fs::fgetxattr(file, ATTRIBUTE, value))
}

/// Reads the record of a file by name; also returns `None` if the file is unreadable.
pub(super) fn read_at(
    root: &FolderRoot,
    path: &Path,
    file: &std::path::Path,
    stamp: &FileStamp,
) -> io::Result<Option<FileRecord>> {
    read_by(root, path, stamp, |value| rustix::fs::getxattr(file, ATTRIBUTE, value))
}

fn read_by(
    root: &FolderRoot,
    path: &Path,
    stamp: &FileStamp,
    get: impl Fn(&mut [u8]) -> Result<usize, Errno>,
) -> io::Result<Option<FileRecord>> {
    let mut value = vec![0; INITIAL_VALUE_CAPACITY];
    let mut length = get(&mut value);
    if length == Err(Errno::RANGE) {
        value.resize(usize::from(u16::MAX) + 1, 0);
        length = get(&mut value);
    }

    let json = match length {
        Ok(length) => {
            value.truncate(length);
            value
        }
        // If the attribute is absent, the record may be in a file.
        Err(Errno::NODATA | Errno::NOTSUP) => match std::fs::read(beside(root, path, stamp.inode)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        },
        Err(Errno::NOENT | Errno::ACCESS) => return Ok(None),
        Err(error) => return Err(error.into()),
    };

    let record: Option<FileRecord> = serde_json::from_slice(&json).ok();
    Ok(record.filter(|record| record.is_of(stamp)))
}

/// Stores the record of an open file that is, or will be, at `path`.
pub(super) fn write(root: &FolderRoot, path: &Path, file: &File, record: &FileRecord) -> io::Result<()> {
    let json = serde_json::to_vec(record)?;
    match rustix::fs::fsetxattr(file, ATTRIBUTE, &json, XattrFlags::empty()) {
        Ok(()) => return Ok(()),
        Err(Errno::NOTSUP | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::DQUOT | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }

    let record_file = beside(root, path, file.metadata()?.ino());
    let staged = record_file.with_extension(format!("{:016x}", rand::random::<u64>()));
    let mut written = Ok(());
    for _ in directory_attempts() {
        written = write_beside(root, &record_file, &staged, &json);
        match &written {
            // Another writer removed the empty folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => break,
        }
    }

    if written.is_err() {
        let _ = std::fs::remove_file(&staged);
        return written;
    }

    // A remaining attribute would take precedence over the record file.
    match rustix::fs::fremovexattr(file, ATTRIBUTE) {
        Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn write_beside(
    root: &FolderRoot,
    record_file: &std::path::Path,
    staged: &std::path::Path,
    json: &[u8],
) -> io::Result<()> {
    if let Some(above) = record_file.parent() {
        std::fs::create_dir_all(above)?;
    }
    let mut file = File::create(staged)?;
    file.write_all(json)?;
    root.sync_file(&file)?;
    std::fs::rename(staged, record_file)?;

    if !root.is_durable() {
        return Ok(());
    }
    let inside = record_file.strip_prefix(root.path()).unwrap_or(record_file);
    for above in inside.ancestors().skip(1) {
        root.sync_directory(&root.open_directory(above)?)?;
    }
    Ok(())
}

/// Removes the record file for this path and inode. Returns whether it existed.
pub(super) fn remove_beside(root: &FolderRoot, path: &Path, inode: u64) -> bool {
    let record_file = beside(root, path, inode);
    let is_removed = std::fs::remove_file(&record_file).is_ok();
    if is_removed {
        for above in record_file.ancestors().skip(1).take(2) {
            let _ = std::fs::remove_dir(above);
        }
    }
    is_removed
}
