//! Bounds of a column's values, read from the arrays of the statistics.

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray},
    buffer::ScalarBuffer,
    datatypes::{
        ArrowNativeType, DataType, Float16Type, Float32Type, Float64Type, GenericBinaryType,
        GenericStringType, i256,
    },
};

use crate::predicate::{ComparableInteger, IntegerVisitor, TypeClass, with_whole};

/// Value of each part, if known.
type PartValues<T> = Vec<Option<T>>;

/// Bounds in the column's own representation, by part.
pub(super) enum PruningBounds {
    Whole(PartValues<i256>, PartValues<i256>),
    Float(PartValues<f64>, PartValues<f64>),
    Bytes(PartValues<Box<[u8]>>, PartValues<Box<[u8]>>),
    Unknown,
}

impl PruningBounds {
    pub(super) fn new(class: TypeClass, min: Option<ArrayRef>, max: Option<ArrayRef>) -> Option<Self> {
        let of_class = |array: &ArrayRef| TypeClass::of(array.data_type()) == class;
        let min = min.filter(of_class);
        let max = max.filter(of_class);
        let min = min.as_ref();
        let max = max.as_ref();

        Some(match class {
            TypeClass::Float => {
                let (min, max) = ordered(values(min, floats)?, values(max, floats)?);
                Self::Float(min, max)
            }
            TypeClass::Text | TypeClass::Bytes => {
                let (min, max) = ordered(values(min, strings)?, values(max, strings)?);
                Self::Bytes(min, max)
            }
            _ => {
                let (min, max) = ordered(values(min, wholes)?, values(max, wholes)?);
                Self::Whole(min, max)
            }
        })
    }
}

/// Drops bounds that contradict each other.
fn ordered<T: PartialOrd>(mut min: PartValues<T>, mut max: PartValues<T>) -> (PartValues<T>, PartValues<T>) {
    for (min, max) in min.iter_mut().zip(&mut max) {
        if let (Some(low), Some(high)) = (&*min, &*max)
            && low > high
        {
            (*min, *max) = (None, None);
        }
    }
    (min, max)
}

/// Reads the values of an array. Without one, none are known.
fn values<T>(array: Option<&ArrayRef>, of: fn(&ArrayRef) -> Option<PartValues<T>>) -> Option<PartValues<T>> {
    array.map_or_else(|| Some(Vec::new()), of)
}

fn wholes(array: &ArrayRef) -> Option<PartValues<i256>> {
    struct WidenBounds<'a>(&'a dyn Array);
    impl IntegerVisitor for WidenBounds<'_> {
        type Output = PartValues<i256>;

        fn with<T: ComparableInteger + ArrowNativeType>(self, values: &ScalarBuffer<T>) -> Self::Output {
            let known = |(row, value): (usize, &T)| self.0.is_valid(row).then(|| value.wide());
            values.iter().enumerate().map(known).collect()
        }
    }

    match array.as_boolean_opt() {
        Some(array) => Some(booleans(array)),
        None => with_whole(array, WidenBounds(array)),
    }
}

fn booleans(array: &BooleanArray) -> PartValues<i256> {
    array.iter().map(|value| value.map(|value| i256::from_i128(i128::from(value)))).collect()
}

fn floats(array: &ArrayRef) -> Option<PartValues<f64>> {
    let known = |value: Option<f64>| value.filter(|value| !value.is_nan());
    Some(match array.data_type() {
        DataType::Float16 => {
            let array = array.as_primitive_opt::<Float16Type>()?;
            array.iter().map(|value| known(value.map(|value| value.to_f64()))).collect()
        }
        DataType::Float32 => {
            array.as_primitive_opt::<Float32Type>()?.iter().map(|value| known(value.map(f64::from))).collect()
        }
        _ => array.as_primitive_opt::<Float64Type>()?.iter().map(known).collect(),
    })
}

fn strings(array: &ArrayRef) -> Option<PartValues<Box<[u8]>>> {
    macro_rules! owned {
        ($array:expr) => {
            $array?.iter().map(|value| value.map(|value| AsRef::<[u8]>::as_ref(value).into())).collect()
        };
    }
    Some(match array.data_type() {
        DataType::Utf8 => owned!(array.as_bytes_opt::<GenericStringType<i32>>()),
        DataType::LargeUtf8 => owned!(array.as_bytes_opt::<GenericStringType<i64>>()),
        DataType::Utf8View => owned!(array.as_string_view_opt()),
        DataType::Binary => owned!(array.as_bytes_opt::<GenericBinaryType<i32>>()),
        DataType::LargeBinary => owned!(array.as_bytes_opt::<GenericBinaryType<i64>>()),
        DataType::BinaryView => owned!(array.as_binary_view_opt()),
        _ => owned!(array.as_fixed_size_binary_opt()),
    })
}
