//! Spans of scans, in a process of their own.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod support;

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use parquet::file::properties::WriterProperties;
use stylobate_columnar::{ScanRequest, col};
use support::{Folder, cache};

/// Spans of the crate, each with the fields that it was opened with, and fields that were recorded later.
#[derive(Clone, Default)]
struct RecordedSpans(Arc<Mutex<Vec<String>>>);

/// Serializes the tests: whether a span is recorded is decided for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl RecordedSpans {
    fn begin() -> (Self, (tracing::subscriber::DefaultGuard, MutexGuard<'static, ()>)) {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let spans = Self::default();
        (spans.clone(), (tracing::subscriber::set_default(spans), alone))
    }
}

impl tracing::Subscriber for RecordedSpans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("stylobate_columnar")
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut text = span.metadata().name().to_owned();
        span.record(&mut |field: &tracing::field::Field, value: &dyn Debug| {
            text.push_str(&format!(" {field}={value:?}"));
        });
        let mut spans = self.0.lock().unwrap();
        spans.push(text);
        tracing::span::Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _span: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut |field: &tracing::field::Field, value: &dyn Debug| {
            self.0.lock().unwrap().push(format!("{field}={value:?}"));
        });
    }

    fn record_follows_from(&self, _span: &tracing::span::Id, _follows: &tracing::span::Id) {}

    fn event(&self, _event: &tracing::Event<'_>) {}

    fn enter(&self, _span: &tracing::span::Id) {}

    fn exit(&self, _span: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_scan_is_one_span_for_its_plan_and_one_for_its_rows() {
    let folder = Folder::new();
    let ids: ArrayRef = Arc::new((0..3_000).collect::<Int64Array>());
    let table = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1_000)).build();
    let path = folder.parquet("t.parquet", &table, properties);
    let (spans, recording) = RecordedSpans::begin();

    let request = ScanRequest::new(&path).with_columns(["id"]).with_filter(col("id").gt_eq(1_000));
    let scan = request.plan(&cache(1 << 20).await).await.unwrap();
    assert_eq!(scan.collect().await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 2_000);
    drop(recording);

    let expected = [
        format!("plan_scan source={path} sources=1"),
        "scan files=1 row_groups=2 columns=1".to_owned(),
        "rows=2000".to_owned(),
    ];
    assert_eq!(*spans.0.lock().unwrap(), expected);
}

#[tokio::test]
async fn the_span_of_a_failed_scan_has_no_secret() {
    let (spans, recording) = RecordedSpans::begin();
    let request = ScanRequest::new("unknown://user:password@host/t.parquet?signature=secret");
    assert!(request.plan(&cache(1 << 20).await).await.is_err());
    drop(recording);

    let source = "unknown://***@host/t.parquet?***";
    assert_eq!(*spans.0.lock().unwrap(), [format!("plan_scan source={source} sources=1")]);
}
