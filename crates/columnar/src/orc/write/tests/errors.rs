//! Unwritable values are errors that name the column, and leave no file.

use arrow::{array::*, buffer::OffsetBuffer, datatypes::*};

use super::*;
use crate::{Error, orc::write::OrcColumnOptions};

async fn error(array: ArrayRef) -> (String, String) {
    match write(&[of("x", array)], OrcOptions::default()).await {
        Err(Error::Unwritable { object, column, reason }) => {
            assert_eq!(object, "x.orc");
            (column.unwrap_or_default(), reason)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn types_that_the_format_has_not_are_errors_that_name_the_column() {
    let fields = UnionFields::try_new([0], [Field::new("a", DataType::Int32, true)]).unwrap();
    let types = [
        DataType::Time32(TimeUnit::Second),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Duration(TimeUnit::Second),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Union(fields, UnionMode::Sparse),
    ];

    for data_type in types {
        let (column, reason) = error(new_empty_array(&data_type)).await;
        assert_eq!(column, "x", "{data_type}: {reason}");
        let field = Field::new("inner", data_type.clone(), true);
        let (column, _) = error(new_empty_array(&DataType::Struct(vec![field].into()))).await;
        assert_eq!(column, "x.inner", "{data_type}");
    }
}

/// Kernels of arrow return none of the values of 0 bytes that they copy, if there is no null among them.
#[tokio::test]
async fn values_of_no_bytes_are_errors_within_structs_and_dictionaries() {
    let empty = DataType::FixedSizeBinary(0);
    let fields = vec![Field::new("f", empty.clone(), true)];
    let coded = DataType::Dictionary(Box::new(DataType::Int8), Box::new(empty));
    for data_type in [DataType::Struct(fields.into()), coded] {
        let (column, reason) = error(new_empty_array(&data_type)).await;
        assert_eq!(column, "x", "{data_type}: {reason}");
        assert!(reason.contains("0 bytes"), "{data_type}: {reason}");
    }
}

#[tokio::test]
async fn values_that_do_not_fit_are_errors_that_name_the_column() {
    let max_decimal = 10_i128.pow(38) - 1;
    let wide = Decimal256Array::from(vec![i256::from_i128(max_decimal), i256::from_i128(i128::MAX)]);
    let long = Decimal128Array::from(vec![100_000]).with_data_type(DataType::Decimal128(5, 2));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(vec![1, i64::MAX as u64 + 1])),
        Arc::new(wide),
        Arc::new(long),
        Arc::new(TimestampMillisecondArray::from(vec![-500])),
        Arc::new(TimestampNanosecondArray::from(vec![-1])),
        Arc::new(TimestampSecondArray::from(vec![i64::MAX / 1000 + 1])),
    ];

    for array in arrays {
        let data_type = array.data_type().clone();
        let (column, reason) = error(array).await;
        assert_eq!(column, "x", "{data_type}: {reason}");
        assert!(!reason.contains("gave up"), "{data_type}: {reason}");
    }
}

#[tokio::test]
async fn names_that_readers_cannot_tell_are_errors() {
    let numbers = || Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef;
    let wrong = async |names: [&str; 2], at: &str| {
        let fields: Vec<FieldRef> =
            names.iter().map(|name| Arc::new(Field::new(*name, DataType::Int32, true))).collect();
        let columns = vec![numbers(), numbers()];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), columns.clone()).unwrap();
        match write(&[batch], OrcOptions::default()).await {
            Err(Error::Unwritable { column, .. }) => assert_eq!(column.as_deref(), Some(at)),
            other => panic!("{other:?}"),
        }
        let (column, _) = error(Arc::new(StructArray::new(fields.into(), columns, None))).await;
        assert_eq!(column, format!("x.{at}"));
    };

    wrong(["a", "a"], "a").await;
    wrong(["a", ""], "").await;
    wrong(["`a", "b"], "`a").await;
    wrong(["a", "b\0"], "b\0").await;
}

#[tokio::test]
async fn types_are_nested_as_deep_as_they_can_be_read() {
    let nested = |depth| {
        (1..depth)
            .fold(DataType::Int8, |inner, _| DataType::List(Arc::new(Field::new_list_field(inner, true))))
    };
    assert_comes_back(&[of("x", new_null_array(&nested(100), 3))], OrcOptions::default()).await;
    let (column, reason) = error(new_empty_array(&nested(101))).await;
    assert!(column == "x" && reason.contains("100"), "{column}: {reason}");
}

#[tokio::test]
async fn decimals_with_zeros_behind_the_point_come_back() {
    let small = Decimal128Array::from(vec![Some(12_345), None, Some(-1)]);
    let small = small.with_data_type(DataType::Decimal128(5, 10));
    assert_comes_back(&[of("x", Arc::new(small))], OrcOptions::default()).await;
    let small = Decimal64Array::from(vec![7]).with_data_type(DataType::Decimal64(3, 9));
    assert_comes_back(&[of("x", Arc::new(small))], OrcOptions::default()).await;
}

#[tokio::test]
async fn a_value_within_a_list_that_does_not_fit_is_an_error_that_names_the_column() {
    let numbers = UInt64Array::from(vec![1, u64::MAX]);
    let item = Arc::new(Field::new("item", DataType::UInt64, true));
    let list = ListArray::new(item, OffsetBuffer::new(vec![0, 2].into()), Arc::new(numbers), None);
    let (column, reason) = error(Arc::new(list)).await;
    assert!(column.starts_with("x"), "{column}: {reason}");
}

#[tokio::test]
async fn texts_that_are_too_long_are_errors() {
    for declared in ["varchar(3)", "char(3)"] {
        let field = Field::new("x", DataType::Utf8, true)
            .with_metadata([("orc.type".to_owned(), declared.to_owned())].into());
        let schema = Arc::new(Schema::new(vec![field]));
        let batch =
            |text| RecordBatch::try_new(schema.clone(), vec![Arc::new(StringArray::from(vec![text]))]);
        assert!(write(&[batch("äöü").unwrap()], OrcOptions::default()).await.is_ok());
        let error = write(&[batch("äöüß").unwrap()], OrcOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("4 characters where 3 are the most"), "{error}");
    }

    for unknown in ["varchar", "char(0)", "text(3)", "char(x)"] {
        let field = Field::new("x", DataType::Utf8, true)
            .with_metadata([("orc.type".to_owned(), unknown.to_owned())].into());
        let batch = RecordBatch::new_empty(Arc::new(Schema::new(vec![field])));
        assert!(write(&[batch], OrcOptions::default()).await.is_err(), "{unknown}");
    }
}

#[tokio::test]
async fn options_that_mean_nothing_are_errors() {
    let array: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let all = |column| OrcOptions::default().with_all_columns(column);
    let column = OrcColumnOptions::default;

    for options in [
        OrcOptions::default().with_column("y", column()),
        all(column().with_bloom_filter(0.0)),
        all(column().with_bloom_filter(1.0)),
        all(column().with_bloom_filter(f64::NAN)),
        all(column().with_bloom_filter(0.1)).with_row_index_stride(0),
        all(column().with_dictionary_threshold(1.5)),
        all(column().with_dictionary_threshold(f64::NAN)),
        OrcOptions::default().with_compression(OrcCompression::Zstd(40)),
    ] {
        assert!(write(&[of("x", array.clone())], options.clone()).await.is_err(), "{options:?}");
    }
}

#[tokio::test]
async fn a_write_that_fails_makes_no_file() {
    let store = Arc::new(InMemory::new());
    let sink = Sinks::new(SinkOptions::default()).object(store.clone(), "x".into(), Overwrite::Replace);
    let good = of("x", Arc::new(UInt64Array::from(vec![1; 5000])));
    let bad = of("x", Arc::new(UInt64Array::from(vec![u64::MAX; 5000])));
    let mut writer = OrcWriter::new(sink, "x.orc", good.schema(), small(OrcCompression::None)).unwrap();
    writer.write(&good).await.unwrap();
    let other = of("x", Arc::new(Int32Array::from(vec![1])));
    assert!(writer.write(&other).await.is_err());
    // A batch of other types changed nothing.
    writer.write(&good).await.unwrap();

    let failed = async {
        writer.write(&bad).await?;
        writer.write(&bad).await?;
        writer.write(&good).await
    };
    assert!(failed.await.is_err() || writer.rows() > 15_000);
    assert!(writer.finish().await.is_err());
    assert!(store.get(&"x".into()).await.is_err());
}

#[tokio::test]
async fn a_write_that_is_dropped_makes_no_file() {
    let store = Arc::new(InMemory::new());
    let sink = Sinks::new(SinkOptions::default()).object(store.clone(), "x".into(), Overwrite::Replace);
    let batch = of("x", Arc::new(Int64Array::from(vec![1; 100_000])));
    let mut writer = OrcWriter::new(sink, "x.orc", batch.schema(), small(OrcCompression::Snappy)).unwrap();
    let mut write = Box::pin(writer.write(&batch));
    assert!(futures::poll!(&mut write).is_pending());
    drop(write);
    assert!(writer.write(&batch).await.is_err());
    assert!(writer.finish().await.is_err());
    assert!(store.get(&"x".into()).await.is_err());
}
