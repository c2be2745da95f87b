//! Verdicts on the values between two bounds.
//!
//! An unknown bound is unlimited.

use std::{borrow::Borrow, cmp::Ordering};

use super::PruneVerdict;
use crate::predicate::{CompareOp, ValuePredicate};

/// Tests whether values between the bounds lie from `low` to `high`.
pub(super) fn within<T: PartialOrd + ?Sized>(
    min: Option<&T>,
    max: Option<&T>,
    low: &T,
    high: &T,
) -> PruneVerdict {
    let beyond = min.is_some_and(|min| min > high) || max.is_some_and(|max| max < low);
    let inside = min.is_some_and(|min| min >= low) && max.is_some_and(|max| max <= high);
    PruneVerdict::between(!beyond, !inside)
}

/// Tests whether values between the bounds are in an ascending list.
pub(super) fn among<T, S>(min: Option<&T>, max: Option<&T>, set: &[S]) -> PruneVerdict
where
    T: PartialOrd + ?Sized,
    S: Borrow<T>,
{
    let start = min.map_or(0, |min| set.partition_point(|value| value.borrow() < min));
    let candidate = set.get(start).filter(|candidate| max.is_none_or(|max| (*candidate).borrow() <= max));
    let only = min.is_some() && min == max;
    PruneVerdict::between(candidate.is_some(), !only)
}

/// Compares values between the bounds with a value.
pub(super) fn compared<T: PartialOrd + ?Sized>(
    min: Option<&T>,
    max: Option<&T>,
    op: CompareOp,
    value: &T,
) -> PruneVerdict {
    let orders = |bound: Option<&T>| bound.and_then(|bound| bound.partial_cmp(value));
    let min = orders(min);
    let max = orders(max);
    let possible = |order: Ordering| match order {
        Ordering::Less => min.is_none_or(Ordering::is_lt),
        Ordering::Equal => min.is_none_or(Ordering::is_le) && max.is_none_or(Ordering::is_ge),
        Ordering::Greater => max.is_none_or(Ordering::is_gt),
    };

    of_orders(possible, |order| op.holds(order))
}

/// Compares values of one column with those of another.
pub(super) fn orders<T: PartialOrd + ?Sized>(
    left_min: Option<&T>,
    left_max: Option<&T>,
    right_min: Option<&T>,
    right_max: Option<&T>,
    holds: impl Fn(Ordering) -> bool,
) -> PruneVerdict {
    let order = |left: Option<&T>, right: Option<&T>| left?.partial_cmp(right?);
    let min_order = order(left_min, right_max);
    let max_order = order(left_max, right_min);
    let possible = |wanted: Ordering| match wanted {
        Ordering::Less => min_order.is_none_or(Ordering::is_lt),
        Ordering::Equal => min_order.is_none_or(Ordering::is_le) && max_order.is_none_or(Ordering::is_ge),
        Ordering::Greater => max_order.is_none_or(Ordering::is_gt),
    };

    of_orders(possible, holds)
}

fn of_orders(possible: impl Fn(Ordering) -> bool, holds: impl Fn(Ordering) -> bool) -> PruneVerdict {
    let orders =
        [Ordering::Less, Ordering::Equal, Ordering::Greater].map(|order| (possible(order), holds(order)));
    PruneVerdict::between(orders.contains(&(true, true)), orders.contains(&(true, false)))
}

/// Checks strings or binaries between the bounds.
pub(super) fn bytes(check: &ValuePredicate, min: Option<&[u8]>, max: Option<&[u8]>) -> PruneVerdict {
    let begins = |prefix: &[u8]| {
        let head = |bound: &[u8]| bound.get(..prefix.len()).unwrap_or(bound).cmp(prefix);
        let beyond = min.is_some_and(|min| head(min).is_gt()) || max.is_some_and(|max| head(max).is_lt());
        let inside = [min, max].iter().all(|bound| bound.is_some_and(|bound| bound.starts_with(prefix)));
        PruneVerdict::between(!beyond, !inside)
    };

    let only = min.filter(|_| min == max);
    let text = only.and_then(|only| std::str::from_utf8(only).ok());
    match check {
        ValuePredicate::Bytes { op, value } => compared(min, max, *op, value),
        ValuePredicate::BytesSet(set) => among(min, max, set.sorted()),
        ValuePredicate::Prefix(prefix) => begins(prefix),
        ValuePredicate::Contains(wanted) => {
            text.map_or(PruneVerdict::Some, |text| of_one(text.contains(wanted.as_str())))
        }
        ValuePredicate::Like(like) => match (text, like.prefix()) {
            (Some(text), _) => of_one(like.matches(text)),
            (None, Some(prefix)) if begins(prefix.as_bytes()) == PruneVerdict::None => PruneVerdict::None,
            _ => PruneVerdict::Some,
        },
        _ => PruneVerdict::Some,
    }
}

/// Returns the verdict if all values are the same.
fn of_one(passes: bool) -> PruneVerdict {
    PruneVerdict::between(passes, !passes)
}
