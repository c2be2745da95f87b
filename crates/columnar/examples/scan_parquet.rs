//! Writes a Parquet file with four row groups, and scans it with a filter that rules out three of them by their
//! statistics.

use std::{error::Error, path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
    datatypes::Int64Type,
};
use stylobate_columnar::{
    Cache, Predicate, ScanRequest, Written,
    parquet::{ParquetOptions, ParquetWriter},
};
use stylobate_storage::{ByteSize, CacheOptions, Destination, Overwrite, SinkOptions, Sinks};

const ROWS: i64 = 40_000;
const ROW_GROUP_ROWS: usize = 10_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("trips.parquet");
    let written = write(&file).await?;
    assert_eq!((written.rows, written.row_groups), (40_000, 4));

    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await?;
    let scan = ScanRequest::new(file.to_string_lossy())
        .with_columns(["trip", "city"])
        .with_filter(Predicate::parse("trip >= 39995 AND city = 'Oslo'")?)
        .plan(&cache)
        .await?;
    assert_eq!((scan.row_group_count(), cache.stats().pruned_row_groups), (1, 3));

    let mut trips = Vec::new();
    for batch in scan.collect().await? {
        let cities = batch.column(1).as_string::<i32>();
        for (trip, city) in batch.column(0).as_primitive::<Int64Type>().values().iter().zip(cities) {
            println!("{trip}: {}", city.unwrap_or_default());
            trips.push(*trip);
        }
    }
    assert_eq!(trips, [39_996, 39_998]);

    Ok(())
}

/// Writes the trips: even ones in Oslo, odd ones in Bergen.
async fn write(file: &Path) -> Result<Written, Box<dyn Error>> {
    let trips: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let city = |trip: i64| if trip % 2 == 0 { "Oslo" } else { "Bergen" };
    let cities: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(city)));
    let batch = RecordBatch::try_from_iter([("trip", trips), ("city", cities)])?;

    let sinks = Sinks::new(SinkOptions::default());
    let sink = sinks.open(&Destination::File(file.to_owned()), Overwrite::Refuse).await?;
    let options = ParquetOptions::default().with_row_group_rows(ROW_GROUP_ROWS);
    let mut writer = ParquetWriter::new(sink, file.to_string_lossy(), batch.schema(), options)?;
    writer.write(&batch).await?;

    Ok(writer.finish().await?)
}
