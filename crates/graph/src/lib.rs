//! Graphs in object storage.
//!
//! [`graphar::Graph::open`] opens a graph in the GraphAr format, in a folder or an object store. Its chunks are read through the
//! cache that scans use, as whole columns, so that every reader finds columns that were decoded once, whatever it
//! selects.

mod direction;
mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod graphar;
mod property_type;
pub mod store;
mod unknown_name;

pub use direction::Direction;
pub use error::{Error, Result};
pub use property_type::PropertyType;
pub use unknown_name::UnknownNameError;
