//! A Parquet file that is being written.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{Field, Schema, SchemaRef},
};
use parquet::{
    arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, encode_arrow_schema},
    file::metadata::KeyValue,
};
use stylobate_storage::Sink;

use super::{
    chunk::EncodedChunk,
    column::{Column, ColumnKind, stored},
    footer::Footer,
    options::ParquetOptions,
};
use crate::{
    Error, Result, promised,
    side_by_side::{Failed, side_by_side},
};

const MAGIC: &[u8; 4] = b"PAR1";
/// Bytes of arrays that are encoded at a time: enough that threads need not meet often.
const ENCODED_AT_ONCE: usize = 8 << 20;
/// What is said of an encoder that panicked.
const GAVE_UP: &str = "the encoder gave up";

/// Writes record batches to a Parquet file. Dropped before it is finished, it leaves nothing behind.
pub struct ParquetWriter {
    sink: Box<dyn Sink>,
    name: String,
    schema: SchemaRef,
    options: ParquetOptions,
    kinds: Vec<ColumnKind>,
    /// Of the row group that is being filled; none before its first row.
    columns: Vec<Column>,
    waiting: Vec<RecordBatch>,
    waiting_bytes: usize,
    rows_in_group: usize,
    footer: Footer,
    rows: u64,
    row_groups: usize,
    /// Whether rows may be lost: something went wrong, or a write was dropped before its end.
    is_broken: bool,
}

/// A file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its rows.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its row groups.
    pub row_groups: usize,
}

impl ParquetWriter {
    /// A file with the columns of `schema`. `name` is what errors call it. Must be used within a tokio runtime.
    pub fn new(
        sink: Box<dyn Sink>,
        name: impl Into<String>,
        schema: SchemaRef,
        options: ParquetOptions,
    ) -> Result<Self> {
        let name = name.into();
        let wrong = |column: Option<&str>, reason: String| Error::Unwritable {
            object: name.clone(),
            column: column.map(str::to_owned),
            reason,
        };
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        options.check(&names)?;
        let mut kinds = Vec::with_capacity(names.len());
        for field in schema.fields() {
            let plan = options.plan(field.name()).map_err(|reason| wrong(Some(field.name()), reason))?;
            let properties = options.properties(field.name());
            let properties = properties.map_err(|reason| wrong(Some(field.name()), reason))?;
            let kind = ColumnKind::new(field, plan, Arc::new(properties));
            // A type that the format does not have is found out now, before anything is written.
            let begun = guarded(|| kind.begin().map(drop));
            begun.map_err(|reason| wrong(Some(field.name()), reason))?;
            kinds.push(kind);
        }
        let encoded: Vec<_> = kinds.iter().map(|kind| kind.encoded().clone()).collect();
        let converted = ArrowSchemaConverter::new().convert(&Schema::new(encoded));
        let descriptor = Arc::new(converted.map_err(|error| wrong(None, error.to_string()))?);
        let leaves: Vec<String> = descriptor.columns().iter().map(|leaf| leaf.path().string()).collect();
        let footer = Footer::new(descriptor, options.sorting(&leaves));
        Ok(Self {
            sink,
            name,
            schema,
            options,
            kinds,
            columns: Vec::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            rows_in_group: 0,
            footer,
            rows: 0,
            row_groups: 0,
            is_broken: false,
        })
    }

    /// Rows that were given so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes that are on their way to the file so far.
    pub fn bytes(&self) -> u64 {
        self.sink.position()
    }

    /// Appends a batch, whose columns have the types of the schema. A batch of other types changes nothing; after any
    /// other error, and where this is dropped before it ends, there will be no file.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        promised::check(batch, &self.schema)
            .map_err(|(column, reason)| self.unwritable(column.as_deref(), reason))?;
        self.check_whole()?;
        self.is_broken = true;
        self.append(batch).await?;
        self.is_broken = false;
        Ok(())
    }

    async fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let count = (self.options.row_group_rows - self.rows_in_group).min(batch.num_rows() - start);
            let some = batch.slice(start, count);
            // A slice is charged by its share: its buffers are those of the batch.
            self.waiting_bytes += some.get_array_memory_size() * count / batch.num_rows().max(1);
            self.waiting.push(some);
            self.rows_in_group += count;
            self.rows += count as u64;
            start += count;
            if self.waiting_bytes >= ENCODED_AT_ONCE.min(self.memory() / 2) {
                self.encode().await?;
            }
            if self.rows_in_group == self.options.row_group_rows || self.is_large() {
                self.end_row_group().await?;
            }
        }
        Ok(())
    }

    /// Writes what is left and the footer, and gives the file its name.
    pub async fn finish(mut self) -> Result<Written> {
        self.check_whole()?;
        self.end_row_group().await?;
        if self.sink.position() == 0 {
            self.sink.write(MAGIC).await?;
        }
        let mut metadata = vec![KeyValue::new(
            ARROW_SCHEMA_META_KEY.to_owned(),
            encode_arrow_schema(&stored_schema(&self.schema)),
        )];
        let own = self.options.metadata.iter();
        metadata.extend(own.map(|(key, value)| KeyValue::new(key.clone(), value.clone())));
        let footer = self.footer.bytes(self.sink.position(), metadata);
        let footer = footer.map_err(|error| Error::Unwritable {
            object: self.name.clone(),
            column: None,
            reason: error.to_string(),
        })?;
        self.sink.write(&footer).await?;
        let bytes = self.sink.finish().await?;
        Ok(Written { rows: self.rows, bytes, row_groups: self.row_groups })
    }

    fn memory(&self) -> usize {
        usize::try_from(self.options.memory.as_u64()).unwrap_or(usize::MAX)
    }

    /// Whether the row group should end here.
    fn is_large(&self) -> bool {
        let encoded: usize = self.columns.iter().map(Column::encoded).sum();
        let memory: usize = self.columns.iter().map(Column::memory).sum();
        encoded as u64 >= self.options.row_group_size.as_u64() || memory + self.waiting_bytes >= self.memory()
    }

    fn check_whole(&self) -> Result<()> {
        match self.is_broken {
            true => Err(self.unwritable(None, "an earlier write failed or was given up".to_owned())),
            false => Ok(()),
        }
    }

    fn unwritable(&self, column: Option<&str>, reason: String) -> Error {
        Error::Unwritable { object: self.name.clone(), column: column.map(str::to_owned), reason }
    }

    /// Encodes the batches that wait.
    async fn encode(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if self.columns.is_empty() {
            for kind in &self.kinds {
                let begun =
                    kind.begin().map_err(|reason| self.unwritable(Some(kind.encoded().name()), reason))?;
                self.columns.push(begun);
            }
        }
        let batches = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let columns = std::mem::take(&mut self.columns).into_iter().enumerate();
        let work = columns.map(|(at, column)| {
            let arrays: Vec<ArrayRef> = batches.iter().map(|batch| batch.column(at).clone()).collect();
            (column, arrays)
        });
        let encode = |(mut column, arrays): (Column, Vec<ArrayRef>)| {
            let written = arrays.iter().try_for_each(|array| column.write(array));
            written.map_err(|reason| (column.name().to_owned(), reason)).map(|()| column)
        };
        self.columns = self.in_parallel(work.collect(), encode).await?;
        Ok(())
    }

    async fn end_row_group(&mut self) -> Result<()> {
        self.encode().await?;
        let columns = std::mem::take(&mut self.columns);
        if columns.is_empty() {
            return Ok(());
        }
        let finish = |column: Column| {
            let name = column.name().to_owned();
            column.finish().map_err(|reason| (name, reason))
        };
        let chunks: Vec<Vec<EncodedChunk>> = self.in_parallel(columns, finish).await?;
        if self.sink.position() == 0 {
            self.sink.write(MAGIC).await?;
        }
        let start = self.sink.position();
        let mut written = Vec::new();
        for chunk in chunks.into_iter().flatten() {
            let mut chunk =
                chunk.placed(self.sink.position()).map_err(|reason| self.unwritable(None, reason))?;
            for blob in std::mem::take(&mut chunk.blobs) {
                self.sink.write(&blob).await?;
            }
            written.push(chunk);
        }
        for chunk in &mut written {
            let Some(filter) = chunk.bloom_filter.take() else { continue };
            let mut bytes = Vec::new();
            filter.write(&mut bytes).map_err(|error| self.unwritable(None, error.to_string()))?;
            let metadata = chunk.metadata.clone().into_builder();
            let metadata = metadata.set_bloom_filter_offset(Some(self.sink.position() as i64));
            let metadata = metadata.set_bloom_filter_length(Some(bytes.len() as i32)).build();
            chunk.metadata = metadata.map_err(|error| self.unwritable(None, error.to_string()))?;
            self.sink.write(&bytes).await?;
        }
        let rows = std::mem::take(&mut self.rows_in_group) as u64;
        let pushed = self.footer.push(written, rows, start);
        pushed.map_err(|error| self.unwritable(None, error.to_string()))?;
        self.row_groups += 1;
        Ok(())
    }

    /// What becomes of all that is to be done, in its order.
    async fn in_parallel<T: Send + 'static, U: Send + 'static>(
        &self,
        work: Vec<T>,
        run: impl Fn(T) -> std::result::Result<U, (String, String)> + Copy + Send + Sync + 'static,
    ) -> Result<Vec<U>> {
        side_by_side(self.options.threads, work, run).await.map_err(|failed| match failed {
            Failed::Wrong((column, reason)) => self.unwritable(Some(&column), reason),
            Failed::Panicked => self.unwritable(None, GAVE_UP.to_owned()),
            Failed::Ended(reason) => Error::Ended { reason },
        })
    }
}

/// The Arrow schema that is kept in the file.
fn stored_schema(schema: &Schema) -> Schema {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| Field::clone(field).with_data_type(stored(field.data_type())));
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())
}

impl fmt::Debug for ParquetWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetWriter")
            .field("name", &self.name)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// An encoder that meets values which its authors did not think of must not take the process with it.
fn guarded<T>(encode: impl FnOnce() -> std::result::Result<T, String>) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|_| Err(GAVE_UP.to_owned()))
}
