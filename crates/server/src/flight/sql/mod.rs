//! Flight SQL: queries of ADBC and JDBC clients over the files of the node's buckets.
//!
//! | message | answer |
//! |---|---|
//! | `CommandStatementQuery` | a ticket that holds the [statement](statement); `DoGet` runs it |
//! | `ActionCreatePreparedStatement` | a handle that holds the statement; `DoPut` of parameters gives one that holds these, too |
//! | `CommandGetCatalogs`, `…DbSchemas`, `…Tables`, `…SqlInfo`, … | [metadata] |
//! | updates, transactions | are refused |
//!
//! The node keeps nothing of a client between two calls. Names of tables lead to files of the buckets that the caller
//! may read ([tables]), and to nothing else. In a cluster, and with the feature `distributed`, queries run on all nodes that
//! are up: the workers of these are served here, too. The same [engine] runs queries of the node's page.

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
