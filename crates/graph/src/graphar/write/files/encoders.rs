//! Files that are being encoded: many at a time, each by a task of its own that takes rows as they come.
//!
//! ```text
//! feeder -> OpenChunk -> a queue for each file -> task: encoder -> sink -> Output
//! ```
//!
//! How far the feeder may be ahead is counted in bytes, so that one chunk is encoded while rows of the next arrive, and
//! memory is bounded however large chunks are.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use stylobate_storage::{ByteSize, Sealed};
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
};

/// Files that may be under way for each thread: more than one, so that threads need not wait for sinks.
const FILES_PER_THREAD: usize = 4;
/// Files that are under way for an object store at least: each takes a round trip.
const FEWEST_FILES: usize = 16;
/// An encoder works with so much at least.
const LEAST_MEMORY: usize = 1 << 20;
/// What a permit of the queues stands for.
const UNIT: usize = 1 << 10;
/// Bytes that a value takes in an encoder, about.
const VALUE: u64 = 12;
/// Rows whose values an encoder holds at most: those of a row group.
const ROWS: u64 = 1 << 20;

/// Encodes files. Dropped, it gives up those that are under way.
#[derive(Debug)]
pub(crate) struct ChunkEncoderPool {
    output: Arc<GraphOutput>,
    progress: WriteProgressTracker,
    encoding: ChunkEncodeOptions,
    threads: usize,
    tasks: JoinSet<Result<(String, FinishedFile)>>,
    /// Files that may be under way.
    most: usize,
    /// Bytes that rows may take on their way to encoders.
    ahead: Arc<Semaphore>,
    ahead_units: usize,
    /// Files that encode something just now.
    turns: Arc<Semaphore>,
    sealed: Vec<(String, Sealed)>,
}

/// The files of a chunk that is being filled.
#[derive(Debug)]
pub(crate) struct OpenChunk {
    files: Vec<OpenChunkFile>,
    /// Rows that it has.
    pub(crate) rows: u64,
}

#[derive(Debug)]
struct OpenChunkFile {
    /// Which columns of the rows it has.
    columns: Vec<usize>,
    queue: mpsc::UnboundedSender<EncoderMessage>,
}

#[derive(Debug)]
enum EncoderMessage {
    Rows(RecordBatch, OwnedSemaphorePermit),
    /// There are no more. A queue that ends without is one that was given up.
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
            most: 1,
            ahead: Arc::new(Semaphore::new(1)),
            ahead_units: 1,
            turns: Arc::new(Semaphore::new(options.threads)),
            sealed: Vec::new(),
        };
        encoders.share(0, 0, 0, 0);
        encoders
    }

    /// How much memory there is for files of so many rows, of which `together` take rows at a time, with so many
    /// columns in all.
    pub(crate) fn share(&mut self, memory: usize, rows: u64, columns: usize, together: usize) {
        let values = rows.min(ROWS).saturating_mul(columns.div_ceil(together.max(1)) as u64);
        let usual = (self.threads * FILES_PER_THREAD).max(FEWEST_FILES);
        let of_each = usize::try_from(values.saturating_mul(VALUE)).unwrap_or(usize::MAX).max(LEAST_MEMORY);
        self.most = (memory / 2 / of_each).clamp(self.threads.min(usual), usual).max(together);
        let each = (memory / 2 / self.most).max(LEAST_MEMORY);
        self.encoding.memory = ByteSize::bytes(each as u64);
        self.ahead_units = (memory / 2).max(LEAST_MEMORY).div_ceil(UNIT).min(Semaphore::MAX_PERMITS >> 1);
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

    /// Begins the files of a chunk, each with the columns that it has of the rows to come.
    pub(crate) async fn open(&mut self, files: Vec<(ChunkFileSpec, Vec<usize>)>) -> Result<OpenChunk> {
        self.make_room(files.len()).await?;
        let files = files.into_iter().map(|(plan, columns)| {
            let (queue, rows) = mpsc::unbounded_channel();
            let (output, turns, encoding) = (self.output.clone(), self.turns.clone(), self.encoding);
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
            // Who does not take it has failed, and is asked for its error later.
            let _ = file.queue.send(EncoderMessage::End);
        }
    }

    /// Waits until all files are whole that were ended.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        self.make_room(usize::MAX).await
    }

    /// What is left to be published. Nothing may be under way.
    pub(crate) fn into_sealed(self) -> Vec<(String, Sealed)> {
        self.sealed
    }

    /// Gives up all files, and waits for those that are under way.
    pub(crate) async fn give_up(&mut self) {
        self.tasks.shutdown().await;
        let sealed = std::mem::take(&mut self.sealed);
        if let Err(error) = tokio::task::spawn_blocking(move || drop(sealed)).await {
            tracing::warn!(%error, "unfinished files not removed");
        }
    }

    /// Waits until so many more may be under way, and for errors.
    async fn make_room(&mut self, more: usize) -> Result<()> {
        while let Some(done) = self.tasks.try_join_next() {
            self.take(done)?;
        }
        while !self.tasks.is_empty() && self.tasks.len().saturating_add(more) > self.most {
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

    /// Why a file takes no more rows.
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
    let mut encoder = ChunkFileWriter::new(&plan, encoding, output.name_of(&plan.file), sink).await?;
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

/// Bytes that these rows take, and not what shares buffers with them.
pub(crate) fn slice_bytes(rows: &RecordBatch) -> usize {
    let bytes = |column: &arrow::array::ArrayRef| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    rows.columns().iter().map(bytes).sum()
}
