//! Garbage collection: removes old versions that no snapshot holds, and files that no version needs.
//!
//! Files that no version ever referred to stay while any lease is held, since a commit may be about to refer to them.
//!
//! Records are removed first, the oldest before all others, so that no remaining version has lost a file. A version
//! stays as long as a later remaining one needs the inline data in its record.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use async_recursion::async_recursion as boxed;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStoreExt, path::Path};
use stylobate_storage::{Destination, Error as StorageError};

use crate::{
    Result,
    store::{
        base::write::{REQUESTS, remove_all},
        graph_store::GraphStore,
        lease,
        log::record::{DataLocation, VersionRecord, file_name},
        names::now_ms,
    },
};

/// Default minimum age: a week.
const OLDER_THAN: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Minimum age regardless of the options: a commit may be about to refer to younger files, or to follow a younger
/// version.
pub(crate) const MIN_AGE: Duration = Duration::from_secs(60 * 60);
/// Folders of files.
const FOLDERS: [&str; 4] = ["vertices", "edges", "delta", "deleted"];

/// Options of garbage collection.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    older_than: Duration,
    even_young: bool,
    dry_run: bool,
}

impl Default for CollectOptions {
    fn default() -> Self {
        Self { older_than: OLDER_THAN, even_young: false, dry_run: false }
    }
}

impl CollectOptions {
    /// Sets the minimum age of removed versions and files. Less than an hour is an hour: a writer that has just written
    /// its files may be about to commit them. Default: 7 days.
    pub fn with_older_than(mut self, age: Duration) -> Self {
        self.older_than = age;
        self
    }

    /// Allows an age of less than an hour; then all versions stay from the oldest on that is held here. No process may
    /// write, load or compact meanwhile, nor retry a commit afterwards, and no writer of another process may continue.
    /// Default: false.
    pub fn with_even_young(mut self, even_young: bool) -> Self {
        self.even_young = even_young;
        self
    }

    /// Only reports removable data. Default: false.
    pub fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

/// Removed data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Removed versions, ascending.
    pub versions: Vec<u64>,
    /// Number of removed files, without records.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Versions of a log.
type LoggedRecords = BTreeMap<u64, LoggedRecord>;

struct LoggedRecord {
    record: Arc<VersionRecord>,
    /// By the clock of the store: that of the committer may have been set since.
    put_ms: i64,
}

impl GraphStore {
    /// Removes old versions, and files that no version needs. The newest version stays, and all that snapshots of this
    /// store hold here; snapshots of other processes are safe as long as they are younger than the age.
    ///
    /// # Errors
    ///
    /// Any error of the object store; files removed before it are gone, and no remaining version needs them.
    #[tracing::instrument(name = "store_gc", level = "debug", skip_all, fields(store = self.core().name()))]
    #[boxed]
    pub async fn collect_garbage(&self, options: &CollectOptions) -> Result<Collected> {
        let age = if options.even_young { options.older_than } else { options.older_than.max(MIN_AGE) };
        if options.even_young || options.dry_run {
            let leases = self.core().listed(lease::FOLDER).await?;
            return self.collect(options, age, now_ms(), leases).await;
        }

        // Its time is the present by the clock that dates files, records and leases of others.
        let lease = self.core().lease().await?;
        let collected = async {
            let (now_ms, leases) = lease.among(self.core().listed(lease::FOLDER).await?)?;
            self.collect(options, age, now_ms, leases).await
        };
        let collected = collected.await;
        lease.end().await;

        collected
    }

    /// Collects data of at least `age` as of `now_ms`. The leases were listed before all else: anything committed after
    /// files were listed is young, or its lease was listed.
    async fn collect(
        &self,
        options: &CollectOptions,
        age: Duration,
        now_ms: i64,
        leases: Vec<ObjectMeta>,
    ) -> Result<Collected> {
        let before = now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let files = self.files().await?;
        let records = self.records().await?;
        let mut held = self.core().live.versions();
        if let Some(oldest) = held.first().copied().filter(|_| options.even_young) {
            // A writer that holds it would commit into the place of a removed later version.
            held = records.range(oldest..).map(|(version, _)| *version).collect();
        }

        let kept = kept_versions(&records, &held, before);
        let record = |version: &u64| records.get(version).map(|logged| &logged.record);
        let needed = LiveFiles::of(kept.iter().filter_map(record));
        let gone: Vec<u64> = records.keys().copied().filter(|version| !kept.contains(version)).collect();
        let is_old = |file: &&ObjectMeta| file.last_modified.timestamp_millis() < before;
        let base = self.core().place.base.clone();
        let below = |file: &ObjectMeta| file.location.as_ref().strip_prefix(base.as_str()).map(str::to_owned);
        let is_over = |lease: &&ObjectMeta| options.even_young || lease::is_over(lease, now_ms);
        let is_leased = leases.iter().any(|lease| !is_over(&lease));
        let named = LiveFiles::of(gone.iter().filter_map(record));
        let is_garbage = |path: String| !needed.has(&path) && (!is_leased || named.has(&path));
        let unneeded: Vec<&ObjectMeta> =
            files.iter().filter(is_old).filter(|file| below(file).is_some_and(is_garbage)).collect();
        let bytes = unneeded.iter().map(|file| file.size).sum();
        let collected = Collected { versions: gone.clone(), files: unneeded.len() as u64, bytes };
        if options.dry_run {
            return Ok(collected);
        }

        for version in gone {
            self.delete(&self.core().place.path(&file_name(version))?).await?;
        }
        let deletes = unneeded.iter().map(|file| self.delete(&file.location)).collect::<Vec<_>>();
        futures::stream::iter(deletes).buffer_unordered(REQUESTS).try_collect::<()>().await?;
        for lease in leases.iter().filter(is_over) {
            self.delete(&lease.location).await?;
        }

        self.remove_folders(unneeded.iter().filter_map(|file| below(file)), &needed).await?;
        Ok(collected)
    }

    /// Reads the kept versions.
    async fn records(&self) -> Result<LoggedRecords> {
        let log = &self.core().log;
        let read = log.list(None).await?.into_iter().map(|listed| async move {
            let read = log.read(listed.version).await;
            read.map(|record| (listed.version, LoggedRecord { record, put_ms: listed.put_ms }))
        });
        futures::stream::iter(read).buffered(REQUESTS).try_collect().await
    }

    /// Lists all files but records.
    async fn files(&self) -> Result<Vec<ObjectMeta>> {
        let mut files = Vec::new();
        for folder in FOLDERS {
            files.extend(self.core().listed(folder).await?);
        }
        Ok(files)
    }

    async fn delete(&self, path: &Path) -> Result<()> {
        match self.core().place.store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(StorageError::from_origin(path.as_ref(), error).into()),
        }
    }

    /// Removes local folders, which do not vanish with the last of their files.
    async fn remove_folders(&self, removed: impl Iterator<Item = String>, needed: &LiveFiles) -> Result<()> {
        let root = self.core().log.destination();
        if !matches!(root, Destination::File(_)) {
            return Ok(());
        }
        let bases: BTreeSet<String> = removed.filter_map(|path| base_of(&path).map(str::to_owned)).collect();
        for base in bases.iter().filter(|base| !needed.bases.contains(*base)) {
            remove_all(&root, base).await?;
        }
        Ok(())
    }
}

/// Returns the folder of the base that a file belongs to.
fn base_of(path: &str) -> Option<&str> {
    let (folder, rest) = path.split_once('/')?;
    let (name, _) = rest.split_once('/')?;
    matches!(folder, "vertices" | "edges").then(|| path.get(..folder.len() + 1 + name.len()))?
}

/// Returns the versions that stay: the newest, held ones, young ones, and those whose records have inline data that
/// these need.
fn kept_versions(records: &LoggedRecords, held: &[u64], before: i64) -> BTreeSet<u64> {
    let newest = records.keys().next_back().copied();
    let stays = |(version, logged): &(&u64, &LoggedRecord)| {
        Some(**version) == newest || held.contains(version) || logged.put_ms >= before
    };

    let mut kept: BTreeSet<u64> = records.iter().filter(stays).map(|(version, _)| *version).collect();
    let mut left: Vec<u64> = kept.iter().copied().collect();
    while let Some(version) = left.pop() {
        let locations = records.get(&version).into_iter().flat_map(|logged| logged.record.locations());
        for location in locations {
            if let DataLocation::Inline { version, .. } = location
                && kept.insert(*version)
            {
                left.push(*version);
            }
        }
    }

    kept
}

/// Files that versions need.
#[derive(Default)]
struct LiveFiles {
    bases: HashSet<String>,
    files: HashSet<String>,
}

impl LiveFiles {
    fn of<'a>(records: impl Iterator<Item = &'a Arc<VersionRecord>>) -> Self {
        let mut needed = Self::default();
        for record in records {
            let vertices = record.vertices.iter().flat_map(|state| &state.bases).map(|base| &base.path);
            let edges = record.edges.iter().flat_map(|state| &state.bases).map(|base| &base.info.path);
            needed.bases.extend(vertices.chain(edges).cloned());
            for location in record.locations() {
                if let DataLocation::File { path } = location {
                    needed.files.insert(path.clone());
                }
            }
        }

        needed
    }

    fn has(&self, path: &str) -> bool {
        match base_of(path) {
            Some(base) => self.bases.contains(base),
            None => self.files.contains(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_bases_are_told_from_others() {
        assert_eq!(base_of("vertices/Person-1/vertex/Person/id/chunk0"), Some("vertices/Person-1"));
        assert_eq!(base_of("edges/A_e_B-2/A_e_B.graph.yml"), Some("edges/A_e_B-2"));
        assert_eq!(base_of("delta/1.parquet"), None);
        assert_eq!(base_of("vertices/stray"), None);
    }
}
