//! Merges committed edges of a type: deltas into one delta without deleted edges, deletions into one set.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{AsArray, RecordBatch},
    compute::concat_batches,
    datatypes::{FieldRef, Int64Type, Schema},
};
use futures::TryStreamExt;
use roaring::RoaringTreemap;
use stylobate_storage::Corrupt;

use super::{
    compact::{
        CompactOptions, CompactionOutcome, EarlierVersion, TypeLease, common, next, was_not_committed,
    },
    rewrite_edges::{EndpointPairSet, all_edges, deleted_since},
};
use crate::{
    Direction, Error, Result,
    store::{
        delta::{
            deletion::DeletionSet,
            edges::{self as delta, EdgeDelta},
            rows::{DeltaRows, arrow_error},
        },
        graph_store::{GraphStore, PendingVersion},
        log::record::{DataLocation, EdgeBaseState, EdgeDeletionPair, EdgeDeltaInfo},
        parts::edge_parts::EdgeParts,
        snapshot::Snapshot,
        write::plan::first_of_latest,
    },
};

/// Merged delta, and its location; `None` if it has no rows.
struct MergedEdgeDelta {
    delta: EdgeDelta,
    at: Option<DataLocation>,
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
            _ => Some(Arc::new(self.merged_delta(&parts, skip).await?)),
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
                let mut record = next(&head, lease.kept);
                let mut files = Vec::new();
                let at = record.edge_type(name)?;
                if !self.is_untouched(earlier, &head).await? {
                    return Ok(None);
                }
                let now = head.edge_parts(at).await?;
                let Some(state) = record.edges.get_mut(at) else { return Ok(None) };
                if let Some(merged) = merged {
                    let since = deleted_since(&parts, parts.state.bases.len() + skip, &now).await?;
                    let Some((pairs, replaced)) = since else { return Ok(None) };
                    self.replace_deltas(&merged, &pairs, &mut state.deltas, replaced, &mut files).await?;
                }

                self.merge_sets(&now, &mut state.bases, &mut files).await?;
                Ok(Some(PendingVersion { record, files }))
            }
        };

        let published = self.publish(lease.lease, replace).await;
        if was_not_committed(&published)
            && let Some(location) = merged.as_ref().and_then(|merged| merged.at.as_ref())
        {
            self.core().give_up_file(location).await;
        }
        let rows = merged.map_or(0, |merged| merged.delta.len());
        Ok(match published? {
            Some(done) => CompactionOutcome::merged(name, done.version(), rows),
            None => CompactionOutcome::Overtaken,
        })
    }

    /// Writes the live edges of all deltas after the first `skip` to a file.
    async fn merged_delta(&self, parts: &Arc<EdgeParts>, skip: usize) -> Result<MergedEdgeDelta> {
        let fields: Arc<[FieldRef]> = parts.state.schema.fields().into();
        let skip = parts.state.bases.len() + skip;
        let batches: Vec<RecordBatch> = all_edges(parts.clone(), skip, fields.clone()).try_collect().await?;
        let schema = Arc::new(Schema::new(delta::fields(&fields).to_vec()));
        let all = concat_batches(&schema, &batches).map_err(|error| arrow_error("deltas of edges", error))?;
        let ends = |at: usize| all.column(at).as_primitive::<Int64Type>().values();
        let properties = all.columns().get(2..).unwrap_or_default();
        let sorted = delta::sorted(ends(0), ends(1), &fields, properties)?;
        let at = match sorted.num_rows() {
            0 => None,
            _ => Some(self.write_rows(&sorted).await?),
        };

        let sources = sorted.column(0).clone();
        let destinations = sorted.column(1).clone();
        let wrong = |corrupt: Corrupt| Error::Data {
            file: "deltas of edges".to_owned(),
            reason: corrupt.to_string(),
        };
        let delta = EdgeDelta::new(DeltaRows::Decoded(sorted), &sources, &destinations).map_err(wrong)?;
        Ok(MergedEdgeDelta { delta, at })
    }

    /// Replaces deltas with the merged one, in which the edges between `pairs` are deleted.
    async fn replace_deltas(
        &self,
        merged: &MergedEdgeDelta,
        pairs: &EndpointPairSet,
        deltas: &mut Vec<EdgeDeltaInfo>,
        replaced: Range<usize>,
        files: &mut Vec<DataLocation>,
    ) -> Result<()> {
        let mut gone = RoaringTreemap::new();
        for (source, destination) in pairs {
            gone.insert_range(merged.delta.find(Direction::Out, *source, *destination));
        }
        let rows = merged.delta.len();
        let deleted_count = gone.len();
        let mut new = None;
        if let Some(at) = merged.at.clone().filter(|_| deleted_count < rows) {
            let mut info = EdgeDeltaInfo { at, rows, deleted: Vec::new(), deleted_count };
            if !gone.is_empty() {
                info.deleted.push(self.core().write_deleted(&DeletionSet::new(gone), files).await?);
            }
            new = Some(info);
        }

        deltas.splice(replaced, new);
        Ok(())
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

/// Returns true if the deletions of a base are in several sets, or in records of the log.
fn has_sets(base: &EdgeBaseState) -> bool {
    let is_inline = |pair: &EdgeDeletionPair| pair.by_source.is_inline() || pair.by_destination.is_inline();
    base.deleted.len() > 1 || base.deleted.iter().any(is_inline)
}
