//! Any bytes as a CSV file, by the reader of columns of known types and by the scan that infers them: what was read is
//! read as the same when it was written. The first byte chooses the options.
#![no_main]

use std::{
    collections::HashSet,
    error::Error,
    sync::{Arc, OnceLock},
};

use arrow::{
    array::RecordBatch,
    compute::concat_batches,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use futures::TryStreamExt;
use libfuzzer_sys::fuzz_target;
use object_store::{ObjectStoreExt, path::Path};
use stylobate_columnar::{CsvEncoder, CsvHeader, CsvOptions, CsvReader, SequentialFormat, SequentialRequest};
use stylobate_fuzz::{Bench, check};

/// A small file may be a large one that is compressed.
const MAX_ROWS: u64 = 10_000;

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(Bench::new)
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, text)) = data.split_first() else { return };
    let delimiter = [b',', b';', b'\t', b'|'][usize::from(flags & 3)];
    by_known_types(text, delimiter);
    let mut options = CsvOptions::default().with_delimiter(delimiter);
    if flags & 4 != 0 {
        options = options.with_quote(None);
    } else if flags & 8 != 0 {
        options = options.with_escape(Some(b'\\'));
    }
    if flags & 16 != 0 {
        options = options.with_header(CsvHeader::Absent);
    }
    if flags & 32 != 0 {
        options = options.with_null_values(["NA"]);
    }
    let batch_rows = if flags & 64 != 0 { 3 } else { 8192 };
    bench().runtime.block_on(by_scan(text, options, batch_rows));
});

fn by_known_types(text: &[u8], delimiter: u8) {
    let Ok(reader) = CsvReader::with_delimiter(text, delimiter, 1) else { return };
    let mut names = HashSet::new();
    let names = reader.header().iter().filter(|name| names.insert(name.as_str()));
    let fields: Vec<Field> = names.map(|name| Field::new(name, DataType::Utf8, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let Ok(rows) = read(text, delimiter, &schema) else { return };
    let again = read(&written(&schema, [&rows]).expect("it is text"), b',', &schema);
    assert_eq!(again.expect("it was written"), rows);
}

fn read(text: &[u8], delimiter: u8, schema: &SchemaRef) -> Result<RecordBatch, Box<dyn Error>> {
    let mut reader = CsvReader::with_delimiter(text, delimiter, 7)?;
    reader.select(schema)?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        batches.push(batch);
    }
    Ok(concat_batches(schema, &batches)?)
}

/// The rows as CSV; `None` if a value has no text.
fn written<'a>(schema: &SchemaRef, batches: impl IntoIterator<Item = &'a RecordBatch>) -> Option<Vec<u8>> {
    let mut encoder = CsvEncoder::new(Vec::new(), schema).expect("memory takes it");
    for batch in batches {
        encoder.write(batch).ok()?;
    }
    Some(encoder.into_inner())
}

async fn by_scan(text: &[u8], options: CsvOptions, batch_rows: usize) {
    let Some((schema, rows)) = scanned(text, options, batch_rows).await else { return };
    let Some(text) = written(&schema, [&rows]) else { return };
    let types = schema.fields().iter();
    let options = types.fold(CsvOptions::default(), |options, field| {
        options.with_type(field.name(), field.data_type().clone())
    });
    let (_, again) = scanned(&text, options, batch_rows).await.expect("it was written");
    assert_eq!(again, rows);
}

async fn scanned(text: &[u8], options: CsvOptions, batch_rows: usize) -> Option<(SchemaRef, RecordBatch)> {
    let bench = bench();
    let path = Path::from("file.csv");
    bench.memory.put(&path, text.to_vec().into()).await.unwrap();
    let request = SequentialRequest::over([bench.source("file.csv")], SequentialFormat::Csv(options));
    let scan = check(request.with_batch_rows(batch_rows).with_limit(MAX_ROWS).plan(&bench.cache).await)?;
    let batches: Vec<RecordBatch> = check(scan.stream().try_collect().await)?;
    let rows = concat_batches(scan.schema(), &batches).expect("they have one schema");
    Some((scan.schema().clone(), rows))
}
