//! Garbage collection: removes old versions that no snapshot holds, and files that no version needs.
//!
//! Files that no version ever referred to are kept while any lease is held, since a commit may be about to refer to
//! them.
//!
//! Records are removed before files, and oldest first, so that no remaining version ever lacks a file. A version is
//! kept as long as a later one that is kept needs the inline data in its record.

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
const DEFAULT_OLDER_THAN: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Minimum age regardless of the options: a commit may be about to refer to younger files, or to follow a younger
/// version.
pub(crate) const MIN_AGE: Duration = Duration::from_secs(60 * 60);

/// Folders of a store whose files are collected: all but the log and the leases.
const FOLDERS: [&str; 4] = ["vertices", "edges", "delta", "deleted"];

/// Options of garbage collection.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    older_than: Duration,
    ignore_min_age: bool,
    dry_run: bool,
}

impl Default for CollectOptions {
    fn default() -> Self {
        Self { older_than: DEFAULT_OLDER_THAN, ignore_min_age: false, dry_run: false }
    }
}

impl CollectOptions {
    /// Sets the minimum age of removed versions and files. Less than an hour counts as an hour: a writer that has just
    /// written its files may be about to commit them. Default: 7 days.
    pub fn with_older_than(mut self, age: Duration) -> Self {
        self.older_than = age;
        self
    }

    /// Allows a minimum age of less than an hour. All versions from the oldest that a snapshot or a writer of this
    /// [`GraphStore`] holds are then kept. No process may write, load or compact meanwhile, nor retry a commit
    /// afterwards, and writers of other processes must not continue. Default: false.
    pub fn with_even_young(mut self, even_young: bool) -> Self {
        self.ignore_min_age = even_young;
        self
    }

    /// Reports what would be removed, and removes nothing. Default: false.
    pub fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

/// Result of garbage collection: the versions and files that were removed, or would be in a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcReport {
    /// Removed versions, ascending.
    pub versions: Vec<u64>,
    /// Number of removed files, not counting records.
    pub files: u64,
    /// Total size of the removed files, in bytes.
    pub bytes: u64,
}

/// Records of a log, by version.
type LoggedRecords = BTreeMap<u64, LoggedRecord>;

struct LoggedRecord {
    record: Arc<VersionRecord>,
    /// Time of the commit by the clock of the store, in milliseconds since 1970. The committer's own clock may have
    /// been set since.
    put_ms: i64,
}

impl GraphStore {
    /// Removes old versions, and files that no version needs. Keeps the newest version, and all versions that snapshots
    /// of this [`GraphStore`] hold. Snapshots of other processes are safe as long as their versions are younger than
    /// the minimum age.
    ///
    /// # Errors
    ///
    /// Any error of the object store. Files removed before the error are gone; no remaining version needs them.
    #[tracing::instrument(name = "store_gc", level = "debug", skip_all, fields(store = self.core().name()))]
    #[boxed]
    pub async fn collect_garbage(&self, options: &CollectOptions) -> Result<GcReport> {
        let age = if options.ignore_min_age { options.older_than } else { options.older_than.max(MIN_AGE) };
        if options.ignore_min_age || options.dry_run {
            let leases = self.core().listed(lease::FOLDER).await?;
            return self.collect(options, age, now_ms(), leases).await;
        }

        // The store dates this lease by the same clock as files, records and other leases, so its time is the current
        // time.
        let lease = self.core().lease().await?;
        let collected = async {
            let (now_ms, leases) = lease.among(self.core().listed(lease::FOLDER).await?)?;
            self.collect(options, age, now_ms, leases).await
        };
        let collected = collected.await;
        lease.end().await;

        collected
    }

    /// Collects data that is older than `age` at `now_ms`. `leases` must be listed before anything else: a file that is
    /// committed after the files were listed is young, or its lease is among them.
    async fn collect(
        &self,
        options: &CollectOptions,
        age: Duration,
        now_ms: i64,
        leases: Vec<ObjectMeta>,
    ) -> Result<GcReport> {
        let cutoff_ms = now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let files = self.files().await?;
        let records = self.records().await?;

        let mut held = self.core().live.versions();
        if let Some(oldest) = held.first().copied().filter(|_| options.ignore_min_age) {
            // A writer at the oldest held version could otherwise reuse the number of a later, removed one.
            held = records.range(oldest..).map(|(version, _)| *version).collect();
        }

        let kept = kept_versions(&records, &held, cutoff_ms);
        let removed: Vec<u64> = records.keys().copied().filter(|version| !kept.contains(version)).collect();

        let record = |version: &u64| records.get(version).map(|logged| &logged.record);
        let needed = ReferencedFiles::of(kept.iter().filter_map(record));
        let released = ReferencedFiles::of(removed.iter().filter_map(record));

        let is_over = |lease: &&ObjectMeta| options.ignore_min_age || lease::is_over(lease, now_ms);
        let is_leased = leases.iter().any(|lease| !is_over(&lease));

        let base = self.core().place.base.clone();
        let relative =
            |file: &ObjectMeta| file.location.as_ref().strip_prefix(base.as_str()).map(str::to_owned);
        let is_old = |file: &&ObjectMeta| file.last_modified.timestamp_millis() < cutoff_ms;
        // While a lease is held, a file that no removed version refers to may belong to its holder.
        let is_garbage = |path: String| !needed.contains(&path) && (!is_leased || released.contains(&path));
        let unneeded: Vec<&ObjectMeta> =
            files.iter().filter(is_old).filter(|file| relative(file).is_some_and(is_garbage)).collect();

        let bytes = unneeded.iter().map(|file| file.size).sum();
        let collected = GcReport { versions: removed.clone(), files: unneeded.len() as u64, bytes };
        if options.dry_run {
            return Ok(collected);
        }

        for version in removed {
            self.delete(&self.core().place.path(&file_name(version))?).await?;
        }

        let deletes = unneeded.iter().map(|file| self.delete(&file.location)).collect::<Vec<_>>();
        futures::stream::iter(deletes).buffer_unordered(REQUESTS).try_collect::<()>().await?;

        for lease in leases.iter().filter(is_over) {
            self.delete(&lease.location).await?;
        }

        self.remove_folders(unneeded.iter().filter_map(|file| relative(file)), &needed).await?;
        Ok(collected)
    }

    /// Reads the records of all versions in the log.
    async fn records(&self) -> Result<LoggedRecords> {
        let log = &self.core().log;
        let reads = log.list(None).await?.into_iter().map(|listed| async move {
            let record = log.read(listed.version).await;
            record.map(|record| (listed.version, LoggedRecord { record, put_ms: listed.put_ms }))
        });
        futures::stream::iter(reads).buffered(REQUESTS).try_collect().await
    }

    /// Lists all files except records and leases.
    async fn files(&self) -> Result<Vec<ObjectMeta>> {
        let mut files = Vec::new();
        for folder in FOLDERS {
            files.extend(self.core().listed(folder).await?);
        }
        Ok(files)
    }

    /// Deletes an object, which may be gone already.
    async fn delete(&self, path: &Path) -> Result<()> {
        match self.core().place.store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(StorageError::from_origin(path.as_ref(), error).into()),
        }
    }

    /// Removes the folders of bases that lost files and are no longer needed. Only a local store has folders, which
    /// outlive their files.
    async fn remove_folders(
        &self,
        removed: impl Iterator<Item = String>,
        needed: &ReferencedFiles,
    ) -> Result<()> {
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

/// Returns the folder of the base that a file belongs to; `None` if it belongs to no base.
fn base_of(path: &str) -> Option<&str> {
    let (folder, rest) = path.split_once('/')?;
    let (name, _) = rest.split_once('/')?;
    matches!(folder, "vertices" | "edges").then(|| path.get(..folder.len() + 1 + name.len()))?
}

/// Returns the versions that are kept: the newest, those in `held`, those committed at or after `cutoff_ms`, and those
/// whose records contain inline data that any of these need.
fn kept_versions(records: &LoggedRecords, held: &[u64], cutoff_ms: i64) -> BTreeSet<u64> {
    let newest = records.keys().next_back().copied();
    let is_kept = |(version, logged): &(&u64, &LoggedRecord)| {
        Some(**version) == newest || held.contains(version) || logged.put_ms >= cutoff_ms
    };

    let mut kept: BTreeSet<u64> = records.iter().filter(is_kept).map(|(version, _)| *version).collect();
    let mut pending: Vec<u64> = kept.iter().copied().collect();
    while let Some(version) = pending.pop() {
        let locations = records.get(&version).into_iter().flat_map(|logged| logged.record.locations());
        for location in locations {
            if let DataLocation::Inline { version, .. } = location
                && kept.insert(*version)
            {
                pending.push(*version);
            }
        }
    }

    kept
}

/// Bases and files that the records of some versions refer to.
#[derive(Default)]
struct ReferencedFiles {
    /// Folders of bases: all files in them count.
    bases: HashSet<String>,
    files: HashSet<String>,
}

impl ReferencedFiles {
    fn of<'a>(records: impl Iterator<Item = &'a Arc<VersionRecord>>) -> Self {
        let mut referenced = Self::default();
        for record in records {
            let vertices = record.vertices.iter().flat_map(|state| &state.bases).map(|base| &base.path);
            let edges = record.edges.iter().flat_map(|state| &state.bases).map(|base| &base.info.path);
            referenced.bases.extend(vertices.chain(edges).cloned());

            for location in record.locations() {
                if let DataLocation::File { path } = location {
                    referenced.files.insert(path.clone());
                }
            }
        }

        referenced
    }

    fn contains(&self, path: &str) -> bool {
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
