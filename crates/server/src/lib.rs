//! The storage node: serves buckets of object storage through a cache, over S3 and Arrow Flight.
//!
//! A [`Node`] holds the buckets and the cache. [`Doors`] accept clients: one speaks S3, one Arrow Flight, and the
//! third (admin) serves health checks, metrics, statistics, warming and eviction. A node in a cluster has a fourth
//! door for the other nodes. A [`NodeConfig`](config::NodeConfig) is built in code, or from a file, the environment
//! and flags.
//!
//! ```
//! use stylobate_server::{Doors, Node, config::{BucketConfig, NodeConfig}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> stylobate_server::Result<()> {
//! let mut config = NodeConfig::default();
//! config.buckets.push(BucketConfig::new("lake", "memory:///"));
//! config.settings.listen.set_port(0);
//! config.settings.admin.set_port(0);
//! config.settings.flight = Some(([127, 0, 0, 1], 0).into());
//!
//! let doors = Doors::bind(&config).await?;
//! let node = Node::open(&config).await?;
//! assert_ne!(doors.s3_address().port(), 0);
//! doors.serve(node, async {}).await?; // until the future is ready: here at once
//! # Ok(())
//! # }
//! ```

#![deny(clippy::indexing_slicing)]

mod access;
mod admin;
mod admin_client;
mod admin_keys;
mod cluster;
pub mod config;
mod error;
mod flight;
mod history;
mod hot_keys;
mod https;
mod local_names;
mod metrics;
mod node;
mod peer_door;
mod provenance;
mod running_reads;
pub mod s3;
mod serve;
#[cfg(feature = "sql")]
mod sql_client;
mod stats;
mod traces;
mod warm;

#[cfg(feature = "sql")]
pub use self::sql_client::{SqlClient, SqlClientError, SqlClientRows};
pub use self::{
    access::{AccessKeys, Action},
    admin::check_origins,
    admin_client::AdminClient,
    cluster::{ClusterNodeStatus, ClusterStatus, NodeTraffic, fetch_cluster_status, set_cluster_draining},
    error::{Result, ServerError},
    metrics::{
        BucketRequestStats, BucketRequests, FlightStats, InFlightGuard, Metrics, OperationStats, RequestStats,
    },
    node::{Bucket, Node},
    serve::{Doors, Tls, serve},
};
#[doc(hidden)]
pub use self::{cluster::fuzzing as peer_fuzzing, s3::fuzzing};
