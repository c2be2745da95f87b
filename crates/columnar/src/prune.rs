//! Which parts of a file a filter rules out by what the file says of them.
//!
//! Each part is given the safest verdict that its statistics allow: bounds may be wider than the values, say nothing of
//! nulls and, for floating-point numbers, nothing of NaN.

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
    bounds::Bounds,
};
use crate::{
    file::statistics::Statistics,
    predicate::{Bound, BoundColumn, Check, Class, Column, ColumnPair, CompareOp, Literal, Node, Test},
};

/// What is known of the rows of a part without looking at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No row passes.
    None,
    /// Some rows may pass, and some may not.
    Some,
    /// Every row passes.
    All,
}

/// A verdict per part.
pub(crate) fn prune(bound: &Bound, statistics: &dyn Statistics) -> Vec<Verdict> {
    let pruner = Pruner::new(bound, statistics);
    let mut verdicts = pruner.node(bound.node());
    for (part, verdict) in verdicts.iter_mut().enumerate() {
        if pruner.rows(part) == Some(0) {
            *verdict = Verdict::None;
        }
    }
    verdicts
}

/// The columns of the filter, each with whether it is compared for equality: then a bloom filter may rule it out.
pub(crate) fn columns_compared(bound: &Bound) -> Vec<(&Column, bool)> {
    fn in_test(test: &Test) -> bool {
        match test {
            Test::Holds { check, negated: false } => match check {
                Check::Range { low, high } => low == high,
                Check::Float { op, .. } | Check::Bytes { op, .. } => *op == CompareOp::Equal,
                Check::Set(_) | Check::FloatSet(_) | Check::BytesSet(_) => true,
                _ => false,
            },
            Test::And(tests) | Test::Or(tests) => tests.iter().any(in_test),
            _ => false,
        }
    }
    fn in_node(node: &Node, column: usize) -> bool {
        match node {
            Node::Leaf(leaf) => leaf.column == column && in_test(&leaf.test),
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(|node| in_node(node, column)),
            Node::Constant(_) | Node::Columns(_) => false,
        }
    }
    let columns = bound.columns().iter().enumerate();
    columns.map(|(at, column)| (&column.column, in_node(bound.node(), at))).collect()
}

impl Verdict {
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

    /// Of what may be true of some values and false of others.
    fn between(may_pass: bool, may_fail: bool) -> Self {
        match (may_pass, may_fail) {
            (false, _) => Self::None,
            (true, false) => Self::All,
            (true, true) => Self::Some,
        }
    }
}

struct Pruner<'a> {
    statistics: &'a dyn Statistics,
    parts: usize,
    row_counts: Option<UInt64Array>,
    /// By bound column.
    facts: Vec<Facts<'a>>,
}

/// What is known of a column in each of the parts.
struct Facts<'a> {
    bound: &'a BoundColumn,
    class: Class,
    bounds: Bounds,
    null_counts: Option<UInt64Array>,
}

impl<'a> Pruner<'a> {
    fn new(bound: &'a Bound, statistics: &'a dyn Statistics) -> Self {
        let facts = bound.columns().iter().map(|bound| Facts::new(bound, statistics)).collect();
        Self { statistics, parts: statistics.parts(), row_counts: statistics.row_counts(), facts }
    }

    fn rows(&self, part: usize) -> Option<u64> {
        count(self.row_counts.as_ref(), part)
    }

    fn node(&self, node: &Node) -> Vec<Verdict> {
        match node {
            Node::Constant(value) => self.parts_are(if *value { Verdict::All } else { Verdict::None }),
            Node::Leaf(leaf) => match self.facts.get(leaf.column) {
                Some(facts) => self.test(&leaf.test, facts),
                None => self.parts_are(Verdict::Some),
            },
            Node::Columns(pair) => self.pair(pair),
            Node::And(nodes) => self.joined(nodes, Verdict::All, Verdict::and, |node| self.node(node)),
            Node::Or(nodes) => self.joined(nodes, Verdict::None, Verdict::or, |node| self.node(node)),
        }
    }

    fn parts_are(&self, verdict: Verdict) -> Vec<Verdict> {
        vec![verdict; self.parts]
    }

    fn joined<T>(
        &self,
        items: &[T],
        start: Verdict,
        join: fn(Verdict, Verdict) -> Verdict,
        of: impl Fn(&T) -> Vec<Verdict>,
    ) -> Vec<Verdict> {
        items.iter().fold(self.parts_are(start), |verdicts, item| {
            verdicts.into_iter().zip(of(item)).map(|(left, right)| join(left, right)).collect()
        })
    }

    fn test(&self, test: &Test, facts: &Facts<'_>) -> Vec<Verdict> {
        match test {
            Test::Null => self.by_part(|part| self.not_null(facts, part).negated()),
            Test::NotNull => self.by_part(|part| self.not_null(facts, part)),
            Test::Holds { check, negated } => {
                let mut verdicts = self.by_part(|part| {
                    let verdict = facts.check(check, part);
                    // What no value with bounds passes, NaN may pass where it is negated.
                    let negation =
                        if facts.class == Class::Float { Verdict::Some } else { verdict.negated() };
                    let of_values = if *negated { negation } else { verdict };
                    of_values.and(self.not_null(facts, part))
                });
                if !negated {
                    self.ask_bloom_filters(check, facts, &mut verdicts);
                }
                verdicts
            }
            Test::And(tests) => self.joined(tests, Verdict::All, Verdict::and, |test| self.test(test, facts)),
            Test::Or(tests) => self.joined(tests, Verdict::None, Verdict::or, |test| self.test(test, facts)),
        }
    }

    fn by_part(&self, verdict: impl Fn(usize) -> Verdict) -> Vec<Verdict> {
        (0..self.parts).map(verdict).collect()
    }

    fn not_null(&self, facts: &Facts<'_>, part: usize) -> Verdict {
        match (count(facts.null_counts.as_ref(), part), self.rows(part)) {
            (Some(nulls), Some(rows)) if nulls >= rows => Verdict::None,
            (Some(0), _) => Verdict::All,
            _ => Verdict::Some,
        }
    }

    fn ask_bloom_filters(&self, check: &Check, facts: &Facts<'_>, verdicts: &mut [Verdict]) {
        if !verdicts.contains(&Verdict::Some) {
            return;
        }
        let Some(literals) = facts.literals(check) else { return };
        let Some(may_contain) = self.statistics.may_contain(&facts.bound.column, &literals) else { return };
        for (verdict, may_contain) in verdicts.iter_mut().zip(&may_contain) {
            if may_contain == Some(false) {
                *verdict = Verdict::None;
            }
        }
    }

    fn pair(&self, pair: &ColumnPair) -> Vec<Verdict> {
        let (Some(left), Some(right)) = (self.facts.get(pair.left), self.facts.get(pair.right)) else {
            return self.parts_are(Verdict::Some);
        };
        let holds = |order| pair.op.holds(order) != pair.negated;
        self.by_part(|part| {
            let of_values = match (&left.bounds, &right.bounds) {
                _ if left.class != right.class => Verdict::Some,
                (Bounds::Whole(left_min, left_max), Bounds::Whole(right_min, right_max)) => orders(
                    at(left_min, part),
                    at(left_max, part),
                    at(right_min, part),
                    at(right_max, part),
                    holds,
                ),
                (Bounds::Bytes(left_min, left_max), Bounds::Bytes(right_min, right_max)) => orders(
                    at(left_min, part),
                    at(left_max, part),
                    at(right_min, part),
                    at(right_max, part),
                    holds,
                ),
                _ => Verdict::Some,
            };
            of_values.and(self.not_null(left, part)).and(self.not_null(right, part))
        })
    }
}

impl<'a> Facts<'a> {
    fn new(bound: &'a BoundColumn, statistics: &dyn Statistics) -> Self {
        let (min, max) = (statistics.min(&bound.column), statistics.max(&bound.column));
        let class = Class::of(&bound.data_type);
        let bounds = Bounds::new(class, min, max).unwrap_or(Bounds::Unknown);
        Self { bound, class, bounds, null_counts: statistics.null_counts(&bound.column) }
    }

    /// Whether values between the bounds pass.
    fn check(&self, check: &Check, part: usize) -> Verdict {
        match (check, &self.bounds) {
            (Check::Range { low, high }, Bounds::Whole(min, max)) => {
                within(at(min, part), at(max, part), low, high)
            }
            (Check::Set(set), Bounds::Whole(min, max)) => among(at(min, part), at(max, part), set),
            // All of the values between the bounds are not all of the values: there may be NaN.
            (Check::Float { op, value }, Bounds::Float(min, max)) => {
                match compared(at(min, part), at(max, part), *op, value) {
                    Verdict::None => Verdict::None,
                    _ => Verdict::Some,
                }
            }
            (Check::FloatSet(set), Bounds::Float(min, max)) => match among(at(min, part), at(max, part), set)
            {
                Verdict::None => Verdict::None,
                _ => Verdict::Some,
            },
            (check, Bounds::Bytes(min, max)) => {
                bytes(check, at(min, part).map(AsRef::as_ref), at(max, part).map(AsRef::as_ref))
            }
            _ => Verdict::Some,
        }
    }

    /// The values that a check is for, if it is for so many only.
    fn literals(&self, check: &Check) -> Option<Vec<Literal>> {
        match check {
            Check::Range { low, high } if low == high => Some(vec![self.literal(*low)?]),
            Check::Set(set) => set.iter().map(|value| self.literal(*value)).collect(),
            Check::Float { op: CompareOp::Equal, value } => Some(vec![float_literal(*value)?]),
            Check::FloatSet(set) => set.iter().copied().map(float_literal).collect(),
            Check::Bytes { op: CompareOp::Equal, value } => Some(vec![self.bytes_literal(value)?]),
            Check::BytesSet(set) => set.sorted().iter().map(|value| self.bytes_literal(value)).collect(),
            _ => None,
        }
    }

    fn literal(&self, value: i256) -> Option<Literal> {
        let value = value.to_i128()?;
        match self.class {
            Class::Boolean => Some(Literal::Boolean(value != 0)),
            Class::Integer => Some(Literal::Integer(value)),
            Class::Decimal { scale } => {
                Some(Literal::Decimal { unscaled: value, scale: u8::try_from(scale).ok()? })
            }
            Class::Date { .. } if self.bound.data_type == DataType::Date32 => {
                Some(Literal::Date(i32::try_from(value).ok()?))
            }
            Class::Date { nanos } | Class::Timestamp { nanos } => {
                Some(Literal::Timestamp(value.checked_mul(nanos)?))
            }
            Class::Time { nanos } => Some(Literal::Time(i64::try_from(value.checked_mul(nanos)?).ok()?)),
            _ => None,
        }
    }

    fn bytes_literal(&self, value: &[u8]) -> Option<Literal> {
        match self.class {
            Class::Text => Some(Literal::String(String::from_utf8(value.to_vec()).ok()?)),
            _ => Some(Literal::Binary(value.to_vec())),
        }
    }
}

/// Zero has two representations that are equal, and a bloom filter knows them apart.
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
