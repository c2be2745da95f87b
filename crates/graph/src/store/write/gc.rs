//! Garbage collection: removes old versions that no snapshot holds, and files that no version needs.
//!
//! Files that no version ever referred to are kept while any lease is held, since a commit may be about to refer to
//! them.
//!
//! The log is read from its newest record to its oldest, and the fate of a version is decided when its record is read.
//! A version ages from the put of its successor: until then it was current, and readers opened it. It is kept as long
//! as a later one that is kept needs the inline data in its record. A version that is to be removed is condemned at
//! once, so that no snapshot opens it any more.
//!
//! Records are removed before files, and oldest first, so that no remaining version ever lacks a file.

use std::{
    collections::{BTreeSet, HashSet},
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
        log::{
            ListedRecord,
            pins::{CondemnedVersions, PinScope},
            record::{DataLocation, VersionRecord, file_name},
        },
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
    /// Sets the minimum age of removed versions and files. A version ages from the commit of its successor. Less than
    /// an hour counts as an hour: a writer that has just written its files may be about to commit them. Default: 7
    /// days.
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

    /// Returns the latest time at which removed versions were superseded and removed files were written, in
    /// milliseconds since 1970.
    fn cutoff_ms(&self, now_ms: i64) -> i64 {
        let age_ms = i64::try_from(self.min_age().as_millis()).unwrap_or(i64::MAX);
        now_ms.saturating_sub(age_ms)
    }

    /// Returns the versions that a snapshot or a writer protects.
    fn pin_scope(&self) -> PinScope {
        // A writer at the oldest held version could otherwise reuse the number of a later, removed one.
        if self.ignore_min_age { PinScope::VersionAndLater } else { PinScope::Version }
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

/// Contents of a store, from which garbage collection decides what to remove.
struct StoreContents {
    /// All files except records and leases.
    files: Vec<ObjectMeta>,
    leases: Vec<ObjectMeta>,
    log: LogSweep,
}

/// Decisions on the versions of a log, made one by one from the newest to the oldest. Each record is dropped after its
/// decision, since the records of a week may take gigabytes.
struct LogSweep {
    cutoff_ms: i64,
    /// Oldest version that a running compaction started from. The records since then tell the compaction whether
    /// another one replaced its parts, and a writer which of them to leave alone.
    compacted: Option<u64>,
    /// Time of the put that superseded the next version, in milliseconds since 1970 by the clock of the store: the
    /// committer's own clock may have been set since. `i64::MAX` for the newest version.
    superseded_ms: i64,
    /// Versions whose records contain inline data that a kept version needs.
    inline: HashSet<u64>,
    /// Removed versions, descending.
    removed: Vec<u64>,
    /// Bases and files of the kept versions.
    needed: ReferencedFiles,
    /// Bases and files of the removed versions.
    released: ReferencedFiles,
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
    /// of this [`GraphStore`] hold. Snapshots of other processes are safe until their versions have been superseded for
    /// the minimum age. Versions that are being removed cannot be opened. While a compaction runs, in any process, the
    /// version that it started from and all later ones are kept, except with [`CollectOptions::with_even_young`].
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
        // Held until everything is removed.
        let mut condemned = CondemnedVersions::none_of(&self.core().live);
        let compacted = if options.ignore_min_age { None } else { lease::oldest_compacted(&leases, now_ms) };
        let log = self.sweep_log(options, now_ms, compacted, &mut condemned).await?;
        let contents = StoreContents { files, leases, log };

        let garbage = Garbage::among(&contents, &self.core().folder.base, options, now_ms);
        if !options.dry_run {
            self.remove_garbage(&garbage).await?;
        }

        Ok(garbage.report())
    }

    /// Reads the records of all versions in the log, and decides which versions are removed as of `now_ms`. Condemns
    /// these, except in a dry run. Versions since `compacted` are kept.
    async fn sweep_log(
        &self,
        options: &CollectOptions,
        now_ms: i64,
        compacted: Option<u64>,
        condemned: &mut CondemnedVersions<'_>,
    ) -> Result<LogSweep> {
        let log = &self.core().log;
        let reads = log.list(None).await?.into_iter().rev().map(|listed| async move {
            let record = log.read(listed.version).await;
            record.map(|record| (listed, record))
        });

        let scope = options.pin_scope();
        let mut sweep = LogSweep::new(options.cutoff_ms(now_ms), compacted);
        let mut records = futures::stream::iter(reads).buffered(REQUESTS);
        while let Some((listed, record)) = records.try_next().await? {
            sweep.visit(listed, &record, |version| {
                if options.dry_run {
                    !self.core().live.protects(version, scope)
                } else {
                    condemned.condemn(version, scope)
                }
            });
        }

        Ok(sweep)
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

impl LogSweep {
    fn new(cutoff_ms: i64, compacted: Option<u64>) -> Self {
        Self {
            cutoff_ms,
            compacted,
            superseded_ms: i64::MAX,
            inline: HashSet::new(),
            removed: Vec::new(),
            needed: ReferencedFiles::default(),
            released: ReferencedFiles::default(),
        }
    }

    /// Decides on the next version. It is removed if it was superseded by `cutoff_ms`, no running compaction started
    /// from it or an earlier one, no kept version needs its inline data, and `condemn` returns true: it returns false
    /// if a snapshot holds the version.
    fn visit(&mut self, listed: ListedRecord, record: &VersionRecord, condemn: impl FnOnce(u64) -> bool) {
        let ListedRecord { version, put_ms, .. } = listed;
        // No version was superseded before its own put, even if the clock of the store was set back.
        let is_young = self.superseded_ms.max(put_ms) > self.cutoff_ms;
        let is_compacted = self.compacted.is_some_and(|oldest| version >= oldest);
        self.superseded_ms = put_ms;

        // Inline data is in the record itself or in an earlier one.
        if is_young || is_compacted || self.inline.contains(&version) || !condemn(version) {
            self.inline.extend(record.locations().filter_map(inline_version));
            self.needed.add(record);
        } else {
            self.removed.push(version);
            self.released.add(record);
        }
    }
}

impl<'a> Garbage<'a> {
    /// Returns the garbage as of `now_ms`. The paths of files start with `prefix`.
    fn among(contents: &'a StoreContents, prefix: &str, options: &CollectOptions, now_ms: i64) -> Self {
        let StoreContents { files, leases, log } = contents;
        let LogSweep { removed, needed, released, .. } = log;
        let cutoff_ms = options.cutoff_ms(now_ms);
        let versions = removed.iter().rev().copied().collect();

        let is_over = |lease: &&ObjectMeta| options.ignore_min_age || lease::is_over(lease, now_ms);
        let is_leased = leases.iter().any(|lease| !is_over(&lease));

        let is_old = |file: &&ObjectMeta| file.last_modified.timestamp_millis() <= cutoff_ms;
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

/// Returns the version whose record contains the data; `None` if the data is in a file.
fn inline_version(location: &DataLocation) -> Option<u64> {
    match location {
        DataLocation::Inline { version, .. } => Some(*version),
        DataLocation::File { .. } => None,
    }
}

/// Bases and files that the records of some versions refer to.
#[derive(Default)]
struct ReferencedFiles {
    /// Folders of bases: all files in them count.
    bases: HashSet<String>,
    files: HashSet<String>,
}

impl ReferencedFiles {
    fn add(&mut self, record: &VersionRecord) {
        let vertices = record.vertices.iter().flat_map(|state| &state.bases).map(|base| &base.path);
        let edges = record.edges.iter().flat_map(|state| &state.bases).map(|base| &base.info.path);
        self.bases.extend(vertices.chain(edges).cloned());

        for location in record.locations() {
            if let DataLocation::File { path } = location {
                self.files.insert(path.clone());
            }
        }
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
    use stylobate_columnar::Cache;
    use stylobate_storage::{ByteSize, CacheOptions};

    use super::*;
    use crate::{
        Error, PropertyType,
        store::{
            StoreOptions, StoreSchema, VertexType,
            log::record::{FORMAT, VertexState},
        },
    };

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
        StoreContents { files, leases, log: LogSweep::new(NOW_MS, None) }
    }

    /// Returns a record that refers to inline data of versions, and to its own file.
    fn record(version: u64, inline: &[u64]) -> VersionRecord {
        let inline = inline.iter().map(|version| DataLocation::Inline { version: *version, slot: 0 });
        let file = DataLocation::File { path: format!("deleted/{version}.roaring") };
        let persons = VertexState {
            schema: VertexType::new("Person", "id", PropertyType::Int64),
            next: 0,
            count: 0,
            bases: Vec::new(),
            deltas: Vec::new(),
            patches: Vec::new(),
            deleted: inline.chain([file]).collect(),
        };

        VersionRecord {
            format: FORMAT,
            version,
            epoch: 0,
            commit: String::new(),
            time_ms: 0,
            operation: "write".to_owned(),
            compaction: None,
            vertices: vec![persons],
            edges: Vec::new(),
            inline: Vec::new(),
        }
    }

    /// Sweeps a log with a cutoff of 100 ms. `log` has versions, times of their puts, and versions whose inline data
    /// they need, from the newest version to the oldest.
    fn swept(log: &[(u64, i64, &[u64])], held: &[u64]) -> LogSweep {
        swept_since(None, log, held)
    }

    /// Sweeps like [`swept`], while a compaction that started from a version is running.
    fn swept_since(compacted: Option<u64>, log: &[(u64, i64, &[u64])], held: &[u64]) -> LogSweep {
        let mut sweep = LogSweep::new(100, compacted);
        for &(version, put_ms, inline) in log {
            let listed = ListedRecord { version, bytes: 0, put_ms };
            sweep.visit(listed, &record(version, inline), |version| !held.contains(&version));
        }
        sweep
    }

    #[test]
    fn a_version_ages_from_the_commit_of_its_successor() {
        // Version 3 was current for long, and was superseded a moment ago.
        let sweep = swept(&[(4, 101, &[]), (3, 20, &[]), (2, 10, &[])], &[]);
        assert_eq!(sweep.removed, [2]);
        // Version 3 was removed before: the next later one counts.
        let sweep = swept(&[(5, 120, &[]), (4, 101, &[]), (2, 10, &[])], &[]);
        assert!(sweep.removed.is_empty());
        // Superseded just long enough ago.
        let sweep = swept(&[(4, 100, &[]), (3, 20, &[])], &[]);
        assert_eq!(sweep.removed, [3]);
        // The clock of the store was set back after version 3.
        let sweep = swept(&[(4, 20, &[]), (3, 101, &[]), (2, 10, &[])], &[]);
        assert!(sweep.removed.is_empty());
    }

    #[test]
    fn the_newest_version_is_kept_at_any_age() {
        assert!(swept(&[(4, 0, &[])], &[]).removed.is_empty());
    }

    /// A compaction that took longer than the minimum age lost its version: its process could no longer tell whether
    /// others had replaced its parts, and writers did not merge until it ended.
    #[test]
    fn versions_since_that_of_a_running_compaction_are_kept() {
        let log: [(u64, i64, &[u64]); 4] = [(5, 50, &[]), (4, 40, &[]), (3, 30, &[]), (2, 20, &[])];
        assert_eq!(swept_since(Some(3), &log, &[]).removed, [2]);
        assert_eq!(swept_since(None, &log, &[]).removed, [4, 3, 2]);

        let leases =
            [("1.compaction-4", NOW_MS), ("2.compaction-3", NOW_MS), ("3.compaction-2", 0), ("4", NOW_MS)];
        let leases = leases.map(|(name, put_ms)| object(&format!("social/leases/{name}"), put_ms));
        assert_eq!(lease::oldest_compacted(&leases, NOW_MS), Some(3), "that of version 2 has expired");
    }

    #[test]
    fn versions_that_are_held_and_records_that_kept_versions_need_are_kept_with_their_files() {
        let log: [(u64, i64, &[u64]); 6] =
            [(6, 60, &[6]), (5, 50, &[]), (4, 40, &[4, 2]), (3, 30, &[]), (2, 20, &[1]), (1, 10, &[])];
        let sweep = swept(&log, &[4]);
        assert_eq!(sweep.removed, [5, 3]);
        for (version, ..) in log {
            let path = format!("deleted/{version}.roaring");
            let is_removed = sweep.removed.contains(&version);
            assert_eq!(sweep.needed.contains(&path), !is_removed, "version {version}");
            assert_eq!(sweep.released.contains(&path), is_removed, "version {version}");
        }
    }

    /// Snapshots that were opened between the look at the held ones and the removals lost their files.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_version_that_is_being_removed_cannot_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(16))).await.unwrap();
        let schema = StoreSchema::new().with_vertices(VertexType::new("Person", "id", PropertyType::Int64));
        let path = folder.path().join("graph").to_str().unwrap().to_owned();
        let store = GraphStore::create(&cache, path.as_str(), schema, StoreOptions::default()).await.unwrap();
        drop(store.writer().await.unwrap());
        assert_eq!(store.latest().version(), 1);

        let all = CollectOptions::default().with_older_than(Duration::ZERO).with_even_young(true);
        let dry_run = all.clone().with_dry_run(true);
        let mut condemned = CondemnedVersions::none_of(&store.core().live);
        let sweep = store.sweep_log(&dry_run, now_ms(), None, &mut condemned).await.unwrap();
        assert_eq!(sweep.removed, [0]);
        let snapshot = store.snapshot(Some(0)).await.unwrap();
        let sweep = store.sweep_log(&all, now_ms(), None, &mut condemned).await.unwrap();
        assert!(sweep.removed.is_empty(), "it is held");

        drop(snapshot);
        let sweep = store.sweep_log(&all, now_ms(), None, &mut condemned).await.unwrap();
        assert_eq!(sweep.removed, [0]);
        // Its record is still there, and even in memory.
        let _record = store.core().log.read(0).await.unwrap();
        let error = store.snapshot(Some(0)).await.unwrap_err();
        assert!(matches!(error, Error::NoSuchStore { .. }), "{error}");

        // As after a garbage collection that failed.
        drop(condemned);
        store.snapshot(Some(0)).await.unwrap();
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
