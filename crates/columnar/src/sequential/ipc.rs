//! Arrow IPC: files, which are read from their footer, and streams, which are read front to back.

pub(super) mod check;
mod compressed;
mod decoder;
mod file;
mod input;
mod merged_schema;
pub(super) mod stream;
#[cfg(test)]
mod tests;

use std::{
    io::{self, BufRead, BufReader},
    ops::ControlFlow,
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};
use stylobate_storage::OpenObject;
use tokio::runtime::Handle;

use self::{
    check::probe_allocation, file::IpcFileReader, merged_schema::MergedIpcSchema, stream::IpcStreamReader,
};
use super::{
    bytes::{GZIP, ObjectFile, ObjectReader, ZSTD, decompressed, read_error},
    format::{ARROW_FILE, ARROW_STREAM, FEATHER_V1},
    guard::guard_object,
    reading::{BatchCallback, FileBatchCallback, SequentialReadOptions},
    table::ColumnRequest,
};
use crate::{Error, Result, kernels::exact_cast::common_cast};

const BUFFER: usize = 256 << 10;
/// Maximum bytes of the schema of a stream. Text, read as a length, exceeds it.
const MAX_SCHEMA: i32 = 256 << 20;

/// Files whose columns are matched by name.
pub(super) struct ArrowFiles {
    files: Vec<OpenObject>,
    merged: MergedIpcSchema,
}

type IpcBatchIter = Box<dyn Iterator<Item = Result<RecordBatch>>>;

impl ArrowFiles {
    /// Reads the schemas of all files and merges them.
    pub(super) fn open(
        files: Vec<OpenObject>,
        request: &ColumnRequest<'_>,
        runtime: &Handle,
    ) -> Result<Self> {
        let mut schemas = Vec::with_capacity(files.len());
        for object in &files {
            let (schema, _) = guard_object(object, || read(object, None, runtime))?;
            schemas.push((object.name(), schema));
        }

        let merged = MergedIpcSchema::new(&schemas)?.with_types(request.options);
        let needed = request.needed(merged.schema().fields())?;
        merged.check(needed.as_deref())?;
        Ok(Self { files, merged })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.merged.schema()
    }

    /// Reads columns of all rows.
    pub(super) fn read(
        &self,
        reading: &SequentialReadOptions<'_>,
        emit: FileBatchCallback<'_>,
    ) -> Result<()> {
        let fields = reading.columns.iter().filter_map(|at| self.schema().fields().get(*at).cloned());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));

        for (at, (object, positions)) in self.files.iter().zip(self.merged.positions()).enumerate() {
            if reading.skipped.contains(&at) {
                continue;
            }
            let read = || read_file(object, positions, &schema, reading, &mut |batch| emit(at, batch));
            if guard_object(object, read)?.is_break() {
                return Ok(());
            }
        }

        Ok(())
    }
}

/// Reads columns of one file; `positions` has the position in it of each merged column. Breaks once no more rows are
/// wanted.
fn read_file(
    object: &OpenObject,
    positions: &[Option<usize>],
    schema: &SchemaRef,
    reading: &SequentialReadOptions<'_>,
    emit: BatchCallback<'_>,
) -> Result<ControlFlow<()>> {
    let own: Vec<Option<usize>> =
        reading.columns.iter().map(|at| positions.get(*at).copied().flatten()).collect();
    let projection: Vec<usize> = own.iter().flatten().copied().collect();
    let (_, batches) = read(object, Some(&projection), reading.runtime)?;

    for batch in batches {
        let batch = as_merged(object, &batch?, &own, schema)?;
        if emit(batch)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }

    Ok(ControlFlow::Continue(()))
}

/// Casts the columns of a file to the types of the table. Those that the file lacks are null.
fn as_merged(
    object: &OpenObject,
    batch: &RecordBatch,
    own: &[Option<usize>],
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let mut read = batch.columns().iter();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(own.len());

    for (field, position) in schema.fields().iter().zip(own) {
        let column = match position {
            None => nulls(object, field, rows)?,
            Some(_) => {
                let array = read.next().ok_or_else(|| corrupt(object, "a batch lacks a column"))?;
                let cast = common_cast(array, field.data_type());
                cast.map_err(|error| Error::misfit(object.name(), field.name(), &error))?
            }
        };

        columns.push(column);
    }

    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|error| corrupt(object, &error.to_string()))
}

/// Returns a column that the file lacks. Fails if another file gave it a type whose nulls do not fit into memory.
fn nulls(object: &OpenObject, field: &Field, rows: usize) -> Result<ArrayRef> {
    let bytes = null_bytes(field.data_type()).saturating_mul(rows as u64);
    probe_allocation(bytes).map_err(|error| Error::corrupt(object.name(), error))?;
    Ok(new_null_array(field.data_type(), rows))
}

/// Returns the maximum number of bytes that a null takes.
fn null_bytes(data_type: &DataType) -> u64 {
    /// Bytes of a view, the largest value that is not of a fixed width.
    const VIEW: usize = 16;

    let of_fields = |sum: u64, field: &FieldRef| sum.saturating_add(null_bytes(field.data_type()));
    match data_type {
        DataType::FixedSizeBinary(len) => u64::from(len.unsigned_abs()).saturating_add(1),
        DataType::FixedSizeList(item, len) => {
            null_bytes(item.data_type()).saturating_mul(u64::from(len.unsigned_abs())).saturating_add(1)
        }
        DataType::Struct(fields) => fields.iter().fold(1, of_fields),
        // A type and an offset.
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field).fold(5, of_fields),
        other => other.primitive_width().unwrap_or(VIEW) as u64 + 1,
    }
}

/// Opens a file. Returns its schema and its batches, with some of its columns or all.
fn read(
    object: &OpenObject,
    columns: Option<&[usize]>,
    runtime: &Handle,
) -> Result<(SchemaRef, IpcBatchIter)> {
    let mut reader = ObjectReader::new(object.clone(), runtime.clone());
    let first = reader.peek(ARROW_FILE.len()).map_err(|error| read_error(object, &error))?;
    if first.starts_with(FEATHER_V1) {
        let reason = "it is a Feather file of version 1: write it again as version 2".to_owned();
        return Err(Error::Unsupported { object: object.name(), column: None, reason });
    }

    let columns = columns.map(<[usize]>::to_vec);
    if first.starts_with(ARROW_FILE) {
        // Each batch is read with one request.
        let file = ObjectFile::new(object.clone(), runtime.clone());
        let reader = IpcFileReader::open(file, object.meta().size);
        let mut reader = reader.map_err(|error| read_error(object, &error))?;
        if let Some(columns) = columns {
            reader = reader.with_projection(columns);
        }

        let schema = reader.schema().clone();
        let object = object.clone();
        let batches = reader.map(move |batch| batch.map_err(|error| read_error(&object, &error)));
        return Ok((schema, Box::new(batches)));
    }

    let is_compressed = first.starts_with(GZIP) || first.starts_with(ZSTD);
    let bytes = decompressed(reader).map_err(|error| read_error(object, &error))?;
    let mut bytes = BufReader::with_capacity(BUFFER, bytes);
    let first = bytes.fill_buf().map_err(|error| read_error(object, &error))?;
    check_stream(object, first)?;
    let reader = IpcStreamReader::new(bytes);
    let mut reader = reader.map_err(|error| stream_error(object, is_compressed, &error))?;
    if let Some(columns) = columns {
        reader = reader.with_projection(columns);
    }

    let schema = reader.schema().clone();
    let object = object.clone();
    let batches =
        reader.map(move |batch| batch.map_err(|error| stream_error(&object, is_compressed, &error)));
    Ok((schema, Box::new(batches)))
}

/// Fails if a stream does not begin with the length of a message, as text does not.
fn check_stream(object: &OpenObject, first: &[u8]) -> Result<()> {
    if first.starts_with(ARROW_FILE) {
        let reason = "it is a compressed Arrow IPC file, and only streams can be: decompress it".to_owned();
        return Err(Error::Unsupported { object: object.name(), column: None, reason });
    }

    // Streams of early versions begin with the length itself.
    let after_marker = first.strip_prefix(ARROW_STREAM).unwrap_or(first);
    let len = after_marker.first_chunk::<4>().map(|bytes| i32::from_le_bytes(*bytes));
    match len {
        Some(len) if (0..=MAX_SCHEMA).contains(&len) => Ok(()),
        _ => Err(corrupt(object, "it begins neither as a file nor as a stream does")),
    }
}

/// Returns the error of a read of a stream. An offset in decompressed bytes is not an offset in the object.
fn stream_error(object: &OpenObject, is_compressed: bool, error: &io::Error) -> Error {
    match read_error(object, error) {
        Error::Corrupt { object, row_group, column, reason, .. } if is_compressed => {
            Error::Corrupt { object, row_group, column, offset: None, reason }
        }
        error => error,
    }
}

fn corrupt(object: &OpenObject, reason: &str) -> Error {
    Error::corrupt(object.name(), format!("it is no Arrow IPC file or stream: {reason}"))
}
