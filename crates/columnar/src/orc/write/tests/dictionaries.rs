//! Dictionary encoding of texts: when it is used, and with which values.

use arrow::{array::*, compute::concat, datatypes::*};
use orc_rust::proto::column_encoding::Kind as Encoding;

use super::*;
use crate::orc::write::OrcColumnOptions;

fn strings(count: usize) -> ArrayRef {
    Arc::new((0..count).map(|at| Some(format!("value {}", at * 7919 % count))).collect::<StringArray>())
}

fn dictionary<K: ArrowDictionaryKeyType>(values: ArrayRef, rows: usize, nulls: usize) -> ArrayRef
where
    K::Native: TryFrom<usize>,
{
    let value_count = values.len();
    let keys = (0..rows).map(|row| {
        let key = row * 7919 / 3 % value_count;
        if nulls > 0 && row % nulls == 0 { None } else { K::Native::try_from(key).ok() }
    });
    Arc::new(DictionaryArray::<K>::try_new(keys.collect::<PrimitiveArray<K>>(), values).unwrap())
}

/// Returns the encoding of the first column in each stripe, and the number of values of its dictionary.
fn encodings(bytes: &Bytes) -> Vec<(Encoding, Option<u32>)> {
    let end = RawOrcTail::of(bytes);
    (0..end.footer.stripes.len())
        .map(|stripe| {
            let footer = end.stripe(bytes, stripe).0;
            (footer.columns[1].kind(), footer.columns[1].dictionary_size)
        })
        .collect()
}

#[tokio::test]
async fn dictionaries_of_every_width_and_null_pattern_come_back() {
    for nulls in [0, 3, 1] {
        for rows in [0, 1, 8, 3000] {
            let batches = [
                of("x", dictionary::<UInt8Type>(strings(200), rows, nulls)),
                of("x", dictionary::<UInt8Type>(strings(3), rows, nulls)),
            ];
            assert_comes_back(&batches, small(OrcCompression::Zstd(3))).await;
            let keys = [
                dictionary::<Int8Type>(strings(100), rows, nulls),
                dictionary::<Int16Type>(strings(1000), rows, nulls),
                dictionary::<UInt16Type>(strings(1000), rows, nulls),
                dictionary::<Int32Type>(strings(20_000), rows, nulls),
                dictionary::<UInt32Type>(strings(20_000), rows, nulls),
                dictionary::<Int64Type>(strings(50), rows, nulls),
                dictionary::<UInt64Type>(strings(50), rows, nulls),
            ];

            for array in keys {
                assert_comes_back(&[of("x", array)], small(OrcCompression::None)).await;
            }
        }
    }
}

#[tokio::test]
async fn dictionaries_of_every_type_of_value_come_back() {
    let texts = strings(6);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values([-5, 0, 7, 100, -128, 127]));
    let to = |array: &ArrayRef, data_type| arrow::compute::cast(array, &data_type).unwrap();
    let lists =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    let values: Vec<ArrayRef> = vec![
        to(&texts, DataType::LargeUtf8),
        to(&texts, DataType::Utf8View),
        to(&texts, DataType::Binary),
        to(&texts, DataType::BinaryView),
        to(&numbers, DataType::Int8),
        to(&numbers, DataType::Float64),
        to(&numbers, DataType::Decimal128(10, 2)),
        to(&numbers, DataType::Decimal64(10, 2)),
        to(&to(&numbers, DataType::Int32), DataType::Date32),
        Arc::new(TimestampMicrosecondArray::from(vec![-1_000_000, 0, 1 << 50]).with_timezone("UTC")),
        Arc::new(BooleanArray::from(vec![true, false])),
        Arc::new(FixedSizeBinaryArray::try_from_iter([b"abc", b"xyz"].iter()).unwrap()),
        Arc::new(lists),
    ];

    for values in values {
        let array = dictionary::<Int16Type>(values, 2500, 7);
        assert_comes_back(&[of("x", array)], small(OrcCompression::Lz4)).await;
    }
}

#[tokio::test]
async fn values_that_are_null_within_a_dictionary_are_null() {
    let values = StringArray::from(vec![Some("a"), None, Some("b")]);
    let array =
        DictionaryArray::new(Int8Array::from(vec![Some(0), Some(1), None, Some(2)]), Arc::new(values));
    let (bytes, _) = assert_comes_back(&[of("x", Arc::new(array))], small(OrcCompression::None)).await;
    assert_eq!(RawOrcTail::of(&bytes).footer.statistics[1].number_of_values, Some(2));
}

#[tokio::test]
async fn a_stripe_has_a_dictionary_where_its_values_repeat() {
    let rows = 20_000;
    let repeated: ArrayRef =
        Arc::new((0..rows).map(|row| Some(format!("v{}", row % 500))).collect::<StringArray>());
    let unique: ArrayRef = Arc::new((0..rows).map(|row| Some(format!("v{row}"))).collect::<StringArray>());
    let options = || OrcOptions::default().with_row_index_stride(1000);
    let (bytes, _) = assert_comes_back(&[of("x", repeated.clone())], options()).await;
    assert_eq!(encodings(&bytes), [(Encoding::DictionaryV2, Some(500))]);
    let (bytes, _) = assert_comes_back(&[of("x", unique.clone())], options()).await;
    assert_eq!(encodings(&bytes), [(Encoding::DirectV2, None)]);

    let threshold = |threshold| {
        options().with_all_columns(OrcColumnOptions::default().with_dictionary_threshold(threshold))
    };
    let (bytes, _) = assert_comes_back(&[of("x", unique.clone())], threshold(1.0)).await;
    assert_eq!(encodings(&bytes), [(Encoding::DictionaryV2, Some(20_000))]);
    let (bytes, _) = assert_comes_back(&[of("x", repeated.clone())], threshold(0.0)).await;
    assert_eq!(encodings(&bytes), [(Encoding::DirectV2, None)]);
    // Each stripe decides for itself.
    let both = [of("x", repeated), of("x", unique)];
    let (bytes, _) = assert_comes_back(&both, options().with_stripe_size(ByteSize::bytes(1))).await;
    let found = encodings(&bytes);

    assert!(
        found.iter().any(|it| it.0 == Encoding::DictionaryV2)
            && found.iter().any(|it| it.0 == Encoding::DirectV2)
    );
}

#[tokio::test]
async fn a_dictionary_that_arrives_is_judged_by_the_values_that_occur() {
    let (bytes, _) = assert_comes_back(
        &[of("x", dictionary::<Int32Type>(strings(20_000), 100, 0))],
        OrcOptions::default(),
    )
    .await;
    assert_eq!(encodings(&bytes)[0].0, Encoding::DirectV2);
    let (bytes, _) =
        assert_comes_back(&[of("x", dictionary::<Int32Type>(strings(50), 100, 0))], OrcOptions::default())
            .await;
    assert_eq!(encodings(&bytes), [(Encoding::DictionaryV2, Some(50))]);
}

#[tokio::test]
async fn a_dictionary_that_grows_too_large_is_given_up() {
    for array in [dictionary::<Int32Type>(strings(3000), 9000, 11), {
        let keys = (0..9000).map(|row| Some(format!("value {}", row % 3000)));
        Arc::new(keys.collect::<StringArray>())
    }] {
        let options = OrcOptions::default().with_row_index_stride(700).with_dictionary_size(ByteSize::kib(8));
        let (bytes, _) = assert_comes_back(&[of("x", array)], options).await;
        assert_eq!(encodings(&bytes), [(Encoding::DirectV2, None)]);
        let strings = RawOrcTail::of(&bytes).footer.statistics[1].string_statistics.clone().unwrap();
        assert_eq!((strings.minimum(), strings.maximum()), ("value 0", "value 999"));
    }
}

#[tokio::test]
async fn the_values_of_a_dictionary_are_sorted() {
    let (bytes, _) = assert_comes_back(
        &[of("x", dictionary::<Int8Type>(strings(30), 3000, 0))],
        OrcOptions::default().with_compression(OrcCompression::None),
    )
    .await;
    let (_, streams) = RawOrcTail::of(&bytes).stripe(&bytes, 0);
    let values = streams.iter().find(|it| it.1 == proto::stream::Kind::DictionaryData).unwrap();
    let mut sorted: Vec<String> = (0..30).map(|at| format!("value {at}")).collect();
    sorted.sort();
    assert_eq!(values.2, sorted.concat().as_bytes());
}

#[tokio::test]
async fn equal_rows_make_equal_files_whatever_dictionaries_they_come_with() {
    let values = strings(300);
    let turned: ArrayRef = Arc::new(
        values.as_string::<i32>().iter().collect::<Vec<_>>().into_iter().rev().collect::<StringArray>(),
    );
    let more = concat(&[&turned, &strings(100_000)]).unwrap();
    let keys: Vec<i32> = (0..40_000).map(|row| (row * row + row / 7) % 300).collect();
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..40_000).map(|row| row * 7919 % 40_009)));
    let mut files = Vec::new();

    for (values, is_turned) in [(&values, false), (&turned, true), (&more, true)] {
        let keys = keys.iter().map(|key| if is_turned { 299 - key } else { *key });
        let keys = Int32Array::from_iter_values(keys);
        let texts: ArrayRef = Arc::new(DictionaryArray::try_new(keys, values.clone()).unwrap());
        let batch = RecordBatch::try_from_iter([("x", texts), ("y", numbers.clone())]).unwrap();
        let batches: Vec<RecordBatch> = (0..8).map(|at| batch.slice(at * 5_000, 5_000)).collect();
        let (bytes, written) = assert_comes_back(&batches, small(OrcCompression::Snappy)).await;
        assert!(written.stripes > 2, "{}", written.stripes);
        files.push(bytes);
    }

    assert!(files.iter().all(|file| *file == files[0]));
}
