//! ORC scans return the same rows with and without memory for whole columns, whatever the dictionaries.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray, StructArray},
    datatypes::DataType,
};
use futures::TryStreamExt;
use stylobate_columnar::{
    Cache, Dictionaries, ScanRequest, col,
    orc::{OrcColumnOptions, OrcCompression, OrcOptions, OrcWriter},
};
use stylobate_storage::{ByteSize, CacheOptions, Overwrite, PageCache, SinkOptions, Sinks};
use support::{Folder, cache, collect};

/// More rows than 16-bit codes distinguish, in two stripes.
const ROWS: usize = 150_000;

fn texts(distinct: usize, nulls: usize) -> ArrayRef {
    let text = |row: usize| {
        let value = row.wrapping_mul(0x9e37_79b9) % distinct;
        (nulls == 0 || row % nulls != 1).then(|| format!("{value} of {distinct}"))
    };
    Arc::new((0..ROWS).map(text).collect::<StringArray>())
}

fn table() -> RecordBatch {
    let numbers: ArrayRef = Arc::new((0..ROWS as i64).map(|row| row * 7 % 1000).collect::<Int64Array>());
    let bytes: ArrayRef =
        Arc::new((0..ROWS).map(|row| Some(vec![row as u8; row % 3])).collect::<BinaryArray>());
    let inner = StructArray::try_from(vec![("text", texts(9, 5)), ("number", numbers.clone())]).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("few", texts(200, 0)),
        ("more", texts(3_000, 4)),
        ("many", texts(90_000, 7)),
        ("plain", texts(ROWS, 3)),
        ("nothing", Arc::new(StringArray::new_null(ROWS))),
        ("number", numbers),
        ("bytes", bytes),
        ("inner", Arc::new(inner)),
    ];

    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// Writes the table to a file that is old enough to be cached. Only one column has no dictionary.
async fn write(folder: &Folder, table: &RecordBatch) -> String {
    let path = folder.path("t.orc");
    let always = OrcColumnOptions::default().with_dictionary_threshold(1.0);
    let never = OrcColumnOptions::default().with_dictionary_threshold(0.0);
    let options = OrcOptions::default()
        .with_all_columns(always)
        .with_column("plain", never)
        .with_compression(OrcCompression::Zstd(1))
        .with_stripe_size(ByteSize::kib(700));

    let sink = Sinks::new(SinkOptions::default()).file(path.as_ref(), Overwrite::Refuse).await.unwrap();
    let mut writer = OrcWriter::new(sink, "t.orc", table.schema(), options).unwrap();
    writer.write(table).await.unwrap();
    let written = writer.finish().await.unwrap();
    assert!(written.stripes > 1, "{written:?}");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600)).unwrap();

    path
}

async fn assert_same(request: &ScanRequest, caches: &[Cache; 2], what: &str) {
    let [whole, streamed] = caches;
    let expected = collect(request.clone(), whole).await.unwrap();
    let before = streamed.stats().streamed_row_groups;
    let read = collect(request.clone(), streamed).await.unwrap();
    assert!(streamed.stats().streamed_row_groups > before, "{what}");
    assert_eq!(read.schema(), expected.schema(), "{what}");
    assert_eq!(read, expected, "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stripes_that_are_streamed_have_the_rows_and_types_of_those_that_are_kept() {
    let folder = Folder::new();
    let path = write(&folder, &table()).await;
    let pages = PageCache::open(CacheOptions::new(ByteSize::bytes(0))).await.unwrap();
    let caches = [cache(512 << 20).await, Cache::passing(pages)];
    let some = Dictionaries::Columns(vec!["many".to_owned(), "plain".to_owned()]);
    let all = [Dictionaries::None, Dictionaries::Auto, Dictionaries::Stored, Dictionaries::All, some];

    for dictionaries in all {
        let request = ScanRequest::new(&path).with_dictionary(dictionaries.clone());
        assert_same(&request, &caches, &format!("{dictionaries:?}")).await;
        for filter in [
            col("few").eq("7 of 200"),
            col("many").gt("5").and(col("plain").is_not_null()),
            col("nothing").is_null().and(col("more").is_null()),
        ] {
            let request = request.clone().with_filter(filter.clone());
            assert_same(&request, &caches, &format!("{dictionaries:?}, {filter}")).await;
        }
    }
}

#[tokio::test]
async fn what_stripes_store_as_dictionaries_is_asked_for_by_the_largest() {
    let folder = Folder::new();
    let path = write(&folder, &table()).await;
    let request = ScanRequest::new(&path).with_dictionary(Dictionaries::Stored);
    let scan = request.plan(&cache(64 << 20).await).await.unwrap();
    let is_coded = |name: &str| {
        matches!(scan.schema().field_with_name(name).unwrap().data_type(), DataType::Dictionary(..))
    };
    assert!(["few", "more", "many"].into_iter().all(is_coded));
    assert!(!["plain", "number", "bytes", "inner"].into_iter().any(is_coded));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_a_streamed_stripe_share_its_dictionary() {
    let folder = Folder::new();
    let path = write(&folder, &table()).await;
    let cache = cache(0).await;
    let request = ScanRequest::new(&path).with_columns(["more"]).with_dictionary(Dictionaries::All);
    let scan = request.plan(&cache).await.unwrap();
    let key = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8));
    let batches: Vec<RecordBatch> = scan.stream().try_collect().await.unwrap();
    assert!(batches.len() > 10);

    let mut values: Vec<ArrayRef> = Vec::new();
    for batch in &batches {
        assert_eq!(batch.column(0).data_type(), &key);
        let column = batch.column(0).as_any_dictionary();
        if !values.iter().any(|known| known.to_data().ptr_eq(&column.values().to_data())) {
            values.push(column.values().clone());
        }
    }

    let stripes = values.len();
    assert!((2..6).contains(&stripes), "{stripes} dictionaries in {} batches", batches.len());
}
