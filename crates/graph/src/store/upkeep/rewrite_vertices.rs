//! Compacts vertices of a type into one base with patches applied.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch},
    compute::nullif,
    datatypes::{FieldRef, Schema},
};
use futures::{Stream, StreamExt, TryStreamExt};

use super::compact::{CompactOptions, CompactionLease, CompactionOutcome, next, was_not_committed};
use crate::{
    Error, Result,
    store::{
        access::Access,
        delta::rows::{ColumnArrays, arrow_error},
        graph_store::{GraphStore, PendingVersion},
        lease::Lease,
        log::record::VertexState,
        parts::{
            vertex_part::VertexPart,
            vertex_parts::{VertexParts, VertexSelection},
        },
        snapshot::Snapshot,
        write::plan::{CompactionAction, CompactionStats},
    },
};

/// Rows of a delta read at a time.
pub(crate) const BATCH_ROWS: usize = 1 << 16;

impl GraphStore {
    pub(crate) async fn compact_vertices(
        &self,
        lease: &mut CompactionLease,
        name: &str,
        options: &CompactOptions,
    ) -> Result<CompactionOutcome> {
        let snapshot = self.refresh().await?;
        let parts = snapshot.vertex_parts(snapshot.record().vertex_type(name)?).await?;
        let action = options.plan(counted(&parts));
        if action == CompactionAction::Nothing {
            return Ok(CompactionOutcome::Nothing);
        }
        let Some(lease) = lease.of_type(self.core(), snapshot.version()).await? else {
            return Ok(CompactionOutcome::Nothing);
        };
        match action {
            CompactionAction::Rewrite => self.rewrite_vertices(lease.lease, name, parts).await,
            _ => self.merge_vertices(&lease, name, &parts, options).await,
        }
    }

    async fn rewrite_vertices(
        &self,
        lease: &Lease,
        name: &str,
        parts: Arc<VertexParts>,
    ) -> Result<CompactionOutcome> {
        let schema = &parts.state.schema;
        let fields = schema.fields();
        let writer = self.core().base_writer();
        let batches = rewritten(parts.clone(), fields.clone().into());
        let deleted = parts.deleted.clone();
        let written =
            writer.vertices_without(name, Some(&schema.key), &fields, 0, batches, false, deleted).await?.info;
        let path = written.path.clone();
        let rows = written.count;
        let bytes = written.bytes;

        let before = &parts.state;
        let replace = |head: Snapshot| {
            let written = written.clone();
            async move {
                let mut record = next(&head, name, 0);
                let mut files = Vec::new();
                let at = record.vertex_type(name)?;
                let deleted = head.vertex_parts(at).await?.deleted.clone();
                let Some(state) = record.vertices.get_mut(at).filter(|state| follows(before, state)) else {
                    return Ok(None);
                };

                // Rewritten as one set, so that it depends on no record of an earlier version.
                if !state.deleted.is_empty() {
                    state.deleted = vec![self.core().write_deleted(&deleted, &mut files).await?];
                }
                state.bases.splice(..before.bases.len(), [written]);
                state.deltas.drain(..before.deltas.len());
                state.patches.drain(..before.patches.len());

                Ok(Some(PendingVersion { record, files }))
            }
        };

        let published = self.publish(lease, replace).await;
        if was_not_committed(&published) {
            writer.give_up(&path).await;
        }
        Ok(match published? {
            Some(done) => CompactionOutcome::rewritten(name, done.version(), rows, bytes),
            None => CompactionOutcome::Overtaken,
        })
    }
}

fn counted(parts: &VertexParts) -> CompactionStats {
    let state = &parts.state;
    let mut changed = 0;
    for base in &state.bases {
        let gone = parts.deleted.count(&(base.first..base.first + base.count));
        // The base has no keys of vertices that were deleted before it was written.
        let known = base.keys.as_ref().map_or(0, |keys| base.count.saturating_sub(keys.count));
        changed += gone.saturating_sub(known);
    }

    CompactionStats {
        bases: state.bases.len(),
        base_rows: state.bases.iter().map(|base| base.count).sum(),
        changed_rows: changed + state.patches.iter().map(|patch| patch.rows).sum::<u64>(),
        deltas: state.deltas.len(),
        delta_rows: state.deltas.iter().map(|delta| delta.rows).sum(),
        patches: state.patches.len(),
        sets: state.deleted.len(),
        inline: state.locations().filter(|location| location.is_inline()).count(),
    }
}

/// Returns true if a later state has all parts of an earlier one, in the same positions.
pub(crate) fn follows(before: &VertexState, after: &VertexState) -> bool {
    let bases = before.bases.iter().zip(&after.bases).all(|(a, b)| a.path == b.path);
    let deltas = before.deltas.iter().zip(&after.deltas).all(|(a, b)| a == b);
    let patches = before.patches.iter().zip(&after.patches).all(|(a, b)| a == b);
    let is_longer = before.bases.len() <= after.bases.len()
        && before.deltas.len() <= after.deltas.len()
        && before.patches.len() <= after.patches.len();
    is_longer && bases && deltas && patches
}

pub(crate) fn batch(fields: &[FieldRef], columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let schema = Arc::new(Schema::new(fields.to_vec()));
    RecordBatch::try_new(schema, columns).map_err(|error| arrow_error("vertices", error))
}

/// Current state of some vertices of a part, including deleted ones: the index of the first, and columns.
pub(crate) type PatchedVertexRows = (i64, ColumnArrays);

/// Streams all vertices of a type in the order of their indexes, including deleted ones, with patches applied.
pub(crate) fn all_vertices(
    parts: Arc<VertexParts>,
    fields: Arc<[FieldRef]>,
) -> impl Stream<Item = Result<PatchedVertexRows>> + Send {
    let selection = Arc::new(parts.select(fields.clone()));
    let numbers = futures::stream::iter(0..parts.parts.len());
    let of = parts.clone();
    let with = fields.clone();

    let raw = numbers.map(Ok::<_, Error>).and_then(move |at| {
        let parts = of.clone();
        let fields = with.clone();
        async move {
            Ok(match parts.parts.get(at) {
                Some(VertexPart::Base(base)) => {
                    let rows = base.stream(&base.select(&fields));
                    rows.map_ok(|rows| (rows.first, ColumnArrays::from(rows.columns))).boxed()
                }
                Some(VertexPart::Delta(delta)) => {
                    let columns = delta.rows().of_fields(&fields).await?;
                    let range = delta.range();
                    let len = (range.end - range.start) as usize;
                    let slices = (0..len).step_by(BATCH_ROWS).map(move |start| {
                        let rows = BATCH_ROWS.min(len - start);
                        let slice = columns.iter().map(|column| column.slice(start, rows)).collect();
                        Ok((range.start as i64 + start as i64, slice))
                    });
                    futures::stream::iter(slices.collect::<Vec<_>>()).boxed()
                }
                None => futures::stream::empty().boxed(),
            })
        }
    });

    raw.try_flatten().and_then(move |(first, columns): PatchedVertexRows| {
        let parts = parts.clone();
        let selection = selection.clone();
        async move { patched(&parts, &selection, first, columns).await }
    })
}

async fn patched(
    parts: &VertexParts,
    selection: &VertexSelection,
    first: i64,
    columns: ColumnArrays,
) -> Result<PatchedVertexRows> {
    let rows = columns.first().map_or(0, |column| column.len()) as i64;
    if parts.patches.is_empty() {
        return Ok((first, columns));
    }
    let indexes: Vec<i64> = (first..first + rows).collect();
    Ok((first, parts.patched(Access::Loading, &indexes, columns, selection).await?))
}

/// Streams [`all_vertices`] as batches for a base; only the keys of deleted vertices are kept.
fn rewritten(
    parts: Arc<VertexParts>,
    fields: Arc<[FieldRef]>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let deleted = parts.deleted.clone();
    let key = fields.iter().position(|field| *field.name() == parts.state.schema.key);

    all_vertices(parts, fields.clone()).and_then(move |(first, columns)| {
        let rows = columns.first().map_or(0, |column| column.len());
        let range = first as u64..first as u64 + rows as u64;
        let made = match deleted.count(&range) {
            0 => Ok(columns.into_vec()),
            _ => {
                let gone: BooleanArray = range.map(|index| Some(deleted.contains(index))).collect();
                let columns = columns.iter().enumerate().map(|(at, column)| {
                    if Some(at) == key { Ok(column.clone()) } else { nullif(column, &gone) }
                });
                columns.collect::<Result<Vec<_>, _>>().map_err(|error| arrow_error("vertices", error))
            }
        };

        let batch = made.and_then(|columns| batch(&fields, columns));
        std::future::ready(batch)
    })
}
