//! Files of a local folder through the page cache, while others write them.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
};
use support::{noise, quick};

const MIB: usize = 1 << 20;

fn folder_store(folder: &std::path::Path, cache: &PageCache) -> ReadThrough {
    let origin = Origin::parse(folder.to_str().unwrap(), &[], &quick().requests).unwrap();
    ReadThrough::new(
        origin,
        cache.clone(),
        ConsistencyRules::new(Consistency::Strict),
        ReadOptions::default(),
    )
}

#[tokio::test]
async fn a_file_is_cached_once_it_was_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    let store = folder_store(folder.path(), &cache);
    let data = noise(3 * MIB + 9, 41);
    std::fs::write(folder.path().join("a"), &data).unwrap();
    let path = object_store::path::Path::from("a");
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), data);
    assert_eq!(cache.stats().inserts, 0, "it was written a moment ago");
    let file = std::fs::File::options().write(true).open(folder.path().join("a")).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
    for _ in 0..2 {
        assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), data);
    }
    assert_eq!((cache.stats().inserts, store.stats().pages_fetched), (4, 4));
}

#[tokio::test]
async fn a_file_written_in_place_while_it_is_read_is_not_served_torn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    let cache = PageCache::open(CacheOptions::new(ByteSize::mib(256))).await.unwrap();
    let store = folder_store(folder.path(), &cache);
    let path = object_store::path::Path::from("a");

    for round in 0..20u64 {
        let old = noise(4 * MIB, 2 * round);
        let new = noise(4 * MIB, 2 * round + 1);
        std::fs::write(&file, &old).unwrap();
        // File system timestamps have a granularity, and a write within the same tick would not be noticed.
        let handle = std::fs::File::options().write(true).open(&file).unwrap();
        handle.set_modified(std::time::SystemTime::now() - Duration::from_millis(500)).unwrap();
        let mut reading = store.get(&path).await.unwrap().into_stream();
        let first = reading.next().await.unwrap().unwrap();
        assert!(old.starts_with(&first));
        let write = tokio::task::spawn_blocking({
            let new = new.clone();
            move || {
                use std::os::unix::fs::FileExt;
                handle.write_all_at(&new, 0).unwrap();
            }
        });

        if round % 2 == 0 {
            write.await.unwrap();
            let rest: Result<Vec<Bytes>, _> = reading.try_collect().await;
            let error = rest.unwrap_err().to_string();
            assert!(error.contains("changed"), "{error}");
        } else {
            let rest: Result<Vec<Bytes>, _> = reading.try_collect().await;
            write.await.unwrap();
            if let Ok(rest) = rest {
                let read = [&[first][..], &rest].concat().concat();
                assert!(read == old, "torn in round {round}");
            }
        }

        assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == new, "stale in round {round}");
    }
}

#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_read_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::open(CacheOptions::new(ByteSize::mib(256))).await.unwrap();
    let store = folder_store(folder.path(), &cache);
    let old = noise(4 * MIB, 1);
    let new = noise(4 * MIB, 2);
    std::fs::write(folder.path().join("a"), &old).unwrap();
    let path = object_store::path::Path::from("a");
    let read = store.get(&path).await.unwrap();
    std::fs::write(folder.path().join("b"), &new).unwrap();
    std::fs::rename(folder.path().join("b"), folder.path().join("a")).unwrap();
    assert_eq!(read.bytes().await.unwrap(), old);
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), new);
}
