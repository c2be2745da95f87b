//! Queries over the nodes of a cluster, by the crate `datafusion-distributed`.
//!
//! ```text
//! session ── plan in stages ── task 1 ─▶ worker 1 ◀─▶ worker 2 ◀─ task 2
//!                │                          each reads the row groups whose home it is
//!                └─ a lost worker: planned again for the others, unless rows have left
//! ```
//!
//! A [`Distribution`] runs the queries of a session on the workers of its [`QueryNodes`]. A stage has one task per
//! node, or a single task. Task `i` of each stage runs on node `i`, and reads the row groups whose first byte has its
//! home there. A scan with one partition is never divided, since the plan above it may rely on that. Where an operator
//! needs the rows of one partition folder together, the value of the folder determines the task instead, so that rows
//! are not exchanged.
//!
//! A plan contains no store and no credentials: tables are named, and each worker opens them through its
//! [`TableSources`], in the versions that the query was planned with. Tables without names are read by the process
//! that plans: a query with such a table is not distributed.

mod channels;
mod codec;
mod cooperation;
mod ended_tasks;
mod folder_partitions;
mod leaf;
mod nodes;
mod options;
mod planner;
mod rerun;
mod session;
mod task_scan;
mod worker;

pub use datafusion_distributed::grpc::BoxCloneSyncChannel as NodeChannel;

pub use self::{
    channels::{ConnectNode, PlainConnector, node_endpoint},
    nodes::{QueryNodes, RecentFailures, WorkerList},
    session::Distribution,
    task_scan::{TableSources, UrlSources},
    worker::{QueryWorker, QueryWorkerBuilder},
};
