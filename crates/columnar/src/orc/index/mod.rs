//! The row index of a stripe: positions, statistics and bloom filters of its row groups.

pub(super) mod bloom;
pub(super) mod positions;
pub(super) mod row_groups;
pub(super) mod row_index;
