//! Tests values against a row group's bloom filters, with the hashes that all ORC writers use.

use orc_rust::proto::BloomFilter;

use crate::{
    orc::{
        tree::OrcTypeKind,
        write::{
            bloom::{bits, mixed, murmur3},
            statistics::decimal,
        },
    },
    predicate::Literal,
};

/// Nanoseconds of a millisecond.
const PER_MILLISECOND: i128 = 1_000_000;
/// Maximum exponent of the power of ten of a 128-bit decimal.
const MAX_ZEROS: u32 = 38;

/// Returns the hashes that a value may have in a column's filters: it is absent if the filter has none of them. `None`
/// if writers disagree on the hash.
pub(crate) fn hashes(literal: &Literal, kind: OrcTypeKind) -> Option<Vec<u64>> {
    let whole = |value: i128, min: i64, max: i64| {
        let value = i64::try_from(value).ok().filter(|value| (min..=max).contains(value))?;
        Some(vec![mixed(value)])
    };
    match (kind, literal) {
        // The C++ library hashes bytes after overwriting them.
        (OrcTypeKind::Byte, _) => None,
        (OrcTypeKind::Short, Literal::Integer(value)) => whole(*value, i16::MIN.into(), i16::MAX.into()),
        (OrcTypeKind::Int, Literal::Integer(value)) => whole(*value, i32::MIN.into(), i32::MAX.into()),
        (OrcTypeKind::Long, Literal::Integer(value)) => whole(*value, i64::MIN, i64::MAX),
        (OrcTypeKind::Date, Literal::Date(days)) => Some(vec![mixed(i64::from(*days))]),
        // Zeros differ in their sign, and NaNs in more than that.
        (OrcTypeKind::Float | OrcTypeKind::Double, Literal::Float(value))
            if *value == 0.0 || value.is_nan() =>
        {
            None
        }
        (OrcTypeKind::Double, Literal::Float(value)) => Some(vec![mixed(value.to_bits() as i64)]),
        (OrcTypeKind::Float, Literal::Float(value)) if f64::from(*value as f32) == *value => {
            Some(vec![mixed(value.to_bits() as i64)])
        }
        (OrcTypeKind::String, Literal::String(text)) => Some(vec![murmur3(text.as_bytes())]),
        (OrcTypeKind::Binary, Literal::Binary(bytes)) => Some(vec![murmur3(bytes)]),
        // Some writers hash decimals that are stored as integers like integers.
        (OrcTypeKind::Decimal(_, of), Literal::Decimal { unscaled, scale }) => {
            let of = u32::try_from(of).ok()?;
            let scale = u32::from(*scale);
            let unscaled = rescaled(*unscaled, scale, of)?;
            let short = decimal(unscaled, of);
            // With and without trailing zeros of the fraction: the specification demands the latter.
            let (digits, fraction) = short.split_once('.').unwrap_or((&short, ""));
            let long = format!("{digits}.{fraction:0<width$}", width = of as usize);
            Some(vec![murmur3(short.as_bytes()), murmur3(long.as_bytes())])
        }
        (OrcTypeKind::Timestamp(_) | OrcTypeKind::Instant(_), Literal::Timestamp(nanoseconds)) => {
            let milliseconds = i64::try_from(nanoseconds.div_euclid(PER_MILLISECOND)).ok()?;
            // Before 1970, and in the second after it, writers truncate fractions in either direction, and count
            // seconds from either side.
            let others: &[i64] = if milliseconds < 1000 { &[0, 1, -1000, -999, 1000, 1001] } else { &[0] };
            others.iter().map(|more| Some(mixed(milliseconds.checked_add(*more)?))).collect()
        }
        _ => None,
    }
}

/// Returns whether any of the hashes may be in the filter; `None` if the filter is invalid.
pub(crate) fn may_contain(filter: &BloomFilter, hashes: &[u64]) -> Option<bool> {
    let set = filter.utf8bitset.as_ref()?;
    let functions = filter.num_hash_functions?;
    let size = u32::try_from(set.len()).ok()?.checked_mul(u8::BITS)?;
    let functions =
        i32::try_from(functions).ok().filter(|functions| (1..=MAX_FUNCTIONS).contains(functions))?;

    if size == 0 || !size.is_multiple_of(u64::BITS) || i32::try_from(size).is_err() {
        return None;
    }
    // Words are little-endian, so bytes are in the order of their bits.

    let is_set = |bit: u32| set.get(bit as usize / 8).is_some_and(|byte| byte & 1 << (bit % 8) != 0);
    Some(hashes.iter().any(|hash| bits(*hash, functions, size).all(is_set)))
}

/// Maximum number of hash functions of a valid filter.
const MAX_FUNCTIONS: i32 = 256;

/// Returns the value with another scale; `None` if digits would be lost.
fn rescaled(unscaled: i128, from: u32, to: u32) -> Option<i128> {
    let power = |digits: u32| 10_i128.checked_pow(digits.min(MAX_ZEROS + 1));
    match to.checked_sub(from) {
        Some(more) => unscaled.checked_mul(power(more)?),
        None => {
            let power = power(from - to)?;
            (unscaled % power == 0).then(|| unscaled / power)
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn decimals_are_looked_for_with_and_without_zeros_at_their_end() {
        let of =
            |unscaled, scale, of| hashes(&Literal::Decimal { unscaled, scale }, OrcTypeKind::Decimal(20, of));
        let texts = |short: &str, long: &str| Some(vec![murmur3(short.as_bytes()), murmur3(long.as_bytes())]);
        assert_eq!(of(150, 2, 2), texts("1.5", "1.50"));
        assert_eq!(of(-5, 0, 2), texts("-5", "-5.00"));
        assert_eq!(of(1500, 3, 1), texts("1.5", "1.5"));
        assert_eq!(of(1501, 3, 1), None);
        assert_eq!(of(i128::MAX, 0, 30), None);
    }

    #[test]
    fn values_that_writers_hash_in_several_ways_are_not_looked_for() {
        for (literal, kind) in [
            (Literal::Float(-0.0), OrcTypeKind::Double),
            (Literal::Float(f64::NAN), OrcTypeKind::Float),
            (Literal::Float(0.1), OrcTypeKind::Float),
            (Literal::Integer(3), OrcTypeKind::Byte),
            (Literal::Integer(40_000), OrcTypeKind::Short),
            (Literal::Integer(i128::MAX), OrcTypeKind::Long),
            (Literal::String("x".to_owned()), OrcTypeKind::Char),
            (Literal::Float(1.0), OrcTypeKind::Long),
            (Literal::Decimal { unscaled: 150, scale: 2 }, OrcTypeKind::ShortDecimal(5, 2)),
        ] {
            assert_eq!(hashes(&literal, kind), None, "{literal:?}");
        }

        let kind = OrcTypeKind::Timestamp(TimeUnit::Nanosecond);
        assert_eq!(hashes(&Literal::Timestamp(1_000_999_999), kind).unwrap(), [mixed(1000)]);
        assert!(hashes(&Literal::Timestamp(-1), kind).unwrap().contains(&mixed(-1)));
    }

    #[test]
    fn what_is_no_filter_rules_nothing_out() {
        let filter = |functions, bytes: &[u8]| BloomFilter {
            num_hash_functions: Some(functions),
            utf8bitset: Some(bytes.to_vec()),
            ..BloomFilter::default()
        };
        assert_eq!(may_contain(&filter(3, &[0; 8]), &[1]), Some(false));
        assert_eq!(may_contain(&filter(3, &[255; 16]), &[1]), Some(true));
        assert_eq!(may_contain(&filter(3, &[0; 8]), &[]), Some(false));

        for wrong in [filter(0, &[0; 8]), filter(u32::MAX, &[0; 8]), filter(3, &[]), filter(3, &[0; 7])] {
            assert_eq!(may_contain(&wrong, &[1]), None);
        }
        assert_eq!(may_contain(&BloomFilter::default(), &[1]), None);
    }
}
