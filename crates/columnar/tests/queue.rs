//! Scans of fewer columns and rows that are derived from a planned one, and queues of row groups that streams share.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod support;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use arrow::{
    array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray},
    datatypes::Int64Type,
};
use futures::{StreamExt, TryStreamExt};
use parquet::file::properties::WriterProperties;
use stylobate_columnar::{MovingFilter, Scan, ScanQueue, ScanRequest, col};
use support::{Folder, cache};

/// Plans a scan of a thousand rows in ten row groups, in order of `id`.
async fn thousand(folder: &Folder) -> Scan {
    let ids: ArrayRef = Arc::new((0..1_000).collect::<Int64Array>());
    let words = (0..1_000).map(|id| (id % 10 > 0).then(|| format!("word {}", id % 3)));
    let words: ArrayRef = Arc::new(words.collect::<StringArray>());
    let scores: ArrayRef = Arc::new((0..1_000).map(|id| Some(f64::from(id))).collect::<Float64Array>());
    let columns = [("id", ids, false), ("word", words, true), ("score", scores, true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
    let path = folder.parquet("t.parquet", &batch, properties);
    ScanRequest::new(path).with_threads(2).plan(&cache(64 << 20).await).await.unwrap()
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_has_the_columns_and_rows_that_are_asked_for() {
    let folder = Folder::new();
    let scan = thousand(&folder).await;

    let selected = scan.select(&[1, 0], Some(col("id").gt_eq(850)), None).unwrap();
    assert_eq!(selected.row_group_count(), 2);
    let names: Vec<_> = selected.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["word", "id"]);
    let again = selected.select(&[1], Some(col("id").lt(860)), Some(3)).unwrap();
    assert_eq!((again.row_group_count(), ids(&again.collect().await.unwrap())), (1, vec![850, 851, 852]));

    let none = scan.select(&[], Some(col("word").is_null()), None).unwrap();
    let rows = none.collect().await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows, 100);
    assert!(scan.select(&[3], None, None).is_err() && scan.select(&[0], Some(col("x").eq(1)), None).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn row_groups_are_read_in_the_order_that_is_given() {
    let folder = Folder::new();
    let scan = thousand(&folder).await;
    let some = scan.with_row_groups([7, 2, 99]);
    let read = ids(&some.collect().await.unwrap());
    assert_eq!(read, (700..800).chain(200..300).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_a_queue_read_each_row_once() {
    let folder = Folder::new();
    let scan = thousand(&folder).await;
    let queue = ScanQueue::new(&scan, 3, None);
    let streams = (0..3).map(|_| tokio::spawn(queue.stream().try_collect::<Vec<_>>()));
    let read = futures::future::join_all(streams).await;

    let mut all = Vec::new();
    for batches in read {
        let of_stream = ids(&batches.unwrap().unwrap());
        assert!(of_stream.is_sorted());
        all.extend(of_stream);
    }
    all.sort_unstable();
    assert_eq!(all, (0..1_000).collect::<Vec<_>>());
    assert_eq!(queue.taken(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_a_queue_share_a_limit() {
    let folder = Folder::new();
    let scan = thousand(&folder).await.select(&[0], Some(col("word").eq("word 1")), Some(70)).unwrap();
    let queue = ScanQueue::new(&scan, 4, None);
    let streams = (0..4).map(|_| tokio::spawn(queue.stream().try_collect::<Vec<_>>()));
    let mut read = Vec::new();
    for batches in futures::future::join_all(streams).await {
        read.extend(ids(&batches.unwrap().unwrap()));
    }
    let distinct: BTreeSet<i64> = read.iter().copied().collect();
    assert_eq!((read.len(), distinct.len()), (70, 70));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moving_filter_rules_out_row_groups_that_are_not_begun() {
    let folder = Folder::new();
    let scan = thousand(&folder).await;
    let min_id = Arc::new(AtomicI64::new(-1));
    let filter: MovingFilter = {
        let min_id = min_id.clone();
        Arc::new(move || match min_id.load(Ordering::Relaxed) {
            -1 => None,
            min_id => Some(Arc::new(col("id").gt_eq(min_id))),
        })
    };
    let queue = ScanQueue::new(&scan, 1, Some(filter));
    let mut stream = queue.stream();
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(ids(&[first])[0], 0);

    // A stream of two threads reads three row groups ahead.
    min_id.store(950, Ordering::Relaxed);
    let rest: Vec<RecordBatch> = stream.try_collect().await.unwrap();
    let rest = ids(&rest);
    assert!(rest.iter().filter(|id| **id < 950).all(|id| *id < 400), "{rest:?}");
    assert!((950..1_000).all(|id| rest.contains(&id)));
    assert!(queue.pruned() >= 5, "{queue:?}");
    assert_eq!(queue.pruned() + queue.taken(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moving_filter_that_drops_few_rows_drops_none() {
    let folder = Folder::new();
    let scan = thousand(&folder).await;
    let moving = |min_score: i64| -> MovingFilter {
        let condition = Arc::new(col("score").gt_eq(min_score));
        Arc::new(move || Some(condition.clone()))
    };
    let rows = async |scan: &Scan, min_score| {
        let batches: Vec<RecordBatch> =
            ScanQueue::new(scan, 1, Some(moving(min_score))).stream().try_collect().await.unwrap();
        batches.iter().map(RecordBatch::num_rows).sum::<usize>()
    };
    assert_eq!(rows(&scan, 205).await, 800);
    assert_eq!(rows(&scan, 250).await, 750);
    // If the scan has a filter of its own, rows are filtered anyway, and the moving filter is applied with it.
    let filtered = scan.select(&[0], Some(col("word").is_not_null()), None).unwrap();
    assert_eq!(rows(&filtered, 205).await, 716);
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_are_those_of_each_row_group() {
    let folder = Folder::new();
    let scan = thousand(&folder).await.with_row_groups([3, 0]);
    let bounds = scan.column_bounds(0).unwrap();
    let min = bounds.min.unwrap();
    let max = bounds.max.unwrap();
    assert_eq!(min.as_primitive::<Int64Type>().values(), &[300, 0]);
    assert_eq!(max.as_primitive::<Int64Type>().values(), &[399, 99]);
    assert!(bounds.is_exact);
    assert_eq!(scan.row_group_rows(), [100, 100]);

    let words = scan.column_bounds(1).unwrap();
    assert_eq!(words.null_counts.values(), &[10, 10]);
    assert!(!words.is_exact && !scan.column_bounds(2).unwrap().is_exact);
}
