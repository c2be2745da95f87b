//! Writer of a store: takes batches, and commits them as one version or not at all.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_recursion::async_recursion as boxed;
use futures::{FutureExt, StreamExt, TryStreamExt};
use stylobate_storage::SteadyInstant;

use super::{commit::CommitBuilder, gc::MIN_AGE, pending::PendingChanges, plan::MAX_LOOSE};
use crate::{
    Error, Result,
    store::{
        base::write::REQUESTS,
        graph_store::{ATTEMPTS, GraphStore},
        lease::TurnRequest,
        log::{
            RecordPutOutcome,
            record::{DataLocation, VersionRecord},
        },
        names::uuid7,
        schema::SchemaChange,
        snapshot::Snapshot,
    },
};

/// Age of the writer's knowledge of the log from which a change or a commit lists it first.
const LIST_AFTER: Duration = Duration::from_secs(300);
/// Age up to which the writer relies on its knowledge of the log, and on files that no version refers to yet. Garbage
/// collection keeps anything younger than [`MIN_AGE`], but requests take time and clocks differ in speed.
const SAFE_AGE: Duration = Duration::from_secs(MIN_AGE.as_secs() / 2);

/// Ages of what a writer relies on.
#[derive(Clone, Copy, Debug)]
struct AgeLimits {
    /// Default: [`LIST_AFTER`].
    list_after: Duration,
    /// Default: [`SAFE_AGE`].
    safe_age: Duration,
}

impl Default for AgeLimits {
    fn default() -> Self {
        Self { list_after: LIST_AFTER, safe_age: SAFE_AGE }
    }
}

/// Writer of a store. Its changes are invisible before a commit, and each commit is an atomic version.
///
/// If a store has several writers, the one created last wins: commits of the others fail with [`Error::Fenced`].
pub struct StoreWriter {
    store: GraphStore,
    /// Version that the next commit follows.
    pub(crate) head: Snapshot,
    /// Start of the last listing of the log, or of the last successful put: versions that are not known here did not
    /// exist yet. They are too young to be garbage-collected for a while, so that a put of the same number fails.
    seen: SteadyInstant,
    limits: AgeLimits,
    epoch: u64,
    pub(crate) pending: PendingChanges,
    /// State of `head`, with pending changes of the schema.
    pub(crate) record: VersionRecord,
    attempt: Option<CommitAttempt>,
    /// Ids of attempts to commit the version after `head` with other contents, which may still succeed.
    in_doubt: Vec<String>,
    /// Version that was, or may have been, committed by an attempt with only a part of the pending changes. These must
    /// be rolled back: another commit would store that part twice.
    must_roll_back: Option<u64>,
    /// Version of the last merge of committed deltas, or its last attempt.
    tidied: u64,
    /// Version at which leases were last listed.
    looked: u64,
    /// Requests for a turn that remained after this writer had waited.
    ignored_turns: HashSet<TurnRequest>,
}

/// Attempted commit, to be retried unchanged.
struct CommitAttempt {
    record: Arc<VersionRecord>,
    /// Time before its files were written.
    begun: SteadyInstant,
}

impl GraphStore {
    /// Creates a writer, and fences the previous one from now on. Costs one commit.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if other commits keep winning the race.
    #[tracing::instrument(name = "store_writer", level = "debug", skip_all, fields(store = self.core().name()))]
    #[boxed]
    pub async fn writer(&self) -> Result<StoreWriter> {
        for _ in 0..ATTEMPTS {
            let seen = SteadyInstant::now();
            let head = self.refresh().await?;
            let before = head.record();
            let epoch = before.epoch + 1;
            let record = Arc::new(before.next("writer", epoch));

            // Otherwise a later record with this number may have been removed already.
            if seen.elapsed() < SAFE_AGE
                && let RecordPutOutcome::Done = self.core().log.put(&record).await?
            {
                let head = self.install(record).await;
                return Ok(StoreWriter::new(self.clone(), head, epoch, seen));
            }
        }

        Err(Error::Conflict {
            object: self.core().log.name(self.latest().version() + 1),
            reason: "others keep committing".to_owned(),
        })
    }
}

impl StoreWriter {
    fn new(store: GraphStore, head: Snapshot, epoch: u64, seen: SteadyInstant) -> Self {
        let record = VersionRecord::clone(head.record());
        Self {
            store,
            seen,
            limits: AgeLimits::default(),
            epoch,
            pending: PendingChanges::default(),
            record,
            attempt: None,
            in_doubt: Vec::new(),
            must_roll_back: None,
            tidied: 0,
            looked: head.version(),
            ignored_turns: HashSet::new(),
            head,
        }
    }

    /// Returns the store that it writes to.
    pub fn store(&self) -> &GraphStore {
        &self.store
    }

    /// Returns the version that the next commit follows, without pending changes.
    pub fn snapshot(&self) -> &Snapshot {
        &self.head
    }

    /// Returns the writer's number, which is greater than those of earlier writers.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns true if there are changes to commit.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Changes the schema with the next commit: new types and properties can be written from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] if the change is invalid, and [`Error::Unwritable`] if GraphAr cannot represent a type or a
    /// property; with nothing changed.
    pub fn alter(&mut self, changes: impl IntoIterator<Item = SchemaChange>) -> Result<()> {
        let changes: Vec<SchemaChange> = changes.into_iter().collect();
        let mut altered = self.record.clone();
        altered.alter_all(&changes)?;
        self.touch();
        self.record = altered;
        self.pending.changes.extend(changes);
        Ok(())
    }

    /// Records a change of the pending state: the last attempt can no longer be retried, but may still succeed.
    pub(crate) fn touch(&mut self) {
        let Some(attempt) = self.attempt.take() else { return };
        // The put of a version that exists can no longer succeed.
        if attempt.record.version > self.head.version() {
            self.in_doubt.push(attempt.record.commit.clone());
        }
    }

    /// Discards pending changes. If the last commit failed, it may still succeed: a later change, load or commit then
    /// fails once with [`Error::Conflict`].
    pub fn rollback(&mut self) {
        self.touch();
        self.must_roll_back = None;
        self.pending = PendingChanges::default();
        self.record = VersionRecord::clone(self.head.record());
    }

    /// Commits pending changes as a version, and returns its number; without changes, that of the version that
    /// this writer follows. A small commit takes one request. Every few dozen commits, the latest deltas are
    /// merged, as by [`GraphStore::compact`], so that the log and lookups stay short. After an error, nothing is
    /// visible and all changes are still pending: commit again, add more changes, or [`Self::rollback`].
    ///
    /// # Errors
    ///
    /// - [`Error::Fenced`] if a later writer took over.
    /// - [`Error::Conflict`] if other commits keep winning the race, or if large changes took so long to write that
    ///   garbage collection may have removed the first of their files.
    /// - [`Error::Conflict`] if an earlier commit failed, changes were added or discarded, and it turns out that it
    ///   succeeded after all; or if that can no longer be known, since garbage collection removed its version. A part
    ///   of the pending changes may be stored already, so that each commit fails until [`Self::rollback`].
    /// - Any error of the object store.
    #[tracing::instrument(name = "store_commit", level = "debug", skip_all, fields(store = self.store.core().name()))]
    #[boxed]
    pub async fn commit(&mut self) -> Result<u64> {
        // Boxed, so that this is compiled once and not into each caller.
        let version = self.commit_as("write").boxed().await?;
        let is_due = |last: u64| version >= last + MAX_LOOSE as u64;
        let turns = if self.head.record().loose() >= MAX_LOOSE && is_due(self.tidied) {
            self.tidied = version;
            self.store.tidy().boxed().await
        } else if is_due(self.looked) {
            self.store.core().turn_requests().await
        } else {
            return Ok(version);
        };

        self.looked = version;
        match turns {
            Ok(turns) => self.give_way(&turns).await,
            Err(error) => tracing::warn!(%error, "leases were not listed"),
        }
        Ok(version)
    }

    /// Waits for compactions that request a turn. A request that outlasts the wait is ignored unless it is renewed,
    /// since its process may be dead.
    async fn give_way(&mut self, turns: &[TurnRequest]) {
        if turns.iter().all(|turn| self.ignored_turns.contains(turn)) {
            return;
        }
        match self.store.let_other_processes_commit(&self.ignored_turns).boxed().await {
            Ok(left) => self.ignored_turns.extend(left),
            Err(error) => tracing::warn!(%error, "leases were not listed"),
        }
    }

    async fn commit_as(&mut self, operation: &str) -> Result<u64> {
        if self.pending.is_empty() {
            return Ok(self.head.version());
        }
        if let Some(version) = self.must_roll_back {
            return Err(self.committed_after_all(version));
        }
        for attempt in 0..ATTEMPTS {
            self.store.let_others_commit().await;
            // After a lost race the winner is known; after a second one the log is read for further commits.
            if attempt != 1
                && let Some(version) = self.catch_up(attempt > 1).await?
            {
                self.done();
                return Ok(version);
            }

            let record = match &self.attempt {
                Some(tried) if self.can_be_put(tried).await? => tried.record.clone(),
                tried => {
                    let commit = tried.as_ref().map_or_else(uuid7, |tried| tried.record.commit.clone());
                    let draft = CommitBuilder::new(&self.head, &self.pending, self.epoch, operation).await?;
                    let begun = SteadyInstant::now();
                    let record =
                        Arc::new(VersionRecord { commit, ..draft.write_data(self.store.core()).await? });
                    self.check_files(&record, begun.elapsed())?;
                    self.attempt = Some(CommitAttempt { record: record.clone(), begun });
                    record
                }
            };

            if let Some(version) = self.put(record).await? {
                self.done();
                return Ok(version);
            }
        }

        Err(self.overtaken())
    }

    /// Rejects a record whose files are `age` old, if garbage collection may have removed some of them.
    fn check_files(&self, record: &VersionRecord, age: Duration) -> Result<()> {
        if age < self.limits.safe_age || new_files(record, self.head.record()).is_empty() {
            return Ok(());
        }
        let reason = "its data files took so long to write that the first may be gone: \
                      commit fewer changes at a time, or load them";
        Err(Error::Conflict { object: self.store.core().log.name(record.version), reason: reason.to_owned() })
    }

    /// Returns true if an attempted commit can be retried unchanged: it follows the current version, and its files
    /// have not been garbage-collected in the meantime.
    async fn can_be_put(&self, CommitAttempt { record, begun }: &CommitAttempt) -> Result<bool> {
        let is_young = || begun.elapsed() < self.limits.safe_age;
        if record.version != self.head.version() + 1 || !is_young() {
            return Ok(false);
        }

        let folder = &self.store.core().folder;
        let files = new_files(record, self.head.record());
        let checks: Vec<_> = files.into_iter().map(|path| folder.has(path)).collect();
        let checks = futures::stream::iter(checks).buffer_unordered(REQUESTS);
        let found: Vec<bool> = checks.try_collect().await?;

        Ok(found.into_iter().all(|is_there| is_there) && is_young())
    }

    /// Catches up with concurrent commits, before any pending change depends on what they replaced. A takeover by
    /// another writer is reported by the next commit.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            return Ok(());
        }
        match self.catch_up(false).await {
            Ok(_) | Err(Error::Fenced { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Clears committed changes.
    fn done(&mut self) {
        self.attempt = None;
        self.pending = PendingChanges::default();
        self.record = VersionRecord::clone(self.head.record());
    }

    /// Commits a state that `change` derives from the newest one, such as that of a bulk load. No changes may be
    /// pending.
    ///
    /// # Errors
    ///
    /// Errors of `change` and of [`Self::commit`].
    pub(crate) async fn commit_with<F>(
        &mut self,
        operation: &str,
        mut change: impl FnMut(Snapshot, VersionRecord) -> F,
    ) -> Result<u64>
    where
        F: Future<Output = Result<VersionRecord>>,
    {
        if !self.pending.is_empty() {
            let reason =
                "there are changes that are not committed: commit them, or roll them back".to_owned();
            return Err(Error::Conflict { object: self.store.core().name(), reason });
        }
        for attempt in 0..ATTEMPTS {
            self.store.let_others_commit().await;
            if attempt != 1 {
                self.catch_up(attempt > 1).await?;
            }
            let record = change(self.head.clone(), self.head.record().next(operation, self.epoch)).await?;
            // A failed request may have succeeded: then this writer's next commit finds it.
            self.in_doubt.push(record.commit.clone());
            if let Some(version) = self.put(Arc::new(record)).await? {
                return Ok(version);
            }
        }

        Err(self.overtaken())
    }

    /// Catches up with other commits that did not fence this writer: from the versions known here, or from the log
    /// if it was not listed for a long time or `asks` is set. Returns the version of the last attempt if it succeeded
    /// after all.
    async fn catch_up(&mut self, asks: bool) -> Result<Option<u64>> {
        let newest = if self.seen.elapsed() < self.limits.list_after && !asks {
            self.store.latest()
        } else {
            let asked = SteadyInstant::now();
            let newest = self.store.refresh().boxed().await?;
            self.seen = asked;
            newest
        };
        let known = self.head.version();
        if newest.version() <= known {
            return Ok(None);
        }

        let mut done = None;
        let next = known + 1;
        if self.has_tried(next) {
            let record = self.store.core().log.read(next).await;
            match record {
                Ok(record) if self.is_attempt(&record) => {
                    // The attempt succeeded, regardless of later commits.
                    let head = self.store.install(record).await;
                    self.advance(head);
                    done = Some(next);
                }
                Ok(record) if self.in_doubt.contains(&record.commit) => self.follow(record).await?,
                Ok(_) => {}
                Err(Error::Missing { .. }) => {
                    // Garbage-collected: it is not known whose commit it was.
                    self.follow(newest.record().clone()).await?;
                    return Err(self.committed_after_all(next));
                }
                Err(error) => return Err(error),
            }
        }

        match (done, self.follow(newest.record().clone()).await) {
            // The next commit reports it.
            (Some(_), Err(Error::Fenced { .. })) => Ok(done),
            (_, followed) => followed.map(|()| done),
        }
    }

    /// Returns true if this writer attempted to commit `next`, the version after the head, and the outcome is unknown.
    fn has_tried(&self, next: u64) -> bool {
        let attempt = self.attempt.as_ref();
        !self.in_doubt.is_empty() || attempt.is_some_and(|attempt| attempt.record.version == next)
    }

    /// Returns true if a record is that of the last attempt.
    fn is_attempt(&self, record: &VersionRecord) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.record.commit == record.commit)
    }

    /// Puts a record, and returns its version; also if the log shows that an earlier attempt has put it. If another
    /// commit won the race and is not a takeover, continues from it, and returns `None`.
    async fn put(&mut self, record: Arc<VersionRecord>) -> Result<Option<u64>> {
        let version = record.version;
        if self.seen.elapsed() >= self.limits.safe_age {
            // Otherwise a later record with this number may have been removed already.
            let done = self.catch_up(true).boxed().await?;
            if done.is_some() || self.head.version() >= version {
                return Ok(done);
            }
        }

        let sent = SteadyInstant::now();
        let put = self.store.core().log.put(&record).await?;
        match put {
            RecordPutOutcome::Done => {
                let head = self.store.install(record).await;
                self.advance(head);
                self.seen = sent;
                Ok(Some(version))
            }
            RecordPutOutcome::Taken(other) => self.follow(other).await.map(|()| None),
        }
    }

    /// Continues from a commit, unless it fences this writer.
    async fn follow(&mut self, other: Arc<VersionRecord>) -> Result<()> {
        let version = other.version;
        let epoch = other.epoch;
        let object = self.store.core().log.name(version);
        if epoch > self.epoch {
            return Err(Error::Fenced { object, epoch: self.epoch, by: epoch });
        }

        let is_late = self.in_doubt.contains(&other.commit);
        let head = self.store.install(other).await;
        self.advance(head);
        if is_late {
            return Err(self.committed_after_all(version));
        }
        if epoch < self.epoch {
            let reason = "the log goes back to an earlier writer".to_owned();
            return Err(Error::Conflict { object, reason });
        }

        Ok(())
    }

    /// Makes a later version the head. Attempts to commit the one after the previous head can no longer succeed.
    fn advance(&mut self, head: Snapshot) {
        self.in_doubt.clear();
        if self.pending.is_empty() {
            self.record = VersionRecord::clone(head.record());
        }
        self.head = head;
    }

    /// Returns the error for a version that was, or may have been, committed by an attempt in doubt. Pending changes
    /// must be rolled back.
    fn committed_after_all(&mut self, version: u64) -> Error {
        if !self.pending.is_empty() {
            self.must_roll_back = Some(version);
        }
        let reason = "a commit that failed, and was changed or given up, was done after all, or may have been: \
                      roll back, and look";
        Error::Conflict { object: self.store.core().log.name(version), reason: reason.to_owned() }
    }

    fn overtaken(&self) -> Error {
        let object = self.store.core().log.name(self.head.version() + 1);
        Error::Conflict { object, reason: "others keep committing".to_owned() }
    }
}

/// Returns the paths of the files that a record refers to and an earlier one does not.
fn new_files<'a>(record: &'a VersionRecord, before: &VersionRecord) -> Vec<&'a str> {
    let known: HashSet<&DataLocation> = before.locations().collect();
    let new = record.locations().filter(|location| !known.contains(location));
    new.filter_map(|location| match location {
        DataLocation::File { path } => Some(path.as_str()),
        DataLocation::Inline { .. } => None,
    })
    .collect()
}

impl std::fmt::Debug for StoreWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let epoch = self.epoch;
        let head = self.head.version();
        f.debug_struct("StoreWriter").field("epoch", &epoch).field("head", &head).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use stylobate_columnar::Cache;
    use stylobate_storage::{ByteSize, CacheOptions};
    use tempfile::TempDir;

    use super::*;
    use crate::{
        PropertyType,
        store::{CollectOptions, StoreOptions, StoreSchema, VertexType},
    };

    fn path(folder: &TempDir) -> String {
        folder.path().join("graph").to_str().unwrap().to_owned()
    }

    async fn cache() -> Cache {
        Cache::open(CacheOptions::new(ByteSize::mib(16))).await.unwrap()
    }

    /// Creates a store, and a writer whose version is 1.
    async fn new_writer(folder: &TempDir, options: StoreOptions) -> StoreWriter {
        let schema = StoreSchema::new().with_vertices(VertexType::new("Person", "id", PropertyType::Int64));
        let store = GraphStore::create(&cache().await, path(folder), schema, options).await.unwrap();
        store.writer().await.unwrap()
    }

    fn person(key: Option<i64>) -> RecordBatch {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![key]));
        RecordBatch::try_from_iter_with_nullable([("id", keys, true)]).unwrap()
    }

    /// Takes over in another process, commits, and removes all versions that are not needed, among them version 2.
    async fn take_over(folder: &TempDir) {
        let store = GraphStore::open(&cache().await, path(folder), StoreOptions::default()).await.unwrap();
        let mut writer = store.writer().await.unwrap();
        for key in 1..3 {
            writer.add_vertices("Person", &person(Some(key))).await.unwrap();
            writer.commit().await.unwrap();
        }

        // Ages are compared in milliseconds.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let all = CollectOptions::default().with_older_than(Duration::ZERO).with_even_young(true);
        let collected = store.collect_garbage(&all).await.unwrap();
        assert!(collected.versions.contains(&2), "{collected:?}");
    }

    /// A writer that kept failing took its own checks, which listed nothing, for news of the log. It then put the
    /// version that was removed, and its commit was lost.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_fenced_writer_that_kept_failing_does_not_put_a_version_that_was_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = new_writer(&folder, StoreOptions::default()).await;
        writer.limits.list_after = Duration::from_millis(200);
        take_over(&folder).await;

        let begun = SteadyInstant::now();
        while begun.elapsed() < writer.limits.list_after * 2 {
            writer.add_vertices("Person", &person(None)).await.unwrap_err();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }

        writer.add_vertices("Person", &person(Some(1))).await.unwrap();
        let error = writer.commit().await.unwrap_err();
        assert!(matches!(error, Error::Fenced { epoch: 1, by: 2, .. }), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_fenced_writer_that_stalls_before_its_put_lists_the_log_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = new_writer(&folder, StoreOptions::default()).await;
        writer.limits.safe_age = Duration::ZERO;
        writer.add_vertices("Person", &person(Some(1))).await.unwrap();
        take_over(&folder).await;

        let error = writer.commit().await.unwrap_err();
        assert!(matches!(error, Error::Fenced { epoch: 1, by: 2, .. }), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_commit_whose_files_took_too_long_to_write_is_refused_unless_it_has_none() {
        for (inline_limit, has_files) in [(ByteSize::ZERO, true), (ByteSize::kib(64), false)] {
            let folder = tempfile::tempdir().unwrap();
            let options = StoreOptions::default().with_inline_limit(inline_limit);
            let mut writer = new_writer(&folder, options).await;
            writer.limits.safe_age = Duration::ZERO;
            writer.add_vertices("Person", &person(Some(1))).await.unwrap();

            let committed = writer.commit().await;
            assert_eq!(committed.is_err(), has_files, "{committed:?}");
            if let Err(error) = committed {
                assert!(matches!(error, Error::Conflict { .. }), "{error}");
                assert!(error.to_string().contains("its data files took so long"), "{error}");
            }

            writer.limits = AgeLimits::default();
            assert_eq!(writer.commit().await.unwrap(), 2, "the changes are still pending, or done");
        }
    }
}
