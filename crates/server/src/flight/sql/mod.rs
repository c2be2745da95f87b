//! Flight SQL: queries of ADBC and JDBC clients over the files of the node's buckets.
//!
//! | message | answer |
//! |---|---|
//! | `CommandStatementQuery` | a ticket that contains the [statement](statement); `DoGet` runs it |
//! | `ActionCreatePreparedStatement` | a handle that contains the statement; `DoPut` of parameters returns one that also contains them |
//! | `CommandGetCatalogs`, `…DbSchemas`, `…Tables`, `…SqlInfo`, … | [metadata] |
//! | updates, transactions | refused |
//!
//! The node keeps no client state between two calls. Table names resolve only to files of the buckets that the caller
//! may read ([tables]). In a cluster, with the feature `distributed`, queries run on all nodes that are up; their
//! workers are served here as well. The same [engine] runs the queries of the status page.

#[cfg(feature = "distributed")]
mod cluster;
mod command;
mod door;
mod engine;
mod error;
mod info;
mod metadata;
mod parameters;
mod results;
mod statement;
mod tables;
#[cfg(feature = "distributed")]
mod worker;

pub(crate) use self::engine::{QueryEngine, RunningQuery, unless_cancelled};
#[cfg(feature = "distributed")]
pub(super) use self::worker::FlightAndWorker;
pub(super) use self::{
    command::{actions, command_in, is_action},
    door::SqlDoor,
};
