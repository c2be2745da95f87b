//! Support for the targets: a store in memory below a page cache, and a hook that turns panics into findings.

use std::{fmt::Display, sync::Arc};

use object_store::{ObjectStore, memory::InMemory};
use stylobate_columnar::{Cache, Source};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
};
use tokio::runtime::Runtime;

/// Aborts the process at a panic in our code, on any thread, caught or not. Panics of the decoders that we call are
/// caught and become errors.
pub fn abort_at_own_panics() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        if panic.location().is_some_and(|at| is_own(at.file())) {
            std::process::abort();
        }
    }));
}

/// Returns whether a file belongs to our crates, or to the targets, whose paths are relative.
fn is_own(file: &str) -> bool {
    let is_foreign = ["/registry/", "/checkouts/", "/rustc/"].iter().any(|part| file.contains(part));
    !is_foreign && (file.contains("/crates/") || !file.starts_with('/'))
}

/// Returns the value of a call, if it succeeded. No error may say that a task panicked.
pub fn check<T, E: Display>(answer: Result<T, E>) -> Option<T> {
    if let Err(error) = &answer {
        let reason = error.to_string();
        assert!(!reason.contains(" panicked"), "{reason}");
    }
    answer.ok()
}

/// A store in memory, and what reads it. Versions of its objects are never used again, so nothing that is cached of one
/// input is found by the next.
pub struct Bench {
    pub runtime: Runtime,
    pub memory: Arc<InMemory>,
    pub store: ReadThrough,
    pub cache: Cache,
}

impl Bench {
    pub fn new() -> Self {
        abort_at_own_panics();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let memory = Arc::new(InMemory::new());
        let pages = runtime.block_on(PageCache::open(CacheOptions::new(ByteSize::mib(8)))).unwrap();
        let store = read_through(&memory, pages.clone());
        let cache = Cache::over(pages);
        Self { runtime, memory, store, cache }
    }

    /// A path within the store.
    pub fn source(&self, path: &str) -> Source {
        Source::Store { store: self.store.clone(), pattern: path.to_owned() }
    }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads a store in memory through a cache, and asks for the version of an object each time.
pub fn read_through(memory: &Arc<InMemory>, pages: PageCache) -> ReadThrough {
    let origin = Origin::new("fuzz", memory.clone() as Arc<dyn ObjectStore>);
    ReadThrough::new(origin, pages, ConsistencyRules::new(Consistency::Strict), ReadOptions::default())
}
