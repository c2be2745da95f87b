//! Arrow IPC: files, which are read from their footer, and streams, which are read front to back.

mod merged_schema;

use std::{
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    ops::ControlFlow,
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array},
    datatypes::{Field, Schema, SchemaRef},
    error::ArrowError,
    ipc::{
        reader::{FileReaderBuilder, StreamReader, read_footer_length},
        root_as_footer,
    },
};
use stylobate_storage::OpenObject;
use tokio::runtime::Handle;

use self::merged_schema::MergedIpcSchema;
use super::{
    bytes::{ObjectFile, ObjectReader, decompressed, read_error},
    format::{ARROW_FILE, ARROW_STREAM, FEATHER_V1},
    guard::guard_object,
    reading::{BatchCallback, SequentialReadOptions},
    selection::ColumnNames,
};
use crate::{Error, Predicate, Result, kernels::exact_cast::common_cast};

const BUFFER: usize = 256 << 10;
/// Maximum bytes of the schema of a stream. Text, read as a length, exceeds it.
const MAX_SCHEMA: i32 = 256 << 20;
/// Bytes after the footer of a file: its length and the magic number.
const TRAILER: usize = 10;

/// Files whose columns are matched by name.
pub(super) struct ArrowFiles {
    files: Vec<OpenObject>,
    merged: MergedIpcSchema,
}

type IpcBatchIter = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

impl ArrowFiles {
    /// Reads the schemas of all files and merges them.
    pub(super) fn open(
        files: Vec<OpenObject>,
        columns: Option<&[String]>,
        filter: Option<&Predicate>,
        runtime: &Handle,
    ) -> Result<Self> {
        let mut schemas = Vec::with_capacity(files.len());
        for object in &files {
            let (schema, _) = guard_object(object, || read(object, None, runtime))?;
            schemas.push((object.name(), schema));
        }

        let merged = MergedIpcSchema::new(&schemas)?;

        let names: Vec<String> = merged.schema().fields().iter().map(|field| field.name().clone()).collect();
        let needed = ColumnNames(&names).needed(columns, filter)?;
        merged.check(needed.as_deref())?;
        Ok(Self { files, merged })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.merged.schema()
    }

    /// Reads columns of all rows.
    pub(super) fn read(&self, reading: &SequentialReadOptions<'_>, emit: BatchCallback<'_>) -> Result<()> {
        let fields = reading.columns.iter().filter_map(|at| self.schema().fields().get(*at).cloned());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));

        for (object, places) in self.files.iter().zip(self.merged.positions()) {
            let read = || read_file(object, places, &schema, reading, &mut *emit);
            if guard_object(object, read)?.is_break() {
                return Ok(());
            }
        }

        Ok(())
    }
}

/// Reads columns of the rows of one file; `places` are their positions in it. Breaks once no more rows are wanted.
fn read_file(
    object: &OpenObject,
    places: &[Option<usize>],
    schema: &SchemaRef,
    reading: &SequentialReadOptions<'_>,
    emit: BatchCallback<'_>,
) -> Result<ControlFlow<()>> {
    let own: Vec<Option<usize>> =
        reading.columns.iter().map(|at| places.get(*at).copied().flatten()).collect();
    let projection: Vec<usize> = own.iter().flatten().copied().collect();
    let (_, batches) = read(object, Some(&projection), reading.runtime)?;

    for batch in batches {
        let batch = batch.map_err(|error| failed(object, &error))?;
        let batch = as_merged(object, &batch, &own, schema)?;
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

    for (field, place) in schema.fields().iter().zip(own) {
        let column = match place {
            None => new_null_array(field.data_type(), rows),
            Some(_) => {
                let array = read.next().ok_or_else(|| corrupt(object, "a batch lacks a column"))?;
                let cast = common_cast(array, field.data_type());
                cast.map_err(|error| no_common_type(object, field, &error))?
            }
        };

        columns.push(column);
    }

    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|error| failed(object, &error))
}

/// Returns the error of a value that does not fit the type of the column in all files.
fn no_common_type(object: &OpenObject, field: &Field, error: &ArrowError) -> Error {
    let reason = match error {
        ArrowError::CastError(reason) => reason.clone(),
        other => other.to_string(),
    };
    Error::Schema { object: object.name(), column: field.name().clone(), reason }
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
        let mut builder = FileReaderBuilder::new();
        if let Some(columns) = columns {
            builder = builder.with_projection(columns);
        }

        check_blocks(object, runtime)?;
        // Each batch is read with one request.
        let reader = builder.build(ObjectFile::new(object.clone(), runtime.clone()));
        let reader = reader.map_err(|error| failed(object, &error))?;
        return Ok((reader.schema(), Box::new(reader)));
    }

    let bytes = decompressed(reader).map_err(|error| read_error(object, &error))?;
    let mut bytes = BufReader::with_capacity(BUFFER, bytes);
    let first = bytes.fill_buf().map_err(|error| read_error(object, &error))?;
    check_stream(object, first)?;
    let reader = StreamReader::try_new(bytes, columns);
    let reader = reader.map_err(|error| failed(object, &error))?;

    Ok((reader.schema(), Box::new(reader)))
}

/// Fails if a stream does not begin with the length of a message: the reader would allocate that many bytes.
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

/// Fails if the footer refers to bytes beyond the end of the file: the reader would allocate that many.
fn check_blocks(object: &OpenObject, runtime: &Handle) -> Result<()> {
    let size = object.meta().size;
    let wrong = |error: ArrowError| failed(object, &error);
    let mut file = ObjectFile::new(object.clone(), runtime.clone());
    let mut read_before = |end: u64, len: u64| -> Result<Vec<u8>> {
        let start = end.checked_sub(len).ok_or_else(|| corrupt(object, "it is too short"))?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut bytes));
        read.map_err(|error| read_error(object, &error))?;
        Ok(bytes)
    };

    let last = read_before(size, TRAILER as u64)?;
    let last = <[u8; TRAILER]>::try_from(last).map_err(|_| corrupt(object, "it is too short"))?;
    let footer_len = read_footer_length(last).map_err(wrong)? as u64;
    let footer = read_before(size - TRAILER as u64, footer_len)?;
    let footer = root_as_footer(&footer).map_err(|error| corrupt(object, &error.to_string()))?;

    let blocks = footer.recordBatches().into_iter().chain(footer.dictionaries()).flatten();
    for block in blocks {
        let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
        let parts = parts.map(|part| u64::try_from(part).ok());
        let end = parts.into_iter().try_fold(0_u64, |end, part| end.checked_add(part?));
        if end.is_none_or(|end| end > size) {
            return Err(corrupt(object, "a batch lies beyond the end of the file"));
        }
    }

    Ok(())
}

fn corrupt(object: &OpenObject, reason: &str) -> Error {
    Error::corrupt(object.name(), format!("it is no Arrow IPC file or stream: {reason}"))
}

fn failed(object: &OpenObject, error: &ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) if error.get_ref().is_some() => read_error(object, error),
        error => corrupt(object, &error.to_string()),
    }
}
