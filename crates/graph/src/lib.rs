//! Graphs in object storage.
//!
//! - [`graphar::Graph`] reads a graph in the GraphAr format, in a folder or an object store, and
//!   [`graphar::GraphWriter`] writes one. Chunks are cached as whole columns, in the same cache as scans, so that
//!   a column is decoded once for all readers, regardless of what they select.
//! - [`store::GraphStore`] is a mutable graph: a [`store::StoreWriter`] commits, and each commit is a
//!   [`store::Snapshot`] with lookups, scans and traversals.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
//! use stylobate_columnar::Cache;
//! use stylobate_graph::{
//!     PropertyType,
//!     store::{EdgeType, Ends, GraphStore, StoreOptions, StoreSchema, VertexIds, VertexType},
//! };
//! use stylobate_storage::{ByteSize, CacheOptions};
//!
//! fn names(names: &[&str]) -> ArrayRef {
//!     Arc::new(StringArray::from(names.to_vec()))
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let schema = StoreSchema::new()
//!     .with_vertices(VertexType::new("Person", "name", PropertyType::String))
//!     .with_edges(EdgeType::new("Person", "KNOWS", "Person"));
//! let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await?;
//! let url = folder.path().to_string_lossy(); // or s3://, gs://, az://
//! let store = GraphStore::create(&cache, url, schema, StoreOptions::default()).await?;
//!
//! let mut writer = store.writer().await?;
//! let persons = RecordBatch::try_from_iter([("name", names(&["Ada", "Ben", "Eve"]))])?;
//! writer.add_vertices("Person", &persons).await?;
//! let known = RecordBatch::try_from_iter([("src", names(&["Ada", "Ada"])), ("dst", names(&["Ben", "Eve"]))])?;
//! writer.add_edges("KNOWS", &known, Ends::Keys).await?;
//! writer.commit().await?;
//!
//! let ada = VertexIds::Keys(names(&["Ada"]));
//! let friends = store.latest().start("Person", ada).out("KNOWS", "Person").select(["name"]).collect().await?;
//! let friends: Vec<_> = friends.column(0).as_string::<i32>().iter().flatten().collect();
//! assert_eq!(friends, ["Ben", "Eve"]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

#![deny(clippy::indexing_slicing)]

mod direction;
mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod graphar;
#[doc(hidden)]
pub mod measure;
mod property_type;
mod slice_bytes;
mod sort;
pub mod store;
mod unknown_name;

pub use direction::Direction;
pub use error::{Error, Result};
pub use property_type::PropertyType;
pub use unknown_name::UnknownNameError;
