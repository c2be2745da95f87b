//! Collects statistics of a column in a row group, a stripe and the file.

use arrow::{array::ArrowNativeTypeOp, datatypes::TimeUnit};
use orc_rust::proto::{
    BinaryStatistics, BucketStatistics, CollectionStatistics, ColumnStatistics, DateStatistics,
    DecimalStatistics, DoubleStatistics, IntegerStatistics, StringStatistics, TimestampStatistics,
};

use super::bound::OrcStringBound;

/// Nanoseconds of a millisecond.
const PER_MILLISECOND: i64 = 1_000_000;

/// Statistics of some rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OrcStatsAccumulator {
    /// Number of rows with a value.
    pub(super) values: u64,
    pub(super) has_null: bool,
    /// Bytes of the column's own streams; known for stripes and files.
    pub(super) bytes: Option<u64>,
    pub(super) detail: OrcTypeStatistics,
}

/// Statistics that depend on the type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OrcTypeStatistics {
    Nothing,
    /// Number of true values.
    Booleans(u64),
    Whole {
        bounds: Option<(i64, i64)>,
        sum: i128,
    },
    Floats {
        bounds: Option<(f64, f64)>,
        /// NaN if any value is NaN, in which case there are no bounds.
        sum: f64,
    },
    Texts {
        bounds: Option<(OrcStringBound, OrcStringBound)>,
        bytes: u64,
    },
    Bytes(u64),
    Decimals {
        bounds: Option<(i128, i128)>,
        /// `None` if it exceeds a decimal.
        sum: Option<i128>,
        scale: u32,
    },
    Dates(Option<(i32, i32)>),
    Times {
        bounds: Option<(i64, i64)>,
        unit: TimeUnit,
    },
    Children {
        bounds: Option<(u64, u64)>,
        total: u64,
    },
}

impl OrcTypeStatistics {
    /// Returns whether the minimum and maximum string are collected.
    pub(super) fn has_text_bounds(&self) -> bool {
        matches!(self, Self::Texts { .. })
    }

    /// Returns statistics of the same kind, of no values.
    pub(super) fn emptied(&self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Booleans(_) => Self::Booleans(0),
            Self::Whole { .. } => Self::Whole { bounds: None, sum: 0 },
            Self::Floats { .. } => Self::Floats { bounds: None, sum: 0.0 },
            Self::Texts { .. } => Self::Texts { bounds: None, bytes: 0 },
            Self::Bytes(_) => Self::Bytes(0),
            Self::Decimals { scale, .. } => Self::Decimals { bounds: None, sum: Some(0), scale: *scale },
            Self::Dates(_) => Self::Dates(None),
            Self::Times { unit, .. } => Self::Times { bounds: None, unit: *unit },
            Self::Children { .. } => Self::Children { bounds: None, total: 0 },
        }
    }

    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => {}
            (Self::Booleans(sum), Self::Booleans(more)) | (Self::Bytes(sum), Self::Bytes(more)) => {
                *sum += more;
            }
            (Self::Whole { bounds, sum }, Self::Whole { bounds: others, sum: more }) => {
                widen(bounds, *others);
                *sum += more;
            }
            (Self::Floats { bounds, sum }, Self::Floats { bounds: others, sum: more }) => {
                widen(bounds, *others);
                *sum += more;
                if sum.is_nan() {
                    *bounds = None;
                }
            }
            (Self::Texts { bounds, bytes }, Self::Texts { bounds: others, bytes: more }) => {
                *bytes += more;
                match (bounds, others) {
                    (_, None) => {}
                    (bounds @ None, _) => *bounds = others.clone(),
                    (Some((min, max)), Some((other_min, other_max))) => {
                        if other_min.text < min.text {
                            min.clone_from(other_min);
                        }
                        if other_max.text > max.text {
                            max.clone_from(other_max);
                        }
                    }
                }
            }
            (Self::Decimals { bounds, sum, .. }, Self::Decimals { bounds: others, sum: more, .. }) => {
                widen(bounds, *others);
                *sum = sum.zip(*more).and_then(|(sum, more)| sum.checked_add(more));
            }
            (Self::Dates(bounds), Self::Dates(others)) => widen(bounds, *others),
            (Self::Times { bounds, .. }, Self::Times { bounds: others, .. }) => widen(bounds, *others),
            (Self::Children { bounds, total }, Self::Children { bounds: others, total: more }) => {
                widen(bounds, *others);
                *total += more;
            }
            // Columns do not change their type.
            (mine, _) => *mine = Self::Nothing,
        }
    }
}

/// Widens bounds by others.
pub(super) fn widen<T: PartialOrd + Copy>(bounds: &mut Option<(T, T)>, others: Option<(T, T)>) {
    let Some((other_min, other_max)) = others else { return };
    let (min, max) = bounds.get_or_insert((other_min, other_max));
    if other_min < *min {
        *min = other_min;
    }
    if other_max > *max {
        *max = other_max;
    }
}

impl OrcStatsAccumulator {
    pub(super) fn new(detail: OrcTypeStatistics) -> Self {
        Self { values: 0, has_null: false, bytes: None, detail }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.values += other.values;
        self.has_null |= other.has_null;
        self.bytes = match (self.bytes, other.bytes) {
            (None, bytes) | (bytes, None) => bytes,
            (Some(bytes), Some(more)) => Some(bytes + more),
        };
        self.detail.merge(&other.detail);
    }

    /// Adds integers.
    #[inline]
    pub(super) fn add_whole<T: Copy + Into<i64>>(&mut self, values: &[T]) {
        let OrcTypeStatistics::Whole { bounds, sum } = &mut self.detail else { return };
        let Some(&first) = values.first() else { return };
        let mut min: i64 = first.into();
        let mut max: i64 = first.into();
        // The sum of 64-bit values may overflow; those of their halves do not.
        let mut low = 0_u64;
        let mut high = 0_i64;

        for &value in values {
            let value: i64 = value.into();
            min = min.min(value);
            max = max.max(value);
            low = low.wrapping_add(value as u64 & 0xffff_ffff);
            high = high.wrapping_add(value >> 32);
        }

        widen(bounds, Some((min, max)));
        *sum += (i128::from(high) << 32) + i128::from(low);
    }

    pub(super) fn add_floats<T: Copy + Into<f64>>(&mut self, values: &[T]) {
        let OrcTypeStatistics::Floats { bounds, sum } = &mut self.detail else { return };
        let mut min = f64::INFINITY;
        let mut max = f64::NEG_INFINITY;

        for &value in values {
            let value: f64 = value.into();
            min = if value < min { value } else { min };
            max = if value > max { value } else { max };
            *sum += value;
        }

        if sum.is_nan() {
            *bounds = None;
        } else if !values.is_empty() {
            widen(bounds, Some((min, max)));
        }
    }

    pub(super) fn add_dates(&mut self, days: &[i32]) {
        let OrcTypeStatistics::Dates(bounds) = &mut self.detail else { return };
        widen(bounds, bounds_of(days));
    }

    /// Adds the bounds and bytes of strings.
    pub(super) fn add_texts(&mut self, texts: Option<(&[u8], &[u8])>, length: u64) {
        match &mut self.detail {
            OrcTypeStatistics::Bytes(bytes) => *bytes += length,
            OrcTypeStatistics::Texts { bounds, bytes } => {
                *bytes += length;
                let Some((lowest, highest)) = texts else { return };
                match bounds {
                    None => *bounds = Some((OrcStringBound::lower(lowest), OrcStringBound::upper(highest))),
                    Some((min, max)) => {
                        if *lowest < *min.text {
                            *min = OrcStringBound::lower(lowest);
                        }
                        if *highest > *max.text {
                            *max = OrcStringBound::upper(highest);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Encodes the statistics.
    pub(super) fn message(&self) -> ColumnStatistics {
        let mut message = ColumnStatistics {
            number_of_values: Some(self.values),
            has_null: Some(self.has_null),
            bytes_on_disk: self.bytes,
            ..ColumnStatistics::default()
        };
        match &self.detail {
            OrcTypeStatistics::Nothing => {}
            OrcTypeStatistics::Booleans(trues) => {
                message.bucket_statistics = Some(BucketStatistics { count: vec![*trues] });
            }
            OrcTypeStatistics::Whole { bounds, sum } => {
                message.int_statistics = Some(IntegerStatistics {
                    minimum: bounds.map(|it| it.0),
                    maximum: bounds.map(|it| it.1),
                    sum: i64::try_from(*sum).ok(),
                });
            }
            OrcTypeStatistics::Floats { bounds, sum } => {
                // A zero of either sign may stand for the other.
                let zero = |bound: f64, zero: f64| if bound == 0.0 { zero } else { bound };
                message.double_statistics = Some(DoubleStatistics {
                    minimum: bounds.map(|it| zero(it.0, -0.0)),
                    maximum: bounds.map(|it| zero(it.1, 0.0)),
                    sum: Some(*sum),
                });
            }
            OrcTypeStatistics::Texts { bounds, bytes } => {
                message.string_statistics = Some(text_statistics(bounds.as_ref(), *bytes));
            }
            OrcTypeStatistics::Bytes(bytes) => {
                message.binary_statistics = Some(BinaryStatistics { sum: i64::try_from(*bytes).ok() });
            }
            OrcTypeStatistics::Decimals { bounds, sum, scale } => {
                message.decimal_statistics = Some(DecimalStatistics {
                    minimum: bounds.map(|it| decimal(it.0, *scale)),
                    maximum: bounds.map(|it| decimal(it.1, *scale)),
                    sum: sum.filter(|sum| fits_decimal(*sum)).map(|sum| decimal(sum, *scale)),
                });
            }
            OrcTypeStatistics::Dates(bounds) => {
                message.date_statistics =
                    Some(DateStatistics { minimum: bounds.map(|it| it.0), maximum: bounds.map(|it| it.1) });
            }
            OrcTypeStatistics::Times { bounds, unit } => {
                message.timestamp_statistics = Some(time_statistics(*bounds, *unit));
            }
            OrcTypeStatistics::Children { bounds, total } => {
                message.collection_statistics = Some(CollectionStatistics {
                    min_children: bounds.map(|it| it.0),
                    max_children: bounds.map(|it| it.1),
                    total_children: Some(*total),
                });
            }
        }

        message
    }
}

/// Returns the minimum and maximum of numbers.
pub(super) fn bounds_of<T: Copy + Ord>(values: &[T]) -> Option<(T, T)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(min, max), value| (min.min(*value), max.max(*value))))
}

fn fits_decimal(value: i128) -> bool {
    value.unsigned_abs() < 10_u128.pow(38)
}

/// Formats a decimal, without trailing zeros of the fraction.
pub(in crate::orc) fn decimal(value: i128, scale: u32) -> String {
    let digits = value.unsigned_abs().to_string();
    let scale = scale as usize;
    let sign = if value < 0 { "-" } else { "" };
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

/// Returns the bounds in milliseconds since 1970, and the remaining nanoseconds unless readers assume these by default.
fn time_statistics(bounds: Option<(i64, i64)>, unit: TimeUnit) -> TimestampStatistics {
    let split = |value: i64| milliseconds(value, unit);
    let Some((min, max)) = bounds.and_then(|(min, max)| split(min).zip(split(max))) else {
        return TimestampStatistics::default();
    };
    // Nanoseconds are stored plus one; if they are absent, readers assume the widest bounds.

    TimestampStatistics {
        minimum_utc: Some(min.0),
        maximum_utc: Some(max.0),
        minimum_nanos: (min.1 != 0).then_some(min.1 + 1),
        maximum_nanos: (i64::from(max.1) != PER_MILLISECOND - 1).then_some(max.1 + 1),
        ..TimestampStatistics::default()
    }
}

/// Returns milliseconds and the remaining nanoseconds; `None` if they exceed 64 bits.
pub(super) fn milliseconds(value: i64, unit: TimeUnit) -> Option<(i64, i32)> {
    match unit {
        TimeUnit::Second => Some((value.mul_checked(1_000).ok()?, 0)),
        TimeUnit::Millisecond => Some((value, 0)),
        TimeUnit::Microsecond => Some((value.div_euclid(1_000), value.rem_euclid(1_000) as i32 * 1_000)),
        TimeUnit::Nanosecond => {
            Some((value.div_euclid(PER_MILLISECOND), value.rem_euclid(PER_MILLISECOND) as i32))
        }
    }
}

fn text_statistics(bounds: Option<&(OrcStringBound, OrcStringBound)>, bytes: u64) -> StringStatistics {
    let mut statistics = StringStatistics { sum: i64::try_from(bytes).ok(), ..StringStatistics::default() };
    let Some((min, max)) = bounds else { return statistics };
    let text = |bound: &OrcStringBound| String::from_utf8(bound.text.clone()).ok();
    if min.is_cut {
        statistics.lower_bound = text(min);
    } else {
        statistics.minimum = text(min);
    }
    if max.is_cut {
        statistics.upper_bound = text(max);
    } else {
        statistics.maximum = text(max);
    }

    statistics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_written_as_people_do() {
        for (value, scale, text) in [
            (0, 0, "0"),
            (0, 5, "0"),
            (12_345, 2, "123.45"),
            (-5, 3, "-0.005"),
            (-100, 2, "-1"),
            (150, 2, "1.5"),
            (i128::MAX, 38, "1.70141183460469231731687303715884105727"),
        ] {
            assert_eq!(decimal(value, scale), text);
        }
    }

    #[test]
    fn sums_of_64_bits_do_not_overflow() {
        let mut statistics = OrcStatsAccumulator::new(OrcTypeStatistics::Whole { bounds: None, sum: 0 });
        statistics.add_whole(&[i64::MAX, i64::MAX, i64::MIN, -1]);
        let expected = i128::from(i64::MAX) * 2 + i128::from(i64::MIN) - 1;
        assert_eq!(
            statistics.detail,
            OrcTypeStatistics::Whole { bounds: Some((i64::MIN, i64::MAX)), sum: expected }
        );
        statistics.add_whole(&[i64::MAX; 3]);
        let message = statistics.message().int_statistics.unwrap();
        assert_eq!((message.minimum, message.sum), (Some(i64::MIN), None));
    }

    #[test]
    fn what_is_not_a_number_leaves_no_bounds() {
        let mut statistics = OrcStatsAccumulator::new(OrcTypeStatistics::Floats { bounds: None, sum: 0.0 });
        statistics.add_floats(&[1.0, -0.0, 2.0]);
        assert_eq!(statistics.message().double_statistics.unwrap().maximum, Some(2.0));
        let mut other = statistics.clone();
        other.add_floats(&[f64::NAN, 3.0]);
        statistics.merge(&other);
        statistics.add_floats(&[4.0]);
        let message = statistics.message().double_statistics.unwrap();
        assert!(message.minimum.is_none() && message.sum.unwrap().is_nan());
    }
}
