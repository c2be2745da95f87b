//! Wraps an object store in the read-through cache: the second read is served from memory, and after a restart reads
//! are served from disk.

use std::{error::Error, path::Path as FilePath, sync::Arc};

use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory, path::Path};
use stylobate_storage::{
    ByteSize, CacheOptions, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let bucket = Arc::new(InMemory::new()); // any object store: an AmazonS3, a LocalFileSystem, your own
    let path = Path::from("lake/part-0.parquet");
    bucket.put(&path, vec![7; 3_000_000].into()).await?;

    let (store, cache) = open(bucket.clone(), folder.path()).await?;
    store.get(&path).await?.bytes().await?;
    while store.stats().in_flight > 0 {
        tokio::task::yield_now().await;
    }
    store.get(&path).await?.bytes().await?;

    let stats = store.stats();
    println!("{} bytes from the origin, {} from memory", stats.bytes_origin, stats.bytes_memory);
    assert_eq!(stats.bytes_origin, 3_000_000, "the second read sent no request to the origin");
    assert!(stats.bytes_memory >= 3_000_000);

    // Writes queued pages to disk, and releases the folder.
    cache.close().await?;
    drop((store, cache));

    let (store, cache) = open(bucket, folder.path()).await?;
    assert_eq!(store.get_range(&path, 1_000_000..1_000_100).await?.as_ref(), [7; 100]);

    let stats = store.stats();
    println!("after a restart: {} GETs, {} bytes from disk", stats.origin_gets, stats.bytes_disk);
    assert_eq!(stats.origin_gets, 0);
    assert!(stats.bytes_disk >= 100);

    cache.close().await?;
    Ok(())
}

/// Opens a cache with a disk tier in `folder`, and a read-through store over the bucket.
async fn open(
    bucket: Arc<dyn ObjectStore>,
    folder: &FilePath,
) -> stylobate_storage::Result<(ReadThrough, PageCache)> {
    let options = CacheOptions::new(ByteSize::mib(64)).with_disk(folder, ByteSize::mib(64));
    let cache = PageCache::open(options).await?;
    let origin = Origin::new("lake", bucket); // the name tells its objects from those of other origins
    let store = ReadThrough::new(origin, cache.clone(), ConsistencyRules::default(), ReadOptions::default());

    Ok((store, cache))
}
