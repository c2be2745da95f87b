//! Merges of wide properties are bounded by bytes, not only by rows: they once took as much memory as a quarter of a
//! million rows have.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::array::AsArray;
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore, path::Path};
use rand::{
    SeedableRng,
    distr::{Alphanumeric, SampleString},
    rngs::StdRng,
};
use stylobate_graph::{
    Direction, PropertyType,
    store::{
        CollectOptions, CompactOptions, EdgeType, Ends, GraphStore, Snapshot, StoreOptions, StoreSchema,
        StoreWriter, VertexType,
    },
};
use stylobate_storage::ByteSize;

use crate::{
    bucket::Bucket,
    model::{batch, ints, texts},
};

/// Persons of the base.
const PERSONS: i64 = 24;
/// Bytes of a text.
const TEXT: usize = 100 << 10;
/// Bytes of a merge: those of ten texts, but not of eleven.
const MERGE: u64 = 1 << 20;

/// Texts by key, and notes of the edges from each key.
#[derive(Default)]
struct Texts {
    persons: BTreeMap<i64, String>,
    notes: BTreeMap<i64, String>,
}

fn schema() -> StoreSchema {
    let person =
        VertexType::new("Person", "id", PropertyType::Int64).with_property("text", PropertyType::String);
    let knows = EdgeType::new("Person", "KNOWS", "Person").with_property("note", PropertyType::String);
    StoreSchema::new().with_vertices(person).with_edges(knows)
}

/// Returns a text that hardly compresses.
fn text(random: &mut StdRng) -> String {
    Alphanumeric.sample_string(random, TEXT)
}

/// Creates a store with a base of each type.
async fn store_with_bases(bucket: &Arc<Bucket>, expected: &mut Texts) -> (GraphStore, StoreWriter) {
    let options = StoreOptions::default().with_memory(ByteSize::bytes(4 * MERGE));
    let store = bucket.create(schema(), options).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    expected.persons = (0..PERSONS).map(|key| (key, format!("text {key}"))).collect();
    expected.notes.insert(1, "note".to_owned());
    let persons = batch([("id", ints(0..PERSONS)), ("text", texts(expected.persons.values()))]);
    writer.add_vertices("Person", &persons).await.unwrap();
    let knows = batch([("src", ints([1])), ("dst", ints([0])), ("note", texts(["note"]))]);
    writer.add_edges("KNOWS", &knows, Ends::Keys).await.unwrap();
    writer.commit().await.unwrap();

    let compacted = store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
    assert_eq!(compacted.len(), 2);
    (store, writer)
}

/// Commits a new person, an edge to the one before it, and a new text of a person of the base.
async fn commit(writer: &mut StoreWriter, key: i64, expected: &mut Texts, random: &mut StdRng) {
    let new = text(random);
    let note = text(random);
    let changed = text(random);
    let person = batch([("id", ints([key])), ("text", texts([&new]))]);
    writer.add_vertices("Person", &person).await.unwrap();
    let knows = batch([("src", ints([key])), ("dst", ints([key - 1])), ("note", texts([&note]))]);
    writer.add_edges("KNOWS", &knows, Ends::Keys).await.unwrap();
    let update = batch([("id", ints([key % PERSONS])), ("text", texts([&changed]))]);
    writer.update_vertices("Person", &update).await.unwrap();
    writer.commit().await.unwrap();

    expected.persons.insert(key, new);
    expected.persons.insert(key % PERSONS, changed);
    expected.notes.insert(key, note);
}

/// Checks all texts. Indexes are keys.
async fn check(snapshot: &Snapshot, expected: &Texts) {
    let keys: Vec<i64> = expected.persons.keys().copied().collect();
    let persons = snapshot.vertices("Person", Some(&["text"])).await.unwrap().take(&keys).await.unwrap();
    let found = persons.column(1).as_string::<i32>();
    assert!(found.iter().eq(expected.persons.values().map(|text| Some(text.as_str()))));

    let edges = snapshot.edges("KNOWS", None).await.unwrap();
    for direction in [Direction::Out, Direction::In] {
        // Each edge begins one above its end.
        let expanded = edges.expand(direction, &keys).await.unwrap();
        let found = expanded.column(2).as_string::<i32>();
        assert!(found.iter().eq(expected.notes.values().map(|note| Some(note.as_str()))), "{direction:?}");
    }
    assert_eq!(snapshot.verify().await.flaws, Vec::<String>::new());
}

async fn deltas(bucket: &Bucket) -> Vec<ObjectMeta> {
    bucket.memory.list(Some(&Path::from("lake/graph/delta"))).try_collect().await.unwrap()
}

fn is_of_a_merge(delta: &ObjectMeta) -> bool {
    delta.size <= MERGE + (64 << 10)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_merges_texts_into_several_deltas_and_patches() {
    let bucket = Bucket::new();
    let mut random = StdRng::seed_from_u64(1);
    let mut expected = Texts::default();
    let (store, mut writer) = store_with_bases(&bucket, &mut expected).await;
    for key in PERSONS..2 * PERSONS {
        commit(&mut writer, key, &mut expected, &mut random).await;
    }

    // However many rows changed, bases are not rewritten.
    let merge = CompactOptions::default().with_share(1e9);
    let merged = store.compact(&merge).await.unwrap();
    let rows: Vec<(bool, u64)> = merged.iter().map(|done| (done.rewritten, done.rows)).collect();
    assert_eq!(rows, [(false, 48), (false, 24)]);
    check(&store.latest(), &expected).await;

    drop(writer);
    // Ages are compared in milliseconds.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let all = CollectOptions::default().with_older_than(Duration::ZERO).with_even_young(true);
    store.collect_garbage(&all).await.unwrap();
    let left = deltas(&bucket).await;
    assert_eq!(left.len(), 9, "24 texts of vertices, patches and edges, ten at a time: {left:?}");
    assert!(left.iter().all(is_of_a_merge), "{left:?}");

    let merged = store.compact(&merge).await.unwrap();
    assert!(merged.is_empty(), "full ones are left alone: {merged:?}");
    check(&store.latest(), &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_merges_a_bounded_number_of_texts() {
    let bucket = Bucket::new();
    let mut random = StdRng::seed_from_u64(2);
    let mut expected = Texts::default();
    let (store, mut writer) = store_with_bases(&bucket, &mut expected).await;
    for key in PERSONS..PERSONS + 70 {
        commit(&mut writer, key, &mut expected, &mut random).await;
    }

    let log = store.log().await.unwrap();
    let compactions = log.iter().filter(|entry| entry.operation == "compact").count();
    assert!(compactions > 2, "more than those of the bases: {compactions}");
    let deltas = deltas(&bucket).await;
    assert!(deltas.iter().all(is_of_a_merge), "{deltas:?}");
    check(&store.latest(), &expected).await;
}
