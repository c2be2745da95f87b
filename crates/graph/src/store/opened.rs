//! State that all versions of a store share: its location, its log, and its open immutable segments.

use std::sync::Arc;

use arrow::{array::ArrayRef, datatypes::FieldRef};
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore};
use stylobate_storage::{Corrupt, Error as StorageError};

use super::{
    base::{EdgeBaseInfo, VertexBaseInfo, edges::EdgeBase, vertices::VertexBase},
    budgeted::{Budgeted, MemoryFootprint},
    delta::{
        deletion::DeletionSet,
        edges::{self as delta, EdgeDelta},
        rows::DeltaRows,
        vertices::{INDEX, VertexDelta, VertexPatch, patch_fields},
    },
    log::{
        VersionLog,
        record::{
            DataLocation, EdgeBaseState, EdgeDeltaInfo, EdgeState, VersionRecord, VertexDeltaInfo,
            VertexPatchInfo, VertexState,
        },
    },
    options::StoreOptions,
    parts::{
        edge_part::{EdgePart, EdgePartSource},
        edge_parts::EdgeParts,
        vertex_part::VertexPart,
        vertex_parts::VertexParts,
    },
    schema::{DESTINATION, EdgeType, SOURCE, VertexType},
    segments::OpenSegments,
};
use crate::{Error, Result, graphar::GraphFolder};

/// State of an open store that does not depend on the version.
pub(crate) struct StoreCore {
    /// Folder of all files except records. Each file is written once, under a unique name.
    pub(crate) folder: GraphFolder,
    pub(crate) options: StoreOptions,
    pub(crate) log: VersionLog,
    pub(crate) vertex_bases: OpenSegments<String, Budgeted<VertexBase>>,
    pub(crate) edge_bases: OpenSegments<String, Budgeted<EdgeBase>>,
    pub(crate) vertex_deltas: OpenSegments<DataLocation, Budgeted<VertexDelta>>,
    pub(crate) edge_deltas: OpenSegments<DataLocation, Budgeted<EdgeDelta>>,
    pub(crate) patches: OpenSegments<DataLocation, Budgeted<VertexPatch>>,
    pub(crate) deletions: OpenSegments<DataLocation, Budgeted<DeletionSet>>,
    pub(crate) live: super::log::pins::SnapshotPins,
    /// Held by a compaction that keeps losing races, until its version is committed. Commits of this process wait.
    pub(crate) priority: tokio::sync::Mutex<()>,
}

impl StoreCore {
    pub(crate) fn new(folder: GraphFolder, options: StoreOptions) -> Result<Self> {
        let log = VersionLog::new(folder.clone(), options.durability)?;
        Ok(Self {
            folder: folder.of_final_files(),
            options,
            log,
            vertex_bases: OpenSegments::default(),
            edge_bases: OpenSegments::default(),
            vertex_deltas: OpenSegments::default(),
            edge_deltas: OpenSegments::default(),
            patches: OpenSegments::default(),
            deletions: OpenSegments::default(),
            live: super::log::pins::SnapshotPins::default(),
            priority: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the name of the store for errors.
    pub(crate) fn name(&self) -> String {
        self.folder.name("").trim_end_matches('/').to_owned()
    }

    /// Charges an open segment to the budget of the cache.
    fn budgeted<T: MemoryFootprint>(&self, open: T) -> Budgeted<T> {
        Budgeted::new(&self.folder.cache, open)
    }

    fn wrong(&self, at: &DataLocation, corrupt: impl Into<Corrupt>) -> Error {
        let (file, slot) = match at {
            DataLocation::Inline { version, slot } => {
                (self.log.name(*version), format!("inline data {slot}: "))
            }
            DataLocation::File { path } => (self.folder.name(path), String::new()),
        };
        Error::Data { file, reason: format!("{slot}{}", corrupt.into()) }
    }

    /// Lists all files in a folder.
    pub(crate) async fn listed(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let path = self.folder.path(folder)?;
        let failed = |error| StorageError::from_origin(path.as_ref(), error);
        Ok(self.folder.store.origin().store().list(Some(&path)).try_collect().await.map_err(failed)?)
    }

    /// Decodes inline data while its record is in memory.
    async fn inline<T>(
        &self,
        at: &DataLocation,
        make: impl FnOnce(&str) -> std::result::Result<T, Corrupt>,
    ) -> Result<T> {
        let DataLocation::Inline { version, slot } = at else {
            return Err(self.wrong(at, "it is no inline data"));
        };
        let record = self.log.read(*version).await?;
        let text = record.inline.get(*slot as usize).ok_or_else(|| self.wrong(at, "it is not there"))?;
        make(text).map_err(|corrupt| self.wrong(at, corrupt))
    }

    async fn rows(&self, at: &DataLocation, rows: u64, fields: &Arc<[FieldRef]>) -> Result<DeltaRows> {
        let opened = match at {
            DataLocation::Inline { .. } => self.inline(at, DeltaRows::from_text).await?,
            DataLocation::File { path } => DeltaRows::open(&self.folder, path, fields).await?,
        };
        if let Some(field) = opened.unlike(fields) {
            return Err(self.wrong(at, format!("column {} is no {}", field.name(), field.data_type())));
        }

        match opened.len() as u64 {
            len if len == rows => Ok(opened),
            len => Err(self.wrong(at, format!("{len} rows, where the log says {rows}"))),
        }
    }

    async fn column(&self, at: &DataLocation, rows: &DeltaRows, name: &str) -> Result<ArrayRef> {
        rows.named(name).await?.ok_or_else(|| self.wrong(at, format!("there is no column {name}")))
    }

    async fn deletion(&self, at: &DataLocation) -> Result<Arc<Budgeted<DeletionSet>>> {
        let open = async {
            match at {
                DataLocation::Inline { .. } => self.inline(at, DeletionSet::from_text).await,
                DataLocation::File { path } => {
                    let bytes = self.folder.read(path).await?;
                    DeletionSet::from_bytes(&bytes).map_err(|corrupt| self.wrong(at, corrupt))
                }
            }
        };
        self.deletions.get(at.clone(), async { open.await.map(|deleted| self.budgeted(deleted)) }).await
    }

    /// Returns the union of several sets; a single set is returned itself.
    pub(crate) async fn deleted(&self, at: &[DataLocation]) -> Result<Arc<Budgeted<DeletionSet>>> {
        let sets = futures::future::try_join_all(at.iter().map(|at| self.deletion(at))).await?;
        Ok(match sets.as_slice() {
            [] => Arc::default(),
            [one] => one.clone(),
            several => Arc::new(self.budgeted(DeletionSet::union(several.to_vec()))),
        })
    }

    async fn vertex_delta(
        &self,
        of: &VertexType,
        info: &VertexDeltaInfo,
    ) -> Result<Arc<Budgeted<VertexDelta>>> {
        let open = async {
            let rows = self.rows(&info.at, info.rows, &of.fields().into()).await?;
            let keys = self.column(&info.at, &rows, &of.key).await?;
            let delta = VertexDelta::new(info.first, rows, &keys);
            delta.map(|delta| self.budgeted(delta)).map_err(|corrupt| self.wrong(&info.at, corrupt))
        };
        self.vertex_deltas.get(info.at.clone(), open).await
    }

    async fn patch(&self, of: &VertexType, info: &VertexPatchInfo) -> Result<Arc<Budgeted<VertexPatch>>> {
        let open = async {
            let rows = self.rows(&info.at, info.rows, &patch_fields(&of.fields())).await?;
            let indexes = self.column(&info.at, &rows, INDEX).await?;
            let patch = VertexPatch::new(rows, &indexes);
            patch.map(|patch| self.budgeted(patch)).map_err(|corrupt| self.wrong(&info.at, corrupt))
        };
        self.patches.get(info.at.clone(), open).await
    }

    async fn edge_delta(&self, of: &EdgeType, info: &EdgeDeltaInfo) -> Result<Arc<Budgeted<EdgeDelta>>> {
        let open = async {
            let rows = self.rows(&info.at, info.rows, &delta::fields(&of.fields())).await?;
            let sources = self.column(&info.at, &rows, SOURCE).await?;
            let destinations = self.column(&info.at, &rows, DESTINATION).await?;
            let delta = EdgeDelta::new(rows, &sources, &destinations);
            delta.map(|delta| self.budgeted(delta)).map_err(|corrupt| self.wrong(&info.at, corrupt))
        };
        self.edge_deltas.get(info.at.clone(), open).await
    }

    async fn vertex_base(&self, of: &VertexType, info: &VertexBaseInfo) -> Result<Arc<Budgeted<VertexBase>>> {
        let open = async { Ok(self.budgeted(VertexBase::open(&self.folder, info, &of.fields()))) };
        self.vertex_bases.get(info.path.clone(), open).await
    }

    async fn edge_base(&self, of: &EdgeType, info: &EdgeBaseInfo) -> Result<Arc<Budgeted<EdgeBase>>> {
        let open = async { Ok(self.budgeted(EdgeBase::open(&self.folder, info, &of.fields()))) };
        self.edge_bases.get(info.path.clone(), open).await
    }

    /// Opens all parts of a vertex type.
    pub(crate) async fn vertices(&self, state: &VertexState) -> Result<VertexParts> {
        let of = &state.schema;
        let bases = futures::future::try_join_all(state.bases.iter().map(|info| self.vertex_base(of, info)));
        let deltas =
            futures::future::try_join_all(state.deltas.iter().map(|info| self.vertex_delta(of, info)));
        let patches = futures::future::try_join_all(state.patches.iter().map(|info| self.patch(of, info)));
        let (bases, deltas, patches, deleted) =
            futures::try_join!(bases, deltas, patches, self.deleted(&state.deleted))?;
        let bases = bases.into_iter().map(VertexPart::Base);
        let mut parts: Vec<VertexPart> = bases.chain(deltas.into_iter().map(VertexPart::Delta)).collect();
        parts.sort_by_key(|part| part.range().start);

        Ok(VertexParts { state: state.clone(), parts, patches, deleted })
    }

    /// Opens all parts of an edge type.
    pub(crate) async fn edges(&self, record: &VersionRecord, state: &EdgeState) -> Result<EdgeParts> {
        let of = &state.schema;
        let bases = futures::future::try_join_all(state.bases.iter().map(|base| self.base_part(of, base)));
        let deltas = futures::future::try_join_all(state.deltas.iter().map(|info| self.delta_part(of, info)));
        let (mut parts, deltas) = futures::try_join!(bases, deltas)?;
        parts.extend(deltas);
        let next = |name: &str| {
            record.vertices.iter().find(|vertices| vertices.schema.name == name).map_or(0, |found| found.next)
        };

        let sources = next(&of.source);
        let destinations = next(&of.destination);
        Ok(EdgeParts { state: state.clone(), sources, destinations, parts })
    }

    async fn base_part(&self, of: &EdgeType, base: &EdgeBaseState) -> Result<EdgePart> {
        let by = |pick: fn(&super::log::record::EdgeDeletionPair) -> &DataLocation| {
            base.deleted.iter().map(|pair| pick(pair).clone()).collect::<Vec<_>>()
        };
        let by_source = by(|pair| &pair.by_source);
        let by_destination = by(|pair| &pair.by_destination);
        let (opened, out_deleted, in_deleted) = futures::try_join!(
            self.edge_base(of, &base.info),
            self.deleted(&by_source),
            self.deleted(&by_destination)
        )?;

        Ok(EdgePart { of: EdgePartSource::Base(opened), out_deleted, in_deleted })
    }

    async fn delta_part(&self, of: &EdgeType, info: &EdgeDeltaInfo) -> Result<EdgePart> {
        let (opened, out_deleted) =
            futures::try_join!(self.edge_delta(of, info), self.deleted(&info.deleted))?;
        let in_deleted = Arc::new(self.budgeted(opened.by_destination(&out_deleted)));
        Ok(EdgePart { of: EdgePartSource::Delta(opened), out_deleted, in_deleted })
    }
}
