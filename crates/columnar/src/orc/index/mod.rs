//! The row index of a stripe: where row groups begin, their statistics and bloom filters.

pub(super) mod bloom;
pub(super) mod positions;
pub(super) mod row_groups;
pub(super) mod row_index;
