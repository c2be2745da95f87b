//! Access to the bytes of objects: a page cache in memory and on disk, and an object store that reads through it.
//!
//! [`ReadThrough`] wraps any [`object_store::ObjectStore`] and is one itself: use it instead of the bucket, and
//! repeated reads come from memory or disk. Nothing is ever cached under a path, only under one version of an object
//! ([`ObjectVersion`]), so a replaced object is never answered with its old bytes. Pages, fetches and the caches
//! built on them share the [`Budget`] of the [`PageCache`]. [`Sinks`] write files and objects that appear only once
//! complete.
//!
//! ```
//! use std::sync::Arc;
//! use object_store::{ObjectStoreExt, memory::InMemory, path::Path};
//! use stylobate_storage::{ByteSize, CacheOptions, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let bucket = Arc::new(InMemory::new());
//! let path = Path::from("lake/part-0.parquet");
//! bucket.put(&path, vec![7; 100_000].into()).await?;
//!
//! let cache = PageCache::open(CacheOptions::new(ByteSize::mib(64))).await?;
//! let origin = Origin::new("lake", bucket);
//! let store = ReadThrough::new(origin, cache, ConsistencyRules::default(), ReadOptions::default());
//!
//! assert_eq!(store.get(&path).await?.bytes().await?.len(), 100_000);
//! assert_eq!(store.get_range(&path, 10..20).await?.as_ref(), [7; 10]);
//! assert_eq!(store.stats().origin_gets, 1, "the second read came from memory");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! This crate depends on neither Arrow nor a file format, and listens on no socket.

#![deny(clippy::indexing_slicing)]

mod budget;
mod decode;
mod durability;
mod error;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod list_page;
mod listing;
mod nearest_name;
mod object;
mod origin;
mod page_cache;
mod peers;
#[expect(clippy::indexing_slicing, reason = "slots and links are the policy's own")]
mod policy;
mod read;
mod redacted;
mod simulate;
mod sink;
mod size;
mod stats;
mod threads;
mod timing;
mod upload;
mod versions;

pub use budget::{Budget, BudgetStats, HitMeter, Holder, HolderStats, Reclaim, Reservation};
pub use decode::byte_reader::{ByteReader, unzigzag};
pub use decode::corrupt::Corrupt;
pub use durability::{Durability, UnknownDurabilityError};
pub use error::{Error, Result};
pub use folder::{CopyChange, Folder, FolderListing, KeptHeaders, UploadMode, key_of_path, path_of_key};
pub use list_page::{ListPage, ListRequest, ListedKey};
pub use nearest_name::nearest_name;
pub use object::headers::ObjectHeaders;
pub use object::{ByteRange, ObjectHash, ObjectVersion};
pub use origin::metrics::{OriginFailure, OriginMetrics, RequestKind};
pub use origin::object_url::split_object_url;
pub use origin::request::OriginRequest;
pub use origin::request_options::RequestOptions;
pub use origin::trace::{OriginSpan, OriginTracer, Trace, traced};
pub use origin::{Origin, S3Endpoint};
pub use page_cache::{CacheOptions, CacheStats, PageCache};
pub use peers::{
    BlockRun, BlockRuns, ChangeAudience, DescribeRequest, DescribedObject, PathsChanged, PeerDeadlines,
    PeerError, PeerFault, PeerId, PeerRead, PeerRole, PeerSource, Peers, StripeSources,
};
pub use policy::{EvictionPolicy, UnknownPolicyError};
pub use read::byte_source::BytesBySource;
pub use read::column_reads::ColumnLayout;
pub use read::open_object::{LocalFile, OpenObject};
pub use read::read_through::{FolderReads, ReadOptions, ReadThrough};
pub use redacted::{redacted, without_credentials};
pub use simulate::{
    Access, HitRatio,
    mixes::{Mix, footprint, hit_ratio_table},
    simulate,
};
pub use sink::{
    Destination, FileSet, FoundFile, Overwrite, Sealed, Sink, SinkKind, SinkOptions, Sinks, UnknownSinkError,
    wait_for_unfinished_writes,
};
pub use size::{ByteSize, ParseByteSizeError};
pub use stats::ReadStats;
pub use threads::blocking::{BlockingWorkError, run_blocking};
pub use threads::thread_stream::stream_from_thread;
pub use timing::duration::{ParseDurationError, format_duration, parse_duration, parse_positive_duration};
pub use timing::latency::{LatencyCounts, LatencyHistogram};
pub use timing::steady_instant::SteadyInstant;
pub use upload::staging::{UnfinishedUpload, UploadedPart};
pub use upload::{Completion, JoinCheck, JoinMismatchError, is_reserved_key};
pub use versions::ListedObject;
pub use versions::freshness::{Consistency, ConsistencyRules, ParseConsistencyError, TableFormat};
