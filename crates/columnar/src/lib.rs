//! Columns of Parquet and ORC files: decoded once, cached as the dictionaries that they are stored as, and filtered
//! where they are.
//!
//! A [`ScanRequest`] says what is wanted, [`ScanRequest::plan`] finds the files and decides what the answer looks
//! like, and [`Scan::stream`] answers in record batches, in the order of files and rows.
//!
//! This crate opens no socket, and knows no storage but [`stylobate_storage`].

mod bloom_rate;
mod byte_segment;
mod cache;
mod chunk;
mod chunk_cache;
mod codes;
mod column_stats;
mod columns_use;
mod csv;
mod dataset;
mod dataset_mark;
mod decryption;
mod error;
mod exact_cast;
mod expand;
mod file_columns;
mod first_bytes;
mod format;
mod guarded;
mod index;
mod inspect;
mod locate;
#[doc(hidden)]
pub mod measure;
mod merged_column;
mod orc;
mod parquet;
mod predicate;
mod prefetch;
mod promised;
mod prune;
mod recent;
mod row_filter;
mod same;
mod scan;
mod schema;
mod sequential;
mod side_by_side;
mod snappy;
mod statistics;
mod table;
mod table_options;
mod table_statistics;
mod text_file;
mod texts;
mod thread_stream;
mod timestamp_reach;
mod type_name;
mod utf8;
mod weight;
mod whole_column;
mod workers;
mod written_cast;

pub use cache::Cache;
pub use column_stats::ColumnStats;
pub use columns_use::ColumnsUse;
pub use csv::{CsvEncoder, CsvReader};
pub use dataset::{
    DatasetMode, DatasetOptions, DatasetWriter, FileOptions, UnknownDatasetModeError, WrittenDataset,
};
pub use decryption::Decryption;
pub use error::{Error, Result};
pub use exact_cast::{Inexact, exact_cast};
pub use file_columns::{Columns, FileColumns, FileKind};
pub use inspect::{
    BoundValue, ChunkInspection, ColumnInspection, DictionaryUse, FileFormat, Inspection, MetadataEntry,
    PartInspection, SchemaNode, inspect, inspect_all,
};
pub use locate::Source;
pub use orc::{
    OrcColumnOptions, OrcCompression, OrcOptions, OrcWriter, OrcWritten, UnknownOrcCompressionError,
};
pub use parquet::{
    ColumnOptions, Compression, DictionaryEncoding, Encoding, ParquetOptions, ParquetWriter, SortedBy,
    StatisticsLevel, UnknownCompressionError, UnknownOptionError, Written,
};
pub use predicate::{ArithmeticOp, Column, CompareOp, Function, Literal, Operand, Predicate, col};
pub use row_filter::RowFilter;
pub use scan::{Scan, ScanPart, ScanRequest, ScanStream};
pub use sequential::{
    CsvHeader, CsvOptions, JsonOptions, Sample, SequentialFormat, SequentialRequest, SequentialScan,
    TimestampInference,
};
pub use table::{Dictionaries, Strings};
pub use text_file::TextKind;
pub use thread_stream::stream_from_thread;
pub use type_name::parse_type;
