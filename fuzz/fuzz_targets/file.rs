//! Any bytes as a Parquet or ORC file: inspected, and scanned whole, as dictionaries, filtered, and without memory.
//! Their end as the footer from which a node learns where column chunks lie.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory, path::Path};
use stylobate_columnar::{
    Cache, Dictionaries, Error, Predicate, ScanRequest, Source, inspect, parquet::ParquetLayout,
};
use stylobate_storage::{
    ByteSize, CacheOptions, ColumnLayout, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions,
    ReadThrough,
};
use tokio::runtime::Runtime;

struct Bench {
    runtime: Runtime,
    memory: Arc<InMemory>,
    store: ReadThrough,
    caches: [Cache; 2],
}

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        stylobate_fuzz::abort_at_own_panics();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let memory = Arc::new(InMemory::new());
        let options = CacheOptions::new(ByteSize::mib(64));
        let pages = runtime.block_on(PageCache::open(options)).unwrap();
        let origin = Origin::new("fuzz", memory.clone() as Arc<dyn ObjectStore>);
        let rules = ConsistencyRules::new(Consistency::Strict);
        let store = ReadThrough::new(origin, pages.clone(), rules, ReadOptions::default());
        let nothing = runtime.block_on(PageCache::open(CacheOptions::new(ByteSize::bytes(0)))).unwrap();
        let caches = [Cache::over(pages), Cache::over(nothing)];
        Bench { runtime, memory, store, caches }
    })
}

/// Returns the value of a call, if it succeeded. No error may say that a task panicked.
fn check<T>(answer: Result<T, Error>) -> Option<T> {
    if let Err(Error::Ended { reason }) = &answer {
        assert!(!reason.contains("panic"), "{reason}");
    }
    answer.ok()
}

/// Returns the last `len` bytes, if there are as many.
fn tail(data: &[u8], len: u64) -> Option<&[u8]> {
    data.len().checked_sub(usize::try_from(len).ok()?).and_then(|start| data.get(start..))
}

/// Finds the column chunks, which must not be reversed.
fn find_chunks(data: &[u8]) -> Option<()> {
    let footer_len = ParquetLayout.footer_len(tail(data, ParquetLayout.end_len())?)?;
    let groups = ParquetLayout.chunks(tail(data, footer_len)?)?;
    assert!(groups.iter().flatten().all(|chunk| chunk.start <= chunk.end));
    Some(())
}

fuzz_target!(|data: &[u8]| {
    let bench = bench();
    find_chunks(data);
    let path = Path::from("file");
    // Another part of the work each time, by what the bytes happen to be.
    let turn =
        data.iter().fold(data.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let cache = &bench.caches[usize::from(turn % 5 == 0)];
    let dictionary = match turn / 5 % 3 {
        0 => Dictionaries::All,
        1 => Dictionaries::None,
        _ => Dictionaries::Auto,
    };
    bench.runtime.block_on(async {
        bench.memory.put(&path, data.to_vec().into()).await.unwrap();
        let source = || Source::Store { store: bench.store.clone(), pattern: "file".to_owned() };
        if turn / 15 % 4 == 0 {
            check(inspect(&source(), cache).await);
        }
        let request =
            ScanRequest::over([source()]).with_dictionary(dictionary).with_threads(1).with_limit(100_000);
        let Some(scan) = check(request.clone().plan(cache).await) else { return };
        check(scan.collect().await);
        let columns = scan.schema().fields();
        let Some(column) = columns.get(turn / 60 % columns.len().max(1)) else { return };
        let column = column.name().replace('"', "\"\"");
        let filter = match turn / 600 % 4 {
            0 => format!("\"{column}\" IS NULL"),
            1 => format!("\"{column}\" > 5"),
            2 => format!("\"{column}\" = 'a'"),
            _ => format!("\"{column}\" IN (1, 2, 3)"),
        };
        let Ok(filter) = Predicate::parse(&filter) else { return };
        if let Some(scan) = check(request.with_filter(filter).plan(cache).await) {
            check(scan.collect().await);
        }
    });
});
