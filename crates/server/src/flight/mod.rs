//! The Flight door: scans of Parquet and ORC files as Arrow record batches, for any client of Arrow Flight.
//!
//! | call | effect |
//! |---|---|
//! | `GetFlightInfo`, `GetSchema` | plan the scan of a [command](command) |
//! | `DoGet` | sends the batches of a [ticket](ticket) from `GetFlightInfo` |
//! | `ListFlights` | names files and folders that can be scanned |
//! | `DoAction` | `warm`, `evict`, `stats`, `cluster`, `healthcheck` |
//! | `Handshake` | exchanges the id and secret of an access key for its token |
//!
//! A client sends `authorization: Bearer TOKEN` with the token of an access key, or with its secret if it has no
//! token. A node without keys needs none, and listens on loopback only. With the feature `sql`, the same calls also
//! accept Flight SQL messages.

mod action;
mod bucket_path;
mod call;
mod caller;
mod command;
mod encode;
mod error;
mod list;
mod service;
#[cfg(feature = "sql")]
mod sql;
mod table_options;
mod ticket;

pub(crate) use self::service::service;
#[cfg(feature = "sql")]
pub(crate) use self::sql::{QueryEngine, RunningQuery, unless_cancelled};
