//! Parses and writes predicates as SQL.

pub(super) mod display;
pub(super) mod literals;
pub(super) mod parse;
