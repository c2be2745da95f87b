//! object_store's own integration suite, on a read-through over an in-memory store and over a folder.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::sync::Arc;

use object_store::{ObjectStore, integration, memory::InMemory};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
    RequestOptions,
};

async fn through(origin: Origin, memory: ByteSize, consistency: Consistency) -> ReadThrough {
    let cache = PageCache::open(CacheOptions::new(memory).with_page_size(ByteSize::kib(4))).await.unwrap();
    ReadThrough::new(origin, cache, ConsistencyRules::new(consistency), ReadOptions::default())
}

async fn suite(store: &dyn ObjectStore) {
    let dynamic: &object_store::DynObjectStore = store;
    integration::put_get_delete_list(dynamic).await;
    integration::get_opts(store).await;
    integration::list_uses_directories_correctly(dynamic).await;
    integration::list_with_delimiter(dynamic).await;
    integration::list_with_offset_exclusivity(dynamic).await;
    integration::rename_and_copy(dynamic).await;
    integration::copy_if_not_exists(dynamic).await;
    integration::copy_rename_nonexistent_object(dynamic).await;
    integration::stream_get(dynamic).await;
    integration::put_get_attributes(store).await;
    integration::put_opts(store, true).await;
    integration::multipart_race_condition(store, true).await;
    integration::multipart_out_of_order(store).await;
}

#[tokio::test]
async fn the_suite_passes_over_a_store_in_memory() {
    for consistency in [Consistency::Strict, Consistency::DEFAULT, Consistency::Immutable] {
        for memory in [ByteSize::mib(64), ByteSize::ZERO] {
            let origin = Origin::new("suite", Arc::new(InMemory::new()));
            let store = through(origin, memory, consistency).await;
            suite(&store).await;
        }
    }
}

#[tokio::test]
async fn the_suite_passes_over_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::parse(folder.path().to_str().unwrap(), &[], &RequestOptions::default()).unwrap();
    let store = through(origin, ByteSize::mib(64), Consistency::DEFAULT).await;
    suite(&store).await;
}
