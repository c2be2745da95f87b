//! Uses the read-through cache of `stylobate-storage` below DataFusion's own `ListingTable`: each byte of a file is
//! requested from the bucket once. Queries still decode the files each time, unlike with a `ScanTable` of this crate.

use std::{error::Error, sync::Arc};

use datafusion::{
    arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datasource::{file_format::parquet::ParquetFormat, listing::ListingOptions},
    object_store::{ObjectStoreExt, memory::InMemory, path::Path},
    prelude::SessionContext,
};
use parquet::arrow::ArrowWriter;
use stylobate_storage::{
    ByteSize, CacheOptions, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
};
use url::Url;

const QUERY: &str = "SELECT city, sum(fare) AS fares FROM trips GROUP BY city ORDER BY city";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bucket = Arc::new(InMemory::new()); // any object store: an AmazonS3, a GoogleCloudStorage, your own
    bucket.put(&Path::from("trips/part-0.parquet"), trips()?.into()).await?;

    // With a folder and a capacity, `with_disk` keeps pages across restarts.
    let cache = PageCache::open(CacheOptions::new(ByteSize::mib(64))).await?;
    let origin = Origin::new("lake", bucket);
    let store =
        Arc::new(ReadThrough::new(origin, cache, ConsistencyRules::default(), ReadOptions::default()));

    let context = SessionContext::new();
    context.register_object_store(&Url::parse("s3://lake")?, store.clone());
    let options = ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(".parquet");
    context.register_listing_table("trips", "s3://lake/trips/", options, None, None).await?;

    let first = context.sql(QUERY).await?.collect().await?;
    let asked = store.stats().origin_gets;
    let again = context.sql(QUERY).await?.collect().await?;

    assert_eq!(first, again);
    assert_eq!(first.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    assert_eq!(store.stats().origin_gets, asked, "the second query sent no GET to the bucket");

    println!("{asked} GETs for the first query, none for the second");
    Ok(())
}

/// Returns the bytes of a Parquet file.
fn trips() -> Result<Vec<u8>, Box<dyn Error>> {
    let city: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Bergen", "Oslo"]));
    let fare: ArrayRef = Arc::new(Int64Array::from(vec![7, 30, 9]));
    let rows = RecordBatch::try_from_iter([("city", city), ("fare", fare)])?;

    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), None)?;
    writer.write(&rows)?;
    writer.close()?;

    Ok(bytes)
}
