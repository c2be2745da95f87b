//! The nodes of a cluster, seen from outside: which nodes exist, and which of them to request which bytes from.
//!
//! A [`ClusterView`] is a list of nodes. Weighted rendezvous hashing ranks them for each stripe of 64 MiB of each
//! object: the first in rank is the *home* of the stripe, the second its *deputy*. All observers with equal views
//! compute equal ranks, in any language: the function is specified in `docs/cluster.md` and pinned by
//! `tests/placement.json`.
//!
//! ```
//! use stylobate_client::{ClusterView, NodeDoor, PathHash, parse_nodes};
//!
//! # fn main() -> stylobate_client::Result<()> {
//! let nodes = parse_nodes(["a=10.0.0.1:9003", "b=10.0.0.2:9003", "c=10.0.0.3:9003,2"], NodeDoor::Peer)?;
//! let view = ClusterView::new(nodes)?;
//!
//! let path = PathHash::of("lake", "lineitem/part-0.parquet");
//! let ranked = view.rank(path.stripe_at(200 << 20), 2);
//! let ids: Vec<_> = ranked.iter().map(|node| node.id().as_str()).collect();
//! assert_eq!(ids, ["c", "a"], "home and deputy of the stripe that has the byte at 200 MiB");
//! # Ok(())
//! # }
//! ```
//!
//! Without features, everything here is a pure function or a value: no sockets, files, clocks or tasks. Times are
//! passed in.
//!
//! # Features
//!
//! - `hedge`: `HedgePolicy`, which sends slow requests a second time, to nodes or to origins.
//! - `object_store`: `ClusterStore`, a client that requests data directly from its home: an
//!   `object_store::ObjectStore` for a bucket.

#![deny(clippy::indexing_slicing)]

mod address;
mod discovery;
mod door;
mod error;
mod health;
#[cfg(feature = "hedge")]
mod hedge;
mod load;
mod node;
mod placement;
#[cfg(feature = "object_store")]
mod store;
mod view;

pub use address::{NodeAddress, NodeAddresses};
pub use discovery::{parse_node, parse_node_file, parse_nodes};
pub use door::NodeDoor;
pub use error::{Error, Result};
pub use health::{Liveness, PeerHealth};
#[cfg(feature = "hedge")]
pub use hedge::HedgePolicy;
pub use load::RequestsInFlight;
pub use node::{ClusterNode, NodeId, NodeState, NodeWeight};
pub use placement::{PathHash, STRIPE_BYTES, StripeKey, StripePart, stripe_parts};
#[cfg(feature = "object_store")]
pub use store::{
    ClusterDescription, ClusterStore, ClusterStoreOptions, NodeConnector, NodeDescription, NodeStores,
    S3Connector,
};
pub use view::{ClusterView, ViewChange, ViewChangeKind, ViewDigest};
