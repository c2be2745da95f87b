//! The module `stylobate._stylobate`: what of the Python package is written in Rust.
//!
//! Python's side, in the folder `stylobate` beside this one, has the names that users see; what is here does
//! the work with the interpreter's lock released. [`process`] has the runtime, and is why a forked child
//! works.

mod allocator;
mod arriving;
mod arrow_types;
mod batches;
mod cache;
mod errors;
mod exit;
mod exported;
mod expression;
mod generate;
mod graph;
mod graph_write;
mod imported;
mod inspect;
mod json;
mod literal;
mod location;
mod module;
mod node;
mod objects;
mod orc_options;
mod parquet_options;
mod process;
mod progress;
mod scan;
mod sequential;
mod store;
mod stream;
mod write;
mod write_options;
