//! Builds the record of a commit from pending changes and the version that it follows.

use std::{collections::BTreeSet, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::Schema,
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use futures::{StreamExt, TryStreamExt};
use roaring::RoaringTreemap;

use super::pending::{PendingChanges, PendingVertices};
use crate::{
    Direction, Error, Result,
    store::{
        access::Access,
        base::write::REQUESTS,
        delta::{
            deletion::{self, DeletionSet},
            edges as delta,
            rows::{self, arrow_error},
        },
        log::record::{
            DataLocation, EdgeDeletionPair, EdgeDeltaInfo, EdgeState, VersionRecord, VertexDeltaInfo,
            VertexPatchInfo,
        },
        names::uuid7,
        opened::StoreCore,
        parts::{
            edge_part::{EdgePart, EdgePartSource},
            edge_parts::EdgeParts,
        },
        snapshot::Snapshot,
    },
};

/// Maximum number of deletion sets of one part before they are merged.
const SETS: usize = 16;

/// Placeholder version of data whose location is not known yet; no version has this number.
const UNPLACED: u64 = u64::MAX;

/// Record without the locations of its data.
pub(crate) struct CommitBuilder {
    pub(crate) record: VersionRecord,
    items: Vec<CommitPayload>,
}

/// Data of a commit: its inline form, and its file form.
struct CommitPayload {
    text: String,
    form: CommitPayloadFile,
}

enum CommitPayloadFile {
    Rows(RecordBatch),
    Deleted(Vec<u8>),
}

impl CommitBuilder {
    /// Builds a record of pending changes on top of a version, whose indexes for new vertices must be free.
    pub(crate) async fn new(
        head: &Snapshot,
        pending: &PendingChanges,
        epoch: u64,
        operation: &str,
    ) -> Result<Self> {
        let mut draft = Self { record: head.record().next(operation, epoch), items: Vec::new() };
        draft.record.alter_all(&pending.changes)?;
        for (at, vertices) in &pending.vertices {
            draft.vertices(*at, vertices)?;
        }
        for at in 0..draft.record.edges.len() {
            draft.edges(at, head, pending).await?;
        }
        Ok(draft)
    }

    fn item(&mut self, text: String, form: CommitPayloadFile) -> DataLocation {
        self.items.push(CommitPayload { text, form });
        DataLocation::Inline { version: UNPLACED, slot: self.items.len() as u32 - 1 }
    }

    fn rows(&mut self, batch: RecordBatch) -> Result<DataLocation> {
        let text = rows::to_text(&batch)?;
        Ok(self.item(text, CommitPayloadFile::Rows(batch)))
    }

    fn deleted(&mut self, deleted: RoaringTreemap) -> DataLocation {
        let bytes = DeletionSet::new(deleted).to_bytes();
        self.item(BASE64.encode(&bytes), CommitPayloadFile::Deleted(bytes))
    }

    fn vertices(&mut self, at: usize, pending: &PendingVertices) -> Result<()> {
        let Some(mut state) = self.record.vertices.get(at).cloned() else { return Ok(()) };
        let name = format!("vertices of type {}", state.schema.name);
        if pending.rows > 0 {
            if state.next != pending.first {
                let reason = format!("{name}: index {} was given to others", pending.first);
                return Err(Error::Conflict {
                    object: crate::store::log::record::file_name(self.record.version),
                    reason,
                });
            }

            let fields = state.schema.fields();
            let schema = Arc::new(Schema::new(fields.clone()));
            let batch = RecordBatch::try_new(schema, pending.rows(&fields)?);
            let batch = batch.map_err(|error| arrow_error("vertices of a commit", error))?;
            let at = self.rows(batch)?;
            state.deltas.push(VertexDeltaInfo { at, first: pending.first, rows: pending.rows });
            state.next += pending.rows;
            state.count += pending.rows;
        }

        for patch in &pending.patches {
            let columns =
                patch.schema_ref().fields().iter().skip(1).map(|field| field.name().clone()).collect();
            let rows = patch.num_rows() as u64;
            let at = self.rows(patch.clone())?;
            state.patches.push(VertexPatchInfo { at, rows, columns });
        }

        if !pending.deleted.is_empty() {
            state.count = state.count.saturating_sub(pending.deleted.len());
            let at = self.deleted(pending.deleted.clone());
            state.deleted.push(at);
        }
        if let Some(current) = self.record.vertices.get_mut(at) {
            *current = state;
        }
        Ok(())
    }

    async fn edges(&mut self, at: usize, head: &Snapshot, pending: &PendingChanges) -> Result<()> {
        let Some(mut state) = self.record.edges.get(at).cloned() else { return Ok(()) };
        let gone_at = |name: &str| {
            let at = head.record().vertices.iter().position(|state| state.schema.name == name);
            let deleted = at.and_then(|at| pending.vertices.get(&at)).map(|pending| &pending.deleted);
            deleted.into_iter().flatten().map(|index| index as i64).collect::<Vec<_>>()
        };
        let gone = [gone_at(&state.schema.source), gone_at(&state.schema.destination)];
        let new = pending.edges.get(&at);

        let pairs = new.map(|edges| &edges.pairs).filter(|pairs| !pairs.is_empty());
        let was_there = at < head.record().edges.len();
        if was_there && (pairs.is_some() || gone.iter().any(|gone| !gone.is_empty())) {
            let parts = head.edge_parts(at).await?;
            let pairs = pairs.into_iter().flatten().copied().collect();
            self.delete_edges(&mut state, &parts, gone, pairs).await?;
        }
        if let Some(new) = new {
            let fields = state.schema.fields();
            let (sources, destinations, columns) = new.rows(&fields)?;
            if !sources.is_empty() {
                let rows = sources.len() as u64;
                let at = self.rows(delta::sorted(&sources, &destinations, &fields, &columns)?)?;
                state.deltas.push(EdgeDeltaInfo { at, rows, deleted: Vec::new(), deleted_count: 0 });
                state.count += rows;
            }
        }

        if let Some(current) = self.record.edges.get_mut(at) {
            *current = state;
        }
        Ok(())
    }

    /// Deletes the edges between pairs of vertices, and all edges of deleted vertices.
    async fn delete_edges(
        &mut self,
        state: &mut EdgeState,
        parts: &EdgeParts,
        [sources, destinations]: [Vec<i64>; 2],
        pairs: BTreeSet<(i64, i64)>,
    ) -> Result<()> {
        let mut emptied = BTreeSet::new();
        let bases = state.bases.len();

        for (at, part) in parts.parts.iter().enumerate() {
            let mut pairs = pairs.clone();
            for (source, destination) in part.pairs(Direction::Out, &sources).await? {
                pairs.insert((source, destination));
            }
            for (destination, source) in part.pairs(Direction::In, &destinations).await? {
                pairs.insert((source, destination));
            }

            let by_source = part.ordinals(Direction::Out, pairs.iter().copied()).await?;
            let count = by_source.len();
            if count == 0 {
                continue;
            }
            state.count = state.count.saturating_sub(count);

            match (&part.of, at.checked_sub(bases)) {
                (EdgePartSource::Base(_), _) => {
                    let turned = pairs.iter().map(|(source, destination)| (*destination, *source));
                    let by_destination = part.ordinals(Direction::In, turned).await?;
                    let Some(base) = state.bases.get_mut(at) else { continue };
                    if base.deleted.len() >= SETS {
                        let before: u64 = base.deleted.drain(..).map(|pair| pair.count).sum();
                        let by_source = self.deleted(by_source | part.out_deleted.set());
                        let by_destination = self.deleted(by_destination | part.in_deleted.set());
                        base.deleted.push(EdgeDeletionPair {
                            by_source,
                            by_destination,
                            count: before + count,
                        });
                    } else {
                        let by_source = self.deleted(by_source);
                        let by_destination = self.deleted(by_destination);
                        base.deleted.push(EdgeDeletionPair { by_source, by_destination, count });
                    }
                }
                (EdgePartSource::Delta(_), Some(delta)) => {
                    let Some(info) = state.deltas.get_mut(delta) else { continue };
                    info.deleted_count += count;
                    if info.deleted_count == info.rows {
                        emptied.insert(delta);
                        continue;
                    }

                    let several = info.deleted.len() >= SETS;
                    let set = if several { by_source | part.out_deleted.set() } else { by_source };
                    if several {
                        info.deleted.clear();
                    }
                    let set = self.deleted(set);
                    info.deleted.push(set);
                }
                (EdgePartSource::Delta(_), None) => {}
            }
        }

        let mut delta = 0;
        state.deltas.retain(|_| {
            delta += 1;
            !emptied.contains(&(delta - 1))
        });
        Ok(())
    }

    /// Stores all data: writes files, several at a time, and puts small data inline in the record. Only the put of the
    /// record remains.
    pub(crate) async fn write_data(mut self, core: &StoreCore) -> Result<VersionRecord> {
        let limit = core.options.inline_limit.as_u64() as usize;
        let mut inline: usize = self.items.iter().map(|item| item.text.len()).sum();
        let mut by_size: Vec<usize> = (0..self.items.len()).collect();
        by_size.sort_by_key(|at| std::cmp::Reverse(self.items.get(*at).map_or(0, |item| item.text.len())));

        let mut writes = Vec::new();
        for at in by_size {
            let Some(item) = self.items.get(at).filter(|_| inline > limit) else { break };
            inline -= item.text.len();
            writes.push(async move { item.write(core).await.map(|path| (at, path)) });
        }
        let writes = futures::stream::iter(writes).buffer_unordered(REQUESTS);
        let written: Vec<(usize, String)> = writes.try_collect().await?;

        let mut locations: Vec<Option<DataLocation>> = vec![None; self.items.len()];
        for (at, path) in written {
            if let Some(location) = locations.get_mut(at) {
                *location = Some(DataLocation::File { path });
            }
        }

        let version = self.record.version;
        for (item, location) in self.items.into_iter().zip(&mut locations) {
            if location.is_none() {
                *location = Some(DataLocation::Inline { version, slot: self.record.inline.len() as u32 });
                self.record.inline.push(item.text);
            }
        }

        for location in self.record.locations_mut() {
            if let DataLocation::Inline { version: UNPLACED, slot } = location
                && let Some(Some(written)) = locations.get(*slot as usize)
            {
                *location = written.clone();
            }
        }

        Ok(self.record)
    }
}

impl CommitPayload {
    async fn write(&self, core: &StoreCore) -> Result<String> {
        let root = core.log.destination();
        match &self.form {
            CommitPayloadFile::Rows(batch) => {
                let path = format!("delta/{}.parquet", uuid7());
                rows::write(core.log.sinks(), &root, &path, batch).await?;
                Ok(path)
            }
            CommitPayloadFile::Deleted(bytes) => {
                deletion::write(core.log.sinks(), &root, bytes.clone()).await
            }
        }
    }
}

impl EdgePart {
    /// Returns the ends of all live edges of vertices: each vertex and its neighbour.
    async fn pairs(&self, direction: Direction, vertices: &[i64]) -> Result<Vec<(i64, i64)>> {
        if vertices.is_empty() {
            return Ok(Vec::new());
        }

        let columns = self.columns(&[]);
        let mut pairs = Vec::new();
        let slices = self.slices(Access::Loading, direction, vertices).await?;
        for (vertex, slice) in vertices.iter().zip(slices) {
            let mut left = Vec::new();
            self.deleted(direction).left(slice, |range| left.push(range));
            if !left.is_empty() {
                let found = self.read(Access::Loading, direction, &left, &columns, &[]).await?;
                pairs.extend(found.neighbors.values().iter().map(|neighbor| (*vertex, *neighbor)));
            }
        }

        Ok(pairs)
    }

    /// Returns the ordinals of live edges between pairs of vertices.
    async fn ordinals(
        &self,
        direction: Direction,
        pairs: impl Iterator<Item = (i64, i64)>,
    ) -> Result<RoaringTreemap> {
        let mut ordinals = RoaringTreemap::new();
        for (vertex, neighbor) in pairs {
            let found = match &self.of {
                EdgePartSource::Base(base) => {
                    base.list(direction).find(vertex, neighbor, &base.select(&[])).await?.ordinals
                }
                EdgePartSource::Delta(delta) => delta.find(direction, vertex, neighbor),
            };
            self.deleted(direction).left(found, |range| {
                ordinals.insert_range(range);
            });
        }

        Ok(ordinals)
    }
}

/// Builds a patch: the last row of each vertex, in the order of indexes.
pub(crate) fn patch(
    indexes: &[i64],
    fields: &[arrow::datatypes::FieldRef],
    columns: &[ArrayRef],
) -> Result<RecordBatch> {
    let mut rows: Vec<u32> = (0..indexes.len() as u32).collect();
    rows.sort_by_key(|row| indexes.get(*row as usize).copied());
    let mut last: Vec<u32> = Vec::with_capacity(rows.len());
    for row in rows {
        let same =
            last.last().is_some_and(|before| indexes.get(*before as usize) == indexes.get(row as usize));
        if same {
            last.pop();
        }
        last.push(row);
    }

    let rows = arrow::array::UInt32Array::from(last);
    let index: ArrayRef = Arc::new(Int64Array::from(indexes.to_vec()));
    let taken = std::iter::once(&index).chain(columns);
    let taken =
        taken.map(|column| arrow::compute::take(column, &rows, None)).collect::<std::result::Result<_, _>>();
    let schema = Arc::new(Schema::new(crate::store::delta::vertices::patch_fields(fields).to_vec()));
    let batch = taken.and_then(|columns| RecordBatch::try_new(schema, columns));

    batch.map_err(|error| arrow_error("an update", error))
}
