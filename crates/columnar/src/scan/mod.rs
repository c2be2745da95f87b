//! A scan: what is wanted, the plan of it, and the batches that come out.

mod batches;
mod load;
mod plan;
mod request;
mod stream;
mod units;

pub use plan::{Scan, ScanPart};
pub use request::{Dictionaries, ScanRequest, Source};
pub use stream::ScanStream;
