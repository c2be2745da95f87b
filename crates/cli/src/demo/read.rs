//! Reads the column chunks of a query as an engine does: the footer, then the byte ranges of its columns.

use std::{
    ops::Range,
    path::Path as FilePath,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, path::Path};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use serde::Serialize;
use stylobate_server::Node;

use super::data::DemoTable;

/// Size of the first read from the end of a file, which covers the footers of the demo's files at any scale.
const FOOTER: u64 = 512 << 10;
const MAX_CONCURRENT_READS: usize = 4;

/// The measurements of one pass over the tables.
#[derive(Debug, Serialize)]
pub(super) struct DemoMeasurement {
    pub(super) name: &'static str,
    pub(super) requests: usize,
    pub(super) bytes: u64,
    pub(super) origin_gets: u64,
    pub(super) origin_bytes: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) mb_per_s: f64,
}

/// Cumulative traffic between the node and its origin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OriginTraffic {
    gets: u64,
    bytes: u64,
}

impl OriginTraffic {
    /// Waits until no fetch is in flight, and returns the counters.
    pub(super) async fn origin(node: &Node) -> Self {
        while node.buckets().any(|bucket| bucket.reader.stats().in_flight > 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        node.buckets().fold(Self::default(), |sum, bucket| {
            let stats = bucket.reader.stats();
            let bytes = stats.bytes_origin + stats.bytes_passed_through;
            Self { gets: sum.gets + stats.origin_gets, bytes: sum.bytes + bytes }
        })
    }
}

impl DemoMeasurement {
    /// Adds the origin traffic of the pass: that of the node, or that of this client if it read from the origin
    /// directly.
    pub(super) fn with_origin(mut self, before: OriginTraffic, after: OriginTraffic) -> Self {
        if !self.name.starts_with("node") {
            return self;
        }
        self.origin_gets = after.gets - before.gets;
        self.origin_bytes = after.bytes - before.bytes;
        self
    }
}

/// Reads the query's columns of all tables from `store`, and compares each byte with the files in `folder`.
pub(super) async fn read(
    name: &'static str,
    store: Arc<dyn ObjectStore>,
    tables: &[DemoTable],
    folder: &FilePath,
) -> anyhow::Result<DemoMeasurement> {
    let mut files = Vec::new();
    for table in tables {
        files.push((table, Bytes::from(tokio::fs::read(folder.join(&table.key)).await?)));
    }

    let started = Instant::now();

    let mut latencies = Vec::new();
    let mut bytes = 0;
    for (table, file) in files {
        let path = Path::from(table.key.as_str());
        let (footer, latency) = timed(footer(&store, &path)).await;
        latencies.push(latency);
        let (footer, range) = footer?;
        same(&file, range, &footer, table)?;
        bytes += footer.len() as u64;
        let metadata = ParquetMetaDataReader::new();
        let mut metadata = metadata.with_page_index_policy(parquet::file::metadata::PageIndexPolicy::Skip);
        metadata.try_parse_sized(&footer, table.bytes).context("reading a Parquet footer")?;
        let ranges = chunk_ranges(&metadata.finish()?, table.columns);
        let reads = futures::stream::iter(ranges).map(|range| {
            let store = store.clone();
            let path = path.clone();
            async move {
                let (read, latency) = timed(store.get_range(&path, range.clone())).await;
                read.map(|read| (range, read, latency))
            }
        });

        let reads: Vec<_> = reads.buffer_unordered(MAX_CONCURRENT_READS).try_collect().await?;

        for (range, read, latency) in reads {
            same(&file, range, &read, table)?;
            bytes += read.len() as u64;
            latencies.push(latency);
        }
    }

    let seconds = started.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let quantile = |quantile: f64| {
        let index = ((latencies.len() - 1) as f64 * quantile).round() as usize;
        latencies.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    };

    let requests = latencies.len();
    Ok(DemoMeasurement {
        name,
        requests,
        bytes,
        origin_gets: requests as u64,
        origin_bytes: bytes,
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        mb_per_s: bytes as f64 / 1e6 / seconds,
    })
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    (work.await, started.elapsed())
}

async fn footer(store: &Arc<dyn ObjectStore>, path: &Path) -> object_store::Result<(Bytes, Range<u64>)> {
    let options = GetOptions { range: Some(GetRange::Suffix(FOOTER)), ..GetOptions::default() };
    let result = store.get_opts(path, options).await?;
    let range = result.range.clone();
    Ok((result.bytes().await?, range))
}

fn same(file: &Bytes, range: Range<u64>, read: &Bytes, table: &DemoTable) -> anyhow::Result<()> {
    if file.get(range.start as usize..range.end as usize) != Some(read.as_ref()) {
        bail!("bytes {range:?} of {} differ from the file's", table.key);
    }
    Ok(())
}

/// Returns the byte ranges of the chunks of these columns, by row group.
fn chunk_ranges(metadata: &ParquetMetaData, columns: &[&str]) -> Vec<Range<u64>> {
    let chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    chunks
        .filter(|chunk| columns.contains(&chunk.column_path().string().as_str()))
        .map(|chunk| {
            let (start, len) = chunk.byte_range();
            start..start + len
        })
        .collect()
}
