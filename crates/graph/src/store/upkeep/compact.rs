//! Compaction: what commits left behind in deltas, patches and deletions becomes bases again, or few parts, type by type.
//!
//! Readers go on with what they have. The writer goes on too: what it commits while files are rewritten stays on top of
//! them, and what it deletes meanwhile is looked for in the new files before they become part of a version.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;

use crate::{
    Result,
    store::{
        delta::deletion::{self, DeletionSet},
        graph_store::GraphStore,
        lease::{self, Lease},
        log::record::{DataLocation, VersionRecord},
        opened::StoreCore,
        snapshot::Snapshot,
        write::plan::{CompactionAction, CompactionStats},
    },
};

/// Rewrites that are tried again where others rewrote the same meanwhile.
const TRIES: u32 = 3;
/// What records say that a compaction did.
pub(crate) const OPERATION: &str = "compact";
/// How much of the rows of bases may have changed.
const SHARE: f64 = 0.2;

/// What is compacted.
#[derive(Clone, Debug)]
pub struct CompactOptions {
    share: f64,
    force: bool,
    types: Option<Vec<String>>,
    /// Whether a writer tidies up between its commits.
    of_writer: bool,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { share: SHARE, force: false, types: None, of_writer: false }
    }
}

impl CompactOptions {
    /// Bases are rewritten where rows of deltas, and rows of bases that were deleted or updated, are this share of them.
    /// Default: 0.2.
    pub fn with_share(mut self, share: f64) -> Self {
        self.share = share.max(0.0);
        self
    }

    /// All that is not one base already is rewritten. Default: no.
    pub fn with_force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Only these types of vertices and edges. Default: all.
    pub fn with_types<S: Into<String>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        self.types = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// What a writer does between its commits.
    fn of_writer() -> Self {
        Self { of_writer: true, ..Self::default() }
    }

    pub(crate) fn is_of_writer(&self) -> bool {
        self.of_writer
    }

    pub(crate) fn plan(&self, parts: CompactionStats) -> CompactionAction {
        match self.of_writer {
            true => parts.plan_of_writer(),
            false => parts.plan(self.share, self.force),
        }
    }
}

/// What was compacted of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The type of vertices, or the full name of the type of edges.
    pub of: String,
    /// The version since which it is so.
    pub version: u64,
    /// Whether all became one base; otherwise deltas became one delta, and patches one patch.
    pub rewritten: bool,
    /// Rows that were written.
    pub rows: u64,
    /// Bytes of bases that were written.
    pub bytes: u64,
}

/// What came of one try.
pub(crate) enum CompactionOutcome {
    Nothing,
    Done(Compacted),
    /// Somebody else rewrote the same meanwhile.
    Overtaken,
}

impl CompactionOutcome {
    /// Parts of a type became few.
    pub(crate) fn merged(of: &str, version: u64, rows: u64) -> Self {
        Self::Done(Compacted { of: of.to_owned(), version, rewritten: false, rows, bytes: 0 })
    }
}

impl GraphStore {
    /// Compacts what is worth it, each type in a version of its own. Files that versions before need stay until
    /// [`Self::collect_garbage`]. What was written for a compaction that others overtook is removed.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertexType`] where there is no type of a given name, and those of reading and writing:
    /// types that were compacted before stay so.
    #[boxed]
    pub async fn compact(&self, options: &CompactOptions) -> Result<Vec<Compacted>> {
        let lease = self.core().lease().await?;
        let compacted = self.compact_types(&lease, options).await;
        lease.end().await;
        compacted
    }

    /// Merges the latest of what many commits left behind, for a writer between two of them. Does nothing where a load
    /// or another compaction is at work, which would have to begin anew.
    pub(crate) async fn tidy(&self) -> Result<()> {
        let lease = self.core().lease().await?;
        let tidied = self.tidy_under(&lease).await;
        lease.end().await;
        tidied
    }

    async fn tidy_under(&self, lease: &Lease) -> Result<()> {
        let (now_ms, others) = lease.among(self.core().listed(lease::FOLDER).await?)?;
        match others.iter().any(|other| !lease::is_over(other, now_ms)) {
            true => Ok(()),
            false => self.compact_types(lease, &CompactOptions::of_writer()).await.map(drop),
        }
    }

    async fn compact_types(&self, lease: &Lease, options: &CompactOptions) -> Result<Vec<Compacted>> {
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
            for _ in 0..TRIES {
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
            for _ in 0..TRIES {
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

    /// Whether nobody compacted or loaded between two versions, so that what the earlier one is made of is what the
    /// later one is made of, but for deltas that were deleted to the last row.
    pub(crate) async fn is_untouched(&self, from: &Snapshot, to: &Snapshot) -> Result<bool> {
        for version in from.version() + 1..=to.version() {
            if self.core().log.read(version).await?.operation == OPERATION {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The record that follows a version by compaction.
pub(crate) fn next(head: &Snapshot) -> VersionRecord {
    let before = head.record();
    before.next(OPERATION, before.epoch)
}

impl StoreCore {
    /// Writes a set of deletions to a file.
    pub(crate) async fn write_deleted(&self, deleted: &DeletionSet) -> Result<DataLocation> {
        let bytes = deleted.to_bytes();
        let path = deletion::write(self.log.sinks(), &self.log.destination(), bytes).await?;
        Ok(DataLocation::File { path })
    }

    /// Removes a file that became part of no version, as well as it can be done.
    pub(crate) async fn give_up_file(&self, location: &DataLocation) {
        let DataLocation::File { path } = location else { return };
        if let Err(error) = crate::store::base::write::remove_file(&self.log.destination(), path).await {
            tracing::warn!(path, %error, "file of a compaction that others overtook not removed");
        }
    }
}
