//! Readers during a compaction, reads of many properties by traversals, and exports into a bucket.

use std::sync::Arc;

use arrow::{
    array::AsArray,
    datatypes::{Int64Type, UInt32Type},
};
use futures::TryStreamExt;
use object_store::path::Path;
use stylobate_columnar::Source;
use stylobate_graph::{
    Direction, PropertyType,
    graphar::{AdjacencyOrder, Graph, GraphOptions, GraphWriteOptions, Strictness},
    store::{
        BulkLoad, CompactOptions, EdgeType, Ends, GraphStore, StoreOptions, StoreSchema, VertexIds,
        VertexType,
    },
};
use stylobate_storage::{Destination, Origin};

use crate::{
    bucket::Bucket,
    model::{batch, ints, texts},
};

const PERSONS: i64 = 400;
/// Edges that leave each person.
const DEGREE: i64 = 6;

/// Returns the destination of a person's n-th edge.
fn target(person: i64, n: i64) -> i64 {
    (person * 31 + n * 57 + 1) % PERSONS
}

/// Creates persons with names who follow one another since some day, in chunks of 10 persons.
async fn network(bucket: &Arc<Bucket>) -> GraphStore {
    let person =
        VertexType::new("Person", "id", PropertyType::Int64).with_property("name", PropertyType::String);
    let follows = EdgeType::new("Person", "FOLLOWS", "Person").with_property("day", PropertyType::Int64);
    let schema = StoreSchema::new().with_vertices(person).with_edges(follows);
    let options = StoreOptions::default().with_vertex_chunk_size(10).with_edge_chunk_size(60);
    let store = bucket.create(schema, options).await.unwrap();
    let names = texts((0..PERSONS).map(|person| format!("name {person}")));
    let persons = batch([("id", ints(0..PERSONS)), ("name", names)]);
    let edges = || (0..PERSONS).flat_map(|person| (0..DEGREE).map(move |n| (person, n)));
    let follows = batch([
        ("src", ints(edges().map(|(person, _)| person))),
        ("dst", ints(edges().map(|(person, n)| target(person, n)))),
        ("day", ints(edges().map(|(person, n)| person * DEGREE + n))),
    ]);

    let load = BulkLoad::new().with_vertices("Person", futures::stream::iter([Ok(persons)])).with_edges(
        "FOLLOWS",
        Ends::Keys,
        futures::stream::iter([Ok(follows)]),
    );
    store.writer().await.unwrap().bulk_load(load).await.unwrap();
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_the_writer_go_on_while_a_store_is_compacted() {
    let bucket = Bucket::new();
    let store = network(&bucket).await;
    let mut writer = store.writer().await.unwrap();
    let add = |day: i64| batch([("src", ints([7])), ("dst", ints([8])), ("day", ints([day]))]);
    let gone = batch([("src", ints([9])), ("dst", ints([target(9, 0)]))]);
    writer.add_edges("FOLLOWS", &add(-1), Ends::Keys).await.unwrap();
    writer.delete_edges("FOLLOWS", &gone, Ends::Keys).await.unwrap();
    writer.commit().await.unwrap();

    let before = store.latest();
    bucket.slow_down();
    let compaction = {
        let store = store.clone();
        tokio::spawn(async move { store.compact(&CompactOptions::default().with_force(true)).await })
    };

    let mut answers = 0;
    let mut commits = 0;
    let mut person = 0;
    while !compaction.is_finished() {
        let view = before.edges("FOLLOWS", Some(&["day"])).await.unwrap();
        let found = view.out_edges(person).await.unwrap();
        let extra = i64::from(person == 7) - i64::from(person == 9);
        assert_eq!(found.neighbors.len() as i64, DEGREE + extra, "person {person}");
        person = (person + 1) % PERSONS;
        answers += usize::from(!compaction.is_finished());

        if person % 10 == 0 && commits < 5 {
            writer.add_edges("FOLLOWS", &add(commits), Ends::Keys).await.unwrap();
            writer.commit().await.unwrap();
            commits += 1;
        }
    }

    assert!(!compaction.await.unwrap().unwrap().is_empty(), "something was compacted");
    assert!(answers >= 20 && commits >= 2, "{answers} answers and {commits} commits meanwhile");
    let after = store.refresh().await.unwrap();
    let of_7 = after.edges("FOLLOWS", None).await.unwrap().out_edges(7).await.unwrap();
    assert_eq!(of_7.neighbors.len() as i64, DEGREE + 1 + commits, "no commit was lost");
    let of_7 = before.edges("FOLLOWS", None).await.unwrap().out_edges(7).await.unwrap();
    assert_eq!(of_7.neighbors.len() as i64, DEGREE + 1, "and none is seen before its time");
    assert!(after.verify().await.flaws.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn properties_are_read_for_the_rows_that_remain() {
    let bucket = Bucket::new();
    network(&bucket).await;
    let cold = Bucket::over(bucket.memory.clone());
    let store = cold.open(StoreOptions::default()).await.unwrap();
    let starts: Vec<i64> = (0..PERSONS).collect();
    let newest = |rows| {
        let start = store.latest().start("Person", VertexIds::Indexes(starts.clone()));
        start
            .out("FOLLOWS", "Person")
            .columns(["day"])
            .top(rows, "day", true)
            .select(["day", "Person_1.name"])
    };

    let found = newest(3).collect().await.unwrap();
    let days = found.column(0).as_primitive::<Int64Type>();
    assert_eq!(days.values().to_vec(), [2_399, 2_398, 2_397]);

    let names = found.column(1).as_string::<i32>();
    for row in 0..3 {
        let n = DEGREE - 1 - row as i64;
        assert_eq!(names.value(row), format!("name {}", target(PERSONS - 1, n)));
    }
    let read = store.stats();
    assert_eq!(read.edge_columns.decoded as i64, 2 * PERSONS / 10, "neighbours and days of all");
    assert_eq!(read.vertex_columns.decoded, 3, "names of the three chunks that three persons are in");

    let before = cold.requests();
    assert_eq!(newest(3).collect().await.unwrap(), found);
    assert_eq!(cold.requests(), before, "and all of it is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_into_a_bucket_has_lists_of_both_sides() {
    let bucket = Bucket::new();
    let store = network(&bucket).await;
    let place = Destination::Object {
        origin: Origin::new("bucket", bucket.clone()),
        path: Path::from("lake/export"),
    };
    let snapshot = store.latest();
    let written = snapshot.export_graphar(place, "network", GraphWriteOptions::default());
    assert_eq!(written.await.unwrap().edges as i64, PERSONS * DEGREE);

    let (cache, source) = bucket.source().await;
    let Source::Store { store, .. } = source else { panic!("a store") };
    let file = Source::Store { store, pattern: "lake/export/network.graph.yml".to_owned() };
    let strict = GraphOptions::default().with_strictness(Strictness::Strict);
    let graph = Graph::open(&cache, file, strict).await.unwrap();

    let edges = graph.edges("Person", "FOLLOWS", "Person").unwrap();
    for (direction, order) in
        [(Direction::Out, AdjacencyOrder::OrderedBySource), (Direction::In, AdjacencyOrder::OrderedByDest)]
    {
        let rows: usize = edges
            .clone()
            .by(order)
            .unwrap()
            .stream()
            .try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) })
            .await
            .unwrap();

        assert_eq!(rows as i64, PERSONS * DEGREE);
        let found = edges.neighbors(&[8, 17], direction).await.unwrap();
        let mut of_8: Vec<i64> = (0..PERSONS)
            .flat_map(|person| (0..DEGREE).map(move |n| (person, target(person, n))))
            .filter_map(|(from, to)| match direction {
                Direction::Out => (from == 8).then_some(to),
                Direction::In => (to == 8).then_some(from),
            })
            .collect();

        of_8.sort_unstable();
        let positions = found.column(0).as_primitive::<UInt32Type>().values();
        let neighbors = found.column(1).as_primitive::<Int64Type>().values();
        let mut read: Vec<i64> =
            neighbors.iter().zip(positions).filter(|(_, at)| **at == 0).map(|(to, _)| *to).collect();
        read.sort_unstable();
        assert_eq!(read, of_8);
    }
}
