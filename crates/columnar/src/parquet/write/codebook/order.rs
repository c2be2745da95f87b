//! Orders values by their bytes, and truncates bounds.
//!
//! Values are compared by an eight-byte key that sorts as they do, and by their remaining bytes only if the keys are
//! equal.

use std::cmp::Ordering;

use parquet::{
    basic::{LogicalType, SortOrder, Type as PhysicalType},
    schema::types::ColumnDescPtr,
};

use crate::kernels::prefix_key::prefix_key;

/// Maximum bytes of a bound; longer ones are truncated.
pub(crate) const MAX_BYTES: usize = 64;

/// Order of a column's values, by their bytes in PLAIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainValueOrder {
    /// Unsigned bytes. If `text` is set, they are truncated only between characters.
    Bytes { text: bool },
    /// Signed big-endian numbers.
    Decimal,
    /// Little-endian numbers.
    Number { signed: bool },
    /// Little-endian floats of this many bytes. NaN cannot be a bound.
    Float { bytes: usize },
    /// No order that readers agree on, as for geometries, which therefore have no bounds.
    None,
}

impl PlainValueOrder {
    pub(crate) fn of(descriptor: &ColumnDescPtr) -> Self {
        let logical = descriptor.logical_type_ref();
        let signed = match descriptor.sort_order() {
            SortOrder::SIGNED => true,
            SortOrder::UNSIGNED => false,
            SortOrder::UNDEFINED => return Self::None,
        };
        match descriptor.physical_type() {
            // Signed values of variable length: no current writer produces them.
            PhysicalType::BYTE_ARRAY if signed => Self::None,
            PhysicalType::BYTE_ARRAY => Self::Bytes { text: matches!(logical, Some(LogicalType::String)) },
            PhysicalType::FIXED_LEN_BYTE_ARRAY if matches!(logical, Some(LogicalType::Float16)) => Self::None,
            PhysicalType::FIXED_LEN_BYTE_ARRAY if signed && descriptor.type_length() > 0 => Self::Decimal,
            PhysicalType::FIXED_LEN_BYTE_ARRAY => Self::Bytes { text: false },
            PhysicalType::INT32 | PhysicalType::INT64 => Self::Number { signed },
            PhysicalType::FLOAT => Self::Float { bytes: 4 },
            PhysicalType::DOUBLE => Self::Float { bytes: 8 },
            _ => Self::None,
        }
    }

    /// Returns an eight-byte key. Keys of two values sort as the values do, or are equal.
    pub(crate) fn key(self, value: &[u8]) -> u64 {
        const SIGN: u64 = 1 << 63;
        match self {
            Self::None => 0,
            Self::Bytes { .. } => prefix_key(value),
            Self::Decimal => prefix_key(value) ^ SIGN,
            Self::Number { signed } => last_bytes(value) ^ if signed { SIGN } else { 0 },
            Self::Float { .. } if is_nan(value) => NAN,
            Self::Float { .. } => {
                let bits = last_bytes(value);
                if bits & SIGN == 0 { bits | SIGN } else { !bits }
            }
        }
    }

    /// Returns whether a value with this key cannot be a bound.
    pub(crate) fn is_unbounded(self, key: u64) -> bool {
        matches!(self, Self::Float { .. }) && key == NAN
    }

    /// Compares two values with equal keys by their remaining bytes; their signs are equal.
    pub(crate) fn compare_rest(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytes { .. } | Self::Decimal => a.cmp(b),
            Self::Number { .. } | Self::Float { .. } | Self::None => Ordering::Equal,
        }
    }

    pub(crate) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        self.key(a).cmp(&self.key(b)).then_with(|| self.compare_rest(a, b))
    }

    /// Returns a lower bound of at most `max_len` bytes, and whether it is exact.
    pub(crate) fn cut_min(self, value: &[u8], max_len: usize) -> (Vec<u8>, bool) {
        match self {
            Self::Bytes { text } if value.len() > max_len => {
                let is_inside = |at: usize| text && value.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
                let end = (0..=max_len).rev().find(|at| !is_inside(*at)).unwrap_or(0);
                (value.get(..end).unwrap_or_default().to_vec(), false)
            }
            // A search for zero must find both zeros.
            Self::Float { bytes } if is_zero(value) => (zero(bytes, true), true),
            _ => (value.to_vec(), true),
        }
    }

    /// Returns an upper bound, and whether it is exact. The bound has at most `max_len` bytes, unless no such bound
    /// exists.
    pub(crate) fn cut_max(self, value: &[u8], max_len: usize) -> (Vec<u8>, bool) {
        match self {
            Self::Bytes { text } if value.len() > max_len => {
                let (cut, _) = self.cut_min(value, max_len);
                let larger = if text { larger_text(&cut) } else { larger_bytes(cut) };
                larger.map_or_else(|| (value.to_vec(), true), |larger| (larger, false))
            }
            Self::Float { bytes } if is_zero(value) => (zero(bytes, false), true),
            _ => (value.to_vec(), true),
        }
    }
}

/// Returns a value greater than all values with this prefix, by incrementing the last byte that is not the
/// largest.
fn larger_bytes(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(byte) = bytes.pop() {
        if let Some(next) = byte.checked_add(1) {
            bytes.push(next);
            return Some(bytes);
        }
    }
    None
}

/// Returns a string greater than all strings with this prefix, by incrementing the last character that has a
/// successor of the same length.
fn larger_text(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    text.char_indices().rev().find_map(|(at, character)| {
        let next = char::from_u32(u32::from(character) + 1)?;
        let mut larger = text.get(..at)?.to_owned();
        larger.push(next);
        (next.len_utf8() == character.len_utf8()).then(|| larger.into_bytes())
    })
}

/// Returns the last eight bytes in reverse order as a number: the counterpart of [`prefix_key`].
fn last_bytes(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(value.iter().rev()).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(bytes)
}

/// Key of NaN.
const NAN: u64 = u64::MAX;

fn float(value: &[u8]) -> f64 {
    match value.len() {
        4 => value.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes).into()),
        _ => value.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes)),
    }
}

fn is_nan(value: &[u8]) -> bool {
    float(value).is_nan()
}

fn is_zero(value: &[u8]) -> bool {
    float(value) == 0.0
}

fn zero(bytes: usize, is_negative: bool) -> Vec<u8> {
    let mut zero = vec![0; bytes];
    if let Some(last) = zero.last_mut().filter(|_| is_negative) {
        *last = 0x80;
    }
    zero
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bounds_are_cut_so_that_they_still_hold() {
        let text = PlainValueOrder::Bytes { text: true };
        let long = format!("{}\u{e9}{}", "a".repeat(63), "b".repeat(9));
        assert_eq!(text.cut_min(long.as_bytes(), MAX_BYTES), (vec![b'a'; 63], false));
        let (max, exact) = text.cut_max(long.as_bytes(), MAX_BYTES);
        assert!(max.as_slice() > long.as_bytes() && !exact && std::str::from_utf8(&max).is_ok());
        let foreign = "\u{e9}".repeat(50);
        let max = "\u{e9}".repeat(31) + "\u{ea}";
        assert_eq!(text.cut_max(foreign.as_bytes(), MAX_BYTES), (max.into_bytes(), false));
        let edges = format!("a\u{d7ff}\u{7f}{}", "\u{10ffff}".repeat(20));
        assert_eq!(text.cut_max(edges.as_bytes(), MAX_BYTES), (b"b".to_vec(), false));
        let high = "\u{10ffff}".repeat(20);
        let whole = (high.clone().into_bytes(), true);
        assert_eq!(text.cut_max(high.as_bytes(), MAX_BYTES), whole, "nothing in it can be larger");
        let bytes = PlainValueOrder::Bytes { text: false };
        assert_eq!(bytes.cut_max(&[0xff; 80], MAX_BYTES).0, [0xff; 80]);
        assert_eq!(bytes.cut_max(&[7; 80], MAX_BYTES).0.len(), 64);
        assert_eq!(bytes.cut_max(b"short", MAX_BYTES), (b"short".to_vec(), true));
    }

    #[test]
    fn keys_ascend_as_values_do() {
        let signed = PlainValueOrder::Number { signed: true };
        let of = |number: i32| signed.key(&number.to_le_bytes());
        assert!(of(-5) < of(-1) && of(-1) < of(0) && of(0) < of(i32::MAX));
        let unsigned = PlainValueOrder::Number { signed: false };
        assert!(unsigned.key(&5_u32.to_le_bytes()) < unsigned.key(&u32::MAX.to_le_bytes()));
        let decimal = |number: i128| PlainValueOrder::Decimal.key(number.to_be_bytes().as_ref());
        assert!(decimal(-1 << 70) < decimal(-1) && decimal(-1) < decimal(1 << 70));
        let double = PlainValueOrder::Float { bytes: 8 };
        let single = PlainValueOrder::Float { bytes: 4 };
        let floats = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 7.0, f64::INFINITY];
        assert!(floats.map(|float| double.key(&float.to_le_bytes())).is_sorted());
        assert!(floats.map(|float| single.key(&(float as f32).to_le_bytes())).is_sorted());
        assert!(single.is_unbounded(single.key(&f32::NAN.to_le_bytes())));
        assert!(!double.is_unbounded(double.key(&f64::INFINITY.to_le_bytes())));
        assert_eq!(double.cut_min(&0.0_f64.to_le_bytes(), MAX_BYTES).0, (-0.0_f64).to_le_bytes());
        assert_eq!(single.cut_max(&(-0.0_f32).to_le_bytes(), MAX_BYTES).0, 0.0_f32.to_le_bytes());
        let bytes = PlainValueOrder::Bytes { text: false };
        assert!(bytes.key(b"") <= bytes.key(b"\0") && bytes.key(b"a") < bytes.key(b"b"));
    }
}
