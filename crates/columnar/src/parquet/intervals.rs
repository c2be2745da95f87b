//! Decodes Parquet intervals, which have months, days and milliseconds, as their 12 bytes, since the parquet crate
//! drops either the months or the rest.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayData, ArrayRef, FixedSizeBinaryArray, IntervalDayTimeArray, IntervalMonthDayNanoArray,
        IntervalYearMonthArray, make_array,
    },
    datatypes::{DataType, Field, FieldRef, IntervalDayTime, IntervalMonthDayNano, IntervalUnit},
};
use parquet::{
    basic::ConvertedType,
    errors::ParquetError,
    schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr},
};

const WIDTH: i32 = 12;
const NANOSECONDS: i64 = 1_000_000;

/// Returns the schema with plain bytes in place of intervals; the schema itself if it has none.
pub(super) fn without_intervals(schema: &SchemaDescPtr) -> Result<SchemaDescPtr, ParquetError> {
    if schema.columns().iter().all(|column| column.converted_type() != ConvertedType::INTERVAL) {
        return Ok(schema.clone());
    }
    Ok(Arc::new(SchemaDescriptor::new(plain_type(schema.root_schema_ptr().as_ref())?)))
}

/// Returns the type, and its children, without interval annotations.
fn plain_type(of: &Type) -> Result<TypePtr, ParquetError> {
    let info = of.get_basic_info();
    let id = info.has_id().then(|| info.id());
    if let Type::PrimitiveType { physical_type, type_length, scale, precision, .. } = of {
        let converted = match info.converted_type() {
            ConvertedType::INTERVAL => ConvertedType::NONE,
            other => other,
        };
        let plain = Type::primitive_type_builder(info.name(), *physical_type)
            .with_repetition(info.repetition())
            .with_converted_type(converted)
            .with_logical_type(info.logical_type_ref().cloned())
            .with_length(*type_length)
            .with_precision(*precision)
            .with_scale(*scale)
            .with_id(id);

        return plain.build().map(Arc::new);
    }

    let fields = of.get_fields().iter().map(|field| plain_type(field)).collect::<Result<_, _>>()?;
    let plain = Type::group_type_builder(info.name()).with_fields(fields);
    let plain = plain.with_converted_type(info.converted_type());
    let plain = plain.with_logical_type(info.logical_type_ref().cloned()).with_id(id);
    let plain = if info.has_repetition() { plain.with_repetition(info.repetition()) } else { plain };

    plain.build().map(Arc::new)
}

/// Returns the field with the unit that has all parts of an interval, at every depth: for files that do not store the
/// unit they were written with.
pub(super) fn with_all_parts(field: &Field) -> Field {
    let inner = |field: &FieldRef| Arc::new(with_all_parts(field));
    let data_type = match field.data_type() {
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(inner(item), *size),
        DataType::Map(entries, is_sorted) => DataType::Map(inner(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => other.clone(),
    };

    field.clone().with_data_type(data_type)
}

/// Returns the decoded values with intervals in place of their bytes, wherever `to` has intervals.
pub(super) fn restored(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    if array.data_type() == to {
        Ok(array.clone())
    } else {
        restored_data(array.to_data(), to).map(make_array)
    }
}

fn restored_data(data: ArrayData, to: &DataType) -> Result<ArrayData, String> {
    if data.data_type() == to {
        return Ok(data);
    }
    if let (DataType::FixedSizeBinary(WIDTH), DataType::Interval(unit)) = (data.data_type(), to) {
        return intervals(&FixedSizeBinaryArray::from(data), *unit).map(|array| array.to_data());
    }

    let types: Vec<&DataType> = match to {
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.data_type()],
        _ => return Err(format!("{} where {to} was expected", data.data_type())),
    };

    let children = data.child_data().iter().cloned().zip(types);
    let children = children.map(|(child, to)| restored_data(child, to)).collect::<Result<Vec<_>, _>>()?;
    let builder = data.into_builder().data_type(to.clone()).child_data(children);
    builder.build().map_err(|error| error.to_string())
}

fn intervals(bytes: &FixedSizeBinaryArray, unit: IntervalUnit) -> Result<ArrayRef, String> {
    let parts = (0..bytes.len()).map(|row| bytes.is_valid(row).then(|| parts(bytes.value(row))));
    let lost =
        |of: &str| format!("an interval with {of}, which the type in the file's Arrow schema does not have");
    Ok(match unit {
        IntervalUnit::MonthDayNano => {
            let whole = |[months, days, milliseconds]: [i32; 3]| {
                let nanoseconds = i64::from(milliseconds.cast_unsigned()) * NANOSECONDS;
                IntervalMonthDayNano::new(months, days, nanoseconds)
            };
            Arc::new(parts.map(|parts| parts.map(whole)).collect::<IntervalMonthDayNanoArray>())
        }
        IntervalUnit::DayTime => {
            let without_months = |[months, days, milliseconds]: [i32; 3]| match months {
                0 => Ok(IntervalDayTime::new(days, milliseconds)),
                _ => Err(lost("months")),
            };
            let parts = parts.map(|parts| parts.map(without_months).transpose());
            Arc::new(parts.collect::<Result<IntervalDayTimeArray, _>>()?)
        }
        IntervalUnit::YearMonth => {
            let only_months = |[months, days, milliseconds]: [i32; 3]| match (days, milliseconds) {
                (0, 0) => Ok(months),
                _ => Err(lost("days or milliseconds")),
            };
            let parts = parts.map(|parts| parts.map(only_months).transpose());
            Arc::new(parts.collect::<Result<IntervalYearMonthArray, _>>()?)
        }
    })
}

/// Returns months, days and milliseconds.
fn parts(bytes: &[u8]) -> [i32; 3] {
    let mut parts = [0; 3];
    let (chunks, _) = bytes.as_chunks::<4>();
    parts.iter_mut().zip(chunks).for_each(|(part, bytes)| *part = i32::from_le_bytes(*bytes));
    parts
}

#[cfg(test)]
mod tests {
    use arrow::{array::AsArray, datatypes::IntervalMonthDayNanoType};

    use super::*;

    fn bytes(values: &[Option<[i32; 3]>]) -> ArrayRef {
        let bytes = |parts: &[i32; 3]| parts.iter().flat_map(|part| part.to_le_bytes()).collect::<Vec<u8>>();
        let values = values.iter().map(|parts| parts.as_ref().map(bytes));
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, WIDTH).unwrap())
    }

    #[test]
    fn all_parts_come_back_or_are_an_error() {
        let array = bytes(&[Some([1, -2, -1]), None, Some([0, 0, 5])]);
        let whole = restored(&array, &DataType::Interval(IntervalUnit::MonthDayNano)).unwrap();
        let whole = whole.as_primitive::<IntervalMonthDayNanoType>();
        assert_eq!(whole.value(0), IntervalMonthDayNano::new(1, -2, i64::from(u32::MAX) * NANOSECONDS));
        assert!(whole.is_null(1));
        assert!(restored(&array, &DataType::Interval(IntervalUnit::DayTime)).unwrap_err().contains("months"));
        let days = restored(&array.slice(1, 2), &DataType::Interval(IntervalUnit::DayTime)).unwrap();
        assert_eq!(days.null_count(), 1);
        assert!(restored(&array, &DataType::Interval(IntervalUnit::YearMonth)).unwrap_err().contains("days"));
    }
}
