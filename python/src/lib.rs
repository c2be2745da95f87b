//! The module `stylobate._stylobate`: what of the Python package is written in Rust.
//!
//! Python's side, in the folder `stylobate` beside this one, has the names that users see; what is here does
//! the work with the interpreter's lock released. [`process`] has the runtime, and is why a forked child
//! works.

mod allocator;
mod arriving;
mod cache;
mod errors;
mod exit;
mod expression;
mod generate;
mod graph;
mod inspect;
mod interop;
mod json;
mod location;
mod module;
mod node;
mod objects;
mod options;
mod process;
mod progress;
mod scan;
mod store;
mod write;
