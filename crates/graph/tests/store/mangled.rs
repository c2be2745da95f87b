//! Stores with corrupted files: readers return results or errors, and terminate.

use std::time::Duration;

use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_graph::{
    Direction, Result,
    store::{Ends, StoreOptions, VertexIds},
};
use stylobate_storage::ByteSize;

use crate::{
    bucket::Bucket,
    mangle::mangle,
    model::{batch, ints, schema, texts},
};

/// Returns options with small chunks, and with no inline data if `inline` is 0.
fn options(inline: u64) -> StoreOptions {
    StoreOptions::default()
        .with_vertex_chunk_size(16)
        .with_edge_chunk_size(32)
        .with_inline_limit(ByteSize::bytes(inline))
}

/// Reads everything.
async fn ask(bucket: &std::sync::Arc<Bucket>) -> Result<()> {
    let store = bucket.open(options(1 << 16)).await?;
    let latest = store.latest();
    let persons = latest.vertices("Person", None).await?;
    persons.indexes_of(&ints(0..100)).await?;
    let found: Vec<i64> = (0..latest.index_count("Person")?.min(200) as i64).step_by(7).collect();
    let taken = persons.take(&found).await;
    let edges = latest.edges("KNOWS", None).await?;
    edges.expand(Direction::Out, &found).await?;
    edges.expand(Direction::In, &found).await?;
    edges.lookup(3, 4).await?;

    let hops = latest.start("Person", VertexIds::Keys(ints([3]))).out("KNOWS", None).out("KNOWS", None);
    hops.top(5, "age", true).select(["name", "age"]).collect().await?;
    latest.verify().await;
    store.log().await?;
    taken.map(drop)
}

/// Returns a corrupted record, mostly with a valid checksum: otherwise only the checksum would be tested.
fn signed(record: &[u8], random: &mut StdRng) -> Vec<u8> {
    let end = record.windows(9).rposition(|window| window == b",\"crc32\":").unwrap();
    let mut other = mangle(&record[..end], random);
    if random.random_bool(0.9) {
        let end = format!(",\"crc32\":\"{:08x}\"}}", crc32fast::hash(&other));
        other.extend_from_slice(end.as_bytes());
    }
    other
}

async fn survives(inline: u64, seeds: std::ops::Range<u64>) {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), options(inline)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    for round in 0..3_i64 {
        let keys = || round * 30..round * 30 + 30;
        let names = texts(keys().map(|key| format!("name {key}")));
        let persons = batch([("id", ints(keys())), ("name", names), ("age", ints(keys()))]);
        writer.add_vertices("Person", &persons).await.unwrap();
        let knows = batch([("src", ints(keys())), ("dst", ints(0..30)), ("weight", ints(keys()))]);
        writer.add_edges("KNOWS", &knows, Ends::Keys).await.unwrap();
        writer.commit().await.unwrap();

        if round == 1 {
            let force = stylobate_graph::store::CompactOptions::default().with_force(true);
            store.compact(&force).await.unwrap();
        }
    }

    writer.delete_edges("KNOWS", &batch([("src", ints([3])), ("dst", ints([3]))]), Ends::Keys).await.unwrap();
    writer.delete_vertices("Person", &VertexIds::Keys(ints([7]))).await.unwrap();
    let older = batch([("id", ints([8])), ("age", ints([99]))]);
    writer.update_vertices("Person", &older).await.unwrap();
    writer.commit().await.unwrap();
    ask(&bucket).await.ok();
    let files: Vec<_> = bucket.memory.list(None).try_collect::<Vec<_>>().await.unwrap();
    let newest = files
        .iter()
        .filter(|file| file.location.as_ref().contains("_log"))
        .max_by(|a, b| a.location.as_ref().cmp(b.location.as_ref()));

    let newest = newest.unwrap().location.clone();
    for seed in seeds {
        let mut random = StdRng::seed_from_u64(seed);
        let path = if random.random_bool(0.5) {
            newest.clone()
        } else {
            files[random.random_range(0..files.len())].location.clone()
        };
        let bytes = bucket.memory.get(&path).await.unwrap().bytes().await.unwrap();
        let other = if path.as_ref().contains("/_log/") {
            signed(&bytes, &mut random)
        } else {
            mangle(&bytes, &mut random)
        };

        bucket.memory.put(&path, other.into()).await.unwrap();
        let asked =
            tokio::time::timeout(Duration::from_secs(60), ask(&Bucket::over(bucket.memory.clone()))).await;
        drop(asked.unwrap_or_else(|_| panic!("{path} of seed {seed}: no end")));
        bucket.memory.put(&path, bytes.into()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_with_other_bytes_in_the_log_are_read_or_refused() {
    survives(1 << 16, 0..300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_with_other_bytes_in_files_are_read_or_refused() {
    survives(0, 1_000..1_300).await;
}
