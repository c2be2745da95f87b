//! Writes the rows of one file: prepares chunks in parallel, and appends them in order.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    compute::cast,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use async_trait::async_trait;
use parking_lot::Mutex;
use stylobate_columnar::{CsvEncoder, FileOptions, TableWriter, orc::OrcOptions, parquet::ParquetOptions};
use stylobate_storage::{ByteSize, Result as StorageResult, Sealed, Sink};

use crate::{
    Benchmark, Checksums, Error, FileFormat, Result, Table,
    columns::ColumnRepresentation,
    files::output::{FileDigest, FileHasher},
};

/// Memory of the encoder of a Parquet or ORC file, which ends row groups and stripes early to stay below it.
const MEMORY: ByteSize = ByteSize::mib(160);

/// A chunk that is ready to be written.
pub(crate) struct PreparedChunk {
    pub(crate) sums: Checksums,
    content: ChunkContent,
}

enum ChunkContent {
    Batches(Vec<RecordBatch>),
    Text(Vec<u8>),
}

/// Prepares chunks on one thread.
pub(crate) struct ChunkPreparer {
    table: Table,
    format: FileFormat,
    /// Schema of the file.
    written: SchemaRef,
    sums: Checksums,
}

/// Writes the chunks of one file.
pub(crate) struct TableFileWriter {
    writer: TableWriter,
    digest: Arc<Mutex<FileHasher>>,
}

impl FileFormat {
    /// Returns the representation of the file's columns.
    pub(crate) fn representation(self) -> ColumnRepresentation {
        match self {
            Self::Parquet { .. } => ColumnRepresentation::Parquet,
            Self::Orc { .. } | Self::Csv | Self::Arrow => ColumnRepresentation::Stream,
        }
    }

    /// Creates a preparer of chunks of a table with these columns.
    pub(crate) fn preparer(self, table: Table, schema: &SchemaRef) -> ChunkPreparer {
        ChunkPreparer { table, format: self, written: self.written(schema), sums: Checksums::default() }
    }

    /// Returns the columns of the file.
    pub(crate) fn written(self, schema: &SchemaRef) -> SchemaRef {
        let change: fn(&DataType) -> DataType = match self {
            Self::Parquet { .. } | Self::Csv => return schema.clone(),
            Self::Orc { .. } => without_times,
            Self::Arrow => portable,
        };
        let fields = schema.fields().iter();
        let fields = fields.map(|field| Field::clone(field).with_data_type(change(field.data_type())));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Returns the options of a file with these columns.
    fn options(self, benchmark: Benchmark, schema: &SchemaRef, threads: usize) -> FileOptions {
        let options: FileOptions = match self {
            Self::Parquet { compression, row_group_rows } => {
                let unique = schema.fields().iter().filter(|field| never_repeats(field));
                ParquetOptions::default()
                    .with_compression(compression)
                    .with_row_group_rows(row_group_rows)
                    // The order of a dictionary depends on which thread encountered a string first.
                    .with_reproducible(true)
                    .without_dictionaries(unique.map(|field| field.name()))
                    .into()
            }
            Self::Orc { compression } => OrcOptions::default().with_compression(compression).into(),
            Self::Csv => FileOptions::Csv { delimiter: benchmark.delimiter() },
            Self::Arrow => FileOptions::ArrowFile,
        };

        options.with_memory(MEMORY).with_threads(threads)
    }
}

impl ChunkPreparer {
    pub(crate) fn prepare(&mut self, batches: Vec<RecordBatch>) -> Result<PreparedChunk> {
        for batch in &batches {
            let table = self.table.name();
            let no_checksum = |error: Error| Error::Generator { table, reason: error.to_string() };
            self.sums.add(batch).map_err(no_checksum)?;
        }
        let content = match self.format {
            FileFormat::Parquet { .. } => ChunkContent::Batches(batches),
            // The threads that prepare chunks encode the text, which the file's writer would do on a single thread.
            FileFormat::Csv => {
                let mut encoder = CsvEncoder::without_header(Vec::new(), self.table.benchmark().delimiter());
                batches.iter().try_for_each(|batch| encoder.write(batch))?;
                ChunkContent::Text(encoder.into_inner())
            }
            FileFormat::Orc { .. } | FileFormat::Arrow => {
                let batches = batches.into_iter().map(|batch| with_types(batch, &self.written));
                ChunkContent::Batches(batches.collect::<Result<_>>()?)
            }
        };

        Ok(PreparedChunk { sums: self.sums.take(), content })
    }
}

impl TableFileWriter {
    /// Opens a file with these columns; `name` identifies it in errors.
    pub(crate) fn new(
        format: FileFormat,
        benchmark: Benchmark,
        schema: &SchemaRef,
        threads: usize,
        name: String,
        sink: Box<dyn Sink>,
    ) -> Result<Self> {
        let digest = Arc::<Mutex<FileHasher>>::default();
        let sink: Box<dyn Sink> = Box::new(HashingSink { sink, digest: digest.clone() });
        let options = format.options(benchmark, schema, threads);
        let writer = TableWriter::new(sink, name, format.written(schema), options)?;

        Ok(Self { writer, digest })
    }

    /// Appends a chunk.
    pub(crate) async fn write(&mut self, chunk: PreparedChunk) -> Result<()> {
        match chunk.content {
            ChunkContent::Batches(batches) => {
                for batch in batches {
                    self.writer.write(&batch).await?;
                }
            }
            ChunkContent::Text(text) => {
                let rows = usize::try_from(chunk.sums.rows()).unwrap_or(usize::MAX);
                self.writer.write_encoded(&text, rows).await?;
            }
        }

        Ok(())
    }

    /// Returns the number of bytes sent to the file so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Writes the remaining bytes, and publishes the file.
    pub(crate) async fn finish(self) -> Result<FileDigest> {
        self.writer.finish().await?;
        Ok(self.digest.lock().finish())
    }
}

/// Returns whether looking for repeated values would be futile: keys, prices and comments of large tables.
fn never_repeats(field: &Field) -> bool {
    matches!(
        field.name().as_str(),
        "l_extendedprice"
            | "l_comment"
            | "o_orderkey"
            | "o_totalprice"
            | "o_comment"
            | "ps_comment"
            | "c_custkey"
            | "c_name"
            | "c_address"
            | "c_phone"
            | "c_acctbal"
            | "c_comment"
            | "s_suppkey"
            | "s_name"
            | "s_address"
            | "s_phone"
            | "s_acctbal"
            | "s_comment"
            | "p_partkey"
            | "p_name"
            | "id"
            | "content"
    )
}

/// Replaces views and dictionaries by plain strings, since few readers of Arrow files support them.
fn portable(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::Dictionary(..) => DataType::Utf8,
        other => other.clone(),
    }
}

/// Replaces times of day by strings, since ORC has no such type.
fn without_times(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Time32(_) | DataType::Time64(_) => DataType::Utf8,
        other => other.clone(),
    }
}

fn with_types(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<Result<_, _>>().map_err(Error::arrow("strings"))?;
    RecordBatch::try_new(schema.clone(), columns).map_err(Error::arrow("strings"))
}

/// A sink that hashes the bytes it forwards.
struct HashingSink {
    sink: Box<dyn Sink>,
    digest: Arc<Mutex<FileHasher>>,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Sink for HashingSink {
    async fn write(&mut self, bytes: &[u8]) -> StorageResult<()> {
        self.digest.lock().add(bytes);
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
        self.sink.finish().await
    }
}
