//! Any bytes as an Arrow IPC file or stream: scanned whole, and with a filter of one column; and as a stream that is
//! read without a scan.
#![no_main]

use std::sync::OnceLock;

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use libfuzzer_sys::fuzz_target;
use object_store::{ObjectStoreExt, path::Path};
use stylobate_columnar::{IpcStreamReader, Predicate, SequentialFormat, SequentialRequest};
use stylobate_fuzz::{Bench, check};

/// A small file may be a large one that is compressed.
const MAX_ROWS: u64 = 10_000;

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(Bench::new)
}

fuzz_target!(|data: &[u8]| {
    bench().runtime.block_on(by_scan(data));
    if let Ok(batches) = IpcStreamReader::new(data) {
        for batch in batches.map_while(Result::ok) {
            assert!(batch.columns().iter().all(|column| column.to_data().validate_full().is_ok()));
        }
    }
});

async fn by_scan(data: &[u8]) {
    let bench = bench();
    bench.memory.put(&Path::from("file.arrow"), data.to_vec().into()).await.unwrap();
    let source = || bench.source("file.arrow");
    let request = || SequentialRequest::over([source()], SequentialFormat::Arrow).with_limit(MAX_ROWS);
    let Some(scan) = check(request().plan(&bench.cache).await) else { return };
    let _: Option<Vec<RecordBatch>> = check(scan.stream().try_collect().await);

    let columns = scan.schema().fields();
    let Some(column) = columns.get(data.len() % columns.len().max(1)) else { return };
    let column = column.name().replace('"', "\"\"");
    let Ok(filter) = Predicate::parse(&format!("\"{column}\" IS NOT NULL")) else { return };
    if let Some(scan) = check(request().with_filter(filter).plan(&bench.cache).await) {
        let _: Option<Vec<RecordBatch>> = check(scan.stream().try_collect().await);
    }
}
