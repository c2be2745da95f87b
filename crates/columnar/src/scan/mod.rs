//! Plans scans of Parquet and ORC files, and streams their batches.

mod batches;
mod fitting;
mod load;
mod narrow;
mod order;
mod part;
mod plan;
mod queue;
mod request;
mod row_group;
mod select;
mod split;
mod statistics;
mod stream;
mod turn;

pub use order::SortedColumn;
pub use part::{RowGroupStart, ScanPart};
pub use plan::Scan;
pub use queue::{MovingFilter, ScanQueue};
pub use request::ScanRequest;
pub use statistics::ColumnBounds;
pub use stream::ScanStream;
