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
    /// [`GraphStore`] holds are then kept. No process may write, load or compact in the meantime, or retry a
    /// commit afterwards, and writers of other processes must not continue. Default: false.
    pub fn with_even_young(mut self, even_young: bool) -> Self {
        self.ignore_min_age = even_young;
        self
    }

    /// Reports what would be removed, and removes nothing. Default: false.
    pub fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Returns the minimum age in effect.
    fn min_age(&self) -> Duration {
        if self.ignore_min_age { self.older_than } else { self.older_than.max(MIN_AGE) }
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

/// Contents of a store, from which garbage collection decides what to remove.
struct StoreContents {
    /// All files except records and leases.
    files: Vec<ObjectMeta>,
    records: LoggedRecords,
    /// Versions that snapshots hold, ascending.
    held: Vec<u64>,
    leases: Vec<ObjectMeta>,
}

/// Versions, files and folders that garbage collection removes.
struct Garbage<'a> {
    /// Versions whose records are removed, ascending.
    versions: Vec<u64>,
    files: Vec<&'a ObjectMeta>,
    /// Leases that are over.
    leases: Vec<&'a ObjectMeta>,
    /// Folders of bases that lose files and that no kept version needs.
    bases: BTreeSet<String>,
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
        if options.ignore_min_age || options.dry_run {
            let leases = self.core().listed(lease::FOLDER).await?;
            return self.collect(options, now_ms(), leases).await;
        }

        // The store dates this lease by the same clock as files, records and other leases, so its time is the current
        // time.
        let lease = self.core().lease().await?;
        let collected = async {
            let (now_ms, leases) = lease.among(self.core().listed(lease::FOLDER).await?)?;
            self.collect(options, now_ms, leases).await
        };
        let collected = collected.await;
        lease.end().await;

        collected
    }

    /// Collects the garbage as of `now_ms`. `leases` must be listed before anything else: a file that is committed
    /// after the files were listed is young, or its lease is among them.
    async fn collect(
        &self,
        options: &CollectOptions,
        now_ms: i64,
        leases: Vec<ObjectMeta>,
    ) -> Result<GcReport> {
        let files = self.files().await?;
        let records = self.records().await?;
        let held = self.core().live.versions();
        let contents = StoreContents { files, records, held, leases };

        let garbage = Garbage::among(&contents, &self.core().folder.base, options, now_ms);
        if !options.dry_run {
            self.remove_garbage(&garbage).await?;
        }

        Ok(garbage.report())
    }

    /// Removes garbage: records first, oldest first, then files, leases and folders.
    async fn remove_garbage(&self, garbage: &Garbage<'_>) -> Result<()> {
        for version in &garbage.versions {
            self.delete(&self.core().folder.path(&file_name(*version))?).await?;
        }

        let deletes = garbage.files.iter().map(|file| self.delete(&file.location)).collect::<Vec<_>>();
        futures::stream::iter(deletes).buffer_unordered(REQUESTS).try_collect::<()>().await?;

        for lease in &garbage.leases {
            self.delete(&lease.location).await?;
        }

        self.remove_folders(&garbage.bases).await
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
        match self.core().folder.store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(StorageError::from_origin(path.as_ref(), error).into()),
        }
    }

    /// Removes the folders of bases. Only a local store has folders, which outlive their files.
    async fn remove_folders(&self, bases: &BTreeSet<String>) -> Result<()> {
        let root = self.core().log.destination();
        if !matches!(root, Destination::File(_)) {
            return Ok(());
        }

        for base in bases {
            remove_all(&root, base).await?;
        }
        Ok(())
    }
}

impl<'a> Garbage<'a> {
    /// Returns the garbage as of `now_ms`. The paths of files start with `prefix`.
    fn among(contents: &'a StoreContents, prefix: &str, options: &CollectOptions, now_ms: i64) -> Self {
        let StoreContents { files, records, held, leases } = contents;
        let age_ms = i64::try_from(options.min_age().as_millis()).unwrap_or(i64::MAX);
        let cutoff_ms = now_ms.saturating_sub(age_ms);

        let mut held = held.clone();
        if let Some(oldest) = held.first().copied().filter(|_| options.ignore_min_age) {
            // A writer at the oldest held version could otherwise reuse the number of a later, removed one.
            held = records.range(oldest..).map(|(version, _)| *version).collect();
        }

        let kept = kept_versions(records, &held, cutoff_ms);
        let versions: Vec<u64> = records.keys().copied().filter(|version| !kept.contains(version)).collect();

        let record = |version: &u64| records.get(version).map(|logged| &logged.record);
        let needed = ReferencedFiles::of(kept.iter().filter_map(record));
        let released = ReferencedFiles::of(versions.iter().filter_map(record));

        let is_over = |lease: &&ObjectMeta| options.ignore_min_age || lease::is_over(lease, now_ms);
        let is_leased = leases.iter().any(|lease| !is_over(&lease));

        let is_old = |file: &&ObjectMeta| file.last_modified.timestamp_millis() < cutoff_ms;
        // While a lease is held, a file that no removed version refers to may belong to its holder.
        let is_garbage = |path: &str| !needed.contains(path) && (!is_leased || released.contains(path));
        let unneeded: Vec<&ObjectMeta> = files
            .iter()
            .filter(is_old)
            .filter(|file| relative(file, prefix).is_some_and(is_garbage))
            .collect();

        let paths = unneeded.iter().copied().filter_map(|file| relative(file, prefix));
        let bases = paths.filter_map(base_of).filter(|base| !needed.bases.contains(*base));
        let bases = bases.map(str::to_owned).collect();
        let leases = leases.iter().filter(is_over).collect();

        Self { versions, files: unneeded, leases, bases }
    }

    fn report(&self) -> GcReport {
        let bytes = self.files.iter().map(|file| file.size).sum();
        GcReport { versions: self.versions.clone(), files: self.files.len() as u64, bytes }
    }
}

/// Returns the path of a file within the store, whose paths start with `prefix`.
fn relative<'a>(file: &'a ObjectMeta, prefix: &str) -> Option<&'a str> {
    file.location.as_ref().strip_prefix(prefix)
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
    use chrono::DateTime;

    use super::*;

    const NOW_MS: i64 = 30 * 24 * 60 * 60 * 1000;

    fn object(path: &str, modified_ms: i64) -> ObjectMeta {
        ObjectMeta {
            location: Path::from(path),
            last_modified: DateTime::from_timestamp_millis(modified_ms).unwrap(),
            size: 10,
            e_tag: None,
            version: None,
        }
    }

    /// Contents of a store whose files no version refers to: two old ones, and a recent one.
    fn stray_files(leases: Vec<ObjectMeta>) -> StoreContents {
        let files = vec![
            object("social/delta/1.parquet", 0),
            object("social/vertices/Person-1/chunk0", 0),
            object("social/delta/2.parquet", NOW_MS),
        ];
        StoreContents { files, records: LoggedRecords::new(), held: Vec::new(), leases }
    }

    #[test]
    fn files_that_no_version_refers_to_are_garbage_once_they_are_old() {
        let contents = stray_files(Vec::new());
        let garbage = Garbage::among(&contents, "social/", &CollectOptions::default(), NOW_MS);
        assert_eq!(garbage.bases, BTreeSet::from(["vertices/Person-1".to_owned()]));
        assert_eq!(garbage.report(), GcReport { versions: Vec::new(), files: 2, bytes: 20 });
    }

    #[test]
    fn while_a_lease_is_held_only_leases_that_are_over_are_garbage() {
        let leases = vec![object("social/leases/over", 0), object("social/leases/held", NOW_MS)];
        let contents = stray_files(leases);
        let garbage = Garbage::among(&contents, "social/", &CollectOptions::default(), NOW_MS);
        assert!(garbage.files.is_empty() && garbage.bases.is_empty());
        assert_eq!(garbage.leases, [&contents.leases[0]]);
    }

    #[test]
    fn files_of_bases_are_told_from_others() {
        assert_eq!(base_of("vertices/Person-1/vertex/Person/id/chunk0"), Some("vertices/Person-1"));
        assert_eq!(base_of("edges/A_e_B-2/A_e_B.graph.yml"), Some("edges/A_e_B-2"));
        assert_eq!(base_of("delta/1.parquet"), None);
        assert_eq!(base_of("vertices/stray"), None);
    }
}
