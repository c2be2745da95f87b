//! Classes of types: their comparability, and the numbering of their values.

use arrow::{
    array::{Array, AsArray},
    buffer::ScalarBuffer,
    datatypes::{
        ArrowNativeType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
        Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
        DurationSecondType, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
        Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type, i256,
    },
};

use super::civil::{NANOS_PER_DAY, NANOS_PER_SECOND};

/// Class of types with the same kind of values: a predicate bound to one can be evaluated on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeClass {
    Boolean,
    Integer,
    /// Integers in units of 10^-`scale`.
    Decimal {
        scale: i8,
    },
    Float,
    /// Integers in units of `nanos` nanoseconds since 1970-01-01.
    Date {
        nanos: i128,
    },
    /// Integers in units of `nanos` nanoseconds since midnight.
    Time {
        nanos: i128,
    },
    /// Integers in units of `nanos` nanoseconds since 1970-01-01T00:00:00.
    Timestamp {
        nanos: i128,
    },
    /// Integers in units of `nanos` nanoseconds.
    Duration {
        nanos: i128,
    },
    Text,
    Bytes,
    /// Only nulls.
    Null,
    /// Not comparable.
    Other,
}

impl TypeClass {
    pub(crate) fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Self::Integer,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => Self::Integer,
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => Self::Decimal { scale: *scale },
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Self::Float,
            DataType::Date32 => Self::Date { nanos: NANOS_PER_DAY },
            DataType::Date64 => Self::Date { nanos: unit_nanos(TimeUnit::Millisecond) },
            DataType::Time32(unit) | DataType::Time64(unit) => Self::Time { nanos: unit_nanos(*unit) },
            DataType::Timestamp(unit, _) => Self::Timestamp { nanos: unit_nanos(*unit) },
            DataType::Duration(unit) => Self::Duration { nanos: unit_nanos(*unit) },
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytes,
            DataType::Null => Self::Null,
            DataType::Dictionary(_, values) => Self::of(values),
            _ => Self::Other,
        }
    }
}

fn unit_nanos(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => NANOS_PER_SECOND,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Integer type of array values.
pub(crate) trait ComparableInteger: Copy + Ord {
    const LOWEST: Self;
    const HIGHEST: Self;

    fn wide(self) -> i256;

    /// Returns the same number, if it fits.
    fn narrow(wide: i256) -> Option<Self>;
}

macro_rules! whole {
    ($($native:ty),+) => {
        $(impl ComparableInteger for $native {
            const LOWEST: Self = Self::MIN;
            const HIGHEST: Self = Self::MAX;

            fn wide(self) -> i256 {
                i256::from_i128(self as i128)
            }

            fn narrow(wide: i256) -> Option<Self> {
                wide.to_i128()?.try_into().ok()
            }
        })+
    };
}

whole!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

impl ComparableInteger for i256 {
    const LOWEST: Self = Self::MIN;
    const HIGHEST: Self = Self::MAX;

    fn wide(self) -> i256 {
        self
    }

    fn narrow(wide: i256) -> Option<Self> {
        Some(wide)
    }
}

/// Operation on an array's integers of any width.
pub(crate) trait IntegerVisitor {
    type Output;

    fn with<T: ComparableInteger + ArrowNativeType>(self, values: &ScalarBuffer<T>) -> Self::Output;
}

/// Calls `with` on an array's integers; `None` if its values are not integers.
pub(crate) fn with_whole<W: IntegerVisitor>(array: &dyn Array, with: W) -> Option<W::Output> {
    macro_rules! values {
        ($type:ty) => {
            Some(with.with(array.as_primitive_opt::<$type>()?.values()))
        };
    }
    match array.data_type() {
        DataType::Int8 => values!(Int8Type),
        DataType::Int16 => values!(Int16Type),
        DataType::Int32 => values!(Int32Type),
        DataType::Int64 => values!(Int64Type),
        DataType::UInt8 => values!(UInt8Type),
        DataType::UInt16 => values!(UInt16Type),
        DataType::UInt32 => values!(UInt32Type),
        DataType::UInt64 => values!(UInt64Type),
        DataType::Decimal32(..) => values!(Decimal32Type),
        DataType::Decimal64(..) => values!(Decimal64Type),
        DataType::Decimal128(..) => values!(Decimal128Type),
        DataType::Decimal256(..) => values!(Decimal256Type),
        DataType::Date32 => values!(Date32Type),
        DataType::Date64 => values!(Date64Type),
        DataType::Time32(TimeUnit::Second) => values!(Time32SecondType),
        DataType::Time32(_) => values!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => values!(Time64MicrosecondType),
        DataType::Time64(_) => values!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => values!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => values!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => values!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => values!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => values!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => values!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => values!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => values!(DurationNanosecondType),
        _ => None,
    }
}

/// Returns the lowest and the highest integer of a type; `None` if its values are not integers.
pub(crate) fn whole_range(data_type: &DataType) -> Option<(i256, i256)> {
    fn range<T: ComparableInteger>() -> Option<(i256, i256)> {
        Some((T::LOWEST.wide(), T::HIGHEST.wide()))
    }
    match data_type {
        DataType::Boolean => Some((i256::ZERO, i256::ONE)),
        DataType::Int8 => range::<i8>(),
        DataType::Int16 => range::<i16>(),
        DataType::UInt8 => range::<u8>(),
        DataType::UInt16 => range::<u16>(),
        DataType::UInt32 => range::<u32>(),
        DataType::UInt64 => range::<u64>(),
        DataType::Int32 | DataType::Decimal32(..) | DataType::Date32 | DataType::Time32(_) => range::<i32>(),
        DataType::Int64
        | DataType::Decimal64(..)
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => range::<i64>(),
        DataType::Decimal128(..) => range::<i128>(),
        DataType::Decimal256(..) => range::<i256>(),
        _ => None,
    }
}
