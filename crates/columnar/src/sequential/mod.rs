//! Scans of files that are read from their beginning to their end: CSV, JSON and Arrow IPC.
//!
//! A [`SequentialRequest`] says what is wanted, [`SequentialRequest::plan`] finds the files and their columns, and
//! [`SequentialScan::stream`] reads them on a thread of its own. Nothing is cached but pages of the files.

mod bytes;
mod csv;
mod format;
mod infer;
mod ipc;
mod json;
mod opened;
mod reading;
mod sample;
mod scan;
mod selection;

pub use self::{
    csv::options::{CsvHeader, CsvOptions},
    format::SequentialFormat,
    infer::TimestampInference,
    json::JsonOptions,
    sample::Sample,
    scan::{SequentialRequest, SequentialScan},
};
