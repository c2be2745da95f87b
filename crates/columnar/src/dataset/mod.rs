//! Data sets: folders of Parquet or ORC files, split by the size of files and the values of columns.
//!
//! ```text
//! part-00000.parquet, part-00001.parquet, …            by size
//! day=2024-05-01/city=Oslo/part-00000.parquet, …       and by columns, which the files do not have then
//! part-00000-6b1f0c2d9e8a7354.parquet                  beside other files: names that no other write has
//! ```
//!
//! A write never replaces or removes a file of another writer. It recognizes its own by a mark in their footers, not by
//! a separate list: a list may be lost, or be out of date after a crash, and several readers refuse folders with other
//! files in them. New files appear under unique names before old ones are removed, so a killed write leaves the old
//! rows, the new ones, or both.

mod options;
mod ownership;
mod partition;
mod table_output;
#[cfg(test)]
mod tests;
mod writer;

pub use self::{
    options::{DatasetMode, DatasetOptions, UnknownDatasetModeError},
    table_output::TableOutput,
    writer::{DatasetWriter, WrittenDataset},
};
