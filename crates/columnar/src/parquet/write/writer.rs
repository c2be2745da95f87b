//! Writes a Parquet file.

use std::{
    collections::HashSet,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{Field, Schema, SchemaRef},
};
use async_recursion::async_recursion as boxed;
use parquet::{
    arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, encode_arrow_schema},
    file::metadata::KeyValue,
};
use stylobate_storage::{Sink, without_credentials};
use tracing::{Instrument, Span, field::Empty};

use super::{
    chunk::MAX_NARROW,
    codebook::Codebook,
    column::{ParquetColumnEncoder, ParquetColumnSpec},
    footer::ParquetFooterBuilder,
    logical_types::{KeyValues, with_logical_types},
    options::ParquetOptions,
};
use crate::{
    Error, Result, Written,
    file::{dataset_mark::DATASET_KEY, promised},
    kernels::weight::{weight, weight_of, weight_of_rows},
    parallel::side_by_side::{ParallelError, side_by_side},
};

const MAGIC: &[u8; 4] = b"PAR1";
/// Bytes of rows that are encoded at a time, without dictionaries: enough that threads rarely synchronize.
const ENCODE_BATCH_BYTES: usize = 8 << 20;
/// Bytes that are encoded at a time, with dictionaries: a dictionary stays below the limit of a page.
const MAX_BUFFERED_BYTES: usize = 512 << 20;
/// Reason of the error if an encoder panics.
const GAVE_UP: &str = "the encoder gave up";
/// Codebooks are kept for the next row group if they take at most `1 / CODEBOOK_MEMORY_DIVISOR` of the memory.
const CODEBOOK_MEMORY_DIVISOR: usize = 2;

/// Writer of record batches to a Parquet file. If it is dropped before it is finished, no file is left.
pub struct ParquetWriter {
    sink: Box<dyn Sink>,
    name: String,
    schema: SchemaRef,
    options: ParquetOptions,
    kinds: Vec<ParquetColumnSpec>,
    /// Hashes of the dictionary values of all row groups, by column; `None` if keys are not narrow or cannot address
    /// them all.
    narrow_values: Vec<Option<HashSet<u64>>>,
    /// Encoders of the row group that is being filled; empty before its first row.
    columns: Vec<ParquetColumnEncoder>,
    /// Codebooks that the next row group may reuse; empty once it has begun.
    codebooks: Vec<Option<Codebook>>,
    waiting: Vec<RecordBatch>,
    waiting_bytes: usize,
    /// Bytes of the buffered rows, without their dictionaries.
    waiting_rows: usize,
    rows_in_group: usize,
    footer: ParquetFooterBuilder,
    rows: u64,
    row_groups: usize,
    /// True if rows may be lost: an operation failed, or the future of a write was dropped before it completed.
    is_broken: bool,
    span: Span,
}

impl ParquetWriter {
    /// Creates a file with the columns of `schema`. `name` is used in errors. Must be called within a tokio runtime.
    pub fn new(
        sink: Box<dyn Sink>,
        name: impl Into<String>,
        schema: SchemaRef,
        options: ParquetOptions,
    ) -> Result<Self> {
        let name = name.into();
        let (kinds, footer) = Self::begin(&name, &schema, &options)?;
        let span = tracing::debug_span!(
            "write_parquet",
            object = without_credentials(&name),
            columns = schema.fields().len(),
            rows = Empty,
            bytes = Empty,
        );
        Ok(Self {
            sink,
            name,
            schema,
            options,
            narrow_values: vec![Some(HashSet::new()); kinds.len()],
            kinds,
            columns: Vec::new(),
            codebooks: Vec::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            waiting_rows: 0,
            rows_in_group: 0,
            footer,
            rows: 0,
            row_groups: 0,
            is_broken: false,
            span,
        })
    }

    /// Checks the types of columns and the options.
    pub(crate) fn check_options(name: &str, schema: &SchemaRef, options: &ParquetOptions) -> Result<()> {
        Self::begin(name, schema, options).map(drop)
    }

    fn begin(
        name: &str,
        schema: &SchemaRef,
        options: &ParquetOptions,
    ) -> Result<(Vec<ParquetColumnSpec>, ParquetFooterBuilder)> {
        let wrong = |column: Option<&str>, reason: String| Error::Unwritable {
            object: name.to_owned(),
            column: column.map(str::to_owned),
            reason,
        };
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        options.check(&names)?;
        let mut kinds = Vec::with_capacity(names.len());

        for field in schema.fields() {
            // An unsupported type is an error before anything is written.
            let begun = guarded(|| {
                let kind = ParquetColumnSpec::new(field, options)?;
                kind.begin(None).map(|_| kind)
            });
            kinds.push(begun.map_err(|reason| wrong(Some(field.name()), reason))?);
        }

        let encoded: Vec<_> = kinds.iter().map(|kind| kind.encoded().clone()).collect();
        let pairs: KeyValues<'_> = schema.metadata().iter().chain(&options.metadata).collect();
        let converted = ArrowSchemaConverter::new()
            .convert(&Schema::new(encoded))
            .and_then(|converted| with_logical_types(converted, schema.fields().iter(), &pairs));
        let descriptor = Arc::new(converted.map_err(|error| wrong(None, error.to_string()))?);
        let sorting = options.sorting(&descriptor)?;
        let footer = ParquetFooterBuilder::new(descriptor, sorting, options.version());

        Ok((kinds, footer))
    }

    /// Returns the number of rows accepted so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of bytes handed to the sink so far.
    pub fn bytes(&self) -> u64 {
        self.sink.position()
    }

    /// Estimates the bytes of the current row group, without buffered rows.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        self.columns.iter().map(ParquetColumnEncoder::encoded).sum::<usize>() as u64
    }

    /// Returns the memory in use, in bytes: encoded columns and buffered rows.
    pub(crate) fn memory_used(&self) -> usize {
        let kept = self.codebooks.iter().flatten().map(kept_bytes).sum::<usize>();
        self.columns.iter().map(ParquetColumnEncoder::memory).sum::<usize>() + kept + self.waiting_bytes
    }

    /// Returns the span of the write.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Returns the number of bytes that the sink holds.
    pub(crate) fn sink_memory(&self) -> usize {
        self.sink.memory()
    }

    /// Frees memory that is only kept for the next row group. Returns whether there was any.
    pub(crate) fn release_buffers(&mut self) -> bool {
        !std::mem::take(&mut self.codebooks).is_empty()
    }

    /// Encodes the buffered rows, and ends the row group if more than `to` bytes are still in use.
    pub(crate) async fn shrink(&mut self, to: usize) -> Result<()> {
        self.check_whole()?;
        self.is_broken = true;
        self.encode().await?;
        if self.memory_used() > to {
            self.end_row_group().await?;
            self.release_buffers();
        }
        self.is_broken = false;

        Ok(())
    }

    /// Appends a batch, whose columns must have the types of the schema. A batch of other types has no effect;
    /// after any other error, or if the future is dropped, no file is written.
    #[boxed]
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        promised::check(batch, &self.schema)
            .map_err(|(column, reason)| self.unwritable(column.as_deref(), reason))?;
        self.check_whole()?;
        self.is_broken = true;
        let span = self.span.clone();
        self.append(batch).instrument(span).await?;
        self.is_broken = false;
        Ok(())
    }

    async fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let row_group = usize::try_from(self.options.row_group_size.as_u64()).unwrap_or(usize::MAX);
        let at_once =
            self.options.encoded_at_once.min(self.memory() / 2).min(row_group).min(MAX_BUFFERED_BYTES);
        let rows = batch.num_rows();
        let within = |bytes: usize, all: usize| (bytes / all.div_ceil(rows.max(1)).max(1)).max(1);
        let max_rows =
            within(at_once, self.weight(batch)).min(within(ENCODE_BATCH_BYTES, weight_of_rows(batch)));
        let mut start = 0;

        while start < rows {
            let left = rows - start;
            let count = (self.options.row_group_rows - self.rows_in_group).min(left).min(max_rows);
            let some = batch.slice(start, count);
            self.waiting_bytes += self.weight(&some);
            self.waiting_rows += weight_of_rows(&some);
            self.waiting.push(some);
            self.rows_in_group += count;
            self.rows += count as u64;
            start += count;

            if self.waiting_bytes >= at_once || self.waiting_rows >= ENCODE_BATCH_BYTES {
                self.encode().await?;
            }
            if self.rows_in_group == self.options.row_group_rows || self.is_large() {
                self.end_row_group().await?;
            }
        }

        Ok(())
    }

    /// Writes the rest and the footer, and publishes the file under its name.
    #[boxed]
    pub async fn finish(self) -> Result<Written> {
        let span = self.span.clone();
        let (written, sink) = self.end().await?;
        sink.finish().instrument(span).await?;
        Ok(written)
    }

    /// Writes the rest and the footer, and returns the sink that has all bytes.
    pub(crate) async fn end(self) -> Result<(Written, Box<dyn Sink>)> {
        let span = self.span.clone();
        self.end_file().instrument(span).await
    }

    async fn end_file(mut self) -> Result<(Written, Box<dyn Sink>)> {
        self.check_whole()?;
        self.end_row_group().await?;
        if self.sink.position() == 0 {
            self.sink.write(MAGIC).await?;
        }
        let stored = self.kinds.iter().zip(&self.narrow_values);
        let stored = stored.map(|(kind, values)| kind.stored(values.as_ref().map(HashSet::len)));
        let stored: Vec<Field> = stored.collect();
        let mut of_schema = self.schema.metadata().clone();
        // The rows may come from a data set; this file belongs to one only if its options state it.
        of_schema.remove(DATASET_KEY);
        // The mark of a data set, and an Arrow schema of the caller, are not metadata of this schema.
        let own = self.options.metadata.iter();
        let own = own.filter(|(key, _)| ![DATASET_KEY, ARROW_SCHEMA_META_KEY].contains(&key.as_str()));
        of_schema.extend(own.map(|(key, value)| (key.clone(), value.clone())));

        let mut metadata = vec![KeyValue::new(
            ARROW_SCHEMA_META_KEY.to_owned(),
            encode_arrow_schema(&Schema::new_with_metadata(stored, of_schema.clone())),
        )];
        // Readers look for schema metadata such as `geo` and `pandas` in the metadata of the file itself.
        let own: KeyValues<'_> = of_schema.iter().chain(&self.options.metadata).collect();
        metadata.extend(own.into_iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())));
        let footer = self.footer.bytes(self.sink.position(), metadata);
        let footer = footer.map_err(|error| Error::Unwritable {
            object: self.name.clone(),
            column: None,
            reason: error.to_string(),
        })?;
        self.sink.write(&footer).await?;
        let written = Written { rows: self.rows, bytes: self.sink.position(), row_groups: self.row_groups };
        self.span.record("rows", written.rows).record("bytes", written.bytes);

        Ok((written, self.sink))
    }

    /// Returns the size of a batch, in bytes. It includes the dictionaries, unless the file must not depend on
    /// them.
    fn weight(&self, batch: &RecordBatch) -> usize {
        if self.options.reproducible { weight_of_rows(batch) } else { weight(batch) }
    }

    fn memory(&self) -> usize {
        usize::try_from(self.options.memory.as_u64()).unwrap_or(usize::MAX)
    }

    /// Returns whether the row group should end here.
    fn is_large(&self) -> bool {
        let is_full = self.columns.iter().any(ParquetColumnEncoder::is_full);
        let is_long = self.encoded_bytes() >= self.options.row_group_size.as_u64();
        is_full || is_long || self.memory_used() >= self.memory()
    }

    fn check_whole(&self) -> Result<()> {
        if self.is_broken {
            Err(self.unwritable(None, "an earlier write failed or was given up".to_owned()))
        } else {
            Ok(())
        }
    }

    fn unwritable(&self, column: Option<&str>, reason: String) -> Error {
        Error::Unwritable { object: self.name.clone(), column: column.map(str::to_owned), reason }
    }

    /// Encodes the buffered batches.
    async fn encode(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }

        if self.columns.is_empty() {
            let mut codebooks = std::mem::take(&mut self.codebooks).into_iter();
            for kind in &self.kinds {
                let begun = kind
                    .begin(codebooks.next().flatten())
                    .map_err(|reason| self.unwritable(Some(kind.encoded().name()), reason))?;
                self.columns.push(begun);
            }
        }

        let batches = std::mem::take(&mut self.waiting);
        (self.waiting_bytes, self.waiting_rows) = (0, 0);
        let columns = std::mem::take(&mut self.columns).into_iter().enumerate();
        let work = columns.map(|(at, column)| {
            let arrays: Vec<ArrayRef> = batches.iter().map(|batch| batch.column(at).clone()).collect();
            (column, arrays)
        });
        let encode = |(mut column, arrays): (ParquetColumnEncoder, Vec<ArrayRef>)| {
            let written = column.write(&arrays);
            written.map_err(|reason| (Some(column.name().to_owned()), reason)).map(|()| column)
        };
        let size = |(_, arrays): &(ParquetColumnEncoder, Vec<ArrayRef>)| arrays.iter().map(weight_of).sum();
        let encoded = in_parallel(self.options.threads, work.collect(), size, encode).await;
        self.columns = encoded.map_err(|(column, reason)| self.unwritable(column.as_deref(), reason))?;

        Ok(())
    }

    async fn end_row_group(&mut self) -> Result<()> {
        self.encode().await?;
        let columns = std::mem::take(&mut self.columns);
        if columns.is_empty() {
            return Ok(());
        }

        let finish = |column: ParquetColumnEncoder| {
            let name = column.name().to_owned();
            column.finish().map_err(|reason| (Some(name), reason))
        };
        let finished = in_parallel(self.options.threads, columns, ParquetColumnEncoder::memory, finish).await;
        let finished = finished.map_err(|(column, reason)| self.unwritable(column.as_deref(), reason))?;
        let (mut chunks, codebooks): (Vec<_>, Vec<_>) = finished.into_iter().unzip();
        if codebooks.iter().flatten().map(kept_bytes).sum::<usize>()
            <= self.memory() / CODEBOOK_MEMORY_DIVISOR
        {
            self.codebooks = codebooks;
        }

        for (known, chunks) in self.narrow_values.iter_mut().zip(&mut chunks) {
            let hashes = chunks.first_mut().and_then(|chunk| chunk.hashes.take());
            match (known.as_mut(), hashes) {
                (Some(known), Some(hashes)) if known.len() <= MAX_NARROW => known.extend(hashes),
                _ => *known = None,
            }
        }

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
}

fn kept_bytes(codebook: &Codebook) -> usize {
    codebook.memory() + codebook.map_bytes()
}

impl fmt::Debug for ParquetWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetWriter")
            .field("name", &self.name)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// Column that failed, if known, and the reason.
type ParquetEncodeFailure = (Option<String>, String);

/// Runs each item on a few threads, and returns the results in order; `size` weighs the items. If the future is
/// dropped, running items end and no further item begins.
async fn in_parallel<T: Send + 'static, U: Send + 'static>(
    threads: usize,
    work: Vec<T>,
    size: impl Fn(&T) -> usize,
    run: impl Fn(T) -> Result<U, ParquetEncodeFailure> + Copy + Send + Sync + 'static,
) -> Result<Vec<U>, ParquetEncodeFailure> {
    side_by_side(threads, work, size, run).await.map_err(|failed| match failed {
        ParallelError::Wrong(failed) => failed,
        ParallelError::Panicked => (None, GAVE_UP.to_owned()),
        ParallelError::Ended(reason) => (None, reason),
    })
}

/// Converts a panic of an encoder into an error: unforeseen values must not end the process.
fn guarded<T>(encode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|_| Err(GAVE_UP.to_owned()))
}
