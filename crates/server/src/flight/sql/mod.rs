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
//! may read ([tables]), and to nothing else.

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

pub(super) use self::{
    command::{actions, command_in, is_action},
    door::SqlDoor,
};
