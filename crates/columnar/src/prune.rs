//! Prunes the parts of a file that a filter rules out by their statistics.
//!
//! Each part gets the safest verdict that its statistics allow: bounds may be wider than the values, do not cover nulls
//! and, for floating-point numbers, do not cover NaN.

mod between;
mod bounds;
#[cfg(test)]
mod tests;

use arrow::{
    array::{Array, UInt64Array},
    datatypes::{DataType, i256},
};

use self::{
    between::{among, bytes, compared, orders, within},
    bounds::PruningBounds,
};
use crate::{
    file::statistics::PruningStatistics,
    predicate::{
        BoundColumn, BoundPredicate, Column, ColumnComparison, ColumnTest, CompareOp, Literal, PredicateNode,
        TypeClass, ValuePredicate,
    },
};

/// Result of pruning a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PruneVerdict {
    /// No row passes.
    None,
    /// Some rows may pass, and some may not.
    Some,
    /// Every row passes.
    All,
}

/// Returns a verdict per part.
pub(crate) fn prune(bound: &BoundPredicate, statistics: &dyn PruningStatistics) -> Vec<PruneVerdict> {
    let pruner = Pruner::new(bound, statistics);
    let mut verdicts = pruner.node(bound.node());
    for (part, verdict) in verdicts.iter_mut().enumerate() {
        if pruner.rows(part) == Some(0) {
            *verdict = PruneVerdict::None;
        }
    }
    verdicts
}

/// Returns the columns of the filter, each with a flag if it is tested for equality, for which a bloom filter may help.
pub(crate) fn columns_compared(bound: &BoundPredicate) -> Vec<(&Column, bool)> {
    fn in_test(test: &ColumnTest) -> bool {
        match test {
            ColumnTest::Holds { check, negated: false } => match check {
                ValuePredicate::Range { low, high } => low == high,
                ValuePredicate::Float { op, .. } | ValuePredicate::Bytes { op, .. } => {
                    *op == CompareOp::Equal
                }
                ValuePredicate::Set(_) | ValuePredicate::FloatSet(_) | ValuePredicate::BytesSet(_) => true,
                _ => false,
            },
            ColumnTest::And(tests) | ColumnTest::Or(tests) => tests.iter().any(in_test),
            _ => false,
        }
    }

    fn in_node(node: &PredicateNode, column: usize) -> bool {
        match node {
            PredicateNode::Leaf(leaf) => leaf.column == column && in_test(&leaf.test),
            PredicateNode::And(nodes) | PredicateNode::Or(nodes) => {
                nodes.iter().any(|node| in_node(node, column))
            }
            PredicateNode::Constant(_) | PredicateNode::Columns(_) => false,
        }
    }

    let columns = bound.columns().iter().enumerate();
    columns.map(|(at, column)| (&column.column, in_node(bound.node(), at))).collect()
}

impl PruneVerdict {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::All, Self::All) => Self::All,
            _ => Self::Some,
        }
    }

    fn or(self, other: Self) -> Self {
        self.negated().and(other.negated()).negated()
    }

    fn negated(self) -> Self {
        match self {
            Self::None => Self::All,
            Self::Some => Self::Some,
            Self::All => Self::None,
        }
    }

    /// Returns the verdict for values that may pass and may fail.
    fn between(may_pass: bool, may_fail: bool) -> Self {
        match (may_pass, may_fail) {
            (false, _) => Self::None,
            (true, false) => Self::All,
            (true, true) => Self::Some,
        }
    }
}

struct Pruner<'a> {
    statistics: &'a dyn PruningStatistics,
    parts: usize,
    row_counts: Option<UInt64Array>,
    /// Statistics, by bound column.
    facts: Vec<PruningColumn<'a>>,
}

/// Statistics of a column in each of the parts.
struct PruningColumn<'a> {
    bound: &'a BoundColumn,
    class: TypeClass,
    bounds: PruningBounds,
    null_counts: Option<UInt64Array>,
}

impl<'a> Pruner<'a> {
    fn new(bound: &'a BoundPredicate, statistics: &'a dyn PruningStatistics) -> Self {
        let facts = bound.columns().iter().map(|bound| PruningColumn::new(bound, statistics)).collect();
        Self { statistics, parts: statistics.parts(), row_counts: statistics.row_counts(), facts }
    }

    fn rows(&self, part: usize) -> Option<u64> {
        count(self.row_counts.as_ref(), part)
    }

    fn node(&self, node: &PredicateNode) -> Vec<PruneVerdict> {
        match node {
            PredicateNode::Constant(value) => {
                self.parts_are(if *value { PruneVerdict::All } else { PruneVerdict::None })
            }
            PredicateNode::Leaf(leaf) => match self.facts.get(leaf.column) {
                Some(facts) => self.test(&leaf.test, facts),
                None => self.parts_are(PruneVerdict::Some),
            },
            PredicateNode::Columns(pair) => self.pair(pair),
            PredicateNode::And(nodes) => {
                self.combine(nodes, PruneVerdict::All, PruneVerdict::and, |node| self.node(node))
            }
            PredicateNode::Or(nodes) => {
                self.combine(nodes, PruneVerdict::None, PruneVerdict::or, |node| self.node(node))
            }
        }
    }

    fn parts_are(&self, verdict: PruneVerdict) -> Vec<PruneVerdict> {
        vec![verdict; self.parts]
    }

    /// Combines the verdicts of all items, part by part.
    fn combine<T>(
        &self,
        items: &[T],
        start: PruneVerdict,
        join: fn(PruneVerdict, PruneVerdict) -> PruneVerdict,
        of: impl Fn(&T) -> Vec<PruneVerdict>,
    ) -> Vec<PruneVerdict> {
        items.iter().fold(self.parts_are(start), |verdicts, item| {
            verdicts.into_iter().zip(of(item)).map(|(left, right)| join(left, right)).collect()
        })
    }

    fn test(&self, test: &ColumnTest, facts: &PruningColumn<'_>) -> Vec<PruneVerdict> {
        match test {
            ColumnTest::Null => self.by_part(|part| self.not_null(facts, part).negated()),
            ColumnTest::NotNull => self.by_part(|part| self.not_null(facts, part)),
            ColumnTest::Holds { check, negated } => {
                let mut verdicts = self.by_part(|part| {
                    let verdict = facts.check(check, part);
                    // NaN is not within the bounds, and may pass a negated check.
                    let negation =
                        if facts.class == TypeClass::Float { PruneVerdict::Some } else { verdict.negated() };
                    let of_values = if *negated { negation } else { verdict };
                    of_values.and(self.not_null(facts, part))
                });

                if !negated {
                    self.ask_bloom_filters(check, facts, &mut verdicts);
                }

                verdicts
            }
            ColumnTest::And(tests) => {
                self.combine(tests, PruneVerdict::All, PruneVerdict::and, |test| self.test(test, facts))
            }
            ColumnTest::Or(tests) => {
                self.combine(tests, PruneVerdict::None, PruneVerdict::or, |test| self.test(test, facts))
            }
        }
    }

    fn by_part(&self, verdict: impl Fn(usize) -> PruneVerdict) -> Vec<PruneVerdict> {
        (0..self.parts).map(verdict).collect()
    }

    fn not_null(&self, facts: &PruningColumn<'_>, part: usize) -> PruneVerdict {
        match (count(facts.null_counts.as_ref(), part), self.rows(part)) {
            (Some(nulls), Some(rows)) if nulls >= rows => PruneVerdict::None,
            (Some(0), _) => PruneVerdict::All,
            _ => PruneVerdict::Some,
        }
    }

    fn ask_bloom_filters(
        &self,
        check: &ValuePredicate,
        facts: &PruningColumn<'_>,
        verdicts: &mut [PruneVerdict],
    ) {
        if !verdicts.contains(&PruneVerdict::Some) {
            return;
        }
        let Some(literals) = facts.literals(check) else { return };
        let Some(may_contain) = self.statistics.may_contain(&facts.bound.column, &literals) else { return };

        for (verdict, may_contain) in verdicts.iter_mut().zip(&may_contain) {
            if may_contain == Some(false) {
                *verdict = PruneVerdict::None;
            }
        }
    }

    fn pair(&self, pair: &ColumnComparison) -> Vec<PruneVerdict> {
        let (Some(left), Some(right)) = (self.facts.get(pair.left), self.facts.get(pair.right)) else {
            return self.parts_are(PruneVerdict::Some);
        };

        let holds = |order| pair.op.holds(order) != pair.negated;
        self.by_part(|part| {
            let of_values = match (&left.bounds, &right.bounds) {
                _ if left.class != right.class => PruneVerdict::Some,
                (PruningBounds::Whole(left_min, left_max), PruningBounds::Whole(right_min, right_max)) => {
                    orders(
                        at(left_min, part),
                        at(left_max, part),
                        at(right_min, part),
                        at(right_max, part),
                        holds,
                    )
                }
                (PruningBounds::Bytes(left_min, left_max), PruningBounds::Bytes(right_min, right_max)) => {
                    orders(
                        at(left_min, part),
                        at(left_max, part),
                        at(right_min, part),
                        at(right_max, part),
                        holds,
                    )
                }
                _ => PruneVerdict::Some,
            };

            of_values.and(self.not_null(left, part)).and(self.not_null(right, part))
        })
    }
}

impl<'a> PruningColumn<'a> {
    fn new(bound: &'a BoundColumn, statistics: &dyn PruningStatistics) -> Self {
        let min = statistics.min(&bound.column);
        let max = statistics.max(&bound.column);
        let class = TypeClass::of(&bound.data_type);
        let bounds = PruningBounds::new(class, min, max).unwrap_or(PruningBounds::Unknown);
        Self { bound, class, bounds, null_counts: statistics.null_counts(&bound.column) }
    }

    /// Checks the values between the bounds.
    fn check(&self, check: &ValuePredicate, part: usize) -> PruneVerdict {
        match (check, &self.bounds) {
            (ValuePredicate::Range { low, high }, PruningBounds::Whole(min, max)) => {
                within(at(min, part), at(max, part), low, high)
            }
            (ValuePredicate::Set(set), PruningBounds::Whole(min, max)) => {
                among(at(min, part), at(max, part), set)
            }
            // The bounds do not cover NaN, so it is unknown whether all values pass.
            (ValuePredicate::Float { op, value }, PruningBounds::Float(min, max)) => {
                match compared(at(min, part), at(max, part), *op, value) {
                    PruneVerdict::None => PruneVerdict::None,
                    _ => PruneVerdict::Some,
                }
            }
            (ValuePredicate::FloatSet(set), PruningBounds::Float(min, max)) => {
                match among(at(min, part), at(max, part), set) {
                    PruneVerdict::None => PruneVerdict::None,
                    _ => PruneVerdict::Some,
                }
            }
            (check, PruningBounds::Bytes(min, max)) => {
                bytes(check, at(min, part).map(AsRef::as_ref), at(max, part).map(AsRef::as_ref))
            }
            _ => PruneVerdict::Some,
        }
    }

    /// Returns the values that a check tests for, if it tests for equality.
    fn literals(&self, check: &ValuePredicate) -> Option<Vec<Literal>> {
        match check {
            ValuePredicate::Range { low, high } if low == high => Some(vec![self.literal(*low)?]),
            ValuePredicate::Set(set) => set.iter().map(|value| self.literal(*value)).collect(),
            ValuePredicate::Float { op: CompareOp::Equal, value } => Some(vec![float_literal(*value)?]),
            ValuePredicate::FloatSet(set) => set.iter().copied().map(float_literal).collect(),
            ValuePredicate::Bytes { op: CompareOp::Equal, value } => Some(vec![self.bytes_literal(value)?]),
            ValuePredicate::BytesSet(set) => {
                set.sorted().iter().map(|value| self.bytes_literal(value)).collect()
            }
            _ => None,
        }
    }

    fn literal(&self, value: i256) -> Option<Literal> {
        let value = value.to_i128()?;
        match self.class {
            TypeClass::Boolean => Some(Literal::Boolean(value != 0)),
            TypeClass::Integer => Some(Literal::Integer(value)),
            TypeClass::Decimal { scale } => {
                Some(Literal::Decimal { unscaled: value, scale: u8::try_from(scale).ok()? })
            }
            TypeClass::Date { .. } if self.bound.data_type == DataType::Date32 => {
                Some(Literal::Date(i32::try_from(value).ok()?))
            }
            TypeClass::Date { nanos } | TypeClass::Timestamp { nanos } => {
                Some(Literal::Timestamp(value.checked_mul(nanos)?))
            }
            TypeClass::Time { nanos } => Some(Literal::Time(i64::try_from(value.checked_mul(nanos)?).ok()?)),
            _ => None,
        }
    }

    fn bytes_literal(&self, value: &[u8]) -> Option<Literal> {
        match self.class {
            TypeClass::Text => Some(Literal::String(String::from_utf8(value.to_vec()).ok()?)),
            _ => Some(Literal::Binary(value.to_vec())),
        }
    }
}

/// Returns `None` for zero, whose two representations are equal but differ in a bloom filter.
fn float_literal(value: f64) -> Option<Literal> {
    (value != 0.0).then_some(Literal::Float(value))
}

fn at<T>(bounds: &[Option<T>], part: usize) -> Option<&T> {
    bounds.get(part)?.as_ref()
}

fn count(counts: Option<&UInt64Array>, part: usize) -> Option<u64> {
    let counts = counts?;
    (part < counts.len() && counts.is_valid(part)).then(|| counts.value(part))
}
