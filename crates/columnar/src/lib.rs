//! Reads columns of Parquet and ORC files: decodes them once, caches them in the dictionary encoding of the file, and
//! filters them in place.
//!
//! - A [`ScanRequest`] describes a scan, [`ScanRequest::plan`] finds the files and decides the schema, and
//!   [`Scan::stream`] returns record batches in the order of files and rows.
//! - A [`TableWriter`] writes one file of any format; [`parquet::ParquetWriter`] and [`orc::OrcWriter`] write one
//!   file of their own format; a [`DatasetWriter`] writes a folder of files.
//! - A [`Cache`] holds the pages and chunks that scans have read and decoded, and bounds their memory.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//! use stylobate_columnar::{
//!     Cache, ScanRequest, col,
//!     parquet::{ParquetOptions, ParquetWriter},
//! };
//! use stylobate_storage::{ByteSize, CacheOptions, Destination, Overwrite, SinkOptions, Sinks};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let file = folder.path().join("trips.parquet");
//! let city: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Bergen", "Oslo"]));
//! let fare: ArrayRef = Arc::new(Int64Array::from(vec![7, 30, 9]));
//! let trips = RecordBatch::try_from_iter([("city", city), ("fare", fare)])?;
//!
//! let sinks = Sinks::new(SinkOptions::default());
//! let sink = sinks.open(&Destination::File(file.clone()), Overwrite::Refuse).await?;
//! let mut writer = ParquetWriter::new(sink, "trips.parquet", trips.schema(), ParquetOptions::default())?;
//! writer.write(&trips).await?;
//! assert_eq!(writer.finish().await?.rows, 3);
//!
//! let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await?;
//! let cheap = ScanRequest::new(file.to_string_lossy())
//!     .with_columns(["city"])
//!     .with_filter(col("fare").lt(10))
//!     .plan(&cache)
//!     .await?;
//! assert_eq!(cheap.collect().await?.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! This crate opens no socket, and its only storage is [`stylobate_storage`].

#![deny(clippy::indexing_slicing)]

mod cache;
mod chunk;
mod csv;
mod dataset;
mod error;
mod field_path;
mod file;
mod file_columns;
mod format;
mod inspect;
mod kernels;
#[doc(hidden)]
pub mod measure;
pub mod orc;
mod parallel;
pub mod parquet;
mod predicate;
mod prune;
mod recent;
mod scan;
mod sequential;
mod table;
mod writer;
mod written;

pub use cache::Cache;
pub use cache::stats::{ColumnStats, ColumnsUse};
pub use csv::text_file::TextKind;
pub use csv::{CsvEncoder, CsvError, CsvReader};
pub use dataset::{
    DatasetMode, DatasetOptions, DatasetWriter, TableOutput, UnknownDatasetModeError, WrittenDataset,
};
pub use error::{Error, Result};
pub use file_columns::{Columns, FileColumns, FileKind};
pub use inspect::{
    BoundValue, ChunkInspection, ColumnInspection, DictionaryUse, ExtentContent, FileExtent, FileFormat,
    Inspection, MetadataEntry, PartInspection, SchemaNode, inspect, inspect_all,
};
pub use kernels::exact_cast::{Inexact, exact_cast};
pub use kernels::interner::ValueInterner;
pub use predicate::{ArithmeticOp, Column, CompareOp, Function, Literal, Operand, Predicate, RowFilter, col};
pub use scan::{
    ColumnBounds, MovingFilter, RowGroupStart, Scan, ScanPart, ScanQueue, ScanRequest, ScanStream,
    SortedColumn,
};
pub use sequential::{
    CsvHeader, CsvOptions, IpcStreamReader, JsonOptions, Sample, SequentialFormat, SequentialRequest,
    SequentialScan, TimestampInference, check_ipc_message,
};
pub use table::locate::Source;
pub use table::type_name::parse_type;
pub use table::{Dictionaries, Strings};
pub use writer::{FileOptions, RowEncoder, TableWriter, UnknownWriteFormatError, WriteFormat};
pub use written::Written;
