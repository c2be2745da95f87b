//! Writes versions: changes are checked, kept pending, and committed as one record of the log.

pub(super) mod arrow_input;
pub(super) mod changes;
pub(super) mod coalesce_batches;
pub(super) mod commit;
pub(super) mod gc;
pub(super) mod load;
pub(super) mod pending;
pub(super) mod plan;
pub(super) mod writer;
