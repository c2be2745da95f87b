//! Columns of every type, with nulls and without, in every codec.

use std::collections::HashMap;

use super::*;
use crate::orc::{tests::open, write::OrcColumnOptions};
use arrow::{array::*, datatypes::*};
use proto::r#type::Kind;

/// Returns values made from numbers, with one of the null patterns: none, scattered, in blocks, or all.
fn some<T>(rows: usize, nulls: usize, value: impl Fn(i64) -> T) -> Vec<Option<T>> {
    let is_null = |row: usize| match nulls {
        0 => false,
        1 => row * 7919 % 10 < 3,
        2 => (row / 700).is_multiple_of(2),
        _ => true,
    };
    (0..rows).map(|row| (!is_null(row)).then(|| value((row * 7919 % 1000) as i64))).collect()
}

fn all_kinds(rows: usize, nulls: usize) -> RecordBatch {
    fn array<A: Array + 'static>(array: A) -> ArrayRef {
        Arc::new(array)
    }
    let cast_to = |array: &ArrayRef, to| arrow::compute::cast(array, &to).unwrap();
    let decimals = |values: Vec<Option<i128>>, precision, scale| {
        array(Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap())
    };
    let texts = some(rows, nulls, |it| format!("value {} ä", it * it));
    let fixed: Vec<Option<[u8; 3]>> = some(rows, nulls, |it| [it as u8, 0, (it >> 8) as u8]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("boolean", array(BooleanArray::from(some(rows, nulls, |it| it % 3 == 0)))),
        ("nothing", array(NullArray::new(rows))),
        ("i8", array(Int8Array::from(some(rows, nulls, |it| it as i8)))),
        ("i16", array(Int16Array::from(some(rows, nulls, |it| (it as i16 - 500) * 60)))),
        ("i32", array(Int32Array::from(some(rows, nulls, |it| it as i32 * -70_000)))),
        ("i64", array(Int64Array::from(some(rows, nulls, |it| i64::MIN + it.pow(6))))),
        ("u8", array(UInt8Array::from(some(rows, nulls, |it| it as u8)))),
        ("u16", array(UInt16Array::from(some(rows, nulls, |it| it as u16 * 65)))),
        ("u32", array(UInt32Array::from(some(rows, nulls, |it| u32::MAX - it as u32)))),
        ("u64", array(UInt64Array::from(some(rows, nulls, |it| i64::MAX as u64 - it as u64)))),
        (
            "f16",
            cast_to(&array(Float32Array::from(some(rows, nulls, |it| it as f32 / 8.0))), DataType::Float16),
        ),
        ("f32", array(Float32Array::from(some(rows, nulls, |it| it as f32 / 3.0)))),
        ("f64", array(Float64Array::from(some(rows, nulls, |it| it as f64 * -1e200)))),
        ("d9", array(Decimal32Array::from(some(rows, nulls, |it| it as i32 - 500)))),
        ("d18", array(Decimal64Array::from(some(rows, nulls, |it| it.pow(5) - 500)))),
        ("d38", decimals(some(rows, nulls, |it| i128::from(it).pow(11) * -1000 + 7), 38, 10)),
        ("d5", decimals(some(rows, nulls, i128::from), 5, -3)),
        ("d76", array(Decimal256Array::from(some(rows, nulls, |it| i256::from_i128(i128::from(it).pow(9)))))),
        ("date", array(Date32Array::from(some(rows, nulls, |it| it as i32 * 300 - 150_000)))),
        ("date64", array(Date64Array::from(some(rows, nulls, |it| (it - 500) * 86_400_000)))),
        ("s", array(TimestampSecondArray::from(some(rows, nulls, |it| (it - 500) * 12_345_678)))),
        (
            "ms",
            array(TimestampMillisecondArray::from(some(rows, nulls, |it| (it - 700) * 7_123_456_789 - 2000))),
        ),
        ("us", array(TimestampMicrosecondArray::from(some(rows, nulls, |it| it * 1_000_007_000)))),
        (
            "ns",
            array(TimestampNanosecondArray::from(some(rows, nulls, |it| {
                (it - 900) * 2_000_000_007_001 - 2_000_000_000
            }))),
        ),
        (
            "instant",
            array(
                TimestampMicrosecondArray::from(some(rows, nulls, |it| it * 86_400_000_001))
                    .with_timezone("Asia/Tokyo"),
            ),
        ),
        ("utf8", array(StringArray::from(texts.clone()))),
        ("large", array(LargeStringArray::from(texts.clone()))),
        ("view", array(StringViewArray::from(texts.clone()))),
        ("few", array(StringArray::from(some(rows, nulls, |it| ["AIR", "MAIL", ""][it as usize % 3])))),
        ("binary", array(BinaryArray::from_iter(some(rows, nulls, |it| vec![it as u8; it as usize % 7])))),
        (
            "binary view",
            array(BinaryViewArray::from_iter(some(rows, nulls, |it| vec![it as u8; it as usize % 30]))),
        ),
        ("fixed", array(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed.into_iter(), 3).unwrap())),
    ];

    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

#[tokio::test]
async fn every_type_comes_back_in_every_codec_with_every_pattern_of_nulls() {
    for (at, codec) in CODECS.into_iter().enumerate() {
        for nulls in 0..4 {
            let rows = [1, 999, 2500, 4001][(at + nulls) % 4];
            let batches = [all_kinds(rows, nulls), all_kinds(0, 0), all_kinds(rows / 2 + 1, nulls)];
            assert_comes_back(&batches, small(codec)).await;
        }
        assert_comes_back(&[all_kinds(1, 0)], OrcOptions::default().with_compression(codec)).await;
    }
}

#[tokio::test]
async fn strides_and_stripes_of_any_size_hold_the_same_rows() {
    let batch = all_kinds(5000, 1);
    for stride in [0, 1, 7, 512, 10_000] {
        for stripe in [1, 100 << 10, 64 << 20] {
            let options = OrcOptions::default()
                .with_compression(OrcCompression::Snappy)
                .with_row_index_stride(stride)
                .with_stripe_size(ByteSize::bytes(stripe))
                .with_threads(1);
            let (_, written) = assert_comes_back(std::slice::from_ref(&batch), options).await;
            assert_eq!(written.stripes > 1, stripe < 64 << 20, "stride {stride}, stripes of {stripe}");
        }
    }
}

#[tokio::test]
async fn a_file_without_rows_has_columns() {
    for codec in CODECS {
        let (bytes, written) =
            assert_comes_back(&[all_kinds(0, 0)], OrcOptions::default().with_compression(codec)).await;
        assert_eq!((written.rows, written.stripes), (0, 0));
        let end = RawOrcTail::of(&bytes);
        assert_eq!(end.footer.statistics.len(), end.footer.types.len());
        assert_eq!(end.footer.statistics[5].number_of_values, Some(0));
    }
}

#[tokio::test]
async fn a_file_without_columns_has_rows() {
    let options = RecordBatchOptions::new().with_row_count(Some(12_345));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let (bytes, written) = write(&[batch], OrcOptions::default()).await.unwrap();
    assert_eq!((written.rows, open(&bytes).unwrap().stripe_rows(0)), (12_345, 12_345));
}

#[tokio::test]
async fn timestamps_of_other_centuries_come_back() {
    // The years 1, 1583, 1899, 1969, 2038, 9999 in microseconds.
    let far = [-62_135_596_800, -12_212_553_600, -2_208_988_801, -2, 2_147_483_648, 253_402_300_799];
    for fraction in [0, 1, 999, 1000, 123_456, 999_999, 500_000] {
        let values: Vec<i64> = far.iter().map(|seconds| seconds * 1_000_000 + fraction).collect();
        let clocks = TimestampMicrosecondArray::from(values);
        let batch = RecordBatch::try_from_iter([
            ("clock", Arc::new(clocks.clone()) as ArrayRef),
            ("instant", Arc::new(clocks.with_timezone("UTC"))),
        ]);
        assert_comes_back(&[batch.unwrap()], small(OrcCompression::None)).await;
    }

    let near = [
        i64::MIN / 2,
        -1_999_999_999,
        -1_000_000_001,
        -1_000_000_000,
        0,
        1,
        999_999_999,
        i64::MAX - 5_000_000_000,
    ];

    assert_comes_back(
        &[of("ns", Arc::new(TimestampNanosecondArray::from(near.to_vec())))],
        small(OrcCompression::None),
    )
    .await;
    let days = Date32Array::from(vec![-719_162, -141_427, -25_568, -1, 0, 24_855, 2_932_896]);
    assert_comes_back(&[of("date", Arc::new(days))], small(OrcCompression::Zstd(1))).await;
}

#[tokio::test]
async fn lengths_of_texts_are_those_of_the_fields_metadata() {
    let metadata = |text: &str| HashMap::from([("orc.type".to_owned(), text.to_owned())]);
    let schema = Schema::new(vec![
        Field::new("c", DataType::Utf8, true).with_metadata(metadata("char(4)")),
        Field::new("v", DataType::Utf8View, true).with_metadata(metadata("varchar(10)")),
    ]);
    let batch = RecordBatch::try_new(
        Arc::new(schema),
        vec![
            Arc::new(StringArray::from(vec![Some("grün"), Some("ja"), None, Some("")])),
            Arc::new(StringViewArray::from(vec![Some("1234567890"), Some(""), Some("ä"), None])),
        ],
    )
    .unwrap();

    for threshold in [0.0, 1.0] {
        let all = OrcColumnOptions::default().with_dictionary_threshold(threshold);
        let options = OrcOptions::default().with_all_columns(all);
        let (bytes, _) = write(std::slice::from_ref(&batch), options.clone()).await.unwrap();
        let end = RawOrcTail::of(&bytes);
        let kinds: Vec<_> = end.footer.types.iter().map(|it| (it.kind(), it.maximum_length)).collect();
        assert_eq!(kinds[1..], [(Kind::Char, Some(4)), (Kind::Varchar, Some(10))]);
        let read = read_all(&bytes, 10).unwrap();
        assert_eq!(read.schema().field(0).metadata(), &metadata("char(4)"));
        assert_eq!(read.schema().field(1).metadata(), &metadata("varchar(10)"));
        let padded = StringArray::from(vec![Some("grün"), Some("ja  "), None, Some("    ")]);
        assert_eq!(read.column(0).as_ref(), &padded);
        // Rows that were read are written in the same way.
        let (again, _) = write(std::slice::from_ref(&read), options).await.unwrap();
        assert_eq!(read_all(&again, 10).unwrap(), read);
    }
}

async fn assert_the_other_library_reads(batch: &RecordBatch) {
    for codec in CODECS {
        let (bytes, _) = write(std::slice::from_ref(batch), small(codec)).await.unwrap();
        let reader = orc_rust::ArrowReaderBuilder::try_new(bytes).unwrap().build();
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
        let read = concat_batches(&batches[0].schema(), &batches).unwrap();
        assert_eq!(read, cast(batch, &read.schema()), "{codec}");
    }
}

#[tokio::test]
async fn the_other_library_reads_the_same() {
    let batch = all_kinds(3000, 1);
    // The other library misreads timestamps before 1970 and after 2099.
    let wrong = ["s", "ms", "ns", "instant"];
    let right: Vec<usize> = (0..batch.num_columns())
        .filter(|at| !wrong.contains(&batch.schema().field(*at).name().as_str()))
        .collect();
    assert_the_other_library_reads(&batch.project(&right).unwrap()).await;
}

#[tokio::test]
async fn the_other_library_reads_the_same_timestamps() {
    // From the first second of 1970 to the last of 2099, and all fractions of a second.
    const LAST: i64 = 4_102_444_799;
    let at = |a_second: i64| {
        move |it: i64| {
            it * (LAST / 999) * a_second + it * 1_001_001 % a_second.max(2) * i64::from(a_second > 1)
        }
    };
    for nulls in 0..3 {
        let seconds = TimestampSecondArray::from(some(3000, nulls, at(1)));
        let millis = TimestampMillisecondArray::from(some(3000, nulls, at(1_000)));
        let micros = TimestampMicrosecondArray::from(some(3000, nulls, at(1_000_000)));
        let nanos = TimestampNanosecondArray::from(some(3000, nulls, at(1_000_000_000)));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(seconds.clone().with_timezone("+05:30")),
            Arc::new(millis.clone().with_timezone("UTC")),
            Arc::new(micros.clone().with_timezone("Asia/Tokyo")),
            Arc::new(nanos.clone().with_timezone("UTC")),
            Arc::new(seconds),
            Arc::new(millis),
            Arc::new(micros),
            Arc::new(nanos),
        ];

        let columns = columns.into_iter().enumerate().map(|(at, array)| (format!("c{at}"), array, true));
        assert_the_other_library_reads(&RecordBatch::try_from_iter_with_nullable(columns).unwrap()).await;
    }
}
