//! Writer of one chunk file of any format.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use stylobate_columnar::{
    FileOptions, TableWriter, WriteFormat,
    orc::{OrcCompression, OrcOptions},
    parquet::{Compression, ParquetOptions},
};
use stylobate_storage::{ByteSize, Sink, run_blocking};

use super::csv_rows::encode;
use crate::{
    Result,
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
    /// Number of leading columns whose values do not repeat, or only in runs: dictionary encoding would waste time.
    pub(crate) distinct: usize,
    /// Maximum number of rows.
    pub(crate) rows: u64,
}

/// Encoding options of files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkEncodeOptions {
    pub(crate) compression: Compression,
    pub(crate) orc_compression: OrcCompression,
    /// Memory per file.
    pub(crate) memory: ByteSize,
    pub(crate) threads: usize,
}

/// Writes one file.
pub(crate) struct ChunkFileWriter {
    writer: TableWriter,
    file_type: FileType,
    name: String,
}

impl ChunkFileWriter {
    /// Opens an encoder; `name` is the file's name in errors.
    pub(crate) fn new(
        plan: &ChunkFileSpec,
        encoding: ChunkEncodeOptions,
        name: String,
        sink: Box<dyn Sink>,
    ) -> Result<Self> {
        check_file_type(&name, plan.file_type)?;
        let writer = TableWriter::new(sink, name.clone(), plan.schema.clone(), plan.options(encoding))?;
        Ok(Self { writer, file_type: plan.file_type, name })
    }

    pub(crate) async fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        if self.file_type != FileType::Csv {
            return Ok(self.writer.write(rows).await?);
        }

        // Rows of a graph are read by number, so no line may be empty.
        let batch = rows.clone();
        let name = self.name.clone();
        let text = run_blocking(move || encode(&batch, name)).await??;
        Ok(self.writer.write_encoded(&text, rows.num_rows()).await?)
    }

    /// Encodes the rest, and returns the sink with all bytes.
    pub(crate) async fn finish(self) -> Result<Box<dyn Sink>> {
        let (_, sink) = self.writer.into_sink().await?;
        Ok(sink)
    }
}

impl ChunkFileSpec {
    fn options(&self, encoding: ChunkEncodeOptions) -> FileOptions {
        let options: FileOptions = match self.file_type {
            FileType::Parquet | FileType::Json => {
                let distinct = self.schema.fields().iter().take(self.distinct);
                ParquetOptions::default()
                    .with_compression(encoding.compression)
                    .without_dictionaries(distinct.map(|field| field.name()))
                    .into()
            }
            FileType::Orc => OrcOptions::default().with_compression(encoding.orc_compression).into(),
            FileType::Csv => WriteFormat::Csv.into(),
        };

        let threads = if self.rows < FEW_ROWS { 1 } else { encoding.threads };
        options.with_memory(encoding.memory).with_threads(threads)
    }
}
