//! Compaction: rewrites deltas, patches and deletions into bases, or merges them into few parts, type by type.
//!
//! Readers keep their versions. The writer continues too: commits during a rewrite are kept on top of the new files,
//! and their deletions are applied to the new files before these become part of a version. Its own merges leave the
//! deltas and patches that are being rewritten unchanged. A compaction that keeps losing the race for the next version
//! asks for a turn: writers look for such requests whenever they merge.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Deref,
    sync::Arc,
};

use async_recursion::async_recursion as boxed;
use object_store::path::Path;

use crate::{
    Result,
    store::{
        delta::deletion::{self, DeletionSet},
        graph_store::GraphStore,
        lease::Lease,
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
    /// Version whose deltas and patches stay unchanged, for a compaction of another process; 0 for none.
    kept: u64,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { share: SHARE, force: false, types: None, of_writer: false, kept: 0 }
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
    fn of_writer(kept: u64) -> Self {
        Self { of_writer: true, kept, ..Self::default() }
    }

    pub(crate) fn is_of_writer(&self) -> bool {
        self.of_writer
    }

    pub(crate) fn kept(&self) -> u64 {
        self.kept
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
    /// True if everything became one base; otherwise deltas became one delta, and patches one patch.
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
    /// A concurrent rewrite of the same type came first.
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
    /// Compacts types that would benefit, each in a version of its own. Files that earlier versions need are kept until
    /// [`Self::collect_garbage`]. Files of a compaction that lost a race are removed.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertexType`] if no type has a given name, and those of reading and writing. Types
    /// compacted before the error stay compacted.
    #[tracing::instrument(name = "store_compact", level = "debug", skip_all, fields(store = self.core().name()))]
    #[boxed]
    pub async fn compact(&self, options: &CompactOptions) -> Result<Vec<Compacted>> {
        self.compact_types(None, options).await
    }

    /// Merges the latest deltas of many commits, between two commits of a writer. Leaves those that another compaction
    /// is rewriting, and does nothing during a load. Returns requests of compactions of other processes for a pause.
    pub(crate) async fn tidy(&self) -> Result<Vec<Path>> {
        let lease = self.core().lease().await?;
        let tidied = self.tidy_under(&lease).await;
        lease.end().await;
        tidied
    }

    async fn tidy_under(&self, lease: &Lease) -> Result<Vec<Path>> {
        let others = lease.others(self.core()).await?;
        if !others.has_load {
            self.compact_types(Some(lease), &CompactOptions::of_writer(others.compacting)).await?;
        }
        Ok(others.turns)
    }

    /// Compacts under the lease of the caller, or under one for each type.
    async fn compact_types(&self, lease: Option<&Lease>, options: &CompactOptions) -> Result<Vec<Compacted>> {
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
        let mut compacted = Vec::new();
        let vertices: Vec<String> = record.vertices.iter().map(|state| state.schema.name.clone()).collect();
        for name in vertices.iter().filter(|name| is_wanted(name)) {
            for _ in 0..MAX_ATTEMPTS {
                match self.compact_vertices(lease, name, options).await? {
                    CompactionOutcome::Overtaken => continue,
                    CompactionOutcome::Done(done) => compacted.push(done),
                    CompactionOutcome::Nothing => {}
                }
                break;
            }
        }

        let edges: Vec<String> = record.edges.iter().map(|state| state.schema.full_name()).collect();
        for name in edges.iter().filter(|name| is_wanted(name)) {
            for _ in 0..MAX_ATTEMPTS {
                match self.compact_edges(lease, name, options).await? {
                    CompactionOutcome::Overtaken => continue,
                    CompactionOutcome::Done(done) => compacted.push(done),
                    CompactionOutcome::Nothing => {}
                }
                break;
            }
        }

        Ok(compacted)
    }

    /// Returns true if no compaction between two versions replaced parts of the earlier one, so that the later one
    /// still has them, except for deltas whose rows were all deleted. Reads one record per compaction.
    pub(crate) async fn is_untouched(&self, from: &Snapshot, to: &Snapshot) -> Result<bool> {
        let from = from.version();
        let mut record = to.record().clone();
        while record.version > from {
            let before = match record.compaction {
                Some(last) if last.version <= from => return Ok(true),
                Some(last) if last.kept < from => return Ok(false),
                Some(last) => last.version - 1,
                None if record.operation == OPERATION => return Ok(false),
                None => record.version - 1,
            };
            record = self.core().log.read(before).await?;
        }
        Ok(true)
    }

    /// Reads the record of the version whose deltas and patches stay unchanged; `None` if there is no such version.
    pub(crate) async fn kept(
        &self,
        options: &CompactOptions,
        from: &Snapshot,
    ) -> Result<Option<Arc<VersionRecord>>> {
        Ok(match options.kept {
            0 => None,
            version if version == from.version() => Some(from.record().clone()),
            version => Some(self.core().log.read(version).await?),
        })
    }

    /// Returns the lease of the caller, or takes one for compacting a type of this version.
    pub(crate) async fn compaction_lease<'a>(
        &self,
        held: Option<&'a Lease>,
        from: &Snapshot,
    ) -> Result<CompactionLease<'a>> {
        Ok(match held {
            Some(lease) => CompactionLease::OfWriter(lease),
            None => CompactionLease::OfType(self.core().compaction_lease(from.version()).await?),
        })
    }
}

/// Lease of the compaction of a type.
pub(crate) enum CompactionLease<'a> {
    /// Held by a writer for all types.
    OfWriter(&'a Lease),
    OfType(Lease),
}

impl Deref for CompactionLease<'_> {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        match self {
            Self::OfWriter(lease) => lease,
            Self::OfType(lease) => lease,
        }
    }
}

impl CompactionLease<'_> {
    /// Releases a lease that was taken for this type.
    pub(crate) async fn end(self) {
        if let Self::OfType(lease) = self {
            lease.end().await;
        }
    }
}

/// Returns the number of the first elements of a version that are among those of an earlier one.
pub(crate) fn common<T>(earlier: &[T], later: &[T], at: impl Fn(&T) -> &DataLocation) -> usize {
    let known: HashSet<&DataLocation> = earlier.iter().map(&at).collect();
    later.iter().take_while(|one| known.contains(at(one))).count()
}

/// Returns the record of a compaction that follows a version. It keeps the deltas and patches of version `kept`.
pub(crate) fn next(head: &Snapshot, kept: u64) -> VersionRecord {
    let before = head.record();
    let mut record = before.next(OPERATION, before.epoch);
    record.compaction = Some(LastCompaction { version: record.version, kept });
    record
}

impl StoreCore {
    /// Writes a set of deletions to a file.
    pub(crate) async fn write_deleted(&self, deleted: &DeletionSet) -> Result<DataLocation> {
        let bytes = deleted.to_bytes();
        let path = deletion::write(self.log.sinks(), &self.log.destination(), bytes).await?;
        Ok(DataLocation::File { path })
    }

    /// Removes a file that did not become part of a version, ignoring errors.
    pub(crate) async fn give_up_file(&self, location: &DataLocation) {
        let DataLocation::File { path } = location else { return };
        if let Err(error) = crate::store::base::write::remove_file(&self.log.destination(), path).await {
            tracing::warn!(path, %error, "file of a compaction that others overtook not removed");
        }
    }
}
