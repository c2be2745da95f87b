//! Traversals of several hops: described, planned and run.

pub(super) mod explain;
pub(super) mod plan;
pub(super) mod run;
pub(super) mod top;
pub(super) mod traversal;
