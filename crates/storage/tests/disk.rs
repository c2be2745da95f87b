//! The disk tier: full pages are recovered, damage is a miss, and a broken disk costs only its own hits.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::{
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    path::{Path as FilePath, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use object_store::{ObjectStoreExt, path::Path};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Error, Origin, PageCache, ReadThrough,
};
use support::{Counting, eventually::eventually, noise, quick};

const MIB: usize = 1 << 20;

fn options(dir: &FilePath) -> CacheOptions {
    CacheOptions::new(ByteSize::mib(64)).with_disk(dir, ByteSize::mib(256))
}

async fn open(origin: &Arc<Counting>, options: CacheOptions) -> (ReadThrough, PageCache) {
    let cache = PageCache::open(options).await.unwrap();
    let origin = Origin::new("disk", origin.clone());
    let rules = ConsistencyRules::new(Consistency::Immutable);
    (ReadThrough::new(origin, cache.clone(), rules, quick()), cache)
}

async fn read(store: &ReadThrough, path: &Path) -> Bytes {
    store.get(path).await.unwrap().bytes().await.unwrap()
}

async fn origin_with(objects: usize, size: usize) -> (Arc<Counting>, Vec<(Path, Bytes)>) {
    let origin = Arc::new(Counting::default());
    let mut data = Vec::new();
    for i in 0..objects {
        let path = Path::from(format!("o{i}"));
        let bytes = noise(size, 500 + i as u64);
        origin.memory.put(&path, bytes.clone().into()).await.unwrap();
        data.push((path, bytes));
    }
    (origin, data)
}

fn block_files(dir: &FilePath) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let pages = folders.filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> =
        pages.flat_map(|dir| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path())).collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_page_of_every_size_comes_back_from_disk_after_a_restart() {
    for page_size in [ByteSize::kib(64), ByteSize::mib(1), ByteSize::mib(4), ByteSize::mib(16)] {
        let dir = tempfile::tempdir().unwrap();
        let memory = ByteSize::bytes(page_size.as_u64() * 16);
        let cache_options =
            || CacheOptions::new(memory).with_page_size(page_size).with_disk(dir.path(), ByteSize::gib(1));
        let (origin, data) = origin_with(1, 2 * page_size.as_usize() + 77).await;
        let (path, bytes) = &data[0];
        let (store, cache) = open(&origin, cache_options()).await;
        assert!(read(&store, path).await == bytes);
        settled(&store).await;
        cache.close().await.unwrap();
        assert_eq!(cache.stats().dropped_inserts, 0, "{page_size}");
        drop((store, cache));

        let gets = origin.gets();
        let (store, cache) = open(&origin, cache_options()).await;
        assert!(read(&store, path).await == bytes, "{page_size}");
        assert!(cache.stats().disk_hits >= 3, "{page_size}: {:?} {:?}", cache.stats(), store.stats());
        assert_eq!(origin.gets(), gets, "{page_size}: nothing was asked of the origin");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_larger_than_memory_leaves_there_what_is_read_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let (origin, data) = origin_with(10, MIB).await;
    let large = (Path::from("large"), noise(200 * MIB, 77));
    origin.memory.put(&large.0, large.1.clone().into()).await.unwrap();
    let cache_options = CacheOptions::new(ByteSize::mib(64)).with_disk(dir.path(), ByteSize::mib(512));
    let (store, cache) = open(&origin, cache_options).await;

    for _ in 0..4 {
        for (path, bytes) in &data {
            assert!(read(&store, path).await == bytes);
        }
    }

    assert!(read(&store, &large.0).await == large.1);
    settled(&store).await;
    let before = store.stats().bytes_memory;
    for (path, bytes) in &data {
        assert!(read(&store, path).await == bytes);
    }

    let hot = store.stats().bytes_memory - before;
    assert!(hot >= 8 << 20, "{hot} of 10 MiB, {:?}", cache.stats());

    let bytes = origin.bytes();
    assert!(read(&store, &large.0).await == large.1);
    let dropped = cache.stats().dropped_inserts * MIB as u64;
    assert!(origin.bytes() - bytes <= dropped, "the scan comes from disk: {:?}", cache.stats());
}

async fn settled(store: &ReadThrough) {
    eventually("fetches to end", async || store.stats().in_flight == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_anywhere_in_a_cache_file_is_a_miss_and_never_a_wrong_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (origin, data) = origin_with(12, 3 * MIB + 5).await;
    let (store, cache) = open(&origin, options(dir.path())).await;
    for (path, bytes) in &data {
        assert!(read(&store, path).await == bytes);
    }

    cache.close().await.unwrap();
    drop((store, cache));
    let written: Vec<(PathBuf, Vec<u8>)> = block_files(dir.path())
        .into_iter()
        .map(|file| (file.clone(), std::fs::read(file).unwrap()))
        .collect();
    assert!(!written.is_empty());

    let mut seed = 1u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for round in 0..12 {
        for (file, content) in &written {
            let mut damaged = content.clone();
            match round % 4 {
                // Flip bits at the head of the segment, where recovery reads.
                0 => (0..3).for_each(|_| damaged[random(8192)] ^= 1 << random(8)),
                // Flip bits anywhere.
                1 => (0..40).for_each(|_| damaged[random(content.len())] ^= 1 << random(8)),
                // Cut the file short.
                2 => damaged.truncate(random(content.len())),
                // Overwrite a stretch with bytes of another block.
                _ => {
                    let other = &written[random(written.len())].1;
                    let from = random(other.len() / 2);
                    let to = random(content.len() / 2);
                    let len = MIB;
                    damaged[to..to + len].copy_from_slice(&other[from..from + len]);
                }
            }
            std::fs::write(file, damaged).unwrap();
        }

        let (store, cache) = open(&origin, options(dir.path())).await;
        for (path, bytes) in &data {
            assert!(read(&store, path).await == bytes, "round {round}");
        }
        cache.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_folder_belongs_to_one_cache() {
    let dir = tempfile::tempdir().unwrap();
    let first = PageCache::open(options(dir.path())).await.unwrap();
    let second = PageCache::open(options(dir.path())).await;
    assert!(matches!(second, Err(Error::CacheLocked { .. })), "{second:?}");
    first.close().await.unwrap();
    drop(first);
    PageCache::open(options(dir.path())).await.unwrap();
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a-file");
    std::fs::write(&file, "x").unwrap();
    let error = PageCache::open(options(&file.join("cache"))).await.unwrap_err();
    assert!(matches!(error, Error::CacheFolder { .. }) && error.to_string().contains("a-file"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_page_size_begins_anew_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (origin, data) = origin_with(2, 5 * MIB).await;
    for page_size in [ByteSize::mib(1), ByteSize::mib(2), ByteSize::kib(256)] {
        let (store, cache) = open(&origin, options(dir.path()).with_page_size(page_size)).await;
        for (path, bytes) in &data {
            assert!(read(&store, path).await == bytes);
        }
        assert_eq!(cache.stats().disk_hits, 0);
        cache.close().await.unwrap();
        let folders =
            std::fs::read_dir(dir.path()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
        assert_eq!(folders.count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_capacity_is_a_limit_on_what_is_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (origin, data) = origin_with(30, 5 * MIB).await;
    for capacity in [ByteSize::mib(64), ByteSize::mib(24)] {
        let cache_options = CacheOptions::new(ByteSize::mib(64)).with_disk(dir.path(), capacity);
        let (store, cache) = open(&origin, cache_options).await;
        for _ in 0..2 {
            for (path, bytes) in &data {
                assert!(read(&store, path).await == bytes);
            }
        }
        cache.close().await.unwrap();
        let on_disk: u64 = block_files(dir.path()).iter().map(|file| file.metadata().unwrap().len()).sum();
        assert!(on_disk <= capacity.as_u64(), "{on_disk} bytes of {capacity}");
    }
}

/// A process is killed when all segments of its disk hold pages: the next one makes room and continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_whose_blocks_were_all_full_at_a_kill_is_written_again() {
    let killed = tempfile::tempdir().unwrap();
    let after = tempfile::tempdir().unwrap();
    let (origin, data) = origin_with(12, 4 * MIB).await;
    let cache_options =
        |dir: &FilePath| CacheOptions::new(ByteSize::mib(64)).with_disk(dir, ByteSize::mib(24));
    let (store, cache) = open(&origin, cache_options(killed.path())).await;

    for (path, bytes) in &data {
        assert!(read(&store, path).await == bytes);
    }
    settled(&store).await;
    cache.close().await.unwrap();
    // The kill left only blocks that hold data.
    let blocks = block_files(killed.path());
    let folder = after.path().join(blocks[0].parent().unwrap().file_name().unwrap());
    std::fs::create_dir(&folder).unwrap();
    let full = blocks.iter().find(|file| file.metadata().unwrap().blocks() > 0).unwrap();

    for file in &blocks {
        let source = if file.metadata().unwrap().blocks() > 0 { file } else { full };
        std::fs::copy(source, folder.join(file.file_name().unwrap())).unwrap();
    }

    let (store, cache) = open(&origin, cache_options(after.path())).await;
    for (path, bytes) in &data {
        assert!(read(&store, path).await == bytes);
    }

    settled(&store).await;
    tokio::time::timeout(Duration::from_secs(20), cache.close()).await.unwrap().unwrap();
    assert!(cache.stats().disk_written > 0);
}

#[tokio::test]
async fn a_file_that_a_folder_cannot_have_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let origin = Origin::parse(folder.path().to_str().unwrap(), &[], &quick().requests).unwrap();
    let cache = PageCache::open(CacheOptions::new(ByteSize::mib(16))).await.unwrap();
    let store = ReadThrough::new(origin, cache, ConsistencyRules::default(), quick());
    for path in ["file/below".to_owned(), "n".repeat(300)] {
        let error = store.get(&Path::from(path)).await.unwrap_err();
        assert!(matches!(error, object_store::Error::NotFound { .. }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_takes_no_more_costs_only_its_own_hits() {
    let dir = tempfile::tempdir().unwrap();
    let (origin, data) = origin_with(8, 4 * MIB).await;
    let (store, cache) = open(&origin, options(dir.path())).await;
    assert!(read(&store, &data[0].0).await == data[0].1);
    // Replace every block by a device that is always full.
    for file in block_files(dir.path()) {
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    for _ in 0..2 {
        for (path, bytes) in &data {
            assert!(read(&store, path).await == bytes);
        }
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    tokio::time::timeout(Duration::from_secs(20), cache.close()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_overwritten_under_a_running_cache_are_misses() {
    let dir = tempfile::tempdir().unwrap();
    let (origin, data) = origin_with(6, 12 * MIB).await;
    let cache_options = CacheOptions::new(ByteSize::mib(48)).with_disk(dir.path(), ByteSize::mib(256));
    let (store, cache) = open(&origin, cache_options).await;
    for (path, bytes) in &data {
        assert!(read(&store, path).await == bytes);
    }
    for file in block_files(dir.path()) {
        let len = file.metadata().unwrap().len() as usize;
        let open = std::fs::File::options().write(true).open(file).unwrap();
        open.write_all_at(&noise(len, 9), 0).unwrap();
    }
    for (path, bytes) in &data {
        assert!(read(&store, path).await == bytes);
    }
    assert!(cache.stats().disk_rejected > 0);
}
