//! Number of requests per operation.

use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::ColumnsUse;
use stylobate_graph::{
    Direction, PropertyType,
    store::{BulkLoad, EdgeType, Ends, StoreOptions, StoreSchema, VertexType},
};

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
    let edges = edges.unwrap();
    let vertices = vertices.unwrap();
    assert_eq!(reader.requests().gets, 3, "two older records, each for both types");
    edges.in_edges(0).await.unwrap();
    vertices.take(&[0, 1, 2]).await.unwrap();

    let again = store.latest();
    again.edges("KNOWS", None).await.unwrap();
    store.snapshot(None).await.unwrap();
    assert_eq!(reader.requests(), Requests { gets: 3, lists: 1, ..Requests::default() });
    store.refresh().await.unwrap();
    assert_eq!(reader.requests(), Requests { gets: 3, lists: 2, ..Requests::default() });
    // Another version costs its own record; shared segments are open already.
    store.snapshot(Some(3)).await.unwrap().edges("KNOWS", None).await.unwrap();
    assert!(reader.requests().gets <= 4);
}

#[tokio::test]
async fn statistics_tell_the_caches_apart() {
    let bucket = Bucket::new();
    let targets = load(&bucket, 1_000).await;
    let store = Bucket::over(bucket.memory.clone()).open(StoreOptions::default()).await.unwrap();
    let view = store.latest().edges("KNOWS", Some(&["date"])).await.unwrap();
    let fresh = store.stats();
    assert_eq!((fresh.bases.open, fresh.offsets.files, fresh.edge_columns.columns), (1, 0, 0));
    view.lookup(1, targets[10]).await.unwrap();
    let cold = store.stats();
    assert_eq!((cold.offsets.files, cold.offsets.columns, cold.offsets.decoded), (1, 1, 1));
    assert!(cold.offsets.bytes >= 101 * 8, "{cold:?}");
    assert_eq!((cold.edge_columns.files, cold.edge_columns.decoded), (2, 2), "neighbours and dates");

    for _ in 0..10 {
        view.lookup(1, targets[10]).await.unwrap();
    }
    let warm = store.stats();
    assert_eq!(warm.offsets.hits - cold.offsets.hits, 10);
    assert_eq!((warm.offsets.decoded, warm.edge_columns.decoded), (1, 2));
    assert_eq!(warm.keys, ColumnsUse::default());
    // Additions and deletions of a commit are charged to the budget while they are open.
    let before = store.stats();
    let (cache, source) = bucket.source().await;
    let store =
        stylobate_graph::store::GraphStore::open(&cache, source, StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let knows = batch([("src", ints([1])), ("dst", ints([2])), ("date", ints([3]))]);
    writer.add_edges("KNOWS", &knows, Ends::Keys).await.unwrap();

    let gone = batch([("src", ints([5])), ("dst", ints([targets[50]]))]);
    writer.delete_edges("KNOWS", &gone, Ends::Keys).await.unwrap();
    writer.commit().await.unwrap();
    store.latest().edges("KNOWS", None).await.unwrap();
    let after = store.stats();
    assert_eq!((before.deltas.open, before.deletions.open), (0, 0));
    assert_eq!((after.deltas.open, after.deletions.open), (1, 2), "one set for each direction");
    assert!(after.keys.decoded >= 2 && after.keys.bytes > 0, "{after:?}");

    let held = after.deltas.bytes + after.deletions.bytes + after.bases.bytes;
    assert!(after.deltas.bytes > 0 && after.deletions.bytes > 0);
    assert!(cache.stats().held_bytes >= held, "{} of {held}", cache.stats().held_bytes);
    drop((writer, store));
    assert_eq!(cache.stats().held_bytes, 0);
}

/// Edges that leave each person.
pub const DEGREE: i64 = 10;

/// Loads a network in which the edges of person `p` are those from `DEGREE * p` on, and returns their destinations.
pub async fn load(bucket: &std::sync::Arc<Bucket>, edges: i64) -> Vec<i64> {
    let persons = edges / DEGREE;
    let schema = StoreSchema::new()
        .with_vertices(VertexType::new("Person", "id", PropertyType::Int64))
        .with_edges(EdgeType::new("Person", "KNOWS", "Person").with_property("date", PropertyType::Int64));
    let store = bucket.create(schema, StoreOptions::default()).await.unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let targets: Vec<i64> = (0..edges).map(|_| random.random_range(0..persons)).collect();
    let vertices = batch([("id", ints(0..persons))]);
    let sources = ints((0..edges).map(|edge| edge / DEGREE));
    let rows = batch([("src", sources), ("dst", ints(targets.clone())), ("date", ints(0..edges))]);
    let load = BulkLoad::new().with_vertices("Person", futures::stream::iter([Ok(vertices)])).with_edges(
        "KNOWS",
        Ends::Indexes,
        futures::stream::iter([Ok(rows)]),
    );

    store.writer().await.unwrap().bulk_load(load).await.unwrap();
    targets
}

/// Counts requests of cold edge lookups, by both ends, in an open store; then of the same lookups again.
async fn lookups_cost_few_requests(edges: i64) {
    let bucket = Bucket::new();
    let targets = load(&bucket, edges).await;
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..20 {
        let cold = Bucket::over(bucket.memory.clone());
        let store = cold.open(StoreOptions::default()).await.unwrap();
        let view = store.latest().edges("KNOWS", Some(&["date"])).await.unwrap();
        assert_eq!(cold.requests(), Requests { gets: 1, lists: 1, ..Requests::default() }, "what is known");
        cold.slow_down();
        let edge = random.random_range(0..edges);
        let source = edge / DEGREE;
        let target = targets[edge as usize];
        let before = cold.requests();
        let found = view.lookup(source, target).await.unwrap();
        assert!(!found.neighbors.is_empty());

        let gets = cold.requests().gets - before.gets;
        let steps = cold.steps();
        assert!(gets <= 4 && steps <= 2, "{gets} reads in {steps} steps for an edge of {edges}");
        assert_eq!(cold.total(), before.gets + before.lists + gets, "reads, and nothing else");
        let after = cold.requests();
        view.lookup(source, target).await.unwrap();
        assert_eq!(view.of(Direction::Out, source).await.unwrap().neighbors.len() as i64, DEGREE);
        assert!(view.lookup_cached(source, target).is_some());
        assert_eq!(cold.requests(), after, "nothing is asked for twice");
    }
}

#[tokio::test]
async fn a_cold_lookup_is_few_reads_among_thousands_of_edges() {
    lookups_cost_few_requests(10_000).await;
}

#[tokio::test]
async fn a_cold_lookup_is_as_few_reads_among_a_million_edges() {
    lookups_cost_few_requests(1_000_000).await;
}

#[tokio::test]
async fn a_cold_lookup_is_as_few_reads_among_ten_million_edges() {
    lookups_cost_few_requests(10_000_000).await;
}

#[tokio::test]
async fn a_cold_lookup_in_several_bases_waits_as_little_as_in_one() {
    const BASES: i64 = 4;
    let bucket = Bucket::new();
    load(&bucket, 10_000).await;

    let store = bucket.open(StoreOptions::default()).await.unwrap();
    for base in 1..BASES {
        let more = batch([("src", ints([70])), ("dst", ints([base])), ("date", ints([base]))]);
        let more = BulkLoad::new().with_edges("KNOWS", Ends::Indexes, futures::stream::iter([Ok(more)]));
        store.writer().await.unwrap().bulk_load(more).await.unwrap();
    }

    let cold = Bucket::over(bucket.memory.clone());
    let store = cold.open(StoreOptions::default()).await.unwrap();
    let view = store.latest().edges("KNOWS", Some(&["date"])).await.unwrap();
    cold.slow_down();
    let before = cold.requests();
    assert!(!view.lookup(70, 1).await.unwrap().neighbors.is_empty());
    let gets = cold.requests().gets - before.gets;
    let steps = cold.steps();
    assert!(gets as i64 <= 4 * BASES && steps <= 2, "{gets} reads in {steps} steps");

    let cold = Bucket::over(bucket.memory.clone());
    let store = cold.open(StoreOptions::default()).await.unwrap();
    let view = store.latest().edges("KNOWS", None).await.unwrap();
    cold.slow_down();
    let degrees = view.degrees(Direction::Out, &[70]).await.unwrap();
    assert_eq!((degrees.value(0), cold.steps()), (DEGREE + BASES - 1, 1), "offsets of all at once");
}
