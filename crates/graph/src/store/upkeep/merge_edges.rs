//! Merges committed edges of a type: deltas into few deltas without deleted edges, deletions into one set.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{AsArray, RecordBatch},
    compute::concat_batches,
    datatypes::{FieldRef, Int64Type},
};
use roaring::RoaringTreemap;
use stylobate_storage::Corrupt;

use super::{
    compact::{
        CompactOptions, CompactionOutcome, EarlierVersion, TypeLease, common, next, was_not_committed,
    },
    rewrite_edges::{EndpointPairSet, deleted_since, of_delta, without_deleted},
};
use crate::{
    Direction, Error, Result,
    slice_bytes::slice_bytes,
    store::{
        delta::{
            deletion::DeletionSet,
            edges::{self as delta, EdgeDelta},
            rows::{DeltaRows, arrow_error},
        },
        graph_store::{GraphStore, PendingVersion},
        log::record::{DataLocation, EdgeBaseState, EdgeDeletionPair, EdgeDeltaInfo},
        parts::{
            edge_part::{EdgePart, EdgePartSource},
            edge_parts::EdgeParts,
        },
        snapshot::Snapshot,
        write::plan::{MergeBudget, MergeStep, first_of_latest},
    },
};

/// Latest deltas of a type, some of them merged.
struct MergedEdgeDeltas {
    /// Number of earlier deltas, which remain.
    skip: usize,
    /// From the latest to the earliest.
    deltas: Vec<MergedEdgeDelta>,
}

enum MergedEdgeDelta {
    /// Existing delta at this location.
    Remaining(DataLocation),
    /// Ends of new edges, and the location of the edges; `None` if there are none.
    New { ends: Box<EdgeDelta>, at: Option<DataLocation> },
}

impl MergedEdgeDeltas {
    /// Returns true if it differs from the existing deltas.
    fn has_new(&self) -> bool {
        self.deltas.iter().any(|delta| matches!(delta, MergedEdgeDelta::New { .. }))
    }

    /// Returns the locations of new deltas.
    fn written(&self) -> Vec<&DataLocation> {
        let mut written = Vec::new();
        for delta in &self.deltas {
            if let MergedEdgeDelta::New { at: Some(at), .. } = delta {
                written.push(at);
            }
        }
        written
    }

    /// Returns the number of edges in new deltas.
    fn rows(&self) -> u64 {
        let rows = |delta: &MergedEdgeDelta| match delta {
            MergedEdgeDelta::New { ends, .. } => ends.len(),
            MergedEdgeDelta::Remaining(_) => 0,
        };
        self.deltas.iter().map(rows).sum()
    }
}

/// Delta in memory, without deleted edges.
struct EdgeDeltaRows<'a> {
    info: &'a EdgeDeltaInfo,
    rows: RecordBatch,
}

impl GraphStore {
    /// Merges the latest deltas; for a writer, only those that are small compared to later ones.
    pub(crate) async fn merge_edges(
        &self,
        lease: &TypeLease<'_>,
        name: &str,
        from: &Snapshot,
        parts: Arc<EdgeParts>,
        options: &CompactOptions,
    ) -> Result<CompactionOutcome> {
        let state = &parts.state;
        let rows = state.deltas.iter().map(|info| info.rows);
        let kept = self.kept(lease.kept).await?;
        let kept = kept.as_ref().and_then(|kept| kept.edges.get(kept.edge_type(name).ok()?));
        let kept = kept.map_or(0, |kept| common(&kept.deltas, &state.deltas, |info| &info.at));
        let skip = first_of_latest(rows, options.is_of_writer()).max(kept);
        let merged = match state.deltas.get(skip..).unwrap_or_default() {
            [] => None,
            [alone] if !alone.at.is_inline() && alone.deleted.is_empty() => None,
            _ => {
                let budget = MergeBudget::new(self.core().options.memory, options.is_of_writer());
                let merged = self.merged_edge_deltas(&parts, skip, budget).await?;
                merged.has_new().then(|| Arc::new(merged))
            }
        };

        let has_sets = state.bases.iter().any(has_sets);
        if merged.is_none() && !has_sets {
            return Ok(CompactionOutcome::Nothing);
        }
        let earlier = &EarlierVersion::new(from);
        let replace = |head: Snapshot| {
            let merged = merged.clone();
            let parts = parts.clone();
            async move {
                let mut record = next(&head, name, lease.kept);
                let mut files = Vec::new();
                let at = record.edge_type(name)?;
                if !self.is_untouched(name, earlier, &head).await? {
                    return Ok(None);
                }
                let now = head.edge_parts(at).await?;
                let Some(state) = record.edges.get_mut(at) else { return Ok(None) };
                if let Some(merged) = merged {
                    let skip = parts.state.bases.len() + merged.skip;
                    let since = deleted_since(&parts, skip, &now).await?;
                    let Some((pairs, replaced)) = since else { return Ok(None) };
                    self.replace_deltas(&merged, &pairs, &mut state.deltas, replaced, &mut files).await?;
                }

                self.merge_sets(&now, &mut state.bases, &mut files).await?;
                Ok(Some(PendingVersion { record, files }))
            }
        };

        let published = self.publish(lease.lease, replace).await;
        if was_not_committed(&published)
            && let Some(merged) = &merged
        {
            for location in merged.written() {
                self.core().give_up_file(location).await;
            }
        }
        let rows = merged.map_or(0, |merged| merged.rows());
        Ok(match published? {
            Some(done) => CompactionOutcome::merged(name, done.version(), rows),
            None => CompactionOutcome::Overtaken,
        })
    }

    /// Merges the live edges of all deltas after the first `skip` into few deltas, each in a file. For a writer, only
    /// those of the latest deltas that its budget admits.
    async fn merged_edge_deltas(
        &self,
        parts: &EdgeParts,
        skip: usize,
        mut budget: MergeBudget,
    ) -> Result<MergedEdgeDeltas> {
        let fields = parts.state.schema.fields();
        let latest = parts.state.deltas.get(skip..).unwrap_or_default();
        let parts = parts.parts.get(parts.state.bases.len() + skip..).unwrap_or_default();
        let mut merged = MergedEdgeDeltas { skip: skip + latest.len(), deltas: Vec::new() };
        let mut deltas: Vec<EdgeDeltaRows<'_>> = Vec::new();
        for (info, part) in latest.iter().zip(parts).rev() {
            let rows = live_rows(part, &fields).await?;
            match budget.admit(slice_bytes(&rows) as u64) {
                MergeStep::Join => {}
                MergeStep::Begin => {
                    let complete = self.merge_edge_deltas(std::mem::take(&mut deltas), &fields).await?;
                    merged.deltas.extend(complete);
                }
                MergeStep::Stop => break,
            }
            deltas.push(EdgeDeltaRows { info, rows });
            merged.skip -= 1;
        }

        merged.deltas.extend(self.merge_edge_deltas(deltas, &fields).await?);
        Ok(merged)
    }

    /// Merges deltas, given from the latest to the earliest, into one in a file. `None` if there are none.
    async fn merge_edge_deltas(
        &self,
        deltas: Vec<EdgeDeltaRows<'_>>,
        fields: &[FieldRef],
    ) -> Result<Option<MergedEdgeDelta>> {
        let Some(earliest) = deltas.last() else { return Ok(None) };
        if let [alone] = deltas.as_slice()
            && !alone.info.at.is_inline()
            && alone.info.deleted.is_empty()
        {
            return Ok(Some(MergedEdgeDelta::Remaining(alone.info.at.clone())));
        }

        let all = concat_batches(&earliest.rows.schema(), deltas.iter().rev().map(|delta| &delta.rows));
        let all = all.map_err(|error| arrow_error("deltas of edges", error))?;
        drop(deltas);
        let ends = |at: usize| all.column(at).as_primitive::<Int64Type>().values();
        let properties = all.columns().get(2..).unwrap_or_default();
        let sorted = delta::sorted(ends(0), ends(1), fields, properties)?;
        drop(all);
        let at = match sorted.num_rows() {
            0 => None,
            _ => Some(self.write_rows(&sorted).await?),
        };

        // Properties are not needed any more.
        let ends = sorted.project(&[0, 1]).map_err(|error| arrow_error("deltas of edges", error))?;
        let sources = ends.column(0).clone();
        let destinations = ends.column(1).clone();
        let wrong = |corrupt: Corrupt| Error::Data {
            file: "deltas of edges".to_owned(),
            reason: corrupt.to_string(),
        };
        let ends = EdgeDelta::new(DeltaRows::Decoded(ends), &sources, &destinations).map_err(wrong)?;
        Ok(Some(MergedEdgeDelta::New { ends: Box::new(ends), at }))
    }

    /// Replaces deltas with the merged ones, in which the edges between `pairs` are deleted.
    async fn replace_deltas(
        &self,
        merged: &MergedEdgeDeltas,
        pairs: &EndpointPairSet,
        deltas: &mut Vec<EdgeDeltaInfo>,
        replaced: Range<usize>,
        files: &mut Vec<DataLocation>,
    ) -> Result<()> {
        let mut infos = Vec::with_capacity(merged.deltas.len());
        for delta in merged.deltas.iter().rev() {
            match delta {
                // With its deletions since then. It is gone if all its edges were deleted.
                MergedEdgeDelta::Remaining(at) => {
                    infos.extend(deltas.iter().find(|info| info.at == *at).cloned());
                }
                MergedEdgeDelta::New { ends, at: Some(at) } => {
                    infos.extend(self.without_pairs(ends, at, pairs, files).await?);
                }
                MergedEdgeDelta::New { at: None, .. } => {}
            }
        }

        deltas.splice(replaced, infos);
        Ok(())
    }

    /// Returns a new delta without the edges between `pairs`; `None` if no edge is left.
    async fn without_pairs(
        &self,
        ends: &EdgeDelta,
        at: &DataLocation,
        pairs: &EndpointPairSet,
        files: &mut Vec<DataLocation>,
    ) -> Result<Option<EdgeDeltaInfo>> {
        let mut gone = RoaringTreemap::new();
        for (source, destination) in pairs {
            gone.insert_range(ends.find(Direction::Out, *source, *destination));
        }
        let rows = ends.len();
        let deleted_count = gone.len();
        if deleted_count >= rows {
            return Ok(None);
        }

        let mut info = EdgeDeltaInfo { at: at.clone(), rows, deleted: Vec::new(), deleted_count };
        if !gone.is_empty() {
            info.deleted.push(self.core().write_deleted(&DeletionSet::new(gone), files).await?);
        }
        Ok(Some(info))
    }

    /// Merges the deletions of each base into one set, so that no record of an earlier version is needed.
    async fn merge_sets(
        &self,
        now: &EdgeParts,
        bases: &mut [EdgeBaseState],
        files: &mut Vec<DataLocation>,
    ) -> Result<()> {
        for (base, part) in bases.iter_mut().zip(&now.parts).filter(|(base, _)| has_sets(base)) {
            base.deleted = vec![EdgeDeletionPair {
                by_source: self.core().write_deleted(&part.out_deleted, files).await?,
                by_destination: self.core().write_deleted(&part.in_deleted, files).await?,
                count: part.out_deleted.set().len(),
            }];
        }
        Ok(())
    }
}

/// Reads the live edges of a delta: both ends, and columns.
async fn live_rows(part: &EdgePart, fields: &[FieldRef]) -> Result<RecordBatch> {
    match &part.of {
        EdgePartSource::Delta(delta) => {
            without_deleted(&of_delta(delta, fields).await?, 0, &part.out_deleted)
        }
        EdgePartSource::Base(_) => Err(Error::Ended { reason: "a base among deltas".to_owned() }),
    }
}

/// Returns true if the deletions of a base are in several sets, or in records of the log.
fn has_sets(base: &EdgeBaseState) -> bool {
    let is_inline = |pair: &EdgeDeletionPair| pair.by_source.is_inline() || pair.by_destination.is_inline();
    base.deleted.len() > 1 || base.deleted.iter().any(is_inline)
}
