//! Writes a partitioned folder of Parquet files, and copies one partition into an ORC file, batch by batch.

use std::{error::Error, path::Path, sync::Arc};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use futures::StreamExt;
use stylobate_columnar::{
    Cache, DatasetOptions, DatasetWriter, Predicate, ScanRequest,
    orc::{OrcOptions, OrcWriter, OrcWritten},
    parquet::ParquetOptions,
};
use stylobate_storage::{ByteSize, CacheOptions, Destination, Overwrite, SinkOptions, Sinks};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let trips = folder.path().join("trips");
    let sinks = Sinks::new(SinkOptions::default());
    write_trips(&sinks, &trips).await?;

    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await?;
    let oslo = folder.path().join("oslo.orc");
    let written = copy_city(&cache, &sinks, &trips, &oslo).await?;
    println!("{} rows, {} bytes, {} stripe", written.rows, written.bytes, written.stripes);
    assert_eq!((written.rows, written.stripes), (2, 1));

    let copied = ScanRequest::new(oslo.to_string_lossy()).plan(&cache).await?.collect().await?;
    let drivers = copied.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten());
    assert_eq!(drivers.collect::<Vec<_>>(), ["Ada", "Eve"]);

    Ok(())
}

/// Writes trips in one folder per city.
async fn write_trips(sinks: &Sinks, folder: &Path) -> Result<(), Box<dyn Error>> {
    let cities: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Bergen", "Oslo"]));
    let drivers: ArrayRef = Arc::new(StringArray::from(vec!["Ada", "Ben", "Eve"]));
    let fares: ArrayRef = Arc::new(Int64Array::from(vec![7, 30, 9]));
    let trips = RecordBatch::try_from_iter([("city", cities), ("driver", drivers), ("fare", fares)])?;

    let options = DatasetOptions::default().with_partition_by(["city"]);
    let mut writer = DatasetWriter::create(
        sinks.clone(),
        Destination::File(folder.to_owned()),
        "trips".to_owned(),
        trips.schema(),
        ParquetOptions::default().into(),
        &options,
    )
    .await?;
    writer.write(&trips).await?;
    assert_eq!(writer.finish().await?.files.len(), 2);

    Ok(())
}

/// Copies the trips in Oslo. The other folder is not read.
async fn copy_city(
    cache: &Cache,
    sinks: &Sinks,
    trips: &Path,
    file: &Path,
) -> Result<OrcWritten, Box<dyn Error>> {
    let scan = ScanRequest::new(trips.to_string_lossy())
        .with_columns(["driver", "fare"])
        .with_filter(Predicate::parse("city = 'Oslo'")?)
        .plan(cache)
        .await?;

    let sink = sinks.open(&Destination::File(file.to_owned()), Overwrite::Refuse).await?;
    let schema = scan.schema().clone();
    let mut writer = OrcWriter::new(sink, file.to_string_lossy(), schema, OrcOptions::default())?;
    let mut batches = scan.stream();
    while let Some(batch) = batches.next().await {
        writer.write(&batch?).await?;
    }

    Ok(writer.finish().await?)
}
