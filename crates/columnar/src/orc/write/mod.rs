//! Writes ORC files to any sink: columns are encoded in parallel, stripe by stripe.
//!
//! ```text
//! batches -> some at a time -> column encoders on threads -> streams of the stripe -> sink
//!              presence   which rows have a value
//!              runs       integers, bytes and bits in run-length encoding
//!              codes      strings as codes of a dictionary, as long as they repeat
//! ```
//!
//! A stream is compressed chunk by chunk while it grows, so that a stripe takes the memory of its encoded bytes. The
//! position of a row group is kept as an offset in the uncompressed stream, and becomes an entry of the row index when
//! the stripe ends.
//!
//! Follows the specification of [ORC v1](https://orc.apache.org/specification/ORCv1/).

pub(super) mod bloom;
mod bound;
mod column;
mod compression;
mod encode;
mod footer;
mod options;
mod origin;
mod plan;
pub(super) mod statistics;
mod stream;
mod stripe;
#[cfg(test)]
pub(super) mod tests;
mod top_column;
mod writer;

pub(crate) use self::origin::origin;
pub use self::{
    compression::{OrcCompression, UnknownOrcCompressionError},
    options::{OrcColumnOptions, OrcOptions},
    writer::{OrcWriter, OrcWritten},
};
