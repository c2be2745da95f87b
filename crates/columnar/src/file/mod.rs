//! Parts that files of both formats share: schemas, statistics and marks.

pub(super) mod bloom_rate;
pub(super) mod codec_name;
pub(super) mod column_positions;
pub(super) mod dataset_mark;
pub(super) mod promised;
pub(super) mod schema;
pub(super) mod statistics;
