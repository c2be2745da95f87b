//! Compares the CSV reader and a CSV scan with arrow-csv, on one file and with the same types.

use std::{fs::File, path::PathBuf, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
        StringArray,
    },
    compute::concat_batches,
    csv::ReaderBuilder,
    datatypes::SchemaRef,
};
use divan::{Bencher, counter::BytesCount};
use futures::TryStreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::{Cache, CsvEncoder, CsvOptions, CsvReader, SequentialFormat, SequentialRequest};
use tempfile::TempDir;

use crate::{RUNTIME, cache, long_ago, sample_bytes::prose};

const ROWS: usize = 100_000;
const BATCH_ROWS: usize = 8192;
/// Bytes of the text of a row.
const TEXT: usize = 40;

/// File of six columns without nulls, in a folder that is removed with it.
struct CsvSample {
    path: PathBuf,
    bytes: u64,
    batch: RecordBatch,
    _folder: TempDir,
}

impl CsvSample {
    fn new() -> Self {
        let batch = rows();
        let mut encoder = CsvEncoder::new(Vec::new(), &batch.schema()).unwrap();
        encoder.write(&batch).unwrap();
        let text = encoder.into_inner();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.csv");
        std::fs::write(&path, &text).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(long_ago()).unwrap();
        Self { path, bytes: text.len() as u64, batch, _folder: folder }
    }

    fn schema(&self) -> SchemaRef {
        self.batch.schema()
    }

    fn file(&self) -> File {
        File::open(&self.path).unwrap()
    }

    /// Measures a way to read the file, after checking that it returns the rows that were written.
    fn bench(&self, bencher: Bencher, read: impl Fn() -> Vec<RecordBatch>) {
        let read_rows = concat_batches(&self.schema(), &read()).unwrap();
        assert!(read_rows == self.batch, "other rows");

        bencher.counter(BytesCount::new(self.bytes)).bench_local(|| read().len());
    }
}

/// Returns rows of six types. Every eighth text has a comma and quotes, so that it is quoted.
fn rows() -> RecordBatch {
    let mut random = StdRng::seed_from_u64(19);
    let numbers: Vec<i64> = (0..ROWS).map(|_| random.random_range(0..1_000_000_000)).collect();
    let prices: Vec<i128> = numbers.iter().map(|number| i128::from(number / 100)).collect();
    let ratios: Vec<f64> = numbers.iter().map(|number| *number as f64 / 1024.0).collect();
    let days: Vec<i32> = numbers.iter().map(|number| (number % 20_000) as i32).collect();
    let flags: Vec<bool> = numbers.iter().map(|number| number % 3 == 0).collect();

    let prose = prose(ROWS * TEXT);
    let lines = prose.as_bytes().chunks_exact(TEXT).map(|line| str::from_utf8(line).unwrap());
    let texts = lines.enumerate().map(|(row, line)| match row % 8 {
        0 => format!("{line}, \"{line}\""),
        _ => line.to_owned(),
    });

    let prices = Decimal128Array::from(prices).with_precision_and_scale(15, 2).unwrap();
    let columns: [(&str, ArrayRef); 6] = [
        ("number", Arc::new(Int64Array::from(numbers))),
        ("price", Arc::new(prices)),
        ("ratio", Arc::new(Float64Array::from(ratios))),
        ("day", Arc::new(Date32Array::from(days))),
        ("flag", Arc::new(BooleanArray::from(flags))),
        ("text", Arc::new(StringArray::from_iter_values(texts))),
    ];
    let columns = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// `CsvReader`, which verifies generated data.
#[divan::bench]
fn ours(bencher: Bencher) {
    let sample = CsvSample::new();
    sample.bench(bencher, || {
        let mut reader = CsvReader::new(sample.file(), BATCH_ROWS).unwrap();
        reader.select(&sample.schema()).unwrap();
        std::iter::from_fn(|| reader.next_batch().unwrap()).collect()
    });
}

/// A scan with the types of all columns given.
#[divan::bench]
fn ours_scan(bencher: Bencher) {
    let sample = CsvSample::new();
    let cache = cache();
    sample.bench(bencher, || RUNTIME.block_on(scan(&sample, &cache)));
}

async fn scan(sample: &CsvSample, cache: &Cache) -> Vec<RecordBatch> {
    let schema = sample.schema();
    let options = schema.fields().iter().fold(CsvOptions::default(), |options, field| {
        options.with_type(field.name(), field.data_type().clone())
    });
    let path = sample.path.to_str().unwrap();
    let request = SequentialRequest::over([path], SequentialFormat::Csv(options));
    request.plan(cache).await.unwrap().stream().try_collect().await.unwrap()
}

#[divan::bench]
fn arrow_csv(bencher: Bencher) {
    let sample = CsvSample::new();
    sample.bench(bencher, || {
        let reader = ReaderBuilder::new(sample.schema()).with_header(true).with_batch_size(BATCH_ROWS);
        reader.build(sample.file()).unwrap().collect::<Result<_, _>>().unwrap()
    });
}
