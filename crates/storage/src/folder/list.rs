//! Lists a folder in key order: a page reads only the directories that it walks through and the files that it
//! returns.
//!
//! A walk descends into the directories that hold matching keys, with a cursor over each directory's names. In key
//! order, a directory sorts as its name followed by `/`: `a-b` before `a/`.

use std::{
    collections::HashMap,
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt,
    path::{Path as FilePath, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};

use object_store::{ObjectMeta, path::Path};
use parking_lot::Mutex;
use rustix::fs::OFlags;

use super::{
    Folder, failed, is_absent,
    names::{DecodedFileName, MARKER, directory_of_prefix, file_of_path, is_marker, key_of_path},
    record::FileStamp,
};
use crate::{ListPage, ListRequest, ListedKey, threads::blocking::run_blocking};

/// Minimum number of names for a directory to be cached for the next page.
const MIN_CACHED_NAMES: usize = 512;

/// Maximum bytes of cached names.
const MAX_CACHED_BYTES: usize = 16 << 20;

/// Time for which a directory must have been unchanged before its timestamp identifies its state: file system
/// timestamps have a granularity of up to two seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// Prefixes of tokens that stand for a key, and for all keys with a prefix.
const AFTER_KEY: &str = "k";
const AFTER_PREFIX: &str = "p";

/// An object or a common prefix of a listing.
#[derive(Debug)]
pub(super) enum FolderListEntry {
    Object(ListedKey),
    Prefix(String),
}

/// One name in a directory.
#[derive(Debug)]
struct DirEntryName {
    /// Name as in a key; a directory's ends in `/`.
    key: String,
    /// Name as in a path. `None` if no path can hold it: the key is then lossy.
    segment: Option<String>,
}

impl DirEntryName {
    fn is_directory(&self) -> bool {
        self.key.ends_with('/')
    }

    /// Returns the bytes in memory.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.segment.as_ref().map_or(0, String::len)
    }
}

type DirEntryNames = Arc<[DirEntryName]>;

/// The names of large directories, cached so that each page of a listing need not read them again.
#[derive(Debug, Default)]
pub(super) struct DirNamesCache(Mutex<HashMap<PathBuf, CachedDirNames>>);

#[derive(Debug)]
struct CachedDirNames {
    stamp: FileStamp,
    names: DirEntryNames,
    bytes: usize,
    used: SystemTime,
}

impl DirNamesCache {
    fn get(&self, directory: &FilePath, stamp: &FileStamp) -> Option<DirEntryNames> {
        let mut all = self.0.lock();
        let kept = all.get_mut(directory).filter(|kept| kept.stamp == *stamp)?;
        kept.used = SystemTime::now();
        Some(kept.names.clone())
    }

    fn put(&self, directory: &FilePath, stamp: FileStamp, names: &DirEntryNames) {
        let bytes = names.iter().map(DirEntryName::bytes).sum();
        if names.len() < MIN_CACHED_NAMES || bytes > MAX_CACHED_BYTES {
            return;
        }

        let mut all = self.0.lock();
        all.insert(
            directory.to_owned(),
            CachedDirNames { stamp, names: names.clone(), bytes, used: SystemTime::now() },
        );
        while all.values().map(|kept| kept.bytes).sum::<usize>() > MAX_CACHED_BYTES {
            let oldest = all.iter().min_by_key(|(_, kept)| kept.used).map(|(directory, _)| directory.clone());
            oldest.and_then(|directory| all.remove(&directory));
        }
    }
}

/// A directory that a walk has entered.
#[derive(Debug)]
struct WalkLevel {
    /// Prefix of its keys.
    key: String,
    path: Path,
    names: DirEntryNames,
    next: usize,
    /// Device and inode, which detect a link to a parent directory: following it would make the walk endless.
    identity: (u64, u64),
}

/// Position at which a walk starts.
#[derive(Clone, Debug)]
pub(super) enum WalkStart {
    /// After this key.
    Key(String),
    /// After all keys with this prefix.
    Prefix(String),
}

impl WalkStart {
    /// Returns the position after which a request continues.
    fn of(request: &ListRequest) -> Self {
        match (&request.token, &request.past_prefix, &request.start_after) {
            (Some(token), _, _) => match token.strip_prefix(AFTER_PREFIX) {
                Some(prefix) => Self::Prefix(prefix.to_owned()),
                None => Self::Key(token.strip_prefix(AFTER_KEY).unwrap_or(token).to_owned()),
            },
            (None, Some(prefix), _) => Self::Prefix(prefix.clone()),
            (None, None, Some(key)) => Self::Key(key.clone()),
            (None, None, None) => Self::Key(String::new()),
        }
    }

    fn to_token(&self) -> String {
        match self {
            Self::Key(key) => format!("{AFTER_KEY}{key}"),
            Self::Prefix(prefix) => format!("{AFTER_PREFIX}{prefix}"),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Key(text) | Self::Prefix(text) => text,
        }
    }

    /// Returns whether a key is skipped.
    fn passes(&self, key: &str) -> bool {
        match self {
            Self::Key(after) => key <= after.as_str(),
            Self::Prefix(after) => key <= after.as_str() || key.starts_with(after.as_str()),
        }
    }

    /// Returns whether all keys with `prefix` are skipped.
    fn passes_all(&self, prefix: &str) -> bool {
        match self {
            Self::Key(after) => prefix <= after.as_str() && !after.starts_with(prefix),
            Self::Prefix(after) => {
                prefix.starts_with(after.as_str()) || prefix <= after.as_str() && !after.starts_with(prefix)
            }
        }
    }
}

/// A walk over the keys of a folder with a prefix, in key order.
#[derive(Debug)]
pub(super) struct FolderWalk {
    folder: Folder,
    prefix: String,
    delimiter: String,
    /// Position up to which keys are skipped.
    after: WalkStart,
    levels: Vec<WalkLevel>,
    /// The keys passed over because no path can hold them, lossy; `None` if they are not collected.
    unnameable: Option<Vec<String>>,
    /// Maximum depth of the objects, and the keys of the directories at that depth, which are not entered.
    bound: Option<(usize, Vec<String>)>,
}

/// All objects below a directory.
#[derive(Clone, Debug, Default)]
pub struct FolderListing {
    /// The objects, in key order, except directory markers.
    pub objects: Vec<ObjectMeta>,
    /// Keys of the files and directories that no path can hold, such as names that are not UTF-8, with replacement
    /// characters. A directory's ends in `/`.
    pub unnameable: Vec<String>,
    /// Keys of the directories that were not entered, since what they hold lies deeper than the maximum; each ends in
    /// `/`.
    pub not_entered: Vec<String>,
}

impl FolderWalk {
    /// Begins a walk after `after`. Without a delimiter, it returns every key.
    pub(super) fn begin(
        folder: &Folder,
        prefix: &str,
        delimiter: &str,
        after: WalkStart,
    ) -> object_store::Result<Self> {
        let above = prefix.rfind('/').map_or("", |slash| prefix.get(..=slash).unwrap_or_default());
        let directory = directory_of_prefix(above).map(|path| (above.to_owned(), path));
        Self::at(folder, prefix.to_owned(), directory, (delimiter, after))
    }

    /// Begins a walk in a directory, which may be one that the store reserves.
    pub(super) fn begin_in(
        folder: &Folder,
        directory: Path,
        delimiter: &str,
        after: WalkStart,
    ) -> object_store::Result<Self> {
        let prefix =
            if directory.is_root() { String::new() } else { format!("{}/", key_of_path(&directory)) };
        Self::at(folder, prefix.clone(), Some((prefix, directory)), (delimiter, after))
    }

    fn at(
        folder: &Folder,
        prefix: String,
        directory: Option<(String, Path)>,
        (delimiter, after): (&str, WalkStart),
    ) -> object_store::Result<Self> {
        let mut walk = Self {
            folder: folder.clone(),
            prefix,
            delimiter: delimiter.to_owned(),
            after,
            levels: Vec::new(),
            unnameable: None,
            bound: None,
        };
        if let Some((key, path)) = directory {
            match walk.enter(key, path.clone()) {
                Ok(()) => {}
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(failed(&path, error)),
            }
        }
        Ok(walk)
    }

    /// Returns the next object or common prefix.
    pub(super) fn next(&mut self) -> object_store::Result<Option<FolderListEntry>> {
        while let Some(level) = self.levels.last_mut() {
            let Some(name) = level.names.get(level.next) else {
                self.levels.pop();
                continue;
            };

            level.next += 1;
            let key = format!("{}{}", level.key, name.key);
            let Some(segment) = &name.segment else {
                if let Some(keys) = &mut self.unnameable {
                    keys.push(key);
                }
                continue;
            };
            let path = child(&level.path, segment)?;
            let is_directory = name.is_directory();
            let is_wanted = key.starts_with(&self.prefix) || is_directory && self.prefix.starts_with(&key);
            if !is_wanted {
                // Keys with a common prefix are adjacent.
                if key > self.prefix {
                    self.levels.pop();
                }
                continue;
            }

            if let Some(prefix) = self.common_prefix(&key) {
                if self.shows(&prefix, is_directory)? {
                    return Ok(Some(FolderListEntry::Prefix(prefix)));
                }
            } else if is_directory {
                let depth = self.levels.len();
                match &mut self.bound {
                    Some((max_depth, not_entered)) if depth >= *max_depth => not_entered.push(key),
                    _ => self.descend(key, path)?,
                }
            } else if !self.after.passes(&key)
                && let Some(meta) = self.folder.look(&path)?
            {
                return Ok(Some(FolderListEntry::Object(ListedKey { key, meta })));
            }
        }

        Ok(None)
    }

    /// Returns the common prefix that a key is rolled up into.
    fn common_prefix(&self, key: &str) -> Option<String> {
        if self.delimiter.is_empty() {
            return None;
        }
        let below = key.strip_prefix(&self.prefix)?;
        let end = below.find(&self.delimiter)? + self.delimiter.len();
        key.get(..self.prefix.len() + end).map(str::to_owned)
    }

    /// Returns whether to return a common prefix: once, and only if one of its keys is not skipped.
    fn shows(&mut self, prefix: &str, is_directory: bool) -> object_store::Result<bool> {
        let is_whole_directory = is_directory && self.delimiter == "/";
        if self.after.passes_all(prefix) {
            return Ok(false);
        }

        // A directory is returned even if it is empty, as long as none of its keys is skipped.
        let mut is_shown = is_whole_directory;
        if self.after.text().starts_with(prefix) || !is_whole_directory {
            is_shown = Self::begin(&self.folder, prefix, "", self.after.clone())?.next()?.is_some();
        }
        if !is_whole_directory {
            // The prefix now covers all its keys, regardless of their directories.
            let after = WalkStart::Prefix(prefix.to_owned());
            *self = Self::begin(&self.folder, &self.prefix, &self.delimiter, after)?;
        }
        Ok(is_shown)
    }

    /// Enters a directory. An unreadable one is skipped.
    fn descend(&mut self, key: String, path: Path) -> object_store::Result<()> {
        if self.after.passes_all(&key) {
            return Ok(());
        }
        match self.enter(key, path.clone()) {
            Ok(()) => Ok(()),
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => self.folder.skip_unreadable(&path, error),
        }
    }

    fn enter(&mut self, key: String, path: Path) -> io::Result<()> {
        let (names, metadata) = self.folder.names(&path)?;
        let identity = (metadata.dev(), metadata.ino());
        if self.levels.iter().any(|level| level.identity == identity) {
            return Ok(());
        }

        let first = self.after.text().max(self.prefix.as_str());
        let is_before = |name: &DirEntryName| {
            let full = format!("{key}{}", name.key);
            full.as_str() < first && !(name.is_directory() && first.starts_with(&full))
        };
        let next = if first.starts_with(&key) { names.partition_point(is_before) } else { 0 };
        self.levels.push(WalkLevel { key, path, names, next, identity });
        Ok(())
    }
}

/// Appends a segment to a directory's path verbatim: `Path::join` would escape it.
fn child(directory: &Path, segment: &str) -> object_store::Result<Path> {
    if directory.is_root() {
        Ok(Path::parse(segment)?)
    } else {
        Ok(Path::parse(format!("{directory}/{segment}"))?)
    }
}

impl Folder {
    /// Returns one page of a listing.
    pub(crate) fn list_page(&self, request: &ListRequest) -> object_store::Result<ListPage> {
        let mut walk = FolderWalk::begin(self, &request.prefix, &request.delimiter, WalkStart::of(request))?;
        let mut page = ListPage::default();
        let mut last = WalkStart::Key(String::new());
        while let Some(found) = walk.next()? {
            if page.objects.len() + page.prefixes.len() == request.max_keys {
                page.next_token = Some(last.to_token());
                break;
            }
            match found {
                FolderListEntry::Object(listed) => {
                    last = WalkStart::Key(listed.key.clone());
                    page.objects.push(listed);
                }
                FolderListEntry::Prefix(prefix) => {
                    last = WalkStart::Prefix(prefix.clone());
                    page.prefixes.push(prefix);
                }
            }
        }

        Ok(page)
    }

    /// Lists all objects below a directory, and the names below it that no path can hold. With a maximum depth of 1,
    /// only objects in the directory itself.
    pub async fn list_all(
        &self,
        directory: Option<&Path>,
        max_depth: Option<usize>,
    ) -> object_store::Result<FolderListing> {
        let directory = directory.cloned().unwrap_or_default();
        let folder = self.clone();
        run_blocking(move || folder.list_all_blocking(directory, max_depth)).await?
    }

    fn list_all_blocking(
        &self,
        directory: Path,
        max_depth: Option<usize>,
    ) -> object_store::Result<FolderListing> {
        let mut walk = FolderWalk::begin_in(self, directory, "", WalkStart::Key(String::new()))?;
        walk.unnameable = Some(Vec::new());
        walk.bound = max_depth.map(|depth| (depth, Vec::new()));

        let mut objects = Vec::new();
        while let Some(found) = walk.next()? {
            match found {
                FolderListEntry::Object(ListedKey { meta, .. }) if !is_marker(&meta.location) => {
                    objects.push(meta);
                }
                FolderListEntry::Object(_) | FolderListEntry::Prefix(_) => {}
            }
        }
        let not_entered = walk.bound.map(|(_, not_entered)| not_entered).unwrap_or_default();
        Ok(FolderListing { objects, unnameable: walk.unnameable.unwrap_or_default(), not_entered })
    }

    /// Returns the metadata of an object without opening it; `None` if absent or unreadable.
    fn look(&self, path: &Path) -> object_store::Result<Option<ObjectMeta>> {
        match self.state(path) {
            Ok(found) => Ok(found.map(|(etag, stamp)| stamp.to_meta(path, etag))),
            Err(error) => self.skip_unreadable(path, error).map(|()| None),
        }
    }

    /// Warns of an entry that is left out of listings. A failure of the machine or the disk is an error: a listing
    /// without the entry would imply that the object does not exist.
    fn skip_unreadable(&self, path: &Path, error: io::Error) -> object_store::Result<()> {
        let of_entry =
            [libc::EACCES, libc::EPERM, libc::ELOOP, libc::EXDEV, libc::ENOTDIR, libc::ENAMETOOLONG];
        if error.raw_os_error().is_none_or(|code| of_entry.contains(&code)) {
            self.warn_unreadable(path, &error);
            return Ok(());
        }
        Err(failed(path, error))
    }

    /// Returns the names in a directory, in key order, and its metadata.
    fn names(&self, path: &Path) -> io::Result<(DirEntryNames, Metadata)> {
        let asked = SystemTime::now();
        let relative = if path.is_root() { PathBuf::new() } else { file_of_path(path) };
        let opened = self.inner.root.open_directory(&relative)?;
        let metadata = std::fs::File::from(opened).metadata()?;
        let stamp = FileStamp::of(&metadata);
        if let Some(names) = self.inner.kept_names.get(&relative, &stamp) {
            return Ok((names, metadata));
        }

        let mut names = Vec::new();
        let mut has_links = false;
        for entry in std::fs::read_dir(self.inner.root.path().join(&relative))? {
            let entry = entry?;
            let (segment, key) = match DecodedFileName::of(&entry.file_name()) {
                DecodedFileName::Segment(segment, key) => (Some(segment), key),
                DecodedFileName::Reserved => continue,
                DecodedFileName::Foreign => {
                    self.warn_foreign(&entry.path());
                    (None, entry.file_name().to_string_lossy().into_owned())
                }
            };

            let mut kind = entry.file_type()?;
            if kind.is_symlink() {
                has_links = true;
                let target = self.inner.root.open_at(&relative.join(entry.file_name()), OFlags::PATH);
                let Ok(target) = target.and_then(|target| std::fs::File::from(target).metadata()) else {
                    continue;
                };
                kind = target.file_type();
            }

            match kind {
                kind if kind.is_dir() && segment.as_deref() != Some(MARKER) => {
                    names.push(DirEntryName { key: format!("{key}/"), segment });
                }
                kind if kind.is_file() => names.push(DirEntryName { key, segment }),
                _ => {}
            }
        }

        names.sort_unstable_by(|a, b| a.key.cmp(&b.key));

        let names: DirEntryNames = names.into();
        // The target of a link may change without changing the directory.
        let changed = stamp.last_changed();
        if !has_links && asked.duration_since(changed).is_ok_and(|unchanged| unchanged > SETTLED_AFTER) {
            self.inner.kept_names.put(&relative, stamp, &names);
        }
        Ok((names, metadata))
    }

    fn warn_foreign(&self, file: &FilePath) {
        if !self.inner.warned.foreign.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                file = %file.display(),
                "files are passed over whose names are not UTF-8 or are reserved; no more warnings about such names"
            );
        }
    }

    fn warn_unreadable(&self, path: &Path, error: &io::Error) {
        if !self.inner.warned.unreadable.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                folder = %self.inner.root.path().display(), %path, %error,
                "what cannot be read is left out of listings; no more warnings about this folder"
            );
        }
    }
}
