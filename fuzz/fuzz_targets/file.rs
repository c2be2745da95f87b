//! Any bytes as a Parquet or ORC file: inspected, and scanned whole, as dictionaries, filtered, and without memory.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory, path::Path};
use stylobate_columnar::{Cache, Dictionaries, Predicate, ScanRequest, Source, inspect};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
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
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let memory = Arc::new(InMemory::new());
        let options = CacheOptions::new(ByteSize::mib(8));
        let pages = runtime.block_on(PageCache::open(options)).unwrap();
        let origin = Origin::new("fuzz", memory.clone() as Arc<dyn ObjectStore>);
        let rules = ConsistencyRules::new(Consistency::Strict);
        let store = ReadThrough::new(origin, pages.clone(), rules, ReadOptions::default());
        let caches = [Cache::over(pages.clone(), ByteSize::mib(64)), Cache::over(pages, ByteSize::bytes(0))];
        Bench { runtime, memory, store, caches }
    })
}

fuzz_target!(|data: &[u8]| {
    let bench = bench();
    let path = Path::from("file");
    bench.runtime.block_on(async {
        bench.memory.put(&path, data.to_vec().into()).await.unwrap();
        let source = || Source::Store { store: bench.store.clone(), pattern: "file".to_owned() };
        let _ = inspect(&source(), &bench.caches[0]).await;
        for (cache, dictionary) in bench
            .caches
            .iter()
            .zip([Dictionaries::All, Dictionaries::None])
            .chain([(&bench.caches[0], Dictionaries::Auto)])
        {
            let request =
                ScanRequest::over([source()]).with_dictionary(dictionary).with_threads(1).with_limit(100_000);
            let Ok(scan) = request.clone().plan(cache).await else { continue };
            let _ = scan.collect().await;
            let Some(first) = scan.schema().fields().first() else { continue };
            let column = first.name().replace('"', "\"\"");
            for filter in
                [format!("\"{column}\" IS NULL"), format!("\"{column}\" > 5"), format!("\"{column}\" = 'a'")]
            {
                let Ok(filter) = Predicate::parse(&filter) else { continue };
                if let Ok(scan) = request.clone().with_filter(filter).plan(cache).await {
                    let _ = scan.collect().await;
                }
            }
        }
    });
});
