//! Encoder of one file of any format.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_trait::async_trait;
use parking_lot::Mutex;
use stylobate_columnar::{
    orc::{OrcCompression, OrcOptions, OrcWriter},
    parquet::{ColumnOptions, Compression, DictionaryEncoding, ParquetOptions, ParquetWriter},
};
use stylobate_storage::{ByteSize, Result as StorageResult, Sealed, Sink};

use super::csv_file::CsvChunkWriter;
use crate::{
    Error, Result,
    graphar::{FileType, write::names::check_file_type},
};

/// Minimum rows per file for a thread per column.
const FEW_ROWS: u64 = 1 << 16;

/// File to be written.
#[derive(Clone, Debug)]
pub(crate) struct ChunkFileSpec {
    pub(crate) file: String,
    pub(crate) file_type: FileType,
    pub(crate) schema: SchemaRef,
    /// Columns whose values do not repeat, or only in runs: a dictionary attempt would waste time.
    pub(crate) distinct: usize,
    /// Maximum number of rows.
    pub(crate) rows: u64,
}

/// Encoding options of files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkEncodeOptions {
    pub(crate) compression: Compression,
    pub(crate) orc_compression: OrcCompression,
    /// Per file.
    pub(crate) memory: ByteSize,
    pub(crate) threads: usize,
}

/// Writes one file.
pub(crate) struct ChunkFileWriter {
    encoder: ChunkFileEncoder,
    /// Slot that returns the sink when the encoder is done with it.
    done: SinkSlot,
    name: String,
}

enum ChunkFileEncoder {
    Parquet(Box<ParquetWriter>),
    Orc(Box<OrcWriter>),
    Csv(CsvChunkWriter),
}

type SinkSlot = Arc<Mutex<Option<Box<dyn Sink>>>>;

impl ChunkFileWriter {
    /// Opens an encoder; `name` is the file's name in errors.
    pub(crate) async fn new(
        plan: &ChunkFileSpec,
        encoding: ChunkEncodeOptions,
        name: String,
        sink: Box<dyn Sink>,
    ) -> Result<Self> {
        check_file_type(&name, plan.file_type)?;
        let done = SinkSlot::default();
        let sink: Box<dyn Sink> = Box::new(ReclaimableSink { sink, done: done.clone() });
        let threads = if plan.rows < FEW_ROWS { 1 } else { encoding.threads };
        let schema = plan.schema.clone();
        let encoder = match plan.file_type {
            FileType::Orc => {
                let options = OrcOptions::default()
                    .with_compression(encoding.orc_compression)
                    .with_memory(encoding.memory)
                    .with_threads(threads);
                ChunkFileEncoder::Orc(Box::new(OrcWriter::new(sink, name.clone(), schema, options)?))
            }
            FileType::Csv => ChunkFileEncoder::Csv(CsvChunkWriter::new(sink, name.clone(), schema).await?),
            FileType::Parquet | FileType::Json => {
                let options = parquet(plan, encoding).with_threads(threads);
                ChunkFileEncoder::Parquet(Box::new(ParquetWriter::new(sink, name.clone(), schema, options)?))
            }
        };

        Ok(Self { encoder, done, name })
    }

    pub(crate) async fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        match &mut self.encoder {
            ChunkFileEncoder::Parquet(writer) => Ok(writer.write(rows).await?),
            ChunkFileEncoder::Orc(writer) => Ok(writer.write(rows).await?),
            ChunkFileEncoder::Csv(writer) => writer.write(rows).await,
        }
    }

    /// Encodes the rest; the sink then has all bytes.
    pub(crate) async fn finish(self) -> Result<Box<dyn Sink>> {
        match self.encoder {
            ChunkFileEncoder::Parquet(writer) => drop(writer.finish().await?),
            ChunkFileEncoder::Orc(writer) => drop(writer.finish().await?),
            ChunkFileEncoder::Csv(writer) => writer.finish().await?,
        }
        let sink = self.done.lock().take();
        sink.ok_or_else(|| Error::Ended { reason: format!("{} was not finished", self.name) })
    }
}

fn parquet(plan: &ChunkFileSpec, encoding: ChunkEncodeOptions) -> ParquetOptions {
    let all = ColumnOptions::default().with_compression(encoding.compression);
    let plain = all.clone().with_dictionary(DictionaryEncoding::Off);
    let options = ParquetOptions::default().with_memory(encoding.memory).with_all_columns(all);
    let distinct = plan.schema.fields().iter().take(plan.distinct);
    distinct.fold(options, |options, field| options.with_column(field.name(), plain.clone()))
}

/// Sink that its encoder hands back instead of finishing.
struct ReclaimableSink {
    sink: Box<dyn Sink>,
    done: SinkSlot,
}

#[async_trait]
impl Sink for ReclaimableSink {
    async fn write(&mut self, bytes: &[u8]) -> StorageResult<()> {
        self.sink.write(bytes).await
    }

    fn position(&self) -> u64 {
        self.sink.position()
    }

    fn memory(&self) -> usize {
        self.sink.memory()
    }

    async fn seal(self: Box<Self>) -> StorageResult<Sealed> {
        self.sink.seal().await
    }

    async fn finish(self: Box<Self>) -> StorageResult<u64> {
        let bytes = self.sink.position();
        *self.done.lock() = Some(self.sink);
        Ok(bytes)
    }
}
