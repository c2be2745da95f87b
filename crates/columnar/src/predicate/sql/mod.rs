//! Predicates as SQL: read from text and shown as text.

pub(super) mod display;
pub(super) mod literals;
pub(super) mod parse;
