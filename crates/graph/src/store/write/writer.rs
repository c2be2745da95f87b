//! Writer of a store: takes batches, and commits them as one version or not at all.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_recursion::async_recursion as boxed;
use futures::FutureExt;
use stylobate_storage::SteadyInstant;

use super::{commit::CommitBuilder, gc::MIN_AGE, pending::PendingChanges, plan::MAX_LOOSE};
use crate::{
    Error, Result,
    store::{
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

/// Time since the writer last caught up with the log after which a commit lists it first: later records may have been
/// removed already.
const LIST_AFTER: Duration = Duration::from_secs(300);

/// Writer of a store. Its changes are invisible before a commit, and each commit is an atomic version.
///
/// If a store has several writers, the one created last wins: commits of the others fail with [`Error::Fenced`].
pub struct StoreWriter {
    store: GraphStore,
    /// Version that the next commit follows.
    pub(crate) head: Snapshot,
    seen: SteadyInstant,
    epoch: u64,
    pub(crate) pending: PendingChanges,
    /// State of `head`, with pending changes of the schema.
    pub(crate) record: VersionRecord,
    attempt: Option<CommitAttempt>,
    /// Ids of attempted commits with other contents, which may still succeed.
    in_doubt: Vec<String>,
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
        let mut head = self.refresh().await?;
        for _ in 0..ATTEMPTS {
            let before = head.record();
            let epoch = before.epoch + 1;
            let record = Arc::new(before.next("writer", epoch));
            match self.core().log.put(&record).await? {
                RecordPutOutcome::Done => {
                    let head = self.install(record).await;
                    return Ok(StoreWriter::new(self.clone(), head, epoch));
                }
                RecordPutOutcome::Taken(_) => head = self.refresh().await?,
            }
        }

        Err(Error::Conflict {
            object: self.core().log.name(head.version() + 1),
            reason: "others keep committing".to_owned(),
        })
    }
}

impl StoreWriter {
    pub(crate) fn new(store: GraphStore, head: Snapshot, epoch: u64) -> Self {
        let record = VersionRecord::clone(head.record());
        Self {
            store,
            seen: SteadyInstant::now(),
            epoch,
            pending: PendingChanges::default(),
            record,
            attempt: None,
            in_doubt: Vec::new(),
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
    /// [`Error::Schema`] if the change is invalid, with nothing changed.
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
        if let Some(attempt) = self.attempt.take() {
            self.in_doubt.push(attempt.record.commit.clone());
        }
    }

    /// Discards pending changes.
    pub fn rollback(&mut self) {
        self.touch();
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
    /// [`Error::Fenced`] if a later writer took over, [`Error::Conflict`] if other commits keep winning the race
    /// or an attempt that had been changed or discarded succeeded after all, and any error of the object store.
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
                    let begun = SteadyInstant::now();
                    let draft = CommitBuilder::new(&self.head, &self.pending, self.epoch, operation).await?;
                    let record =
                        Arc::new(VersionRecord { commit, ..draft.write_data(self.store.core()).await? });
                    self.attempt = Some(CommitAttempt { record: record.clone(), begun });
                    record
                }
            };

            if self.put(record).await? {
                self.done();
                return Ok(self.head.version());
            }
        }

        Err(self.overtaken())
    }

    /// Returns true if an attempted commit can be retried unchanged: it follows the current version, and its files
    /// have not been garbage-collected in the meantime.
    async fn can_be_put(&self, CommitAttempt { record, begun }: &CommitAttempt) -> Result<bool> {
        let is_young = begun.elapsed() < MIN_AGE / 2;
        if record.version != self.head.version() + 1 || !is_young {
            return Ok(false);
        }

        let known: Vec<&DataLocation> = self.head.record().locations().collect();
        for location in record.locations().filter(|location| !known.contains(location)) {
            if let DataLocation::File { path } = location
                && !self.store.core().folder.has(path).await?
            {
                return Ok(false);
            }
        }

        Ok(true)
    }

    /// Catches up with concurrent commits, before any pending change depends on what they replaced. A takeover by
    /// another writer is reported by the next commit.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        if !self.pending.is_empty() || self.attempt.is_some() || !self.in_doubt.is_empty() {
            return Ok(());
        }
        let known = self.head.version();
        match self.catch_up(false).await {
            Ok(_) | Err(Error::Fenced { .. }) => {}
            Err(error) => return Err(error),
        }

        if self.head.version() > known {
            self.record = VersionRecord::clone(self.head.record());
        }
        Ok(())
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
            if self.put(Arc::new(record)).await? {
                self.in_doubt.pop();
                self.record = VersionRecord::clone(self.head.record());
                return Ok(self.head.version());
            }
            self.in_doubt.pop();
        }

        Err(self.overtaken())
    }

    /// Catches up with other commits that did not fence this writer: from the versions known here, or from the log
    /// if this writer was idle for a long time or `asks` is set. Returns the version of the last attempt if it
    /// succeeded after all.
    async fn catch_up(&mut self, asks: bool) -> Result<Option<u64>> {
        let newest = if self.seen.elapsed() < LIST_AFTER && !asks {
            self.store.latest()
        } else {
            self.store.refresh().boxed().await?
        };
        self.seen = SteadyInstant::now();
        let known = self.head.version();
        if newest.version() <= known {
            return Ok(None);
        }

        let mut done = None;
        if self.attempt.is_some() || !self.in_doubt.is_empty() {
            for version in known + 1..=newest.version() {
                let record = self.store.core().log.read(version).await?;
                if self.attempt.as_ref().is_some_and(|attempt| attempt.record.commit == record.commit) {
                    // The attempt succeeded, regardless of later commits.
                    self.head = self.store.install(record).await;
                    done = Some(version);
                } else if self.in_doubt.contains(&record.commit) {
                    self.follow(record).await?;
                }
            }
        }

        match (done, self.follow(newest.record().clone()).await) {
            // The next commit reports it.
            (Some(_), Err(Error::Fenced { .. })) => Ok(done),
            (_, followed) => followed.map(|()| done),
        }
    }

    /// Puts a record, and returns true. If another commit won the race and is not a takeover, continues from it,
    /// and returns false.
    async fn put(&mut self, record: Arc<VersionRecord>) -> Result<bool> {
        match self.store.core().log.put(&record).await? {
            RecordPutOutcome::Done => {
                self.head = self.store.install(record).await;
                self.seen = SteadyInstant::now();
                Ok(true)
            }
            RecordPutOutcome::Taken(other) => self.follow(other).await.map(|()| false),
        }
    }

    async fn follow(&mut self, other: Arc<VersionRecord>) -> Result<()> {
        let object = self.store.core().log.name(other.version);
        if other.epoch > self.epoch {
            return Err(Error::Fenced { object, epoch: self.epoch, by: other.epoch });
        }
        let late = self.in_doubt.contains(&other.commit);
        if late || other.epoch < self.epoch {
            let reason = if late {
                "a commit that had been changed or given up was done after all: roll back, and look"
            } else {
                "the log goes back to an earlier writer"
            };
            let reason = reason.to_owned();
            self.head = self.store.install(other).await;
            return Err(Error::Conflict { object, reason });
        }

        self.head = self.store.install(other).await;
        Ok(())
    }

    fn overtaken(&self) -> Error {
        let object = self.store.core().log.name(self.head.version() + 1);
        Error::Conflict { object, reason: "others keep committing".to_owned() }
    }
}

impl std::fmt::Debug for StoreWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let epoch = self.epoch;
        let head = self.head.version();
        f.debug_struct("StoreWriter").field("epoch", &epoch).field("head", &head).finish_non_exhaustive()
    }
}
