//! Reads: objects, their bytes and attributes, and listings.

pub(super) mod body;
pub(super) mod conditions;
pub(super) mod list;
pub(super) mod object;
pub(super) mod open;
pub(super) mod plain;
pub(super) mod questions;
pub(super) mod range;
pub(crate) mod token;
