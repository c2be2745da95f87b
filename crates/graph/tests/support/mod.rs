//! Shared parts of graph tests: official samples, and caches.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch},
    compute::concat_batches,
    datatypes::{Int64Type, SchemaRef, UInt32Type},
};
use futures::{Stream, TryStreamExt};
use stylobate_columnar::Cache;
use stylobate_graph::{
    Result,
    graphar::{Graph, GraphOptions},
};
use stylobate_storage::{ByteSize, CacheOptions};

/// Returns a file of the official samples; `None` if they are absent, which a full run does not accept.
pub fn sample(file: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphar");
    if !root.is_dir() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is missing", root.display());
        eprintln!("passed over: there are no sample graphs in {}", root.display());
        return None;
    }
    Some(root.canonicalize().unwrap().join(file))
}

pub async fn cache() -> Cache {
    Cache::open(CacheOptions::new(ByteSize::mib(256))).await.unwrap()
}

pub async fn open_sample(file: &str) -> Option<Graph> {
    let file = sample(file)?;
    Some(Graph::open(&cache().await, file.to_str().unwrap(), GraphOptions::default()).await.unwrap())
}

pub async fn collect(schema: &SchemaRef, batches: impl Stream<Item = Result<RecordBatch>>) -> RecordBatch {
    let batches: Vec<RecordBatch> = batches.try_collect().await.unwrap();
    concat_batches(schema, &batches).unwrap()
}

pub fn ints(array: &ArrayRef) -> Vec<i64> {
    array.as_primitive::<Int64Type>().values().to_vec()
}

pub fn positions(batch: &RecordBatch) -> Vec<u32> {
    batch.column(0).as_primitive::<UInt32Type>().values().to_vec()
}

pub fn strings(array: &ArrayRef) -> Vec<String> {
    array.as_string::<i32>().iter().map(|text| text.unwrap_or("<null>").to_owned()).collect()
}

pub fn numbers(array: &Int64Array) -> Vec<i64> {
    array.values().to_vec()
}
