//! Loads the chunks of a row group from the cache, or decodes them: each chunk once, regardless of how many scans
//! request it.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use arrow::error::ArrowError;

use super::{
    plan::{PlannedScanFile, ScanPlan},
    turn::RowGroupTurn,
};
use crate::{
    Error, Result,
    cache::{
        DecodeReservation,
        chunk_cache::{ChunkKey, ChunkLookup, DecodeGuard},
        workers::DecodeWorkers,
    },
    chunk::{Chunk, ChunkRepresentation, ChunkRequest, PassingRows, SEGMENT_ROWS},
    file::schema::ProjectedColumn,
    format::{FileMetadata, RowGroupBytes},
    kernels::{codes::ViewTables, expand::longest_value},
    parquet::DecodeScratch,
};

/// Chunks of one row group, and the memory reservation of those decoded for it.
pub(super) struct LoadedChunks {
    /// Sorted by column.
    chunks: Vec<(ChunkRequest, Chunk)>,
    /// True if the chunks have only the rows that pass the filter.
    are_filtered: bool,
    longest: OnceLock<usize>,
    views: ViewTables,
    _working: Option<DecodeReservation>,
}

impl LoadedChunks {
    fn new(mut chunks: Vec<(ChunkRequest, Chunk)>, working: Option<DecodeReservation>) -> Self {
        chunks.sort_by(|((a, _), _), ((b, _), _)| a.cmp(b));
        let longest = OnceLock::new();
        let views = ViewTables::default();
        Self { chunks, are_filtered: false, longest, views, _working: working }
    }

    /// Returns whether the chunks have only the rows that pass the filter.
    pub(super) fn are_filtered(&self) -> bool {
        self.are_filtered
    }

    /// Returns the length in bytes of the longest string of all dictionaries.
    pub(super) fn longest_value(&self) -> usize {
        let of_chunk = |(_, chunk): &(ChunkRequest, Chunk)| match chunk {
            Chunk::Dictionary(array) => longest_value(array),
            Chunk::Dense(_) | Chunk::Whole(_) => 0,
        };
        *self.longest.get_or_init(|| self.chunks.iter().map(of_chunk).max().unwrap_or(0))
    }

    /// Returns the views of the dictionaries' values, for batches with views.
    pub(super) fn views(&self) -> &ViewTables {
        &self.views
    }

    /// Returns the chunk of a requested column.
    pub(super) fn chunk(&self, wanted: &ChunkRequest) -> Option<&Chunk> {
        let start = self.chunks.partition_point(|((column, _), _)| column < &wanted.0);
        let of_column = self.chunks.get(start..)?.iter().take_while(|((column, _), _)| *column == wanted.0);
        of_column.filter(|(request, _)| request == wanted).map(|(_, chunk)| chunk).next()
    }
}

/// Returns whether all columns are in the cache or being decoded into it.
pub(super) fn are_cached(planned: &ScanPlan, file: usize, row_group: usize, wanted: &[ChunkRequest]) -> bool {
    let Some(file) = planned.files.get(file) else { return false };
    let cache = planned.cache.chunks();
    let recent = file.metadata.recent();
    let state = cache.state();
    let object = file.object.version();
    object.is_some_and(|object| {
        wanted.iter().all(|wanted| {
            let recent = recent.of(row_group, wanted);
            recent.is_some_and(|recent| recent.was_there(state))
                || cache.has(&ChunkKey::of_row_group(object, row_group, wanted))
        })
    })
}

/// Outcome of a load.
pub(super) enum LoadOutcome {
    Done(LoadedChunks),
    /// Other decodes hold the memory at the moment.
    Busy,
    /// The columns never fit into the memory for decodes, or into the arrays of a chunk, and have to be read in
    /// batches.
    TooLarge,
}

/// Bytes of strings that a segment of a chunk may have by the footer's estimate: its offsets end at 2 GiB, and
/// values may be longer than the average.
const MAX_SEGMENT_BYTES: u64 = 1 << 30;

/// Loads columns if there is memory to decode them into. If their whole chunks would not be cached, or do not fit
/// at the moment, only the `passing` rows are kept.
pub(super) async fn load(
    planned: &ScanPlan,
    workers: &DecodeWorkers,
    (file, row_group): (usize, usize),
    mut wanted: Vec<ChunkRequest>,
    passing: Option<&PassingRows>,
    turn: &mut RowGroupTurn,
) -> Result<LoadOutcome> {
    let Some(of) = planned.files.get(file) else { return Ok(LoadOutcome::TooLarge) };
    // All scans take their guards in this order, which prevents deadlocks.
    wanted.sort_by(|(a, _), (b, _)| a.cmp(b));
    wanted.dedup();

    let cache = planned.cache.chunks();
    let recent = of.metadata.recent();
    if of.object.version().is_some()
        && let Some(chunks) = cache.recent(recent, row_group, &wanted)
    {
        turn.pass_on();
        return Ok(LoadOutcome::Done(LoadedChunks::new(wanted.into_iter().zip(chunks).collect(), None)));
    }

    let mut chunks = Vec::with_capacity(wanted.len());
    let mut missing: Vec<(ChunkRequest, Option<DecodeGuard<'_>>)> = Vec::new();
    match of.object.version() {
        None => missing.extend(wanted.into_iter().map(|wanted| (wanted, None))),
        Some(object) => {
            for wanted in wanted {
                match cache.find(recent, object, row_group, &wanted).await {
                    ChunkLookup::Chunk(chunk) => chunks.push((wanted, chunk)),
                    ChunkLookup::Missing(promise) => missing.push((wanted, Some(promise))),
                }
            }
        }
    }

    if missing.is_empty() {
        turn.pass_on();
        return Ok(LoadOutcome::Done(LoadedChunks::new(chunks, None)));
    }

    let mut columns: Vec<ProjectedColumn> = missing.iter().map(|((column, _), _)| column.clone()).collect();
    columns.dedup();
    if !fits_segments(&of.metadata, row_group, &columns) {
        return Ok(LoadOutcome::TooLarge);
    }

    let whole_bytes = of.metadata.working_bytes(row_group, &columns);
    let is_native = |(_, representation): &ChunkRequest| *representation == ChunkRepresentation::Native;
    let passing = passing.filter(|_| missing.iter().all(|(wanted, _)| is_native(wanted)));
    let passing =
        passing.map(|rows| (rows, of.metadata.passing_bytes(row_group, &columns, rows.count() as u64)));
    let passing = passing.filter(|(_, bytes)| *bytes < whole_bytes);

    let working = planned.cache.working();
    let whole = if passing.is_none() || cache.may_hold(whole_bytes) {
        working.try_reserve_or_floor(whole_bytes).map(|working| (working, None))
    } else {
        None
    };
    let part = || {
        let (rows, bytes) = passing?;
        working.try_reserve_or_floor(bytes).map(|working| (working, Some(rows)))
    };
    let Some((working, passing)) = whole.or_else(part) else {
        let min_bytes = passing.map_or(whole_bytes, |(_, bytes)| bytes);
        let fits = min_bytes <= working.capacity_or_floor();
        return Ok(if fits { LoadOutcome::Busy } else { LoadOutcome::TooLarge });
    };
    turn.pass_on();

    if let Some(passing) = passing {
        // The cache holds whole chunks only, so the guards are dropped: tasks that wait for these chunks decode them
        // themselves.
        missing.iter_mut().for_each(|(_, promise)| *promise = None);
        for (_, chunk) in &mut chunks {
            *chunk = match passing.of_chunk(chunk) {
                Err(ArrowError::OffsetOverflowError(_)) => return Ok(LoadOutcome::TooLarge),
                filtered => filtered.map_err(Error::arrow("rows that pass the filter"))?,
            };
        }
    }

    let read = of.metadata.read(&of.object, row_group, &columns).await?;
    let columns = missing.iter().map(|(wanted, _)| wanted.clone()).collect();
    let decoded = decode(planned, workers, of, row_group, columns, passing, read.clone()).await;
    // A file that was replaced may also look corrupt: report the replacement.
    FileMetadata::check(&read).await?;
    let decoded = match decoded {
        // Longer than the footer's estimate: a few rows have most of the bytes.
        Err(Error::BatchTooLong { .. }) => return Ok(LoadOutcome::TooLarge),
        decoded => decoded?,
    };

    for ((wanted, promise), chunk) in missing.into_iter().zip(decoded) {
        if let Some(promise) = promise {
            promise.publish(chunk.clone());
        }
        chunks.push((wanted, chunk));
    }
    let loaded = LoadedChunks::new(chunks, Some(working));
    Ok(LoadOutcome::Done(LoadedChunks { are_filtered: passing.is_some(), ..loaded }))
}

/// Returns whether the values of each segment fit into one array. Dictionaries hold each value once.
fn fits_segments(metadata: &FileMetadata, row_group: usize, columns: &[ProjectedColumn]) -> bool {
    let dense = columns
        .iter()
        .filter(|column| !metadata.is_dictionary(row_group, column))
        .cloned()
        .collect::<Vec<_>>();
    let rows = metadata.row_group_rows(row_group).min(SEGMENT_ROWS as u64);
    let fitting = metadata.fitting_rows(row_group, &dense, MAX_SEGMENT_BYTES);
    fitting >= rows
}

/// Columns that several threads decode; each takes the next one that is left.
struct ParallelDecode {
    metadata: Arc<FileMetadata>,
    row_group: usize,
    columns: Vec<ChunkRequest>,
    passing: Option<PassingRows>,
    bytes: RowGroupBytes,
    next: AtomicUsize,
}

impl ParallelDecode {
    /// Decodes columns until none is left, the load is dropped, or one fails.
    fn run(&self, scratch: &mut DecodeScratch) -> Result<Vec<(usize, Chunk)>> {
        let mut decoded = Vec::new();
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((column, representation)) = self.columns.get(at) else { return Ok(decoded) };
            let passing = self.passing.as_ref();
            let chunk =
                self.metadata.decode(self.row_group, column, &self.bytes, *representation, scratch, passing);
            decoded.push((at, chunk.inspect_err(|_| self.end())?));
        }
    }

    fn end(&self) {
        self.next.store(self.columns.len(), Ordering::Relaxed);
    }
}

/// Guard that ends the decodes of a load that was dropped.
struct CancelDecodeOnDrop(Arc<ParallelDecode>);

impl Drop for CancelDecodeOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn decode(
    planned: &ScanPlan,
    workers: &DecodeWorkers,
    file: &PlannedScanFile,
    row_group: usize,
    columns: Vec<ChunkRequest>,
    passing: Option<&PassingRows>,
    bytes: RowGroupBytes,
) -> Result<Vec<Chunk>> {
    let threads = planned.threads.min(columns.len());
    let metadata = file.metadata.clone();
    let next = AtomicUsize::new(0);
    let passing = passing.cloned();
    let decodes = Arc::new(ParallelDecode { metadata, row_group, columns, passing, bytes, next });
    let _end = CancelDecodeOnDrop(decodes.clone());
    let runs = (0..threads).map(|_| {
        let decodes = decodes.clone();
        workers.decode(move |scratch| decodes.run(scratch))
    });
    let mut decoded = Vec::with_capacity(decodes.columns.len());
    for run in futures::future::try_join_all(runs).await? {
        decoded.extend(run?);
    }
    decoded.iter().for_each(|_| planned.cache.chunks().count_decoded());
    decoded.sort_by_key(|(at, _)| *at);
    Ok(decoded.into_iter().map(|(_, chunk)| chunk).collect())
}
