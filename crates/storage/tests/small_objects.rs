//! Many small objects at once, through a cache with little more memory than a page.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::time::Duration;

use object_store::ObjectStoreExt;
use stylobate_storage::{ByteSize, CacheOptions, Consistency};
use support::{bench, noise, quick};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_costs_one_request_in_little_memory() {
    // A quarter of it is for fetches in flight: two pages.
    let bench = bench(CacheOptions::new(ByteSize::mib(8)), Consistency::DEFAULT, quick()).await;
    let mut objects = Vec::new();
    for at in 0..24 {
        let data = noise(20_000 + at, at as u64);
        objects.push((bench.put(&format!("small/{at}"), data.clone()).await, data));
    }
    *bench.origin.latency.lock() = Duration::from_millis(30);
    let readers = objects.iter().map(|(path, data)| {
        let store = bench.store.clone();
        let path = path.clone();
        let data = data.clone();
        tokio::spawn(async move {
            assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), data);
            assert_eq!(store.get_range(&path, 5..10_000).await.unwrap(), data.slice(5..10_000));
        })
    });
    for read in futures::future::join_all(readers).await {
        read.unwrap();
    }
    assert_eq!((bench.origin.gets(), bench.origin.heads()), (objects.len() as u64, 0));
    assert_eq!(bench.cache.stats().in_flight_used, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_ones_are_read_whole_all_the_same() {
    let bench = bench(CacheOptions::new(ByteSize::mib(8)), Consistency::DEFAULT, quick()).await;
    let mut objects = Vec::new();
    for at in 0..8 {
        let data = noise((3 << 20) + at, at as u64);
        objects.push((bench.put(&format!("large/{at}"), data.clone()).await, data));
    }
    *bench.origin.latency.lock() = Duration::from_millis(10);
    let readers = objects.iter().map(|(path, data)| {
        let store = bench.store.clone();
        let path = path.clone();
        let data = data.clone();
        tokio::spawn(async move {
            assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == data);
        })
    });
    for read in futures::future::join_all(readers).await {
        read.unwrap();
    }
    assert_eq!(bench.cache.stats().in_flight_used, 0);
}
