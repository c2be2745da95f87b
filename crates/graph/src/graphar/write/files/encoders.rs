//! Encodes many files concurrently, each in a task that takes rows from its own queue.
//!
//! ```text
//! feeder -> OpenChunk -> a queue for each file -> task: encoder -> sink -> GraphOutput
//! ```
//!
//! The queued rows are bounded in bytes: one chunk is encoded while rows of the next arrive, and memory stays bounded
//! regardless of the chunk size.

use std::sync::Arc;

use arrow::array::RecordBatch;
use stylobate_storage::{ByteSize, Sealed, run_blocking};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};

use super::{
    chunk_file::{ChunkEncodeOptions, ChunkFileSpec, ChunkFileWriter},
    output::{FinishedFile, GraphOutput},
};
use crate::{
    Error, Result,
    graphar::write::{options::GraphWriteOptions, progress::WriteProgressTracker},
    slice_bytes::slice_bytes,
};

/// Concurrent files per thread: more than one, so that threads need not wait for sinks.
const FILES_PER_THREAD: usize = 4;
/// Minimum concurrent files for an object store: each takes a round trip.
const MIN_FILES: usize = 16;
/// Minimum memory of an encoder.
const MIN_MEMORY: usize = 1 << 20;
/// Bytes per permit of the queues.
const UNIT: usize = 1 << 10;
/// Approximate bytes of a value in an encoder.
const VALUE: u64 = 12;
/// Maximum rows whose values an encoder buffers: one row group.
const ROWS: u64 = 1 << 20;

/// Encodes files. Dropping it cancels those in progress.
#[derive(Debug)]
pub(crate) struct ChunkEncoderPool {
    output: Arc<GraphOutput>,
    progress: WriteProgressTracker,
    encoding: ChunkEncodeOptions,
    threads: usize,
    tasks: JoinSet<Result<(String, FinishedFile)>>,
    /// Maximum number of concurrent files.
    max_files: usize,
    /// Bytes of rows that may be queued for encoders.
    ahead: Arc<Semaphore>,
    ahead_units: usize,
    /// Permits for concurrent encoding.
    turns: Arc<Semaphore>,
    sealed: Vec<(String, Sealed)>,
}

/// Files of a chunk that is being filled.
#[derive(Debug)]
pub(crate) struct OpenChunk {
    files: Vec<OpenChunkFile>,
    /// Number of rows so far.
    pub(crate) rows: u64,
}

#[derive(Debug)]
struct OpenChunkFile {
    /// Positions of its columns in the chunk's rows.
    columns: Vec<usize>,
    queue: mpsc::UnboundedSender<EncoderMessage>,
}

#[derive(Debug)]
enum EncoderMessage {
    Rows(RecordBatch, OwnedSemaphorePermit),
    /// End of the rows. A queue closed without it was cancelled.
    End,
}

impl ChunkEncoderPool {
    pub(crate) fn new(
        output: Arc<GraphOutput>,
        options: &GraphWriteOptions,
        progress: WriteProgressTracker,
    ) -> Self {
        let encoding = ChunkEncodeOptions {
            compression: options.compression,
            orc_compression: options.orc_compression,
            memory: ByteSize::ZERO,
            threads: options.threads,
        };
        let mut encoders = Self {
            output,
            progress,
            encoding,
            threads: options.threads,
            tasks: JoinSet::new(),
            max_files: 1,
            ahead: Arc::new(Semaphore::new(1)),
            ahead_units: 1,
            turns: Arc::new(Semaphore::new(options.threads)),
            sealed: Vec::new(),
        };

        encoders.divide_memory(0, 0, 0, 0);
        encoders
    }

    /// Divides memory among files of `rows` rows. `together` of them are open at a time, with `columns` columns in
    /// total.
    pub(crate) fn divide_memory(&mut self, memory: usize, rows: u64, columns: usize, together: usize) {
        let values = rows.min(ROWS).saturating_mul(columns.div_ceil(together.max(1)) as u64);
        let usual = (self.threads * FILES_PER_THREAD).max(MIN_FILES);
        let of_each = usize::try_from(values.saturating_mul(VALUE)).unwrap_or(usize::MAX).max(MIN_MEMORY);
        self.max_files = (memory / 2 / of_each).clamp(self.threads.min(usual), usual).max(together);
        let each = (memory / 2 / self.max_files).max(MIN_MEMORY);
        self.encoding.memory = ByteSize::bytes(each as u64);
        self.ahead_units = (memory / 2).max(MIN_MEMORY).div_ceil(UNIT).min(Semaphore::MAX_PERMITS >> 1);
        self.ahead_units = self.ahead_units.min(u32::MAX as usize);
        self.ahead = Arc::new(Semaphore::new(self.ahead_units));
    }

    /// Writes a small file.
    pub(crate) async fn file(&mut self, file: String, bytes: Vec<u8>) -> Result<()> {
        self.make_room(1).await?;
        let output = self.output.clone();
        self.tasks.spawn(async move {
            let mut sink = output.open(&file).await?;
            sink.write(&bytes).await?;
            let ended = output.end(&file, sink).await?;
            Ok((file, ended))
        });
        Ok(())
    }

    /// Opens the files of a chunk, each with the positions of its columns in the rows to come.
    pub(crate) async fn open(&mut self, files: Vec<(ChunkFileSpec, Vec<usize>)>) -> Result<OpenChunk> {
        self.make_room(files.len()).await?;
        let files = files.into_iter().map(|(plan, columns)| {
            let (queue, rows) = mpsc::unbounded_channel();
            let output = self.output.clone();
            let turns = self.turns.clone();
            let encoding = self.encoding;
            self.tasks.spawn(encode(plan, encoding, output, turns, rows));
            OpenChunkFile { columns, queue }
        });
        Ok(OpenChunk { files: files.collect(), rows: 0 })
    }

    /// Adds rows to the files of a chunk.
    pub(crate) async fn write(&mut self, chunk: &mut OpenChunk, rows: &RecordBatch) -> Result<()> {
        chunk.rows += rows.num_rows() as u64;
        for OpenChunkFile { columns, queue } in &chunk.files {
            let some = rows.project(columns).map_err(|error| Error::Ended { reason: error.to_string() })?;
            let units = slice_bytes(&some).div_ceil(UNIT).clamp(1, self.ahead_units) as u32;
            let permit = self.ahead.clone().acquire_many_owned(units).await;
            let permit = permit.map_err(|error| Error::Ended { reason: error.to_string() })?;
            if queue.send(EncoderMessage::Rows(some, permit)).is_err() {
                return Err(self.failure().await);
            }
        }

        Ok(())
    }

    /// Ends the files of a chunk.
    pub(crate) fn end(&mut self, chunk: OpenChunk) {
        for file in chunk.files {
            // A closed queue means that its task failed; the error is collected later.
            let _ = file.queue.send(EncoderMessage::End);
        }
    }

    /// Waits until all ended files are complete.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        self.make_room(usize::MAX).await
    }

    /// Returns the files to publish. None may be in progress.
    pub(crate) fn into_sealed(self) -> Vec<(String, Sealed)> {
        self.sealed
    }

    /// Cancels all files, and waits for those in progress.
    pub(crate) async fn give_up(&mut self) {
        self.tasks.shutdown().await;
        let sealed = std::mem::take(&mut self.sealed);
        if let Err(error) = run_blocking(move || drop(sealed)).await {
            tracing::warn!(%error, "unfinished files not removed");
        }
    }

    /// Waits until `more` files may start, and reports errors of finished ones.
    async fn make_room(&mut self, more: usize) -> Result<()> {
        while let Some(done) = self.tasks.try_join_next() {
            self.take(done)?;
        }
        while !self.tasks.is_empty() && self.tasks.len().saturating_add(more) > self.max_files {
            if let Some(done) = self.tasks.join_next().await {
                self.take(done)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, done: Result<Result<(String, FinishedFile)>, tokio::task::JoinError>) -> Result<()> {
        let (file, ended) = done.map_err(|error| Error::Ended { reason: error.to_string() })??;
        self.progress.add_file(ended.bytes);
        self.sealed.extend(ended.sealed.map(|sealed| (file, sealed)));
        Ok(())
    }

    /// Returns the error of the task that takes no more rows.
    async fn failure(&mut self) -> Error {
        while let Some(done) = self.tasks.join_next().await {
            if let Err(error) = self.take(done) {
                return error;
            }
        }
        Error::Ended { reason: "a file took no more rows".to_owned() }
    }
}

async fn encode(
    plan: ChunkFileSpec,
    encoding: ChunkEncodeOptions,
    output: Arc<GraphOutput>,
    turns: Arc<Semaphore>,
    mut queue: mpsc::UnboundedReceiver<EncoderMessage>,
) -> Result<(String, FinishedFile)> {
    let sink = output.open(&plan.file).await?;
    let mut encoder = ChunkFileWriter::new(&plan, encoding, output.name_of(&plan.file), sink)?;
    let ended = |reason: &str| Error::Ended { reason: format!("{}: {reason}", plan.file) };
    loop {
        let message = queue.recv().await.ok_or_else(|| ended("it was given up"))?;
        let turn = turns.acquire().await;
        let _turn = turn.map_err(|error| ended(&error.to_string()))?;
        match message {
            EncoderMessage::Rows(rows, _permit) => encoder.write(&rows).await?,
            EncoderMessage::End => break,
        }
    }

    let sink = {
        let turn = turns.acquire().await;
        let _turn = turn.map_err(|error| ended(&error.to_string()))?;
        encoder.finish().await?
    };
    let ended = output.end(&plan.file, sink).await?;
    Ok((plan.file, ended))
}
