//! Types that Parquet represents differently, or not at all.

use std::collections::HashMap;

use arrow::buffer::OffsetBuffer;
use parquet::basic::{ConvertedType, LogicalType};

use super::*;

#[tokio::test]
async fn intervals_have_months_days_and_milliseconds() {
    let values = vec![
        Some(IntervalMonthDayNano::new(14, 3, 5_000_000)),
        None,
        Some(IntervalMonthDayNano::new(-1, -2, 0)),
    ];
    let intervals: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(values));
    for version_2 in [false, true] {
        let options = ParquetOptions::default().with_version_2(version_2);
        let (bytes, _) = write(&[of("x", intervals.clone())], options).await.unwrap();
        let metadata = reader_without_schema(&bytes).metadata().clone();
        let leaf = metadata.file_metadata().schema_descr().column(0);
        assert_eq!((leaf.converted_type(), leaf.type_length()), (ConvertedType::INTERVAL, 12));
        let statistics = metadata.row_group(0).column(0).statistics();
        assert!(
            statistics.is_none_or(|statistics| statistics.min_bytes_opt().is_none()),
            "they have no order"
        );
        // The parquet crate reads days and milliseconds only.
        let batch = reader_without_schema(&bytes).build().unwrap().next().unwrap().unwrap();
        let found = batch.column(0).as_primitive::<IntervalDayTimeType>();
        let days = found.iter().map(|value| value.map(|value| (value.days, value.milliseconds)));
        assert_eq!(days.collect::<Vec<_>>(), [Some((3, 5)), None, Some((-2, 0))]);
    }

    let months: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![Some(14), None]));
    let (bytes, _) = write(&[of("x", months.clone())], ParquetOptions::default()).await.unwrap();
    assert_eq!(&first_column(&bytes), &months);
    let keys = Int8Array::from(vec![0, 1, 0]);
    let coded: ArrayRef = Arc::new(DictionaryArray::new(keys, months.clone()));
    let (bytes, _) = write(&[of("x", coded)], ParquetOptions::default()).await.unwrap();
    assert_eq!(first_column(&bytes).null_count(), 1);

    let wrong: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(0, 0, 7)]));
    let error = write(&[of("x", wrong)], ParquetOptions::default()).await.unwrap_err().to_string();
    assert!(error.starts_with("x.parquet: column x: an interval with 7 ns"), "{error}");
}

fn first_column(bytes: &Bytes) -> ArrayRef {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
    reader.build().unwrap().next().unwrap().unwrap().column(0).clone()
}

/// Returns a reader that uses the file's own schema only.
fn reader_without_schema(bytes: &Bytes) -> ParquetRecordBatchReaderBuilder<Bytes> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ParquetRecordBatchReaderBuilder::try_new_with_options(bytes.clone(), options).unwrap()
}

#[tokio::test]
async fn json_and_uuid_are_logical_types_at_any_depth() {
    let extension = |name: &str| HashMap::from([("ARROW:extension:name".to_owned(), name.to_owned())]);
    let text = |name: &str, data_type: DataType| {
        Arc::new(Field::new(name, data_type, true).with_metadata(extension("arrow.json")))
    };
    let uuid = Field::new("u", DataType::FixedSizeBinary(16), true).with_metadata(extension("arrow.uuid"));
    let inner = DataType::Struct(vec![text("j", DataType::LargeUtf8)].into());
    let entries = vec![Arc::new(Field::new("keys", DataType::Utf8, false)), text("values", DataType::Utf8)];
    let entries = Arc::new(Field::new("entries", DataType::Struct(entries.into()), false));

    let schema = Arc::new(Schema::new(vec![
        Field::clone(&text("j", DataType::Utf8)),
        uuid,
        Field::new("s", inner, true),
        Field::new("l", DataType::List(text("item", DataType::Utf8View)), true),
        Field::new("m", DataType::Map(entries, false), true),
        Field::new("t", DataType::Utf8, true),
    ]));

    let columns = schema.fields().iter().map(|field| new_null_array(field.data_type(), 2)).collect();
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let (bytes, _) = write(&[batch], ParquetOptions::default()).await.unwrap();
    let reader = reader_without_schema(&bytes);
    let leaves = reader.parquet_schema().columns().iter().map(|leaf| leaf.logical_type_ref().cloned());
    let json = Some(LogicalType::Json);
    let text = Some(LogicalType::String);
    let expected =
        [json.clone(), Some(LogicalType::Uuid), json.clone(), json.clone(), text.clone(), json, text];
    assert_eq!(leaves.collect::<Vec<_>>(), expected);
    assert_eq!(reader.build().unwrap().next().unwrap().unwrap().num_rows(), 2);
}

#[tokio::test]
async fn geometries_have_no_bounds() {
    let name = ("ARROW:extension:name".to_owned(), "geoarrow.wkb".to_owned());
    let wkb = |column: &str| {
        Field::new(column, DataType::Binary, true).with_metadata(HashMap::from([name.clone()]))
    };
    let values: ArrayRef =
        Arc::new(BinaryArray::from_opt_vec(vec![Some("b".as_bytes()), None, Some("a".as_bytes())]));
    let item = Arc::new(wkb("item"));
    let lists: ArrayRef =
        Arc::new(ListArray::new(item.clone(), OffsetBuffer::from_lengths([1, 1, 1]), values.clone(), None));
    let schema = Schema::new(vec![wkb("g"), Field::new("l", DataType::List(item), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![values, lists]).unwrap();

    let all = [
        ColumnOptions::default(),
        ColumnOptions::default().with_dictionary(DictionaryEncoding::On),
        ColumnOptions::default().with_dictionary(DictionaryEncoding::Off),
        ColumnOptions::default().with_bloom_filter(0.01),
    ];
    for options in all {
        let options = ParquetOptions::default().with_all_columns(options);
        let (bytes, _) = write(std::slice::from_ref(&batch), options).await.unwrap();
        let reader = reader_without_schema(&bytes);

        for chunk in reader.metadata().row_group(0).columns() {
            let logical = chunk.column_descr().logical_type_ref();
            assert_eq!(logical, Some(&LogicalType::geometry(Some("srid:0".to_owned()))));
            let statistics = chunk.statistics().unwrap();
            assert_eq!((statistics.min_bytes_opt(), statistics.max_bytes_opt()), (None, None));
            assert_eq!(statistics.null_count_opt(), Some(1));
            assert_eq!(chunk.column_index_offset(), None);
        }

        assert_eq!(reader.build().unwrap().next().unwrap().unwrap().num_rows(), 3);
    }
}

#[tokio::test]
async fn unions_are_errors_that_say_what_to_do() {
    let fields: UnionFields = [(0, Arc::new(Field::new("a", DataType::Int32, true)))].into_iter().collect();
    let union = DataType::Union(fields, UnionMode::Sparse);
    for data_type in [union.clone(), DataType::List(Arc::new(Field::new("item", union, true)))] {
        let schema = Arc::new(Schema::new(vec![Field::new("x", data_type, true)]));
        let batch = RecordBatch::new_empty(schema);
        let error = write(&[batch], ParquetOptions::default()).await.unwrap_err().to_string();
        assert!(error.starts_with("x.parquet: column x: Parquet has no unions: make it a struct"), "{error}");
    }
}

#[tokio::test]
async fn values_of_no_bytes_are_errors_that_say_what_to_do() {
    let empty = DataType::FixedSizeBinary(0);
    let field = Arc::new(Field::new("f", empty.clone(), true));
    let types = [
        empty.clone(),
        DataType::List(field.clone()),
        DataType::Struct(vec![field].into()),
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(empty)),
    ];

    for data_type in types {
        let schema = Arc::new(Schema::new(vec![Field::new("x", data_type, true)]));
        let batch = RecordBatch::new_empty(schema);
        let error = write(&[batch], ParquetOptions::default()).await.unwrap_err().to_string();
        assert!(error.starts_with("x.parquet: column x: Parquet has no values of a fixed length"), "{error}");
    }
}

#[tokio::test]
async fn dictionaries_of_views_are_stored_as_dictionaries_of_strings() {
    let values: ArrayRef = Arc::new(StringViewArray::from(vec!["low", "high"]));
    let keys = UInt8Array::from(vec![Some(1), None, Some(0)]);
    let coded: ArrayRef = Arc::new(DictionaryArray::new(keys, values));
    let metadata = HashMap::from([("categories".to_owned(), "low, high".to_owned())]);
    let field = |name: &str| {
        let field = Field::new(name, coded.data_type().clone(), true).with_dict_is_ordered(true);
        field.with_metadata(metadata.clone())
    };
    let item = Arc::new(field("element"));
    let offsets = OffsetBuffer::from_lengths([2, 1, 0]);
    let lists: ArrayRef = Arc::new(ListArray::new(item.clone(), offsets, coded.clone(), None));
    let schema = Schema::new(vec![field("x"), Field::new("l", DataType::List(item), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![coded.clone(), lists]).unwrap();
    let (bytes, _) = write(&[batch], ParquetOptions::default()).await.unwrap();

    let schema = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap().schema().clone();
    let dictionary = |keys: DataType| DataType::Dictionary(Box::new(keys), Box::new(DataType::Utf8));
    let DataType::List(item) = schema.field(1).data_type() else { panic!("not a list") };
    assert_eq!(*schema.field(0).data_type(), dictionary(DataType::UInt8));
    // Polars panics on nested keys with a sign.
    assert_eq!(*item.data_type(), dictionary(DataType::UInt32));
    for field in [schema.field(0), item.as_ref()] {
        assert_eq!(field.dict_is_ordered(), Some(true));
        assert_eq!(*field.metadata(), metadata);
    }

    let as_strings = |array: &ArrayRef| cast(array, &DataType::Utf8).unwrap();
    assert_eq!(&as_strings(&first_column(&bytes)), &as_strings(&coded));
}

#[tokio::test]
async fn columns_of_nulls_alone_are_of_no_type() {
    let batch = of("x", Arc::new(NullArray::new(3)));
    let (bytes, _) = write(&[batch], ParquetOptions::default()).await.unwrap();
    let reader = reader_without_schema(&bytes);
    assert_eq!(reader.parquet_schema().column(0).logical_type_ref(), Some(&LogicalType::Unknown));
    assert_eq!(first_column(&bytes).logical_null_count(), 3);
}
