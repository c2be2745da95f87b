//! Compacts edges of a type into one base without deleted edges.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, BooleanArray, Int64Array, RecordBatch},
    compute::filter_record_batch,
    datatypes::FieldRef,
};
use futures::{Stream, StreamExt, TryStreamExt};
use roaring::RoaringTreemap;

use super::{
    compact::{CompactOptions, CompactionLease, CompactionOutcome, EarlierVersion, next, was_not_committed},
    rewrite_vertices::BATCH_ROWS,
};
use crate::{
    Direction, Error, Result,
    store::{
        base::{BaseColumnSelection, edges::EdgeBase},
        delta::{deletion::DeletionSet, edges::EdgeDelta, rows::arrow_error},
        graph_store::{GraphStore, PendingVersion},
        lease::Lease,
        log::record::{DataLocation, EdgeBaseState, EdgeDeletionPair, EdgeDeltaInfo, EdgeState},
        parts::{
            edge_part::{EdgePart, EdgePartSource},
            edge_parts::EdgeParts,
        },
        snapshot::Snapshot,
        write::{
            load::edge_batch,
            plan::{CompactionAction, CompactionStats},
        },
    },
};

/// Pairs of source and destination.
pub(crate) type EndpointPairSet = BTreeSet<(i64, i64)>;

impl GraphStore {
    /// Compacts the edges of a type, as planned by `options`: rewrites them into one base, or merges deltas.
    pub(crate) async fn compact_edges(
        &self,
        lease: &mut CompactionLease,
        name: &str,
        options: &CompactOptions,
    ) -> Result<CompactionOutcome> {
        let snapshot = self.refresh().await?;
        let parts = snapshot.edge_parts(snapshot.record().edge_type(name)?).await?;

        let action = options.plan(compaction_stats(&parts.state));
        if action == CompactionAction::Nothing {
            return Ok(CompactionOutcome::Nothing);
        }
        let Some(lease) = lease.of_type(self.core(), snapshot.version()).await? else {
            return Ok(CompactionOutcome::Nothing);
        };
        match action {
            CompactionAction::Rewrite => self.rewrite_edges(lease.lease, name, &snapshot, parts).await,
            _ => self.merge_edges(&lease, name, &snapshot, parts, options).await,
        }
    }

    /// Writes the live edges to a new base and publishes it. Edges deleted in the meantime become its deletions.
    async fn rewrite_edges(
        &self,
        lease: &Lease,
        name: &str,
        from: &Snapshot,
        parts: Arc<EdgeParts>,
    ) -> Result<CompactionOutcome> {
        let schema = &parts.state.schema;
        let fields = schema.fields();

        let writer = self.core().base_writer();
        let batches = all_edges(parts.clone(), 0, fields.clone().into());
        let names = (schema.source.as_str(), schema.name.as_str(), schema.destination.as_str());
        let counts = (parts.sources, parts.destinations);
        let written = writer.edges(names, counts, &fields, batches).await?;
        let path = written.path.clone();
        let rows = written.count;
        let bytes = written.bytes;

        let base = Arc::new(EdgeBase::open(&self.core().folder, &written, &fields));
        let earlier = &EarlierVersion::new(from);
        let replace = |head: Snapshot| {
            let base = base.clone();
            let parts = parts.clone();
            async move {
                let mut record = next(&head, name, 0);
                let mut files = Vec::new();
                let at = record.edge_type(name)?;
                if !self.is_untouched(name, earlier, &head).await? {
                    return Ok(None);
                }

                let now = head.edge_parts(at).await?;
                let Some((pairs, deltas)) = deleted_since(&parts, 0, &now).await? else { return Ok(None) };
                let deleted = self.write_deletions(&base, &pairs, &mut files).await?;

                let Some(state) = record.edges.get_mut(at) else { return Ok(None) };
                let info = base.info().clone();
                state.bases.splice(..parts.state.bases.len(), [EdgeBaseState { info, deleted }]);
                state.deltas.drain(deltas);

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

    /// Writes the deletions of these pairs in the new base; empty if it has none of them.
    async fn write_deletions(
        &self,
        base: &EdgeBase,
        pairs: &EndpointPairSet,
        files: &mut Vec<DataLocation>,
    ) -> Result<Vec<EdgeDeletionPair>> {
        let mut by_source = RoaringTreemap::new();
        let mut by_destination = RoaringTreemap::new();
        let none = BaseColumnSelection::default();
        for (source, destination) in pairs {
            let out = base.list(Direction::Out).find(*source, *destination, &none).await?;
            let into = base.list(Direction::In).find(*destination, *source, &none).await?;
            by_source.insert_range(out.ordinals);
            by_destination.insert_range(into.ordinals);
        }

        if by_source.is_empty() {
            return Ok(Vec::new());
        }

        let count = by_source.len();
        let by_source = self.core().write_deleted(&DeletionSet::new(by_source), files).await?;
        let by_destination = self.core().write_deleted(&DeletionSet::new(by_destination), files).await?;

        Ok(vec![EdgeDeletionPair { by_source, by_destination, count }])
    }
}

/// Returns the statistics that decide the compaction of an edge type.
fn compaction_stats(state: &EdgeState) -> CompactionStats {
    let deleted = state.bases.iter().flat_map(|base| &base.deleted).map(|pair| pair.count).sum();
    CompactionStats {
        bases: state.bases.len(),
        base_rows: state.bases.iter().map(|base| base.info.count).sum(),
        changed_rows: deleted,
        deltas: state.deltas.len(),
        delta_rows: state.deltas.iter().map(|delta| delta.rows).sum(),
        patches: 0,
        sets: state.bases.iter().map(|base| base.deleted.len()).max().unwrap_or(0),
        inline: state.locations().filter(|location| location.is_inline()).count(),
    }
}

/// Returns the pairs of vertices whose edges, in the parts of `before` after the first `skip`, have since been
/// deleted, and the range of deltas in `now` that come from these parts. Pairs suffice, since deleting an edge
/// also deletes all edges parallel to it. `None` if a base is gone, or if the deltas of `before` do not come first
/// and in the same order.
pub(crate) async fn deleted_since(
    before: &EdgeParts,
    skip: usize,
    now: &EdgeParts,
) -> Result<Option<(EndpointPairSet, Range<usize>)>> {
    let bases = &before.state.bases;
    let deltas = &before.state.deltas;
    let same = bases.iter().zip(&now.state.bases).all(|(a, b)| a.info.path == b.info.path);
    if !same || bases.len() > now.state.bases.len() {
        return Ok(None);
    }

    let known = |info: &EdgeDeltaInfo| deltas.iter().position(|known| known.at == info.at);
    // The remaining deltas come first, in the same order.
    let remaining = now.state.deltas.iter().map_while(known).count();
    if now.state.deltas.iter().skip(remaining).any(|info| known(info).is_some()) {
        return Ok(None);
    }

    let skipped = skip.saturating_sub(bases.len());
    let first = now.state.deltas.iter().map_while(known).take_while(|at| *at < skipped).count();

    let mut pairs = EndpointPairSet::new();
    for (at, part) in before.parts.iter().enumerate().skip(skip) {
        let later = match at.checked_sub(bases.len()) {
            None => now.parts.get(at),
            // A delta whose edges were all deleted is no longer part of a version.
            Some(delta) => {
                let location = deltas.get(delta).map(|info| &info.at);
                let found = now.state.deltas.iter().position(|info| Some(&info.at) == location);
                found.and_then(|found| now.parts.get(now.state.bases.len() + found))
            }
        };

        let deleted = match later {
            Some(later) => later.out_deleted.set() - part.out_deleted.set(),
            None => {
                let mut all = RoaringTreemap::new();
                all.insert_range(0..part.len());
                all - part.out_deleted.set()
            }
        };

        for range in ranges(&deleted) {
            let (sources, destinations) = part.ends(range).await?;
            pairs.extend(sources.values().iter().copied().zip(destinations.values().iter().copied()));
        }
    }

    Ok(Some((pairs, first..remaining)))
}

/// Splits a set into runs of consecutive ordinals, at most [`BATCH_ROWS`] each.
fn ranges(set: &RoaringTreemap) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for value in set {
        match ranges.last_mut() {
            Some(last) if last.end == value && last.end - last.start < BATCH_ROWS as u64 => last.end += 1,
            _ => ranges.push(value..value + 1),
        }
    }
    ranges
}

impl EdgePart {
    /// Reads both ends of edges, by their ordinals in the order of sources.
    async fn ends(&self, ordinals: Range<u64>) -> Result<(Int64Array, Int64Array)> {
        match &self.of {
            EdgePartSource::Base(base) => base.ends(Direction::Out, ordinals).await,
            EdgePartSource::Delta(delta) => {
                let start = ordinals.start as usize;
                let len = (ordinals.end - ordinals.start) as usize;
                let ends = |array: &Int64Array| array.slice(start, len);
                Ok((ends(delta.keys(Direction::Out)), ends(delta.neighbors(Direction::Out))))
            }
        }
    }
}

/// Streams the live edges of `parts[skip..]`, each part sorted by source: source, destination, properties.
pub(crate) fn all_edges(
    parts: Arc<EdgeParts>,
    skip: usize,
    fields: Arc<[FieldRef]>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let numbers = futures::stream::iter(skip..parts.parts.len());
    let batches = numbers.map(Ok::<_, Error>).and_then(move |at| {
        let parts = parts.clone();
        let fields = fields.clone();
        async move {
            let Some(part) = parts.parts.get(at) else { return Ok(futures::stream::empty().boxed()) };
            let deleted = part.out_deleted.clone();
            Ok(match &part.of {
                EdgePartSource::Base(base) => {
                    let rows = base.stream(Direction::Out, &base.select(&fields));
                    let batch = move |rows: crate::store::base::edges::EdgeBaseRows| {
                        let ends = [Arc::new(rows.vertices) as ArrayRef, Arc::new(rows.neighbors)];
                        let columns = ends.into_iter().chain(rows.columns).collect();
                        let batch = edge_batch(&fields, columns);
                        let batch = batch.and_then(|batch| without_deleted(&batch, rows.first, &deleted));
                        std::future::ready(batch)
                    };
                    rows.and_then(batch).boxed()
                }
                EdgePartSource::Delta(delta) => {
                    let batch = of_delta(delta, &fields).await?;
                    let pieces = (0..batch.num_rows()).step_by(BATCH_ROWS).map(|start| {
                        let rows = BATCH_ROWS.min(batch.num_rows() - start);
                        without_deleted(&batch.slice(start, rows), start as u64, &deleted)
                    });
                    futures::stream::iter(pieces.collect::<Vec<_>>()).boxed()
                }
            })
        }
    });

    batches.try_flatten()
}

/// Reads all edges of a delta: both ends, and columns.
pub(crate) async fn of_delta(delta: &EdgeDelta, fields: &[FieldRef]) -> Result<RecordBatch> {
    let ends = [delta.keys(Direction::Out), delta.neighbors(Direction::Out)];
    let ends = ends.into_iter().map(|ends| Arc::new(ends.clone()) as ArrayRef);
    let properties = delta.rows().of_fields(fields).await?;
    edge_batch(fields, ends.chain(properties).collect())
}

/// Drops deleted rows; `first` is the ordinal of the first row.
pub(crate) fn without_deleted(batch: &RecordBatch, first: u64, deleted: &DeletionSet) -> Result<RecordBatch> {
    let range = first..first + batch.num_rows() as u64;
    if deleted.count(&range) == 0 {
        return Ok(batch.clone());
    }

    let kept: BooleanArray = range.map(|ordinal| Some(!deleted.contains(ordinal))).collect();
    filter_record_batch(batch, &kept).map_err(|error| arrow_error("filtering deleted edges", error))
}
