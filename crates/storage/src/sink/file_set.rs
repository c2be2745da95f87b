//! A set of files or objects below one location that appear together, once all of them are complete.

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::Path as LocalPath,
    sync::Arc,
};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;

use super::{
    Destination, Overwrite, Sealed, Sink, Sinks,
    file::{StagingLocation, blocking},
    folder::StagedFolder,
    sync::sync_existing,
};
use crate::{Durability, Error, Result};

/// A predicate on the name of a file.
pub(crate) type FileNameFilter = fn(&str) -> bool;

/// Files written below a folder or prefix. None is visible before [`FileSet::publish`]; if the set is dropped
/// instead, all are removed.
///
/// Files are renamed one by one. If the process is killed meanwhile, some of the files exist, each of them complete.
#[derive(Debug)]
pub struct FileSet {
    sinks: Sinks,
    base: Destination,
    overwrite: Overwrite,
    /// Set if other files may already exist.
    is_beside: bool,
    /// Staging folder of local files, until they are published.
    folder: Option<Arc<StagedFolder>>,
    sealed: Vec<(String, Sealed)>,
    /// Files that reference the others.
    last: Vec<(String, Sealed)>,
}

/// A file that exists at the location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Name relative to the location of the set, with folders separated by slashes.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
}

impl FileSet {
    /// Begins a set of files below `base`. With [`Overwrite::Refuse`], no files may exist there, neither now nor when
    /// the set is published. Files and folders whose names begin with a dot or an underscore do not count.
    #[boxed]
    pub async fn create(sinks: Sinks, base: Destination, overwrite: Overwrite) -> Result<Self> {
        Self::begin(sinks, base, overwrite, false).await
    }

    /// Begins a set of files below `base` in addition to existing ones. None of those is replaced: publishing fails
    /// with [`Error::Exists`] if a name is taken.
    #[boxed]
    pub async fn beside(sinks: Sinks, base: Destination) -> Result<Self> {
        Self::begin(sinks, base, Overwrite::Refuse, true).await
    }

    async fn begin(sinks: Sinks, base: Destination, overwrite: Overwrite, is_beside: bool) -> Result<Self> {
        let mut set =
            Self { sinks, base, overwrite, is_beside, folder: None, sealed: Vec::new(), last: Vec::new() };
        set.check().await?;

        let folder = match &set.base {
            Destination::Object { .. } => None,
            Destination::File(path) => {
                let path = path.clone();
                Some(blocking(&path.clone(), move || StagedFolder::create(&path)).await??)
            }
        };
        set.folder = folder.map(Arc::new);
        Ok(set)
    }

    /// Opens a file with this name, which may contain folders. Once sealed, pass it to [`FileSet::add`].
    #[boxed]
    pub async fn open(&self, name: &str) -> Result<Box<dyn Sink>> {
        match &self.folder {
            Some(folder) => {
                self.sinks.local(StagingLocation::In(folder.clone(), name.to_owned()), self.overwrite).await
            }
            None => match self.base.join(name)? {
                Destination::Object { origin, path } => {
                    Ok(self.sinks.object(origin.store().clone(), path, self.overwrite))
                }
                Destination::File(path) => self.sinks.file(&path, self.overwrite).await,
            },
        }
    }

    /// Adds a complete file.
    pub fn add(&mut self, name: impl Into<String>, sealed: Sealed) {
        self.sealed.push((name.into(), sealed));
    }

    /// Adds a complete file that references others: it is published after them and, if files are durable, only once
    /// the others would survive a power loss.
    pub fn add_last(&mut self, name: impl Into<String>, sealed: Sealed) {
        self.last.push((name.into(), sealed));
    }

    /// Publishes all files. With [`Overwrite::Replace`], then removes the existing files for which `is_replaced`
    /// returns true; it is called with names relative to the location, except those just published. Returns the
    /// names.
    ///
    /// If overwriting is refused, an error other than [`Error::Unsynced`] leaves no new local files. Otherwise,
    /// some files may have been added or replaced, each of them complete. If the new names cannot be made durable,
    /// no existing file is removed.
    #[boxed]
    pub async fn publish(mut self, is_replaced: FileNameFilter) -> Result<Vec<String>> {
        let names = self.publish_all().await?;
        if self.overwrite == Overwrite::Replace {
            let mut old = self.names().await?;
            let written: HashSet<&str> = names.iter().map(String::as_str).collect();
            old.retain(|name| is_replaced(name) && !written.contains(name.as_str()));
            self.remove(old).await?;
        }
        Ok(names)
    }

    /// Publishes all files, then removes the files `old`. Returns the names.
    ///
    /// If the process is killed meanwhile, old and new files may coexist, and at least one of the two sets is
    /// complete. If the new names cannot be made durable, no old file is removed.
    #[boxed]
    pub async fn publish_instead_of(mut self, mut old: Vec<String>) -> Result<Vec<String>> {
        let names = self.publish_all().await?;
        old.retain(|name| !names.contains(name));
        self.remove(old).await?;
        Ok(names)
    }

    /// Publishes all files. Returns the names. After [`Error::Unsynced`], the files have their names, but a power loss
    /// may lose them: the caller must keep the files that they replace.
    async fn publish_all(&mut self) -> Result<Vec<String>> {
        self.check().await?;
        let (mut names, sealed): (Vec<String>, Vec<Sealed>) =
            std::mem::take(&mut self.sealed).into_iter().unzip();
        let (last_names, last): (Vec<String>, Vec<Sealed>) =
            std::mem::take(&mut self.last).into_iter().unzip();
        names.extend(last_names);

        // From here on, the files own the folder: publishing them is not interrupted half-way.
        self.folder = None;
        Sealed::publish_all([sealed, last]).await?;
        Ok(names)
    }

    /// Fails if a file exists that must not be replaced.
    async fn check(&self) -> Result<()> {
        let is_refused =
            self.overwrite == Overwrite::Refuse && !self.is_beside && !self.names().await?.is_empty();
        if is_refused { Err(Error::exists(self.base.to_string())) } else { Ok(()) }
    }

    pub(super) async fn names(&self) -> Result<Vec<String>> {
        Ok(self.files().await?.into_iter().map(|file| file.name).collect())
    }

    /// Returns all existing files, including those of other writers. Files and folders whose names begin with a dot
    /// or an underscore are omitted.
    #[boxed]
    pub async fn files(&self) -> Result<Vec<FoundFile>> {
        match &self.base {
            Destination::File(path) => {
                let path = path.clone();
                let shown = path.clone();
                let mut files = Vec::new();
                let listed = blocking(&shown, move || list(&path, "", &mut files).map(|()| files)).await?;
                listed.map_err(|error| Error::write(&shown, error))
            }
            Destination::Object { origin, path } => {
                let listing = origin.store().list(Some(path));
                let below = |meta: object_store::ObjectMeta| {
                    let below = meta.location.prefix_match(path)?;
                    let names: Vec<_> = below.map(|part| part.as_ref().to_owned()).collect();
                    let is_hidden = names.iter().any(|name| is_hidden(name));
                    let is_file = !is_hidden && !names.is_empty();
                    is_file.then(|| FoundFile { name: names.join("/"), size: meta.size })
                };
                let found: Vec<Option<FoundFile>> = listing
                    .map_ok(below)
                    .try_collect()
                    .await
                    .map_err(|error| Error::from_origin(path.as_ref(), error))?;
                Ok(found.into_iter().flatten().collect())
            }
        }
    }

    /// Reads up to `len` bytes from the end of an existing file; `None` if it no longer exists.
    #[boxed]
    pub async fn tail(&self, file: &FoundFile, len: u64) -> Result<Option<Bytes>> {
        let start = file.size.saturating_sub(len);
        match self.base.join(&file.name)? {
            Destination::File(path) => {
                let shown = path.clone();
                let read = blocking(&shown, move || read_from(&path, start)).await?;
                match read {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    read => read.map(Some).map_err(|error| Error::write(&shown, error)),
                }
            }
            Destination::Object { origin, path } if file.size > 0 => {
                match origin.store().get_range(&path, start..file.size).await {
                    Ok(bytes) => Ok(Some(bytes)),
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    Err(error) => Err(Error::from_origin(path.as_ref(), error)),
                }
            }
            Destination::Object { .. } => Ok(Some(Bytes::new())),
        }
    }

    /// Removes files of these names, and local folders that are then empty.
    async fn remove(&self, names: Vec<String>) -> Result<()> {
        match &self.base {
            Destination::File(path) => {
                let path = path.clone();
                let shown = path.clone();
                let durability = self.sinks.options.durability;
                blocking(&shown, move || remove_files(&path, &names, durability)).await?
            }
            Destination::Object { origin, .. } => {
                for name in names {
                    let Destination::Object { path, .. } = self.base.join(&name)? else { continue };
                    match origin.store().delete(&path).await {
                        Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                        Err(error) => return Err(Error::from_write(path.as_ref(), error)),
                    }
                }
                Ok(())
            }
        }
    }
}

impl Drop for FileSet {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            folder.close();
        }
    }
}

/// Returns whether a name is hidden from sets: logs of engines, and files being written.
fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_']) && !name.contains('=')
}

fn list(folder: &LocalPath, below: &str, files: &mut Vec<FoundFile>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !is_hidden(name)) else { continue };

        let name = format!("{below}{name}");

        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{name}/"), files)?;
        } else {
            // A dangling link counts as a file, too.
            let size = fs::metadata(entry.path()).map_or(0, |found| found.len());
            files.push(FoundFile { name, size });
        }
    }

    Ok(())
}

/// Removes files of these names below `base`, and folders that are then empty. With [`Durability::Fsync`], the removals
/// survive a power loss.
fn remove_files(base: &LocalPath, names: &[String], durability: Durability) -> Result<()> {
    let mut changed = BTreeSet::new();
    for name in names {
        let path = base.join(name);
        match fs::remove_file(&path) {
            // Another process may have removed it in the meantime, and may not have synced its folder yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(|error| Error::write(base, error))?,
        }

        for folder in path.ancestors().skip(1) {
            if folder == base || !remove_if_empty(folder) {
                changed.insert(folder.to_owned());
                break;
            }
        }
    }

    if durability == Durability::None {
        return Ok(());
    }
    // A folder that changed with one file may have been removed with a later one.
    let synced = sync_existing(changed.into_iter().collect());
    synced.map_err(|(path, error)| Error::Unsynced { path, source: Arc::new(error) })
}

/// Removes a folder if it is empty. Returns whether it is gone.
fn remove_if_empty(folder: &LocalPath) -> bool {
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn read_from(path: &LocalPath, start: u64) -> io::Result<Bytes> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes.into())
}
