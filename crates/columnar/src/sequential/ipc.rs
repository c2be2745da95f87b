//! Arrow IPC: files, which are read from their footer, and streams, which are read front to back.

use std::{
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    ops::ControlFlow,
    sync::Arc,
};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Field, FieldRef, Schema, SchemaRef},
    error::ArrowError,
    ipc::{
        reader::{FileReaderBuilder, StreamReader, read_footer_length},
        root_as_footer,
    },
};
use stylobate_storage::OpenObject;
use tokio::runtime::Handle;

use super::{
    bytes::{ObjectFile, ObjectReader, decompressed, read_error},
    format::{ARROW_FILE, ARROW_STREAM},
    reading::{BatchCallback, SequentialReadOptions},
};
use crate::{Error, Result, file::schema::position};

const BUFFER: usize = 256 << 10;
/// Bytes of the schema of a stream at most. Text, read as a length, is more.
const MAX_SCHEMA: i32 = 256 << 20;
/// Bytes after the footer of a file: its length, and the magic number.
const TRAILER: usize = 10;
/// What files of the first version of Feather begin with.
const FEATHER_V1: &[u8] = b"FEA1";

/// Files with the same columns, by name.
pub(super) struct ArrowFiles {
    files: Vec<OpenObject>,
    schema: SchemaRef,
}

type IpcBatchIter = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

impl ArrowFiles {
    /// Reads the schema of the first file.
    pub(super) fn open(files: Vec<OpenObject>, runtime: &Handle) -> Result<Self> {
        let Some(first) = files.first() else {
            return Ok(Self { files, schema: Arc::new(Schema::empty()) });
        };
        let (mut schema, _) = read(first, None, runtime)?;
        if files.len() > 1 {
            // Columns of the others may have nulls.
            let nullable = |field: &FieldRef| Field::clone(field).with_nullable(true);
            let fields = schema.fields().iter().map(nullable).collect::<Vec<_>>();
            schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        }
        Ok(Self { files, schema })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn read(&self, reading: &SequentialReadOptions<'_>, emit: BatchCallback<'_>) -> Result<()> {
        let wanted: Vec<FieldRef> =
            reading.columns.iter().filter_map(|at| self.schema.fields().get(*at).cloned()).collect();
        let schema = Arc::new(Schema::new(wanted));
        for object in &self.files {
            let (own, _) = read(object, None, reading.runtime)?;
            let places = places(object, &own, &schema, reading.columns)?;
            let (_, batches) = read(object, Some(&places), reading.runtime)?;
            for batch in batches {
                let batch = batch.map_err(|error| failed(object, &error))?;
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let batch =
                    RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options)
                        .map_err(|error| failed(object, &error))?;
                if emit(batch)? == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Where a file has the columns, which are at `near` in the first file.
fn places(object: &OpenObject, own: &Schema, wanted: &Schema, near: &[usize]) -> Result<Vec<usize>> {
    let place = |(field, near): (&FieldRef, &usize)| {
        let wrong = |reason| Error::Schema { object: object.name(), column: field.name().clone(), reason };
        let at = position(own, field.name(), *near).ok_or_else(|| {
            wrong("it is in the first file, and not in this one: scan them apart".to_owned())
        })?;
        let (here, there) = (own.field(at).data_type(), field.data_type());
        match here == there {
            true => Ok(at),
            false => Err(wrong(format!("it is {here} here and {there} in the first file: scan them apart"))),
        }
    };
    wanted.fields().iter().zip(near).map(place).collect()
}

/// The schema of a file and its batches, with some of its columns or all.
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
        // What it reads of a batch is the whole batch.
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

/// Fails if a stream does not begin with the length of a message: a reader would allocate as many bytes.
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

/// Fails if the footer names bytes that the file does not have: a reader would allocate as many.
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
    let reason = format!("it is no Arrow IPC file or stream: {reason}");
    Error::Corrupt { object: object.name(), row_group: None, column: None, offset: None, reason }
}

fn failed(object: &OpenObject, error: &ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) if error.get_ref().is_some() => read_error(object, error),
        error => Error::Corrupt {
            object: object.name(),
            row_group: None,
            column: None,
            offset: None,
            reason: format!("it is no Arrow IPC file or stream: {error}"),
        },
    }
}
