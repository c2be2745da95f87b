//! Tests of predicates: the meaning of SQL, its typing, and the agreement of all ways to evaluate it.

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
