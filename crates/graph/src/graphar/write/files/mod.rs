//! Files of a graph that are being written: encoders, outputs and progress.

pub(super) mod chunk_file;
pub(super) mod csv_rows;
pub(super) mod encoders;
pub(super) mod output;
