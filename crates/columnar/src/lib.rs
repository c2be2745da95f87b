//! Reads columns of Parquet and ORC files: decodes them once, caches them as the dictionaries that they are stored as,
//! and filters them in place.
//!
//! A [`ScanRequest`] describes a scan, [`ScanRequest::plan`] finds the files and decides the schema, and
//! [`Scan::stream`] returns record batches in the order of files and rows.
//!
//! This crate opens no socket, and its only storage is [`stylobate_storage`].

#![deny(clippy::indexing_slicing)]

mod cache;
mod chunk;
mod csv;
mod dataset;
mod error;
mod file;
mod file_columns;
mod format;
mod inspect;
mod kernels;
#[doc(hidden)]
pub mod measure;
mod orc;
mod parallel;
mod parquet;
mod predicate;
mod prune;
mod recent;
mod scan;
mod sequential;
mod table;
mod writer;

pub use cache::Cache;
pub use cache::column_stats::ColumnStats;
pub use cache::columns_use::ColumnsUse;
pub use csv::text_file::TextKind;
pub use csv::{CsvEncoder, CsvReader};
pub use dataset::{
    DatasetMode, DatasetOptions, DatasetWriter, TableOutput, UnknownDatasetModeError, WrittenDataset,
};
pub use error::{Error, Result};
pub use file_columns::{Columns, FileColumns, FileKind};
pub use inspect::{
    BoundValue, ChunkInspection, ColumnInspection, DictionaryUse, FileFormat, Inspection, MetadataEntry,
    PartInspection, SchemaNode, inspect, inspect_all,
};
pub use kernels::exact_cast::{Inexact, exact_cast};
pub use kernels::interner::ValueInterner;
pub use orc::{
    OrcColumnOptions, OrcCompression, OrcOptions, OrcWriter, OrcWritten, UnknownOrcCompressionError,
};
pub use parquet::decryption::Decryption;
pub use parquet::{
    ColumnOptions, Compression, DictionaryEncoding, Encoding, ParquetOptions, ParquetWriter, SortedBy,
    StatisticsLevel, UnknownCompressionError, UnknownOptionError, Written,
};
pub use predicate::row_filter::RowFilter;
pub use predicate::{ArithmeticOp, Column, CompareOp, Function, Literal, Operand, Predicate, col};
pub use scan::{Scan, ScanPart, ScanRequest, ScanStream};
pub use sequential::{
    CsvHeader, CsvOptions, JsonOptions, Sample, SequentialFormat, SequentialRequest, SequentialScan,
    TimestampInference,
};
pub use table::locate::Source;
pub use table::type_name::parse_type;
pub use table::{Dictionaries, Strings};
pub use writer::{FileOptions, RowEncoder, TableWriter, UnknownWriteFormatError, WriteFormat};
