//! Writes to a folder: a file is filled while it has no name, and linked once it is complete and has its record.
//!
//! ```text
//! a/b/c.parquet   O_TMPFILE in the nearest existing directory ── written ── record ── a/b/ created ── linked, or
//!                 renamed over the file that it replaces
//! ```
//!
//! A write that ends early leaves nothing, even if the process is killed. On a file system without unnamed files, the
//! file is called `.stylobate-part-…`, which no listing shows.
//!
//! A change that has succeeded survives a power loss, unless the folder's durability is `none`: a file is synced before
//! it gets its name, and the directory afterwards. File systems are expected to commit a directory no later than what
//! was synced in it.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path as FilePath, PathBuf},
};

use http::{HeaderMap, HeaderName, HeaderValue, header::ETAG};
use object_store::{PutMode, PutPayload, PutResult, path::Path};
use rustix::{
    fs::{AtFlags, Mode, OFlags, RenameFlags},
    io::Errno,
};

use super::{
    Folder,
    beneath::directory_attempts,
    failed, is_absent,
    names::{STAGING, file_of_path},
    record::{self, FileRecord, FileStamp, KeptHeaders, STORAGE_CLASS, TAGGING},
};

/// The mode of a new file, before the umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);

/// A file that has no name yet.
#[derive(Debug)]
pub(super) struct UnnamedFile {
    pub(super) file: File,
    /// The directory and the temporary name, on file systems without unnamed files.
    staged: Option<(OwnedFd, String)>,
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        if let Some((directory, name)) = &self.staged {
            let _ = rustix::fs::unlinkat(directory, name.as_str(), AtFlags::empty());
        }
    }
}

impl UnnamedFile {
    /// Creates a file that can later be linked as `target`.
    fn create(folder: &Folder, target: &FilePath) -> io::Result<Self> {
        for _ in directory_attempts() {
            match Self::create_near(folder, target) {
                // Another writer removed the empty directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                created => return created,
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Creates a file in the nearest existing directory above `target`.
    fn create_near(folder: &Folder, target: &FilePath) -> io::Result<Self> {
        let mut above = target.parent().unwrap_or(FilePath::new(""));
        let directory = loop {
            match (folder.inner.root.open_directory(above), above.parent()) {
                (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => above = parent,
                (opened, _) => break opened?,
            }
        };

        #[cfg(target_os = "linux")]
        if folder.has_nameless_files() {
            let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
            match rustix::fs::openat(&directory, ".", flags, FILE_MODE) {
                Ok(file) => return Ok(Self { file: file.into(), staged: None }),
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                    folder.note_no_nameless_files();
                }
                // ext4 returns EPERM for a directory that was removed in the meantime.
                Err(Errno::PERM) if rustix::fs::fstat(&directory).is_ok_and(|found| found.st_nlink == 0) => {
                    return Err(io::ErrorKind::NotFound.into());
                }
                Err(error) => return Err(error.into()),
            }
        }

        let name = part_name();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, name.as_str(), flags, FILE_MODE)?;
        Ok(Self { file: file.into(), staged: Some((directory, name)) })
    }

    /// Links the file into the directory. Returns [`Errno::EXIST`] if the name is taken.
    fn link(&self, directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        match &self.staged {
            None => {
                let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(rustix::fs::CWD, path, directory, name, AtFlags::SYMLINK_FOLLOW)
            }
            Some((from, staged)) => rename_new(from, OsStr::new(staged), directory, name),
        }
    }

    /// Links the file under the name, replacing an existing file.
    fn replace(&self, directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        if let Some((from, staged)) = &self.staged {
            return rustix::fs::renameat(from, staged.as_str(), directory, name);
        }

        match self.link(directory, name) {
            Err(Errno::EXIST) => {}
            linked => return linked,
        }
        let staged = part_name();
        self.link(directory, OsStr::new(&staged))?;
        let renamed = rustix::fs::renameat(directory, staged.as_str(), directory, name);
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(directory, staged.as_str(), AtFlags::empty());
        }
        renamed
    }
}

fn part_name() -> String {
    format!(".stylobate-part-{:032x}", rand::random::<u128>())
}

/// Renames a file unless the new name exists.
fn rename_new(from: &OwnedFd, old: &OsStr, to: &OwnedFd, new: &OsStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // The file system lacks this flag: link the new name first, then remove the old one.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(from, old, to, new, AtFlags::empty())?;
            rustix::fs::unlinkat(from, old, AtFlags::empty())
        }
        renamed => renamed,
    }
}

/// A write of an object in progress.
#[derive(Debug)]
pub(super) struct FolderWrite {
    folder: Folder,
    path: Path,
    target: PathBuf,
    new: UnnamedFile,
}

impl FolderWrite {
    /// Begins to write the object at a path.
    pub(super) fn begin(folder: &Folder, path: &Path) -> object_store::Result<Self> {
        let target = file_of_path(path);
        let new = UnnamedFile::create(folder, &target).map_err(|error| failed(path, error))?;
        Ok(Self { folder: folder.clone(), path: path.clone(), target, new })
    }

    pub(super) fn file(&self) -> &File {
        &self.new.file
    }

    /// Gives the object its name, if the mode allows it, and stores `headers` with it.
    pub(super) fn publish(self, mode: &PutMode, headers: &HeaderMap) -> object_store::Result<PutResult> {
        let folder = &self.folder;
        let path = &self.path;
        let io = |error: io::Error| failed(path, error);
        let stamp = FileStamp::of(&self.new.file.metadata().map_err(io)?);
        let root = &folder.inner.root;
        let record = (!headers.is_empty()).then(|| FileRecord::new(&stamp, headers));
        let written = match &record {
            Some(record) => record::write(root, path, &self.new.file, record),
            None => Ok(()),
        };
        let synced = written.and_then(|()| root.sync_file(&self.new.file)).map_err(io);
        let placed = synced.and_then(|()| self.place(mode));
        if placed.is_err() {
            record::remove_beside(root, path, stamp.inode);
            folder.remove_empty(self.target.parent().unwrap_or(FilePath::new("")));
        }

        let directory = placed?;
        if self.new.staged.is_none() {
            // Btrfs does not log a file without a name.
            root.sync_file(&self.new.file).map_err(io)?;
        }
        root.sync_directory(&directory).map_err(io)?;
        let stamp = FileStamp::of(&self.new.file.metadata().map_err(io)?);
        Ok(PutResult { e_tag: Some(etag_of(record.as_ref(), &stamp)), version: Some(stamp.to_text()) })
    }

    /// Links the file under its name and returns the directory.
    fn place(&self, mode: &PutMode) -> object_store::Result<OwnedFd> {
        let folder = &self.folder;
        let path = &self.path;
        let (Some(above), Some(name)) = (self.target.parent(), self.target.file_name()) else {
            return Err(failed(path, io::ErrorKind::InvalidFilename.into()));
        };

        // Create directories before taking the lock: syncing new ones takes a while.
        folder.inner.root.make_directory(above).map_err(|error| failed(path, error))?;
        let _alone = folder.alone(path);
        let before = folder.state(path).map_err(|error| failed(path, error))?;
        check_mode(path, mode, before.as_ref())?;
        for _ in directory_attempts() {
            let directory = folder.inner.root.make_directory(above).map_err(|error| failed(path, error))?;
            let placed = match mode {
                PutMode::Create => self.new.link(&directory, name),
                PutMode::Overwrite | PutMode::Update(_) => self.new.replace(&directory, name),
            };
            match placed {
                Ok(()) => {
                    if let Some((_, stamp)) = before {
                        record::remove_beside(&folder.inner.root, path, stamp.inode);
                    }
                    return Ok(directory);
                }
                // Another writer removed the empty directory.
                Err(Errno::NOENT) => {}
                Err(Errno::EXIST) => return Err(exists(path)),
                Err(error) => return Err(failed(path, error.into())),
            }
        }

        Err(failed(path, io::ErrorKind::NotFound.into()))
    }
}

/// Returns the ETag of a file: the recorded one, or one derived from its stamp.
pub(super) fn etag_of(record: Option<&FileRecord>, stamp: &FileStamp) -> String {
    match record.and_then(FileRecord::etag) {
        Some(etag) => etag.to_owned(),
        None => format!("\"{}\"", stamp.to_text()),
    }
}

/// Checks that the existing object satisfies the mode.
fn check_mode(path: &Path, mode: &PutMode, before: Option<&(String, FileStamp)>) -> object_store::Result<()> {
    match (mode, before) {
        (PutMode::Overwrite, _) | (PutMode::Create, None) => Ok(()),
        (PutMode::Create, Some(_)) => Err(exists(path)),
        (PutMode::Update(expected), Some((etag, stamp)))
            if expected.e_tag.as_ref().is_none_or(|expected| expected == etag)
                && expected.version.as_ref().is_none_or(|expected| *expected == stamp.to_text()) =>
        {
            Ok(())
        }
        (PutMode::Update(_), _) => Err(precondition(path)),
    }
}

pub(super) fn precondition(path: &Path) -> object_store::Error {
    let source = "the object is not of the version that was asked for".into();
    object_store::Error::Precondition { path: path.to_string(), source }
}

fn exists(path: &Path) -> object_store::Error {
    object_store::Error::AlreadyExists {
        path: path.to_string(),
        source: "the object is there already".into(),
    }
}

/// Writes a payload at an offset.
pub(super) fn write_at(file: &File, payload: &PutPayload, mut offset: u64) -> io::Result<()> {
    for bytes in payload {
        file.write_all_at(bytes, offset)?;
        offset += bytes.len() as u64;
    }
    Ok(())
}

/// Conditions and changes of a copy within a folder, in the extensions of the copy.
#[derive(Clone, Debug, Default)]
pub struct CopyChange {
    /// The ETag that the source must have.
    pub e_tag: Option<String>,
    /// Headers that replace those describing the source; its ETag and checksums are kept.
    pub headers: Option<KeptHeaders>,
    /// A storage class that replaces the source's.
    pub class: Option<String>,
    /// Tags that replace the source's, in S3's header encoding.
    pub tags: Option<String>,
}

impl CopyChange {
    fn apply(&self, source: HeaderMap) -> HeaderMap {
        let mut headers = source;
        if let Some(replaced) = &self.headers {
            let is_of_bytes =
                |name: &HeaderName| *name == ETAG || name.as_str().starts_with("x-amz-checksum-");
            let kept = headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
            headers = kept.filter(|(name, _)| is_of_bytes(name) || *name == TAGGING).collect();
            headers.extend(replaced.to_map());
        }

        if let Some(class) = self.class.as_deref().and_then(|class| HeaderValue::from_str(class).ok()) {
            headers.insert(STORAGE_CLASS, class);
        }
        if let Some(tags) = &self.tags {
            headers.remove(TAGGING);
            let tags = HeaderValue::from_str(tags).ok().filter(|tags| !tags.is_empty());
            headers.extend(tags.map(|tags| (TAGGING, tags)));
        }
        headers
    }
}

impl Folder {
    /// Copies the bytes and the record of an object, within the file system itself if it can.
    pub(super) fn copy_file(
        &self,
        from: &Path,
        to: &Path,
        mode: &PutMode,
        change: &CopyChange,
    ) -> object_store::Result<()> {
        let source = self.open(from)?;
        if change.e_tag.is_some() && change.e_tag != source.meta.e_tag {
            return Err(precondition(from));
        }

        let write = FolderWrite::begin(self, to)?;
        let mut reader = &source.file;
        let mut writer = write.file();
        let copied = io::copy(&mut reader, &mut writer).map_err(|error| failed(to, error))?;
        let now = source.file.metadata().map_err(|error| failed(from, error))?;
        if copied != source.stamp.size || FileStamp::of(&now) != source.stamp {
            return Err(failed(from, io::Error::other("the object was changed while it was copied")));
        }

        let kept = source.record.unwrap_or_default();
        write.publish(mode, &change.apply(kept.headers())).map(drop)
    }

    /// Renames an object.
    pub(super) fn rename_file(&self, from: &Path, to: &Path, replaces: bool) -> object_store::Result<()> {
        let source = self.open(from)?;
        let root = &self.inner.root;
        root.sync_file(&source.file).map_err(|error| failed(from, error))?;

        // Counted before the old name is gone: a deletion that finds it gone is acknowledged only when that is synced.
        self.alone(from).unsynced_removals += 1;
        let renamed = self.rename_unsynced(from, to, source.stamp.inode, replaces);
        if renamed.is_err() {
            self.alone(from).unsynced_removals -= 1;
        }
        let (old_directory, new_directory) = renamed?;

        // An attribute moves with its file; a record file does not.
        if let Some(record) = &source.record
            && record::remove_beside(root, from, source.stamp.inode)
        {
            let written = record::write(root, to, &source.file, record);
            written.and_then(|()| root.sync_file(&source.file)).map_err(|error| failed(to, error))?;
        }

        let above = file_of_path(from);
        let changed = above.parent().and_then(|above| self.remove_empty(above)).unwrap_or(old_directory);
        root.sync_directory(&new_directory).map_err(|error| failed(to, error))?;
        root.sync_directory(&changed).map_err(|error| failed(from, error))?;
        self.alone(from).unsynced_removals -= 1;
        Ok(())
    }

    /// Renames the file `inode` without syncing anything. Returns the directories of the old and the new name.
    fn rename_unsynced(
        &self,
        from: &Path,
        to: &Path,
        inode: u64,
        replaces: bool,
    ) -> object_store::Result<(OwnedFd, OwnedFd)> {
        let old = file_of_path(from);
        let new = file_of_path(to);
        let names = (old.parent(), old.file_name(), new.parent(), new.file_name());
        let (Some(old_above), Some(old_name), Some(new_above), Some(new_name)) = names else {
            return Err(failed(from, io::ErrorKind::InvalidFilename.into()));
        };

        let root = &self.inner.root;
        let _alone = self.alone(to);
        let replaced = self.state(to).map_err(|error| failed(to, error))?;
        let mut renamed = Err(io::ErrorKind::NotFound.into());
        for _ in directory_attempts() {
            let old_directory = root.open_directory(old_above).map_err(|error| failed(from, error))?;
            renamed = root.make_directory(new_above).and_then(|new_directory| {
                if replaces {
                    rustix::fs::renameat(&old_directory, old_name, &new_directory, new_name)?;
                } else {
                    rename_new(&old_directory, old_name, &new_directory, new_name)?;
                }
                Ok((old_directory, new_directory))
            });
            match &renamed {
                // Another writer removed the empty new directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => break,
            }
        }

        let directories = renamed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(to),
            _ => failed(to, error),
        })?;
        if let Some((_, stamp)) = replaced.filter(|(_, stamp)| stamp.inode != inode) {
            record::remove_beside(root, to, stamp.inode);
        }
        Ok(directories)
    }

    /// Removes an object if the condition accepts its ETag, and then the directories that this leaves empty.
    ///
    /// If the object is absent because another call has just removed it, the error is returned once the removal
    /// survives a power loss: to a client that repeats a deletion, an absent object is a success.
    pub(super) fn remove(
        &self,
        path: &Path,
        condition: impl FnOnce(&str) -> bool,
    ) -> object_store::Result<()> {
        let target = file_of_path(path);
        let (Some(above), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(failed(path, io::ErrorKind::NotFound.into()));
        };

        // Parts of uploads that a power loss brings back are removed again once they are old.
        let is_synced = !path.prefix_matches(&Path::from(STAGING));
        let directory = {
            let mut stripe = self.alone(path);
            let before = self.state(path).map_err(|error| failed(path, error))?;
            let Some((etag, stamp)) = before else {
                let may_come_back = is_synced && stripe.unsynced_removals > 0;
                drop(stripe);
                if may_come_back {
                    self.sync_ancestors(above).map_err(|error| failed(path, error))?;
                }
                return Err(failed(path, io::ErrorKind::NotFound.into()));
            };
            if !condition(&etag) {
                return Err(precondition(path));
            }

            let directory = self.inner.root.open_directory(above).map_err(|error| failed(path, error))?;
            rustix::fs::unlinkat(directory.as_fd(), name, AtFlags::empty())
                .map_err(|error| failed(path, error.into()))?;
            stripe.unsynced_removals += usize::from(is_synced);
            record::remove_beside(&self.inner.root, path, stamp.inode);
            directory
        };

        let changed = self.remove_empty(above).unwrap_or(directory);
        if is_synced {
            self.inner.root.sync_directory(&changed).map_err(|error| failed(path, error))?;
            self.alone(path).unsynced_removals -= 1;
        }
        Ok(())
    }

    /// Syncs a directory and its ancestors, as far as they exist: the removal of a name in the directory, or of the
    /// directory itself, then survives a power loss, whichever other writers carry out meanwhile.
    fn sync_ancestors(&self, directory: &FilePath) -> io::Result<()> {
        let root = &self.inner.root;
        for directory in directory.ancestors() {
            match root.open_directory(directory) {
                Err(error) if is_absent(&error) => {}
                opened => root.sync_directory(&opened?)?,
            }
        }
        Ok(())
    }

    /// Removes a directory and those of its ancestors that are empty. Returns the nearest that is left, if any of them
    /// is gone.
    fn remove_empty(&self, directory: &FilePath) -> Option<OwnedFd> {
        let mut left = None;
        for directory in directory.ancestors() {
            let (Some(above), Some(name)) = (directory.parent(), directory.file_name()) else { break };
            let above = match self.inner.root.open_directory(above) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) => break,
                Ok(above) => above,
            };
            match rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR) {
                // Another writer may have removed it.
                Ok(()) | Err(Errno::NOENT) => left = Some(above),
                Err(_) => break,
            }
        }
        left
    }
}
