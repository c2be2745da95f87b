//! Writes a table in any format: record batches in, bytes into a sink out.
//!
//! ```text
//! WriteFormat -> FileOptions -> TableWriter -> ParquetWriter | OrcWriter             -> sink
//!                                          -> RowFileWriter (RowEncoder in memory)   -> sink
//!                               RowEncoder                                           -> any io::Write
//! ```
//!
//! CSV, JSON lines and Arrow IPC are encoded batch by batch by [`RowEncoder`], which can also be used
//! alone, for outputs other than sinks.

mod arrow_file;
mod arrow_stream;
mod file_options;
mod row_encoder;
mod row_file_writer;
mod table_writer;
#[cfg(test)]
mod tests;
mod write_format;

pub use self::{
    file_options::FileOptions,
    row_encoder::RowEncoder,
    table_writer::TableWriter,
    write_format::{UnknownWriteFormatError, WriteFormat},
};
