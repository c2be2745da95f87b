//! Bulk loads: vertices and edges of many types from streams of batches, written as bases and committed as one version.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, Field, FieldRef, Schema},
};
use futures::{Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use stylobate_storage::{ByteSize, run_blocking};

use super::{
    arrow_input::ArrowInput, changes::Ends, coalesce_batches::coalesce_batches, writer::StoreWriter,
};
use crate::{
    Error, Result,
    store::{
        access::Access,
        base::{
            EdgeBaseInfo, VertexBaseInfo,
            vertices::VertexBase,
            write::{BaseChunkSizes, BaseWriter, vertices::VertexKeyMap},
        },
        delta::{rows::arrow_error, vertices::KeyColumnReader},
        lease::Lease,
        log::record::{EdgeBaseState, VersionRecord},
        opened::StoreCore,
        parts::vertex_parts::VertexParts,
        schema::{DESTINATION, EdgeType, SOURCE, SchemaChange, VertexType},
        snapshot::{Snapshot, no_such},
    },
};

/// Batches prepared ahead of the writer.
const BATCHES_AHEAD: usize = 3;

/// Types to load together, each from a stream of batches in the format of [`StoreWriter::add_vertices`] and
/// [`StoreWriter::add_edges`].
#[derive(Default)]
pub struct BulkLoad<'a> {
    changes: Vec<SchemaChange>,
    vertices: Vec<(String, BoxStream<'a, Result<RecordBatch>>)>,
    edges: Vec<(String, Ends, BoxStream<'a, Result<RecordBatch>>)>,
}

/// Result of a bulk load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// Version of the load.
    pub version: u64,
    /// Number of vertices of all types.
    pub vertices: u64,
    /// Number of edges of all types.
    pub edges: u64,
    /// Bytes written.
    pub bytes: u64,
}

impl<'a> BulkLoad<'a> {
    /// Returns an empty load.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies schema changes in the same version, so that new types and properties can be loaded right away.
    pub fn with_changes(mut self, changes: impl IntoIterator<Item = SchemaChange>) -> Self {
        self.changes.extend(changes);
        self
    }

    /// Adds vertices of a type, with their keys. Each type may be added once.
    pub fn with_vertices(
        mut self,
        vertex_type: impl Into<String>,
        batches: impl Stream<Item = Result<RecordBatch>> + Send + 'a,
    ) -> Self {
        self.vertices.push((vertex_type.into(), batches.boxed()));
        self
    }

    /// Adds edges of a type, between vertices that exist or are part of the same load. Each type may be added once.
    pub fn with_edges(
        mut self,
        edge_type: impl Into<String>,
        ends: Ends,
        batches: impl Stream<Item = Result<RecordBatch>> + Send + 'a,
    ) -> Self {
        self.edges.push((edge_type.into(), ends, batches.boxed()));
        self
    }
}

/// Vertices of a type during a load.
struct VertexLoadState {
    schema: VertexType,
    /// Existing vertices.
    parts: Arc<VertexParts>,
    /// New vertices.
    base: Option<VertexBase>,
    keys: Option<VertexKeyMap>,
    /// Number of assigned indexes, including new ones.
    next: u64,
}

/// Loaded bases, with the positions of their types.
#[derive(Default)]
struct LoadedBases {
    vertices: Vec<(usize, VertexBaseInfo)>,
    edges: Vec<(usize, EdgeBaseInfo)>,
}

impl StoreCore {
    /// Returns a writer of bases of the store.
    pub(crate) fn base_writer(&self) -> BaseWriter {
        BaseWriter {
            sizes: BaseChunkSizes {
                vertex_chunk: self.options.vertex_chunk_size,
                edge_chunk: self.options.edge_chunk_size,
                keys_chunk: self.options.vertex_chunk_size,
            },
            durability: self.options.durability,
            temporary_folder: self.options.temporary_folder.clone(),
            ..BaseWriter::new(self.log.destination(), self.options.memory)
        }
    }
}

impl StoreWriter {
    /// Loads vertices and edges, and commits them. They are sorted on disk if they do not fit into the memory of
    /// [`StoreOptions`](crate::store::StoreOptions). No changes may be pending. After an error, nothing has been
    /// loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Row`], [`Error::Column`] and [`Error::Unwritable`] if rows are invalid: a key exists already, an
    /// end does not exist, a value does not fit; errors of the streams, and those of [`Self::commit`].
    pub fn bulk_load<'a>(&'a mut self, load: BulkLoad<'a>) -> BoxFuture<'a, Result<Loaded>> {
        Box::pin(self.load(load))
    }

    #[tracing::instrument(name = "store_load", level = "debug", skip_all, fields(store = self.store().core().name()))]
    async fn load(&mut self, load: BulkLoad<'_>) -> Result<Loaded> {
        if self.has_pending() {
            let reason =
                "there are changes that are not committed: commit them, or roll them back".to_owned();
            return Err(Error::Conflict { object: self.store().core().name(), reason });
        }
        let core = self.store().core().clone();
        let lease = core.lease().await?;
        let loaded = self.load_under(&lease, &core, load).await;
        lease.end().await;
        loaded
    }

    async fn load_under(
        &mut self,
        lease: &Lease,
        core: &StoreCore,
        mut load: BulkLoad<'_>,
    ) -> Result<Loaded> {
        let writer = core.base_writer();
        let changes = std::mem::take(&mut load.changes);
        let mut altered = VersionRecord::clone(self.snapshot().record());
        altered.alter_all(&changes)?;
        let mut bases = LoadedBases::default();
        if let Err(error) = self.load_all(core, &altered, &writer, load, &mut bases).await {
            let vertices = bases.vertices.iter().map(|(_, info)| &info.path);
            for path in vertices.chain(bases.edges.iter().map(|(_, info)| &info.path)) {
                writer.give_up(path).await;
            }
            return Err(error);
        }

        let mut loaded = Loaded::default();
        for (_, info) in &bases.vertices {
            loaded.vertices += info.count;
            loaded.bytes += info.bytes;
        }
        for (_, info) in &bases.edges {
            loaded.edges += info.count;
            loaded.bytes += info.bytes;
        }

        let bases = &bases;
        let changes = &changes;
        let schema = &altered.schema();
        let with_bases = |_, mut record: VersionRecord| async move {
            lease.check()?;
            record.alter_all(changes)?;
            if record.schema() != *schema {
                let object = crate::store::log::record::file_name(record.version);
                return Err(Error::Conflict { object, reason: "the schema changed meanwhile".to_owned() });
            }
            bases.add_to(record)
        };

        loaded.version = self.commit_with("load", with_bases).await?;
        Ok(loaded)
    }

    async fn load_all(
        &self,
        core: &StoreCore,
        record: &VersionRecord,
        writer: &BaseWriter,
        load: BulkLoad<'_>,
        bases: &mut LoadedBases,
    ) -> Result<()> {
        let head = self.snapshot();
        let mut writer = writer.clone();
        let mut loading: HashMap<usize, VertexLoadState> = HashMap::new();
        for (name, batches) in load.vertices {
            let at = record.vertex_type(&name)?;
            let by_key = load.edges.iter().any(|(edge, ends, _)| {
                let schema = record
                    .edge_type(edge)
                    .ok()
                    .and_then(|at| record.edges.get(at))
                    .map(|state| &state.schema);
                *ends == Ends::Keys
                    && schema.is_some_and(|schema| schema.source == name || schema.destination == name)
            });

            let known = VertexLoadState::new(head, record, at).await?;
            if loading.contains_key(&at) {
                return Err(twice(format!("vertices of type {name}")));
            }
            let schema = known.schema.clone();
            let parts = known.parts.clone();
            let first = known.next;
            let fields = schema.fields();
            let prepared =
                batches.map(|batch| prepared_vertices(batch, &schema, &parts)).buffered(BATCHES_AHEAD);
            let written = writer.vertices(&name, Some(&schema.key), &fields, first, prepared, by_key).await?;
            let base = VertexBase::open(&core.folder, &written.info, &fields);
            let next = first + written.info.count;

            // Keys are kept until all edges are resolved.
            let kept = written.keys.as_ref().map_or(0, VertexKeyMap::memory) as u64;
            writer.memory = ByteSize::bytes(writer.memory.as_u64().saturating_sub(kept));
            bases.vertices.push((at, written.info));
            loading.insert(at, VertexLoadState { base: Some(base), keys: written.keys, next, ..known });
        }

        let mut seen: Vec<usize> = Vec::new();
        for (name, ends, batches) in load.edges {
            let at = record.edge_type(&name)?;
            let Some(schema) = record.edges.get(at).map(|state| state.schema.clone()) else { continue };
            if seen.contains(&at) {
                return Err(twice(format!("edges of type {}", schema.full_name())));
            }
            seen.push(at);

            let from = record.vertex_type(&schema.source)?;
            let to = record.vertex_type(&schema.destination)?;
            for end in [from, to] {
                if let std::collections::hash_map::Entry::Vacant(entry) = loading.entry(end) {
                    entry.insert(VertexLoadState::new(head, record, end).await?);
                }
            }

            let (Some(from), Some(to)) = (loading.get(&from), loading.get(&to)) else { continue };
            let looks_up = ends == Ends::Keys && (from.keys.is_none() || to.keys.is_none());
            let batches = if looks_up { coalesce_batches(batches, writer.memory) } else { batches };
            let prepared =
                batches.map(|batch| prepared_edges(batch, &schema, ends, (from, to))).buffered(BATCHES_AHEAD);
            let names = (schema.source.as_str(), schema.name.as_str(), schema.destination.as_str());
            let counts = (from.next, to.next);
            bases.edges.push((at, writer.edges(names, counts, &schema.fields(), prepared).await?));
        }

        Ok(())
    }
}

fn twice(of: String) -> Error {
    Error::Unwritable { of, reason: "they are there twice in one load".to_owned() }
}

impl VertexLoadState {
    /// Opens the existing vertices of a type. `record` has the types of the version and new ones.
    async fn new(head: &Snapshot, record: &VersionRecord, at: usize) -> Result<Self> {
        let state = record.vertices.get(at).ok_or_else(no_such)?;
        let parts = if at < head.record().vertices.len() {
            head.vertex_parts(at).await?
        } else {
            Arc::new(head.core().vertices(state).await?)
        };
        Ok(Self { schema: state.schema.clone(), parts, base: None, keys: None, next: state.next })
    }

    /// Resolves the vertices that a column refers to.
    async fn resolve(&self, input: &ArrowInput<'_>, name: &str, ends: Ends) -> Result<ArrayRef> {
        if ends == Ends::Indexes {
            let indexes = input.indexes(name)?;
            let is_there = |index: &i64| {
                let is_new = self.parts.state.next <= *index as u64 && (*index as u64) < self.next;
                is_new || self.parts.is_there(*index)
            };
            return match indexes.values().iter().position(|index| !is_there(index)) {
                None => Ok(Arc::new(indexes)),
                Some(row) => {
                    let index = indexes.values().get(row).copied().unwrap_or_default();
                    let reason =
                        format!("there is no vertex of type {} with index {index}", self.schema.name);
                    Err(input.wrong_row(name, row, reason))
                }
            };
        }

        let keys = input.keys(name, &self.schema.key_type())?;
        let mut found = match (&self.keys, &self.base) {
            (Some(map), _) => {
                let map = map.clone();
                let keys = keys.clone();
                run_blocking(move || map.find(&keys)).await??
            }
            (None, Some(base)) => base.indexes_of(&keys).await?,
            (None, None) => vec![None; keys.len()],
        };

        if self.parts.state.count > 0 && found.iter().any(Option::is_none) {
            for (found, earlier) in found.iter_mut().zip(self.parts.indexes_of(Access::Loading, &keys).await?)
            {
                *found = found.or(earlier);
            }
        }
        match found.iter().position(Option::is_none) {
            None => Ok(Arc::new(found.into_iter().collect::<Int64Array>())),
            Some(row) => {
                let key =
                    KeyColumnReader::new(&keys).map(|column| column.at(row).to_string()).unwrap_or_default();
                let reason = format!("there is no vertex of type {} with key {key}", self.schema.name);
                Err(input.wrong_row(name, row, reason))
            }
        }
    }
}

/// Converts a batch to the columns of a vertex type. Fails if a vertex with the same key exists.
async fn prepared_vertices(
    batch: Result<RecordBatch>,
    schema: &VertexType,
    parts: &VertexParts,
) -> Result<RecordBatch> {
    let batch = batch?;
    let input = ArrowInput { of: format!("vertices of type {}", schema.name), batch: &batch };
    let fields = schema.fields();
    input.check_names(&[], &fields)?;
    let keys = input.keys(&schema.key, &schema.key_type())?;
    if parts.state.count > 0
        && let Some(row) = parts.indexes_of(Access::Loading, &keys).await?.iter().position(Option::is_some)
    {
        let key = KeyColumnReader::new(&keys).map(|column| column.at(row).to_string()).unwrap_or_default();
        return Err(input.wrong_row(&schema.key, row, format!("there is a vertex with key {key} already")));
    }

    let columns = fields.iter().map(|field| input.property(field)).collect::<Result<Vec<_>>>()?;
    let prepared = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    prepared.map_err(|error| arrow_error("vertices", error))
}

/// Converts a batch to the columns of an edge type, with the indexes of both ends.
async fn prepared_edges(
    batch: Result<RecordBatch>,
    schema: &EdgeType,
    ends: Ends,
    (from, to): (&VertexLoadState, &VertexLoadState),
) -> Result<RecordBatch> {
    let batch = batch?;
    let input = ArrowInput { of: format!("edges of type {}", schema.full_name()), batch: &batch };
    let fields = schema.fields();
    input.check_names(&[SOURCE, DESTINATION], &fields)?;
    let sources = from.resolve(&input, SOURCE, ends).await?;
    let destinations = to.resolve(&input, DESTINATION, ends).await?;
    let properties = fields.iter().map(|field| input.property(field)).collect::<Result<Vec<_>>>()?;
    let columns = [sources, destinations].into_iter().chain(properties).collect();
    edge_batch(&fields, columns)
}

/// Builds a batch of edges for a base.
pub(crate) fn edge_batch(fields: &[FieldRef], columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let ends = [SOURCE, DESTINATION].map(|name| Arc::new(Field::new(name, DataType::Int64, false)));
    let schema = Schema::new(ends.into_iter().chain(fields.iter().cloned()).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns).map_err(|error| arrow_error("edges", error))
}

impl LoadedBases {
    /// Returns the record with the loaded bases added.
    fn add_to(&self, mut record: VersionRecord) -> Result<VersionRecord> {
        let object = crate::store::log::record::file_name(record.version);
        for (at, info) in &self.vertices {
            let Some(state) = record.vertices.get_mut(*at) else { continue };
            if state.next != info.first {
                let reason = format!("vertices of type {}: others were added meanwhile", state.schema.name);
                return Err(Error::Conflict { object, reason });
            }
            state.next += info.count;
            state.count += info.count;

            if info.count > 0 {
                state.bases.push(info.clone());
            }
        }

        for (at, info) in &self.edges {
            let Some(state) = record.edges.get_mut(*at) else { continue };
            state.count += info.count;
            if info.count > 0 {
                state.bases.push(EdgeBaseState { info: info.clone(), deleted: Vec::new() });
            }
        }

        Ok(record)
    }
}
