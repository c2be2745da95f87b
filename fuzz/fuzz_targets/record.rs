//! Any JSON as the newest record of a graph store's log, with the checksum that it needs: opened, scanned and verified.
#![no_main]

use std::{pin::pin, sync::OnceLock};

use futures::{Stream, StreamExt};
use libfuzzer_sys::fuzz_target;
use object_store::{ObjectStoreExt, path::Path};
use serde_json::Value;
use stylobate_fuzz::{Bench, check};
use stylobate_graph::{
    fuzzing::record_survives_rewrite,
    store::{GraphStore, Snapshot, StoreOptions},
};

/// Vertices and edges of a version above which its parts are not read: there may be a file for each.
const MAX_READ: u64 = 1 << 12;
/// Batches of a scan that are taken.
const MAX_BATCHES: usize = 64;

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(Bench::new)
}

fuzz_target!(|data: &[u8]| {
    let bench = bench();
    let version = serde_json::from_slice::<Value>(data).ok();
    let version = version.and_then(|record| record.get("version")?.as_u64()).unwrap_or_default();
    let record = sealed(data);
    let accepted = record_survives_rewrite(&record, version);
    assert_ne!(accepted, Some(false), "a record is another one when it is written and read again");

    let path = Path::from(format!("store/_log/{version:020}.json"));
    bench.runtime.block_on(async {
        bench.memory.put(&path, record.into()).await.unwrap();
        let opened =
            check(GraphStore::open(&bench.cache, bench.source("store"), StoreOptions::default()).await);
        assert_eq!(opened.is_some(), accepted.is_some(), "the store opens if its newest record is one");
        if let Some(store) = opened {
            read(&store.latest()).await;
            check(store.log().await);
        }
        bench.memory.delete(&path).await.unwrap();
    });
});

/// A record: the members of an object, and the checksum of all bytes before it.
fn sealed(object: &[u8]) -> Vec<u8> {
    let object = object.strip_suffix(b"}").unwrap_or(object);
    let end = format!(",\"crc32\":\"{:08x}\"}}", crc32fast::hash(object));
    [object, end.as_bytes()].concat()
}

async fn read(snapshot: &Snapshot) {
    let schema = snapshot.schema();
    let _ = snapshot.entry();
    let mut count: u64 = 0;
    for vertices in &schema.vertices {
        let of_type = check(snapshot.index_count(&vertices.name)).unwrap_or(u64::MAX);
        count = count.saturating_add(of_type);
    }
    for edges in &schema.edges {
        let of_type = check(snapshot.edge_count(&edges.full_name())).unwrap_or(u64::MAX);
        count = count.saturating_add(of_type);
    }
    if count > MAX_READ {
        return;
    }

    for vertices in &schema.vertices {
        if let Some((_, batches)) = check(snapshot.scan_vertices(&vertices.name, None, None).await) {
            drain(batches).await;
        }
    }
    for edges in &schema.edges {
        if let Some((_, batches)) = check(snapshot.scan_edges(&edges.full_name(), None, None).await) {
            drain(batches).await;
        }
    }
    for flaw in snapshot.verify().await.flaws {
        assert!(!flaw.contains(" panicked"), "{flaw}");
    }
}

async fn drain<T, E: std::fmt::Display>(batches: impl Stream<Item = Result<T, E>>) {
    let mut batches = pin!(batches.take(MAX_BATCHES));
    while let Some(batch) = batches.next().await {
        if check(batch).is_none() {
            break;
        }
    }
}
