//! Open store: its newest known version, and access to others.

use std::{collections::HashSet, future::ready, sync::Arc, time::Duration};

use async_recursion::async_recursion as boxed;
use futures::future::BoxFuture;
use parking_lot::RwLock;
use stylobate_columnar::{Cache, Source};
use tokio::{sync::MutexGuard, time::Instant};

use super::{
    lease::{Lease, TurnRequest},
    log::{
        RecordPutOutcome,
        entry::LogEntry,
        record::{DataLocation, FORMAT, LastCompaction, VersionRecord},
    },
    names::{now_ms, uuid7},
    opened::StoreCore,
    options::StoreOptions,
    schema::{SchemaChange, StoreSchema},
    snapshot::Snapshot,
};
use crate::{
    Error, Result,
    graphar::{GraphFolder, Strictness},
};

/// Maximum attempts of a commit that keeps losing races to others; a compaction may make more within
/// [`MIN_TRYING`].
pub(super) const ATTEMPTS: u32 = 32;
/// Attempts of a compaction before writers are asked to wait for it.
const FAIR_ATTEMPTS: u32 = 4;
/// Minimum time for which a compaction keeps trying: writers of other processes check leases only every few dozen
/// commits.
const MIN_TRYING: Duration = Duration::from_secs(60);
/// Maximum time between two attempts of a compaction.
const MAX_PAUSE: Duration = Duration::from_millis(200);
/// Maximum time for which a writer waits for a compaction of another process.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Open graph store. Cheap to clone; clones share everything.
///
/// A store is a folder or a prefix of a bucket: immutable files, and a log whose records list the files of each
/// version. Any number of processes may read it; only one writes, the last that called [`Self::writer`].
#[derive(Clone)]
pub struct GraphStore {
    inner: Arc<GraphStoreInner>,
}

struct GraphStoreInner {
    core: Arc<StoreCore>,
    latest: RwLock<Snapshot>,
}

impl GraphStore {
    /// Creates a store without vertices in a folder or a prefix of a bucket, as its version 0, and opens it.
    ///
    /// # Errors
    ///
    /// [`Error::StoreExists`]; [`Error::Schema`] if the schema is invalid; [`Error::Unwritable`] if GraphAr cannot
    /// represent a type or a property, so that the store could not be compacted.
    pub fn create(
        cache: &Cache,
        source: impl Into<Source>,
        schema: StoreSchema,
        options: StoreOptions,
    ) -> BoxFuture<'static, Result<Self>> {
        match open_folder(cache, source) {
            Ok(folder) => Self::create_at(folder, schema, options),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    #[tracing::instrument(name = "store_create", level = "debug", skip_all, fields(store = folder.name("")))]
    #[boxed]
    async fn create_at(folder: GraphFolder, schema: StoreSchema, options: StoreOptions) -> Result<Self> {
        let core = Arc::new(StoreCore::new(folder, options)?);
        let mut record = VersionRecord {
            format: FORMAT,
            version: 0,
            epoch: 0,
            commit: uuid7(),
            time_ms: now_ms(),
            operation: "create".to_owned(),
            compaction: Some(LastCompaction::default()),
            vertices: Vec::new(),
            edges: Vec::new(),
            inline: Vec::new(),
        };

        let vertices = schema.vertices.into_iter().map(SchemaChange::AddVertexType);
        for change in vertices.chain(schema.edges.into_iter().map(SchemaChange::AddEdgeType)) {
            record.alter(change)?;
        }
        // The first records of an existing store may have been removed: list the log to find later ones.
        if !core.log.list(None).await?.is_empty() {
            return Err(Error::StoreExists { store: core.name() });
        }

        let record = Arc::new(record);
        match core.log.put(&record).await? {
            RecordPutOutcome::Done => Ok(Self::over(core, record)),
            RecordPutOutcome::Taken(_) => Err(Error::StoreExists { store: core.name() }),
        }
    }

    /// Opens the newest version of a store. Costs a listing and a read.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchStore`]; [`Error::Data`] if the record is invalid.
    pub fn open(
        cache: &Cache,
        source: impl Into<Source>,
        options: StoreOptions,
    ) -> BoxFuture<'static, Result<Self>> {
        match open_folder(cache, source) {
            Ok(folder) => Self::open_at(folder, options),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    #[tracing::instrument(name = "store_open", level = "debug", skip_all, fields(store = folder.name("")))]
    #[boxed]
    async fn open_at(folder: GraphFolder, options: StoreOptions) -> Result<Self> {
        let core = Arc::new(StoreCore::new(folder, options)?);
        let nothing =
            || Error::NoSuchStore { store: core.name(), reason: "there is no graph store".to_owned() };
        let newest = core.log.list(None).await?.pop().ok_or_else(nothing)?;
        let record = core.log.read(newest.version).await?;
        Ok(Self::over(core, record))
    }

    fn over(core: Arc<StoreCore>, record: Arc<VersionRecord>) -> Self {
        let latest = RwLock::new(Snapshot::new(core.clone(), record));
        Self { inner: Arc::new(GraphStoreInner { core, latest }) }
    }

    pub(crate) fn core(&self) -> &Arc<StoreCore> {
        &self.inner.core
    }

    /// Returns the newest version known here, without I/O.
    pub fn latest(&self) -> Snapshot {
        self.inner.latest.read().clone()
    }

    /// Opens a version: the newest known here, or another that is still kept.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchStore`] if the version is not kept.
    #[boxed]
    pub async fn snapshot(&self, version: Option<u64>) -> Result<Snapshot> {
        let latest = self.latest();
        let Some(version) = version.filter(|version| *version != latest.version()) else { return Ok(latest) };

        // Pinned before it is read: the record of a version that is being removed may still be in memory.
        let Some(_pin) = self.core().live.pin(version) else { return Err(self.not_kept(version)) };
        match self.core().log.read(version).await {
            Ok(record) => Ok(Snapshot::new(self.core().clone(), record)),
            Err(Error::Missing { .. }) => Err(self.not_kept(version)),
            Err(error) => Err(error),
        }
    }

    fn not_kept(&self, version: u64) -> Error {
        let reason = format!("there is no version {version}, or it is not kept any more");
        Error::NoSuchStore { store: self.core().name(), reason }
    }

    /// Looks for newer versions. Costs a listing, and a read if there is one.
    #[tracing::instrument(name = "store_refresh", level = "debug", skip_all, fields(store = self.core().name()))]
    #[boxed]
    pub async fn refresh(&self) -> Result<Snapshot> {
        let known = self.latest();
        if let Some(newest) = self.core().log.list(Some(known.version())).await?.pop() {
            let record = self.core().log.read(newest.version).await?;
            self.install(record).await;
        }
        Ok(self.latest())
    }

    /// Installs a newer version as the latest known one. Open versions stay open.
    pub(super) async fn install(&self, record: Arc<VersionRecord>) -> Snapshot {
        let before = self.latest();
        let next = Snapshot::new(self.core().clone(), record);
        next.open_as(&before).await;
        let mut latest = self.inner.latest.write();
        if next.version() > latest.version() {
            *latest = next.clone();
        }
        next
    }

    /// Returns the log entries of the kept versions, oldest first.
    #[boxed]
    pub async fn log(&self) -> Result<Vec<LogEntry>> {
        use futures::{StreamExt, TryStreamExt};
        let listed = self.core().log.list(None).await?;
        let read = listed.into_iter().map(|one| async move {
            self.core().log.read(one.version).await.map(|record| LogEntry::of(&record))
        });
        futures::stream::iter(read).buffered(16).try_collect().await
    }

    /// Waits for a compaction that keeps losing races to commits of this process.
    pub(super) async fn let_others_commit(&self) {
        drop(self.core().priority.lock().await);
    }

    /// Waits until no compaction requests a turn, for a few seconds at most. Returns the requests that are left.
    pub(super) async fn let_other_processes_commit(
        &self,
        ignored: &HashSet<TurnRequest>,
    ) -> Result<Vec<TurnRequest>> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(5);
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
            let mut turns = self.core().turn_requests().await?;
            turns.retain(|turn| !ignored.contains(turn));
            if turns.is_empty() || begun.elapsed() >= MAX_WAIT {
                return Ok(turns);
            }
        }
    }

    /// Commits a change without becoming the writer: it fences no writer, and keeps indexes unchanged. `change`
    /// gets the newest version and returns the state of the next one ([`VersionRecord::next`] with other parts),
    /// or `None` if there is nothing to do; it is called again if another commit won the race. After a few lost
    /// races, commits of this process wait for it, and writers of other processes are asked to pause.
    ///
    /// # Errors
    ///
    /// Errors of `change`, and [`Error::Conflict`] if other commits keep winning the race: nothing was committed.
    pub(super) async fn publish<F>(
        &self,
        lease: &Lease,
        change: impl FnMut(Snapshot) -> F,
    ) -> Result<Option<Snapshot>>
    where
        F: Future<Output = Result<Option<PendingVersion>>>,
    {
        let mut turn = None;
        let published = self.try_publish(lease, change, &mut turn).await;
        if let Some(Turn { request: Some(request), .. }) = turn {
            request.end().await;
        }
        match published? {
            Some(record) => Ok(Some(self.install(record).await)),
            None => Ok(None),
        }
    }

    async fn try_publish<'a, F>(
        &'a self,
        lease: &Lease,
        mut change: impl FnMut(Snapshot) -> F,
        turn: &mut Option<Turn<'a>>,
    ) -> Result<Option<Arc<VersionRecord>>>
    where
        F: Future<Output = Result<Option<PendingVersion>>>,
    {
        let mut head = self.refresh().await?;
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        for attempt in 1.. {
            let Some(PendingVersion { record, files }) = change(head.clone()).await? else { return Ok(None) };
            let record = Arc::new(record);
            lease.check()?;
            if matches!(self.core().log.put(&record).await?, RecordPutOutcome::Done) {
                return Ok(Some(record));
            }

            for file in &files {
                self.core().give_up_file(file).await;
            }
            if attempt >= ATTEMPTS && begun.elapsed() >= MIN_TRYING {
                break;
            }
            if attempt >= FAIR_ATTEMPTS {
                match turn {
                    None => *turn = Some(self.take_turn().await),
                    Some(turn) => turn.wait(pause).await,
                }
                pause = (pause * 2).min(MAX_PAUSE);
            }
            head = self.refresh().await?;
        }

        Err(Error::Conflict {
            object: self.core().log.name(head.version() + 1),
            reason: "others keep committing".to_owned(),
        })
    }

    /// Makes commits of this process wait, and asks writers of other processes to pause.
    async fn take_turn(&self) -> Turn<'_> {
        let priority = self.core().priority.lock().await;
        let request = self.core().request_turn().await;
        let request =
            request.inspect_err(|error| tracing::warn!(%error, "writers were not asked to pause")).ok();
        Turn { request, _priority: priority }
    }
}

/// Version that is not committed yet.
pub(super) struct PendingVersion {
    pub(super) record: VersionRecord,
    /// Files that only this version needs.
    pub(super) files: Vec<DataLocation>,
}

/// Held by a compaction that keeps losing races, until its version is committed.
struct Turn<'a> {
    request: Option<Lease>,
    _priority: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    /// Waits before the next attempt, and shows writers that there will be one.
    async fn wait(&self, pause: Duration) {
        tokio::time::sleep(pause).await;
        if let Some(request) = &self.request {
            request.touch().await;
        }
    }
}

impl std::fmt::Debug for GraphStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let latest = self.latest();
        f.debug_struct("GraphStore")
            .field("store", &self.core().name())
            .field("version", &latest.version())
            .finish()
    }
}

/// Opens the folder of a store.
fn open_folder(cache: &Cache, source: impl Into<Source>) -> Result<GraphFolder> {
    let (store, path) = source.into().literal(cache)?;
    let slash = if path.as_ref().is_empty() { "" } else { "/" };
    Ok(GraphFolder {
        cache: cache.clone(),
        store,
        base: format!("{path}{slash}"),
        strictness: Strictness::Tolerant,
    })
}
