//! The Flight door: scans of Parquet and ORC files as Arrow record batches, for any client of Arrow Flight.
//!
//! | call | what it does |
//! |---|---|
//! | `GetFlightInfo`, `GetSchema` | plan a scan that a [command](command) asks for |
//! | `DoGet` | sends the batches of a [ticket](ticket) that `GetFlightInfo` gave |
//! | `ListFlights` | names files and folders that can be scanned |
//! | `DoAction` | `warm`, `evict`, `stats`, `healthcheck` |
//!
//! A client shows `authorization: Bearer TOKEN`: the token of an access key, or its secret where it has no token. A
//! node without keys asks for none, and listens on loopback only.

mod action;
mod call;
mod caller;
mod command;
mod encode;
mod error;
mod list;
mod place;
mod service;
mod table_options;
mod ticket;

pub(crate) use self::service::service;
