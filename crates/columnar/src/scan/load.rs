//! Gets the chunks of a row group: from the cache, or decoded, each by one scan however many want it.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    plan::{PlannedScanFile, ScanPlan},
    turn::RowGroupTurn,
};
use crate::{
    Result,
    cache::{
        DecodeReservation,
        chunk_cache::{ChunkKey, ChunkLookup, DecodeGuard},
        workers::DecodeWorkers,
    },
    chunk::{Chunk, ChunkRequest},
    file::schema::ProjectedColumn,
    format::{FileMetadata, RowGroupBytes},
    kernels::{codes::ViewTables, expand::longest_value},
    parquet::DecodeScratch,
};

/// Chunks of one row group, and the memory that those hold which were decoded for it.
pub(super) struct LoadedChunks {
    chunks: Vec<(ChunkRequest, Chunk)>,
    longest: OnceLock<usize>,
    views: ViewTables,
    _working: Option<DecodeReservation>,
}

impl LoadedChunks {
    fn new(chunks: Vec<(ChunkRequest, Chunk)>, working: Option<DecodeReservation>) -> Self {
        Self { chunks, longest: OnceLock::new(), views: ViewTables::default(), _working: working }
    }

    /// The length in bytes of the longest string of all dictionaries.
    pub(super) fn longest_value(&self) -> usize {
        let of_chunk = |(_, chunk): &(ChunkRequest, Chunk)| match chunk {
            Chunk::Dictionary(array) => longest_value(array),
            Chunk::Dense(_) | Chunk::Whole(_) => 0,
        };
        *self.longest.get_or_init(|| self.chunks.iter().map(of_chunk).max().unwrap_or(0))
    }

    /// The views of the dictionaries' values, for those batches that are to have views.
    pub(super) fn views(&self) -> &ViewTables {
        &self.views
    }

    /// The chunk of a column that was asked for.
    pub(super) fn chunk(&self, wanted: &ChunkRequest) -> Option<&Chunk> {
        self.chunks.iter().find(|(column, _)| column == wanted).map(|(_, chunk)| chunk)
    }
}

/// Whether all columns are in the cache, or on their way into it.
pub(super) fn are_cached(planned: &ScanPlan, file: usize, unit: usize, wanted: &[ChunkRequest]) -> bool {
    let Some(file) = planned.files.get(file) else { return false };
    let (cache, recent) = (planned.cache.chunks(), file.metadata.recent());
    let (state, object) = (cache.state(), file.object.version());
    object.is_some_and(|object| {
        wanted.iter().all(|wanted| {
            let recent = recent.of(unit, wanted);
            recent.is_some_and(|recent| recent.was_there(state))
                || cache.has(&ChunkKey::of_unit(object, unit, wanted))
        })
    })
}

/// What became of columns that were to be loaded.
pub(super) enum LoadOutcome {
    Done(LoadedChunks),
    /// The memory to decode them into is taken, for now.
    Busy,
    /// There is no such memory.
    TooLarge,
}

/// Loads columns, where there is memory to decode them into.
pub(super) async fn load(
    planned: &ScanPlan,
    workers: &DecodeWorkers,
    (file, unit): (usize, usize),
    mut wanted: Vec<ChunkRequest>,
    turn: &mut RowGroupTurn,
) -> Result<LoadOutcome> {
    let Some(of) = planned.files.get(file) else { return Ok(LoadOutcome::TooLarge) };
    // All scans take their promises in this order: none waits for one that waits for it.
    wanted.sort_by(|(a, _), (b, _)| a.cmp(b));
    wanted.dedup();
    let (cache, recent) = (planned.cache.chunks(), of.metadata.recent());
    if of.object.version().is_some()
        && let Some(chunks) = cache.recent(recent, unit, &wanted)
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
                match cache.find(recent, object, unit, &wanted).await {
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
    let bytes = of.metadata.working_bytes(unit, &columns);
    let Some(working) = planned.cache.working().try_reserve_or_floor(bytes) else {
        let fits = bytes <= planned.cache.working().capacity_or_floor();
        return Ok(if fits { LoadOutcome::Busy } else { LoadOutcome::TooLarge });
    };
    turn.pass_on();
    let read = of.metadata.read(&of.object, unit, &columns).await?;
    let columns = missing.iter().map(|(wanted, _)| wanted.clone()).collect();
    let decoded = decode(planned, workers, of, unit, columns, read.clone()).await;
    // A file that was replaced may also look corrupt: that it was replaced is what the caller has to know.
    FileMetadata::check(&read).await?;
    let decoded = decoded?;
    for ((wanted, promise), chunk) in missing.into_iter().zip(decoded) {
        if let Some(promise) = promise {
            promise.keep(chunk.clone());
        }
        chunks.push((wanted, chunk));
    }
    Ok(LoadOutcome::Done(LoadedChunks::new(chunks, Some(working))))
}

/// Columns that are decoded by several threads, each of which takes the next that nobody took.
struct ParallelDecode {
    metadata: Arc<FileMetadata>,
    unit: usize,
    columns: Vec<ChunkRequest>,
    bytes: RowGroupBytes,
    next: AtomicUsize,
}

impl ParallelDecode {
    /// Decodes what is left, as long as somebody waits for it and nothing was wrong.
    fn run(&self, scratch: &mut DecodeScratch) -> Result<Vec<(usize, Chunk)>> {
        let mut decoded = Vec::new();
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((column, representation)) = self.columns.get(at) else { return Ok(decoded) };
            let chunk = self.metadata.decode(self.unit, column, &self.bytes, *representation, scratch);
            decoded.push((at, chunk.inspect_err(|_| self.end())?));
        }
    }

    fn end(&self) {
        self.next.store(self.columns.len(), Ordering::Relaxed);
    }
}

/// Ends the work of those whom nobody waits for any more.
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
    unit: usize,
    columns: Vec<ChunkRequest>,
    bytes: RowGroupBytes,
) -> Result<Vec<Chunk>> {
    let threads = planned.threads.min(columns.len());
    let (metadata, next) = (file.metadata.clone(), AtomicUsize::new(0));
    let decodes = Arc::new(ParallelDecode { metadata, unit, columns, bytes, next });
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
