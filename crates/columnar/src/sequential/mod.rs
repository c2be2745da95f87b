//! Scans of files that are read from beginning to end: CSV, JSON and Arrow IPC.
//!
//! A [`SequentialRequest`] describes the rows, [`SequentialRequest::plan`] finds the files and their columns, and
//! [`SequentialScan::stream`] reads the rows on a dedicated thread. Only pages of the files are cached.

mod bytes;
mod csv;
mod format;
mod format_files;
mod guard;
mod infer;
mod ipc;
mod json;
mod reading;
mod sample;
mod scan;
mod selection;
mod table;

pub use self::{
    csv::options::{CsvHeader, CsvOptions},
    format::SequentialFormat,
    infer::TimestampInference,
    ipc::{check::check_ipc_message, stream::IpcStreamReader},
    json::JsonOptions,
    sample::Sample,
    scan::{SequentialRequest, SequentialScan},
};
