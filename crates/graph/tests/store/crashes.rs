//! A bucket that stops answering at any request, and its state once it is back.

use object_store::memory::InMemory;
use rand::{SeedableRng, rngs::StdRng};
use std::sync::Arc;
use stylobate_graph::{
    Result,
    store::{StoreOptions, StoreWriter},
};
use stylobate_storage::ByteSize;

use crate::{
    bucket::Bucket,
    histories::change,
    model::{Model, schema},
};

const COMMITS: u64 = 4;

/// Possible states after a history that ended anywhere.
struct Ended {
    /// State that was certainly committed.
    committed: Model,
    /// State that was being committed.
    tried: Option<Model>,
}

/// Applies changes that are the same each time.
async fn changes(writer: &mut StoreWriter, model: &mut Model, commit: u64) -> Result<()> {
    let mut random = StdRng::seed_from_u64(commit);
    for _ in 0..12 {
        change(writer, model, &mut random).await?;
    }
    Ok(())
}

async fn history(bucket: &Arc<Bucket>, options: &StoreOptions) -> Ended {
    let mut committed = Model::default();
    let Ok(store) = bucket.open(options.clone()).await else { return Ended { committed, tried: None } };
    let Ok(mut writer) = store.writer().await else { return Ended { committed, tried: None } };
    for commit in 0..COMMITS {
        let mut model = committed.clone();
        if changes(&mut writer, &mut model, commit).await.is_err() {
            return Ended { committed, tried: None };
        }
        match writer.commit().await {
            Ok(_) => committed = model,
            Err(_) => {
                bucket.heal();
                committed.check(&store.latest()).await;
                return Ended { committed, tried: Some(model) };
            }
        }
    }

    Ended { committed, tried: None }
}

async fn at_every_request(options: StoreOptions, carries_out: bool) {
    for k in 0.. {
        let memory = Arc::new(InMemory::new());
        Bucket::over(memory.clone()).create(schema(), options.clone()).await.unwrap();
        let bucket = Bucket::over(memory.clone());
        bucket.stop_after(k, carries_out);
        let ended = history(&bucket, &options).await;
        let answered = bucket.total() <= k as u64;
        // Another process opens it later.
        let store = Bucket::over(memory).open(options.clone()).await.unwrap();
        let found = store.latest().vertex_count("Person").unwrap();
        let is = |model: &Model| {
            let latest = store.latest();
            model.persons.len() as u64 == found
                && model.next_person as u64 == latest.index_count("Person").unwrap()
                && model.knows.len() as u64 == latest.edge_count("KNOWS").unwrap()
                && model.likes.len() as u64 == latest.edge_count("LIKES").unwrap()
        };

        let there = match &ended.tried {
            Some(tried) if is(tried) => {
                assert!(carries_out, "request {k} was not carried out");
                tried
            }
            _ => &ended.committed,
        };
        there.check(&store.latest()).await;

        // And continues from there.
        let mut model = there.clone();
        let mut writer = store.writer().await.unwrap();
        changes(&mut writer, &mut model, 99).await.unwrap();
        writer.commit().await.unwrap();
        model.check(&store.latest()).await;
        if answered {
            assert!(k > COMMITS as i64, "there were {k} requests");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_request_is_the_last_nothing_is_half_visible() {
    at_every_request(StoreOptions::default(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_request_is_done_but_not_answered_nothing_is_half_visible() {
    at_every_request(StoreOptions::default(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_where_batches_become_files() {
    let options = StoreOptions::default().with_inline_limit(ByteSize::ZERO);
    at_every_request(options.clone(), false).await;
    at_every_request(options, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_failed_is_done_once_when_it_is_tried_again() {
    for (limit, carries_out) in [(64 << 10, false), (64 << 10, true), (0, false), (0, true)] {
        let options = StoreOptions::default().with_inline_limit(ByteSize::bytes(limit));
        let bucket = Bucket::new();
        let store = bucket.create(schema(), options).await.unwrap();
        let mut writer = store.writer().await.unwrap();
        let mut model = Model::default();
        changes(&mut writer, &mut model, 7).await.unwrap();

        for left in 0..3 {
            // Neither the put nor the lookup of its outcome is answered.
            bucket.stop_after(left, carries_out);
            if writer.commit().await.is_ok() {
                break;
            }
            Model::default().check(&store.latest()).await;
        }

        bucket.heal();
        let version = writer.commit().await.unwrap();
        assert_eq!(version, 2, "the store, its writer, and one commit");
        model.check(&store.latest()).await;
        changes(&mut writer, &mut model, 8).await.unwrap();
        assert_eq!(writer.commit().await.unwrap(), 3);
        model.check(&store.latest()).await;
        model.check(&bucket.open(StoreOptions::default()).await.unwrap().latest()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_commit_a_writer_may_go_on_with_something_else() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut model = Model::default();
    changes(&mut writer, &mut model, 7).await.unwrap();
    bucket.stop_after(0, false);
    writer.commit().await.unwrap_err();
    bucket.heal();
    changes(&mut writer, &mut model, 8).await.unwrap();
    writer.commit().await.unwrap();
    model.check(&store.latest()).await;

    let before = model.clone();
    changes(&mut writer, &mut model, 9).await.unwrap();
    bucket.stop_after(0, false);
    writer.commit().await.unwrap_err();
    bucket.heal();
    writer.rollback();
    let mut model = before;
    changes(&mut writer, &mut model, 10).await.unwrap();
    writer.commit().await.unwrap();
    model.check(&store.latest()).await;
}
