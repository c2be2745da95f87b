//! Outages of the bucket at each request of upkeep and reads; pending changes, concurrent readers, garbage, races.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{TryStreamExt, stream};
use object_store::{ObjectStore, memory::InMemory, path::Path};
use rand::{SeedableRng, rngs::StdRng};
use stylobate_columnar::Cache;
use stylobate_graph::{
    Direction, Error, PropertyType, Result,
    store::{
        BulkLoad, CollectOptions, CompactOptions, Ends, GraphStore, PrewarmOptions, SchemaChange,
        StoreOptions, StoreProperty, VertexIds,
    },
};
use stylobate_storage::{ByteSize, CacheOptions};

use crate::{
    bucket::Bucket,
    histories::change,
    model::{Model, Person, batch, ints, schema, texts},
    requests::{DEGREE, load},
};

fn small(inline: u64) -> StoreOptions {
    StoreOptions::default()
        .with_vertex_chunk_size(16)
        .with_edge_chunk_size(32)
        .with_inline_limit(ByteSize::bytes(inline))
}

/// Creates a store with a base, deltas, patches and deletions.
async fn store_with_history(options: &StoreOptions) -> (Arc<InMemory>, Model) {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), options.clone()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut model = Model::default();
    let mut random = StdRng::seed_from_u64(5);
    for commit in 0..4 {
        for _ in 0..10 {
            change(&mut writer, &mut model, &mut random).await.unwrap();
        }
        writer.commit().await.unwrap();
        if commit == 1 {
            store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
        }
    }

    model.check(&store.latest()).await;
    (bucket.memory.clone(), model)
}

/// Lets the bucket answer again once no refused request is in progress, since others would share its error.
async fn heal_when_idle(bucket: &Bucket) {
    tokio::time::sleep(Duration::from_millis(10)).await;
    bucket.heal();
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Upkeep {
    Compact,
    Collect,
    Load,
    Alter,
}

impl Upkeep {
    async fn run(self, store: &GraphStore) -> Result<()> {
        match self {
            Self::Compact => {
                store.compact(&CompactOptions::default().with_force(true)).await?;
            }
            Self::Collect => {
                let all = CollectOptions::default().with_older_than(Duration::ZERO).with_even_young(true);
                store.collect_garbage(&all).await?;
            }
            Self::Load => {
                let people = batch([("id", ints([900, 901])), ("age", ints([1, 2]))]);
                let knows = batch([("src", ints([900, 901])), ("dst", ints([901, 901]))]);
                let load = BulkLoad::new().with_vertices("Person", stream::iter([Ok(people)])).with_edges(
                    "KNOWS",
                    Ends::Keys,
                    stream::iter([Ok(knows)]),
                );
                store.writer().await?.bulk_load(load).await?;
            }
            Self::Alter => {
                let height = StoreProperty::new("height", PropertyType::Double);
                let of = "Person".to_owned();
                let change = SchemaChange::AddVertexProperty { vertex_type: of, property: height };
                let mut writer = store.writer().await?;
                writer.alter([change])?;
                writer.commit().await?;
            }
        }

        Ok(())
    }

    /// Returns the model after the operation.
    fn applied_to(self, model: &Model) -> Model {
        let mut after = model.clone();
        if self == Self::Load {
            let first = after.next_person;
            for (key, index, age) in [(900, first, 1), (901, first + 1, 2)] {
                after.persons.insert(key, Person { index, name: None, age: Some(age) });
            }
            after.next_person += 2;
            after.knows.extend([(first, first + 1, None), (first + 1, first + 1, None)]);
        }
        after
    }
}

/// Stops the bucket at each request in turn. Open and later readers must see the state before or after the operation,
/// and a retry must complete it.
async fn at_every_request(upkeep: Upkeep, inline: u64, carries_out: bool) {
    let options = small(inline);
    let (prepared, model) = store_with_history(&options).await;
    let after = upkeep.applied_to(&model);
    for k in 0.. {
        let memory = Arc::new(prepared.fork());
        let bucket = Bucket::over(memory.clone());
        let store = bucket.open(options.clone()).await.unwrap();
        let before = bucket.total();
        bucket.stop_after(k, carries_out);
        let done = upkeep.run(&store).await;
        let answered = bucket.total() - before <= k as u64;
        heal_when_idle(&bucket).await;
        if let Err(error) = &done {
            let said = error.to_string();
            assert!(said.contains("lake/graph") || said.contains("bucket"), "{upkeep:?} at {k}: {said}");
        }

        let is_done =
            |store: &GraphStore| store.latest().vertex_count("Person").unwrap() == after.persons.len() as u64;
        let expected = |store: &GraphStore| if is_done(store) { after.clone() } else { model.clone() };
        store.refresh().await.unwrap();
        expected(&store).check(&store.latest()).await;
        let later = Bucket::over(memory.clone()).open(options.clone()).await.unwrap();
        expected(&later).check(&later.latest()).await;
        assert_eq!(later.latest().verify().await.flaws, Vec::<String>::new(), "{upkeep:?} at {k}");
        assert!(done.is_err() || is_done(&later), "{upkeep:?} at {k}");

        if done.is_err() && !(upkeep == Upkeep::Load && is_done(&later)) {
            // The alteration may have succeeded already.
            let again = upkeep.run(&later).await;
            assert!(again.is_ok() || upkeep == Upkeep::Alter, "{upkeep:?} at {k}: {again:?}");
            after.check(&later.refresh().await.unwrap()).await;
        }
        if answered {
            done.unwrap();
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_cut_off_at_any_request_changes_no_version() {
    at_every_request(Upkeep::Compact, 1 << 16, false).await;
    at_every_request(Upkeep::Compact, 0, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collection_cut_off_at_any_request_leaves_all_versions_whole() {
    at_every_request(Upkeep::Collect, 0, false).await;
    at_every_request(Upkeep::Collect, 1 << 16, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_cut_off_at_any_request_is_complete_or_absent() {
    at_every_request(Upkeep::Load, 0, false).await;
    at_every_request(Upkeep::Load, 1 << 16, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_change_cut_off_at_any_request_keeps_the_graph() {
    at_every_request(Upkeep::Alter, 1 << 16, false).await;
    at_every_request(Upkeep::Alter, 1 << 16, true).await;
}

/// Reads in every way.
async fn read(store: &GraphStore) -> Result<()> {
    let latest = store.refresh().await?;
    let view = latest.edges("KNOWS", None).await?;
    view.lookup(0, 1).await?;
    view.expand(Direction::In, &[0, 1, 2]).await?;
    let persons = latest.vertices("Person", None).await?;
    persons.indexes_of(&ints([1, 2, 3])).await?;
    let hops = latest.start("Person", VertexIds::Keys(ints([1]))).out("KNOWS", None).out("KNOWS", None);
    hops.top(3, "age", true).select(["name", "age"]).collect().await?;
    latest.scan_edges("KNOWS", None, None).await?.1.try_for_each(|_| async { Ok(()) }).await?;
    latest.scan_vertices("Person", None, None).await?.1.try_for_each(|_| async { Ok(()) }).await?;
    latest.prewarm(&PrewarmOptions::default().with_type("KNOWS").with_type("Person")).await?;
    store.snapshot(Some(3)).await?.edges("KNOWS", None).await?.out_edges(0).await?;
    store.log().await?;

    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_cut_off_at_any_request_gets_an_error_and_reads_on_later() {
    for inline in [0, 1 << 16] {
        let options = small(inline);
        let (memory, model) = store_with_history(&options).await;
        for k in 0.. {
            let bucket = Bucket::over(memory.clone());
            let store = bucket.open(options.clone()).await.unwrap();
            let before = bucket.total();
            bucket.stop_after(k, false);
            let done = read(&store).await;
            let answered = bucket.total() - before <= k as u64;
            heal_when_idle(&bucket).await;
            if let Err(error) = &done {
                assert!(error.to_string().contains("lake/graph"), "request {k}: {error}");
            }
            read(&store).await.unwrap();
            model.check(&store.latest()).await;
            if answered {
                done.unwrap();
                assert!(k > 10, "{k} requests");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_was_lost_is_not_repeated_in_the_next() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let person = |key| batch([("id", ints([key]))]);
    writer.add_vertices("Person", &person(1)).await.unwrap();
    // The put succeeds, but neither it nor the lookup is answered.
    bucket.stop_after(0, true);
    writer.commit().await.unwrap_err();
    bucket.heal();

    writer.add_vertices("Person", &person(2)).await.unwrap();
    let error = writer.commit().await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert!(error.to_string().contains("_log/00000000000000000002.json"), "{error}");
    let again = writer.commit().await.unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
    writer.rollback();
    assert_eq!(store.refresh().await.unwrap().vertex_count("Person").unwrap(), 1, "the first is there");
    writer.add_vertices("Person", &person(1)).await.unwrap_err();
    writer.add_vertices("Person", &person(2)).await.unwrap();
    writer.commit().await.unwrap();
    assert_eq!(store.latest().vertex_count("Person").unwrap(), 2);
}

/// The first retry reported the lost commit, and the second one stored its edges again: nothing tells parallel edges
/// apart.
#[tokio::test(flavor = "multi_thread")]
async fn edges_of_a_commit_whose_answer_was_lost_are_stored_once() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([1, 2]))])).await.unwrap();
    writer.commit().await.unwrap();
    let knows = |from, to| batch([("src", ints([from])), ("dst", ints([to]))]);
    writer.add_edges("KNOWS", &knows(1, 2), Ends::Keys).await.unwrap();
    bucket.stop_after(0, true);
    writer.commit().await.unwrap_err();
    bucket.heal();

    writer.add_edges("KNOWS", &knows(2, 1), Ends::Keys).await.unwrap();
    for _ in 0..3 {
        let error = writer.commit().await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        assert!(error.to_string().contains("_log/00000000000000000003.json"), "{error}");
        assert!(writer.has_pending());
    }

    writer.rollback();
    assert_eq!(store.refresh().await.unwrap().edge_count("KNOWS").unwrap(), 1, "the first is there");
    writer.add_edges("KNOWS", &knows(2, 1), Ends::Keys).await.unwrap();
    assert_eq!(writer.commit().await.unwrap(), 4);
    assert_eq!(store.latest().edge_count("KNOWS").unwrap(), 2);
}

/// Compacts a store in another process, and removes all versions that are not needed. Returns their numbers.
async fn compact_and_collect(bucket: &Bucket) -> Vec<u64> {
    let other = Bucket::over(bucket.memory.clone()).open(StoreOptions::default()).await.unwrap();
    other.compact(&CompactOptions::default().with_force(true)).await.unwrap();
    // Ages are compared in milliseconds.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let all = CollectOptions::default().with_older_than(Duration::ZERO).with_even_young(true);
    other.collect_garbage(&all).await.unwrap().versions
}

/// The writer looked for its lost commit in all later versions for ever, and failed once one of them was removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_goes_on_after_a_lost_answer_though_versions_since_then_were_removed() {
    for carries_out in [false, true] {
        let bucket = Bucket::new();
        let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
        let mut writer = store.writer().await.unwrap();
        let person = |key| batch([("id", ints([key]))]);
        writer.add_vertices("Person", &person(1)).await.unwrap();
        writer.commit().await.unwrap();
        writer.add_vertices("Person", &person(2)).await.unwrap();
        bucket.stop_after(0, carries_out);
        writer.commit().await.unwrap_err();
        bucket.heal();
        writer.rollback();

        let removed = compact_and_collect(&bucket).await;
        assert_eq!(removed.contains(&3), carries_out, "{removed:?}");
        store.refresh().await.unwrap();
        if carries_out {
            // It was done after all, but its record is gone.
            let error = writer.add_vertices("Person", &person(3)).await.unwrap_err();
            assert!(matches!(error, Error::Conflict { .. }), "{error}");
            assert!(error.to_string().contains("_log/00000000000000000003.json"), "{error}");
            assert!(!writer.has_pending());
        }

        writer.add_vertices("Person", &person(3)).await.unwrap();
        writer.add_vertices("Post", &batch([("url", texts(["a"]))])).await.unwrap();
        let version = writer.commit().await.unwrap();
        let persons = if carries_out { 3 } else { 2 };
        assert_eq!(store.latest().vertex_count("Person").unwrap(), persons);

        // Nothing is in doubt any more. Each type was compacted in a version of its own.
        let removed = compact_and_collect(&bucket).await;
        assert!(removed.contains(&(version + 1)), "{removed:?}");
        store.refresh().await.unwrap();
        writer.add_vertices("Person", &person(4)).await.unwrap();
        writer.commit().await.unwrap();
        assert_eq!(store.latest().vertex_count("Person").unwrap(), persons + 1);
    }
}

/// Returns the number of leases.
async fn leases(bucket: &Bucket) -> usize {
    let listed = bucket.memory.list(Some(&Path::from("lake/graph/leases")));
    listed.try_collect::<Vec<_>>().await.unwrap().len()
}

/// The lease stayed until it expired: for an hour, writers merged nothing, and garbage collection kept all files that
/// no version refers to.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_cancelled_while_it_takes_its_lease_leaves_none() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), small(0)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([1]))])).await.unwrap();
    writer.commit().await.unwrap();

    let unanswered = bucket.lease_answers.write().await;
    let compaction = tokio::spawn(async move {
        let forced = CompactOptions::default().with_force(true);
        store.compact(&forced).await
    });
    while leases(&bucket).await == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    compaction.abort();
    assert!(compaction.await.unwrap_err().is_cancelled());
    assert_eq!(leases(&bucket).await, 1, "its request is under way");

    drop(unanswered);
    let removed = async {
        while leases(&bucket).await > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), removed).await.expect("the lease is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_is_refused_while_changes_are_pending() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([1]))])).await.unwrap();
    let load = || BulkLoad::new().with_vertices("Person", stream::iter([Ok(batch([("id", ints([2]))]))]));
    let error = writer.bulk_load(load()).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    writer.commit().await.unwrap();
    writer.bulk_load(load()).await.unwrap();
    assert_eq!(store.latest().vertex_count("Person").unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_readers_fetch_and_decode_once() {
    let bucket = Bucket::new();
    let targets = load(&bucket, 10_000).await;
    let cold = Bucket::over(bucket.memory.clone());
    let store = cold.open(StoreOptions::default()).await.unwrap();
    cold.slow_down();
    let before = cold.requests();
    let readers = (0..16).map(|_| {
        let store = store.clone();
        let target = targets[70];
        tokio::spawn(async move {
            let view = store.latest().edges("KNOWS", Some(&["date"])).await.unwrap();
            view.lookup(70 / DEGREE, target).await.unwrap().neighbors.len()
        })
    });

    for found in futures::future::join_all(readers).await {
        assert!(found.unwrap() > 0);
    }
    let stats = store.stats();
    assert_eq!((stats.offsets.decoded, stats.edge_columns.decoded), (1, 2));
    assert_eq!(cold.requests().gets - before.gets, 3, "offsets, neighbours, dates");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_does_not_evict_what_lookups_use() {
    let bucket = Bucket::new();
    let targets = load(&bucket, 500_000).await;
    let cold = Bucket::over(bucket.memory.clone());
    // A fraction of the bytes of a scan.
    let (cache, source) = cold.source_with(ByteSize::mib(6)).await;
    let store = GraphStore::open(&cache, source, StoreOptions::default()).await.unwrap();

    let view = store.latest().edges("KNOWS", Some(&["date"])).await.unwrap();
    for _ in 0..40 {
        view.lookup(7, targets[70]).await.unwrap();
    }
    assert!(view.lookup_cached(7, targets[70]).is_some(), "there is room for that");
    let (_, scan) = store.latest().scan_edges("KNOWS", None, None).await.unwrap();
    let rows = scan.try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await.unwrap();
    assert_eq!(rows, 500_000);

    let before = cold.requests();
    assert!(view.lookup_cached(7, targets[70]).is_some(), "and it is still there");
    view.lookup(7, targets[70]).await.unwrap();
    assert_eq!(cold.requests(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collection_removes_only_versions_older_than_the_limit() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), small(0)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut commit = async |key| {
        writer.add_vertices("Person", &batch([("id", ints([key]))])).await.unwrap();
        writer.commit().await.unwrap()
    };

    commit(0).await;
    commit(1).await;
    // Older than the limit, but current until a moment ago: a version ages from the commit of its successor.
    let superseded = commit(2).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let young = [commit(10).await, commit(11).await];
    let old = CollectOptions::default().with_older_than(Duration::from_millis(700)).with_even_young(true);
    let reader = bucket.open(small(0)).await.unwrap();
    let gone = reader.collect_garbage(&old).await.unwrap();
    assert_eq!(gone.versions, [0, 1, 2, 3]);

    let left: Vec<u64> = reader.log().await.unwrap().iter().map(|entry| entry.version).collect();
    assert_eq!(left, [superseded, young[0], young[1]]);
    let snapshot = reader.snapshot(Some(superseded)).await.unwrap();
    assert_eq!(snapshot.vertex_count("Person").unwrap(), 3);
    assert_eq!(snapshot.verify().await.flaws, Vec::<String>::new());
    assert_eq!(reader.snapshot(Some(young[0])).await.unwrap().vertex_count("Person").unwrap(), 4);
    let version = reader.snapshot(Some(2)).await.unwrap_err();
    assert!(matches!(version, Error::NoSuchStore { .. }), "{version}");
}

/// Garbage collection looked at the open snapshots once, and removed versions that were opened after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_opened_during_garbage_collection_is_kept_or_refused() {
    const OPENED: u64 = 10;

    let prepared = Bucket::new();
    let store = prepared.create(schema(), small(0)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    for key in 0..20 {
        writer.add_vertices("Person", &batch([("id", ints([key]))])).await.unwrap();
        writer.commit().await.unwrap();
    }

    for pauses in 0..40 {
        let store = Bucket::over(Arc::new(prepared.memory.fork())).open(small(0)).await.unwrap();
        let collection = {
            let store = store.clone();
            let all = CollectOptions::default().with_older_than(Duration::ZERO).with_even_young(true);
            tokio::spawn(async move { store.collect_garbage(&all).await.unwrap() })
        };

        for _ in 0..pauses {
            tokio::task::yield_now().await;
        }
        let opened = store.snapshot(Some(OPENED)).await;
        let gone = collection.await.unwrap();
        assert_eq!(gone.versions.contains(&OPENED), opened.is_err(), "after {pauses} pauses: {opened:?}");
        match opened {
            Ok(snapshot) => assert_eq!(snapshot.verify().await.flaws, Vec::<String>::new()),
            Err(error) => assert!(matches!(error, Error::NoSuchStore { .. }), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_that_race_in_a_folder_never_both_commit_a_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph").to_str().unwrap().to_owned();
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(16))).await.unwrap();
    GraphStore::create(&cache, path.as_str(), schema(), StoreOptions::default()).await.unwrap();
    let tasks = (0..4_i64).map(|task| {
        let cache = cache.clone();
        let path = path.clone();
        tokio::spawn(async move {
            let store = GraphStore::open(&cache, path.as_str(), StoreOptions::default()).await.unwrap();
            let mut committed = Vec::new();
            for round in 0..5 {
                let Ok(mut writer) = store.writer().await else { continue };
                let key = task * 100 + round;
                writer.add_vertices("Person", &batch([("id", ints([key]))])).await.unwrap();
                match writer.commit().await {
                    Ok(version) => committed.push(version),
                    Err(Error::Fenced { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }

            committed
        })
    });

    let committed = futures::future::join_all(tasks).await;
    let committed: Vec<u64> = committed.into_iter().flat_map(|versions| versions.unwrap()).collect();
    let versions: BTreeSet<u64> = committed.iter().copied().collect();
    assert_eq!(versions.len(), committed.len());
    let store = GraphStore::open(&cache, path.as_str(), StoreOptions::default()).await.unwrap();
    assert_eq!(store.latest().vertex_count("Person").unwrap(), committed.len() as u64);
}
