//! Files of a graph that are being written: encoders, where they go, and how far they are.

pub(super) mod blocking;
pub(super) mod chunk_file;
pub(super) mod csv_file;
pub(super) mod encoders;
pub(super) mod output;
