//! A store whose path has characters that URLs or object stores encode: its log and its files must share one path.
//!
//! The log used to be at `~graph` and the files of the same store at `%7Egraph`, so that no commit could be read.

use std::time::Duration;

use futures::TryStreamExt;
use object_store::ObjectStore;
use rand::{SeedableRng, rngs::StdRng};
use stylobate_columnar::{Cache, Source};
use stylobate_graph::{
    PropertyType,
    graphar::GraphWriteOptions,
    store::{
        CollectOptions, CompactOptions, EdgeType, Ends, GraphStore, StoreOptions, StoreSchema, VertexType,
    },
};
use stylobate_storage::{ByteSize, Destination};

use crate::{
    bucket::Bucket,
    histories::change,
    model::{Model, batch, ints, schema, texts},
    upkeep::{check, everything},
};

const NAMES: [&str; 7] = ["~graph", "%41", "%7Egraph", "a b", "ü", "a~b/c%20d", "x[1]"];

/// Returns options without inline data, with few files.
fn options() -> StoreOptions {
    let few = StoreOptions::default().with_vertex_chunk_size(128).with_edge_chunk_size(512);
    few.with_inline_limit(ByteSize::ZERO)
}

/// Loads, commits, compacts and collects garbage; then opens the store again with another cache.
async fn lives(cache: &Cache, source: Source, again: (Cache, Source)) {
    let store = GraphStore::create(cache, source, schema(), options()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut model = Model::default();
    let mut random = StdRng::seed_from_u64(5);
    writer.bulk_load(everything(&mut model, &mut random)).await.unwrap();
    for _ in 0..6 {
        change(&mut writer, &mut model, &mut random).await.unwrap();
        writer.commit().await.unwrap();
    }

    check(&model, &store.latest()).await;

    drop(writer);
    store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
    let garbage = CollectOptions::default().with_older_than(Duration::ZERO).with_even_young(true);
    let collected = store.collect_garbage(&garbage).await.unwrap();
    assert!(!collected.versions.is_empty() && collected.files > 0, "{collected:?}");
    check(&model, &store.latest()).await;

    let (cache, source) = again;
    let again = GraphStore::open(&cache, source, options()).await.unwrap();
    check(&model, &again.latest()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_has_the_log_and_the_files_of_a_store_under_one_path() {
    for name in NAMES {
        let bucket = Bucket::new();
        let path = format!("lake/{name}");
        let (cache, source) = bucket.source_at(&path).await;
        lives(&cache, source, bucket.source_at(&path).await).await;

        let objects: Vec<_> = bucket.memory.list(None).try_collect().await.unwrap();
        for object in &objects {
            assert!(object.location.as_ref().starts_with(&format!("{path}/")), "{}", object.location);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_the_log_and_the_files_of_a_store_under_one_path() {
    for name in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(name);
        std::fs::create_dir_all(&place).unwrap();
        let source = || Source::from(place.to_str().unwrap());
        lives(&Bucket::cache().await, source(), (Bucket::cache().await, source())).await;

        let above = place.parent().unwrap();
        let others = std::fs::read_dir(above).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(others.collect::<Vec<_>>(), std::slice::from_ref(&place));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_the_same_by_its_path_and_by_its_url() {
    for name in ["~graph", "%41", "a b", "ü"] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(name);
        std::fs::create_dir_all(&place).unwrap();
        let encoded = match name {
            "~graph" => "%7Egraph",
            "%41" => "%2541",
            "a b" => "a%20b",
            _ => "%C3%BC",
        };

        let url = format!("file://{}/{encoded}", folder.path().display());
        let by_path = Source::from(place.to_str().unwrap());
        lives(&Bucket::cache().await, Source::from(url), (Bucket::cache().await, by_path)).await;
    }
}

/// The folder of a base had a name that no file system takes, and the folder of a property that of a file beside it.
#[tokio::test(flavor = "multi_thread")]
async fn the_longest_names_and_names_of_files_of_a_base_are_compacted_and_exported_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let vertex = "x".repeat(100);
    let edge = "y".repeat(43);
    let vertices = VertexType::new(&vertex, "id", PropertyType::Int64)
        .with_property("vertex_count", PropertyType::String)
        .with_property("labels", PropertyType::String);
    let edges = EdgeType::new(&vertex, &edge, &vertex).with_property("edge_count0", PropertyType::Int64);
    let schema = StoreSchema::new().with_vertices(vertices).with_edges(edges);
    let place = folder.path().join("store");
    let cache = Bucket::cache().await;
    let store = GraphStore::create(&cache, place.to_str().unwrap(), schema, options()).await.unwrap();

    let mut writer = store.writer().await.unwrap();
    let persons = batch([("id", ints([1, 2])), ("vertex_count", texts(["a", "b"]))]);
    writer.add_vertices(&vertex, &persons).await.unwrap();
    let knows = batch([("src", ints([1])), ("dst", ints([2])), ("edge_count0", ints([7]))]);
    writer.add_edges(&edge, &knows, Ends::Keys).await.unwrap();
    writer.commit().await.unwrap();

    let compacted = store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
    assert!(compacted.len() == 2 && compacted.iter().all(|done| done.rewritten), "{compacted:?}");
    let latest = store.latest();
    assert_eq!(latest.verify().await.flaws, Vec::<String>::new());
    let view = latest.vertices(&vertex, Some(&["vertex_count"])).await.unwrap();
    assert_eq!(view.take(&[0, 1]).await.unwrap().column(1), &texts(["a", "b"]));

    let exported = Destination::File(folder.path().join("exported"));
    let exported = latest.export_graphar(exported, "social", GraphWriteOptions::default()).await.unwrap();
    assert_eq!((exported.vertices, exported.edges), (2, 1));
}
