//! Reads whole text files: comma-separated values and JSON lines.

use std::{
    io::{self, BufRead, Read},
    ops::Range,
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::concat,
    datatypes::{DataType, FieldRef, Schema},
    json::ReaderBuilder,
};
use bytes::{Buf, Bytes};
use stylobate_storage::{Error as StorageError, OpenObject, Reservation, Trace, run_blocking};
use tokio::runtime::Handle;

use crate::{
    Cache, CsvError, CsvReader, Error, Result, cache::DecodeReservation, parallel::guarded::guarded,
};

/// Format of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// Comma-separated values with a header.
    Csv,
    /// A JSON object in each line.
    JsonLines,
}

/// Rows of a parsed batch.
const BATCH_ROWS: usize = 8192;

/// Bytes per read if memory does not suffice for the whole text.
const PIECE: u64 = 4 << 20;

/// Reads the number of rows of a file and the columns of these names; `None` for a column that the file lacks.
///
/// The text and the parsed columns count as memory of a decode. If memory does not suffice for the whole text, it
/// is read in pieces while it is parsed, which takes more requests. The parsed columns are whole in both cases,
/// and caches shrink to make room for them.
pub(crate) async fn read(
    cache: &Cache,
    object: &OpenObject,
    kind: TextKind,
    fields: &[FieldRef],
) -> Result<(usize, Vec<Option<ArrayRef>>)> {
    let whole = cache.working().try_reserve(object.meta().size);
    let mut text = TextObjectReader::of(object.clone());
    match whole {
        Some(_) => text.read_all().await?,
        None => cache.chunks().count_streamed(),
    }

    let mut memory =
        TextParseMemory { cache: cache.clone(), decodes: whole.into_iter().collect(), held: Vec::new() };
    let fields = fields.to_vec();
    let name = object.name();
    let trace = Trace::current();
    let parse = move || {
        let parsed = parse_guarded(kind, &mut text, &fields, &mut memory);
        // A failed read takes precedence over the parser's error, which would be an early end of the text.
        match text.failed.take() {
            Some(failed) => Err(failed.into()),
            None => parsed.map_err(|reason| Error::corrupt(name, reason)),
        }
    };

    run_blocking(move || trace.enter(parse)).await?
}

/// Memory reserved for text while it is parsed.
#[derive(Debug)]
struct TextParseMemory {
    cache: Cache,
    decodes: Vec<DecodeReservation>,
    held: Vec<Reservation>,
}

impl TextParseMemory {
    /// Reserves memory for parsed rows and for the columns that they are concatenated into: both exist at the same
    /// time.
    fn add(&mut self, batch: &RecordBatch) {
        let bytes = (batch.get_array_memory_size() as u64).saturating_mul(2);
        match self.cache.working().try_reserve(bytes) {
            Some(decode) => self.decodes.push(decode),
            None => self.held.push(self.cache.hold(bytes)),
        }
    }
}

/// Reader of an object's text, on demand. Blocks, unless all of it was read before.
#[derive(Debug)]
struct TextObjectReader {
    object: OpenObject,
    runtime: Handle,
    /// Bytes that were read but not consumed.
    bytes: Bytes,
    /// Offset of the next piece.
    at: u64,
    /// Error of the read that failed.
    failed: Option<StorageError>,
}

impl TextObjectReader {
    fn of(object: OpenObject) -> Self {
        Self { object, runtime: Handle::current(), bytes: Bytes::new(), at: 0, failed: None }
    }

    async fn read_all(&mut self) -> Result<()> {
        let size = self.object.meta().size;
        self.bytes = piece(&self.object, 0..size).await?;
        self.at = size;
        Ok(())
    }
}

async fn piece(object: &OpenObject, range: Range<u64>) -> std::result::Result<Bytes, StorageError> {
    let read = object.read(std::slice::from_ref(&range)).await?;
    let bytes = read.into_iter().next().unwrap_or_default();
    if bytes.len() as u64 == range.end - range.start {
        Ok(bytes)
    } else {
        let path = object.name();
        let size = object.meta().size;
        Err(StorageError::Range { path, start: range.start, end: range.end, size })
    }
}

impl BufRead for TextObjectReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let size = self.object.meta().size;
        if self.bytes.is_empty() && self.at < size {
            let range = self.at..size.min(self.at + PIECE);
            self.at = range.end;
            match self.runtime.block_on(piece(&self.object, range)) {
                Ok(bytes) => self.bytes = bytes,
                Err(error) => {
                    // Nothing after the lost piece is read.
                    self.at = size;
                    let shown = io::Error::other(error.to_string());
                    self.failed = Some(error);
                    return Err(shown);
                }
            }
        }

        Ok(&self.bytes)
    }

    fn consume(&mut self, count: usize) {
        self.bytes.advance(count.min(self.bytes.len()));
    }
}

impl Read for TextObjectReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut bytes = self.fill_buf()?;
        let count = bytes.read(to)?;
        self.consume(count);
        Ok(count)
    }
}

/// Parses text. Returns an error if a parser of another crate panics.
fn parse_guarded(
    kind: TextKind,
    text: impl BufRead,
    fields: &[FieldRef],
    memory: &mut TextParseMemory,
) -> Result<(usize, Vec<Option<ArrayRef>>), String> {
    let parse = || match kind {
        TextKind::JsonLines => json(text, fields, memory),
        TextKind::Csv => csv(text, fields, memory),
    };
    guarded(parse)?
}

fn csv(
    text: impl Read,
    fields: &[FieldRef],
    memory: &mut TextParseMemory,
) -> Result<(usize, Vec<Option<ArrayRef>>), String> {
    let (there, batches) = csv_batches(text, fields, memory).map_err(|error| error.to_string())?;

    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let mut columns = vec![None; fields.len()];
    for (column, at) in there.into_iter().enumerate() {
        let data_type = fields.get(at).map_or(&DataType::Null, |field| field.data_type());
        if let Some(to) = columns.get_mut(at) {
            *to = Some(concat_column(&batches, column, data_type)?);
        }
    }

    Ok((rows, columns))
}

/// Parses the fields that the header names. Returns their indices, and batches with a column for each.
fn csv_batches(
    text: impl Read,
    fields: &[FieldRef],
    memory: &mut TextParseMemory,
) -> Result<(Vec<usize>, Vec<RecordBatch>), CsvError> {
    let mut reader = CsvReader::new(text, BATCH_ROWS)?;
    let there: Vec<usize> = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| reader.header().iter().any(|name| name == field.name()))
        .map(|(at, _)| at)
        .collect();

    let schema: Vec<FieldRef> = there.iter().filter_map(|at| fields.get(*at)).cloned().collect();
    reader.select(&Arc::new(Schema::new(schema)))?;

    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        memory.add(&batch);
        batches.push(batch);
    }

    Ok((there, batches))
}

/// Parses JSON lines. A key that occurs in no line becomes a column of nulls, since lines may omit nulls.
fn json(
    text: impl BufRead,
    fields: &[FieldRef],
    memory: &mut TextParseMemory,
) -> Result<(usize, Vec<Option<ArrayRef>>), String> {
    let nullable = fields.iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    let schema = Arc::new(Schema::new(nullable.collect::<Vec<FieldRef>>()));
    let reader = ReaderBuilder::new(schema).with_batch_size(BATCH_ROWS).build(text);

    let mut batches = Vec::new();
    for batch in reader.map_err(|error| error.to_string())? {
        let batch = batch.map_err(|error| error.to_string())?;
        memory.add(&batch);
        batches.push(batch);
    }

    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let columns = fields.iter().enumerate();
    let columns = columns.map(|(at, field)| concat_column(&batches, at, field.data_type()).map(Some));
    Ok((rows, columns.collect::<Result<_, _>>()?))
}

/// Concatenates one column of the batches; without batches, returns an empty array of the type.
fn concat_column(batches: &[RecordBatch], column: usize, data_type: &DataType) -> Result<ArrayRef, String> {
    let pieces: Vec<&dyn Array> =
        batches.iter().filter_map(|batch| batch.columns().get(column)).map(AsRef::as_ref).collect();
    if pieces.is_empty() {
        Ok(arrow::array::new_empty_array(data_type))
    } else {
        concat(&pieces).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use arrow::{
        array::AsArray,
        datatypes::{Field, Int64Type},
    };
    use object_store::path::Path;
    use stylobate_storage::{ByteSize, CacheOptions, Holder, PageCache, ReadThrough};

    use super::*;

    const ROWS: i64 = 400_000;

    /// Returns some MiB of rows: more than a piece.
    fn text(kind: TextKind) -> String {
        let mut text = String::new();
        if kind == TextKind::Csv {
            text.push_str("id,name\n");
        }
        for row in 0..ROWS {
            let name = format!("name {row} of \u{fc}");
            let written = match kind {
                TextKind::Csv => writeln!(text, "{row},\"{name}\""),
                TextKind::JsonLines => writeln!(text, "{{\"id\":{row},\"name\":\"{name}\"}}"),
            };
            written.unwrap();
        }

        assert!(text.len() as u64 > 2 * PIECE);
        text
    }

    fn fields() -> Vec<FieldRef> {
        let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
        vec![field("id", DataType::Int64), field("none", DataType::Utf8), field("name", DataType::Utf8)]
    }

    async fn opened(cache: &Cache, folder: &tempfile::TempDir) -> OpenObject {
        let store: ReadThrough = cache.store(folder.path().to_str().unwrap(), &[]).unwrap();
        store.open_object(&Path::from("text")).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_text_is_the_same_whether_there_is_memory_for_all_of_it_or_not() {
        for kind in [TextKind::Csv, TextKind::JsonLines] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("text"), text(kind)).unwrap();
            let large = Cache::open(CacheOptions::new(ByteSize::mib(256))).await.unwrap();
            let small = Cache::open(CacheOptions::new(ByteSize::mib(8))).await.unwrap();
            let pages = PageCache::open(CacheOptions::new(ByteSize::mib(8))).await.unwrap();

            for (cache, streamed) in [(large, 0), (small, 1), (Cache::passing(pages), 1)] {
                let object = opened(&cache, &folder).await;
                let (rows, columns) = read(&cache, &object, kind, &fields()).await.unwrap();
                assert_eq!(rows as i64, ROWS);
                let [Some(ids), none, Some(names)] = columns.as_slice() else { panic!("{columns:?}") };
                let ids = ids.as_primitive::<Int64Type>().values();
                assert!(ids.iter().copied().eq(0..ROWS));
                let names = names.as_string::<i32>();
                assert!((0..ROWS).all(|row| names.value(row as usize) == format!("name {row} of \u{fc}")));
                assert_eq!(none.is_some(), kind == TextKind::JsonLines);
                assert_eq!(cache.stats().streamed_row_groups, streamed);

                // All reserved memory is free again.
                assert_eq!(cache.stats().working_bytes, 0);
                assert_eq!(cache.pages().budget().held_by(Holder::Other), 0);
            }
        }
    }

    #[tokio::test]
    async fn what_is_parsed_counts_in_the_budget_whether_it_is_free_or_not() {
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(4))).await.unwrap();
        let column: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1_i64; 1 << 16]));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let before = cache.pages().budget().used();

        let mut memory = TextParseMemory { cache: cache.clone(), decodes: Vec::new(), held: Vec::new() };
        for _ in 0..8 {
            memory.add(&batch);
        }
        let bytes = 8 * 2 * batch.get_array_memory_size() as u64;
        assert!(bytes > 4 << 20);
        assert_eq!(cache.pages().budget().used(), before + bytes);
        drop(memory);
        assert_eq!(cache.pages().budget().used(), before);
    }

    /// A reader of bytes that panics.
    struct PanickingReader;

    impl Read for PanickingReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("no such code")
        }
    }

    impl BufRead for PanickingReader {
        fn fill_buf(&mut self) -> io::Result<&[u8]> {
            panic!("no such code")
        }

        fn consume(&mut self, _: usize) {}
    }

    #[tokio::test]
    async fn a_panic_of_a_parser_is_an_error() {
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(4))).await.unwrap();
        for kind in [TextKind::Csv, TextKind::JsonLines] {
            let mut memory = TextParseMemory { cache: cache.clone(), decodes: Vec::new(), held: Vec::new() };
            let error = parse_guarded(kind, PanickingReader, &fields(), &mut memory).unwrap_err();
            assert!(error.contains("no such code"), "{error}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_piece_that_cannot_be_read_is_an_error_of_the_store_and_not_the_end_of_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, text(TextKind::Csv)).unwrap();
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(4))).await.unwrap();
        let object = opened(&cache, &folder).await;
        // Truncated at a line end: the rest is a well-formed text.
        let all = std::fs::read(&path).unwrap();
        let end = all.iter().take(PIECE as usize).rposition(|byte| *byte == b'\n').unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(end as u64 + 1).unwrap();
        let error = read(&cache, &object, TextKind::Csv, &fields()).await.unwrap_err();
        assert!(matches!(error, Error::Storage(_)), "{error}");
    }
}
