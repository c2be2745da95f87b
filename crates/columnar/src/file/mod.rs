//! What files of both formats have in common: where they are, their schemas and statistics.

pub(super) mod bloom_rate;
pub(super) mod dataset_mark;
pub(super) mod promised;
pub(super) mod schema;
pub(super) mod statistics;
