//! Several writers at once.

use std::collections::BTreeSet;

use stylobate_graph::{
    Error,
    store::{StoreOptions, VertexIds},
};

use crate::{
    bucket::Bucket,
    model::{batch, ints, schema},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_writer_takes_over_and_the_first_is_told() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let other = bucket.open(StoreOptions::default()).await.unwrap();
    let mut first = store.writer().await.unwrap();
    first.add_vertices("Person", &batch([("id", ints([1]))])).await.unwrap();
    let mut second = other.writer().await.unwrap();
    assert!(second.epoch() > first.epoch());
    let error = first.commit().await.unwrap_err();
    assert!(matches!(error, Error::Fenced { epoch: 1, by: 2, .. }), "{error}");
    assert!(error.to_string().contains("_log/00000000000000000002.json"), "{error}");
    second.add_vertices("Person", &batch([("id", ints([1]))])).await.unwrap();
    assert_eq!(second.commit().await.unwrap(), 3);
    assert!(matches!(first.commit().await, Err(Error::Fenced { .. })), "and stays told");
    assert_eq!(store.refresh().await.unwrap().vertex_count("Person").unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_writers_never_both_commit_a_version() {
    let bucket = Bucket::new();
    bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let tasks = (0..6_i64).map(|task| {
        let bucket = bucket.clone();
        tokio::spawn(async move {
            let store = bucket.open(StoreOptions::default()).await.unwrap();
            let mut committed = Vec::new();
            for round in 0..10 {
                let Ok(mut writer) = store.writer().await else { continue };
                let key = task * 100 + round;
                writer.add_vertices("Person", &batch([("id", ints([key]))])).await.unwrap();
                match writer.commit().await {
                    Ok(version) => committed.push((version, key)),
                    Err(Error::Fenced { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }

            committed
        })
    });

    let mut committed = Vec::new();
    for task in futures::future::join_all(tasks).await {
        committed.extend(task.unwrap());
    }
    let versions: BTreeSet<u64> = committed.iter().map(|(version, _)| *version).collect();
    assert_eq!(versions.len(), committed.len(), "no version was committed twice");
    assert!(!committed.is_empty());
    let store = bucket.open(StoreOptions::default()).await.unwrap();
    assert_eq!(store.latest().vertex_count("Person").unwrap(), committed.len() as u64);

    let keys = ints(committed.iter().map(|(_, key)| *key));
    let view = store.latest().vertices("Person", None).await.unwrap();
    assert_eq!(view.indexes_of_all(&keys).await.unwrap().len(), committed.len());
    let log = store.log().await.unwrap();
    assert!(
        log.windows(2).all(|pair| pair[1].version == pair[0].version + 1 && pair[1].epoch >= pair[0].epoch)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_a_commit_when_it_looks_for_one_and_not_before() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let reader = bucket.open(StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([1, 2]))])).await.unwrap();
    writer.commit().await.unwrap();
    let before = reader.latest();
    assert_eq!(before.vertex_count("Person").unwrap(), 0);

    let after = reader.refresh().await.unwrap();
    assert_eq!(after.vertex_count("Person").unwrap(), 2);
    writer.delete_vertices("Person", &VertexIds::Keys(ints([1]))).await.unwrap();
    writer.commit().await.unwrap();
    assert_eq!(after.vertices("Person", None).await.unwrap().take(&[0]).await.unwrap().num_rows(), 1);
    let newest = reader.refresh().await.unwrap();
    assert!(newest.vertices("Person", None).await.unwrap().take(&[0]).await.is_err());
    assert_eq!(before.vertex_count("Person").unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_done_is_told_as_done_though_a_later_writer_took_over() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let other = bucket.open(StoreOptions::default()).await.unwrap();
    let mut first = store.writer().await.unwrap();
    first.add_vertices("Person", &batch([("id", ints([1]))])).await.unwrap();
    // It is done, but neither the put nor the lookup is answered.
    bucket.stop_after(0, true);
    first.commit().await.unwrap_err();
    bucket.heal();
    other.writer().await.unwrap();

    // The writer learns of both at once.
    assert_eq!(store.refresh().await.unwrap().vertex_count("Person").unwrap(), 1);
    assert_eq!(first.commit().await.unwrap(), 2, "whoever is told that it failed adds the same again");
    assert!(!first.has_pending());
    first.add_vertices("Person", &batch([("id", ints([2]))])).await.unwrap();
    let error = first.commit().await.unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
}
