//! Statistics of columns in stripes or row groups, for writers that can be trusted.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
        Int16Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray,
        UInt64Array,
    },
    datatypes::TimeUnit,
};
use orc_rust::proto::ColumnStatistics;

use super::{
    index::row_groups::StripeRowGroups,
    tail::OrcTail,
    tree::{OrcType, OrcTypeKind},
};
use crate::{
    file::statistics::PruningStatistics,
    predicate::{Column, Literal},
};

/// Milliseconds by which an instant may lie outside of its bounds: fractions are truncated towards zero, and those of
/// the second before 1970 are written as if they came after.
const INSTANT_SLACK: i64 = 2_000;
/// Milliseconds by which a timestamp without zone may lie outside of its bounds: clocks were off by up to a day.
const CLOCK_SLACK: i64 = 26 * 3_600_000;

/// Statistics of some stripes, or of the row groups of one, for top-level columns and those within structs.
pub(crate) struct OrcStatistics<'a> {
    tail: &'a OrcTail,
    parts: OrcStatisticsScope,
}

/// Parts of the file that the statistics cover.
enum OrcStatisticsScope {
    Stripes(Vec<usize>),
    RowGroups(StripeRowGroups),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OrcBoundSide {
    Lower,
    Upper,
}

impl<'a> OrcStatistics<'a> {
    pub(super) fn new(tail: &'a OrcTail, stripes: &[usize]) -> Self {
        Self { tail, parts: OrcStatisticsScope::Stripes(stripes.to_vec()) }
    }

    pub(super) fn of_row_groups(tail: &'a OrcTail, groups: StripeRowGroups) -> Self {
        Self { tail, parts: OrcStatisticsScope::RowGroups(groups) }
    }

    fn rows(&self, part: usize) -> Option<u64> {
        match &self.parts {
            OrcStatisticsScope::Stripes(stripes) => Some(self.tail.stripes.get(*stripes.get(part)?)?.rows),
            OrcStatisticsScope::RowGroups(groups) => groups.rows.get(part).copied(),
        }
    }

    fn get(&self, part: usize, column: &OrcType) -> Option<ColumnStatistics> {
        match &self.parts {
            OrcStatisticsScope::Stripes(stripes) => self.tail.statistics.get(*stripes.get(part)?, column.id),
            OrcStatisticsScope::RowGroups(groups) => groups.statistics(part, column),
        }
    }

    /// Maps the statistics of the column in each part; `None` if every result is `None`.
    fn each<T>(
        &self,
        column: &OrcType,
        of: impl Fn(&ColumnStatistics, u64) -> Option<T>,
    ) -> Option<Vec<Option<T>>> {
        let each = (0..self.parts()).map(|part| of(&self.get(part, column)?, self.rows(part)?));
        let each: Vec<_> = each.collect();
        each.iter().any(Option::is_some).then_some(each)
    }

    fn bounds(&self, column: &Column, bound: OrcBoundSide) -> Option<ArrayRef> {
        let column = self.tail.root.find(column.name())?;
        let trust = self.tail.statistics.trust;
        let each = |of: &dyn Fn(&ColumnStatistics) -> Option<i64>| {
            self.each(column, |it, _| some_values(it).and(of(it)))
        };
        let array: ArrayRef = match column.kind {
            OrcTypeKind::Boolean => Arc::new(BooleanArray::from(
                self.each(column, |it, _| some_values(it).and(boolean(it, bound)))?,
            )),
            OrcTypeKind::Byte => Arc::new(narrowed::<i8, Int8Array>(each(&|it| integer(it, bound))?)),
            OrcTypeKind::Short => Arc::new(narrowed::<i16, Int16Array>(each(&|it| integer(it, bound))?)),
            OrcTypeKind::Int => Arc::new(narrowed::<i32, Int32Array>(each(&|it| integer(it, bound))?)),
            OrcTypeKind::Long => Arc::new(Int64Array::from(each(&|it| integer(it, bound))?)),
            OrcTypeKind::Date => Arc::new(narrowed::<i32, Date32Array>(each(&|it| {
                date(it, bound).filter(|day| column.calendar.keeps_day(*day))
            })?)),
            OrcTypeKind::Float => {
                let single = |value: f64| Some(value as f32).filter(|it| f64::from(*it) == value);
                let each =
                    self.each(column, |it, _| some_values(it).and(double(it, bound)).and_then(single))?;
                Arc::new(Float32Array::from(each))
            }
            OrcTypeKind::Double => Arc::new(Float64Array::from(
                self.each(column, |it, _| some_values(it).and(double(it, bound)))?,
            )),
            OrcTypeKind::String => Arc::new(StringArray::from(
                self.each(column, |it, _| some_values(it).and(string(it, bound)))?,
            )),
            OrcTypeKind::Decimal(precision, scale) | OrcTypeKind::ShortDecimal(precision, scale)
                if trust.decimals =>
            {
                let each = self.each(column, |it, _| some_values(it).and(decimal(it, bound, scale)))?;
                let array = Decimal128Array::from(each).with_precision_and_scale(precision, scale);
                Arc::new(array.ok()?)
            }
            OrcTypeKind::Timestamp(unit) | OrcTypeKind::Instant(unit) if trust.timestamps => {
                let instant = matches!(column.kind, OrcTypeKind::Instant(_));
                let slack = if instant { INSTANT_SLACK } else { CLOCK_SLACK };
                let zone: Option<Arc<str>> = instant.then(|| "UTC".into());
                let nanoseconds = unit == TimeUnit::Nanosecond;
                let factor = if nanoseconds { 1_000_000 } else { 1_000 };
                let kept = |bound: &i64| column.calendar.keeps_millisecond(*bound);
                let each = each(&|it| timestamp(it, bound, slack).filter(kept)?.checked_mul(factor))?;

                if nanoseconds {
                    Arc::new(TimestampNanosecondArray::from(each).with_timezone_opt(zone))
                } else {
                    Arc::new(TimestampMicrosecondArray::from(each).with_timezone_opt(zone))
                }
            }
            // Some writers pad strings of fixed length, and others trim them.
            _ => return None,
        };

        (array.null_count() < array.len()).then_some(array)
    }
}

impl PruningStatistics for OrcStatistics<'_> {
    fn parts(&self) -> usize {
        match &self.parts {
            OrcStatisticsScope::Stripes(stripes) => stripes.len(),
            OrcStatisticsScope::RowGroups(groups) => groups.rows.len(),
        }
    }

    fn min(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, OrcBoundSide::Lower)
    }

    fn max(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, OrcBoundSide::Upper)
    }

    fn null_counts(&self, column: &Column) -> Option<UInt64Array> {
        // A value of a union may be a null of its variant, which only the variant's statistics count.
        let column = self.tail.root.find(column.name()).filter(|column| column.kind != OrcTypeKind::Union)?;
        let each = self.each(column, |statistics, rows| {
            let nulls = rows.checked_sub(statistics.number_of_values?)?;
            // A writer that does not count reports zero values, but does not claim that there are nulls.
            let contradicts = nulls > 0 && nulls == rows && statistics.has_null != Some(true);
            (!contradicts).then_some(nulls)
        });
        each.map(UInt64Array::from)
    }

    fn row_counts(&self) -> Option<UInt64Array> {
        Some((0..self.parts()).map(|part| self.rows(part)).collect())
    }

    /// Tests bloom filters, which only row groups have.
    fn may_contain(&self, column: &Column, literals: &[Literal]) -> Option<BooleanArray> {
        let OrcStatisticsScope::RowGroups(groups) = &self.parts else { return None };
        groups.may_contain(self.tail.root.find(column.name())?, literals, self.tail.statistics.trust)
    }
}

/// Returns `None` if there are no values, in which case bounds are meaningless.
fn some_values(statistics: &ColumnStatistics) -> Option<()> {
    (statistics.number_of_values? > 0).then_some(())
}

fn integer(statistics: &ColumnStatistics, bound: OrcBoundSide) -> Option<i64> {
    let it = statistics.int_statistics.as_ref()?;
    ordered(it.minimum?, it.maximum?, bound)
}

fn date(statistics: &ColumnStatistics, bound: OrcBoundSide) -> Option<i64> {
    let it = statistics.date_statistics.as_ref()?;
    ordered(it.minimum?, it.maximum?, bound).map(i64::from)
}

fn boolean(statistics: &ColumnStatistics, bound: OrcBoundSide) -> Option<bool> {
    let [trues] = statistics.bucket_statistics.as_ref()?.count.as_slice() else { return None };
    match bound {
        OrcBoundSide::Lower => {
            (*trues <= statistics.number_of_values()).then(|| *trues == statistics.number_of_values())
        }
        OrcBoundSide::Upper => Some(*trues > 0),
    }
}

fn double(statistics: &ColumnStatistics, bound: OrcBoundSide) -> Option<f64> {
    let it = statistics.double_statistics.as_ref()?;
    // With NaNs, bounds omit the values before or after them; only the sum reveals a NaN.
    it.sum.filter(|sum| !sum.is_nan())?;
    let value = ordered(it.minimum?, it.maximum?, bound)?;
    // A zero of either sign may stand for the other.
    match (value == 0.0, bound) {
        (true, OrcBoundSide::Lower) => Some(-0.0),
        (true, OrcBoundSide::Upper) => Some(0.0),
        _ => Some(value),
    }
}

fn string(statistics: &ColumnStatistics, bound: OrcBoundSide) -> Option<String> {
    let it = statistics.string_statistics.as_ref()?;
    let min = it.minimum.as_ref().or(it.lower_bound.as_ref())?;
    let max = it.maximum.as_ref().or(it.upper_bound.as_ref())?;
    // The first writer increments the last character to one that is unassigned and sorts before it.
    let is_wrong =
        bound == OrcBoundSide::Upper && it.maximum.is_none() && max.ends_with(char::REPLACEMENT_CHARACTER);
    ordered(min, max, bound).filter(|_| !is_wrong).cloned()
}

/// Returns milliseconds since 1970.
fn timestamp(statistics: &ColumnStatistics, bound: OrcBoundSide, slack: i64) -> Option<i64> {
    let it = statistics.timestamp_statistics.as_ref()?;
    match bound {
        OrcBoundSide::Lower => ordered(it.minimum_utc?, it.maximum_utc?, bound)?.checked_sub(slack),
        OrcBoundSide::Upper => ordered(it.minimum_utc?, it.maximum_utc?, bound)?.checked_add(slack),
    }
}

fn decimal(statistics: &ColumnStatistics, bound: OrcBoundSide, scale: i8) -> Option<i128> {
    let it = statistics.decimal_statistics.as_ref()?;
    let parse = |text: &Option<String>| unscaled(text.as_deref()?, usize::try_from(scale).ok()?);
    ordered(parse(&it.minimum)?, parse(&it.maximum)?, bound)
}

/// Returns one of the bounds; `None` if they are not ordered, as with NaN.
fn ordered<T: PartialOrd>(min: T, max: T, bound: OrcBoundSide) -> Option<T> {
    (min <= max).then_some(if bound == OrcBoundSide::Lower { min } else { max })
}

/// Parses a decimal in units of its last digit; `None` if its scale exceeds the column's.
fn unscaled(text: &str, scale: usize) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = if fraction.len() > scale { fraction.trim_end_matches('0') } else { fraction };

    if !all_digits(whole) || !all_digits(fraction) || digits.is_empty() {
        return None;
    }

    let zeros = u32::try_from(scale.checked_sub(fraction.len())?).ok()?;
    let value: i128 = [whole, fraction].concat().parse().ok()?;
    let value = value.checked_mul(10_i128.checked_pow(zeros)?)?;

    Some(if negative { -value } else { value })
}

fn narrowed<N: TryFrom<i64>, A: From<Vec<Option<N>>>>(values: Vec<Option<i64>>) -> A {
    let narrow = values.into_iter().map(|value| value.and_then(|value| N::try_from(value).ok()));
    A::from(narrow.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_from_text_exactly_or_not_at_all() {
        assert_eq!(unscaled("123.45", 2), Some(12_345));
        assert_eq!(unscaled("-123.4", 2), Some(-12_340));
        assert_eq!(unscaled("-0.001", 3), Some(-1));
        assert_eq!(unscaled("7", 0), Some(7));
        assert_eq!(unscaled("7.500", 1), Some(75));
        for wrong in ["", "-", "1.25", "1e5", "+1", "1.2.3", &"9".repeat(40)] {
            assert_eq!(unscaled(wrong, 1), None, "{wrong}");
        }
    }

    #[test]
    fn bounds_that_are_no_bounds_are_not_known() {
        assert_eq!(ordered(f64::NAN, 1.0, OrcBoundSide::Upper), None);
        assert_eq!(ordered(2, 1, OrcBoundSide::Lower), None);
        assert_eq!(ordered(1, 2, OrcBoundSide::Lower), Some(1));
    }
}
