//! Graphs in object storage.

mod error;
mod graphar;

pub use error::{Error, Result};
