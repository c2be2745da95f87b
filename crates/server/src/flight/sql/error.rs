//! Maps errors of queries to gRPC statuses.

use stylobate_datafusion::Error;
use stylobate_storage::redacted;
use tonic::{Code, Status};

use super::super::error::{BucketNaming, from_scan, invalid, status};

/// Maps an error of a query to a status. `names` replaces origin URLs by public names.
pub(super) fn from_query(error: &Error, names: &BucketNaming) -> Status {
    match error {
        Error::Scan(error) => from_scan(error, names),
        Error::Query { reason } | Error::Value { reason } => invalid(redacted(reason)),
        Error::NoSuchTable { .. } => status(Code::NotFound, error.to_string()),
        Error::Memory { reason } => {
            // The rest of the text describes the memory pool of all queries.
            let reason = reason.split(" - ").next().unwrap_or_default();
            let hint = "read fewer columns or rows, or give the node more memory";
            status(Code::ResourceExhausted, format!("out of memory: {reason}: {hint}"))
        }
        Error::LostNode { reason } => status(Code::Unavailable, redacted(reason)),
        _ => {
            tracing::warn!(error = %redacted(&error.to_string()), "a query failed");
            status(Code::Internal, "the query failed: the log of the node has the reason")
        }
    }
}
