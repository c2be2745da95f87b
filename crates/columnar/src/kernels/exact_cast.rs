//! Casts without loss.

use std::{cell::OnceCell, collections::HashMap, fmt, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Float64Builder, GenericListArray, Int64Array, ListArray, MapArray,
        OffsetSizeTrait, StructArray, new_null_array,
    },
    buffer::OffsetBuffer,
    compute::{CastOptions, cast, cast_with_options, kernels::cmp::distinct, take},
    datatypes::{DataType, Decimal128Type, Field, FieldRef, Fields, Int64Type, TimeUnit, UInt64Type},
    error::ArrowError,
    util::display::array_value_to_string,
};

/// Cast options by which a value that does not fit is an error, never null.
pub(crate) const EXACT: CastOptions<'static> = CastOptions { safe: false, format_options: FORMAT };
const FORMAT: arrow::util::display::FormatOptions<'static> = arrow::util::display::FormatOptions::new();

/// Casts the values of a file to the common type of several files: numbers are widened, timestamps may be cast to a
/// coarser unit if that loses nothing, and structs get the fields of both, by name.
pub(crate) fn common_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::{
        Date32, Date64, Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct,
        Timestamp,
    };

    let from = array.data_type();
    if from == to {
        return Ok(array.clone());
    }

    if from.is_decimal() && *to == DataType::Float64 {
        return decimals_as_floats(array);
    }
    let leaf = |array: &ArrayRef, to: &DataType| match loss_reason(array, to) {
        Some(lost) => Err(ArrowError::CastError(lost)),
        None if may_round(array.data_type(), to) => rounding_cast(array, to),
        None => cast_with_options(array, to, &EXACT),
    };

    match (from, to) {
        (Struct(_), Struct(fields)) => structs(array.as_struct(), fields),
        (Map(..), Map(entries, sorted)) => maps(array.as_map(), entries, *sorted),
        (List(_), List(item)) => lists(array.as_list::<i32>(), item),
        (LargeList(_), LargeList(item)) => lists(array.as_list::<i64>(), item),
        (LargeList(own) | ListView(own) | LargeListView(own) | FixedSizeList(own, _), List(item)) => {
            lists(cast(array, &List(own.clone()))?.as_list::<i32>(), item)
        }
        (List(own) | ListView(own) | LargeListView(own) | FixedSizeList(own, _), LargeList(item)) => {
            lists(cast(array, &LargeList(own.clone()))?.as_list::<i64>(), item)
        }
        (List(_) | LargeList(_) | ListView(_) | LargeListView(_) | FixedSizeList(..), ListView(item)) => {
            cast_with_options(&common_cast(array, &List(item.clone()))?, to, &EXACT)
        }
        (
            List(_) | LargeList(_) | ListView(_) | LargeListView(_) | FixedSizeList(..),
            LargeListView(item),
        ) => cast_with_options(&common_cast(array, &LargeList(item.clone()))?, to, &EXACT),
        (Dictionary(..), _) => {
            let coded = array.as_any_dictionary();
            match common_cast(coded.values(), if let Dictionary(_, values) = to { values } else { to }) {
                // Possibly the codes do not fit the keys, and the values of these rows do.
                Ok(values) => cast_with_options(&coded.with_values(values), to, &EXACT)
                    .or_else(|_| common_cast(&take(coded.values(), coded.keys(), None)?, to)),
                // Possibly no row refers to the value that cannot be cast.
                Err(_) => common_cast(&take(coded.values(), coded.keys(), None)?, to),
            }
        }
        // In one step, arrow would copy the integers of timestamps and dates regardless of their unit.
        (_, Dictionary(_, values)) => cast_with_options(&common_cast(array, values)?, to, &EXACT),
        (Date32, Timestamp(..)) => {
            let days = cast_with_options(array, &Timestamp(TimeUnit::Second, None), &EXACT)?;
            cast_with_options(&days, to, &EXACT)
        }
        (Date64, Timestamp(..)) => {
            let times = cast_with_options(array, &Timestamp(TimeUnit::Millisecond, None), &EXACT)?;
            leaf(&times, to)
        }
        _ => leaf(array, to),
    }
}

/// Returns `true` if arrow's cast between two types can drop digits or the time of day, or turn a number other
/// than 0 and 1 into a boolean.
fn may_round(from: &DataType, to: &DataType) -> bool {
    let to_date = matches!(to, DataType::Date32 | DataType::Date64);
    from.is_floating() && (to.is_integer() || to.is_decimal())
        || from.is_decimal() && (to.is_integer() || to.is_decimal())
        || from.is_numeric() && *to == DataType::Boolean
        || matches!(from, DataType::Timestamp(..)) && to_date
        || *from == DataType::Date64 && *to == DataType::Date32
}

/// Casts to a type with fewer digits. Fails if that changes a value.
fn rounding_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let rounded = cast_with_options(array, to, &EXACT)?;
    let back = cast_with_options(&rounded, array.data_type(), &EXACT)?;
    match distinct(&back, array)?.values().set_indices().next() {
        None => Ok(rounded),
        Some(row) => {
            let value = array_value_to_string(array, row)?;
            Err(ArrowError::CastError(format!("{value} of type {} is not exactly a {to}", array.data_type())))
        }
    }
}

/// Casts the fields of a struct by name; fields that it lacks are null.
fn structs(array: &StructArray, to: &Fields) -> Result<ArrayRef, ArrowError> {
    // Most fields are at the same index. The map of names avoids a search per field in wide structs.
    let index_by_name: OnceCell<HashMap<&str, usize>> = OnceCell::new();
    let by_name =
        || array.fields().iter().enumerate().rev().map(|(at, own)| (own.name().as_str(), at)).collect();
    let index_of = |near: usize, name: &str| match array.fields().get(near) {
        Some(own) if own.name() == name => Some(near),
        _ => index_by_name.get_or_init(by_name).get(name).copied(),
    };

    let column = |(near, field): (usize, &FieldRef)| match index_of(near, field.name())
        .and_then(|index| array.columns().get(index))
    {
        Some(column) => common_cast(column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), array.len())),
    };

    let columns = to.iter().enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
    let nulls = array.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(to.clone(), columns, nulls, array.len())?))
}

fn lists<O: OffsetSizeTrait>(array: &GenericListArray<O>, item: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let values = array.values();
    let offsets = array.value_offsets();
    let start = offsets.first().map_or(0, |at| at.as_usize());
    let end = offsets.last().map_or(0, |at| at.as_usize());
    let values = common_cast(&values.slice(start, end - start), item.data_type())?;
    let offsets = OffsetBuffer::<O>::from_lengths(array.offsets().lengths());
    Ok(Arc::new(GenericListArray::try_new(item.clone(), offsets, values, array.nulls().cloned())?))
}

/// Casts keys and values of maps by position, regardless of their names.
fn maps(array: &MapArray, entries: &FieldRef, sorted: bool) -> Result<ArrayRef, ArrowError> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(ArrowError::CastError("a map without entries".to_owned()));
    };

    let offsets = array.value_offsets();
    let start = *offsets.first().unwrap_or(&0) as usize;
    let end = *offsets.last().unwrap_or(&0) as usize;
    let of_own = array.entries().columns().iter().zip(fields);
    let columns =
        of_own.map(|(column, field)| common_cast(&column.slice(start, end - start), field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let own = StructArray::try_new(fields.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(array.offsets().lengths());

    Ok(Arc::new(MapArray::try_new(entries.clone(), offsets, own, array.nulls().cloned(), sorted)?))
}

/// Returns the reason if a value would be lost: a timestamp between those of a coarser unit, an integer without an
/// equal floating-point number, or a string with more fractional digits than the type has.
fn loss_reason(array: &ArrayRef, to: &DataType) -> Option<String> {
    use DataType::{Duration, Float64, Int64, Timestamp, UInt64};

    match (array.data_type(), to) {
        (Timestamp(unit, _), Timestamp(to, _)) => {
            let lost = fraction(array, *unit, *to)?;
            Some(format!(
                "{lost} {unit:?}s since 1970 are no whole {to:?}s, which other files need to reach as far"
            ))
        }
        (Duration(unit), Duration(to)) => {
            let lost = fraction(array, *unit, *to)?;
            Some(format!("a duration of {lost} {unit:?}s cannot be represented exactly in {to:?}s"))
        }
        (text, _) if text.is_string() => text_with_fraction(array, to),
        (Int64, Float64) => {
            let mut values = array.as_primitive::<Int64Type>().iter().flatten();
            // The largest integer would be rounded to 2^63, and saturate back to itself.
            let is_exact = |value: i64| value as f64 as i128 == i128::from(value);
            values.find(|value| !is_exact(*value)).map(no_float)
        }
        (UInt64, Float64) => {
            let mut values = array.as_primitive::<UInt64Type>().iter().flatten();
            let is_exact = |value: u64| value as f64 as i128 == i128::from(value);
            values.find(|value| !is_exact(*value)).map(no_float)
        }
        _ => None,
    }
}

/// Returns the first value that a coarser unit cannot represent.
fn fraction(array: &ArrayRef, unit: TimeUnit, to: TimeUnit) -> Option<i64> {
    let each = nanoseconds(to) / nanoseconds(unit);
    if each <= 1 {
        return None;
    }
    let numbers = cast(array, &DataType::Int64).ok()?;
    numbers.as_primitive::<Int64Type>().iter().flatten().find(|value| value % each != 0)
}

/// Casts decimals to the nearest floating-point numbers. Fails if one of them prints different digits. Arrow's own
/// cast divides by a power of ten that is already rounded, and so misses the nearest number for some decimals.
fn decimals_as_floats(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    /// Smaller dividends are exact: all decimals of this few digits survive, and the quotient of two exact numbers
    /// is the nearest.
    const EXACT_DIVIDENDS: i128 = 10_i128.pow(f64::DIGITS);
    const MAX_EXACT_POWER: i8 = 22;

    let array = &match array.data_type() {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            cast_with_options(array, &DataType::Decimal128(*precision, *scale), &EXACT)?
        }
        _ => array.clone(),
    };

    let exact_power = match array.data_type() {
        DataType::Decimal128(_, scale @ 0..=MAX_EXACT_POWER) => Some(10_f64.powi(i32::from(*scale))),
        _ => None,
    };
    let short = array.as_primitive_opt::<Decimal128Type>().zip(exact_power);

    let mut floats = Float64Builder::with_capacity(array.len());
    for row in 0..array.len() {
        if array.is_null(row) {
            floats.append_null();
            continue;
        }

        let quotient = short.and_then(|(decimals, power)| {
            let dividend = decimals.value(row);
            (-EXACT_DIVIDENDS..EXACT_DIVIDENDS).contains(&dividend).then(|| dividend as f64 / power)
        });
        floats.append_value(match quotient {
            Some(quotient) => quotient,
            None => exact_float(&array_value_to_string(array, row)?)?,
        });
    }

    Ok(Arc::new(floats.finish()))
}

/// Parses a decimal as the nearest floating-point number. Fails if that prints different digits.
fn exact_float(text: &str) -> Result<f64, ArrowError> {
    let inexact = || ArrowError::CastError(no_float(text));
    let nearest: f64 = text.parse().map_err(|_| inexact())?;
    let is_exact = without_trailing_zeros(&nearest.to_string()) == without_trailing_zeros(text);
    is_exact.then_some(nearest).ok_or_else(inexact)
}

/// Returns the reason if a string has more fractional digits than a type of numbers or times.
fn text_with_fraction(array: &ArrayRef, to: &DataType) -> Option<String> {
    let digits = fractional_digits(to)?;
    let texts = cast(array, &DataType::Utf8).ok()?;
    let texts = texts.as_string::<i32>();
    let lost = texts.iter().flatten().find(|text| has_more_digits(text, digits))?;
    Some(format!("{lost} cannot be represented exactly as {to}"))
}

/// Returns the number of fractional digits of a type of decimals or times.
pub(crate) fn fractional_digits(data_type: &DataType) -> Option<usize> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Time32, Time64, Timestamp};

    match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            Some((*scale).max(0).unsigned_abs().into())
        }
        Timestamp(unit, _) | Time32(unit) | Time64(unit) => Some(match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        }),
        _ => None,
    }
}

/// Returns true if the fraction of a number or a time has more digits, apart from zeros at its end.
pub(crate) fn has_more_digits(text: &str, digits: usize) -> bool {
    let Some((_, rest)) = text.split_once('.') else { return false };
    let fraction = rest.split(|other: char| !other.is_ascii_digit()).next().unwrap_or_default();
    fraction.trim_end_matches('0').len() > digits
}

/// Returns a number without the zeros at the end of its fraction.
fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

fn no_float(value: impl fmt::Display) -> String {
    format!("{value} cannot be represented exactly as float64")
}

/// Reason why an array cannot be cast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inexact {
    /// The value in this row would change.
    Row(usize),
    /// There is no such cast.
    Type(String),
}

/// Casts values to another type. Fails if one of them would change or become null.
///
/// # Errors
///
/// [`Inexact`], with the first row whose value has no equal in the other type.
pub fn exact_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Inexact> {
    use DataType::{Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Timestamp};
    let from = array.data_type();
    if from == to {
        return Ok(array.clone());
    }

    match (from, to) {
        (Dictionary(_, values), _) => exact_cast(&cast(array, values).map_err(no_cast)?, to),
        (Timestamp(unit, _), Timestamp(to_unit, None)) => times(array, *unit, *to_unit),
        (List(inner), List(wanted)) => list(array.as_list(), inner, wanted),
        (
            LargeList(inner) | FixedSizeList(inner, _) | ListView(inner) | LargeListView(inner),
            List(wanted),
        ) => {
            let plain = cast(array, &List(inner.clone())).map_err(no_cast)?;
            list(plain.as_list(), inner, wanted)
        }
        _ => value(array, to),
    }
}

fn no_cast(error: ArrowError) -> Inexact {
    Inexact::Type(error.to_string())
}

/// Detects values that a cast turns into null, and those that differ when they are cast back.
fn value(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Inexact> {
    let done = cast_with_options(array, to, &CastOptions { safe: true, ..CastOptions::default() });
    let done = done.map_err(no_cast)?;
    if done.null_count() > array.logical_null_count() {
        let nulls = array.logical_nulls();
        let was_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let lost = (0..array.len()).find(|row| done.is_null(*row) && was_valid(*row));
        return Err(Inexact::Row(lost.unwrap_or_default()));
    }

    let is_widened = array.data_type().is_integer() && to.is_integer();
    if is_widened || matches!(to, DataType::Utf8) {
        return Ok(done);
    }

    let back = cast(&done, array.data_type()).map_err(no_cast)?;
    let changed = distinct(&back, array).map_err(no_cast)?;
    match changed.values().set_indices().next() {
        None => Ok(done),
        Some(row) => Err(Inexact::Row(row)),
    }
}

/// Casts timestamps. A zone affects only their display.
fn times(array: &ArrayRef, from: TimeUnit, to: TimeUnit) -> Result<ArrayRef, Inexact> {
    let from = nanoseconds(from);
    let each = nanoseconds(to);
    let scaled = |value: i64| {
        if from >= each {
            value.checked_mul(from / each)
        } else {
            (value % (each / from) == 0).then_some(value / (each / from))
        }
    };

    let numbers = cast(array, &DataType::Int64).map_err(no_cast)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let wrong =
        (0..numbers.len()).find(|row| numbers.is_valid(*row) && scaled(numbers.value(*row)).is_none());
    if let Some(row) = wrong {
        return Err(Inexact::Row(row));
    }

    let times: Int64Array = numbers.unary(|value| scaled(value).unwrap_or_default());
    cast(&times, &DataType::Timestamp(to, None)).map_err(no_cast)
}

fn nanoseconds(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn list(lists: &ListArray, inner: &FieldRef, wanted: &FieldRef) -> Result<ArrayRef, Inexact> {
    let offsets = lists.value_offsets();
    let start = offsets.first().copied().unwrap_or(0);
    let end = offsets.last().copied().unwrap_or(0);
    // Values outside of the slice must not be an error.
    let values = lists.values().slice(start as usize, (end - start) as usize);
    let field = Arc::new(Field::clone(wanted).with_nullable(wanted.is_nullable() || inner.is_nullable()));
    let values = exact_cast(&values, field.data_type()).map_err(|inexact| match inexact {
        Inexact::Row(at) => {
            let at = start as usize + at;
            Inexact::Row(offsets.partition_point(|offset| *offset as usize <= at).saturating_sub(1))
        }
        inexact @ Inexact::Type(_) => inexact,
    })?;

    let offsets = OffsetBuffer::from_lengths(lists.offsets().lengths());
    let lists = ListArray::try_new(field, offsets, values, lists.nulls().cloned()).map_err(no_cast)?;
    Ok(Arc::new(lists))
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{
            BooleanArray, Date64Array, Decimal128Array, DictionaryArray, DurationMillisecondArray,
            DurationSecondArray, Float16Array, Float64Array, Int8Array, Int32Array, LargeStringArray,
            StringArray, StringViewArray, TimestampMicrosecondArray, TimestampNanosecondArray,
            TimestampSecondArray, UInt32Array,
        },
        datatypes::{Float64Type, Int8Type, Int32Type, TimestampMillisecondType},
    };

    use super::*;

    const MILLISECONDS: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

    fn same(from: impl Array + 'static, to: impl Array + 'static) {
        let from: ArrayRef = Arc::new(from);
        let to: ArrayRef = Arc::new(to);
        assert_eq!(&exact_cast(&from, to.data_type()).unwrap(), &to);
    }

    #[test]
    fn what_is_only_another_form_is_the_same() {
        let texts = StringArray::from(vec![Some("a"), None, Some("")]);
        same(LargeStringArray::from(vec![Some("a"), None, Some("")]), texts.clone());
        same(StringViewArray::from(vec![Some("a"), None, Some("")]), texts.clone());
        let codes: DictionaryArray<Int8Type> = vec![Some("a"), None, Some("")].into_iter().collect();
        same(codes, texts);
        same(Int8Array::from(vec![Some(-1), None]), Int64Array::from(vec![Some(-1), None]));
        same(UInt32Array::from(vec![u32::MAX]), Int64Array::from(vec![i64::from(u32::MAX)]));
        same(Date64Array::from(vec![86_400_000]), arrow::array::Date32Array::from(vec![1]));
        let halves = Float16Array::from_iter_values([half(1.5), half(f32::NAN)]);
        let floats: ArrayRef = exact_cast(&(Arc::new(halves) as ArrayRef), &DataType::Float32).unwrap();
        assert_eq!(floats.as_primitive::<arrow::datatypes::Float32Type>().value(0), 1.5);
    }

    fn half(value: f32) -> <arrow::datatypes::Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native {
        let array: ArrayRef = Arc::new(arrow::array::Float32Array::from(vec![value]));
        cast(&array, &DataType::Float16).unwrap().as_primitive::<arrow::datatypes::Float16Type>().value(0)
    }

    #[test]
    fn times_that_lie_between_milliseconds_are_found() {
        let times = TimestampMicrosecondArray::from(vec![Some(-2000), None, Some(5)]).with_timezone("+03:00");
        let whole: ArrayRef = Arc::new(times.slice(0, 2));
        let done = exact_cast(&whole, &MILLISECONDS).unwrap();
        assert_eq!(done.as_primitive::<TimestampMillisecondType>().value(0), -2);
        let times: ArrayRef = Arc::new(times);
        assert_eq!(exact_cast(&times, &MILLISECONDS).unwrap_err(), Inexact::Row(2));
        let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0, i64::MAX]));
        assert_eq!(exact_cast(&far, &MILLISECONDS).unwrap_err(), Inexact::Row(1));
        let fine: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![Some(3000), None, Some(1)]));
        let to = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(exact_cast(&fine, &to).unwrap_err(), Inexact::Row(2));
        let whole: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(3), None]));
        assert_eq!(&exact_cast(&fine.slice(0, 2), &to).unwrap(), &whole);
        let day: ArrayRef = Arc::new(Date64Array::from(vec![0, 1]));
        assert_eq!(exact_cast(&day, &DataType::Date32).unwrap_err(), Inexact::Row(1));
    }

    #[test]
    fn fields_of_structs_are_found_by_name_wherever_they_are() {
        let count = 5_000;
        let name = |at: usize| format!("f{at}");
        let own: Fields = (0..count).map(|at| Field::new(name(at), DataType::Int32, false)).collect();
        let columns = (0..count as i32).map(|at| Arc::new(Int32Array::from(vec![at, -at])) as ArrayRef);
        let array: ArrayRef = Arc::new(StructArray::new(own, columns.collect(), None));
        // Some fields at the same index, the others in reverse order, and one missing.
        let order: Vec<usize> = (0..count / 2).chain((count / 2..=count).rev()).collect();
        let wanted = order.iter().map(|at| Field::new(name(*at), DataType::Int64, *at == count));
        let done = common_cast(&array, &DataType::Struct(wanted.collect())).unwrap();

        for (column, at) in done.as_struct().columns().iter().zip(order) {
            if at == count {
                assert_eq!(column.null_count(), 2);
            } else {
                assert_eq!(column.as_primitive::<Int64Type>().values(), &[at as i64, -(at as i64)]);
            }
        }
    }

    #[test]
    fn values_become_dictionaries_of_other_units() {
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![Some(3000), None, Some(-1000)]));
        let days: ArrayRef = Arc::new(arrow::array::Date32Array::from(vec![Some(3), None, Some(-1)]));
        for (array, to) in
            [(times, DataType::Timestamp(TimeUnit::Microsecond, None)), (days, DataType::Date64)]
        {
            let coded = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(to.clone()));
            let expected = cast(&array, &to).unwrap();
            assert_eq!(&cast(&common_cast(&array, &coded).unwrap(), &to).unwrap(), &expected);
            let coded = cast(
                &array,
                &DataType::Dictionary(Box::new(DataType::Int8), Box::new(array.data_type().clone())),
            );
            assert_eq!(&common_cast(&coded.unwrap(), &to).unwrap(), &expected);
        }

        let between: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![Some(3001)]));
        assert!(common_cast(&between, &DataType::Timestamp(TimeUnit::Microsecond, None)).is_err());
    }

    #[test]
    fn decimals_become_floats_that_show_the_same_digits() {
        let decimals = |values: Vec<i128>, scale: i8| -> ArrayRef {
            let values = Decimal128Array::from(values);
            Arc::new(values.with_precision_and_scale(38, scale).unwrap())
        };
        let short = decimals(vec![10, -225, 0], 2);
        let done = common_cast(&short, &DataType::Float64).unwrap();
        assert_eq!(done.as_primitive::<Float64Type>().values(), &[0.1, -2.25, 0.0]);

        // 15 digits of a fraction that is written with 18.
        let long = decimals(vec![123_456_789_012_345 * 10_i128.pow(15)], 18);
        assert!(common_cast(&long, &DataType::Float64).is_ok());
        let lost = decimals(vec![1, 12_345_678_901_234_567_891], 19);
        let error = common_cast(&lost, &DataType::Float64).unwrap_err().to_string();
        assert!(error.contains("1.2345678901234567891 cannot be represented exactly as float64"), "{error}");

        // The nearest numbers, also where arrow's own cast is off by one.
        for (value, scale, expected) in [
            (164_630 * 10_i128.pow(16), 18, 1_646.3),
            (274 * 10_i128.pow(22), 24, 2.74),
            (50_924_156 * 10_i128.pow(13), 15, 509_241.56),
        ] {
            let done = common_cast(&decimals(vec![value], scale), &DataType::Float64).unwrap();
            assert_eq!(done.as_primitive::<Float64Type>().value(0), expected);
        }
    }

    #[test]
    fn texts_with_more_fractional_digits_than_the_type_are_refused() {
        let texts = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![Some(text), None])) };
        let cents = DataType::Decimal128(10, 2);
        assert!(common_cast(&texts("0.1200"), &cents).is_ok());
        let error = common_cast(&texts("0.129"), &cents).unwrap_err().to_string();
        assert!(error.contains("0.129 cannot be represented exactly as Decimal128(10, 2)"), "{error}");

        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        assert!(common_cast(&texts("2024-01-01T12:00:00.000"), &seconds).is_ok());
        assert!(common_cast(&texts("2024-01-01T12:00:00.5"), &seconds).is_err());
    }

    #[test]
    fn lists_become_list_views_of_any_width() {
        let rows = vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(2)])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows));
        let lists = lists.slice(1, 3);
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        let plain = common_cast(&lists, &DataType::List(item.clone())).unwrap();

        for to in [DataType::ListView(item.clone()), DataType::LargeListView(item.clone())] {
            let views = common_cast(&lists, &to).unwrap();
            assert_eq!((views.data_type(), views.len(), views.null_count()), (&to, 3, 1));
            assert_eq!(&common_cast(&views, plain.data_type()).unwrap(), &plain);
        }
    }

    #[test]
    fn durations_are_cast_to_other_units_unless_a_value_is_lost() {
        let seconds: ArrayRef = Arc::new(DurationSecondArray::from(vec![Some(3), None]));
        let millis: ArrayRef = Arc::new(DurationMillisecondArray::from(vec![Some(3_000), None]));
        assert_eq!(&common_cast(&seconds, millis.data_type()).unwrap(), &millis);
        assert_eq!(&common_cast(&millis, seconds.data_type()).unwrap(), &seconds);

        let between: ArrayRef = Arc::new(DurationMillisecondArray::from(vec![1]));
        let error = common_cast(&between, seconds.data_type()).unwrap_err().to_string();
        assert!(error.contains("1 Milliseconds cannot be represented exactly in Seconds"), "{error}");
        let far: ArrayRef = Arc::new(DurationSecondArray::from(vec![i64::MAX]));
        assert!(common_cast(&far, millis.data_type()).is_err());
    }

    #[test]
    fn only_zero_and_one_are_booleans() {
        let flags: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(0), Some(2)]));
        let done = common_cast(&flags.slice(0, 3), &DataType::Boolean).unwrap();
        assert_eq!(done.as_boolean(), &BooleanArray::from(vec![Some(true), None, Some(false)]));
        let error = common_cast(&flags, &DataType::Boolean).unwrap_err().to_string();
        assert!(error.contains("2 of type Int32 is not exactly a Boolean"), "{error}");
        let half: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
        assert!(common_cast(&half, &DataType::Boolean).is_err());
    }

    #[test]
    fn lists_are_cast_by_their_values_and_only_those_that_they_have() {
        let lists =
            vec![Some(vec![Some(300)]), None, Some(vec![]), Some(vec![Some(1), None]), Some(vec![Some(400)])];
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        let to = |inner| DataType::List(Arc::new(Field::new_list_field(inner, true)));
        let whole: ArrayRef = Arc::new(lists.clone());
        assert_eq!(exact_cast(&whole, &to(DataType::Int8)).unwrap_err(), Inexact::Row(0));
        let rest: ArrayRef = Arc::new(lists.slice(1, 4));
        assert_eq!(exact_cast(&rest, &to(DataType::Int8)).unwrap_err(), Inexact::Row(3));
        let some: ArrayRef = Arc::new(lists.slice(1, 3));
        let large = cast(&some, &DataType::LargeList(Arc::new(Field::new_list_field(DataType::Int32, true))))
            .unwrap();

        for some in [some, large] {
            let done = exact_cast(&some, &to(DataType::Int64)).unwrap();
            let wanted = vec![None, Some(vec![]), Some(vec![Some(1), None])];
            let wanted: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(wanted));
            assert_eq!(&done, &wanted);
        }
    }
}
