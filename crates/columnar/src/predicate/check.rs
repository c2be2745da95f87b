//! One condition on the values of a column, in the column's own representation.

use arrow::{
    array::{Array, AsArray, BooleanArray},
    buffer::ScalarBuffer,
    datatypes::{
        ArrowNativeType, DataType, Float16Type, Float32Type, Float64Type, GenericBinaryType,
        GenericStringType, i256,
    },
};
use hashbrown::HashSet;

use super::{
    CompareOp,
    classes::{ComparableInteger, IntegerVisitor, with_whole},
    like::LikeMatcher,
    words::{keep_rows, keep_values},
};

/// Maximum length of a set of numbers that are compared one by one.
const SHORT_SET: usize = 8;

/// Condition on a value that is not null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValuePredicate {
    /// A whole number from `low` to `high`, both inclusive.
    Range { low: i256, high: i256 },
    /// One of these whole numbers, in ascending order.
    Set(Vec<i256>),
    /// A floating-point number; the operator is never `<>`, the value never NaN.
    Float { op: CompareOp, value: f64 },
    /// One of these floating-point numbers, in ascending order, without NaN and minus zero.
    FloatSet(Vec<f64>),
    /// Bytes, or the bytes of a string; the operator is never `<>`.
    Bytes { op: CompareOp, value: Box<[u8]> },
    /// One of these.
    BytesSet(BytesSet),
    /// Begins with these bytes.
    Prefix(Box<[u8]>),
    /// A string that contains this.
    Contains(String),
    /// A string that matches.
    Like(LikeMatcher),
}

/// Distinct byte strings, for lookups of values and ranges.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BytesSet {
    sorted: Vec<Box<[u8]>>,
    members: HashSet<Box<[u8]>>,
}

impl BytesSet {
    fn new(mut values: Vec<Box<[u8]>>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self { members: values.iter().cloned().collect(), sorted: values }
    }

    /// Returns the byte strings in ascending order.
    pub(crate) fn sorted(&self) -> &[Box<[u8]>] {
        &self.sorted
    }

    pub(super) fn into_sorted(self) -> Vec<Box<[u8]>> {
        self.sorted
    }

    pub(crate) fn contains(&self, value: &[u8]) -> bool {
        self.members.contains(value)
    }
}

impl ValuePredicate {
    /// Tests for one of these integers; `None` if there are none.
    pub(super) fn among(mut values: Vec<i256>) -> Option<Self> {
        values.sort_unstable();
        values.dedup();
        match values.as_slice() {
            [] => None,
            [value] => Some(Self::Range { low: *value, high: *value }),
            _ => Some(Self::Set(values)),
        }
    }

    /// Tests for one of these byte strings; `None` if there are none.
    pub(super) fn among_bytes(values: Vec<Box<[u8]>>) -> Option<Self> {
        let set = BytesSet::new(values);
        match set.sorted.as_slice() {
            [] => None,
            [value] => Some(Self::Bytes { op: CompareOp::Equal, value: value.clone() }),
            _ => Some(Self::BytesSet(set)),
        }
    }

    /// Tests for one of these floating-point numbers, without NaN; `None` if the list is empty.
    pub(super) fn among_floats(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        match values.as_slice() {
            [] => None,
            [value] => Some(Self::Float { op: CompareOp::Equal, value: *value }),
            _ => Some(Self::FloatSet(values)),
        }
    }

    /// Clears the rows whose values fail, or those that pass if it is negated. `None` if the array does not have
    /// the type of the check.
    pub(super) fn keep(&self, negated: bool, array: &dyn Array, words: &mut [u64]) -> Option<()> {
        match self {
            Self::Range { low, high } => match array.as_boolean_opt() {
                Some(array) => {
                    keep_booleans(words, array, |value| (*low <= value && value <= *high) != negated);
                    Some(())
                }
                None => with_whole(array, KeepRange { low: *low, high: *high, negated, words }),
            },
            Self::Set(set) => match array.as_boolean_opt() {
                Some(array) => {
                    keep_booleans(words, array, |value| set.contains(&value) != negated);
                    Some(())
                }
                None => with_whole(array, KeepSet { set, negated, words }),
            },
            Self::Float { op, value } => {
                let wanted = *value;
                match op {
                    CompareOp::Less => keep_floats(words, array, |value| (value < wanted) != negated),
                    CompareOp::LessOrEqual => keep_floats(words, array, |value| (value <= wanted) != negated),
                    CompareOp::Greater => keep_floats(words, array, |value| (value > wanted) != negated),
                    CompareOp::GreaterOrEqual => {
                        keep_floats(words, array, |value| (value >= wanted) != negated)
                    }
                    CompareOp::Equal => keep_floats(words, array, |value| (value == wanted) != negated),
                    CompareOp::NotEqual => keep_floats(words, array, |value| (value != wanted) != negated),
                }
            }
            Self::FloatSet(set) => {
                let contains =
                    |value: f64| set.binary_search_by(|member| member.total_cmp(&(value + 0.0))).is_ok();
                keep_floats(words, array, |value| contains(value) != negated)
            }
            Self::Bytes { op: CompareOp::Equal, value: wanted } => {
                keep_bytes(words, array, |value| (value == wanted.as_ref()) != negated)
            }
            Self::Bytes { op, value: wanted } => {
                keep_bytes(words, array, |value| op.holds(value.cmp(wanted.as_ref())) != negated)
            }
            Self::BytesSet(set) => keep_bytes(words, array, |value| set.contains(value) != negated),
            Self::Prefix(prefix) => keep_bytes(words, array, |value| value.starts_with(prefix) != negated),
            Self::Contains(text) => keep_text(words, array, |value| value.contains(text.as_str()) != negated),
            Self::Like(like) => keep_text(words, array, |value| like.matches(value) != negated),
        }
    }

    /// Returns the relative cost per value.
    pub(super) fn cost(&self) -> u32 {
        match self {
            Self::Range { .. } | Self::Float { .. } => 1,
            Self::Set(set) if set.len() <= SHORT_SET => 2,
            Self::Set(_) | Self::FloatSet(_) => 8,
            Self::Bytes { .. } | Self::Prefix(_) => 6,
            Self::BytesSet(_) => 16,
            Self::Contains(_) => 30,
            Self::Like(_) => 60,
        }
    }
}

struct KeepRange<'a> {
    low: i256,
    high: i256,
    negated: bool,
    words: &'a mut [u64],
}

impl IntegerVisitor for KeepRange<'_> {
    type Output = ();

    fn with<T: ComparableInteger + ArrowNativeType>(self, values: &ScalarBuffer<T>) {
        let Self { low, high, negated, words } = self;
        match (T::narrow(low.max(T::LOWEST.wide())), T::narrow(high.min(T::HIGHEST.wide()))) {
            (Some(low), Some(high)) if negated => {
                keep_values(words, values, |value| (value < low) | (value > high));
            }
            (Some(low), Some(high)) => keep_values(words, values, |value| (value >= low) & (value <= high)),
            _ if negated => {}
            _ => words.fill(0),
        }
    }
}

struct KeepSet<'a> {
    set: &'a [i256],
    negated: bool,
    words: &'a mut [u64],
}

impl IntegerVisitor for KeepSet<'_> {
    type Output = ();

    fn with<T: ComparableInteger + ArrowNativeType>(self, values: &ScalarBuffer<T>) {
        let Self { set, negated, words } = self;
        let set: Vec<T> = set.iter().filter_map(|value| T::narrow(*value)).collect();
        let mut members = [set.first().copied().unwrap_or(T::LOWEST); SHORT_SET];

        if set.is_empty() {
            if !negated {
                words.fill(0);
            }
        } else if set.len() <= SHORT_SET {
            // The length is constant and all are compared, without a branch, so the compiler vectorizes it.
            members.iter_mut().zip(&set).for_each(|(slot, member)| *slot = *member);
            let among = |value: T| members.iter().fold(false, |found, member| found | (*member == value));
            keep_values(words, values, |value| among(value) != negated);
        } else {
            keep_values(words, values, |value| set.binary_search(&value).is_ok() != negated);
        }
    }
}

fn keep_booleans(words: &mut [u64], array: &BooleanArray, passes: impl Fn(i256) -> bool) {
    let keep_true = passes(i256::ONE);
    let keep_false = passes(i256::ZERO);
    for (word, bits) in words.iter_mut().zip(array.values().bit_chunks().iter_padded()) {
        *word &= match (keep_true, keep_false) {
            (true, true) => u64::MAX,
            (true, false) => bits,
            (false, true) => !bits,
            (false, false) => 0,
        };
    }
}

#[inline(always)]
fn keep_floats(words: &mut [u64], array: &dyn Array, passes: impl Fn(f64) -> bool) -> Option<()> {
    match array.data_type() {
        DataType::Float16 => {
            let values = array.as_primitive_opt::<Float16Type>()?.values();
            keep_values(words, values, |value| passes(value.to_f64()));
        }
        DataType::Float32 => {
            let values = array.as_primitive_opt::<Float32Type>()?.values();
            keep_values(words, values, |value| passes(f64::from(value)));
        }
        _ => keep_values(words, array.as_primitive_opt::<Float64Type>()?.values(), passes),
    }
    Some(())
}

fn keep_bytes(words: &mut [u64], array: &dyn Array, passes: impl Fn(&[u8]) -> bool) -> Option<()> {
    macro_rules! rows {
        ($array:expr) => {{
            let array = $array?;
            keep_rows(words, |row| passes(array.value(row).as_ref()));
        }};
    }
    match array.data_type() {
        DataType::Binary => rows!(array.as_bytes_opt::<GenericBinaryType<i32>>()),
        DataType::LargeBinary => rows!(array.as_bytes_opt::<GenericBinaryType<i64>>()),
        DataType::BinaryView => rows!(array.as_binary_view_opt()),
        DataType::FixedSizeBinary(_) => rows!(array.as_fixed_size_binary_opt()),
        _ => return keep_text(words, array, |value| passes(value.as_bytes())),
    }
    Some(())
}

fn keep_text(words: &mut [u64], array: &dyn Array, passes: impl Fn(&str) -> bool) -> Option<()> {
    macro_rules! rows {
        ($array:expr) => {{
            let array = $array?;
            keep_rows(words, |row| passes(array.value(row)));
        }};
    }
    match array.data_type() {
        DataType::Utf8 => rows!(array.as_bytes_opt::<GenericStringType<i32>>()),
        DataType::LargeUtf8 => rows!(array.as_bytes_opt::<GenericStringType<i64>>()),
        _ => rows!(array.as_string_view_opt()),
    }
    Some(())
}
