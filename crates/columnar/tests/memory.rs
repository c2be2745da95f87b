//! Scans ten times the budget: the memory of the process stays within the budget, a quarter more, and a fixed
//! allowance.
//!
//! It measures the process, so it is the only test of this file.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::{fs::File, sync::Arc, time::SystemTime};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use futures::TryStreamExt;
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use stylobate_columnar::{Cache, ScanRequest, col};
use support::{Folder, cache};

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 32 * MIB;
/// Other memory of the process: threads, pages of code, and memory kept by the allocator.
const OVERHEAD: u64 = 64 * MIB;
const COLUMNS: usize = 8;
/// Rows of a row group, whose columns together exceed the memory of a decode.
const GROUP: usize = 250_000;
const GROUPS: usize = 20;

/// Reads a line of the process's status, in kilobytes. Returns bytes.
fn status(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Writes 320 MB of incompressible numbers.
fn write(path: &str) {
    let fields: Vec<Field> =
        (0..COLUMNS).map(|column| Field::new(format!("c{column}"), DataType::Int64, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(GROUP))
        .build();

    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(&file, schema.clone(), Some(properties)).unwrap();
    for group in 0..GROUPS as i64 {
        let column = |column: i64| -> ArrayRef {
            let value = |row: i64| (group << 32 | row << 4 | column).wrapping_mul(0x1E37_79B9_7F4A_7C15);
            Arc::new((0..GROUP as i64).map(value).collect::<Int64Array>())
        };
        let columns = (0..COLUMNS as i64).map(column).collect();
        writer.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
    }

    writer.close().unwrap();
    file.set_modified(SystemTime::now() - std::time::Duration::from_secs(3600)).unwrap();
}

async fn rows(request: ScanRequest, cache: &Cache) -> usize {
    let stream = request.plan(cache).await.unwrap().stream();
    stream.try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_of_ten_times_the_budget_stay_within_it() {
    let folder = Folder::new();
    let path = folder.path("large.parquet");
    write(&path);

    for budget in [0, BUDGET] {
        let cache = cache(budget).await;
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = status("VmRSS:");

        // Pairs of columns fit and are kept while there is room; all columns together do not fit, and are streamed.
        for pair in 0..COLUMNS / 2 {
            let names = [format!("c{}", pair * 2), format!("c{}", pair * 2 + 1)];
            assert_eq!(rows(ScanRequest::new(&path).with_columns(names), &cache).await, GROUP * GROUPS);
        }

        assert_eq!(rows(ScanRequest::new(&path), &cache).await, GROUP * GROUPS);
        let filter = col("c0").gt(0).and(col("c1").lt(0));
        assert!(rows(ScanRequest::new(&path).with_filter(filter), &cache).await > GROUP);
        let peak = status("VmHWM:").saturating_sub(before);
        let max_peak = budget * 5 / 4 + OVERHEAD;
        assert!(peak <= max_peak, "{} MiB above the start, with {} MiB", peak / MIB, budget / MIB);
        let stats = cache.stats();
        assert!(stats.bytes <= stats.capacity && stats.capacity <= budget, "{stats:?}");
        // A few row groups have all columns in the cache.
        assert!(stats.streamed_row_groups >= GROUPS as u64 / 4 * 3, "{stats:?}");
        assert!(stats.decoded_chunks > 0, "{stats:?}");
        assert!(budget > 0 || stats.bytes == 0, "nothing is kept without memory: {stats:?}");
    }
}
