//! A folder of the file system as an object store with the features of a bucket: any key, headers, tags, ETags.
//!
//! ```text
//! names ─▶ beneath ─▶ record          the file of a key, opened beneath the folder, and its record
//!            ├─▶ list                pages of keys in order
//!            └─▶ write               atomic writes, copies, renames, deletions
//! ```
//!
//! A directory exists only while it is not empty: it is created with its first file and removed with its last.

mod beneath;
mod list;
mod names;
mod record;
mod store;
#[cfg(test)]
mod tests;
mod write;

use std::{
    fs::File,
    hash::{BuildHasher, RandomState},
    io,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use object_store::{ObjectMeta, path::Path};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::OFlags;

pub(crate) use self::{
    beneath::FolderOptions,
    names::{STAGING, file_of_path},
    record::BESIDE,
};
use self::{
    beneath::FolderRoot,
    list::DirNamesCache,
    record::{FileRecord, FileStamp},
    write::etag_of,
};
pub use self::{
    list::FolderListing,
    names::{key_of_path, path_of_key},
    record::KeptHeaders,
    store::UploadMode,
    write::CopyChange,
};

/// Number of lock stripes: writes to different paths contend only if their hashes collide.
const STRIPES: usize = 64;

/// A folder as an object store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Folder {
    inner: Arc<FolderInner>,
}

#[derive(Debug)]
struct FolderInner {
    root: FolderRoot,
    kept_names: DirNamesCache,
    lacks_nameless_files: AtomicBool,
    warned: FolderWarnings,
}

/// State of the writers to the paths of a lock stripe.
#[derive(Debug)]
struct PathStripe {
    /// Number of removed or renamed files whose old directory was not synced yet, or could not be.
    unsynced_removals: usize,
}

/// Warnings that have already been logged.
#[derive(Debug, Default)]
struct FolderWarnings {
    foreign: AtomicBool,
    unreadable: AtomicBool,
}

/// An open file and its metadata.
struct FolderFile {
    file: File,
    stamp: FileStamp,
    record: Option<FileRecord>,
    meta: ObjectMeta,
}

impl Folder {
    /// Opens a folder.
    pub(crate) fn open_root(path: &std::path::Path, options: FolderOptions) -> io::Result<Self> {
        let inner = FolderInner {
            root: FolderRoot::open(path, options)?,
            kept_names: DirNamesCache::default(),
            lacks_nameless_files: AtomicBool::new(false),
            warned: FolderWarnings::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the folder's own path.
    pub(crate) fn root(&self) -> &std::path::Path {
        self.inner.root.path()
    }

    /// Returns the options for reading and writing the folder.
    pub(crate) fn options(&self) -> FolderOptions {
        self.inner.root.options()
    }

    /// Opens the file of the object at a path.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        self.inner.root.open_file(&file_of_path(path))
    }

    fn open(&self, path: &Path) -> object_store::Result<FolderFile> {
        let file = self.open_file(path).map_err(|error| failed(path, error))?;
        let metadata = file.metadata().map_err(|error| failed(path, error))?;
        let stamp = FileStamp::of(&metadata);
        let record =
            record::read(&self.inner.root, path, &file, &stamp).map_err(|error| failed(path, error))?;
        let meta = stamp.to_meta(path, etag_of(record.as_ref(), &stamp));
        Ok(FolderFile { file, stamp, record, meta })
    }

    /// Returns the ETag and the stamp of the object at a path; the file need not be readable. `None` if absent.
    fn state(&self, path: &Path) -> io::Result<Option<(String, FileStamp)>> {
        let file = file_of_path(path);
        let opened = match self.inner.root.open_at(&file, OFlags::PATH) {
            Err(error) if is_absent(&error) => return Ok(None),
            opened => File::from(opened?),
        };
        let metadata = opened.metadata()?;
        if !metadata.is_file() {
            return Ok(None);
        }

        let stamp = FileStamp::of(&metadata);
        let record = record::read_at(&self.inner.root, path, &self.root().join(file), &stamp)?;
        Ok(Some((etag_of(record.as_ref(), &stamp), stamp)))
    }

    /// Returns true if there is a directory at a path. One without files holds no object, and is not listed.
    pub fn has_directory(&self, path: &Path) -> bool {
        self.inner.root.open_at(&file_of_path(path), OFlags::PATH | OFlags::DIRECTORY).is_ok()
    }

    /// Returns the tags of an object in S3's header encoding; empty if it has none.
    pub fn tags(&self, path: &Path) -> object_store::Result<String> {
        let record = self.open(path)?.record;
        Ok(record.and_then(|record| record.tags().map(str::to_owned)).unwrap_or_default())
    }

    /// Replaces the tags of an object. This changes the version that its bytes are cached under.
    pub fn set_tags(&self, path: &Path, tags: Option<&str>) -> object_store::Result<()> {
        let root = &self.inner.root;
        let file = {
            let _alone = self.alone(path);
            let FolderFile { file, stamp, record, .. } = self.open(path)?;
            let mut record = record.unwrap_or_else(|| FileRecord::new(&stamp, &http::HeaderMap::new()));
            record.set_tags(tags);
            record::write(root, path, &file, &record).map_err(|error| failed(path, error))?;
            file
        };
        root.sync_file(&file).map_err(|error| failed(path, error))
    }

    /// Removes an object if `condition` accepts its quoted ETag.
    pub fn remove_if(&self, path: &Path, condition: impl FnOnce(&str) -> bool) -> object_store::Result<()> {
        self.remove(path, condition)
    }

    /// Locks a path: until the guard is dropped, no other writer links or removes a file at it.
    ///
    /// All folders of the process share the locks, since one may be below another or be opened twice.
    fn alone(&self, path: &Path) -> MutexGuard<'static, PathStripe> {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        static LOCKS: [Mutex<PathStripe>; STRIPES] =
            [const { Mutex::new(PathStripe { unsynced_removals: 0 }) }; STRIPES];
        let file = self.root().join(file_of_path(path));
        let stripe = HASHER.hash_one(file) as usize % STRIPES;
        LOCKS.get(stripe).unwrap_or(&LOCKS[0]).lock()
    }

    fn has_nameless_files(&self) -> bool {
        !self.inner.lacks_nameless_files.load(Ordering::Relaxed)
    }

    fn note_no_nameless_files(&self) {
        self.inner.lacks_nameless_files.store(true, Ordering::Relaxed);
    }
}

impl FileStamp {
    fn to_meta(&self, path: &Path, etag: String) -> ObjectMeta {
        ObjectMeta {
            location: path.clone(),
            last_modified: self.last_modified(),
            size: self.size,
            e_tag: Some(etag),
            version: Some(self.to_text()),
        }
    }
}

/// Returns whether an error means that the file is absent.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

/// Converts the system's error about an object.
fn failed(path: &Path, error: io::Error) -> object_store::Error {
    let path = path.to_string();
    match error.kind() {
        io::ErrorKind::NotFound => object_store::Error::NotFound { path, source: error.into() },
        io::ErrorKind::PermissionDenied => {
            object_store::Error::PermissionDenied { path, source: error.into() }
        }
        _ => object_store::Error::Generic { store: "folder", source: error.into() },
    }
}
