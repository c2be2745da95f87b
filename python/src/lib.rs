//! The module `stylobate._stylobate`: the part of the Python package that is written in Rust.
//!
//! The Python sources in the folder `stylobate` next to this one define the names that users see. This crate does
//! the work, with the GIL released. [`process`] owns the runtime and makes forked children work.

mod allocator;
mod batch_input;
mod cache;
mod cluster;
mod command;
mod errors;
mod expression;
mod generate;
mod graph;
mod inspect;
mod interop;
mod location;
mod module;
mod node;
mod objects;
mod options;
mod process;
mod progress;
mod scan;
mod sql;
mod store;
mod write;
