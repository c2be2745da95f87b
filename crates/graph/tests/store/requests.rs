//! How many requests things take.

use stylobate_graph::{Direction, Ends, StoreOptions};

use crate::{
    bucket::{Bucket, Requests},
    model::{batch, ints, schema},
};

#[tokio::test]
async fn a_small_commit_is_one_request_and_reading_it_is_none() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    for round in 0..5 {
        let before = bucket.requests();
        let keys = || ints(round * 10..round * 10 + 10);
        writer.add_vertices("Person", &batch([("id", keys())])).await.unwrap();
        let knows = batch([("src", keys()), ("dst", ints(0..10)), ("weight", keys())]);
        writer.add_edges("KNOWS", &knows, Ends::Keys).await.unwrap();
        if round > 0 {
            let gone = batch([("src", ints([round])), ("dst", ints([round]))]);
            writer.delete_edges("KNOWS", &gone, Ends::Keys).await.unwrap();
        }
        writer.commit().await.unwrap();
        let after = bucket.requests();
        assert_eq!(after, Requests { puts: before.puts + 1, ..before }, "one put in round {round}");
        let view = store.latest().edges("KNOWS", None).await.unwrap();
        assert!(view.of_cached(Direction::Out, 1).is_some() && view.lookup_cached(0, 0).is_some());
        view.expand(Direction::In, &[1, 2, 3]).await.unwrap();
        assert_eq!(bucket.requests(), after, "nothing is asked for what was just committed");
    }
}

#[tokio::test]
async fn opening_is_a_listing_and_a_read_and_older_records_are_read_once_where_they_are_needed() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    for key in 0..3 {
        writer.add_vertices("Person", &batch([("id", ints([key]))])).await.unwrap();
        writer
            .add_edges("KNOWS", &batch([("src", ints([key])), ("dst", ints([0]))]), Ends::Keys)
            .await
            .unwrap();
        writer.commit().await.unwrap();
    }
    let reader = Bucket::over(bucket.memory.clone());
    let store = reader.open(StoreOptions::default()).await.unwrap();
    assert_eq!(reader.requests(), Requests { gets: 1, lists: 1, ..Requests::default() });
    let latest = store.latest();
    let (edges, vertices) = futures::join!(latest.edges("KNOWS", None), latest.vertices("Person", None));
    let (edges, vertices) = (edges.unwrap(), vertices.unwrap());
    assert_eq!(reader.requests().gets, 3, "two older records, each for both types");
    edges.in_edges(0).await.unwrap();
    vertices.take(&[0, 1, 2]).await.unwrap();
    let again = store.latest();
    again.edges("KNOWS", None).await.unwrap();
    store.snapshot(None).await.unwrap();
    assert_eq!(reader.requests(), Requests { gets: 3, lists: 1, ..Requests::default() });
    store.refresh().await.unwrap();
    assert_eq!(reader.requests(), Requests { gets: 3, lists: 2, ..Requests::default() });
    // Another version costs its own record, and what both need is open.
    store.snapshot(Some(3)).await.unwrap().edges("KNOWS", None).await.unwrap();
    assert!(reader.requests().gets <= 4);
}
