//! Damaged Arrow IPC files and streams are errors.
//!
//! arrow's readers allocate what a length says before they check it: a single changed byte made them ask for petabytes,
//! which ends the process. A regression does the same to this test.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod support;

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
        FixedSizeListArray, Int64Array, LargeStringArray, ListArray, NullArray, RecordBatch, StringArray,
        StringViewArray, StructArray, TimestampMicrosecondArray,
    },
    datatypes::{Field, Int8Type, Int32Type},
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions, StreamWriter},
    },
};
use futures::TryStreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::{Cache, Error, Result, SequentialFormat, SequentialRequest};
use support::{Folder, cache};

/// Rows of a sample.
const ROWS: i64 = 40;
/// Changes of each sample.
const CHANGES: usize = 150;

type Columns = Vec<(&'static str, ArrayRef)>;

fn flat() -> Columns {
    let numbers: Int64Array = (0..ROWS).map(|n| (n % 5 != 0).then_some(n * n)).collect();
    let texts: StringArray = (0..ROWS).map(|n| (n % 7 != 0).then(|| "text".repeat(n as usize % 3))).collect();
    let large: LargeStringArray = (0..ROWS).map(|n| Some(n.to_string())).collect();
    let flags: BooleanArray = (0..ROWS).map(|n| Some(n % 2 == 0)).collect();
    let amounts = Decimal128Array::from_iter_values((0..ROWS).map(i128::from));
    let amounts = amounts.with_precision_and_scale(12, 2).unwrap();
    let fixed = FixedSizeBinaryArray::try_from_iter((0..ROWS).map(|n| [n as u8; 3])).unwrap();
    let times = TimestampMicrosecondArray::from_iter_values(0..ROWS).with_timezone("UTC");
    vec![
        ("number", Arc::new(numbers)),
        ("text", Arc::new(texts)),
        ("large", Arc::new(large)),
        ("flag", Arc::new(flags)),
        ("amount", Arc::new(amounts)),
        ("fixed", Arc::new(fixed)),
        ("time", Arc::new(times)),
        ("null", Arc::new(NullArray::new(ROWS as usize))),
    ]
}

fn dictionaries() -> Columns {
    let words: DictionaryArray<Int8Type> = (0..ROWS as usize).map(|n| Some(["a", "b", "c"][n % 3])).collect();
    let words: ArrayRef = Arc::new(words);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let inner = StructArray::from(vec![
        (Arc::new(Field::new("x", numbers.data_type().clone(), false)), numbers),
        (Arc::new(Field::new("w", words.data_type().clone(), false)), words.clone()),
    ]);
    vec![("word", words), ("struct", Arc::new(inner))]
}

fn lists() -> Columns {
    let items = |n: i32, len: i32| (n % 5 != 0).then(|| (0..len).map(Some).collect::<Vec<_>>());
    let rows = ROWS as i32;
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>((0..rows).map(|n| items(n, n % 4)));
    let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>((0..rows).map(|n| items(n, 2)), 2);
    vec![("list", Arc::new(list)), ("fixed", Arc::new(fixed))]
}

fn views() -> Columns {
    let texts: Vec<String> = (0..ROWS).map(|n| "a view of text ".repeat(n as usize % 3)).collect();
    let bytes = BinaryViewArray::from_iter_values(texts.iter().map(String::as_bytes));
    vec![("text", Arc::new(StringViewArray::from_iter_values(&texts))), ("bytes", Arc::new(bytes))]
}

fn written(columns: Columns, compression: Option<CompressionType>, is_file: bool) -> Vec<u8> {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut bytes = Vec::new();
    if is_file {
        let mut writer = FileWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    } else {
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }

    bytes
}

async fn read(path: &str, cache: &Cache) -> Result<usize> {
    let scan = SequentialRequest::over([path], SequentialFormat::Arrow).plan(cache).await?;
    let batches: Vec<RecordBatch> = scan.stream().try_collect().await?;
    for batch in &batches {
        batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
    }
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_length_of_a_compressed_buffer_is_an_error_that_names_the_offset() {
    let folder = Folder::new();
    let cache = cache(1 << 24).await;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
    for codec in [CompressionType::ZSTD, CompressionType::LZ4_FRAME] {
        for is_file in [true, false] {
            let mut bytes = written(vec![("a", numbers.clone())], Some(codec), is_file);
            let stated = 8_000_i64.to_le_bytes();
            let places = bytes.windows(8).enumerate().filter(|(_, bytes)| *bytes == stated);
            let places: Vec<usize> = places.map(|(at, _)| at).collect();
            assert!(!places.is_empty());
            for at in &places {
                bytes[*at..at + 8].copy_from_slice(&(1_i64 << 54).to_le_bytes());
            }

            let path = folder.path(&format!("{}-{is_file}.arrow", codec.0));
            std::fs::write(&path, &bytes).unwrap();
            let error = read(&path, &cache).await.unwrap_err();
            assert!(matches!(&error, Error::Corrupt { offset: Some(_), .. }), "{error}");
            assert!(error.to_string().contains("18014398509481984 bytes"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_one_or_two_bytes_end_in_batches_or_an_error() {
    let folder = Folder::new();
    let cache = cache(1 << 24).await;
    let mut random = StdRng::seed_from_u64(29);
    let codecs = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];
    for columns in [flat(), dictionaries(), lists(), views()] {
        for compression in codecs {
            for is_file in [true, false] {
                let bytes = written(columns.clone(), compression, is_file);
                for change in 0..=CHANGES {
                    let mut damaged = bytes.clone();
                    let changes = if change == 0 { 0 } else { random.random_range(1..=2) };
                    for _ in 0..changes {
                        let at = random.random_range(0..damaged.len());
                        damaged[at] = [random.random(), 0, 0x80, 0xFF][random.random_range(0..4_usize)];
                    }

                    // A name of its own, as caches know files by name and time.
                    let path = folder.path(&format!("{}.arrow", random.random::<u64>()));
                    std::fs::write(&path, damaged).unwrap();
                    let rows = read(&path, &cache).await;
                    if change == 0 {
                        assert_eq!(rows.unwrap(), ROWS as usize, "undamaged");
                    }
                    std::fs::remove_file(&path).unwrap();
                }
            }
        }
    }
}
