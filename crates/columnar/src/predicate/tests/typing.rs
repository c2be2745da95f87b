//! Literals compared with columns of each type.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, Date32Array, Decimal128Array, DictionaryArray, DurationMicrosecondArray,
        DurationSecondArray, FixedSizeBinaryArray, Float16Array, Float32Array, Float64Array, Int8Array,
        Int64Array, StringArray, TimestampMicrosecondArray, TimestampSecondArray, UInt8Array,
    },
    datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit},
};

use crate::{Error, Predicate, Result};

fn schema(data_type: DataType) -> Schema {
    Schema::new(vec![Field::new("a", data_type, true)])
}

/// Returns the rows of a column for which SQL is true.
fn rows(sql: &str, array: impl arrow::array::Array + 'static) -> Vec<usize> {
    let bound = Predicate::parse(sql).unwrap().bind(&schema(array.data_type().clone())).unwrap();
    let array: ArrayRef = Arc::new(array);
    let columns: Vec<ArrayRef> = bound.roots().iter().map(|_| array.clone()).collect();
    bound.evaluator().evaluate(&columns, array.len()).unwrap().set_indices().collect()
}

fn bind(sql: &str, data_type: DataType) -> Result<Option<bool>> {
    Predicate::parse(sql)?.bind(&schema(data_type)).map(|bound| bound.constant())
}

#[test]
fn whole_numbers_are_compared_with_fractions_exactly() {
    let array = || Int64Array::from(vec![Some(2), Some(3), None, Some(-3), Some(-2)]);
    assert_eq!(rows("a < 2.5", array()), [0, 3, 4]);
    assert_eq!(rows("a >= -2.5", array()), [0, 1, 4]);
    assert_eq!(rows("a <> 2.5", array()), [0, 1, 3, 4]);
    assert_eq!(rows("a = 2.0", array()), [0]);
    assert_eq!(rows("a < 25e-1", array()), [0, 3, 4]);
}

#[test]
fn large_integers_are_not_rounded_to_floats() {
    let array = || Int64Array::from(vec![(1 << 53) + 1, 1 << 53]);
    assert_eq!(rows("a > 9007199254740992e0", array()), [0]);
    assert_eq!(rows("a = 9007199254740992e0", array()), [1]);
    let array = || Float64Array::from(vec![9_007_199_254_740_992.0, 9_007_199_254_740_994.0]);
    assert_eq!(rows("a < 9007199254740993", array()), [0]);
    assert_eq!(rows("a >= 9007199254740993", array()), [1]);
    assert!(rows("a = 9007199254740993", array()).is_empty());
}

#[test]
fn a_float_is_its_shortest_decimal_against_decimals() {
    let array = || Decimal128Array::from(vec![4, 5, 6]).with_precision_and_scale(15, 2).unwrap();
    assert_eq!(rows("a = 5e-2", array()), [1]);
    assert_eq!(rows("a <= 5e-2", array()), [0, 1]);
    assert_eq!(rows("a < 0.0501", array()), [0, 1]);
    assert_eq!(rows("a < 1e300", array()), [0, 1, 2]);
    assert_eq!(rows("a > 1e-300", array()), [0, 1, 2]);
}

#[test]
fn a_decimal_is_the_nearest_float_against_floats() {
    assert_eq!(rows("a = 0.1", Float32Array::from(vec![0.1, 0.2])), [0]);
    assert_eq!(rows("a = 0.1", Float64Array::from(vec![0.1, f64::from(0.1_f32)])), [0]);
    assert_eq!(rows("a = 1e-1", Float32Array::from(vec![0.1, 0.2])), [0]);
    assert!(rows("a >= 1e-50", Float32Array::from(vec![0.0])).is_empty());
}

#[test]
fn comparisons_with_nan_are_false_and_differences_true() {
    let array = || Float64Array::from(vec![Some(f64::NAN), Some(1.0), None]);
    assert_eq!(rows("a <> 1", array()), [0]);
    assert_eq!(rows("NOT a < 5", array()), [0]);
    assert_eq!(rows("a NOT IN (1, 2)", array()), [0]);
    assert_eq!(rows("a <> CAST('NaN' AS DOUBLE)", array()), [0, 1]);
    assert!(rows("a IN (CAST('NaN' AS DOUBLE), 2)", array()).is_empty());
}

#[test]
fn what_no_value_can_be_is_known_without_looking() {
    assert_eq!(bind("a > 255", DataType::UInt8).unwrap(), Some(false));
    assert_eq!(bind("a = -1 OR a = 1e300", DataType::UInt64).unwrap(), Some(false));
    assert_eq!(bind("a = 0.5", DataType::Int32).unwrap(), Some(false));
    assert_eq!(bind("a < 3 AND a > 5", DataType::Int32).unwrap(), Some(false));
    assert_eq!(bind("a = NULL OR NOT a <> NULL", DataType::Int32).unwrap(), Some(false));
    assert_eq!(bind("a IS NULL OR a IS NOT NULL OR TRUE", DataType::Int32).unwrap(), Some(true));
}

#[test]
fn what_every_value_is_still_excludes_nulls() {
    assert_eq!(rows("a < 1e30", Int64Array::from(vec![Some(1), None])), [0]);
    assert_eq!(rows("a LIKE '%'", StringArray::from(vec![Some(""), None])), [0]);
}

#[test]
fn a_null_in_a_list_leaves_the_rest_unknown() {
    let array = || Int64Array::from(vec![Some(1), Some(2), None]);
    assert_eq!(rows("a IN (1, NULL)", array()), [0]);
    assert!(rows("a NOT IN (1, NULL)", array()).is_empty());
    assert_eq!(rows("NOT a IN (1)", array()), [1]);
    assert_eq!(rows("NOT a IN ()", array()), [0, 1, 2]);
}

#[test]
fn timestamps_take_dates_strings_and_offsets() {
    let array = || TimestampSecondArray::from(vec![0, 1, 86_400]).with_timezone("+05:00");
    assert_eq!(rows("a < DATE '1970-01-02'", array()), [0, 1]);
    assert_eq!(rows("a < '1970-01-01T01:00:01+01:00'", array()), [0]);
    assert_eq!(rows("a <= TIMESTAMP '1970-01-01 00:00:00.999'", array()), [0]);
}

#[test]
fn types_that_do_not_fit_are_named() {
    let error = |sql: &str, data_type: DataType| match bind(sql, data_type) {
        Err(Error::Predicate { reason }) => reason,
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(error("a < 5", DataType::Utf8), "column a is Utf8: not comparable with `5`");
    error("a = 'x'", DataType::Int32);
    error("a = TRUE", DataType::Int32);
    error("a = 1", DataType::Boolean);
    error("a = '2024-13-01'", DataType::Date32);
    error("a = TIME '12:00'", DataType::Timestamp(TimeUnit::Second, None));
    error("a = X'00'", DataType::Utf8);
    error("a LIKE 'x'", DataType::Binary);
    error("starts_with(a, 'x')", DataType::Date32);
    error("a = 1", DataType::Duration(TimeUnit::Second));
    error("a = '1'", DataType::Duration(TimeUnit::Second));
    error("a = INTERVAL '1' MONTH", DataType::Duration(TimeUnit::Second));
    error("a = INTERVAL '1' DAY", DataType::Int64);
    error("a = NULL", DataType::Interval(IntervalUnit::DayTime));
    error("a = 1", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))));
    error("a < a", DataType::Interval(IntervalUnit::DayTime));
}

#[test]
fn an_unknown_column_is_told_with_those_there_are() {
    let point = DataType::Struct(vec![Field::new("x", DataType::Int32, true)].into());
    let schema = Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("p", point, true)]);
    let error = |sql: &str| match Predicate::parse(sql).unwrap().bind(&schema) {
        Err(Error::NoSuchColumn { available, .. }) => available,
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(error("A = 1"), "a, p");
    assert_eq!(error("p.y = 1"), "p.x");
    assert_eq!(error("a.x IS NULL"), "a, p");
}

#[test]
fn a_name_with_a_dot_goes_before_a_nested_field() {
    let inner = DataType::Struct(vec![Field::new("b.c", DataType::Int32, true)].into());
    let schema = Schema::new(vec![Field::new("a", inner, true), Field::new("a.b", DataType::Utf8, true)]);
    let bound = Predicate::parse("a.b = 'x' AND a.b.c = 1").unwrap().bind(&schema).unwrap();
    assert!(bound.columns()[0].path.is_empty());
    assert_eq!(bound.columns()[1].path, ["b.c"]);
}

#[test]
fn columns_of_nothing_but_nulls_fit_any_literal() {
    assert_eq!(bind("a = 1 OR a = 'x' OR a LIKE 'x'", DataType::Null).unwrap(), Some(false));
}

#[test]
fn integers_are_computed_without_overflow() {
    let array = || Int64Array::from(vec![Some(i64::MAX), Some(i64::MIN), None, Some(3)]);
    assert_eq!(rows("a + 1 > 9223372036854775807", array()), [0]);
    assert_eq!(rows("abs(a) = 9223372036854775808", array()), [1]);
    assert_eq!(rows("a * a > 9", array()), [0, 1]);
    assert_eq!(rows("a * 2 <= 10", array()), [1, 3]);
    assert_eq!(rows("-a > a", array()), [1]);
    assert_eq!(rows("a - a = 0", array()), [0, 1, 3]);
    let array = || Int8Array::from(vec![Some(-128), Some(127), None]);
    assert_eq!(rows("abs(a) = 128 OR a + a = 254", array()), [0, 1]);
}

#[test]
fn divisions_are_of_floats_and_remainders_have_the_sign_of_the_left() {
    let array = || Int64Array::from(vec![Some(5), Some(-5), Some(0), None]);
    assert_eq!(rows("a / 2 = 2.5", array()), [0]);
    assert_eq!(rows("a % 3 = -2", array()), [1]);
    assert_eq!(rows("10 % a = 0", array()), [0, 1]);
    assert_eq!(rows("10 % a IS NULL", array()), [2, 3]);
    assert_eq!(rows("1 / a > 1e300", array()), [2]);
    assert_eq!(rows("a + 0.5 = 5.5", array()), [0]);
    assert_eq!(rows("a * 5e-1 = 2.5", array()), [0]);
}

#[test]
fn decimals_are_computed_exactly() {
    let array =
        || Decimal128Array::from(vec![Some(10), Some(-30), None]).with_precision_and_scale(15, 2).unwrap();
    assert_eq!(rows("a + 0.2 = 0.3", array()), [0]);
    assert_eq!(rows("a * a = 0.09", array()), [1]);
    assert_eq!(rows("a * 0.001 < 0", array()), [1]);
    assert_eq!(rows("abs(a) % 0.2 = 0.1", array()), [0, 1]);
    assert_eq!(rows("a / 0.2 = 0.5", array()), [0]);
    assert_eq!(rows("a + 1e0 = 1.1", array()), [0]);
}

#[test]
fn a_number_without_room_is_an_error_unless_no_row_has_it() {
    let evaluate = |array: ArrayRef, sql: &str| {
        let bound = Predicate::parse(sql).unwrap().bind(&schema(array.data_type().clone())).unwrap();
        let rows = array.len();
        Ok::<_, Error>(bound.evaluator().evaluate(&[array], rows)?.set_indices().collect::<Vec<_>>())
    };
    let values = Arc::new(Int64Array::from(vec![i64::MAX, 2]));
    let sql = "a * a * a > 1";
    assert!(
        matches!(evaluate(values.clone(), sql), Err(Error::Predicate { reason }) if reason.contains("128 bits"))
    );
    let unused: ArrayRef =
        Arc::new(DictionaryArray::new(UInt8Array::from(vec![Some(1), None, Some(1)]), values));
    assert_eq!(evaluate(unused, sql).unwrap(), [0, 2]);
}

#[test]
fn texts_change_case_by_character() {
    let array = || StringArray::from(vec![Some("Straße"), Some("ÄÖ"), None, Some("air")]);
    assert_eq!(rows("lower(a) = 'äö'", array()), [1]);
    assert_eq!(rows("upper(a) = 'STRAßE'", array()), [0]);
    assert_eq!(rows("upper(a) IN ('AIR', 'MAIL')", array()), [3]);
    assert_eq!(rows("upper(a) LIKE '%R' OR ends_with(a, 'Ö')", array()), [1, 3]);
    assert_eq!(rows("lower(a) IS NULL", array()), [2]);
    let dictionary: DictionaryArray<arrow::datatypes::UInt16Type> =
        vec![Some("Air"), None, Some("Mail"), Some("Air")].into_iter().collect();
    assert_eq!(rows("lower(a) = 'air'", dictionary.clone()), [0, 3]);
    assert_eq!(rows("NOT lower(a) = 'air'", dictionary.clone()), [2]);
    assert_eq!(rows("lower(a) <> a", dictionary), [0, 2, 3]);
}

#[test]
fn years_are_of_the_calendar_and_the_zone() {
    let array = || Date32Array::from(vec![Some(-1), Some(0), Some(19_782), None, Some(i32::MIN)]);
    assert_eq!(rows("year(a) = 1969", array()), [0]);
    assert_eq!(rows("month(a) = 2 AND day(a) = 29 AND year(a) = 2024", array()), [2]);
    assert_eq!(rows("year(a) < -5000000", array()), [4]);
    let micros = || TimestampMicrosecondArray::from(vec![-1, 0, i64::MIN, i64::MAX]);
    assert_eq!(rows("year(a) = 1969 AND month(a) = 12 AND day(a) = 31", micros()), [0]);
    assert_eq!(rows("year(a) IN (-290308, 294247)", micros()), [2, 3]);
    let zoned = || TimestampMicrosecondArray::from(vec![-1, 0, 1_719_792_000_000_000]);
    assert_eq!(rows("year(a) = 1970", zoned().with_timezone("Europe/Oslo")), [0, 1]);
    assert_eq!(rows("year(a) = 1969", zoned().with_timezone("-01:00")), [0, 1]);
    assert_eq!(rows("month(a) = 6 AND day(a) = 30", zoned().with_timezone("America/New_York")), [2]);
}

#[test]
fn nan_is_found_by_name_alone() {
    let array = || Float64Array::from(vec![Some(f64::NAN), Some(1.0), None]);
    assert_eq!(rows("isnan(a)", array()), [0]);
    assert_eq!(rows("NOT isnan(a)", array()), [1]);
    assert_eq!(rows("a + 1 = a", array()), [0; 0]);
    assert_eq!(rows("abs(a - 2) = 1", array()), [1]);
    assert_eq!(rows("abs(a) = 0.1", Float32Array::from(vec![-0.1, 0.2])), [0]);
}

/// Comparing `-x` in 64 bits found nothing in a column of 32 bits.
#[test]
fn a_negated_float_is_compared_in_the_type_of_its_column() {
    let array = || Float32Array::from(vec![Some(-0.1), Some(0.1), None, Some(0.0)]);
    assert_eq!(rows("-a = 0.1", array()), [0]);
    assert_eq!(rows("-a IN (0.1, -1e-1)", array()), [0, 1]);
    assert_eq!(rows("0.1 <= -a", array()), [0]);
    assert_eq!(rows("-(-a) = 0.1 OR abs(-a) < 0.05", array()), [1, 3]);
    assert_eq!(rows("-a > a", array()), [0]);
    assert!(rows("a * 1 = 0.1 OR a + 0 = 0.1", array()).is_empty(), "arithmetic is in 64 bits");

    let wide: ArrayRef = Arc::new(array());
    let half = arrow::compute::cast(&wide, &DataType::Float16).unwrap();
    let half = Float16Array::from(half.to_data());
    assert_eq!(rows("-a = 0.1", half), [0]);
}

#[test]
fn intervals_are_compared_with_durations_of_any_unit() {
    let seconds = || DurationSecondArray::from(vec![Some(3_600), Some(3_601), None, Some(-90)]);
    assert_eq!(rows("a > INTERVAL '1' HOUR", seconds()), [1]);
    assert_eq!(rows("a <= INTERVAL '3600500 milliseconds'", seconds()), [0, 3]);
    assert_eq!(rows("a IN (INTERVAL '60' MINUTE, INTERVAL '-90 seconds')", seconds()), [0, 3]);
    assert_eq!(rows("a BETWEEN INTERVAL '-1' DAY AND INTERVAL '1' DAY", seconds()), [0, 1, 3]);
    assert_eq!(rows("a IS DISTINCT FROM INTERVAL '1' HOUR", seconds()), [1, 2, 3]);
    assert_eq!(rows("a IS NULL OR a < a", seconds()), [2]);
    let micros = || DurationMicrosecondArray::from(vec![1_500_000, i64::MAX]);
    assert_eq!(rows("a = INTERVAL '1500' MILLISECOND", micros()), [0]);
    assert_eq!(rows("a < INTERVAL '1' MICROSECOND OR a > INTERVAL '200000000' DAY", micros()), [0; 0]);
    let bind_seconds = |sql: &str| bind(sql, DataType::Duration(TimeUnit::Second)).unwrap();
    assert_eq!(bind_seconds("a > INTERVAL '9999999999999' DAY"), None);
    assert_eq!(bind_seconds("a > INTERVAL '999999999999999999' DAY"), Some(false));
}

#[test]
fn distinct_from_counts_nulls_as_equal() {
    let array = || Int64Array::from(vec![Some(1), None, Some(2)]);
    assert_eq!(rows("a IS DISTINCT FROM 1", array()), [1, 2]);
    assert_eq!(rows("NOT a IS DISTINCT FROM 1", array()), [0]);
    assert_eq!(rows("a IS NOT DISTINCT FROM NULL", array()), [1]);
    assert_eq!(rows("a IS NOT DISTINCT FROM a", array()), [0, 1, 2]);
    assert_eq!(rows("a * 2 IS DISTINCT FROM a + 1", array()), [2]);
}

#[test]
fn uuids_are_compared_by_their_bytes() {
    let text = "550e8400-e29b-41d4-a716-446655440000";
    let bytes = *b"\x55\x0e\x84\x00\xe2\x9b\x41\xd4\xa7\x16\x44\x66\x55\x44\x00\x00";
    let array = || FixedSizeBinaryArray::try_from_iter([bytes, *b"550e8400-e29b-41"].iter()).unwrap();
    for sql in [
        format!("a = '{text}'"),
        format!("a = UUID '{}'", text.to_uppercase()),
        format!("a IN ('{}')", text.replace('-', "")),
        format!("a = CAST('{text}' AS UUID)"),
        format!("a = '{{{text}}}'"),
        format!("a = 'urn:uuid:{text}'"),
        format!("a >= '{text}'"),
    ] {
        assert_eq!(rows(&sql, array()), [0], "{sql}");
    }

    assert_eq!(rows("a = '550e8400-e29b-41'", array()), [1]);
    assert_eq!(rows("a < '6'", array()), [1]);
    assert_eq!(rows(&format!("a = '{text}'"), StringArray::from(vec![text])), [0]);
}

#[test]
fn a_text_that_is_no_uuid_is_not_compared_with_uuids() {
    let sixteen = DataType::FixedSizeBinary(16);
    for sql in ["a = 'nonsense'", "a <> 'nonsense'", "a IN ('nonsense')", "a IS DISTINCT FROM 'x'"] {
        assert!(matches!(bind(sql, sixteen.clone()), Err(Error::Predicate { .. })), "{sql}");
    }

    let name = ("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned());
    let field = Field::new("a", sixteen, true).with_metadata([name].into());
    let schema = Schema::new(vec![field]);
    for sql in ["a = 'nonsense'", "a < 'nonsense'", "a = '550e8400-e29b-41'"] {
        let error = Predicate::parse(sql).unwrap().bind(&schema);
        assert!(matches!(error, Err(Error::Predicate { .. })), "{sql}");
    }
    for sql in ["a = '550e8400-e29b-41d4-a716-446655440000'", "starts_with(a, 'x')", "a = X'00'"] {
        assert!(Predicate::parse(sql).unwrap().bind(&schema).is_ok(), "{sql}");
    }
}

#[test]
fn what_cannot_be_computed_is_named() {
    let error = |sql: &str, data_type: DataType| match bind(sql, data_type) {
        Err(Error::Predicate { reason }) => reason,
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(error("lower(a) = 'x'", DataType::Int32), "`lower(a)`: Int32 is not text");
    assert_eq!(error("a + 1 > 2", DataType::Utf8), "`a + 1`: a, which is Utf8, is not a number");
    assert_eq!(error("a + 'x' > 2", DataType::Int32), "`a + 'x'`: 'x' is not a number");
    assert_eq!(
        error("a + 1 = 'x'", DataType::Int32),
        "`a + 1` is Decimal128(38, 0): not comparable with `'x'`"
    );
    error("abs(a) > 1", DataType::Boolean);
    error("year(a) > 1", DataType::Utf8);
    error("isnan(a)", DataType::Int32);
    error("a + 1", DataType::Int32);
    assert_eq!(bind("a + 1 > 2 OR lower(a) = 'x' OR abs(a) < 1", DataType::Null).unwrap(), Some(false));
}
