//! Property types, their names in GraphAr, and their Arrow types.

use std::{fmt, str::FromStr, sync::Arc};

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::UnknownNameError;

/// Type of a property's values. Displayed and parsed as GraphAr writes it: `int64`, `list<float>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PropertyType {
    /// `bool`.
    Bool,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `float`, of 32 bits.
    Float,
    /// `double`, of 64 bits.
    Double,
    /// `string`, in UTF-8.
    String,
    /// `date`: days since 1970-01-01.
    Date,
    /// `timestamp`: milliseconds since 1970-01-01, without a time zone.
    Timestamp,
    /// `list<…>` of a type that is not a list itself.
    List(Box<PropertyType>),
}

impl PropertyType {
    /// Returns the type of its column. Stored data may differ, such as timestamps in microseconds: readers cast it.
    pub fn arrow(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::String => DataType::Utf8,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, None),
            Self::List(item) => DataType::List(Arc::new(Field::new("item", item.arrow(), true))),
        }
    }

    /// Returns the GraphAr type that a column of `arrow` is written as; `None` if no type can hold its values.
    /// Dictionaries map to their value type, and narrow numbers to wider ones. `UInt64`, decimals, binary, times of day
    /// and lists of lists have no GraphAr type.
    pub fn of_arrow(arrow: &DataType) -> Option<Self> {
        match arrow {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => {
                Self::of_single(item.data_type()).map(|item| Self::List(Box::new(item)))
            }
            DataType::Dictionary(_, value) => Self::of_arrow(value),
            single => Self::of_single(single),
        }
    }

    fn of_single(arrow: &DataType) -> Option<Self> {
        match arrow {
            DataType::Boolean => Some(Self::Bool),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
                Some(Self::Int32)
            }
            DataType::Int64 | DataType::UInt32 => Some(Self::Int64),
            DataType::Float16 | DataType::Float32 => Some(Self::Float),
            DataType::Float64 => Some(Self::Double),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Self::String),
            DataType::Date32 => Some(Self::Date),
            // Milliseconds in GraphAr, regardless of the unit.
            DataType::Date64 | DataType::Timestamp(..) => Some(Self::Timestamp),
            DataType::Dictionary(_, value) => Self::of_single(value),
            _ => None,
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }

    /// Returns true if the official readers have a name for it: they support lists of numbers and of strings only.
    pub(crate) fn is_official(&self) -> bool {
        match self {
            Self::List(item) => {
                matches!(**item, Self::Int32 | Self::Int64 | Self::Float | Self::Double | Self::String)
            }
            _ => true,
        }
    }

    fn single(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "float" => Self::Float,
            "double" => Self::Double,
            "string" => Self::String,
            "date" => Self::Date,
            "timestamp" => Self::Timestamp,
            _ => return None,
        })
    }
}

impl fmt::Display for PropertyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float",
            Self::Double => "double",
            Self::String => "string",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::List(item) => return write!(f, "list<{item}>"),
        })
    }
}

impl FromStr for PropertyType {
    type Err = UnknownNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let item = name.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>'));
        let found = match item {
            Some(item) => Self::single(item).map(|item| Self::List(Box::new(item))),
            None => Self::single(name),
        };
        found.ok_or_else(|| UnknownNameError {
            kind: "data type",
            name: name.to_owned(),
            known: "bool, int32, int64, float, double, string, date, timestamp, or list<…> of one of these",
        })
    }
}
