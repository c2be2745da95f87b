//! SQL over Parquet and ORC scans with DataFusion: tables whose columns stay decoded in memory, and SQL sessions.
//!
//! - A [`ScanTable`] is a table for any DataFusion `SessionContext`. Filters, projections, limits and join filters
//!   are pushed into its scan; counts and bounds come from footers.
//! - A [`SqlSession`] runs SQL on such tables, added by name or named by path.
//! - A [`SqlEngine`] runs queries for a server, which opens the tables that each query names.
//!
//! ```
//! use std::sync::Arc;
//!
//! use futures::TryStreamExt;
//! use stylobate_columnar::{
//!     Cache,
//!     parquet::{ParquetOptions, ParquetWriter},
//! };
//! use stylobate_datafusion::SqlSession;
//! use stylobate_storage::{ByteSize, CacheOptions, Destination, Overwrite, SinkOptions, Sinks};
//! # use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("trips.parquet");
//! # let city: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Bergen", "Oslo"]));
//! # let fare: ArrayRef = Arc::new(Int64Array::from(vec![7, 30, 9]));
//! # let trips = RecordBatch::try_from_iter([("city", city), ("fare", fare)])?;
//! # let sinks = Sinks::new(SinkOptions::default());
//! # let sink = sinks.open(&Destination::File(file.clone()), Overwrite::Refuse).await?;
//! # let mut writer = ParquetWriter::new(sink, "trips.parquet", trips.schema(), ParquetOptions::default())?;
//! # writer.write(&trips).await?;
//! # writer.finish().await?;
//! let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await?;
//! let session = SqlSession::builder(cache).build()?;
//! session.add_table("trips", &file.to_string_lossy()).await?;
//!
//! let rows = session.run("SELECT city, sum(fare) FROM trips WHERE fare < 10 GROUP BY city").await?;
//! let rows: Vec<RecordBatch> = rows.try_collect().await?;
//! assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! With the feature `distributed`, the module `distributed` runs queries on the nodes of a cluster.
//!
//! Each DataFusion interface that changes between versions is used in a single module: expressions in `predicate`,
//! plans, statistics, dynamic filters and the C interface in `tables`, catalogs in `catalog`, memory in `memory` and
//! `runtime`, errors in `error`, contexts in `session`, states of single queries in `engine`, tokens in
//! `placeholders`, joins in `yielding`, aggregations in `aggregate`.

#![deny(clippy::indexing_slicing)]

mod aggregate;
mod catalog;
mod column_names;
#[cfg(feature = "distributed")]
pub mod distributed;
mod engine;
mod error;
mod memory;
mod placeholders;
mod predicate;
mod query;
mod runtime;
mod session;
mod spill;
mod tables;
mod views;
mod yielding;

pub use datafusion;
pub use datafusion::catalog::TableProvider;

#[cfg(feature = "ffi")]
pub use self::tables::ffi::{FFI_LogicalExtensionCodec, FFI_TableProvider, exported_table, ffi_version};
pub use self::{
    aggregate::AggregateScans,
    engine::{ParsedQuery, PlannedQuery, SqlEngine, TableName},
    error::{Error, Result},
    memory::QueryMemory,
    query::{SqlQuery, SqlRows},
    session::{SqlSession, SqlSessionBuilder, SqlStatement},
    spill::remove_spill_folder,
    tables::arrow_table::{ForeignBatchStream, batches_table, stream_table},
    tables::provider::ScanTable,
    tables::sequential::sequential_table,
    views::{plain_batch, plain_schema, plain_type},
};
