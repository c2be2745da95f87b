//! Writes Parquet files to any sink: columns are encoded in parallel, row group by row group.
//!
//! ```text
//! batches -> some at a time -> column encoders on threads -> chunks of the row group -> sink
//!              coded     codes of input dictionaries become the file's
//!              fallback  strings and bytes without input dictionaries: codes, until the dictionary gets too large
//!              strings   those without a dictionary, or after falling back from one
//!              general   everything else, by the parquet crate
//! ```
//!
//! A column encoder keeps its pages as they will be written to the file, so that a row group takes the memory of its
//! encoded bytes. If that exceeds the writer's limit, the row group ends early.

mod bounds;
mod chunk;
mod codebook;
mod column;
mod column_options;
mod compression;
mod encode;
mod footer;
mod general;
mod logical_types;
mod options;
mod origin;
mod pages;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use self::origin::origin;
pub use self::{
    column_options::{ColumnOptions, DictionaryEncoding, Encoding, StatisticsLevel, UnknownOptionError},
    compression::{Compression, UnknownCompressionError},
    options::{ParquetOptions, SortedBy},
    writer::ParquetWriter,
};
