//! Merges committed vertices of a type: deltas into one delta, patches into one patch, deletions into one set.

use std::{collections::BTreeSet, sync::Arc};

use arrow::{
    array::{RecordBatch, new_null_array},
    compute::concat_batches,
    datatypes::{FieldRef, Schema},
};

use super::{
    compact::{
        CompactOptions, CompactionOutcome, EarlierVersion, TypeLease, common, next, was_not_committed,
    },
    rewrite_vertices::{batch, follows},
};
use crate::{
    Result,
    store::{
        access::Access,
        delta::rows::{self, ColumnArrays, arrow_error},
        graph_store::{GraphStore, PendingVersion},
        log::record::{DataLocation, VertexDeltaInfo, VertexPatchInfo},
        names::uuid7,
        parts::{vertex_part::VertexPart, vertex_parts::VertexParts},
        snapshot::Snapshot,
        write::{commit as draft, plan::first_of_latest},
    },
};

/// Consecutive deltas or patches, some of them new files.
struct MergedSegments<T> {
    infos: Vec<T>,
    written: Vec<DataLocation>,
    rows: u64,
}

impl GraphStore {
    /// Merges the latest deltas and patches; for a writer, only those that are small compared to later ones.
    pub(crate) async fn merge_vertices(
        &self,
        lease: &TypeLease<'_>,
        name: &str,
        from: &Snapshot,
        parts: &VertexParts,
        options: &CompactOptions,
    ) -> Result<CompactionOutcome> {
        let before = &parts.state;
        let kept = self.kept(lease.kept).await?;
        let kept = kept.as_ref().and_then(|kept| kept.vertices.get(kept.vertex_type(name).ok()?));
        let deltas_kept = kept.map_or(0, |kept| common(&kept.deltas, &before.deltas, |info| &info.at));
        let patches_kept = kept.map_or(0, |kept| common(&kept.patches, &before.patches, |info| &info.at));
        let first = |rows: Vec<u64>| first_of_latest(rows.into_iter(), options.is_of_writer());
        let deltas = first(before.deltas.iter().map(|info| info.rows).collect()).max(deltas_kept);
        let patches = first(before.patches.iter().map(|info| info.rows).collect()).max(patches_kept);
        let deltas = self.merged_deltas(parts, deltas).await?;
        let patches = self.merged_patches(parts, patches).await?;
        let written = || deltas.written.iter().chain(&patches.written);
        let has_sets = before.deleted.len() > 1 || before.deleted.iter().any(DataLocation::is_inline);
        let are_fewer = patches.infos.len() < before.patches.len();
        if written().next().is_none() && !has_sets && !are_fewer {
            return Ok(CompactionOutcome::Nothing);
        }

        let earlier = &EarlierVersion::new(from);
        let replace = |head: Snapshot| {
            let deltas = deltas.infos.clone();
            let patches = patches.infos.clone();
            async move {
                let mut record = next(&head, lease.kept);
                let mut files = Vec::new();
                let at = record.vertex_type(name)?;
                let untouched = self.is_untouched(earlier, &head).await?;
                let deleted = head.vertex_parts(at).await?.deleted.clone();
                let Some(state) =
                    record.vertices.get_mut(at).filter(|state| untouched && follows(before, state))
                else {
                    return Ok(None);
                };

                state.deltas.splice(..before.deltas.len(), deltas);
                state.patches.splice(..before.patches.len(), patches);
                if has_sets {
                    state.deleted = vec![self.core().write_deleted(&deleted, &mut files).await?];
                }
                Ok(Some(PendingVersion { record, files }))
            }
        };

        let published = self.publish(lease.lease, replace).await;
        if was_not_committed(&published) {
            for location in written() {
                self.core().give_up_file(location).await;
            }
        }
        Ok(match published? {
            Some(done) => CompactionOutcome::merged(name, done.version(), deltas.rows + patches.rows),
            None => CompactionOutcome::Overtaken,
        })
    }

    /// Merges all deltas after the first `skip` into one per range of consecutive indexes, each in a file.
    async fn merged_deltas(
        &self,
        parts: &VertexParts,
        skip: usize,
    ) -> Result<MergedSegments<VertexDeltaInfo>> {
        let fields: Arc<[FieldRef]> = parts.state.schema.fields().into();
        let (before, latest) = parts.state.deltas.split_at_checked(skip).unwrap_or_default();
        let mut merged = MergedSegments { infos: before.to_vec(), written: Vec::new(), rows: 0 };
        let adjacent = |a: &VertexDeltaInfo, b: &VertexDeltaInfo| a.first + a.rows == b.first;
        for run in latest.chunk_by(adjacent) {
            if let [alone] = run
                && !alone.at.is_inline()
            {
                merged.infos.push(alone.clone());
                continue;
            }

            let Some(first) = run.first().map(|info| info.first) else { continue };
            let mut batches = Vec::new();
            for part in &parts.parts {
                if let VertexPart::Delta(delta) = part
                    && run.iter().any(|info| info.first == delta.range().start)
                {
                    batches.push(batch(&fields, delta.rows().of_fields(&fields).await?.into_vec())?);
                }
            }

            let schema = Arc::new(Schema::new(fields.to_vec()));
            let all = concat_batches(&schema, &batches);
            let at = self.write_rows(&all.map_err(|error| arrow_error("deltas of vertices", error))?).await?;
            let rows = run.iter().map(|info| info.rows).sum();
            merged.written.push(at.clone());
            merged.rows += rows;
            merged.infos.push(VertexDeltaInfo { at, first, rows });
        }

        Ok(merged)
    }

    /// Merges all patches after the first `skip` into one per set of properties, each in a file.
    async fn merged_patches(
        &self,
        parts: &VertexParts,
        skip: usize,
    ) -> Result<MergedSegments<VertexPatchInfo>> {
        let (before, latest) = parts.state.patches.split_at_checked(skip).unwrap_or_default();
        let mut merged = MergedSegments { infos: before.to_vec(), written: Vec::new(), rows: 0 };
        let properties = |info: &VertexPatchInfo| info.columns.iter().cloned().collect::<BTreeSet<String>>();
        let all_properties: BTreeSet<BTreeSet<String>> = latest.iter().map(properties).collect();
        let mut new = Vec::new();
        for columns in all_properties {
            let same = || latest.iter().enumerate().filter(|(_, info)| properties(info) == columns);
            if let (Some((_, alone)), None) = (same().next(), same().nth(1))
                && !alone.at.is_inline()
            {
                continue;
            }

            let patches = same().filter_map(|(at, _)| parts.patches.get(skip + at));
            let indexes: BTreeSet<i64> =
                patches.flat_map(|patch| patch.indexes().values().iter().copied()).collect();
            let indexes: Vec<i64> = indexes.into_iter().filter(|index| parts.is_there(*index)).collect();
            if indexes.is_empty() {
                continue;
            }

            let patch = current(parts, &columns, &indexes).await?;
            let at = self.write_rows(&patch).await?;
            let rows = patch.num_rows() as u64;
            merged.written.push(at.clone());
            merged.rows += rows;
            new.push(VertexPatchInfo { at, rows, columns: columns.into_iter().collect() });
        }

        // The new patches hold current values, and take precedence over the remaining ones, which may hold older
        // values.
        let is_left = |info: &&VertexPatchInfo| {
            let is_alone = latest.iter().filter(|other| properties(other) == properties(info)).count() == 1;
            is_alone && !info.at.is_inline()
        };
        merged.infos.extend(latest.iter().filter(is_left).cloned());
        merged.infos.extend(new);

        Ok(merged)
    }

    /// Writes rows to a file.
    pub(crate) async fn write_rows(&self, rows: &RecordBatch) -> Result<DataLocation> {
        let path = format!("delta/{}.parquet", uuid7());
        let log = &self.core().log;
        rows::write(log.sinks(), &log.destination(), &path, rows).await?;
        Ok(DataLocation::File { path })
    }
}

/// Returns a patch of current values. Each of these properties must have been patched for each vertex.
async fn current(parts: &VertexParts, columns: &BTreeSet<String>, indexes: &[i64]) -> Result<RecordBatch> {
    let fields = parts.state.schema.fields();
    let fields: Vec<FieldRef> = fields.into_iter().filter(|field| columns.contains(field.name())).collect();
    let nothing: ColumnArrays =
        fields.iter().map(|field| new_null_array(field.data_type(), indexes.len())).collect();
    let selection = parts.select(fields.clone().into());
    let values = parts.patched(Access::Loading, indexes, nothing, &selection).await?;
    draft::patch(indexes, &fields, &values)
}
