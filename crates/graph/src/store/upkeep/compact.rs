//! Compaction: rewrites deltas, patches and deletions into bases, or merges them into few parts, type by type.
//!
//! Readers keep their versions. The writer continues too: commits during a rewrite are kept on top of the new files,
//! and their deletions are applied to the new files before these become part of a version. Its own merges do not touch
//! deltas and patches that are being rewritten. A compaction that keeps losing the race for the next version requests a
//! turn: writers look for such requests every few dozen commits.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_recursion::async_recursion as boxed;

use crate::{
    Error, Result,
    store::{
        delta::deletion::{self, DeletionSet},
        graph_store::GraphStore,
        lease::{Lease, TurnRequest},
        log::record::{DataLocation, LastCompaction, VersionRecord},
        opened::StoreCore,
        snapshot::Snapshot,
        write::plan::{CompactionAction, CompactionStats},
    },
};

/// Maximum attempts of a rewrite that loses races to concurrent rewrites of the same type.
const MAX_ATTEMPTS: u32 = 3;
/// Operation of compactions in records.
pub(crate) const OPERATION: &str = "compact";
/// Default share of changed rows from which bases are rewritten.
const SHARE: f64 = 0.2;

/// Options of a compaction.
#[derive(Clone, Debug)]
pub struct CompactOptions {
    share: f64,
    force: bool,
    types: Option<Vec<String>>,
    /// True for a writer's compaction between its commits.
    of_writer: bool,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { share: SHARE, force: false, types: None, of_writer: false }
    }
}

impl CompactOptions {
    /// Sets the share of rows from which bases are rewritten: rows of deltas, and rows of bases that were deleted or
    /// updated, relative to all rows of bases. Default: 0.2.
    pub fn with_share(mut self, share: f64) -> Self {
        self.share = share.max(0.0);
        self
    }

    /// Rewrites every type that is not a single base already. Default: false.
    pub fn with_force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Restricts compaction to these types of vertices and edges. Default: all.
    pub fn with_types<S: Into<String>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        self.types = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the options of a writer's compaction between its commits.
    fn of_writer() -> Self {
        Self { of_writer: true, ..Self::default() }
    }

    pub(crate) fn is_of_writer(&self) -> bool {
        self.of_writer
    }

    pub(crate) fn plan(&self, parts: CompactionStats) -> CompactionAction {
        if self.of_writer { parts.plan_of_writer() } else { parts.plan(self.share, self.force) }
    }
}

/// Compaction result of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// Vertex type, or full name of the edge type.
    pub of: String,
    /// Version of the compaction.
    pub version: u64,
    /// True if everything became one base; otherwise deltas and patches were merged into few.
    pub rewritten: bool,
    /// Number of rows written.
    pub rows: u64,
    /// Bytes of bases written.
    pub bytes: u64,
}

/// Outcome of one attempt.
pub(crate) enum CompactionOutcome {
    Nothing,
    Done(Compacted),
    /// A concurrent rewrite of the same type won the race.
    Overtaken,
}

impl CompactionOutcome {
    /// Returns the result of a rewrite of a type to one base.
    pub(crate) fn rewritten(of: &str, version: u64, rows: u64, bytes: u64) -> Self {
        Self::Done(Compacted { of: of.to_owned(), version, rewritten: true, rows, bytes })
    }

    /// Returns the result of a merge of a type's parts.
    pub(crate) fn merged(of: &str, version: u64, rows: u64) -> Self {
        Self::Done(Compacted { of: of.to_owned(), version, rewritten: false, rows, bytes: 0 })
    }
}

impl GraphStore {
    /// Compacts types that would benefit, each in a separate version. Files that earlier versions need are kept
    /// until [`Self::collect_garbage`]. Files of a compaction that lost a race are removed.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchVertexType`] if no type has a given name, [`Error::Conflict`] if other commits or
    /// compactions keep winning the race, and errors of reading and writing. Types compacted before the error stay
    /// compacted.
    #[tracing::instrument(name = "store_compact", level = "debug", skip_all, fields(store = self.core().name()))]
    #[boxed]
    pub async fn compact(&self, options: &CompactOptions) -> Result<Vec<Compacted>> {
        let mut lease = CompactionLease::OfTypes(None);
        let compacted = self.compact_types(&mut lease, options).await;
        lease.end().await;
        compacted
    }

    /// Merges the latest deltas of many commits, between two commits of a writer. Does not touch those that another
    /// compaction is rewriting, and does nothing during a load. If a merge fails, its deltas remain. Returns requests
    /// of compactions for a pause.
    pub(crate) async fn tidy(&self) -> Result<Vec<TurnRequest>> {
        let mut lease = CompactionLease::OfWriter(self.core().lease().await?);
        if let Err(error) = self.compact_types(&mut lease, &CompactOptions::of_writer()).await {
            tracing::warn!(%error, "what commits left behind was not merged");
        }
        lease.end().await;
        self.core().turn_requests().await
    }

    async fn compact_types(
        &self,
        lease: &mut CompactionLease,
        options: &CompactOptions,
    ) -> Result<Vec<Compacted>> {
        let head = self.refresh().await?;
        let record = head.record();
        let mut wanted: Option<BTreeSet<String>> = None;
        for name in options.types.iter().flatten() {
            let found = match record.edge_type(name) {
                Ok(at) => record.edges.get(at).map(|state| state.schema.full_name()),
                Err(_) => record.vertex_type(name).map(|_| Some(name.clone()))?,
            };
            wanted.get_or_insert_default().extend(found);
        }

        let is_wanted =
            |name: &String| options.types.is_none() || wanted.iter().flatten().any(|one| one == name);
        let vertices = record.vertices.iter().map(|state| (true, state.schema.name.clone()));
        let edges = record.edges.iter().map(|state| (false, state.schema.full_name()));
        let mut compacted = Vec::new();
        for (is_vertex, name) in vertices.chain(edges).filter(|(_, name)| is_wanted(name)) {
            compacted.extend(self.compact_type(lease, is_vertex, &name, options).await?);
        }

        Ok(compacted)
    }

    /// Compacts a type, again if another compaction replaces what it rewrites. Returns `None` if there is nothing
    /// to do.
    async fn compact_type(
        &self,
        lease: &mut CompactionLease,
        is_vertex: bool,
        name: &str,
        options: &CompactOptions,
    ) -> Result<Option<Compacted>> {
        for _ in 0..MAX_ATTEMPTS {
            let outcome = if is_vertex {
                self.compact_vertices(lease, name, options).await?
            } else {
                self.compact_edges(lease, name, options).await?
            };
            match outcome {
                CompactionOutcome::Nothing => return Ok(None),
                CompactionOutcome::Done(done) => return Ok(Some(done)),
                CompactionOutcome::Overtaken => {}
            }
        }
        let reason = format!("other compactions replaced parts of {name} meanwhile, {MAX_ATTEMPTS} times");
        Err(Error::Conflict { object: self.core().name(), reason })
    }

    /// Returns true if no compaction of the type `name` up to a version replaced parts of an earlier one, so that the
    /// later one still has them, except for deltas whose rows were all deleted. Reads one record per compaction that
    /// was not checked before.
    pub(crate) async fn is_untouched(
        &self,
        name: &str,
        earlier: &EarlierVersion,
        later: &Snapshot,
    ) -> Result<bool> {
        let checked = earlier.checked.load(Ordering::Relaxed);
        let mut record = later.record().clone();
        while record.version > checked {
            let before = match &record.compaction {
                Some(last) if last.version <= checked => break,
                Some(last) if last.may_replace(name, earlier.version) => return Ok(false),
                Some(last) => last.version - 1,
                None if record.operation == OPERATION => return Ok(false),
                None => record.version - 1,
            };
            record = match self.core().log.read(before).await {
                Ok(record) => record,
                // It was garbage-collected in the meantime.
                Err(Error::Missing { .. }) => return Ok(false),
                Err(error) => return Err(error),
            };
        }

        earlier.checked.fetch_max(later.version(), Ordering::Relaxed);
        Ok(true)
    }

    /// Reads the record of the version whose deltas and patches a merge does not touch; `None` for version 0.
    pub(crate) async fn kept(&self, version: u64) -> Result<Option<Arc<VersionRecord>>> {
        Ok(match version {
            0 => None,
            version => Some(self.core().log.read(version).await?),
        })
    }
}

/// Version whose parts a compaction rewrites.
pub(crate) struct EarlierVersion {
    version: u64,
    /// Version up to which no compaction replaced its parts.
    checked: AtomicU64,
}

impl EarlierVersion {
    pub(crate) fn new(version: &Snapshot) -> Self {
        let version = version.version();
        Self { version, checked: AtomicU64::new(version) }
    }
}

/// Lease of a compaction.
pub(crate) enum CompactionLease {
    /// Lease of a writer's merges.
    OfWriter(Lease),
    /// Lease of the type that was compacted last. It is held until there is one for the next type or attempt, so that
    /// writers always find one.
    OfTypes(Option<Lease>),
}

/// Lease of the compaction of a type.
pub(crate) struct TypeLease<'a> {
    pub(crate) lease: &'a Lease,
    /// Version whose deltas and patches must not be touched, because another compaction is rewriting them; 0 for none.
    pub(crate) kept: u64,
}

impl CompactionLease {
    /// Takes a lease for compacting a type of this version. Returns `None` if a writer must not merge now.
    pub(crate) async fn of_type(&mut self, core: &StoreCore, version: u64) -> Result<Option<TypeLease<'_>>> {
        match self {
            Self::OfWriter(lease) => {
                let others = lease.others(core).await?;
                Ok((!others.has_load).then_some(TypeLease { lease, kept: others.compacting }))
            }
            Self::OfTypes(held) => {
                let new = core.compaction_lease(version).await?;
                if let Some(last) = held.take() {
                    last.end().await;
                }
                Ok(Some(TypeLease { lease: held.insert(new), kept: 0 }))
            }
        }
    }

    /// Releases the lease.
    async fn end(self) {
        if let Self::OfWriter(lease) | Self::OfTypes(Some(lease)) = self {
            lease.end().await;
        }
    }
}

/// Returns true if a version was certainly not committed, so that its files can be removed.
pub(crate) fn was_not_committed(published: &Result<Option<Snapshot>>) -> bool {
    matches!(published, Ok(None) | Err(Error::Conflict { .. }))
}

/// Returns how many leading elements of a later version also exist in an earlier one.
pub(crate) fn common<T>(earlier: &[T], later: &[T], at: impl Fn(&T) -> &DataLocation) -> usize {
    let known: HashSet<&DataLocation> = earlier.iter().map(&at).collect();
    later.iter().take_while(|one| known.contains(at(one))).count()
}

/// Returns the record of a compaction of the type `name` that follows a version. It keeps the deltas and patches of
/// version `kept`.
pub(crate) fn next(head: &Snapshot, name: &str, kept: u64) -> VersionRecord {
    let before = head.record();
    let mut record = before.next(OPERATION, before.epoch);
    record.compaction = Some(LastCompaction { version: record.version, kept, of: Some(name.to_owned()) });
    record
}

impl StoreCore {
    /// Writes a set of deletions to a file, and adds it to `files`.
    pub(crate) async fn write_deleted(
        &self,
        deleted: &DeletionSet,
        files: &mut Vec<DataLocation>,
    ) -> Result<DataLocation> {
        let bytes = deleted.to_bytes();
        let path = deletion::write(self.log.sinks(), &self.log.destination(), bytes).await?;
        let location = DataLocation::File { path };
        files.push(location.clone());
        Ok(location)
    }

    /// Removes a file that did not become part of a version, ignoring errors.
    pub(crate) async fn give_up_file(&self, location: &DataLocation) {
        let DataLocation::File { path } = location else { return };
        if let Err(error) = crate::store::base::write::remove_file(&self.log.destination(), path).await {
            tracing::warn!(path, %error, "file of a compaction that others overtook not removed");
        }
    }
}
