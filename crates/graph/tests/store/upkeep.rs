//! Loads, compaction, garbage collection, export, verification and prewarming: none of them changes a version's
//! content.

use std::{sync::Arc, time::Duration};

use arrow::{
    array::{Array, AsArray, Int64Array, RecordBatch},
    datatypes::Int64Type,
};
use futures::{TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_graph::{
    Direction,
    graphar::{Graph, GraphOptions, GraphWriteOptions, Strictness},
    store::{
        BulkLoad, CollectOptions, CompactOptions, Ends, GraphStore, PrewarmOptions, Snapshot, StoreOptions,
        VertexIds,
    },
};
use stylobate_storage::{ByteSize, Destination};

use crate::{
    bucket::Bucket,
    histories::change,
    model::{Model, Person, batch, ints, schema, texts},
};

/// Returns options with chunks so small that a few vertices and edges have many.
fn small() -> StoreOptions {
    StoreOptions::default().with_vertex_chunk_size(5).with_edge_chunk_size(3)
}

/// Returns options with larger chunks, for more vertices and edges.
pub fn medium() -> StoreOptions {
    StoreOptions::default().with_vertex_chunk_size(16).with_edge_chunk_size(32)
}

fn all_garbage() -> CollectOptions {
    CollectOptions::default().with_older_than(Duration::ZERO).with_even_young(true)
}

pub async fn check(model: &Model, snapshot: &Snapshot) {
    model.check(snapshot).await;
    let verified = snapshot.verify().await;
    assert_eq!(verified.flaws, Vec::<String>::new(), "version {}", verified.version);
}

fn random_compaction(random: &mut StdRng) -> CompactOptions {
    let options = CompactOptions::default().with_share([0.0, 0.2, 1e9][random.random_range(0..3)]);
    options.with_force(random.random_bool(0.3))
}

async fn history(seed: u64, steps: u32, options: StoreOptions) {
    let mut random = StdRng::seed_from_u64(seed);
    let memory = Arc::new(InMemory::new());
    let mut store = Bucket::over(memory.clone()).create(schema(), options.clone()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut committed = Model::default();
    let mut model = Model::default();
    let mut held: Vec<(Snapshot, Model)> = Vec::new();
    for _ in 0..steps {
        match random.random_range(0..24) {
            0..4 => {
                writer.commit().await.unwrap();
                committed = model.clone();
                check(&committed, &store.latest()).await;
                if random.random_bool(0.3) {
                    held.push((store.latest(), committed.clone()));
                }
            }
            4..6 => {
                store.compact(&random_compaction(&mut random)).await.unwrap();
                check(&committed, &store.latest()).await;
            }
            6..9 => {
                // While the writer commits.
                let compaction = {
                    let store = store.clone();
                    let options = random_compaction(&mut random);
                    tokio::spawn(async move { store.compact(&options).await.unwrap() })
                };

                for _ in 0..random.random_range(1..6) {
                    change(&mut writer, &mut model, &mut random).await.unwrap();
                    writer.commit().await.unwrap();
                }
                compaction.await.unwrap();
                committed = model.clone();
                check(&committed, &store.refresh().await.unwrap()).await;
            }
            9 => {
                store.collect_garbage(&all_garbage()).await.unwrap();
                for (snapshot, model) in &held {
                    check(model, snapshot).await;
                }
                check(&committed, &store.latest()).await;
            }
            10 => {
                held.clear();
                store = Bucket::over(memory.clone()).open(options.clone()).await.unwrap();
                writer = store.writer().await.unwrap();
                model = committed.clone();
                check(&committed, &store.latest()).await;
            }
            _ => change(&mut writer, &mut model, &mut random).await.unwrap(),
        }
    }

    writer.commit().await.unwrap();
    drop(writer);
    store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
    held.clear();
    store.collect_garbage(&all_garbage()).await.unwrap();
    check(&model, &store.latest()).await;
    // Only one version is left, and its files.
    assert_eq!(store.log().await.unwrap().len(), 1, "seed {seed}");

    let again = Bucket::over(memory.clone()).open(options).await.unwrap();
    check(&model, &again.latest()).await;
    assert!(again.compact(&CompactOptions::default().with_force(true)).await.unwrap().is_empty());
    let before: Vec<_> = memory.list(None).try_collect::<Vec<_>>().await.unwrap();
    let gone = again.collect_garbage(&all_garbage()).await.unwrap();
    assert_eq!((gone.versions, gone.files), (Vec::new(), 0), "{before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_with_compaction_and_garbage_agree_with_a_plain_graph() {
    for seed in 0..3 {
        history(seed, 90, small()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_with_files_compaction_and_garbage_agree_with_a_plain_graph() {
    for seed in 10..12 {
        history(seed, 70, small().with_inline_limit(ByteSize::ZERO)).await;
    }
}

/// Merges of a few rows each, so that deltas and patches are merged into several.
#[tokio::test(flavor = "multi_thread")]
async fn random_histories_whose_merges_have_few_bytes_agree_with_a_plain_graph() {
    for (seed, inline) in [(20, 1 << 16), (21, 0)] {
        let options = small().with_memory(ByteSize::kib(2)).with_inline_limit(ByteSize::bytes(inline));
        history(seed, 70, options).await;
    }
}

const PERSONS: i64 = 200;
const POSTS: i64 = 60;

pub fn persons(keys: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let ages = Int64Array::from_iter_values(keys.clone().map(|key| key % 90));
    batch([("id", ints(keys)), ("age", Arc::new(ages))])
}

/// Returns a load of everything, and fills its model.
pub fn everything(model: &mut Model, random: &mut StdRng) -> BulkLoad<'static> {
    let keys: Vec<i64> = (0..PERSONS).map(|n| n * 7 % 1_009 + 1_000).collect();
    for key in &keys {
        let person = Person { index: model.next_person, name: None, age: Some(key % 90) };
        model.persons.insert(*key, person);
        model.next_person += 1;
    }

    let urls: Vec<String> = (0..POSTS).map(|n| format!("/loaded/{}", n * 31 % 997)).collect();
    for url in &urls {
        model.posts.insert(url.clone(), model.next_post);
        model.next_post += 1;
    }

    let mut knows = Vec::new();
    let mut likes = Vec::new();
    for at in 0..700 {
        let from = keys[random.random_range(0..keys.len())];
        let to = keys[random.random_range(0..9)];
        knows.push((from, to, at));
        model.knows.push((model.persons[&from].index, model.persons[&to].index, Some(at)));
        let url = &urls[random.random_range(0..urls.len())];
        likes.push((from, url.clone()));
        model.likes.push((model.persons[&from].index, model.posts[url]));
    }

    let knows = knows.chunks(100).map(|edges| {
        let (from, to): (Vec<i64>, Vec<i64>) = edges.iter().map(|edge| (edge.0, edge.1)).unzip();
        Ok(batch([("dst", ints(to)), ("src", ints(from)), ("weight", ints(edges.iter().map(|edge| edge.2)))]))
    });
    let likes = batch([
        ("src", ints(likes.iter().map(|edge| edge.0))),
        ("dst", texts(likes.iter().map(|edge| edge.1.clone()))),
    ]);

    let people: Vec<_> = keys.chunks(64).map(|keys| Ok(persons(keys.iter().copied()))).collect();
    BulkLoad::new()
        .with_vertices("Person", stream::iter(people))
        .with_vertices("Post", stream::iter([Ok(batch([("url", texts(urls))]))]))
        .with_edges("KNOWS", Ends::Keys, stream::iter(knows.collect::<Vec<_>>()))
        .with_edges("LIKES", Ends::Keys, stream::iter([Ok(likes)]))
}

pub async fn loaded(bucket: &Arc<Bucket>, options: StoreOptions) -> (GraphStore, Model) {
    let store = bucket.create(schema(), options).await.unwrap();
    let mut model = Model::default();
    let load = everything(&mut model, &mut StdRng::seed_from_u64(1));
    let done = store.writer().await.unwrap().bulk_load(load).await.unwrap();
    assert_eq!((done.vertices, done.edges, done.version), (260, 1_400, store.latest().version()));
    (store, model)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_loaded_is_there_and_can_be_changed_and_compacted() {
    for options in [medium(), StoreOptions::default(), medium().with_memory(ByteSize::kib(1))] {
        let bucket = Bucket::new();
        let (store, mut model) = loaded(&bucket, options.clone()).await;
        check(&model, &store.latest()).await;

        let mut writer = store.writer().await.unwrap();
        let mut random = StdRng::seed_from_u64(4);
        for _ in 0..12 {
            change(&mut writer, &mut model, &mut random).await.unwrap();
            writer.commit().await.unwrap();
        }

        check(&model, &store.latest()).await;
        // A second load on top of that, by index.
        let keys: Vec<i64> = (5_000..5_020).collect();
        let first = model.next_person;
        for key in &keys {
            model.persons.insert(*key, Person { index: model.next_person, name: None, age: Some(key % 90) });
            model.next_person += 1;
        }

        let known = model.persons[&1_000].index;
        model.knows.push((known, first, None));
        let edge = batch([("src", ints([known])), ("dst", ints([first]))]);
        let load = BulkLoad::new()
            .with_vertices("Person", stream::iter([Ok(persons(keys.into_iter()))]))
            .with_edges("KNOWS", Ends::Indexes, stream::iter([Ok(edge)]));
        writer.bulk_load(load).await.unwrap();
        check(&model, &store.latest()).await;

        let compacted = store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
        assert!(compacted.iter().all(|done| done.rewritten), "{compacted:?}");
        check(&model, &store.latest()).await;
        store.collect_garbage(&all_garbage()).await.unwrap();
        check(&model, &bucket.open(options).await.unwrap().latest()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_gone_or_broken_is_found_and_named() {
    let bucket = Bucket::new();
    let (store, _) = loaded(&bucket, medium()).await;
    assert!(store.latest().verify().await.flaws.is_empty());
    let files: Vec<_> = bucket.memory.list(None).try_collect::<Vec<_>>().await.unwrap();
    let of = |part: &str| {
        files.iter().find(|file| file.location.as_ref().contains(part)).unwrap().location.clone()
    };

    for part in [
        "keys/chunk1",
        "vertex/Person/id/chunk3",
        "adj_list/part2/chunk0",
        "offset/chunk4",
        "weight/part1/chunk0",
    ] {
        let path = of(part);
        let bytes = bucket.memory.get(&path).await.unwrap().bytes().await.unwrap();
        bucket.memory.delete(&path).await.unwrap();
        let flaws = bucket.open(medium()).await.unwrap().latest().verify().await.flaws;
        assert!(flaws.iter().any(|flaw| flaw.contains(path.as_ref())), "{path}: {flaws:?}");
        let mut broken = bytes.to_vec();
        broken.truncate(bytes.len() / 2);
        bucket.memory.put(&path, broken.into()).await.unwrap();

        let flaws = bucket.open(medium()).await.unwrap().latest().verify().await.flaws;
        assert!(flaws.iter().any(|flaw| flaw.contains(path.as_ref())), "{path}: {flaws:?}");
        bucket.memory.put(&path, bytes.into()).await.unwrap();
    }
    assert!(bucket.open(medium()).await.unwrap().latest().verify().await.flaws.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_memory_does_not_hide_that_a_file_is_gone() {
    let bucket = Bucket::new();
    let (store, _) = loaded(&bucket, medium().with_inline_limit(ByteSize::ZERO)).await;
    let mut writer = store.writer().await.unwrap();
    let edge = batch([("src", ints([1_000])), ("dst", ints([5_000]))]);
    writer.add_vertices("Person", &persons(5_000..5_010)).await.unwrap();
    writer.add_edges("KNOWS", &edge, Ends::Keys).await.unwrap();
    writer.commit().await.unwrap();
    let snapshot = store.latest();
    assert_eq!(snapshot.verify().await.flaws, [""; 0]);

    let files: Vec<_> = bucket.memory.list(None).try_collect::<Vec<_>>().await.unwrap();
    let files = files.iter().map(|file| &file.location);
    let deltas: Vec<_> = files.clone().filter(|path| path.as_ref().contains("delta/")).collect();
    assert_eq!(deltas.len(), 2);

    let record = files.filter(|path| path.as_ref().contains("_log/")).max();
    for path in deltas.into_iter().chain(record) {
        let bytes = bucket.memory.get(path).await.unwrap().bytes().await.unwrap();
        bucket.memory.delete(path).await.unwrap();
        let flaws = snapshot.verify().await.flaws;
        assert!(flaws.iter().any(|flaw| flaw.contains(path.as_ref())), "{path}: {flaws:?}");
        bucket.memory.put(path, bytes.into()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_version_is_a_graph_without_holes() {
    let bucket = Bucket::new();
    let (store, mut model) = loaded(&bucket, medium()).await;
    let mut writer = store.writer().await.unwrap();
    let gone: Vec<i64> =
        model.persons.iter().filter(|(_, person)| person.index % 3 == 0).map(|(key, _)| *key).collect();
    writer.delete_vertices("Person", &VertexIds::Keys(ints(gone.clone()))).await.unwrap();
    gone.iter().for_each(|key| model.delete_person(*key));
    writer.commit().await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let place = Destination::File(folder.path().join("social"));
    let options = GraphWriteOptions::default().with_vertex_chunk_size(7).with_edge_chunk_size(11);
    let written = store.latest().export_graphar(place, "social", options).await.unwrap();
    assert_eq!(written.edges as usize, model.knows.len() + model.likes.len());
    let file = folder.path().join("social/social.graph.yml").to_str().unwrap().to_owned();
    let strict = GraphOptions::default().with_strictness(Strictness::Strict);
    let graph = Graph::open(&Bucket::cache().await, file, strict).await.unwrap();
    let persons: Vec<RecordBatch> =
        graph.vertices("Person").unwrap().select(["id"]).unwrap().stream().try_collect().await.unwrap();
    let keys: Vec<i64> = persons
        .iter()
        .flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec())
        .collect();

    let mut wanted: Vec<(i64, i64)> =
        model.persons.iter().map(|(key, person)| (person.index, *key)).collect();
    wanted.sort_unstable();
    assert_eq!(keys, wanted.iter().map(|(_, key)| *key).collect::<Vec<_>>());
    let dense = |index: i64| wanted.iter().position(|(old, _)| *old == index).unwrap() as i64;
    let mut edges: Vec<(i64, i64, Option<i64>)> =
        model.knows.iter().map(|(from, to, weight)| (dense(*from), dense(*to), *weight)).collect();
    edges.sort_unstable();

    let read: Vec<RecordBatch> =
        graph.edges("Person", "KNOWS", "Person").unwrap().stream().try_collect().await.unwrap();
    let mut found: Vec<(i64, i64, Option<i64>)> = Vec::new();
    for batch in &read {
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>();
        found.extend((0..batch.num_rows()).map(|row| {
            let weight = column(2).is_valid(row).then(|| column(2).value(row));
            (column(0).value(row), column(1).value(row), weight)
        }));
    }

    found.sort_unstable();
    assert_eq!(found, edges);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_prewarmed_is_asked_for_no_more() {
    let bucket = Bucket::new();
    let (store, model) = loaded(&bucket, medium().with_inline_limit(ByteSize::ZERO)).await;
    let mut writer = store.writer().await.unwrap();
    let edge = batch([("src", ints([1_000])), ("dst", ints([5_000])), ("weight", ints([1]))]);
    writer.add_vertices("Person", &persons(5_000..5_010)).await.unwrap();
    writer.add_edges("KNOWS", &edge, Ends::Keys).await.unwrap();
    writer.commit().await.unwrap();
    let store = bucket.open(medium()).await.unwrap();
    let options = PrewarmOptions::default().with_columns("KNOWS", ["weight"]).with_type("Person");
    let warmed = store.prewarm_in_background(&options).unwrap().await.unwrap().unwrap();
    assert!(warmed.bytes > 700 * 16 && !warmed.at_limit, "{warmed:?}");

    let before = bucket.total();
    let view = store.latest().edges("KNOWS", Some(&["weight"])).await.unwrap();
    let everyone: Vec<i64> = (0..model.next_person + 10).collect();
    assert_eq!(view.expand(Direction::In, &everyone).await.unwrap().num_rows(), 701);
    let persons = store.latest().vertices("Person", None).await.unwrap();
    assert_eq!(persons.take(&everyone).await.unwrap().num_rows(), 210);
    assert_eq!(persons.indexes_of(&ints([1_000, 5_003])).await.unwrap().null_count(), 0);
    assert_eq!(bucket.total(), before);

    let little = bucket.open(medium()).await.unwrap();
    let warmed = little.latest().prewarm(&options.with_limit(ByteSize::bytes(1))).await.unwrap();
    assert!(warmed.at_limit);
    little.latest().prewarm(&PrewarmOptions::default().with_type("Nobody")).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn young_versions_and_files_are_no_garbage() {
    let bucket = Bucket::new();
    let (store, model) = loaded(&bucket, medium()).await;
    store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
    let kept =
        store.collect_garbage(&CollectOptions::default().with_older_than(Duration::ZERO)).await.unwrap();
    assert_eq!((kept.versions.len(), kept.files), (0, 0));
    let told = store.collect_garbage(&all_garbage().with_dry_run(true)).await.unwrap();
    assert!(!told.versions.is_empty());

    let all = store.log().await.unwrap().len();
    assert_eq!(store.collect_garbage(&all_garbage()).await.unwrap(), told);
    assert_eq!(store.log().await.unwrap().len(), all - told.versions.len());
    check(&model, &store.latest()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_a_moment_ago_in_a_folder_is_cached_too() {
    let folder = tempfile::tempdir().unwrap();
    let options = medium().with_inline_limit(ByteSize::ZERO);
    let cache = Bucket::cache().await;
    let store =
        GraphStore::create(&cache, folder.path().to_str().unwrap(), schema(), options.clone()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut model = Model::default();
    let mut random = StdRng::seed_from_u64(3);
    writer.bulk_load(everything(&mut model, &mut random)).await.unwrap();

    for _ in 0..20 {
        change(&mut writer, &mut model, &mut random).await.unwrap();
        writer.commit().await.unwrap();
    }
    let cache = Bucket::cache().await;
    let again = GraphStore::open(&cache, folder.path().to_str().unwrap(), options).await.unwrap();
    check(&model, &again.latest()).await;

    let view = again.latest().edges("KNOWS", Some(&["weight"])).await.unwrap();
    for person in model.persons.values() {
        assert!(view.of_cached(Direction::Out, person.index).is_some(), "edges of {}", person.index);
    }
}
