//! Tests of predicates: what SQL means, what types make of it, and that every way to evaluate it agrees.

mod calendar;
mod evaluation;
mod naive;
mod parsing;
mod round_trip;
mod sample;
mod typing;

pub(crate) use evaluation::slice;
pub(crate) use naive::holds;
pub(crate) use sample::{PredicateSample, dense_columns, predicate, sample};
