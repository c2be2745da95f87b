//! Conversion of Python values to filter literals.

use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyMemoryView, PyString, PyType},
};
use stylobate_columnar::Literal;

use crate::errors::ErrorClass;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;
/// `date(1970, 1, 1).toordinal()`
const EPOCH_ORDINAL: i64 = 719_163;

/// Converts a Python value. Fails with TypeError if no column can be compared with it, and with FilterError if it is
/// out of range.
pub(crate) fn literal(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    if value.is_none() {
        return Ok(Literal::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Literal::Boolean(value.is_true()));
    }

    if value.is_instance_of::<PyInt>() {
        return integer(value);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Literal::Float(value.extract()?));
    }

    if let Ok(value) = value.cast::<PyString>() {
        return Ok(Literal::String(value.to_cow()?.into_owned()));
    }
    if let Ok(value) = value.cast::<PyBytes>() {
        return Ok(Literal::Binary(value.as_bytes().to_vec()));
    }

    if value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>() {
        let bytes = value.py().get_type::<PyBytes>().call1((value,))?;
        return Ok(Literal::Binary(bytes.extract()?));
    }

    if is_of(value, "decimal", "Decimal")? {
        return decimal(value);
    }
    // A datetime is also a date, so it is checked first.
    if is_of(value, "datetime", "datetime")? {
        return timestamp(value);
    }
    if is_of(value, "datetime", "date")? {
        return date(value);
    }
    if is_of(value, "datetime", "time")? {
        return time(value);
    }
    if is_of(value, "datetime", "timedelta")? {
        return duration(value).map(Literal::Duration);
    }

    foreign(value)
}

fn is_of(value: &Bound<'_, PyAny>, module: &str, class: &str) -> PyResult<bool> {
    let class = value.py().import(module)?.getattr(class)?;
    value.is_instance(class.cast::<PyType>()?)
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    match value.extract::<i128>() {
        Ok(value) => Ok(Literal::Integer(value)),
        Err(_) => Err(out_of_bounds(value, "does not fit in 128 bits")),
    }
}

fn out_of_bounds(value: &Bound<'_, PyAny>, why: &str) -> PyErr {
    let text = value.str().map_or_else(|_| "the number".to_owned(), |text| text.to_string());
    ErrorClass::Filter.error(value.py(), format!("filter: {text} {why}"))
}

fn decimal(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    let (negative, digits, exponent): (bool, Vec<u8>, Bound<'_, PyAny>) = {
        let parts = value.call_method0("as_tuple")?;
        let sign: u8 = parts.getattr("sign")?.extract()?;
        (sign == 1, parts.getattr("digits")?.extract()?, parts.getattr("exponent")?)
    };

    let Ok(exponent) = exponent.extract::<i32>() else {
        return Err(out_of_bounds(value, "is not a number"));
    };

    let too_long = || out_of_bounds(value, "has more digits than the 38 that a decimal may have");
    let mut unscaled: i128 = 0;
    let zeros = usize::try_from(exponent).unwrap_or(0);

    for digit in digits.into_iter().chain(std::iter::repeat_n(0, zeros.min(39))) {
        let next = unscaled.checked_mul(10).and_then(|unscaled| unscaled.checked_add(i128::from(digit)));
        unscaled = next.ok_or_else(too_long)?;
    }

    let scale = u8::try_from(exponent.min(0).unsigned_abs()).map_err(|_| too_long())?;
    Ok(Literal::Decimal { unscaled: if negative { -unscaled } else { unscaled }, scale })
}

fn days(date: &Bound<'_, PyAny>) -> PyResult<i64> {
    Ok(date.call_method0("toordinal")?.extract::<i64>()? - EPOCH_ORDINAL)
}

fn date(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    match i32::try_from(days(value)?) {
        Ok(days) => Ok(Literal::Date(days)),
        Err(_) => Err(out_of_bounds(value, "is not a date")),
    }
}

/// Returns the nanoseconds since midnight of a time or datetime; those of pandas have nanoseconds.
fn nanos_of_day(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    let part = |name| value.getattr(name)?.extract::<i128>();
    let seconds = (part("hour")? * 60 + part("minute")?) * 60 + part("second")?;
    let nanos = if value.hasattr("nanosecond")? { part("nanosecond")? } else { 0 };
    Ok(seconds * NANOS_PER_SECOND + part("microsecond")? * 1000 + nanos)
}

/// Returns the UTC offset of the value in nanoseconds; `None` without a time zone.
fn offset(value: &Bound<'_, PyAny>) -> PyResult<Option<i128>> {
    let offset = value.call_method0("utcoffset")?;
    if offset.is_none() {
        return Ok(None);
    }

    duration(&offset).map(Some)
}

/// Returns the nanoseconds of a timedelta; those of pandas have nanoseconds.
fn duration(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    let part = |name| value.getattr(name)?.extract::<i128>();
    let nanos = if value.hasattr("nanoseconds")? { part("nanoseconds")? } else { 0 };
    let whole = part("days")? * NANOS_PER_DAY + part("seconds")? * NANOS_PER_SECOND;
    Ok(whole + part("microseconds")? * 1000 + nanos)
}

fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    // pandas.NaT is a datetime that does not equal itself.
    if value.ne(value)? {
        return Ok(Literal::Null);
    }

    let local = i128::from(days(value)?) * NANOS_PER_DAY + nanos_of_day(value)?;
    Ok(Literal::Timestamp(local - offset(value)?.unwrap_or(0)))
}

fn time(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    let offset = match offset(value)? {
        Some(offset) => offset,
        None if value.getattr("tzinfo")?.is_none() => 0,
        None => return Err(out_of_bounds(value, "is in a zone whose offset depends on the date")),
    };

    let nanos = (nanos_of_day(value)? - offset).rem_euclid(NANOS_PER_DAY);
    i64::try_from(nanos).map(Literal::Time).map_err(|_| out_of_bounds(value, "is not a time"))
}

/// Converts scalars of numpy and pyarrow through their Python values, and UUIDs to bytes.
fn foreign(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    if value.hasattr("dtype")? && value.hasattr("item")? && !value.hasattr("__len__")? {
        let kind: String = value.getattr("dtype")?.getattr("kind")?.extract()?;
        if kind == "M" {
            return numpy_datetime(value);
        }

        let item = value.call_method0("item")?;
        if kind == "m" {
            if let Some(literal) = numpy_timedelta(value, &item)? {
                return Ok(literal);
            }
        } else if !item.get_type().is(value.get_type()) {
            // The item of a long double is a long double again.
            return literal(&item);
        }
    } else if value.hasattr("as_py")? {
        let item = value.call_method0("as_py")?;
        if !item.hasattr("as_py")? {
            return literal(&item);
        }
    }

    let class = value.get_type().fully_qualified_name()?;
    if class.to_cow()? == "uuid.UUID" {
        return Ok(Literal::Binary(value.getattr("bytes")?.extract()?));
    }

    Err(PyTypeError::new_err(format!(
        "a column cannot be compared with a {class}: give a number, str, bytes, bool, None, Decimal, date, \
         time, datetime, timedelta, UUID, or another column"
    )))
}

/// Converts a `timedelta64` whose item is given; `None` for units without a fixed length.
fn numpy_timedelta(value: &Bound<'_, PyAny>, item: &Bound<'_, PyAny>) -> PyResult<Option<Literal>> {
    if value.ne(value)? {
        return Ok(Some(Literal::Null));
    }
    if is_of(item, "datetime", "timedelta")? {
        return duration(item).map(|nanos| Some(Literal::Duration(nanos)));
    }

    // A Python timedelta has no nanoseconds: the item is their number.
    let unit: String = value.getattr("dtype")?.getattr("name")?.extract()?;
    if unit == "timedelta64[ns]" { Ok(Some(Literal::Duration(item.extract()?))) } else { Ok(None) }
}

/// Converts `datetime64[D]` to a date, and other units to a timestamp in nanoseconds.
fn numpy_datetime(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    if value.ne(value)? {
        return Ok(Literal::Null);
    }

    let item = value.call_method1("astype", ("datetime64[us]",))?.call_method0("item")?;
    if value.getattr("dtype")?.getattr("name")?.extract::<String>()? == "datetime64[D]" {
        return date(&item);
    }

    let Literal::Timestamp(micros) = timestamp(&item)? else { return Ok(Literal::Null) };

    // The nanoseconds that a Python datetime cannot hold.
    let rest = value.call_method1("__sub__", (value.call_method1("astype", ("datetime64[us]",))?,))?;
    let rest: i64 =
        rest.call_method1("astype", ("timedelta64[ns]",))?.call_method1("astype", ("int64",))?.extract()?;

    Ok(Literal::Timestamp(micros + i128::from(rest)))
}
