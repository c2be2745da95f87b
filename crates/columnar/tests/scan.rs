//! Scans of files that the parquet crate wrote, compared with the input.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "../../storage/tests/support/eventually.rs"]
mod eventually;
mod support;

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, DurationSecondArray, Int32Array, Int64Array, ListArray, MapBuilder, MapFieldNames,
        RecordBatch, StringArray, StringBuilder, StructArray,
    },
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, FieldRef, Int32Type, Schema},
};
use eventually::eventually;
use futures::StreamExt;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use stylobate_columnar::{Dictionaries, Error, Predicate, ScanRequest, Strings, col};
use support::{Folder, cache, collect, strings};

/// Creates rows with few distinct strings, and with one string per row; some are null.
fn table(rows: usize) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("kind", DataType::Utf8, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("size", DataType::Int32, true),
    ]);

    let kind = |i: usize| (!i.is_multiple_of(11)).then(|| format!("kind {}", i % 7));
    let name = |i: usize| (!i.is_multiple_of(13)).then(|| format!("name of row {i}"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..rows as i64).collect::<Int64Array>()),
        Arc::new((0..rows).map(kind).collect::<StringArray>()),
        Arc::new((0..rows).map(name).collect::<StringArray>()),
        Arc::new(
            (0..rows).map(|i| (!i.is_multiple_of(5)).then_some((i % 1000) as i32)).collect::<Int32Array>(),
        ),
    ];

    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_is_read() {
    let folder = Folder::new();
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_max_row_group_row_count(Some(70_000))
            .set_data_page_row_count_limit(9_000)
            .build();

        let written = table(200_000);
        let path = folder.parquet("t.parquet", &written, properties);
        for dictionary in [Dictionaries::Auto, Dictionaries::All, Dictionaries::None] {
            for memory in [0, 1 << 30] {
                let cache = cache(memory).await;
                let request = ScanRequest::new(&path).with_dictionary(dictionary.clone());
                let read = collect(request, &cache).await.unwrap();
                assert_eq!(read.num_rows(), written.num_rows());

                for (column, expected) in read.columns().iter().zip(written.columns()) {
                    assert_eq!(&cast(column, expected.data_type()).unwrap(), expected);
                }

                let kind = read.schema().field(1).data_type().clone();
                assert_eq!(
                    matches!(kind, DataType::Dictionary(..)),
                    dictionary != Dictionaries::None,
                    "{kind}"
                );

                let name = read.schema().field(2).data_type().clone();
                assert_eq!(
                    matches!(name, DataType::Dictionary(..)),
                    dictionary == Dictionaries::All,
                    "{name}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_gives_exactly_the_rows_that_match() {
    let folder = Folder::new();
    let written = table(150_000);
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(40_000)).build();
    let path = folder.parquet("t.parquet", &written, properties);

    for memory in [0, 1 << 30] {
        let cache = cache(memory).await;
        let filter = col("kind").eq("kind 3").and(col("size").lt(10)).and(col("id").gt_eq(50_000));
        let request = ScanRequest::new(&path).with_columns(["name", "id"]).with_filter(filter);
        let read = collect(request, &cache).await.unwrap();
        let expected: Vec<i64> = (50_000..150_000_i64)
            .filter(|i| i % 11 != 0 && i % 7 == 3 && i % 5 != 0 && i % 1000 < 10)
            .collect();
        let ids = read.column(1).as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(ids.values().as_ref(), expected);
        let first = format!("name of row {}", expected[0]);
        assert_eq!(strings(read.column(0))[0].as_deref(), (expected[0] % 13 != 0).then_some(first.as_str()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_pass_the_filter_are_the_same_without_memory() {
    let folder = Folder::new();
    let written = table(280_000);
    let path = folder.parquet("t.parquet", &written, WriterProperties::default());
    let memory = cache(1 << 30).await;
    let none = cache(0).await;

    let filters = [
        col("kind").eq("kind 3"),
        col("kind").eq("kind 3").and(col("size").lt(2)),
        col("id").gt_eq(279_999),
        col("id").lt(200_000).and(col("kind").is_not_null()),
        col("name").eq("name of row 70000"),
    ];
    for filter in filters {
        for dictionary in [Dictionaries::AsWritten, Dictionaries::Auto, Dictionaries::All] {
            let request = ScanRequest::new(&path).with_filter(filter.clone()).with_dictionary(dictionary);
            for request in [request.clone(), request.with_file_row_number("row")] {
                let expected = collect(request.clone(), &memory).await.unwrap();
                assert!(expected.num_rows() > 0);
                assert_eq!(collect(request, &none).await.unwrap(), expected);
            }
        }
    }

    let stats = none.stats();
    assert_eq!((stats.bytes, stats.streamed_row_groups), (0, 0), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collected_dictionaries_are_batches_of_whole_row_groups() {
    const GROUP: usize = 150_000;
    let folder = Folder::new();
    let written = table(2 * GROUP);
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(GROUP)).build();
    let path = folder.parquet("t.parquet", &written, properties);
    let cache = cache(1 << 30).await;
    let request = ScanRequest::new(&path).with_dictionary(Dictionaries::All);

    let lengths = async |request: ScanRequest| {
        let scan = request.plan(&cache).await.unwrap().with_long_batches();
        let batches = scan.collect().await.unwrap();
        batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>()
    };
    let kind = request.clone().with_columns(["kind"]);
    // Codes of one byte are widened to the keys of the schema, a batch at a time.
    let widened = request.clone().with_columns(["kind"]).with_filter(col("kind").is_not_null());
    assert!(lengths(widened).await.iter().all(|rows| *rows <= 65_536));
    let dense = request.clone().with_columns(["name", "size"]);
    assert!(lengths(dense).await.iter().all(|rows| *rows <= 65_536));
    let names = request.with_columns(["name"]);
    assert_eq!(lengths(names.clone()).await, [GROUP, GROUP]);
    assert_eq!(lengths(names.with_limit(7)).await, [7]);
    assert_eq!(lengths(kind).await.iter().sum::<usize>(), 2 * GROUP);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_ends_the_scan_early() {
    let folder = Folder::new();
    let path = folder.parquet("t.parquet", &table(100_000), WriterProperties::default());
    let cache = cache(1 << 28).await;
    let read = collect(ScanRequest::new(&path).with_limit(7).with_batch_rows(3), &cache).await.unwrap();
    assert_eq!(read.num_rows(), 7);
    let none = collect(ScanRequest::new(&path).with_limit(0), &cache).await.unwrap();
    assert_eq!(none.num_rows(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_together_are_the_whole() {
    let folder = Folder::new();
    let written = table(100_000);
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(9_000)).build();
    folder.parquet("t/a=1/x.parquet", &written.slice(0, 60_000), properties.clone());
    folder.parquet("t/a=x/y.parquet", &written.slice(60_000, 40_000), properties);
    let cache = cache(1 << 28).await;
    let request =
        ScanRequest::new(folder.path("t")).with_columns(["id", "a"]).with_filter(col("kind").is_not_null());
    let scan = request.clone().plan(&cache).await.unwrap();
    let whole = scan.collect().await.unwrap();
    let parts = scan.parts(5);
    assert!(parts.len() <= 5 && parts.len() > 2, "{}", parts.len());

    let mut together = Vec::new();
    for part in parts {
        let text = serde_json::to_string(&part).unwrap();
        let request = request.clone().with_part(serde_json::from_str(&text).unwrap());
        together.extend(request.plan(&cache).await.unwrap().collect().await.unwrap());
    }

    let plain = |batches: &[RecordBatch]| {
        let batch = concat_batches(scan.schema(), batches).unwrap();
        (batch.column(0).clone(), strings(batch.column(1)))
    };
    assert_eq!(plain(&whole), plain(&together));
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_named_like_values_become_columns() {
    let folder = Folder::new();
    let written = table(10);
    for year in [2023, 2024] {
        for city in ["Berlin", "S%C3%A3o%20Paulo", "__HIVE_DEFAULT_PARTITION__"] {
            folder.parquet(
                &format!("t/year={year}/city={city}/x.parquet"),
                &written,
                WriterProperties::default(),
            );
        }
    }

    std::fs::write(folder.path("t/_SUCCESS"), "x").unwrap();
    let cache = cache(1 << 28).await;
    let all = collect(ScanRequest::new(folder.path("t")), &cache).await.unwrap();
    assert_eq!(all.num_rows(), 60);
    let filter = Predicate::parse("year = 2024 AND city = 'São Paulo'").unwrap();
    let request = ScanRequest::new(folder.path("t")).with_filter(filter).with_columns(["city", "year"]);
    let scan = request.plan(&cache).await.unwrap();
    assert_eq!(scan.row_group_count(), 1, "folders rule out the other files");
    let batch = scan.collect().await.unwrap().remove(0);
    assert_eq!(strings(batch.column(0)), vec![Some("São Paulo".to_owned()); 10]);
    let null = ScanRequest::new(folder.path("t/**/*.parquet")).with_filter(col("city").is_null());
    assert_eq!(collect(null, &cache).await.unwrap().num_rows(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_with_other_columns_and_narrower_types_go_together() {
    let folder = Folder::new();
    let a = RecordBatch::try_from_iter([
        ("x", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        ("only_a", Arc::new(StringArray::from(vec!["p", "q"]))),
    ]);

    let b = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1_i64 << 40])) as ArrayRef)]);
    folder.parquet("t/a.parquet", &a.unwrap(), WriterProperties::default());
    folder.parquet("t/b.parquet", &b.unwrap(), WriterProperties::default());
    let cache = cache(1 << 28).await;
    let read = collect(ScanRequest::new(folder.path("t")), &cache).await.unwrap();
    assert_eq!(read.column(0).as_ref(), &Int64Array::from(vec![1, 2, 1 << 40]) as &dyn Array);
    assert_eq!(strings(read.column(1)), [Some("p".to_owned()), Some("q".to_owned()), None]);
    let large = ScanRequest::new(folder.path("t"))
        .with_filter(col("x").gt(5_000_000_000_i64))
        .plan(&cache)
        .await
        .unwrap();

    assert_eq!(large.row_group_count(), 1, "bounds of a narrower column rule it out");
    let wrong = RecordBatch::try_from_iter([("x", Arc::new(StringArray::from(vec!["z"])) as ArrayRef)]);
    folder.parquet("t/c.parquet", &wrong.unwrap(), WriterProperties::default());
    let error = collect(ScanRequest::new(folder.path("t")), &cache).await.unwrap_err();
    assert!(
        matches!(&error, Error::Schema { object, column, .. } if object.contains("c.parquet") && column == "x"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_rule_out_row_groups() {
    let folder = Folder::new();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(10_000))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .build();

    let path = folder.parquet("t.parquet", &table(100_000), properties);
    let cache = cache(1 << 28).await;
    let scan =
        ScanRequest::new(&path).with_filter(col("id").between(25_000, 34_999)).plan(&cache).await.unwrap();
    assert_eq!(scan.row_group_count(), 2);
    assert_eq!(scan.collect().await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 10_000);
    assert_eq!(cache.stats().pruned_row_groups, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dotted_name_is_the_same_column_for_filter_pruning_and_output() {
    let group = |name: &str, array: ArrayRef| -> ArrayRef {
        let field = Arc::new(Field::new(name, array.data_type().clone(), false));
        Arc::new(StructArray::from(vec![(field, array)]))
    };
    let numbers = |first: i64| -> ArrayRef { Arc::new((first..first + 20).collect::<Int64Array>()) };
    let nested = group("b", group("c", numbers(0)));
    let batch = RecordBatch::try_from_iter([("a", nested), ("a.b", group("c", numbers(100)))]).unwrap();

    let folder = Folder::new();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10)).build();
    let path = folder.parquet("t.parquet", &batch, properties);
    let cache = cache(1 << 24).await;
    let request = ScanRequest::new(&path).with_columns(["a.b.c"]).with_filter(col("a.b.c").eq(105));
    let scan = request.clone().plan(&cache).await.unwrap();
    assert_eq!(scan.row_group_count(), 1);
    let read = collect(request, &cache).await.unwrap();
    assert_eq!(read.schema().field(0).name(), "a.b");
    let found = read.column(0).as_any().downcast_ref::<StructArray>().unwrap();
    assert_eq!(found.column(0).as_ref(), &Int64Array::from(vec![105]) as &dyn Array);

    let request = ScanRequest::new(&path).with_columns(["a.b.x"]);
    let error = request.plan(&cache).await.unwrap_err();
    assert!(matches!(&error, Error::NoSuchColumn { column, .. } if column == "a.b.x"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_what_is_wrong() {
    let folder = Folder::new();
    let path = folder.parquet("t.parquet", &table(1000), WriterProperties::default());
    let cache = cache(1 << 28).await;
    let error = ScanRequest::new(&path).with_columns(["nmae"]).plan(&cache).await.unwrap_err();
    assert!(error.to_string().contains("nmae") && error.to_string().contains("name"), "{error}");
    let error = ScanRequest::new(folder.path("no.parquet")).plan(&cache).await.unwrap_err();
    assert!(matches!(error, Error::NoFiles { .. }), "{error}");
    std::fs::write(folder.path("x.parquet"), "this is text and no file of columns").unwrap();
    let error = ScanRequest::new(folder.path("x.parquet")).plan(&cache).await.unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error}");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(folder.path("cut.parquet"), &whole[..whole.len() / 2]).unwrap();
    assert!(ScanRequest::new(folder.path("cut.parquet")).plan(&cache).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_groups_wait_for_the_memory_of_those_before_and_are_decoded_whole() {
    const GROUP: usize = 50_000;
    let folder = Folder::new();
    let column = |salt: u64| -> ArrayRef {
        let value = |row: u64| ((row << 3 | salt).wrapping_mul(0x1E37_79B9_7F4A_7C15) >> 1) as i64;
        Arc::new((0..8 * GROUP as u64).map(value).collect::<Int64Array>())
    };

    let columns = (0..4).map(|salt| (format!("c{salt}"), column(salt)));
    let table = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_dictionary_enabled(false);
    let properties = properties.set_max_row_group_row_count(Some(GROUP)).build();
    let path = folder.parquet("t.parquet", &table, properties);
    // One row group fits into the memory for decodes, and three at once do not.
    let cache = cache(32 << 20).await;
    assert_eq!(collect(ScanRequest::new(&path).with_threads(2), &cache).await.unwrap(), table);
    assert_eq!(cache.stats().streamed_row_groups, 0);
    // Another scan that is not read any further does not make these row groups wait either.
    let mut stands_still = ScanRequest::new(&path).with_threads(2).plan(&cache).await.unwrap().stream();
    cache.clear();
    assert!(stands_still.next().await.is_some());
    assert_eq!(collect(ScanRequest::new(&path).with_threads(2), &cache).await.unwrap(), table);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_groups_are_decoded_ahead_of_the_reader_until_the_end() {
    const ROWS_PER_GROUP: usize = 1_000;
    const THREADS: usize = 2;

    let folder = Folder::new();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(ROWS_PER_GROUP)).build();
    let path = folder.parquet("t.parquet", &table(10 * ROWS_PER_GROUP), properties);
    let cache = cache(1 << 30).await;
    let scan = ScanRequest::new(&path).with_columns(["id"]).with_threads(THREADS).plan(&cache).await.unwrap();

    let mut stream = scan.stream();
    let mut rows = 0;
    while rows <= 4 * ROWS_PER_GROUP {
        rows += stream.next().await.unwrap().unwrap().num_rows();
    }

    // Five row groups were read or are being read; as many more as there are threads follow without being polled.
    let are_decoded = async || cache.stats().decoded_chunks >= (5 + THREADS - 1) as u64;
    eventually("row groups to be decoded ahead", are_decoded).await;
}

/// Returns a list, the same as list views, and a map whose keys are sorted.
fn nested() -> RecordBatch {
    let rows = vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(2)])];
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows));
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let view = |data_type: DataType| (data_type.clone(), cast(&lists, &data_type).unwrap());

    let names = MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
    let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for row in 0..4 {
        maps.keys().append_value(format!("key {row}"));
        maps.values().append_value("value");
        maps.append(true).unwrap();
    }
    let maps = maps.finish();
    let DataType::Map(entries, _) = maps.data_type().clone() else { unreachable!("a map") };
    let sorted = DataType::Map(entries, true);
    let data = maps.to_data().into_builder().data_type(sorted.clone()).build().unwrap();

    let columns = [
        (lists.data_type().clone(), lists.clone()),
        view(DataType::ListView(item.clone())),
        view(DataType::LargeListView(item)),
        (sorted, arrow::array::make_array(data)),
    ];
    let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = columns
        .into_iter()
        .enumerate()
        .map(|(at, (data_type, array))| (Arc::new(Field::new(format!("c{at}"), data_type, true)), array))
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn list_views_and_maps_of_sorted_keys_have_the_types_that_they_were_written_with() {
    let folder = Folder::new();
    let written = nested();
    let path = folder.parquet("t.parquet", &written, WriterProperties::default());
    let types = |batch: &RecordBatch| -> Vec<DataType> {
        batch.schema().fields().iter().map(|field| inner_names_left_out(field.data_type())).collect()
    };

    for memory in [0, 1 << 30] {
        let cache = cache(memory).await;
        let read = collect(ScanRequest::new(&path), &cache).await.unwrap();
        assert_eq!(types(&read), types(&written));
        for (column, expected) in read.columns().iter().zip(written.columns()).take(3) {
            let lists = |array: &ArrayRef| cast(array, written.column(0).data_type()).unwrap();
            assert_eq!(&lists(column), &lists(expected));
        }

        // Readers of string views rarely know list views.
        let read = collect(ScanRequest::new(&path).with_strings(Strings::View), &cache).await.unwrap();
        assert!(matches!(read.column(1).data_type(), DataType::List(_)));
        assert!(matches!(read.column(2).data_type(), DataType::LargeList(_)));

        // The caller's schema states a list.
        let schema = Schema::new(vec![Field::new("c1", written.column(0).data_type().clone(), true)]);
        let read =
            collect(ScanRequest::new(&path).with_table_schema(Arc::new(schema)), &cache).await.unwrap();
        assert!(matches!(read.column(0).data_type(), DataType::List(_)));
    }
}

/// Returns the type with the name `x` for the items of lists, which writers rename, and without the entries of maps.
fn inner_names_left_out(data_type: &DataType) -> DataType {
    let item = |field: &FieldRef| Arc::new(field.as_ref().clone().with_name("x"));
    match data_type {
        DataType::List(field) => DataType::List(item(field)),
        DataType::ListView(field) => DataType::ListView(item(field)),
        DataType::LargeListView(field) => DataType::LargeListView(item(field)),
        DataType::Map(_, sorted) => DataType::Map(Arc::new(Field::new("x", DataType::Null, false)), *sorted),
        other => other.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_groups_are_pruned_by_their_durations() {
    let folder = Folder::new();
    let durations: ArrayRef = Arc::new(DurationSecondArray::from_iter_values(-500..500));
    let batch = RecordBatch::try_from_iter([("d", durations)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
    let path = folder.parquet("t.parquet", &batch, properties);

    let filter = Predicate::parse("d >= INTERVAL '450' SECOND").unwrap();
    let cache = cache(1 << 24).await;
    let scan = ScanRequest::new(&path).with_filter(filter.clone()).plan(&cache).await.unwrap();
    assert_eq!(scan.row_group_count(), 1);
    let read = collect(ScanRequest::new(&path).with_filter(filter), &cache).await.unwrap();
    assert_eq!(read.num_rows(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metadata_of_the_schema_that_was_given_is_added_to_that_of_the_files() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let folder = Folder::new();
    let written = Field::new("id", DataType::Int64, true);
    let written = written.with_metadata([pair("unit", "m"), pair("of", "file")].into());
    let metadata = [pair("owner", "file"), pair("kept", "yes")].into();
    let schema = Arc::new(Schema::new_with_metadata(vec![written], metadata));
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let batch = RecordBatch::try_new(schema, vec![ids]).unwrap();
    let path = folder.parquet("t.parquet", &batch, WriterProperties::default());

    let given = |name: &str| {
        let field = Field::new(name, DataType::Int32, true);
        field.with_metadata([pair("of", "caller")].into())
    };
    let schema =
        Schema::new_with_metadata(vec![given("id"), given("more")], [pair("owner", "caller")].into());
    let cache = cache(1 << 24).await;
    let scan = ScanRequest::new(&path).with_table_schema(Arc::new(schema)).plan(&cache).await.unwrap();
    let read = scan.schema();
    assert_eq!((&*read.metadata()["owner"], &*read.metadata()["kept"]), ("caller", "yes"));
    let of = |column: usize, key: &str| read.field(column).metadata().get(key).map(String::as_str);
    assert_eq!((of(0, "of"), of(0, "unit")), (Some("caller"), Some("m")));
    assert_eq!((of(1, "of"), of(1, "unit")), (Some("caller"), None));
}
