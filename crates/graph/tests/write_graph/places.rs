//! Destinations of graphs: their contents before and after a write, whatever its outcome.

use std::{fs, path::Path, sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory};
use parking_lot::Mutex;
use stylobate_graph::{
    Error, Result,
    graphar::{GraphWriteOptions, GraphWriter, WriteProgress},
};
use stylobate_storage::{Destination, Durability, Error as StorageError, Origin, Overwrite};

use super::{
    arriving, eventually::eventually, folder, knows, options, persons, read_back::paths, with_persons,
};

fn bucket() -> (Arc<InMemory>, Destination) {
    let store: Arc<InMemory> = Arc::default();
    let origin = Origin::new("memory", store.clone());
    (store, Destination::Object { origin, path: "lake/social".into() })
}

async fn objects(store: &InMemory) -> Vec<String> {
    let mut found: Vec<String> =
        store.list(None).map_ok(|object| object.location.to_string()).try_collect().await.unwrap();
    found.sort();
    found
}

/// Returns options with many small chunks.
fn small_chunks() -> GraphWriteOptions {
    options().with_vertex_chunk_size(2).with_edge_chunk_size(2)
}

/// Writes a graph of some persons who know each other.
async fn write(destination: Destination, options: GraphWriteOptions, persons: i64) -> Result<GraphWriter> {
    let mut writer = GraphWriter::create(destination, "social", options).await?;
    let (vertices, rows) = super::persons(&(0..persons).collect::<Vec<_>>());
    writer.vertices(vertices, arriving(rows)).await?;
    let (edges, rows) = knows(&(0..persons).map(|person| (person, 0)).collect::<Vec<_>>());
    writer.edges(edges, arriving(rows)).await?;
    Ok(writer)
}

/// Waits for background tasks and threads to remove dropped files.
async fn removed(is_removed: impl AsyncFnMut() -> bool) {
    eventually("files to be removed", is_removed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_all_files_or_none() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("graph");
    let visible = |path: &Path| paths(path).into_iter().filter(|name| !name.starts_with('.')).count();
    for durability in [Durability::None, Durability::Fsync] {
        let options = small_chunks().with_durability(durability);
        let writer = write(folder(&place), options, 9).await.unwrap();
        assert_eq!(visible(&path), 0, "before it is finished there is nothing");
        let written = writer.finish().await.unwrap();
        assert_eq!(written.files as usize, visible(&path));
        let bytes: u64 = paths(&path).iter().map(|name| fs::metadata(path.join(name)).unwrap().len()).sum();
        assert_eq!(written.bytes, bytes);
        assert_eq!((written.file.as_str(), written.vertices, written.edges), ("social.graph.yml", 9, 9));
        assert!(paths(&path).iter().all(|name| !name.starts_with('.')));
        fs::remove_dir_all(&path).unwrap();
    }

    drop(write(folder(&place), small_chunks(), 9).await.unwrap());
    removed(async || paths(place.path()).is_empty() && !path.exists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_has_the_graph_only_when_it_is_finished() {
    let (store, destination) = bucket();
    let writer = write(destination.clone(), small_chunks(), 9).await.unwrap();
    assert!(objects(&store).await.iter().all(|name| !name.ends_with(".yml")));
    let written = writer.finish().await.unwrap();
    let found = objects(&store).await;
    assert_eq!(written.files as usize, found.len());
    assert!(found.contains(&"lake/social/social.graph.yml".to_owned()));
    assert!(found.contains(
        &"lake/social/edge/person_knows_person/ordered_by_source/adj_list/part4/chunk0".to_owned()
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_is_empty_again_after_an_error_or_a_drop() {
    let (store, destination) = bucket();
    drop(write(destination.clone(), small_chunks(), 9).await.unwrap());
    removed(async || objects(&store).await.is_empty()).await;
    let mut writer = write(destination.clone(), small_chunks(), 9).await.unwrap();
    assert!(!objects(&store).await.is_empty());
    let (again, rows) = persons(&[1]);
    writer.vertices(again, arriving(rows)).await.unwrap_err();
    assert!(objects(&store).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_dropped_half_way_leaves_nothing_and_goes_no_further() {
    let place = tempfile::tempdir().unwrap();
    let (store, object) = bucket();
    for destination in [folder(&place), object] {
        let mut writer = GraphWriter::create(destination, "social", small_chunks()).await.unwrap();
        let (vertices, rows) = persons(&(0..99).collect::<Vec<_>>());
        let endless = arriving(rows).chain(futures::stream::pending());
        let given_up =
            tokio::time::timeout(Duration::from_millis(200), writer.vertices(vertices, endless)).await;
        assert!(given_up.is_err());
        let (vertices, rows) = persons(&[1]);
        assert!(writer.vertices(vertices, arriving(rows)).await.is_err());
        assert!(writer.finish().await.is_err());
        removed(async || paths(place.path()).is_empty() && objects(&store).await.is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_not_empty_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (store, object) = bucket();
    fs::create_dir_all(place.path().join("graph/x")).unwrap();
    fs::write(place.path().join("graph/x/y"), "another's").unwrap();
    store.put(&"lake/social/x".into(), "another's".into()).await.unwrap();
    for destination in [folder(&place), object] {
        let refused = GraphWriter::create(destination, "social", options()).await.unwrap_err();
        assert!(matches!(refused, Error::Storage(StorageError::Exists { .. })), "{refused}");
    }

    assert_eq!(paths(place.path()), ["graph/x/y"]);
    assert_eq!(objects(&store).await, ["lake/social/x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_meanwhile_is_another_s() {
    let place = tempfile::tempdir().unwrap();
    let (store, object) = bucket();
    let first = write(folder(&place), small_chunks(), 3).await.unwrap();
    write(folder(&place), small_chunks(), 5).await.unwrap().finish().await.unwrap();
    // Without the staged files of the first.
    let visible = |name: &String| !name.contains("/.");
    let before: Vec<String> = paths(place.path()).into_iter().filter(visible).collect();
    assert!(first.finish().await.is_err());
    removed(async || paths(place.path()) == before).await;

    // In a store, the second writer of a chunk is refused, and removes nothing of the first.
    let mut late = GraphWriter::create(object.clone(), "social", small_chunks()).await.unwrap();
    write(object, small_chunks(), 5).await.unwrap().finish().await.unwrap();
    let before = objects(&store).await;
    let (vertices, rows) = persons(&[1, 2, 3]);
    late.vertices(vertices, arriving(rows)).await.unwrap_err();
    assert_eq!(objects(&store).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_graph_is_replaced_with_all_its_files_and_no_others() {
    let place = tempfile::tempdir().unwrap();
    let (store, object) = bucket();
    let replace = || small_chunks().with_overwrite(Overwrite::Replace);
    fs::create_dir_all(place.path().join("graph/raw")).unwrap();
    fs::write(place.path().join("graph/raw/persons.csv"), "x").unwrap();
    store.put(&"lake/social/raw/persons.csv".into(), "x".into()).await.unwrap();

    for destination in [folder(&place), object] {
        for persons in [9, 3] {
            let written =
                write(destination.clone(), replace(), persons).await.unwrap().finish().await.unwrap();
            let found = match destination {
                Destination::File(_) => paths(&place.path().join("graph")),
                Destination::Object { .. } => objects(&store).await,
            };
            assert_eq!(written.files as usize + 1, found.len(), "{found:?}");
            assert!(found.iter().any(|name| name.ends_with("raw/persons.csv")));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_goes_up_to_what_was_written() {
    let place = tempfile::tempdir().unwrap();
    let heard: Arc<Mutex<Vec<WriteProgress>>> = Arc::default();
    let told = heard.clone();
    let options = small_chunks().with_progress(move |progress| told.lock().push(progress));
    let written = write(folder(&place), options, 9).await.unwrap().finish().await.unwrap();
    let heard = heard.lock();
    assert!(heard.is_sorted_by_key(|progress| (progress.rows, progress.files)));
    let last = heard.last().unwrap();

    // The description files come last.
    assert_eq!((last.rows, last.files + 3), (18, written.files));
    assert!(last.bytes < written.bytes && last.bytes > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_in_the_temporary_folder() {
    let place = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let tiny =
        options().with_memory(stylobate_storage::ByteSize::kib(2)).with_temporary_folder(temporary.path());
    let mut writer = with_persons(folder(&place), tiny, &[0, 1, 2]).await;
    let (edges, rows) = knows(&(0..3000).map(|edge| (edge % 3, edge % 2)).collect::<Vec<_>>());
    let batches: Vec<RecordBatch> = super::cut(&rows[0], 10);
    writer.edges(edges, arriving(batches)).await.unwrap();
    assert!(paths(temporary.path()).is_empty());
    assert_eq!(writer.finish().await.unwrap().edges, 3000);
}
