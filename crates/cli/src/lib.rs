//! The command `stylobate` as a library: one file or folder per subcommand, and [`run`], which the binary and the
//! Python package share.
//!
//! ```
//! let code = stylobate_cli::run(vec!["stylobate".into(), "--version".into()]);
//! assert_eq!(code, 0);
//! ```

mod admin_door;
mod allocator;
mod cluster;
mod command;
mod convert;
mod demo;
mod failure;
mod generate;
#[cfg(feature = "graph")]
mod graph;
mod inspect;
mod logging;
mod out;
mod redacted_string;
mod replay;
mod rows;
mod scan;
mod serve;
mod service_manager;
#[cfg(feature = "sql")]
mod sql;
mod svg;
mod table;
mod top;

pub use self::command::run;
