//! Aggregates the rows of a scan by dictionary codes and in 64-bit integers.
//!
//! DataFusion's partial aggregation hashes the strings of each row and computes decimals in 128 bits. Over a scan of
//! decoded columns this takes most of the time of a query such as TPC-H Q1. [`AggregateScans`] replaces it:
//!
//! ```text
//! batch ─┬─ codes of the keys ─── CodedGroups ────── group of each row ─┐
//!        └─ decimals, integers ── IntegerEvaluator ─ values ────────────┴─ GroupSums
//! ```
//!
//! Groups are partial results: DataFusion's final aggregation above merges them.

mod exec;
mod groups;
mod integers;
mod rule;
mod sums;

pub use self::rule::AggregateScans;
