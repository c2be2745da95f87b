//! Files or objects below one place that appear together, when all of them are whole.

use std::{collections::HashSet, fs, io, path::Path as LocalPath, sync::Arc};

use async_recursion::async_recursion as boxed;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;

use super::{Destination, Overwrite, Sealed, Sink, Sinks, file::Name, file::blocking, folder::StagedFolder};
use crate::{Error, Result};

/// What says of the name of a file whether the file is meant.
pub(crate) type NameTest = fn(&str) -> bool;

/// Files that are written below a folder or prefix. Nothing of them shows before [`FileSet::publish`]; dropped without
/// it, they leave nothing behind.
///
/// Names are given one after the other. A process that is killed meanwhile leaves some of the files, each of them
/// whole.
#[derive(Debug)]
pub struct FileSet {
    sinks: Sinks,
    base: Destination,
    overwrite: Overwrite,
    /// Where local files are until they are published.
    folder: Option<Arc<StagedFolder>>,
    sealed: Vec<(String, Sealed)>,
    /// Those that refer to the others.
    last: Vec<(String, Sealed)>,
}

impl FileSet {
    /// Files below `base`. With [`Overwrite::Refuse`] there must be none yet: neither now, nor when they are
    /// published. Files and folders whose names begin with a dot or an underscore do not count.
    #[boxed]
    pub async fn create(sinks: Sinks, base: Destination, overwrite: Overwrite) -> Result<Self> {
        let mut set = Self { sinks, base, overwrite, folder: None, sealed: Vec::new(), last: Vec::new() };
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

    /// A file of this name, which may have folders in it. Sealed, it is given to [`FileSet::add`].
    #[boxed]
    pub async fn open(&self, name: &str) -> Result<Box<dyn Sink>> {
        match &self.folder {
            Some(folder) => self.sinks.local(Name::In(folder.clone(), name.to_owned()), self.overwrite).await,
            None => match self.base.join(name)? {
                Destination::Object { origin, path } => {
                    Ok(self.sinks.object(origin.store().clone(), path, self.overwrite))
                }
                Destination::File(path) => self.sinks.file(&path, self.overwrite).await,
            },
        }
    }

    /// Takes a file that is whole.
    pub fn add(&mut self, name: impl Into<String>, sealed: Sealed) {
        self.sealed.push((name.into(), sealed));
    }

    /// Takes a file that is whole and refers to others: it has its name when the others have theirs, and where files are
    /// durable, when the others will be found after a loss of power.
    pub fn add_last(&mut self, name: impl Into<String>, sealed: Sealed) {
        self.last.push((name.into(), sealed));
    }

    /// Gives all files their names. Then files of earlier writes are removed of which `is_replaced` says so; it is
    /// asked for names below the place, and not for those that were written now. Returns the names.
    ///
    /// After an error no local file was added where overwriting is refused. Otherwise some may have been added or
    /// replaced, each of them whole.
    #[boxed]
    pub async fn publish(mut self, is_replaced: NameTest) -> Result<Vec<String>> {
        self.check().await?;
        let (mut names, sealed): (Vec<String>, Vec<Sealed>) =
            std::mem::take(&mut self.sealed).into_iter().unzip();
        let (last_names, last): (Vec<String>, Vec<Sealed>) =
            std::mem::take(&mut self.last).into_iter().unzip();
        names.extend(last_names);
        // From here on the files keep it: what gives them their names is not stopped half-way.
        self.folder = None;
        let published = Sealed::publish_all([sealed, last]).await;
        if !matches!(published, Ok(()) | Err(Error::Unsynced { .. })) {
            return published.map(|()| names);
        }
        if self.overwrite == Overwrite::Replace {
            let mut old = self.names().await?;
            let written: HashSet<&str> = names.iter().map(String::as_str).collect();
            old.retain(|name| is_replaced(name) && !written.contains(name.as_str()));
            self.remove(old).await?;
        }
        published.map(|()| names)
    }

    /// Nothing is there that must not be replaced.
    async fn check(&self) -> Result<()> {
        let is_refused = self.overwrite == Overwrite::Refuse && !self.names().await?.is_empty();
        if is_refused { Err(Error::exists(self.base.to_string())) } else { Ok(()) }
    }

    /// The files that are there, relative to the place.
    pub(super) async fn names(&self) -> Result<Vec<String>> {
        match &self.base {
            Destination::File(path) => {
                let (path, shown) = (path.clone(), path.clone());
                let mut names = Vec::new();
                let listed = blocking(&shown, move || list(&path, "", &mut names).map(|()| names)).await?;
                listed.map_err(|error| Error::write(&shown, error))
            }
            Destination::Object { origin, path } => {
                let listing = origin.store().list(Some(path));
                let below = |meta: object_store::ObjectMeta| {
                    let below = meta.location.prefix_match(path)?;
                    let names: Vec<_> = below.map(|part| part.as_ref().to_owned()).collect();
                    let is_hidden = names.iter().any(|name| is_hidden(name));
                    (!is_hidden && !names.is_empty()).then(|| names.join("/"))
                };
                let found: Vec<Option<String>> = listing
                    .map_ok(below)
                    .try_collect()
                    .await
                    .map_err(|error| Error::from_origin(path.as_ref(), error))?;
                Ok(found.into_iter().flatten().collect())
            }
        }
    }

    async fn remove(&self, names: Vec<String>) -> Result<()> {
        match &self.base {
            Destination::File(path) => {
                let (path, shown) = (path.clone(), path.clone());
                let remove = move || {
                    for name in names {
                        fs::remove_file(path.join(&name))?;
                        // Folders that are empty now go with it.
                        let above = LocalPath::new(&name).ancestors().skip(1);
                        let above = above.filter(|folder| !folder.as_os_str().is_empty());
                        let _ = above.map(|folder| path.join(folder)).try_for_each(fs::remove_dir);
                    }
                    Ok(())
                };
                blocking(&shown, remove).await?.map_err(|error: io::Error| Error::write(&shown, error))
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

/// Not what is written: logs of engines, and what is being written.
fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_']) && !name.contains('=')
}

fn list(folder: &LocalPath, below: &str, names: &mut Vec<String>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !is_hidden(name)) else { continue };
        let name = format!("{below}{name}");
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), &format!("{name}/"), names)?,
            false => names.push(name),
        }
    }
    Ok(())
}
