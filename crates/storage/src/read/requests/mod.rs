//! Requests for missing bytes, to the origin or to peers: merged, hedged and retried.

pub(crate) mod coalesce;
pub(crate) mod to_origin;
pub(crate) mod to_peers;
