//! Merges committed vertices of a type: deltas into few deltas, patches into few patches, deletions into one set.

use std::collections::BTreeSet;

use arrow::{
    array::{Array, RecordBatch, new_null_array},
    compute::{concat, concat_batches},
    datatypes::FieldRef,
};

use super::{
    compact::{CompactOptions, CompactionOutcome, TypeLease, common, next, was_not_committed},
    rewrite_vertices::{batch, follows},
};
use crate::{
    Error, Result,
    slice_bytes::slice_bytes,
    store::{
        access::Access,
        budgeted::bytes_of,
        delta::rows::{self, ColumnArrays, arrow_error},
        graph_store::{GraphStore, PendingVersion},
        log::record::{DataLocation, VertexDeltaInfo, VertexPatchInfo},
        names::uuid7,
        parts::{
            vertex_part::VertexPart,
            vertex_parts::{VertexParts, VertexSelection},
        },
        snapshot::Snapshot,
        write::{
            commit as draft,
            plan::{MergeBudget, MergeStep, first_of_latest},
        },
    },
};

/// Consecutive deltas or patches, some of them new files.
struct MergedSegments<T> {
    infos: Vec<T>,
    written: Vec<DataLocation>,
    rows: u64,
}

impl<T> Default for MergedSegments<T> {
    fn default() -> Self {
        Self { infos: Vec::new(), written: Vec::new(), rows: 0 }
    }
}

/// Delta in memory.
struct VertexDeltaRows<'a> {
    info: &'a VertexDeltaInfo,
    rows: RecordBatch,
}

/// Patches in memory, to be merged: those of the same properties, each without the vertices of later ones.
#[derive(Default)]
struct PatchMerge {
    /// Their positions.
    patches: Vec<usize>,
    /// True if one of them is inline in a record.
    has_inline: bool,
    indexes: Vec<i64>,
    values: Vec<ColumnArrays>,
}

impl PatchMerge {
    fn add(&mut self, at: usize, info: &VertexPatchInfo, indexes: Vec<i64>, values: ColumnArrays) {
        self.patches.push(at);
        self.has_inline |= info.at.is_inline();
        self.indexes.extend(indexes);
        self.values.push(values);
    }
}

impl GraphStore {
    /// Merges the latest deltas and patches; for a writer, only those that are small compared to later ones.
    pub(crate) async fn merge_vertices(
        &self,
        lease: &TypeLease<'_>,
        name: &str,
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
        let budget = MergeBudget::new(self.core().options.memory, options.is_of_writer());
        let deltas = self.merged_vertex_deltas(parts, deltas, budget).await?;
        let patches = self.merged_patches(parts, patches, budget).await?;
        let written = || deltas.written.iter().chain(&patches.written);
        let has_sets = before.deleted.len() > 1 || before.deleted.iter().any(DataLocation::is_inline);
        let are_fewer = patches.infos.len() < before.patches.len();
        if written().next().is_none() && !has_sets && !are_fewer {
            return Ok(CompactionOutcome::Nothing);
        }

        let replace = |head: Snapshot| {
            let deltas = deltas.infos.clone();
            let patches = patches.infos.clone();
            async move {
                let mut record = next(&head, name, lease.kept);
                let mut files = Vec::new();
                let at = record.vertex_type(name)?;
                let deleted = head.vertex_parts(at).await?.deleted.clone();
                let Some(state) = record.vertices.get_mut(at).filter(|state| follows(before, state)) else {
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

    /// Merges all deltas after the first `skip` into few per range of consecutive indexes, each in a file. For a
    /// writer, only the latest that its budget admits.
    async fn merged_vertex_deltas(
        &self,
        parts: &VertexParts,
        skip: usize,
        mut budget: MergeBudget,
    ) -> Result<MergedSegments<VertexDeltaInfo>> {
        let fields = parts.state.schema.fields();
        let (before, latest) = parts.state.deltas.split_at_checked(skip).unwrap_or_default();
        let mut merged = MergedSegments::default();
        // Number of deltas that were not visited yet, from the latest to the earliest.
        let mut left = latest.len();
        let adjacent = |a: &VertexDeltaInfo, b: &VertexDeltaInfo| a.first + a.rows == b.first;

        'runs: for run in latest.chunk_by(adjacent).rev() {
            if let [alone] = run
                && !alone.at.is_inline()
            {
                merged.infos.push(alone.clone());
                left -= 1;
                continue;
            }

            let mut deltas: Vec<VertexDeltaRows<'_>> = Vec::new();
            for info in run.iter().rev() {
                let rows = delta_rows(parts, info, &fields).await?;
                match budget.admit(slice_bytes(&rows) as u64) {
                    MergeStep::Join => {}
                    MergeStep::Begin => {
                        self.merge_vertex_deltas(std::mem::take(&mut deltas), &mut merged).await?;
                    }
                    MergeStep::Stop => {
                        self.merge_vertex_deltas(deltas, &mut merged).await?;
                        break 'runs;
                    }
                }
                deltas.push(VertexDeltaRows { info, rows });
                left -= 1;
            }

            self.merge_vertex_deltas(deltas, &mut merged).await?;
            budget.end_merge();
        }

        let visited = std::mem::take(&mut merged.infos);
        let remaining = latest.get(..left).unwrap_or_default();
        merged.infos = before.iter().chain(remaining).cloned().chain(visited.into_iter().rev()).collect();
        Ok(merged)
    }

    /// Merges consecutive deltas, given from the latest to the earliest, into one in a file.
    async fn merge_vertex_deltas(
        &self,
        deltas: Vec<VertexDeltaRows<'_>>,
        merged: &mut MergedSegments<VertexDeltaInfo>,
    ) -> Result<()> {
        let Some(earliest) = deltas.last() else { return Ok(()) };
        if let [alone] = deltas.as_slice()
            && !alone.info.at.is_inline()
        {
            merged.infos.push(alone.info.clone());
            return Ok(());
        }

        let first = earliest.info.first;
        let all = concat_batches(&earliest.rows.schema(), deltas.iter().rev().map(|delta| &delta.rows));
        let all = all.map_err(|error| arrow_error("deltas of vertices", error))?;
        drop(deltas);
        let at = self.write_rows(&all).await?;
        let rows = all.num_rows() as u64;
        merged.written.push(at.clone());
        merged.rows += rows;
        merged.infos.push(VertexDeltaInfo { at, first, rows });

        Ok(())
    }

    /// Merges all patches after the first `skip` into few per set of properties, each in a file. For a writer, only the
    /// latest that its budget admits.
    async fn merged_patches(
        &self,
        parts: &VertexParts,
        skip: usize,
        budget: MergeBudget,
    ) -> Result<MergedSegments<VertexPatchInfo>> {
        let (before, latest) = parts.state.patches.split_at_checked(skip).unwrap_or_default();
        let properties = |info: &VertexPatchInfo| info.columns.iter().cloned().collect::<BTreeSet<String>>();
        let all_properties: BTreeSet<BTreeSet<String>> = latest.iter().map(properties).collect();
        let mut new = MergedSegments::default();
        let mut replaced: BTreeSet<usize> = BTreeSet::new();
        for columns in all_properties {
            let same = latest.iter().enumerate().filter(|(_, info)| properties(info) == columns);
            let same: Vec<(usize, &VertexPatchInfo)> = same.collect();
            if let [(_, alone)] = same.as_slice()
                && !alone.at.is_inline()
            {
                continue;
            }

            let mut budget = budget;
            let current = CurrentValues::new(parts, &columns);
            let mut merge = PatchMerge::default();
            let mut covered: BTreeSet<i64> = BTreeSet::new();
            for (at, info) in same.into_iter().rev() {
                let Some(patch) = parts.patches.get(skip + at) else { continue };
                let is_live = |index: &i64| parts.is_there(*index) && !covered.contains(index);
                let indexes: Vec<i64> = patch.indexes().values().iter().copied().filter(is_live).collect();
                if indexes.is_empty() {
                    replaced.insert(at);
                    continue;
                }

                let values = current.of(&indexes).await?;
                match budget.admit(bytes_of(&values)) {
                    MergeStep::Join => {}
                    MergeStep::Begin => {
                        let complete = std::mem::take(&mut merge);
                        self.merge_patches(complete, &current, &mut new, &mut replaced).await?;
                    }
                    MergeStep::Stop => break,
                }
                covered.extend(&indexes);
                merge.add(at, info, indexes, values);
            }

            self.merge_patches(merge, &current, &mut new, &mut replaced).await?;
        }

        // The new patches hold current values, and take precedence over the remaining ones, which may hold older
        // values.
        let remaining = latest.iter().enumerate().filter(|(at, _)| !replaced.contains(at));
        let remaining = remaining.map(|(_, info)| info.clone());
        new.infos = before.iter().cloned().chain(remaining).chain(new.infos).collect();
        Ok(new)
    }

    /// Merges patches into one in a file. A single one in a file remains.
    async fn merge_patches(
        &self,
        merge: PatchMerge,
        current: &CurrentValues<'_>,
        new: &mut MergedSegments<VertexPatchInfo>,
        replaced: &mut BTreeSet<usize>,
    ) -> Result<()> {
        let PatchMerge { patches, has_inline, indexes, values } = merge;
        if patches.is_empty() || (patches.len() == 1 && !has_inline) {
            return Ok(());
        }

        let mut columns = ColumnArrays::new();
        for at in 0..current.fields.len() {
            let arrays: Vec<&dyn Array> =
                values.iter().filter_map(|values| values.get(at)).map(AsRef::as_ref).collect();
            columns.push(concat(&arrays).map_err(|error| arrow_error("patches of vertices", error))?);
        }
        drop(values);

        let patch = draft::patch(&indexes, &current.fields, &columns)?;
        drop(columns);
        let at = self.write_rows(&patch).await?;
        let rows = patch.num_rows() as u64;
        let columns = current.fields.iter().map(|field| field.name().clone()).collect();
        replaced.extend(patches);
        new.written.push(at.clone());
        new.rows += rows;
        new.infos.push(VertexPatchInfo { at, rows, columns });

        Ok(())
    }

    /// Writes rows to a file.
    pub(crate) async fn write_rows(&self, rows: &RecordBatch) -> Result<DataLocation> {
        let path = format!("delta/{}.parquet", uuid7());
        let log = &self.core().log;
        rows::write(log.sinks(), &log.destination(), &path, rows).await?;
        Ok(DataLocation::File { path })
    }
}

/// Reads the rows of a delta.
async fn delta_rows(parts: &VertexParts, info: &VertexDeltaInfo, fields: &[FieldRef]) -> Result<RecordBatch> {
    for part in &parts.parts {
        if let VertexPart::Delta(delta) = part
            && delta.range().start == info.first
        {
            return batch(fields, delta.rows().of_fields(fields).await?.into_vec());
        }
    }
    Err(Error::Ended { reason: format!("a delta that is no part: {}", info.at) })
}

/// Current values of properties that were patched for each vertex in question.
struct CurrentValues<'a> {
    parts: &'a VertexParts,
    fields: Vec<FieldRef>,
    selection: VertexSelection,
}

impl<'a> CurrentValues<'a> {
    fn new(parts: &'a VertexParts, columns: &BTreeSet<String>) -> Self {
        let fields = parts.state.schema.fields();
        let fields: Vec<FieldRef> =
            fields.into_iter().filter(|field| columns.contains(field.name())).collect();
        let selection = parts.select(fields.clone().into());
        Self { parts, fields, selection }
    }

    async fn of(&self, indexes: &[i64]) -> Result<ColumnArrays> {
        let nothing: ColumnArrays =
            self.fields.iter().map(|field| new_null_array(field.data_type(), indexes.len())).collect();
        self.parts.patched(Access::Loading, indexes, nothing, &self.selection).await
    }
}
