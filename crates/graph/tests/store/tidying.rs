//! A writer of many small commits merges its deltas without losing data.

use std::sync::Arc;

use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, memory::InMemory, path::Path};
use rand::{SeedableRng, rngs::StdRng};
use stylobate_graph::store::{CompactOptions, Ends, GraphStore, StoreOptions, StoreWriter};
use stylobate_storage::ByteSize;

use crate::{
    bucket::Bucket,
    histories::change,
    model::{Model, batch, ints, schema},
    upkeep::check,
};

async fn compactions(store: &GraphStore) -> usize {
    store.log().await.unwrap().iter().filter(|entry| entry.operation == "compact").count()
}

async fn commit(writer: &mut StoreWriter, model: &mut Model, random: &mut StdRng) {
    for _ in 0..3 {
        change(writer, model, random).await.unwrap();
    }
    writer.commit().await.unwrap();
}

/// Adds one more person who knows the previous one, the same way in each commit.
async fn add_one(writer: &mut StoreWriter, key: i64) {
    writer.add_vertices("Person", &batch([("id", ints([key]))])).await.unwrap();
    let knows = batch([("src", ints([key])), ("dst", ints([(key - 1).max(0)])), ("weight", ints([key]))]);
    writer.add_edges("KNOWS", &knows, Ends::Keys).await.unwrap();
    let updated = batch([("id", ints([key / 2])), ("age", ints([key]))]);
    writer.update_vertices("Person", &updated).await.unwrap();
    writer.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_commits_leave_what_a_plain_graph_says() {
    for (seed, limit) in [(1, 64 << 10), (3, 0)] {
        let mut random = StdRng::seed_from_u64(seed);
        let bucket = Bucket::new();
        let options = StoreOptions::default().with_inline_limit(ByteSize::bytes(limit));

        let store = bucket.create(schema(), options.clone()).await.unwrap();
        let mut writer = store.writer().await.unwrap();
        let mut model = Model::default();
        let mut held = Vec::new();
        for at in 0..300 {
            commit(&mut writer, &mut model, &mut random).await;
            if at % 37 == 0 {
                check(&model, &store.latest()).await;
                held.push((store.latest(), model.clone()));
            }
        }

        check(&model, &store.latest()).await;
        assert!(compactions(&store).await > 0, "seed {seed}");
        for (snapshot, model) in &held {
            check(model, snapshot).await;
        }
        let again = Bucket::over(bucket.memory.clone()).open(options).await.unwrap();
        check(&model, &again.latest()).await;
    }
}

#[tokio::test]
async fn records_and_what_is_asked_at_first_stay_small_however_many_commits_there_were() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let commits = 500;
    for key in 0..commits {
        add_one(&mut writer, key).await;
    }

    // One put each, plus a few requests per merge after some dozens of commits.
    let requests = bucket.total();
    assert!(requests < commits as u64 + commits as u64 / 64 * 30, "{requests} requests");
    let records: Vec<_> =
        bucket.memory.list(Some(&Path::from("lake/graph/_log"))).try_collect::<Vec<_>>().await.unwrap();
    let longest = records.iter().map(|meta| meta.size).max().unwrap();
    assert!(longest < 40 << 10, "{longest} bytes");
    let reader = Bucket::over(bucket.memory.clone());
    let latest = reader.open(StoreOptions::default()).await.unwrap().latest();
    let (edges, persons) = futures::join!(latest.edges("KNOWS", None), latest.vertices("Person", None));
    let all: Vec<i64> = (0..commits).collect();
    edges.unwrap().expand(stylobate_graph::Direction::Out, &all).await.unwrap();
    assert_eq!(persons.unwrap().take(&all).await.unwrap().num_rows(), commits as usize);
    assert!(reader.total() < 250, "{} requests", reader.total());
}

/// Commits until the next commit would trigger a compaction, if `known` gives its number; otherwise until one has
/// happened.
async fn commit_until_full(store: &GraphStore, known: Option<u64>) -> (StoreWriter, Model, StdRng) {
    let mut random = StdRng::seed_from_u64(7);
    let mut writer = store.writer().await.unwrap();
    let mut model = Model::default();
    loop {
        let version = store.latest().version();
        let is_full = match known {
            Some(known) => version >= known,
            None => compactions(store).await > 0,
        };
        if is_full {
            return (writer, model, random);
        }
        commit(&mut writer, &mut model, &mut random).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_request_fails_while_commits_are_merged_nothing_is_lost() {
    let store = Bucket::new().create(schema(), StoreOptions::default()).await.unwrap();
    commit_until_full(&store, None).await;
    let first = store.log().await.unwrap().into_iter().find(|entry| entry.operation == "compact");

    // Version before the commit that triggers the merge.
    let full = first.unwrap().version - 2;
    let prepared = Arc::new(InMemory::new());
    let store = Bucket::over(prepared.clone()).create(schema(), StoreOptions::default()).await.unwrap();
    let (_, full_model, full_random) = commit_until_full(&store, Some(full)).await;
    for carries_out in [false, true] {
        for k in 0.. {
            let memory = Arc::new(prepared.fork());
            let bucket = Bucket::over(memory.clone());
            let store = bucket.open(StoreOptions::default()).await.unwrap();
            let mut writer = store.writer().await.unwrap();
            let (mut model, mut random) = (full_model.clone(), full_random.clone());
            assert_eq!(compactions(&store).await, 0);
            for _ in 0..3 {
                change(&mut writer, &mut model, &mut random).await.unwrap();
            }

            let before = bucket.total();
            bucket.stop_after(k, carries_out);
            let committed = writer.commit().await;
            let answered = bucket.total() - before <= k as u64;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            bucket.heal();
            match committed {
                // The outcome of the merge does not affect the commit.
                Err(error) => assert_eq!(k, 0, "{error}"),
                Ok(_) => check(&model, &store.latest()).await,
            }

            writer.commit().await.unwrap();
            check(&model, &store.latest()).await;
            let again = Bucket::over(memory).open(StoreOptions::default()).await.unwrap();
            check(&model, &again.latest()).await;
            for _ in 0..3 {
                commit(&mut writer, &mut model, &mut random).await;
            }

            check(&model, &store.latest()).await;
            if answered {
                assert!(compactions(&store).await > 0 && k > 5, "{k} requests");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_leaves_a_load_or_a_compaction_that_is_at_work_alone() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let lease = Path::from("lake/graph/leases/somebody");
    bucket.memory.put(&lease, PutPayload::new()).await.unwrap();
    for key in 0..200 {
        add_one(&mut writer, key).await;
    }

    assert_eq!(compactions(&store).await, 0);
    bucket.memory.delete(&lease).await.unwrap();
    for key in 200..270 {
        add_one(&mut writer, key).await;
    }
    assert!(compactions(&store).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn compactions_beside_a_busy_writer_come_to_an_end() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut model = Model::default();
    let mut random = StdRng::seed_from_u64(11);
    let (ended, mut end) = tokio::sync::watch::channel(false);
    let compacting = {
        let store = store.clone();
        tokio::spawn(async move {
            let mut rewritten = 0;
            while !*end.borrow_and_update() {
                let done = store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
                rewritten += done.iter().filter(|done| done.rewritten).count();
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            rewritten
        })
    };

    for _ in 0..400 {
        commit(&mut writer, &mut model, &mut random).await;
    }
    ended.send_replace(true);
    assert!(compacting.await.unwrap() > 0);
    check(&model, &store.refresh().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compactions_of_another_process_beside_a_busy_writer_come_to_an_end() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut model = Model::default();
    let mut random = StdRng::seed_from_u64(12);
    for _ in 0..30 {
        commit(&mut writer, &mut model, &mut random).await;
    }

    let other = Bucket::over(bucket.memory.clone()).open(StoreOptions::default()).await.unwrap();
    let forced = CompactOptions::default().with_force(true);
    let compacting = tokio::spawn(async move { other.compact(&forced).await.unwrap() });
    while !compacting.is_finished() {
        commit(&mut writer, &mut model, &mut random).await;
    }
    let compacted = compacting.await.unwrap();
    assert!(compacted.iter().all(|one| one.rewritten) && compacted.len() == 4, "{compacted:?}");
    check(&model, &store.refresh().await.unwrap()).await;
    let leases = bucket.memory.list(Some(&Path::from("lake/graph/leases")));
    assert_eq!(leases.try_collect::<Vec<_>>().await.unwrap(), Vec::new());
    // Attempts that were in vain leave no files.
    let files = bucket.memory.list(Some(&Path::from("lake/graph/deleted")));
    let files = files.try_collect::<Vec<_>>().await.unwrap().len();
    let compactions = compactions(&store).await;
    assert!(files <= 4 * compactions, "{files} files of {compactions} compactions");
}

#[tokio::test(flavor = "multi_thread")]
async fn compactions_beside_a_writer_that_has_nothing_to_merge_come_to_an_end() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let keys: Vec<i64> = (0..20_000).collect();
    writer.add_vertices("Person", &batch([("id", ints(keys.clone()))])).await.unwrap();
    let ends = ["src", "dst", "weight"].map(|name| (name, ints(keys.clone())));
    writer.add_edges("KNOWS", &batch(ends), Ends::Keys).await.unwrap();
    writer.commit().await.unwrap();
    store.compact(&CompactOptions::default().with_force(true)).await.unwrap();

    let other = Bucket::over(bucket.memory.clone()).open(StoreOptions::default()).await.unwrap();
    let mut compacting = None;
    let mut deleted = 0;
    for key in keys.iter().copied() {
        let pair = batch([("src", ints([key])), ("dst", ints([key]))]);
        writer.delete_edges("KNOWS", &pair, Ends::Keys).await.unwrap();
        writer.commit().await.unwrap();
        deleted += 1;
        let compacting = compacting.get_or_insert_with(|| {
            let other = other.clone();
            let forced = CompactOptions::default().with_force(true);
            tokio::spawn(async move { other.compact(&forced).await.unwrap() })
        });
        if compacting.is_finished() {
            break;
        }
    }
    let compacted = compacting.unwrap().await.unwrap();
    assert!(compacted.iter().any(|one| one.of == "Person_KNOWS_Person"), "{compacted:?}");
    let left = keys.len() as u64 - deleted;
    assert!(left > 0, "it ended only after all commits");
    let snapshot = store.refresh().await.unwrap();
    assert_eq!(snapshot.edge_count("KNOWS").unwrap(), left);
    let edges = snapshot.edges("KNOWS", None).await.unwrap();
    let found = edges.expand(stylobate_graph::Direction::Out, &keys).await.unwrap();
    assert_eq!(found.num_rows() as u64, left);
    assert!(snapshot.verify().await.flaws.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_merges_only_what_another_process_is_not_rewriting() {
    for (of, share) in [("Person", 0.0), ("KNOWS", 0.0), ("Person", 1e9), ("KNOWS", 1e9)] {
        let bucket = Bucket::new();
        let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
        let mut writer = store.writer().await.unwrap();
        let mut model = Model::default();
        let mut random = StdRng::seed_from_u64(13);
        for at in 0..100 {
            commit(&mut writer, &mut model, &mut random).await;
            if at == 50 {
                store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
            }
        }
        let before = compactions(&store).await;

        // The compaction writes its new files, but its record is held back until after many more commits.
        let delayed = Bucket::over(bucket.memory.clone());
        let other = delayed.open(StoreOptions::default()).await.unwrap();
        let persons = model.next_person as u64;
        let edges = model.knows.len() as u64;
        let commits = delayed.commits.write().await;
        let puts = delayed.requests().puts;
        let options = CompactOptions::default().with_share(share).with_types([of]);
        let compacting = tokio::spawn(async move { other.compact(&options).await.unwrap() });
        while delayed.requests().puts < puts + 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..300 {
            commit(&mut writer, &mut model, &mut random).await;
        }
        let merged = compactions(&store).await - before;
        assert!(merged >= 1, "{of}: {merged}");

        drop(commits);
        let compacted = compacting.await.unwrap();
        check(&model, &store.refresh().await.unwrap()).await;
        // It did not start again with a later version.
        assert_eq!(compacted.len(), 1, "{of}");
        assert_eq!(compacted[0].rewritten, share == 0.0);
        if share == 0.0 {
            assert_eq!(compacted[0].rows, if of == "Person" { persons } else { edges });
        }
        for _ in 0..70 {
            commit(&mut writer, &mut model, &mut random).await;
        }
        check(&model, &store.latest()).await;
        let again = Bucket::over(bucket.memory.clone()).open(StoreOptions::default()).await.unwrap();
        check(&model, &again.latest()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compactions_of_different_types_do_not_overtake_each_other() {
    for (of, other) in [("Person", "KNOWS"), ("KNOWS", "Person")] {
        let bucket = Bucket::new();
        let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
        let mut writer = store.writer().await.unwrap();
        let mut model = Model::default();
        let mut random = StdRng::seed_from_u64(14);
        for _ in 0..50 {
            commit(&mut writer, &mut model, &mut random).await;
        }
        let rows = if of == "Person" { model.next_person as u64 } else { model.knows.len() as u64 };

        // The record of the first compaction is held back until the other process has compacted the other type.
        let delayed = Bucket::over(bucket.memory.clone());
        let slow = delayed.open(StoreOptions::default()).await.unwrap();
        let commits = delayed.commits.write().await;
        let puts = delayed.requests().puts;
        let options = CompactOptions::default().with_force(true).with_types([of]);
        let compacting = tokio::spawn(async move { slow.compact(&options).await.unwrap() });
        while delayed.requests().puts < puts + 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..4 {
            for _ in 0..10 {
                commit(&mut writer, &mut model, &mut random).await;
            }
            let options = CompactOptions::default().with_force(true).with_types([other]);
            assert_eq!(store.compact(&options).await.unwrap().len(), 1, "{other}");
        }

        drop(commits);
        let compacted = compacting.await.unwrap();
        assert_eq!(compacted.len(), 1, "{of}");
        assert_eq!(compacted[0].rows, rows, "{of}: it did not start again with a later version");
        check(&model, &store.refresh().await.unwrap()).await;
    }
}

#[tokio::test]
async fn a_writer_waits_only_once_for_a_compaction_that_has_died() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    for name in ["dead.turn", "dead.compaction-0"] {
        let lease = Path::from(format!("lake/graph/leases/{name}"));
        bucket.memory.put(&lease, PutPayload::new()).await.unwrap();
    }

    let begun = std::time::Instant::now();
    for key in 0..200 {
        add_one(&mut writer, key).await;
    }
    assert!(begun.elapsed().as_secs() >= 3, "{:?}", begun.elapsed());
    // The writer looks twenty times in three seconds; the other listings belong to merges.
    assert!(bucket.requests().lists < 60, "{:?}", bucket.requests());
    assert!(compactions(&store).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_compaction_no_record_before_it_is_needed() {
    let options = || CompactOptions::default().with_share(1e9);
    for seed in 0..8 {
        let bucket = Bucket::new();
        let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
        let mut writer = store.writer().await.unwrap();
        let mut model = Model::default();
        let mut random = StdRng::seed_from_u64(100 + seed);
        for _ in 0..12 {
            commit(&mut writer, &mut model, &mut random).await;
        }

        store.compact(&CompactOptions::default().with_force(true)).await.unwrap();
        for _ in 0..=seed {
            commit(&mut writer, &mut model, &mut random).await;
        }
        drop(writer);
        store.compact(&options()).await.unwrap();
        check(&model, &store.latest()).await;
        let all =
            stylobate_graph::store::CollectOptions::default().with_older_than(std::time::Duration::ZERO);
        store.collect_garbage(&all.with_even_young(true)).await.unwrap();
        assert_eq!(store.log().await.unwrap().len(), 1, "seed {seed}");
        assert!(store.compact(&options()).await.unwrap().is_empty(), "seed {seed}");

        let again = Bucket::over(bucket.memory.clone()).open(StoreOptions::default()).await.unwrap();
        check(&model, &again.latest()).await;
    }
}
