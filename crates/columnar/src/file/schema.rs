//! Columns of a file, projections of them, and types that merge columns of several files.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};

/// A top-level column of a file, projected to some of its leaves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProjectedColumn {
    /// Position among the top-level columns.
    pub(crate) root: usize,
    /// The leaves, depth first from 0, in ascending order; `None` for all.
    pub(crate) leaves: Option<Box<[usize]>>,
}

impl ProjectedColumn {
    /// Selects the whole column.
    pub(crate) fn whole(root: usize) -> Self {
        Self { root, leaves: None }
    }

    /// Returns whether the leaf is selected.
    pub(crate) fn has_leaf(&self, leaf: usize) -> bool {
        self.leaves.as_ref().is_none_or(|leaves| leaves.binary_search(&leaf).is_ok())
    }

    /// Returns the column's field with the selected leaves only.
    pub(crate) fn field(&self, root: &FieldRef) -> FieldRef {
        match &self.leaves {
            None => root.clone(),
            Some(_) => pruned(root, &mut 0, self).unwrap_or_else(|| root.clone()),
        }
    }
}

/// Returns the number of leaves of a type.
pub(crate) fn leaf_count(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaf_count(field.data_type())).sum(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => leaf_count(field.data_type()),
        _ => 1,
    }
}

fn pruned(field: &FieldRef, next_leaf: &mut usize, projected: &ProjectedColumn) -> Option<FieldRef> {
    let with = |data_type| Arc::new(field.as_ref().clone().with_data_type(data_type));
    let inner = |inner: &FieldRef, next_leaf: &mut usize| pruned(inner, next_leaf, projected);
    match field.data_type() {
        DataType::Struct(fields) => {
            let kept: Fields = fields.iter().filter_map(|field| inner(field, next_leaf)).collect();
            (!kept.is_empty()).then(|| with(DataType::Struct(kept)))
        }
        DataType::List(item) => Some(with(DataType::List(inner(item, next_leaf)?))),
        DataType::LargeList(item) => Some(with(DataType::LargeList(inner(item, next_leaf)?))),
        DataType::ListView(item) => Some(with(DataType::ListView(inner(item, next_leaf)?))),
        DataType::LargeListView(item) => Some(with(DataType::LargeListView(inner(item, next_leaf)?))),
        DataType::FixedSizeList(item, len) => {
            Some(with(DataType::FixedSizeList(inner(item, next_leaf)?, *len)))
        }
        DataType::Map(entries, sorted) => Some(with(DataType::Map(inner(entries, next_leaf)?, *sorted))),
        _ => {
            let leaf = *next_leaf;
            *next_leaf += 1;
            projected.has_leaf(leaf).then(|| field.clone())
        }
    }
}

/// Returns whether a type is strings or bytes of any length.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    )
}

/// Returns the type of the values: that of a dictionary's values, or the type itself.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Returns the type with lists in place of list views, at any depth.
pub(crate) fn without_list_views(data_type: &DataType) -> DataType {
    let inner = |field: &FieldRef| {
        Arc::new(field.as_ref().clone().with_data_type(without_list_views(field.data_type())))
    };
    match data_type {
        DataType::List(item) | DataType::ListView(item) => DataType::List(inner(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(inner(item), *len),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => other.clone(),
    }
}

/// Returns the field with another type, and without an extension type, which annotates its own storage only.
pub(crate) fn cast_field(field: &Field, data_type: DataType) -> Field {
    let mut cast = field.clone().with_data_type(data_type);
    cast.metadata_mut().retain(|key, _| !key.starts_with("ARROW:extension:"));
    cast
}

/// Returns whether arrow supports dictionaries of this type. Other types never become dictionaries.
pub(crate) fn has_dictionaries(values: &DataType) -> bool {
    let without =
        matches!(values, DataType::Boolean | DataType::Null | DataType::Duration(_) | DataType::Interval(_));
    !without && !values.is_nested()
}

/// Returns the leaves of a field below any of the paths, which name fields of structs; lists and maps are passed
/// through. An empty path is the whole field. `None` if a path matches nothing.
pub(crate) fn leaves_below(field: &Field, paths: &[Vec<&str>]) -> Option<Option<Box<[usize]>>> {
    if paths.iter().any(Vec::is_empty) {
        return Some(None);
    }

    let mut leaves = Vec::new();
    for path in paths {
        let before = leaves.len();
        collect(field.data_type(), path, &mut 0, &mut leaves);
        if leaves.len() == before {
            return None;
        }
    }

    leaves.sort_unstable();
    leaves.dedup();
    let all = leaves.len() == leaf_count(field.data_type());
    Some((!all).then(|| leaves.into()))
}

fn collect(data_type: &DataType, path: &[&str], next_leaf: &mut usize, leaves: &mut Vec<usize>) {
    let Some((name, rest)) = path.split_first() else {
        let count = leaf_count(data_type);
        leaves.extend(*next_leaf..*next_leaf + count);
        *next_leaf += count;
        return;
    };

    match data_type {
        DataType::Struct(fields) => {
            for field in fields {
                if field.name() == name {
                    collect(field.data_type(), rest, next_leaf, leaves);
                } else {
                    *next_leaf += leaf_count(field.data_type());
                }
            }
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => collect(item.data_type(), path, next_leaf, leaves),
        DataType::Map(entries, _) => collect_entries(entries, path, next_leaf, leaves),
        other => *next_leaf += leaf_count(other),
    }
}

/// Collects the leaves of a map below a path, which names keys and values as the file does or as `key` and `value`,
/// optionally below the entries. Values are selected with their keys, and keys with their values.
fn collect_entries(entries: &FieldRef, path: &[&str], next_leaf: &mut usize, leaves: &mut Vec<usize>) {
    let DataType::Struct(fields) = entries.data_type() else {
        return collect(entries.data_type(), path, next_leaf, leaves);
    };
    let [key, value] = fields.as_ref() else {
        return collect(entries.data_type(), path, next_leaf, leaves);
    };

    let is_named = |name: &str| [key.name(), value.name(), "key", "value"].contains(&name);
    let path = match path.split_first() {
        Some((name, rest)) if name == entries.name() && !is_named(name) => rest,
        _ => path,
    };

    let first = *next_leaf;
    let keys = first..first + leaf_count(key.data_type());
    match path.split_first() {
        Some((name, rest)) if name == value.name() || *name == "value" => {
            let before = leaves.len();
            *next_leaf = keys.end;
            collect(value.data_type(), rest, next_leaf, leaves);
            if leaves.len() > before {
                leaves.extend(keys);
            }
        }
        Some((name, [])) if name == key.name() || *name == "key" => {
            collect(entries.data_type(), &[], next_leaf, leaves);
        }
        Some(_) => *next_leaf += leaf_count(entries.data_type()),
        None => collect(entries.data_type(), &[], next_leaf, leaves),
    }
}

/// Returns the type that holds values of both types without loss; `None` if there is none. Integers or decimals and
/// floating-point numbers become `Float64`, which may not hold every value.
pub(crate) fn widened(a: &DataType, b: &DataType, unit: TimeUnitChooser) -> Option<DataType> {
    met(a, b, unit).and_then(|data_type| decided(&data_type))
}

/// A placeholder for signed integers together with `UInt64`: they become [`WHOLE`], unless floating-point or
/// decimal types of later files hold all of them. No file has this type.
const MIXED_WHOLE: DataType = DataType::FixedSizeBinary(-1);
/// The type of signed integers together with `UInt64`.
const WHOLE: DataType = DataType::Decimal128(20, 0);
/// A placeholder for numbers that no decimal type holds, but floating-point types of later files may. No file has this
/// type.
const MIXED_DECIMAL: DataType = DataType::FixedSizeBinary(-2);

fn is_mixed_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::FixedSizeBinary(-1))
}

fn is_mixed_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::FixedSizeBinary(-2))
}

/// Returns a merged type without placeholders, so that arrays may have it; `None` if no type holds all values.
pub(crate) fn decided(data_type: &DataType) -> Option<DataType> {
    let inner = |field: &FieldRef| {
        let data_type = decided(field.data_type())?;
        Some(Arc::new(field.as_ref().clone().with_data_type(data_type)))
    };
    Some(match data_type {
        mixed if is_mixed_whole(mixed) => WHOLE,
        mixed if is_mixed_decimal(mixed) => return None,
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect::<Option<_>>()?),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries)?, *sorted),
        DataType::List(item) => DataType::List(inner(item)?),
        DataType::LargeList(item) => DataType::LargeList(inner(item)?),
        DataType::ListView(item) => DataType::ListView(inner(item)?),
        DataType::LargeListView(item) => DataType::LargeListView(inner(item)?),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(inner(item)?, *len),
        other => other.clone(),
    })
}

/// Widens like [`widened`], as one step of merging several types, whose result does not depend on their order. While it
/// is undecided ([`decided`] returns `None`), a later type may still hold all values.
pub(crate) fn met(a: &DataType, b: &DataType, unit: TimeUnitChooser) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Duration, FixedSizeBinary, Float16, Float32, Float64, Int16,
        Int32, Int64, LargeBinary, LargeList, LargeUtf8, List, Map, Null, Struct, Time32, Time64, Timestamp,
        UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    if a == b {
        return Some(a.clone());
    }

    if let (Some((item, large)), Some((other, other_is_large))) = (list_item(a), list_item(b)) {
        let data_type = met(item.data_type(), other.data_type(), unit)?;
        let item = both_as(item, other, data_type);
        return Some(if large || other_is_large { LargeList(item) } else { List(item) });
    }
    Some(match (a, b) {
        (Null, other) | (other, Null) => other.clone(),
        (mixed, other) | (other, mixed) if is_mixed_decimal(mixed) => match other {
            Float16 | Float32 | Float64 => Float64,
            number if is_mixed_whole(number) || digits(number).is_some() => MIXED_DECIMAL,
            _ => return None,
        },
        (mixed, other) | (other, mixed) if is_mixed_whole(mixed) => match other {
            Float16 | Float32 | Float64 => Float64,
            whole if whole.is_integer() => MIXED_WHOLE,
            decimal if decimal.is_decimal() => decimal_of_both(digits(&UInt64)?, digits(decimal)?),
            _ => return None,
        },
        (UInt64, signed) | (signed, UInt64) if signed.is_signed_integer() => MIXED_WHOLE,
        (UInt8, UInt16) | (UInt16, UInt8) => UInt16,
        (UInt8 | UInt16, UInt32) | (UInt32, UInt8 | UInt16) => UInt32,
        (UInt8 | UInt16 | UInt32, UInt64) | (UInt64, UInt8 | UInt16 | UInt32) => UInt64,
        (Float16, Float32) | (Float32, Float16) => Float32,
        (Float16 | Float32, Float64) | (Float64, Float16 | Float32) => Float64,
        (Float16 | Float32 | Float64, exact) | (exact, Float16 | Float32 | Float64)
            if exact.is_integer() || exact.is_decimal() =>
        {
            Float64
        }
        (Utf8 | Utf8View, LargeUtf8) | (LargeUtf8, Utf8 | Utf8View) => LargeUtf8,
        (Utf8, Utf8View) | (Utf8View, Utf8) => Utf8,
        (Binary | BinaryView | FixedSizeBinary(_), LargeBinary)
        | (LargeBinary, Binary | BinaryView | FixedSizeBinary(_)) => LargeBinary,
        (Binary | BinaryView | FixedSizeBinary(_), Binary | BinaryView | FixedSizeBinary(_)) => Binary,
        (Date32, Date64) | (Date64, Date32) => Date64,
        (Date32 | Date64, Timestamp(unit, None)) | (Timestamp(unit, None), Date32 | Date64) => {
            Timestamp(*unit, None)
        }
        (Time32(_), Time64(unit)) | (Time64(unit), Time32(_)) => Time64(*unit),
        (Time32(_), Time32(_)) => Time32(TimeUnit::Millisecond),
        (Time64(_), Time64(_)) => Time64(TimeUnit::Nanosecond),
        (Duration(u), Duration(v)) => Duration(finer(*u, *v)),
        (Timestamp(u, None), Timestamp(v, None)) => Timestamp(unit(*u, *v), None),
        // A zone determines how timestamps are displayed, not their values.
        (Timestamp(u, Some(zone)), Timestamp(v, Some(other))) => {
            Timestamp(unit(*u, *v), Some(if zone == other { zone.clone() } else { "UTC".into() }))
        }
        (Map(a, sorted), Map(b, other)) => {
            let (Struct(of_a), Struct(of_b)) = (a.data_type(), b.data_type()) else { return None };
            let both = of_a
                .iter()
                .zip(of_b)
                .map(|(a, b)| Some(both_as(a, b, met(a.data_type(), b.data_type(), unit)?)));
            let entries = Struct(both.collect::<Option<Fields>>()?);
            Map(Arc::new(a.as_ref().clone().with_data_type(entries)), *sorted && *other)
        }
        (Struct(a), Struct(b)) => Struct(fields_of_both(a, b, unit)?),
        (a, b) if a.is_decimal() || b.is_decimal() => decimal_of_both(digits(a)?, digits(b)?),
        (a, b) => match signed_bits(a)?.max(signed_bits(b)?) {
            16 => Int16,
            32 => Int32,
            _ => Int64,
        },
    })
}

/// Returns the item of a list of any kind, and whether its offsets have 64 bits.
fn list_item(data_type: &DataType) -> Option<(&FieldRef, bool)> {
    match data_type {
        DataType::List(item) | DataType::ListView(item) | DataType::FixedSizeList(item, _) => {
            Some((item, false))
        }
        DataType::LargeList(item) | DataType::LargeListView(item) => Some((item, true)),
        _ => None,
    }
}

/// Merges the fields of two structs by name: those of the first in its order, then the others of the second.
fn fields_of_both(a: &Fields, b: &Fields, unit: TimeUnitChooser) -> Option<Fields> {
    let of_a = by_name(a)?;
    let of_b = by_name(b)?;
    let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let fields = a.iter().map(|field| match of_b.get(field.name().as_str()) {
        Some(other) => Some(both_as(field, other, met(field.data_type(), other.data_type(), unit)?)),
        None => Some(nullable(field)),
    });

    let only_b = b.iter().filter(|field| !of_a.contains_key(field.name().as_str()));
    fields.chain(only_b.map(|field| Some(nullable(field)))).collect()
}

/// Merges two fields: the result is non-nullable only if both are, and has the metadata on which they agree.
fn both_as(a: &FieldRef, b: &FieldRef, data_type: DataType) -> FieldRef {
    let nullable = a.is_nullable() || b.is_nullable();
    let mut merged = a.as_ref().clone().with_data_type(data_type).with_nullable(nullable);
    merged.metadata_mut().retain(|key, value| b.metadata().get(key) == Some(value));
    Arc::new(merged)
}

/// Returns the fields by name; `None` if two have the same name.
fn by_name(fields: &Fields) -> Option<HashMap<&str, &FieldRef>> {
    let by_name: HashMap<&str, &FieldRef> =
        fields.iter().map(|field| (field.name().as_str(), field)).collect();
    (by_name.len() == fields.len()).then_some(by_name)
}

/// Returns precision and scale of the decimals that hold a type. Unsigned integers have those of the signed integers
/// that can hold them, so that the precision does not depend on whether they are merged with signed integers or
/// decimals first.
fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        DataType::Int8 => (3, 0),
        DataType::Int16 | DataType::UInt8 => (5, 0),
        DataType::Int32 | DataType::UInt16 => (10, 0),
        DataType::Int64 | DataType::UInt32 => (19, 0),
        DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

/// Returns the decimal type with the whole digits and the fraction of both, or [`MIXED_DECIMAL`] if it has too many.
fn decimal_of_both((p, s): (u8, i8), (q, t): (u8, i8)) -> DataType {
    let scale = s.max(t);
    let whole = (i16::from(p) - i16::from(s)).max(i16::from(q) - i16::from(t));
    match u8::try_from(whole + i16::from(scale)) {
        Ok(precision @ ..=38) => DataType::Decimal128(precision, scale),
        Ok(precision @ ..=76) => DataType::Decimal256(precision, scale),
        _ => MIXED_DECIMAL,
    }
}

/// Returns the bits of the signed integers that hold all values of a type.
fn signed_bits(data_type: &DataType) -> Option<u32> {
    match data_type {
        DataType::Int8 => Some(8),
        DataType::Int16 | DataType::UInt8 => Some(16),
        DataType::Int32 | DataType::UInt16 => Some(32),
        DataType::Int64 | DataType::UInt32 => Some(64),
        _ => None,
    }
}

/// Maps leaves of another type to leaves of this one, by the names of the structs around them. A missing leaf is mapped
/// to the nearest, which has the lengths of lists and the nulls of structs.
pub(crate) fn same_leaves(own: &DataType, other: &DataType, leaves: &[usize]) -> Box<[usize]> {
    if own == other {
        return leaves.into();
    }

    let mut of_own = Vec::new();
    let mut of_other = Vec::new();
    leaf_paths(own, &mut Vec::new(), &mut of_own);
    leaf_paths(other, &mut Vec::new(), &mut of_other);

    let leaf_by_path: HashMap<&Vec<&str>, usize> =
        of_own.iter().enumerate().rev().map(|(leaf, path)| (path, leaf)).collect();
    let nearest = |path: &Vec<&str>| {
        let shared = |own: &Vec<&str>| own.iter().zip(path).take_while(|(a, b)| a == b).count();
        let nearer = of_own.iter().enumerate().max_by_key(|(leaf, own)| (shared(own), Reverse(*leaf)));
        nearer.map(|(leaf, _)| leaf)
    };

    let wanted = leaves.iter().filter_map(|leaf| of_other.get(*leaf));
    let found: BTreeSet<usize> =
        wanted.filter_map(|path| leaf_by_path.get(path).copied().or_else(|| nearest(path))).collect();
    found.into_iter().collect()
}

/// Collects the path of each leaf: the names of the structs around it, and its own. Lists are passed through, and maps
/// have `key` and `value`.
fn leaf_paths<'t>(data_type: &'t DataType, path: &mut Vec<&'t str>, paths: &mut Vec<Vec<&'t str>>) {
    match data_type {
        DataType::Struct(fields) => {
            for field in fields {
                path.push(field.name());
                leaf_paths(field.data_type(), path, paths);
                path.pop();
            }
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                for (name, field) in ["key", "value"].into_iter().zip(fields) {
                    path.push(name);
                    leaf_paths(field.data_type(), path, paths);
                    path.pop();
                }
            }
            other => leaf_paths(other, path, paths),
        },
        _ => match list_item(data_type) {
            Some((item, _)) => leaf_paths(item.data_type(), path, paths),
            None => paths.push(path.clone()),
        },
    }
}

/// Chooses the unit of merged timestamps from two units.
pub(crate) type TimeUnitChooser = fn(TimeUnit, TimeUnit) -> TimeUnit;

/// Returns the unit of higher resolution.
pub(crate) fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let rank = |unit: TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(a) < rank(b) { b } else { a }
}

/// Returns the unit of larger range.
pub(crate) fn coarser(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    if finer(a, b) == a { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested() -> Field {
        let inner = Fields::from(vec![
            Field::new("b", DataType::Int32, true),
            Field::new(
                "c",
                DataType::Struct(
                    vec![Field::new("d", DataType::Utf8, true), Field::new("e", DataType::Utf8, true)].into(),
                ),
                true,
            ),
        ]);
        Field::new("a", DataType::Struct(inner), true)
    }

    #[test]
    fn a_path_selects_the_leaves_below_it() {
        let field = nested();
        assert_eq!(leaves_below(&field, &[vec!["c", "e"], vec!["b"]]), Some(Some([0, 2].into())));
        assert_eq!(leaves_below(&field, &[vec!["c"]]), Some(Some([1, 2].into())));
        assert_eq!(leaves_below(&field, &[vec!["c"], vec!["b"]]), Some(None));
        assert_eq!(leaves_below(&field, &[vec![]]), Some(None));
        assert_eq!(leaves_below(&field, &[vec!["x"]]), None);
        let projected = ProjectedColumn { root: 0, leaves: Some([1].into()) };
        let left = projected.field(&Arc::new(field));
        assert_eq!(leaf_count(left.data_type()), 1);
        assert!(format!("{:?}", left.data_type()).contains("\"d\""));
    }

    #[test]
    fn keys_come_with_the_values_of_a_map() {
        let value = DataType::Struct(
            vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)].into(),
        );
        let fields = vec![Field::new("k", DataType::Utf8, false), Field::new("v", value, true)];
        let entries = Field::new("key_value", DataType::Struct(fields.into()), false);
        let field = Field::new("m", DataType::Map(Arc::new(entries), false), true);
        for path in [&["key"][..], &["value"], &["k"], &["v"], &["key_value"], &["key_value", "value"]] {
            assert_eq!(leaves_below(&field, &[path.to_vec()]), Some(None), "{path:?}");
        }
        assert_eq!(leaves_below(&field, &[vec!["value", "y"]]), Some(Some([0, 2].into())));
        assert_eq!(leaves_below(&field, &[vec!["v", "x"]]), Some(Some([0, 1].into())));
        assert_eq!(leaves_below(&field, &[vec!["value", "z"]]), None);
        assert_eq!(leaves_below(&field, &[vec!["y"]]), None);
        let projected = ProjectedColumn { root: 0, leaves: Some([0, 2].into()) };
        assert_eq!(leaf_count(projected.field(&Arc::new(field)).data_type()), 2);
    }

    #[test]
    fn types_widen_without_loss_or_not_at_all() {
        use DataType::{Float64, Int8, Int32, Int64, UInt32, UInt64, Utf8};
        assert_eq!(widened(&Int8, &Int32, finer), Some(Int32));
        assert_eq!(widened(&UInt32, &Int8, finer), Some(Int64));
        assert_eq!(widened(&UInt64, &Int64, finer), Some(DataType::Decimal128(20, 0)));
        assert_eq!(widened(&Int8, &UInt64, finer), Some(DataType::Decimal128(20, 0)));
        assert_eq!(widened(&Int32, &Float64, finer), Some(Float64));
        assert_eq!(widened(&Int64, &Float64, finer), Some(Float64));
        assert_eq!(widened(&Utf8, &Int32, finer), None);
        assert_eq!(
            widened(&DataType::Decimal128(10, 2), &DataType::Decimal128(9, 4), finer),
            Some(DataType::Decimal128(12, 4))
        );
        assert_eq!(widened(&DataType::Decimal128(2, 1), &Int64, finer), Some(DataType::Decimal128(20, 1)));
        assert_eq!(widened(&DataType::Decimal128(38, 2), &DataType::Decimal256(76, 70), finer), None);
        assert_eq!(widened(&DataType::Decimal128(38, 2), &DataType::Float32, finer), Some(Float64));
    }

    #[test]
    fn durations_meet_in_the_finest_unit() {
        use TimeUnit::{Microsecond, Nanosecond, Second};
        let both = |a, b, unit| widened(&DataType::Duration(a), &DataType::Duration(b), unit);
        for unit in [finer as TimeUnitChooser, coarser] {
            assert_eq!(both(Second, Nanosecond, unit), Some(DataType::Duration(Nanosecond)));
            assert_eq!(both(Microsecond, Second, unit), Some(DataType::Duration(Microsecond)));
        }
        assert_eq!(widened(&DataType::Duration(Second), &DataType::Int64, finer), None);
    }

    #[test]
    fn points_in_time_meet_whatever_their_zone_but_not_with_those_that_have_none() {
        let time = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        let both = |a, b| widened(&time(a), &time(b), finer);
        assert_eq!(both(Some("UTC"), Some("+00:00")), Some(time(Some("UTC"))));
        assert_eq!(both(Some("Europe/Oslo"), Some("-03:00")), Some(time(Some("UTC"))));
        assert_eq!(both(Some("UTC"), None), None);
        assert_eq!(widened(&DataType::Date32, &time(None), finer), Some(time(None)));
        assert_eq!(widened(&DataType::Date32, &time(Some("UTC")), finer), None);
    }

    #[test]
    fn structs_meet_by_name_and_lists_whatever_their_kind() {
        let structure = |fields: &[(&str, DataType)]| {
            let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
            DataType::Struct(fields.iter().map(field).collect())
        };
        let a = structure(&[("x", DataType::Int32), ("y", DataType::Utf8)]);
        let b = structure(&[("z", DataType::Date32), ("x", DataType::Int64)]);
        let both = structure(&[("x", DataType::Int64), ("y", DataType::Utf8), ("z", DataType::Date32)]);
        assert_eq!(widened(&a, &b, finer), Some(both.clone()));
        let item = |data_type: &DataType| Arc::new(Field::new("item", data_type.clone(), true));
        assert_eq!(
            widened(&DataType::FixedSizeList(item(&a), 2), &DataType::LargeList(item(&b)), finer),
            Some(DataType::LargeList(item(&both)))
        );
        assert_eq!(*same_leaves(&b, &both, &[0, 2]), [0, 1]);
        assert_eq!(*same_leaves(&b, &both, &[1]), [0]);
    }

    #[test]
    fn nested_fields_that_both_have_and_never_as_null_stay_so() {
        let structure = |fields: &[(&str, DataType, bool)]| {
            let field = |(name, data_type, nullable): &(&str, DataType, bool)| {
                Field::new(*name, data_type.clone(), *nullable)
            };
            DataType::Struct(fields.iter().map(field).collect())
        };
        let list =
            |item: DataType, nullable: bool| DataType::List(Arc::new(Field::new("item", item, nullable)));
        let int = DataType::Int32;
        let long = DataType::Int64;

        let a = structure(&[("x", int.clone(), false), ("y", int.clone(), false), ("z", int.clone(), false)]);
        let b = structure(&[("y", int.clone(), true), ("x", long.clone(), false)]);
        let both =
            structure(&[("x", long.clone(), false), ("y", int.clone(), true), ("z", int.clone(), true)]);
        assert_eq!(widened(&a, &b, finer), Some(both.clone()));

        let required = list(int.clone(), false);
        assert_eq!(widened(&required, &list(long.clone(), false), finer), Some(list(long.clone(), false)));
        assert_eq!(widened(&required, &list(long.clone(), true), finer), Some(list(long, true)));
        assert_eq!(widened(&list(a, false), &list(b, false), finer), Some(list(both, false)));
    }

    #[test]
    fn nested_fields_have_the_metadata_that_both_have() {
        let field = |metadata: &[(&str, &str)]| {
            let pairs = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Arc::new(Field::new("x", DataType::Int32, true).with_metadata(pairs.collect()))
        };
        let a = field(&[("unit", "m"), ("of", "a")]);
        let b = field(&[("unit", "m"), ("of", "b")]);
        let both = field(&[("unit", "m")]);
        let structure = |field: &FieldRef| DataType::Struct(vec![field.clone()].into());
        let list = |field: &FieldRef| DataType::List(field.clone());

        for (a, b) in [(&a, &b), (&b, &a), (&a, &both)] {
            assert_eq!(widened(&structure(a), &structure(b), finer), Some(structure(&both)));
            assert_eq!(widened(&list(a), &list(b), finer), Some(list(&both)));
        }
    }

    #[test]
    fn structs_of_many_fields_meet_in_time_that_grows_with_their_number() {
        let count = 20_000;
        let structure = |names: &mut dyn Iterator<Item = usize>, data_type: &DataType| {
            DataType::Struct(
                names.map(|name| Field::new(format!("f{name}"), data_type.clone(), true)).collect(),
            )
        };
        let a = structure(&mut (0..count), &DataType::Int32);
        let b = structure(&mut (count / 2..count * 2).rev(), &DataType::Int64);
        let Some(DataType::Struct(both)) = widened(&a, &b, finer) else { panic!("a struct") };
        assert_eq!(both.len(), count * 2);
        assert_eq!(*both[0].data_type(), DataType::Int32);
        assert_eq!(*both[count - 1].data_type(), DataType::Int64);
        let twice = structure(&mut (0..2).map(|_| 1), &DataType::Int32);
        assert_eq!(widened(&twice, &a, finer), None);
    }
}
