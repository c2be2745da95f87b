//! Writes an ORC file.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::SchemaRef,
};
use async_recursion::async_recursion as boxed;
use orc_rust::proto;
use stylobate_storage::{Sink, without_credentials};
use tracing::{Instrument, Span, field::Empty};

use super::{
    column::{EncodedColumn, OrcColumnError, PER_GROUP},
    compression::OrcCompressorPool,
    footer::{MAGIC, OrcFooterBuilder},
    options::OrcOptions,
    plan::{OrcColumnPlan, check_options, plan},
    stripe::StripeAssembler,
    top_column::TopLevelColumnEncoder,
};
use crate::{
    Error, Result,
    file::{dataset_mark::DATASET_KEY, promised},
    kernels::weight::{weight, weight_of, weight_of_rows},
    parallel::side_by_side::{ParallelError, side_by_side},
};

/// Bytes of rows that are encoded at a time, without dictionaries: enough that threads rarely synchronize.
const ENCODE_BATCH_BYTES: usize = 8 << 20;
/// Maximum bytes of buffered rows, including their dictionaries.
const MAX_BUFFERED_BYTES: usize = 512 << 20;
/// Minimum rows of a slice, unless they exceed [`MIN_ROWS_BYTES`].
const MIN_ROWS: usize = 1024;
const MIN_ROWS_BYTES: usize = 4 << 20;

/// Writer of record batches to an ORC file. If it is dropped before it is finished, no file is left.
///
/// Unsigned numbers become signed ones of the next size, half floats become floats, and dictionaries become their
/// values; columns of nulls become booleans. Strings become `string`, unless the metadata of their field has
/// `varchar(n)` or `char(n)` under `orc.type`; other metadata of fields become attributes of the file's types.
/// Times of day, durations, intervals and unions are errors, and so are values that the file's type cannot hold.
pub struct OrcWriter {
    sink: Box<dyn Sink>,
    name: String,
    schema: SchemaRef,
    options: OrcOptions,
    columns: Vec<TopLevelColumnEncoder>,
    /// Bytes in memory of the statistics and positions of each row group.
    group_bytes: usize,
    compressors: Arc<OrcCompressorPool>,
    waiting: Vec<RecordBatch>,
    waiting_bytes: usize,
    /// Bytes of the buffered rows, without their dictionaries.
    waiting_rows: usize,
    rows_in_stripe: u64,
    footer: OrcFooterBuilder,
    rows: u64,
    /// True if rows may be lost: an operation failed, or the future of a write was dropped before it completed.
    is_broken: bool,
    span: Span,
}

/// Result of writing an ORC file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrcWritten {
    /// Number of rows.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of stripes.
    pub stripes: usize,
}

impl OrcWriter {
    /// Creates a file with the columns of `schema`. `name` is used in errors. Must be called within a tokio runtime.
    pub fn new(
        sink: Box<dyn Sink>,
        name: impl Into<String>,
        schema: SchemaRef,
        options: OrcOptions,
    ) -> Result<Self> {
        let name = name.into();
        let (plans, types) = Self::begin(&name, &schema, &options)?;
        let compressors = Arc::new(OrcCompressorPool::new(options.compression));
        let group_bytes = if options.row_index_stride == 0 { 0 } else { types.len() * PER_GROUP };
        let footer = OrcFooterBuilder::new(types, &plans);
        let top = |plan| TopLevelColumnEncoder::new(plan, options.row_index_stride, compressors.clone());
        let columns = plans.into_iter().map(top).collect();
        let span = tracing::debug_span!(
            "write_orc",
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
            columns,
            group_bytes,
            compressors,
            waiting: Vec::new(),
            waiting_bytes: 0,
            waiting_rows: 0,
            rows_in_stripe: 0,
            footer,
            rows: 0,
            is_broken: false,
            span,
        })
    }

    /// Checks the types of columns and the options.
    pub(crate) fn check_options(name: &str, schema: &SchemaRef, options: &OrcOptions) -> Result<()> {
        Self::begin(name, schema, options).map(drop)
    }

    fn begin(
        name: &str,
        schema: &SchemaRef,
        options: &OrcOptions,
    ) -> Result<(Vec<OrcColumnPlan>, Vec<proto::Type>)> {
        let wrong = |column: Option<String>, reason: String| Error::Unwritable {
            object: name.to_owned(),
            column,
            reason,
        };
        options.check()?;
        let planned = plan(schema.fields(), options);
        let (plans, types) = planned.map_err(|(column, reason)| wrong(Some(column), reason))?;
        check_options(&plans, options)?;
        options.compression.check().map_err(|reason| wrong(None, reason))?;

        Ok((plans, types))
    }

    /// Returns the number of rows accepted so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of bytes handed to the sink so far.
    pub fn bytes(&self) -> u64 {
        self.sink.position()
    }

    /// Estimates the bytes of the current stripe, without buffered rows.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        self.columns.iter().map(TopLevelColumnEncoder::encoded).sum::<usize>() as u64
    }

    /// Returns the memory in use, in bytes: encoded columns and buffered rows.
    pub(crate) fn memory_used(&self) -> usize {
        self.columns.iter().map(TopLevelColumnEncoder::memory).sum::<usize>() + self.waiting_bytes
    }

    /// Returns the span of the write.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Returns the number of bytes that the sink holds.
    pub(crate) fn sink_memory(&self) -> usize {
        self.sink.memory()
    }

    /// Encodes the buffered rows, and ends the stripe if more than `to` bytes are still in use.
    pub(crate) async fn shrink(&mut self, to: usize) -> Result<()> {
        self.check_whole()?;
        self.is_broken = true;
        self.encode().await?;
        if self.memory_used() > to {
            self.end_stripe().await?;
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
        let rows_at_once = ENCODE_BATCH_BYTES
            .min(self.options.memory.as_usize() / 2)
            .min(self.options.stripe_size.as_usize());
        let rows_at_once = rows_at_once.min(self.options.encoded_at_once);
        let all_at_once = MAX_BUFFERED_BYTES.min(self.options.memory.as_usize() / 2);
        // The statistics of short row groups may be larger than their rows.
        let index_bytes = self.group_bytes * batch.num_rows() / self.options.row_index_stride.max(1);
        let all_bytes = weight(batch) + index_bytes;
        let rows_bytes = weight_of_rows(batch) + index_bytes;

        let part = |bytes: usize, count: usize| {
            (bytes as u128 * count as u128 / batch.num_rows().max(1) as u128) as usize
        };
        let fitting = |limit: usize, bytes: usize| {
            (limit as u128 * batch.num_rows() as u128 / bytes.max(1) as u128) as usize
        };
        let min_rows = fitting(MIN_ROWS_BYTES, rows_bytes).clamp(1, MIN_ROWS);
        let fitting = fitting(rows_at_once, rows_bytes).min(fitting(all_at_once, all_bytes));
        let mut start = 0;

        while start < batch.num_rows() {
            let count = fitting.max(min_rows).min(batch.num_rows() - start);
            self.waiting_bytes += part(all_bytes, count);
            self.waiting_rows += part(rows_bytes, count);
            self.waiting.push(batch.slice(start, count));
            self.rows_in_stripe += count as u64;
            self.rows += count as u64;
            start += count;

            if self.waiting_rows >= rows_at_once || self.waiting_bytes >= all_at_once {
                self.encode().await?;
                if self.is_large() {
                    self.end_stripe().await?;
                }
            }
        }

        Ok(())
    }

    /// Writes the rest and the footer, and publishes the file under its name.
    #[boxed]
    pub async fn finish(self) -> Result<OrcWritten> {
        let span = self.span.clone();
        let (written, sink) = self.end().await?;
        sink.finish().instrument(span).await?;
        Ok(written)
    }

    /// Writes the rest and the footer, and returns the sink that has all bytes.
    pub(crate) async fn end(self) -> Result<(OrcWritten, Box<dyn Sink>)> {
        let span = self.span.clone();
        self.end_file().instrument(span).await
    }

    async fn end_file(mut self) -> Result<(OrcWritten, Box<dyn Sink>)> {
        self.check_whole()?;
        self.end_stripe().await?;
        self.begin_file().await?;
        let body = self.sink.position();
        let stripes = self.footer.stripes();
        let Self { mut sink, name, options, rows, footer, compressors, schema, span, .. } = self;
        let kind = options.compression.kind();
        let chunk = options.chunk();
        let mut metadata = options.metadata;

        for (key, value) in schema.metadata().iter().filter(|(key, _)| *key != DATASET_KEY) {
            metadata.entry(key.clone()).or_insert_with(|| value.clone().into_bytes());
        }
        let footer = compressors.with(|compressor| {
            let compression = (kind, chunk, compressor);
            footer.bytes(body, rows, options.row_index_stride, &metadata, compression)
        });
        let footer = footer.map_err(|reason| Error::Unwritable { object: name, column: None, reason })?;
        sink.write(&footer).await?;
        let written = OrcWritten { rows, bytes: sink.position(), stripes };
        span.record("rows", written.rows).record("bytes", written.bytes);

        Ok((written, sink))
    }

    /// Returns whether the stripe should end here.
    fn is_large(&self) -> bool {
        let encoded: usize = self.columns.iter().map(TopLevelColumnEncoder::encoded).sum();
        let memory: usize = self.columns.iter().map(TopLevelColumnEncoder::memory).sum();
        encoded >= self.options.stripe_size.as_usize()
            || memory + self.waiting_bytes >= self.options.memory.as_usize()
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

    fn failed(&self, failed: ParallelError<OrcColumnError>) -> Error {
        match failed {
            ParallelError::Wrong(OrcColumnError { column, reason }) => {
                self.unwritable(Some(column.as_str()).filter(|column| !column.is_empty()), reason)
            }
            ParallelError::Panicked => self.unwritable(None, "the encoder gave up".to_owned()),
            ParallelError::Ended(reason) => Error::Ended { reason },
        }
    }

    async fn begin_file(&mut self) -> Result<()> {
        if self.sink.position() == 0 {
            self.sink.write(MAGIC).await?;
        }
        Ok(())
    }

    /// Encodes the buffered batches.
    async fn encode(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }

        let batches = std::mem::take(&mut self.waiting);
        (self.waiting_bytes, self.waiting_rows) = (0, 0);
        let columns = std::mem::take(&mut self.columns).into_iter().enumerate();
        let work = columns.map(|(at, column)| {
            let arrays: Vec<ArrayRef> = batches.iter().map(|batch| batch.column(at).clone()).collect();
            (column, arrays)
        });
        let encode = |(mut column, arrays): (TopLevelColumnEncoder, Vec<ArrayRef>)| {
            arrays.iter().try_for_each(|array| column.write(array)).map(|()| column)
        };
        let size = |(_, arrays): &(TopLevelColumnEncoder, Vec<ArrayRef>)| arrays.iter().map(weight_of).sum();
        let encoded = side_by_side(self.options.threads, work.collect(), size, encode).await;
        self.columns = encoded.map_err(|failed| self.failed(failed))?;

        Ok(())
    }

    async fn end_stripe(&mut self) -> Result<()> {
        self.encode().await?;
        let rows = std::mem::take(&mut self.rows_in_stripe);
        if rows == 0 {
            return Ok(());
        }

        let columns = std::mem::take(&mut self.columns);
        let end = |mut column: TopLevelColumnEncoder| column.end_stripe().map(|encoded| (column, encoded));
        let ended = side_by_side(self.options.threads, columns, TopLevelColumnEncoder::memory, end).await;
        let ended: Vec<(TopLevelColumnEncoder, Vec<EncodedColumn>)> =
            ended.map_err(|failed| self.failed(failed))?;
        let mut encoded = Vec::new();

        for (column, columns) in ended {
            self.columns.push(column);
            encoded.extend(columns);
        }

        self.begin_file().await?;
        let layout = StripeAssembler { stride: self.options.row_index_stride, chunk: self.options.chunk() };
        let offset = self.sink.position();
        let stripe = self.compressors.with(|compressor| layout.stripe(encoded, rows, offset, compressor));
        let stripe = stripe.map_err(|reason: String| self.unwritable(None, reason))?;

        for piece in &stripe.pieces {
            self.sink.write(piece).await?;
        }
        self.footer.push(stripe.information, &stripe.statistics);
        Ok(())
    }
}

impl fmt::Debug for OrcWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrcWriter")
            .field("name", &self.name)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
