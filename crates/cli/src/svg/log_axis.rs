//! Logarithmic axes, with marks at 1, 2 and 5 times powers of ten.

use std::ops::Range;

/// The range of an axis without values.
const EMPTY: (f64, f64) = (1.0, 100.0);
/// Prefixes of the powers of a thousand.
#[cfg(any(feature = "graph", test))]
const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// A logarithmic axis.
#[derive(Clone, Debug)]
pub(crate) struct LogAxis {
    /// Marks in ascending order; the first and the last are the ends of the axis.
    marks: Vec<AxisMark>,
}

/// A mark of an axis, at `digit` times ten to the `power`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AxisMark {
    digit: u32,
    power: i32,
}

impl AxisMark {
    pub(crate) fn value(self) -> f64 {
        f64::from(self.digit) * 10_f64.powi(self.power)
    }

    /// Formats the value in full, such as `0.5` or `2,000`.
    pub(crate) fn label(self) -> String {
        let decimals = usize::try_from(-self.power).unwrap_or(0);
        let text = format!("{:.decimals$}", self.value());
        let whole = if decimals == 0 { text.len() } else { 0 };
        let grouped = text.chars().enumerate().flat_map(|(index, character)| {
            let comma = index > 0 && index < whole && (whole - index).is_multiple_of(3);
            comma.then_some(',').into_iter().chain([character])
        });
        grouped.collect()
    }

    /// Formats the value with a unit prefix, such as `200`, `2k` or `5M`. Values must be at least 1.
    #[cfg(any(feature = "graph", test))]
    pub(crate) fn short_label(self) -> String {
        let power = usize::try_from(self.power).unwrap_or(0);
        let prefix = PREFIXES.get(power / 3).copied().unwrap_or_default();
        format!("{}{}{prefix}", self.digit, "0".repeat(power % 3))
    }
}

impl LogAxis {
    /// Creates the shortest axis that covers all values, which must be positive. Marks are limited to these powers of
    /// ten.
    pub(crate) fn over(values: impl Iterator<Item = f64> + Clone, powers: Range<i32>) -> Self {
        let min = values.clone().fold(f64::INFINITY, f64::min);
        let max = values.fold(0.0, f64::max);
        let (min, max) = if max > 0.0 { (min, max) } else { EMPTY };
        let all: Vec<_> = powers.flat_map(|power| [1, 2, 5].map(|digit| AxisMark { digit, power })).collect();
        let first = all.iter().rposition(|mark| mark.value() <= min * (1.0 + 1e-9)).unwrap_or(0);
        let last = all.iter().position(|mark| mark.value() >= max).unwrap_or(all.len() - 1);
        Self { marks: all[first..=last.max(first + 1).min(all.len() - 1)].to_vec() }
    }

    /// Returns the marks, each with a flag that is set if it has a label. If there are more than `max_labels`,
    /// only powers of ten are labelled.
    pub(crate) fn marks(&self, max_labels: usize) -> impl Iterator<Item = (AxisMark, bool)> + '_ {
        let is_few = self.marks.len() <= max_labels;
        self.marks.iter().map(move |mark| (*mark, is_few || mark.digit == 1))
    }

    pub(crate) fn ends(&self) -> (f64, f64) {
        let end = |mark: Option<&AxisMark>, otherwise| mark.map_or(otherwise, |mark| mark.value());
        (end(self.marks.first(), EMPTY.0), end(self.marks.last(), EMPTY.1))
    }

    /// Returns the position of a value: 0 at the beginning of the axis, 1 at its end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let (from, to) = self.ends();
        let share = (value.log10() - from.log10()) / (to.log10() - from.log10());
        share.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_as_short_as_the_values_allow() {
        let ends = |values: &[f64]| LogAxis::over(values.iter().copied(), -3..8).ends();
        assert_eq!(ends(&[3.0, 70.0]), (2.0, 100.0));
        assert_eq!(ends(&[5.0, 5.0]), (5.0, 10.0));
        assert_eq!(ends(&[2.0, 50.0]), (2.0, 50.0));
        assert_eq!(ends(&[0.001, 3_600_000.0]), (0.001, 5_000_000.0));
        assert_eq!(ends(&[]), (1.0, 100.0));
    }

    #[test]
    fn positions_are_shares_of_the_axis() {
        let axis = LogAxis::over([1.0, 100.0].into_iter(), 0..20);
        assert_eq!([0.0, 1.0, 10.0, 100.0, 1e9].map(|value| axis.share(value)), [0.0, 0.0, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn marks_are_labelled_as_people_write_numbers() {
        let label = |digit, power| AxisMark { digit, power }.label();
        assert_eq!(label(5, -1), "0.5");
        assert_eq!(label(2, -3), "0.002");
        assert_eq!(label(1, 2), "100");
        assert_eq!(label(2, 3), "2,000");
        assert_eq!(label(5, 6), "5,000,000");
        let short = |digit, power| AxisMark { digit, power }.short_label();
        assert_eq!(
            [(1, 0), (2, 2), (1, 3), (5, 7), (2, 19)].map(|(digit, power)| short(digit, power)),
            ["1", "200", "1k", "50M", "20E"]
        );
    }

    #[test]
    fn only_powers_of_ten_are_labelled_on_a_long_axis() {
        let labelled = |to: f64| {
            let axis = LogAxis::over([1.0, to].into_iter(), 0..20);
            axis.marks(6)
                .filter(|(_, has_label)| *has_label)
                .map(|(mark, _)| mark.label())
                .collect::<Vec<_>>()
        };

        assert_eq!(labelled(20.0), ["1", "2", "5", "10", "20"]);
        assert_eq!(labelled(500.0), ["1", "10", "100"]);
    }
}
