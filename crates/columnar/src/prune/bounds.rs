//! Bounds of a column's values, read from the arrays that statistics give.

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray},
    buffer::ScalarBuffer,
    datatypes::{
        ArrowNativeType, DataType, Float16Type, Float32Type, Float64Type, GenericBinaryType,
        GenericStringType, i256,
    },
};

use crate::predicate::{Class, Whole, WithWhole, with_whole};

/// By part, what is known of it.
type Known<T> = Vec<Option<T>>;

/// Bounds in the column's own representation, by part.
pub(super) enum Bounds {
    Whole(Known<i256>, Known<i256>),
    Float(Known<f64>, Known<f64>),
    Bytes(Known<Box<[u8]>>, Known<Box<[u8]>>),
    Unknown,
}

impl Bounds {
    pub(super) fn new(class: Class, min: Option<ArrayRef>, max: Option<ArrayRef>) -> Option<Self> {
        let of_class = |array: &ArrayRef| Class::of(array.data_type()) == class;
        let (min, max) = (min.filter(of_class), max.filter(of_class));
        let (min, max) = (min.as_ref(), max.as_ref());
        Some(match class {
            Class::Float => {
                let (min, max) = ordered(values(min, floats)?, values(max, floats)?);
                Self::Float(min, max)
            }
            Class::Text | Class::Bytes => {
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

/// Forgets bounds that contradict each other.
fn ordered<T: PartialOrd>(mut min: Known<T>, mut max: Known<T>) -> (Known<T>, Known<T>) {
    for (min, max) in min.iter_mut().zip(&mut max) {
        if let (Some(least), Some(most)) = (&*min, &*max)
            && least > most
        {
            (*min, *max) = (None, None);
        }
    }
    (min, max)
}

/// Nothing is known without an array.
fn values<T>(array: Option<&ArrayRef>, of: fn(&ArrayRef) -> Option<Known<T>>) -> Option<Known<T>> {
    array.map_or_else(|| Some(Vec::new()), of)
}

fn wholes(array: &ArrayRef) -> Option<Known<i256>> {
    struct Widen<'a>(&'a dyn Array);
    impl WithWhole for Widen<'_> {
        type Output = Known<i256>;

        fn with<T: Whole + ArrowNativeType>(self, values: &ScalarBuffer<T>) -> Self::Output {
            let known = |(row, value): (usize, &T)| self.0.is_valid(row).then(|| value.wide());
            values.iter().enumerate().map(known).collect()
        }
    }
    match array.as_boolean_opt() {
        Some(array) => Some(booleans(array)),
        None => with_whole(array, Widen(array)),
    }
}

fn booleans(array: &BooleanArray) -> Known<i256> {
    array.iter().map(|value| value.map(|value| i256::from_i128(i128::from(value)))).collect()
}

fn floats(array: &ArrayRef) -> Option<Known<f64>> {
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

fn strings(array: &ArrayRef) -> Option<Known<Box<[u8]>>> {
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
