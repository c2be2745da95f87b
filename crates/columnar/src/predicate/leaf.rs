//! All conditions of a filter on one column, evaluated once per value of a dictionary.

use arrow::{array::Array, buffer::NullBuffer, datatypes::i256};

use super::{
    CompareOp, ValuePredicate,
    words::{keep_any, keep_null, keep_valid},
};

/// A condition on one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnCondition {
    /// Index of the leaf.
    pub(crate) id: usize,
    /// Index of the bound column.
    pub(crate) column: usize,
    pub(crate) test: ColumnTest,
}

/// Test of a row. False and unknown are equivalent, since no NOT is above it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnTest {
    Null,
    NotNull,
    /// The value is not null, and passes the check, or fails it if negated.
    Holds {
        check: ValuePredicate,
        negated: bool,
    },
    And(Vec<ColumnTest>),
    Or(Vec<ColumnTest>),
}

impl ColumnTest {
    /// Returns `true` if the test is true for a null.
    pub(crate) fn on_null(&self) -> bool {
        match self {
            Self::Null => true,
            Self::NotNull | Self::Holds { .. } => false,
            Self::And(all) => all.iter().all(Self::on_null),
            Self::Or(any) => any.iter().any(Self::on_null),
        }
    }

    /// Clears the rows for which the test is not true. `None` if the array does not have the type of the test.
    pub(crate) fn keep(
        &self,
        array: &dyn Array,
        nulls: Option<&NullBuffer>,
        words: &mut [u64],
    ) -> Option<()> {
        match self {
            Self::Null => keep_null(words, nulls),
            Self::NotNull => keep_valid(words, nulls),
            Self::Holds { check, negated } => {
                keep_valid(words, nulls);
                check.keep(*negated, array, words)?;
            }
            Self::And(all) => all.iter().try_for_each(|test| test.keep(array, nulls, words))?,
            Self::Or(any) => {
                keep_any(words, any, |test, words| test.keep(array, nulls, words).ok_or(())).ok()?;
            }
        }
        Some(())
    }

    /// Returns the relative cost per value.
    pub(crate) fn cost(&self) -> u32 {
        match self {
            Self::Null | Self::NotNull => 0,
            Self::Holds { check, .. } => check.cost(),
            Self::And(tests) | Self::Or(tests) => tests.iter().map(Self::cost).sum(),
        }
    }

    /// Joins tests by AND. `None` if no value can pass because ranges do not overlap.
    pub(super) fn all(tests: Vec<Self>) -> Option<Self> {
        let mut rest = Vec::new();
        let mut range: Option<(i256, i256)> = None;
        for test in
            tests.into_iter().flat_map(|test| if let Self::And(all) = test { all } else { vec![test] })
        {
            match (test, range) {
                (Self::Holds { check: ValuePredicate::Range { low, high }, negated: false }, found) => {
                    let (lower, upper) = found.unwrap_or((low, high));
                    range = Some((lower.max(low), upper.min(high)));
                }
                (test, _) => rest.push(test),
            }
        }

        if let Some((low, high)) = range {
            if low > high {
                return None;
            }
            rest.push(Self::Holds { check: ValuePredicate::Range { low, high }, negated: false });
        }

        rest.sort_by_key(Self::cost);
        Some(if rest.len() == 1 { rest.swap_remove(0) } else { Self::And(rest) })
    }

    /// Joins tests by OR. Equalities become one set.
    pub(super) fn any(tests: Vec<Self>) -> Self {
        let mut rest = Vec::new();
        let mut wholes = Vec::new();
        let mut strings = Vec::new();

        for test in tests.into_iter().flat_map(|test| if let Self::Or(any) = test { any } else { vec![test] })
        {
            match test {
                Self::Holds { check: ValuePredicate::Range { low, high }, negated: false } if low == high => {
                    wholes.push(low);
                }
                Self::Holds { check: ValuePredicate::Set(set), negated: false } => wholes.extend(set),
                Self::Holds {
                    check: ValuePredicate::Bytes { op: CompareOp::Equal, value },
                    negated: false,
                } => {
                    strings.push(value);
                }
                Self::Holds { check: ValuePredicate::BytesSet(set), negated: false } => {
                    strings.extend(set.into_sorted());
                }
                test => rest.push(test),
            }
        }

        rest.extend(ValuePredicate::among(wholes).map(|check| Self::Holds { check, negated: false }));
        rest.extend(ValuePredicate::among_bytes(strings).map(|check| Self::Holds { check, negated: false }));
        rest.sort_by_key(Self::cost);
        if rest.len() == 1 { rest.swap_remove(0) } else { Self::Or(rest) }
    }
}
