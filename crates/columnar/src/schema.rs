//! Which columns a file has, which of them are wanted, and how the columns of several files become one.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};

/// A top-level column of a file, and which of its leaves are wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Projected {
    /// Which of the file's top-level columns.
    pub(crate) root: usize,
    /// Which leaves of it, depth first from 0, in ascending order; `None` for all.
    pub(crate) leaves: Option<Box<[usize]>>,
}

impl Projected {
    /// The whole column.
    pub(crate) fn whole(root: usize) -> Self {
        Self { root, leaves: None }
    }

    /// Whether the leaf is wanted.
    pub(crate) fn has_leaf(&self, leaf: usize) -> bool {
        self.leaves.as_ref().is_none_or(|leaves| leaves.binary_search(&leaf).is_ok())
    }

    /// What is left of the column's own field; the field itself where every leaf is wanted.
    pub(crate) fn field(&self, root: &FieldRef) -> FieldRef {
        match &self.leaves {
            None => root.clone(),
            Some(_) => pruned(root, &mut 0, self).unwrap_or_else(|| root.clone()),
        }
    }
}

/// How many leaves a type has.
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

fn pruned(field: &FieldRef, next_leaf: &mut usize, projected: &Projected) -> Option<FieldRef> {
    let with = |data_type| Arc::new(field.as_ref().clone().with_data_type(data_type));
    let inner = |inner: &FieldRef, next_leaf: &mut usize| pruned(inner, next_leaf, projected);
    match field.data_type() {
        DataType::Struct(fields) => {
            let kept: Fields = fields.iter().filter_map(|field| inner(field, next_leaf)).collect();
            (!kept.is_empty()).then(|| with(DataType::Struct(kept)))
        }
        DataType::List(item) => Some(with(DataType::List(inner(item, next_leaf)?))),
        DataType::LargeList(item) => Some(with(DataType::LargeList(inner(item, next_leaf)?))),
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

/// Whether values are strings or bytes of any length.
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

/// The leaves of a field that lie below one of the paths, which name fields of structs; lists and maps are passed
/// through. An empty path is the whole field. `None` if a path leads nowhere.
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
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            collect(item.data_type(), path, next_leaf, leaves);
        }
        DataType::Map(entries, _) => collect(entries.data_type(), path, next_leaf, leaves),
        other => *next_leaf += leaf_count(other),
    }
}

/// The type that values of both types fit in without loss; `None` if there is none.
pub(crate) fn widened(a: &DataType, b: &DataType, unit: Unit) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Decimal128, Decimal256, Float16, Float32, Float64, Int8, Int16,
        Int32, Int64, LargeBinary, LargeUtf8, List, Map, Null, Struct, Timestamp, UInt8, UInt16, UInt32,
        UInt64, Utf8, Utf8View,
    };
    if a == b {
        return Some(a.clone());
    }
    let signed = |t: &DataType| match t {
        Int8 => Some(8),
        Int16 | UInt8 => Some(16),
        Int32 | UInt16 => Some(32),
        Int64 | UInt32 => Some(64),
        _ => None,
    };
    Some(match (a, b) {
        (Null, other) | (other, Null) => other.clone(),
        (UInt8, UInt16) | (UInt16, UInt8) => UInt16,
        (UInt8 | UInt16, UInt32) | (UInt32, UInt8 | UInt16) => UInt32,
        (UInt8 | UInt16 | UInt32, UInt64) | (UInt64, UInt8 | UInt16 | UInt32) => UInt64,
        (Float16, Float32) | (Float32, Float16) => Float32,
        (Float16 | Float32, Float64) | (Float64, Float16 | Float32) => Float64,
        (Float64 | Float32, small) | (small, Float64 | Float32)
            if signed(small).is_some_and(|bits| bits <= 32) =>
        {
            Float64
        }
        (Decimal128(p, s), Decimal128(q, t)) => {
            let scale = (*s).max(*t);
            let whole = (i16::from(*p) - i16::from(*s)).max(i16::from(*q) - i16::from(*t));
            let precision = u8::try_from(whole + i16::from(scale)).ok()?;
            if precision <= 38 { Decimal128(precision, scale) } else { Decimal256(precision.min(76), scale) }
        }
        (Utf8 | Utf8View, LargeUtf8) | (LargeUtf8, Utf8 | Utf8View) => LargeUtf8,
        (Utf8, Utf8View) | (Utf8View, Utf8) => Utf8,
        (Binary | BinaryView, LargeBinary) | (LargeBinary, Binary | BinaryView) => LargeBinary,
        (Binary, BinaryView) | (BinaryView, Binary) => Binary,
        (Date32, Date64) | (Date64, Date32) => Date64,
        (Timestamp(u, zone), Timestamp(v, other)) if zone == other => Timestamp(unit(*u, *v), zone.clone()),
        (List(a), List(b)) => List(Arc::new(
            a.as_ref()
                .clone()
                .with_data_type(widened(a.data_type(), b.data_type(), unit)?)
                .with_nullable(true),
        )),
        (Map(a, sorted), Map(b, other)) if sorted == other => {
            let (Struct(of_a), Struct(of_b)) = (a.data_type(), b.data_type()) else { return None };
            let both = of_a.iter().zip(of_b).map(|(a, b)| {
                let data_type = widened(a.data_type(), b.data_type(), unit)?;
                let nullable = a.is_nullable() || b.is_nullable();
                Some(Arc::new(a.as_ref().clone().with_data_type(data_type).with_nullable(nullable)))
            });
            let entries = Struct(both.collect::<Option<Fields>>()?);
            Map(Arc::new(a.as_ref().clone().with_data_type(entries)), *sorted)
        }
        (Struct(a), Struct(b)) if a.len() == b.len() => {
            let both = a.iter().zip(b).map(|(a, b)| {
                let same = a.name() == b.name();
                let data_type = widened(a.data_type(), b.data_type(), unit).filter(|_| same)?;
                Some(Arc::new(a.as_ref().clone().with_data_type(data_type).with_nullable(true)))
            });
            Struct(both.collect::<Option<Fields>>()?)
        }
        (a, b) => match signed(a)?.max(signed(b)?) {
            16 => Int16,
            32 => Int32,
            _ => Int64,
        },
    })
}

/// Which of two units points in time come out in.
pub(crate) type Unit = fn(TimeUnit, TimeUnit) -> TimeUnit;

/// The unit that tells more points in time apart.
pub(crate) fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let rank = |unit: TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(a) < rank(b) { b } else { a }
}

/// The unit that reaches farther.
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
        let projected = Projected { root: 0, leaves: Some([1].into()) };
        let left = projected.field(&Arc::new(field));
        assert_eq!(leaf_count(left.data_type()), 1);
        assert!(format!("{:?}", left.data_type()).contains("\"d\""));
    }

    #[test]
    fn types_widen_without_loss_or_not_at_all() {
        use DataType::{Float64, Int8, Int32, Int64, UInt32, UInt64, Utf8};
        assert_eq!(widened(&Int8, &Int32, finer), Some(Int32));
        assert_eq!(widened(&UInt32, &Int8, finer), Some(Int64));
        assert_eq!(widened(&UInt64, &Int64, finer), None);
        assert_eq!(widened(&Int32, &Float64, finer), Some(Float64));
        assert_eq!(widened(&Int64, &Float64, finer), None);
        assert_eq!(widened(&Utf8, &Int32, finer), None);
        assert_eq!(
            widened(&DataType::Decimal128(10, 2), &DataType::Decimal128(9, 4), finer),
            Some(DataType::Decimal128(12, 4))
        );
    }
}
