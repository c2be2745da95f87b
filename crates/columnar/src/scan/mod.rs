//! Plans scans of Parquet and ORC files, and streams their batches.

mod batches;
mod load;
mod narrow;
mod part;
mod plan;
mod request;
mod stream;
mod turn;
mod units;

pub use part::ScanPart;
pub use plan::Scan;
pub use request::ScanRequest;
pub use stream::ScanStream;
