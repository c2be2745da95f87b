//! Maps Arrow columns to ORC types.
//!
//! | Arrow | ORC |
//! |---|---|
//! | booleans; nulls | boolean |
//! | integers | tinyint, smallint, int, bigint; unsigned ones the next larger |
//! | floats; half floats | float, double; float |
//! | decimals of up to 38 digits | decimal |
//! | dates | date |
//! | timestamps without and with zone | timestamp; timestamp with local time zone |
//! | strings, string views | string, or the type in the field's metadata |
//! | bytes of any or fixed length, byte views | binary |
//! | lists, maps, structs | list, map, struct |
//! | dictionaries, run-end encoded arrays | as their values |

use std::{collections::HashSet, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use orc_rust::proto::{self, r#type::Kind as Proto};

use super::options::{OrcColumnOptions, OrcEncoderOptions, OrcOptions};
use crate::{
    Error, Result,
    kernels::nested_type::contains_type,
    orc::tree::{FIELD_TYPE, MAX_DEPTH},
};

/// Maximum digits of a decimal.
const MAX_DIGITS: u8 = 38;
/// Prefix of the metadata keys of a field's extension type.
const EXTENSION: &str = "ARROW:extension:";

/// Column and its descendants.
#[derive(Clone, Debug)]
pub(super) struct OrcColumnPlan {
    /// Number of the column in streams and statistics.
    pub(super) id: u32,
    /// Names from the top down, separated by dots.
    pub(super) path: Arc<str>,
    pub(super) kind: OrcTargetType,
    /// Type that arrays are cast to before they are encoded.
    pub(super) cast: Option<DataType>,
    pub(super) children: Vec<OrcColumnPlan>,
    pub(super) options: OrcEncoderOptions,
}

/// Checks that columns with their own options exist, and support the requested features.
pub(super) fn check_options(plans: &[OrcColumnPlan], options: &OrcOptions) -> Result<()> {
    for (column, bloom_filter) in options.columns_with_options() {
        let plan = plans.iter().find_map(|plan| plan.find(column)).ok_or_else(|| {
            let names: Vec<&str> = plans.iter().map(|plan| &*plan.path).collect();
            Error::NoSuchColumn { column: column.to_owned(), available: names.join(", ") }
        })?;
        if bloom_filter && !plan.has_bloom_filter() {
            let reason = "booleans have no bloom filters".to_owned();
            return Err(Error::Option { column: Some(column.to_owned()), reason });
        }
    }

    Ok(())
}

impl OrcColumnPlan {
    /// Returns the column of this path: this one, or a descendant.
    fn find(&self, path: &str) -> Option<&Self> {
        if *self.path == *path {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(path))
    }

    /// Returns whether the column, or a descendant, can have bloom filters.
    fn has_bloom_filter(&self) -> bool {
        // Columns of nulls need none.
        let is_null = self.kind == OrcTargetType::Boolean && self.cast.is_some();
        is_null || self.kind.has_bloom_filter() || self.children.iter().any(Self::has_bloom_filter)
    }
}

/// Encoding of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrcTargetType {
    Boolean,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    Date,
    /// Precision and scale.
    Decimal(u8, u32),
    Timestamp(TimeUnit),
    Text(OrcTextLength),
    Binary,
    List,
    Map,
    Struct,
}

/// Length of a string in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrcTextLength {
    Any,
    AtMost(u32),
    /// Shorter ones are padded with spaces.
    Exactly(u32),
}

/// Path of a column with an unsupported type, and the reason.
pub(super) type OrcUnsupportedColumn = (String, String);

/// Returns the plans of all columns, and the types of the file; the first is the root.
pub(super) fn plan(
    fields: &[FieldRef],
    options: &OrcOptions,
) -> Result<(Vec<OrcColumnPlan>, Vec<proto::Type>), OrcUnsupportedColumn> {
    let mut planner = OrcColumnPlanner { types: vec![proto::Type::default()], options };
    let mut plans = Vec::with_capacity(fields.len());

    check_names(fields.iter().map(|field| field.name().as_str()), "")?;
    for field in fields {
        plans.push(planner.plan(field, field.name(), 1, None)?);
    }

    let root = proto::Type {
        kind: Some(Proto::Struct.into()),
        subtypes: plans.iter().map(|plan| plan.id).collect(),
        field_names: fields.iter().map(|field| field.name().clone()).collect(),
        ..proto::Type::default()
    };
    if let Some(first) = planner.types.first_mut() {
        *first = root;
    }
    Ok((plans, planner.types))
}

/// Checks that the names of the file's columns, or of the fields of the struct at `path`, are distinct.
fn check_names<'f>(names: impl Iterator<Item = &'f str>, path: &str) -> Result<(), OrcUnsupportedColumn> {
    let mut known = HashSet::new();
    for name in names {
        let wrong = |reason: &str| {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            Err((path, reason.to_owned()))
        };
        if !known.insert(name) {
            return wrong("there are two of this name: rename one of them");
        }
        if name.is_empty() || name.starts_with('`') || name.contains('\0') {
            return wrong(
                "readers of ORC take no name that is empty, begins with ` or has a zero in it: rename it",
            );
        }
    }

    Ok(())
}

struct OrcColumnPlanner<'o> {
    types: Vec<proto::Type>,
    options: &'o OrcOptions,
}

impl OrcColumnPlanner<'_> {
    fn plan(
        &mut self,
        field: &Field,
        path: &str,
        depth: usize,
        above: Option<&OrcColumnOptions>,
    ) -> Result<OrcColumnPlan, OrcUnsupportedColumn> {
        let wrong = |reason: String| (path.to_owned(), reason);
        if depth > MAX_DEPTH {
            let column = path.split('.').next().unwrap_or_default().to_owned();
            return Err((column, format!("more than {MAX_DEPTH} types within each other")));
        }

        if is_rebuilt(field.data_type()) && has_empty_values(field.data_type()) {
            let reason = "values of a fixed length of 0 bytes are not written here: make them binary";
            return Err(wrong(reason.to_owned()));
        }

        let id = self.types.len() as u32;
        self.types.push(proto::Type::default());
        let (kind, cast) = kind(field.data_type()).map_err(wrong)?;
        let kind = match (kind, field.metadata().get(FIELD_TYPE)) {
            (OrcTargetType::Text(_), Some(text)) => {
                OrcTargetType::Text(OrcTextLength::parse(text).map_err(wrong)?)
            }
            (kind, _) => kind,
        };

        let stored = cast.as_ref().unwrap_or(field.data_type());
        let fields: Vec<(FieldRef, &str)> = match stored {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                vec![(item.clone(), "item")]
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => fields.iter().cloned().zip(["key", "value"]).collect(),
                _ => return Err(wrong("a map without keys and values".to_owned())),
            },
            DataType::Struct(fields) => fields.iter().map(|field| (field.clone(), "")).collect(),
            _ => Vec::new(),
        };

        if kind == OrcTargetType::Struct {
            check_names(fields.iter().map(|(field, _)| field.name().as_str()), path)?;
        }

        let own = self.options.of(path, above);
        let mut children = Vec::with_capacity(fields.len());
        for (field, name) in &fields {
            let name = if name.is_empty() { field.name() } else { *name };
            children.push(self.plan(field, &format!("{path}.{name}"), depth + 1, Some(&own))?);
        }

        let zoned = matches!(stored, DataType::Timestamp(_, Some(_)));
        let ty = proto::Type {
            kind: Some(kind.proto(zoned).into()),
            subtypes: children.iter().map(|child| child.id).collect(),
            field_names: match kind {
                OrcTargetType::Struct => fields.iter().map(|(field, _)| field.name().clone()).collect(),
                _ => Vec::new(),
            },
            maximum_length: match kind {
                OrcTargetType::Text(OrcTextLength::AtMost(max) | OrcTextLength::Exactly(max)) => Some(max),
                _ => None,
            },
            precision: if let OrcTargetType::Decimal(precision, _) = kind {
                Some(precision.into())
            } else {
                None
            },
            scale: if let OrcTargetType::Decimal(_, scale) = kind { Some(scale) } else { None },
            attributes: attributes(field, cast.is_some()),
        };

        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = ty;
        }
        Ok(OrcColumnPlan { id, path: path.into(), kind, cast, children, options: self.options.plan(&own) })
    }
}

/// Returns whether encoders copy some values of the arrays within an array of this type with arrow kernels.
fn is_rebuilt(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Struct(_)
            | DataType::Dictionary(..)
            | DataType::RunEndEncoded(..)
            | DataType::ListView(_)
            | DataType::LargeListView(_)
    )
}

/// Returns whether a type has values of 0 bytes: arrow's kernels lose track of their number.
fn has_empty_values(data_type: &DataType) -> bool {
    contains_type(data_type, |found| *found == DataType::FixedSizeBinary(0))
}

/// Returns the field's metadata, without entries that the type itself expresses, and without an extension type whose
/// storage differs in the file.
fn attributes(field: &Field, is_cast: bool) -> Vec<proto::StringPair> {
    let is_other = is_cast || comes_back_as_another(field.data_type());
    let is_kept = |key: &str| key != FIELD_TYPE && !(is_other && key.starts_with(EXTENSION));
    let mut own: Vec<_> = field.metadata().iter().filter(|(key, _)| is_kept(key)).collect();
    own.sort();

    let pair = |(key, value): (&String, &String)| proto::StringPair {
        key: Some(key.clone()),
        value: Some(value.clone()),
    };
    own.into_iter().map(pair).collect()
}

/// Returns whether the column is read back with another type, although no array is cast.
fn comes_back_as_another(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::Dictionary(..)
        | DataType::RunEndEncoded(..) => true,
        DataType::List(item) => comes_back_as_another(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| comes_back_as_another(field.data_type())),
        _ => false,
    }
}

/// Returns the ORC type, and the type that arrays are cast to first.
fn kind(data_type: &DataType) -> Result<(OrcTargetType, Option<DataType>), String> {
    let same = |kind| Ok((kind, None));
    let cast = |kind, to| Ok((kind, Some(to)));
    match data_type {
        DataType::Boolean => same(OrcTargetType::Boolean),
        DataType::Null => cast(OrcTargetType::Boolean, DataType::Boolean),
        DataType::Int8 => same(OrcTargetType::Byte),
        DataType::Int16 => same(OrcTargetType::Short),
        DataType::UInt8 => cast(OrcTargetType::Short, DataType::Int16),
        DataType::Int32 => same(OrcTargetType::Int),
        DataType::UInt16 => cast(OrcTargetType::Int, DataType::Int32),
        DataType::Int64 => same(OrcTargetType::Long),
        DataType::UInt32 | DataType::UInt64 => cast(OrcTargetType::Long, DataType::Int64),
        DataType::Float16 => cast(OrcTargetType::Float, DataType::Float32),
        DataType::Float32 => same(OrcTargetType::Float),
        DataType::Float64 => same(OrcTargetType::Double),
        DataType::Date32 => same(OrcTargetType::Date),
        DataType::Date64 => cast(OrcTargetType::Date, DataType::Date32),
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            let scale = scale.unsigned_abs();
            // ORC counts leading zeros after the point as digits.
            if *precision < scale {
                cast(OrcTargetType::Decimal(scale, scale.into()), DataType::Decimal128(scale, scale as i8))
            } else {
                same(OrcTargetType::Decimal(*precision, scale.into()))
            }
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            // A negative scale becomes trailing zeros.
            let (precision, scale) = match *scale {
                ..0 => (precision.saturating_add(scale.unsigned_abs()), 0),
                _ => ((*precision).max(scale.unsigned_abs()), *scale),
            };
            let precision = precision.min(MAX_DIGITS);
            if scale.unsigned_abs() > precision {
                return Err(format!("ORC has no {data_type}: a decimal has up to {MAX_DIGITS} digits"));
            }

            let to = DataType::Decimal128(precision, scale);
            cast(OrcTargetType::Decimal(precision, u32::from(scale.unsigned_abs())), to)
        }
        DataType::Timestamp(unit, _) => same(OrcTargetType::Timestamp(*unit)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            same(OrcTargetType::Text(OrcTextLength::Any))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            same(OrcTargetType::Binary)
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => same(OrcTargetType::List),
        DataType::ListView(item) => cast(OrcTargetType::List, DataType::List(item.clone())),
        DataType::LargeListView(item) => cast(OrcTargetType::List, DataType::LargeList(item.clone())),
        DataType::Map(..) => same(OrcTargetType::Map),
        DataType::Struct(_) => same(OrcTargetType::Struct),
        DataType::Dictionary(_, values) => match kind(values)? {
            (kind @ (OrcTargetType::Text(_) | OrcTargetType::Binary), None) => same(kind),
            (kind, None) => cast(kind, values.as_ref().clone()),
            (kind, to) => Ok((kind, to)),
        },
        DataType::RunEndEncoded(_, values) => match kind(values.data_type())? {
            (kind, None) => cast(kind, values.data_type().clone()),
            (kind, to) => Ok((kind, to)),
        },
        DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) | DataType::Interval(_) => {
            Err(format!("ORC has no {data_type}: cast it to a whole number or a text"))
        }
        DataType::Union(..) => {
            Err("unions are not written: make it a struct with a field for each type, or a text".to_owned())
        }
    }
}

impl OrcTargetType {
    /// Returns whether bloom filters of its values are written.
    pub(super) fn has_bloom_filter(self) -> bool {
        !matches!(self, Self::Boolean | Self::List | Self::Map | Self::Struct)
    }

    fn proto(self, zoned: bool) -> Proto {
        match self {
            Self::Boolean => Proto::Boolean,
            Self::Byte => Proto::Byte,
            Self::Short => Proto::Short,
            Self::Int => Proto::Int,
            Self::Long => Proto::Long,
            Self::Float => Proto::Float,
            Self::Double => Proto::Double,
            Self::Date => Proto::Date,
            Self::Decimal(..) => Proto::Decimal,
            Self::Timestamp(_) if zoned => Proto::TimestampInstant,
            Self::Timestamp(_) => Proto::Timestamp,
            Self::Text(OrcTextLength::Any) => Proto::String,
            Self::Text(OrcTextLength::AtMost(_)) => Proto::Varchar,
            Self::Text(OrcTextLength::Exactly(_)) => Proto::Char,
            Self::Binary => Proto::Binary,
            Self::List => Proto::List,
            Self::Map => Proto::Map,
            Self::Struct => Proto::Struct,
        }
    }
}

impl OrcTextLength {
    /// Parses `string`, `varchar(10)` or `char(10)`.
    fn parse(text: &str) -> Result<Self, String> {
        let unknown = || format!("{FIELD_TYPE} is {text:?}: string, varchar(n) or char(n) are known");
        if text == "string" {
            return Ok(Self::Any);
        }

        let (name, length) =
            text.strip_suffix(')').and_then(|text| text.split_once('(')).ok_or_else(unknown)?;
        let length: u32 = length.trim().parse().ok().filter(|length| *length > 0).ok_or_else(unknown)?;
        match name.trim() {
            "varchar" => Ok(Self::AtMost(length)),
            "char" => Ok(Self::Exactly(length)),
            _ => Err(unknown()),
        }
    }

    /// Returns the number of spaces that a string is padded with; an error if it is too long.
    #[inline]
    pub(super) fn padding(self, text: &[u8]) -> Result<usize, String> {
        let max_chars = match self {
            Self::Any => return Ok(0),
            Self::AtMost(max_chars) | Self::Exactly(max_chars) => max_chars as usize,
        };
        // Continuation bytes of a character begin with the bits 10.
        let characters = text.iter().filter(|byte| (**byte as i8) >= -64).count();
        let missing = max_chars.checked_sub(characters).ok_or_else(|| {
            let text = String::from_utf8_lossy(text);
            format!("{text:?} has {characters} characters where {max_chars} are the most")
        })?;

        Ok(if matches!(self, Self::Exactly(_)) { missing } else { 0 })
    }

    /// Returns the string in the form of the file, in `scratch` if it is padded; an error if it is too long.
    #[inline]
    pub(super) fn padded<'a>(self, text: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], String> {
        let padding = self.padding(text)?;
        if padding == 0 {
            return Ok(text);
        }

        scratch.clear();
        scratch.extend_from_slice(text);
        scratch.resize(text.len() + padding, b' ');
        Ok(scratch)
    }
}
