//! The writer of a store: takes batches, and commits them as one version or not at all.

use std::{sync::Arc, time::Duration};

use async_recursion::async_recursion as boxed;
use futures::FutureExt;
use stylobate_storage::SteadyInstant;

use super::{commit::CommitBuilder, gc::LEAST_AGE, pending::PendingChanges, plan::MOST_LOOSE};
use crate::{
    Error, Result,
    store::{
        graph_store::{ATTEMPTS, GraphStore},
        log::{
            RecordPutOutcome,
            record::{DataLocation, VersionRecord},
        },
        names::uuid7,
        schema::SchemaChange,
        snapshot::Snapshot,
    },
};

/// The log is listed before a commit that follows on a version this old: the records behind it may be gone already.
const LIST_AFTER: Duration = Duration::from_secs(300);

/// Takes changes to a store and commits them. What it was given is seen by nobody before it is committed, and what it
/// commits is a version: all of it, or nothing.
///
/// Where a store has several writers, the last one that was made is the writer: commits of the others fail with
/// [`Error::Fenced`].
pub struct StoreWriter {
    store: GraphStore,
    /// The version that the next commit follows.
    pub(crate) head: Snapshot,
    seen: SteadyInstant,
    epoch: u64,
    pub(crate) pending: PendingChanges,
    /// The state with pending changes of the schema.
    pub(crate) record: VersionRecord,
    attempt: Option<CommitAttempt>,
    /// Commits that were tried with other contents, and may still be done.
    in_doubt: Vec<String>,
    /// The version after which it last merged what commits had left behind, or tried to.
    tidied: u64,
}

/// A commit that was tried: to be tried again as it is.
struct CommitAttempt {
    record: Arc<VersionRecord>,
    /// Before its files were written.
    begun: SteadyInstant,
}

impl GraphStore {
    /// Becomes the writer: whoever was it is fenced from now on. One commit.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] where others keep committing meanwhile.
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
            head,
        }
    }

    /// The store that it writes to.
    pub fn store(&self) -> &GraphStore {
        &self.store
    }

    /// The version that the next commit follows: what was committed, and nothing that was not.
    pub fn snapshot(&self) -> &Snapshot {
        &self.head
    }

    /// Which writer it is: each one's number is greater than those before.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether there is something to commit.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Lets the schema grow, with the next commit: what it adds can be written from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] where that cannot be, with nothing changed.
    pub fn alter(&mut self, changes: impl IntoIterator<Item = SchemaChange>) -> Result<()> {
        let changes: Vec<SchemaChange> = changes.into_iter().collect();
        let mut altered = self.record.clone();
        altered.alter_all(&changes)?;
        self.touch();
        self.record = altered;
        self.pending.changes.extend(changes);
        Ok(())
    }

    /// What is pending changed: what was tried before is another commit.
    pub(crate) fn touch(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.in_doubt.push(attempt.record.commit.clone());
        }
    }

    /// Gives up whatever is pending.
    pub fn rollback(&mut self) {
        self.touch();
        self.pending = PendingChanges::default();
        self.record = VersionRecord::clone(self.head.record());
    }

    /// Commits what is pending as a version, and returns its number; without anything pending that of the last one.
    /// A small commit is one request; after some dozens of them the latest are merged, as [`GraphStore::compact`] would
    /// merge them, so that the log and what is asked stay short. After an error nothing of it is visible and all of it
    /// is still pending: commit again, add to it, or [`Self::rollback`].
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] where a later writer took over, [`Error::Conflict`] where an attempt that had been changed or
    /// given up was done after all, and whatever the object store says.
    #[boxed]
    pub async fn commit(&mut self) -> Result<u64> {
        // Boxed, so that this is compiled once and not into each caller.
        let version = self.commit_as("write").boxed().await?;
        if self.head.record().loose() >= MOST_LOOSE && version >= self.tidied + MOST_LOOSE as u64 {
            self.tidied = version;
            if let Err(error) = self.store.tidy().boxed().await {
                tracing::warn!(%error, "what commits left behind was not merged");
            }
        }
        Ok(version)
    }

    async fn commit_as(&mut self, operation: &str) -> Result<u64> {
        if self.pending.is_empty() {
            return Ok(self.head.version());
        }
        for attempt in 0..ATTEMPTS {
            // Who lost one race finds there what came first; who lost another asks what else came.
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
                    let record = Arc::new(VersionRecord { commit, ..draft.place(self.store.core()).await? });
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

    /// Whether a commit that was tried can be tried as it is: it follows what is there now, and nobody took its files for
    /// garbage meanwhile.
    async fn can_be_put(&self, CommitAttempt { record, begun }: &CommitAttempt) -> Result<bool> {
        let is_young = begun.elapsed() < LEAST_AGE / 2;
        if record.version != self.head.version() + 1 || !is_young {
            return Ok(false);
        }
        let known: Vec<&DataLocation> = self.head.record().locations().collect();
        for location in record.locations().filter(|location| !known.contains(location)) {
            if let DataLocation::File { path } = location
                && !self.store.core().place.has(path).await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes on from what others committed meanwhile, before anything is pending that rests on what they replaced. That
    /// another writer took over is for the next commit to say.
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

    /// What was pending is committed.
    fn done(&mut self) {
        self.attempt = None;
        self.pending = PendingChanges::default();
        self.record = VersionRecord::clone(self.head.record());
    }

    /// Commits a state that somebody else makes of the newest one, such as that of a bulk load. Nothing may be pending.
    ///
    /// # Errors
    ///
    /// Those of `change` and of [`Self::commit`].
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
            if attempt != 1 {
                self.catch_up(attempt > 1).await?;
            }
            let record = change(self.head.clone(), self.head.record().next(operation, self.epoch)).await?;
            // A failure may hide that it was done: then this writer's next commit finds it.
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

    /// Follows what others committed without being writers: what is known here, or where this writer did nothing for
    /// long or `asks`, what the log says. Returns the version as which the last attempt was done after all, if it was.
    async fn catch_up(&mut self, asks: bool) -> Result<Option<u64>> {
        let newest = match self.seen.elapsed() < LIST_AFTER && !asks {
            true => self.store.latest(),
            false => self.store.refresh().boxed().await?,
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
                    // Whoever came after it, it was done.
                    self.head = self.store.install(record).await;
                    done = Some(version);
                } else if self.in_doubt.contains(&record.commit) {
                    self.follow(record).await?;
                }
            }
        }
        match (done, self.follow(newest.record().clone()).await) {
            // The next commit is told.
            (Some(_), Err(Error::Fenced { .. })) => Ok(done),
            (_, followed) => followed.map(|()| done),
        }
    }

    /// Puts a record; where another one came first that leaves this writer its place, goes on from there.
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
            let reason = match late {
                true => "a commit that had been changed or given up was done after all: roll back, and look",
                false => "the log goes back to an earlier writer",
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
        let (epoch, head) = (self.epoch, self.head.version());
        f.debug_struct("StoreWriter").field("epoch", &epoch).field("head", &head).finish_non_exhaustive()
    }
}
