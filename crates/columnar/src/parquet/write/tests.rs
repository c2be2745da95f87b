//! Tests that written files are read back by the parquet crate's reader.

mod codebooks;
mod codes;
mod kinds;
mod tried;

use std::sync::Arc;

use arrow::{
    array::*,
    compute::{cast, concat_batches},
    datatypes::*,
};
use bytes::Bytes;
use object_store::{ObjectStoreExt, memory::InMemory};
use parquet::{
    arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    file::{
        metadata::PageIndexPolicy, page_index::column_index::ColumnIndexMetaData, statistics::Statistics,
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_storage::{ByteSize, Overwrite, SinkOptions, Sinks};

use super::*;
use crate::{Error, Result, Written};

async fn write(batches: &[RecordBatch], options: ParquetOptions) -> Result<(Bytes, Written)> {
    let store = Arc::new(InMemory::new());
    let sink = Sinks::new(SinkOptions::default()).object(store.clone(), "x".into(), Overwrite::Replace);
    let schema = batches.first().unwrap().schema();
    let mut writer = ParquetWriter::new(sink, "x.parquet", schema, options)?;

    for batch in batches {
        writer.write(batch).await?;
    }
    let written = writer.finish().await?;
    let bytes = store.get(&"x".into()).await.unwrap().bytes().await.unwrap();
    assert_eq!(bytes.len() as u64, written.bytes);

    Ok((bytes, written))
}

fn reader(bytes: &Bytes) -> ParquetRecordBatchReaderBuilder<Bytes> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    ParquetRecordBatchReaderBuilder::try_new_with_options(bytes.clone(), options).unwrap()
}

/// Reads the rows with plain values.
fn read(bytes: &Bytes) -> RecordBatch {
    let reader = reader(bytes);
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(|batch| batch.unwrap()).collect();
    plain(&concat_batches(&schema, &batches).unwrap())
}

fn plain(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Dictionary(_, values) => cast(column, values).unwrap(),
        _ => column.clone(),
    });
    RecordBatch::try_from_iter_with_nullable(
        batch
            .schema()
            .fields()
            .iter()
            .zip(columns)
            .map(|(field, column)| (field.name().clone(), column, true)),
    )
    .unwrap()
}

fn of(name: &str, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([(name, array, true)]).unwrap()
}

async fn assert_comes_back(batches: &[RecordBatch], options: ParquetOptions) -> Bytes {
    let (bytes, written) = write(batches, options).await.unwrap();
    let schema = batches.first().unwrap().schema();
    let whole = plain(&concat_batches(&schema, batches).unwrap());
    assert_eq!(written.rows, whole.num_rows() as u64);
    assert_eq!(read(&bytes), whole);
    bytes
}

/// Returns codes of any type over values, with or without nulls.
fn dictionary<K: ArrowDictionaryKeyType>(values: ArrayRef, rows: usize, nulls: f64, seed: u64) -> ArrayRef
where
    K::Native: TryFrom<usize>,
{
    let mut random = StdRng::seed_from_u64(seed);
    let value_count = values.len();
    let keys: PrimitiveArray<K> = (0..rows)
        .map(|_| {
            let key = random.random_range(0..value_count);
            if random.random_bool(nulls) { None } else { K::Native::try_from(key).ok() }
        })
        .collect();
    Arc::new(DictionaryArray::<K>::try_new(keys, values).unwrap())
}

fn strings(count: usize) -> ArrayRef {
    Arc::new((0..count).map(|at| Some(format!("value {}", at * 7919 % count))).collect::<StringArray>())
}

#[tokio::test]
async fn dictionaries_of_every_width_and_null_pattern_come_back() {
    for nulls in [0.0, 0.3, 1.0] {
        for rows in [0, 1, 7, 8, 20_000, 50_001] {
            let batches = [
                of("x", dictionary::<UInt8Type>(strings(200), rows, nulls, 1)),
                of("x", dictionary::<UInt8Type>(strings(3), rows, nulls, 2)),
            ];
            assert_comes_back(&batches, ParquetOptions::default()).await;
            let wide = [of("x", dictionary::<Int32Type>(strings(70_000), rows, nulls, 3))];
            assert_comes_back(&wide, ParquetOptions::default().with_row_group_rows(30_000)).await;
        }
    }
}

#[tokio::test]
async fn dictionaries_of_every_type_of_value_come_back() {
    let numbers = Int64Array::from_iter_values([-5, 0, 7, 1 << 40, i64::MIN, i64::MAX]);
    let small: ArrayRef = Arc::new(Int64Array::from_iter_values([-5, 0, 7, 100, -128, 127]));
    let cast_to = |data_type: DataType| cast(&small, &data_type).unwrap();
    let decimals = |precision, scale| -> ArrayRef {
        let values = Decimal128Array::from_iter_values([-12_345, 0, 1, 99_999]);
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    };
    let texts = strings(6);
    let of_bytes = Arc::new(FixedSizeBinaryArray::try_from_iter([b"abc", b"xyz", b"\0\0\0"].iter()).unwrap());

    let values: Vec<ArrayRef> = vec![
        Arc::new(numbers),
        cast_to(DataType::Int8),
        cast_to(DataType::Int16),
        cast_to(DataType::Int32),
        Arc::new(UInt8Array::from(vec![0, 255])),
        Arc::new(UInt32Array::from(vec![0, u32::MAX, 7])),
        Arc::new(UInt64Array::from(vec![0, u64::MAX, 7])),
        Arc::new(Float32Array::from(vec![0.0, -0.0, 1.5, f32::NAN])),
        Arc::new(Float64Array::from(vec![0.0, -1.5, f64::INFINITY])),
        decimals(5, 2),
        decimals(15, 2),
        decimals(38, 10),
        Arc::new(Date32Array::from(vec![-1, 0, 19_000])),
        Arc::new(TimestampMicrosecondArray::from(vec![-1, 0, 1 << 50]).with_timezone("UTC")),
        Arc::new(Time64MicrosecondArray::from(vec![0, 86_399_999_999])),
        texts.clone(),
        cast(&texts, &DataType::LargeUtf8).unwrap(),
        cast(&texts, &DataType::Utf8View).unwrap(),
        cast(&texts, &DataType::Binary).unwrap(),
        cast(&texts, &DataType::BinaryView).unwrap(),
        of_bytes,
    ];

    for values in values {
        let data_type = values.data_type().clone();
        let batch = of("x", dictionary::<UInt16Type>(values, 1_000, 0.1, 4));
        let (bytes, _) = write(std::slice::from_ref(&batch), ParquetOptions::default()).await.unwrap();
        let found = read(&bytes);
        let wanted = plain(&batch);
        let found = cast(found.column(0), wanted.column(0).data_type()).unwrap();
        assert_eq!(format!("{found:?}"), format!("{:?}", wanted.column(0)), "{data_type}");
        let column = reader(&bytes).metadata().row_group(0).column(0).clone();
        assert!(column.dictionary_page_offset().is_some(), "{data_type}");
    }
}

#[tokio::test]
async fn values_that_are_null_double_or_unused_are_no_matter() {
    let values: ArrayRef =
        Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("b"), Some("unused")]));
    let keys = UInt8Array::from(vec![Some(0), Some(1), Some(2), None, Some(3), Some(0)]);
    let batch = of("x", Arc::new(DictionaryArray::<UInt8Type>::try_new(keys, values).unwrap()));
    let bytes = assert_comes_back(&[batch], ParquetOptions::default()).await;
    let column = reader(&bytes).metadata().row_group(0).column(0).clone();
    let Some(Statistics::ByteArray(statistics)) = column.statistics() else { panic!("{column:?}") };
    assert_eq!(statistics.distinct_count(), Some(2));
    assert_eq!(statistics.null_count_opt(), Some(2));
    assert_eq!(statistics.min_bytes_opt(), Some(b"a".as_ref()));
    assert_eq!(statistics.max_bytes_opt(), Some(b"b".as_ref()));
}

#[tokio::test]
async fn all_other_types_come_back() {
    let texts = strings(500);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..500).map(|row| (row % 7 > 0).then(|| (0..row % 5).map(Some).collect::<Vec<_>>())),
    );
    // The format prescribes the names of items.
    let (_, offsets, items, nulls) = lists.into_parts();
    let lists = ListArray::new(Arc::new(Field::new("element", DataType::Int32, true)), offsets, items, nulls);
    let fields = vec![
        (
            Arc::new(Field::new("a", DataType::Int32, true)),
            Arc::new(Int32Array::from_iter_values(0..500)) as ArrayRef,
        ),
        (Arc::new(Field::new("b", DataType::Utf8, true)), texts.clone()),
    ];

    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "bool",
            Arc::new((0..500).map(|row| (row % 3 > 0).then_some(row % 2 == 0)).collect::<BooleanArray>()),
        ),
        ("text", texts.clone()),
        ("view", cast(&texts, &DataType::Utf8View).unwrap()),
        ("list", Arc::new(lists)),
        ("struct", Arc::new(StructArray::from(fields))),
        ("null", Arc::new(NullArray::new(500))),
    ];

    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    );
    let batch = batch.unwrap();
    let options = ParquetOptions::default().with_row_group_rows(200).with_page_rows(50);

    for compression in ["none", "snappy", "lz4", "zstd(3)", "gzip(6)", "brotli(4)"] {
        let all = ColumnOptions::default().with_compression(compression.parse().unwrap());
        assert_comes_back(std::slice::from_ref(&batch), options.clone().with_all_columns(all)).await;
    }

    assert_comes_back(&[batch], options.with_version_2(true)).await;
}

#[tokio::test]
async fn the_index_of_pages_says_what_is_in_them() {
    let values = strings(3_000);
    let batch = of("x", dictionary::<UInt16Type>(values, 10_000, 0.2, 5));
    let bytes =
        assert_comes_back(std::slice::from_ref(&batch), ParquetOptions::default().with_page_rows(700)).await;
    let metadata = reader(&bytes).metadata().clone();
    let ColumnIndexMetaData::BYTE_ARRAY(index) = &metadata.column_index().unwrap()[0][0] else { panic!() };
    let pages = metadata.offset_index().unwrap()[0][0].page_locations();
    assert_eq!(pages.len(), 10_000_usize.div_ceil(700));
    let plain = plain(&batch);
    let text = plain.column(0).as_string::<i32>();

    for (page, location) in pages.iter().enumerate() {
        let first = location.first_row_index as usize;
        let rows = text.slice(first, 700.min(10_000 - first));
        assert_eq!(index.min_value(page), rows.iter().flatten().min().map(str::as_bytes));
        assert_eq!(index.max_value(page), rows.iter().flatten().max().map(str::as_bytes));
        assert_eq!(index.null_count(page), Some(rows.null_count() as i64));
    }
}

#[tokio::test]
async fn row_groups_end_where_they_are_told_and_where_memory_ends() {
    let batch = of("x", Arc::new(Int64Array::from_iter_values(0..100_000)));
    let rows = |bytes: &Bytes| -> Vec<i64> {
        reader(bytes).metadata().row_groups().iter().map(|group| group.num_rows()).collect()
    };
    let bytes = assert_comes_back(
        std::slice::from_ref(&batch),
        ParquetOptions::default().with_row_group_rows(30_000),
    )
    .await;
    assert_eq!(rows(&bytes), [30_000, 30_000, 30_000, 10_000]);
    let parts: Vec<RecordBatch> = (0..100).map(|part| batch.slice(part * 1_000, 1_000)).collect();
    let bytes = assert_comes_back(&parts, ParquetOptions::default().with_memory(ByteSize::kib(256))).await;
    assert!(rows(&bytes).len() > 2, "{:?}", rows(&bytes));
    let bytes = assert_comes_back(&[batch.slice(0, 0)], ParquetOptions::default()).await;
    assert!(rows(&bytes).is_empty());
}

#[tokio::test]
async fn bloom_filters_metadata_and_sorting_are_in_the_footer() {
    let columns: [(&str, ArrayRef); 2] = [
        ("a", dictionary::<Int8Type>(strings(9), 100, 0.0, 6)),
        ("b", Arc::new(Int32Array::from_iter_values(0..100))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let with_filter = || ColumnOptions::default().with_bloom_filter(0.01);
    let sorted = SortedBy { column: "b".to_owned(), descending: false, nulls_first: true };
    let options = ParquetOptions::default()
        .with_column("a", with_filter())
        .with_column("b", with_filter())
        .with_sorted_by(vec![sorted])
        .with_metadata("made by", "a test");
    let (bytes, _) = write(&[batch], options).await.unwrap();
    let reader = reader(&bytes);
    let a = reader.get_row_group_column_bloom_filter(0, 0);
    let b = reader.get_row_group_column_bloom_filter(0, 1);
    assert!(a.unwrap().unwrap().check(&"value 3") && b.unwrap().unwrap().check(&7_i32));
    let metadata = reader.metadata();
    let sorting = metadata.row_group(0).sorting_columns().unwrap();
    assert_eq!((sorting.len(), sorting[0].column_idx), (1, 1));
    let pairs = metadata.file_metadata().key_value_metadata().unwrap();
    assert!(pairs.iter().any(|pair| pair.key == "made by" && pair.value.as_deref() == Some("a test")));
}

#[tokio::test]
async fn what_cannot_be_written_is_an_error_that_names_the_column() {
    let said = |error: Error| error.to_string();
    let numbers = of("x", Arc::new(Int64Array::from_iter_values(0..5)));
    let texts = of("x", strings(5));
    let error = write(&[numbers.clone(), texts], ParquetOptions::default()).await.unwrap_err();
    assert_eq!(said(error), "x.parquet: column x: Utf8 where Int64 was promised");
    let options = ParquetOptions::default().with_column("y", ColumnOptions::default());

    assert_eq!(
        said(write(std::slice::from_ref(&numbers), options).await.unwrap_err()),
        "no column y; available: x"
    );
    let empty = Field::new("s", DataType::Struct(Fields::empty()), true);
    let array = StructArray::new_empty_fields(3, None);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![empty])), vec![Arc::new(array)]).unwrap();
    assert!(said(write(&[batch], ParquetOptions::default()).await.unwrap_err()).contains("column s"));
    let union = UnionFields::try_new([0], [Field::new("a", DataType::Int32, true)]).unwrap();
    let union = Field::new("u", DataType::Union(union, UnionMode::Sparse), true);
    let batch = RecordBatch::new_empty(Arc::new(Schema::new(vec![union])));

    assert_eq!(
        said(write(&[batch], ParquetOptions::default()).await.unwrap_err()),
        "x.parquet: column u: Parquet has no unions: make it a struct with a field for each type, or a text"
    );
    let filter = ColumnOptions::default().with_bloom_filter(2.0);
    let error = write(&[numbers], ParquetOptions::default().with_all_columns(filter)).await.unwrap_err();
    assert!(said(error).contains("between 0 and 1"));
}

#[test]
fn after_an_error_there_is_no_file() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(assert_no_file_after_an_error());
}

async fn assert_no_file_after_an_error() {
    let field = Field::new("x", DataType::Utf8, true);
    let schema = Arc::new(Schema::new(vec![field]));
    let store = Arc::new(InMemory::new());
    let sinks = Sinks::new(SinkOptions::default());
    let new = || {
        let sink = sinks.object(store.clone(), "x".into(), Overwrite::Replace);
        ParquetWriter::new(sink, "x.parquet", schema.clone(), ParquetOptions::default()).unwrap()
    };
    // More than is encoded at once, and no free thread to encode it, so that the write has to wait.
    let (free, busy) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || busy.recv());
    let large: ArrayRef = Arc::new(StringArray::from(vec!["a long text ".repeat(100); 20_000]));
    let batch = of("x", large);
    let mut writer = new();
    let dropped = futures::poll!(std::pin::pin!(writer.write(&batch)));
    assert!(dropped.is_pending());
    drop(free);
    assert!(writer.write(&batch).await.is_err());
    assert!(writer.finish().await.unwrap_err().to_string().contains("given up"));
    assert!(store.head(&"x".into()).await.is_err());
    let mut writer = new();
    assert!(writer.write(&of("x", Arc::new(Int64Array::from(vec![1])))).await.is_err());
    writer.write(&of("x", strings(3))).await.unwrap();
    assert_eq!(writer.finish().await.unwrap().rows, 3);
}

#[tokio::test]
async fn options_of_a_column_hold_for_all_its_fields_whatever_its_name() {
    let inner: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let nested = StructArray::from(vec![(Arc::new(Field::new("y", DataType::Int32, false)), inner.clone())]);
    let columns: [(&str, ArrayRef); 3] = [("s", Arc::new(nested)), ("a.b", inner.clone()), ("c", inner)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let zstd = || ColumnOptions::default().with_compression(Compression::Zstd(3));
    let options = ParquetOptions::default().with_column("s", zstd()).with_column("a.b", zstd());
    let (bytes, _) = write(&[batch], options).await.unwrap();
    let group = reader(&bytes).metadata().row_group(0).clone();
    let codecs: Vec<String> =
        group.columns().iter().map(|column| format!("{:?}", column.compression())).collect();

    assert!(
        codecs[0].contains("ZSTD") && codecs[1].contains("ZSTD") && codecs[2].contains("SNAPPY"),
        "{codecs:?}"
    );
}
