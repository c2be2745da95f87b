//! How long warm lookups take: run with `--ignored --nocapture`, best in a release build.

use std::time::Instant;

use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_graph::{
    BulkLoad, Direction, EdgeType, Ends, PropertyType, StoreOptions, StoreSchema, VertexIds, VertexType,
};

use crate::{
    bucket::Bucket,
    model::{batch, ints},
};

const DEGREE: i64 = 10;

/// Nanoseconds a call, of many.
fn timed(calls: u32, mut call: impl FnMut(u32)) -> f64 {
    (0..calls / 10).for_each(&mut call);
    let start = Instant::now();
    (0..calls).for_each(call);
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

async fn measure(edges: i64) {
    let persons = edges / DEGREE;
    let schema = StoreSchema::new()
        .with_vertices(
            VertexType::new("Person", "id", PropertyType::Int64).with_property("age", PropertyType::Int64),
        )
        .with_edges(EdgeType::new("Person", "KNOWS", "Person").with_property("date", PropertyType::Int64));
    let store = Bucket::new().create(schema, StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let vertices = batch([("id", ints(0..persons)), ("age", ints(0..persons))]);
    let targets: Vec<i64> = (0..edges).map(|_| random.random_range(0..persons)).collect();
    let rows = batch([
        ("src", ints((0..edges).map(|edge| edge / DEGREE))),
        ("dst", ints(targets.clone())),
        ("date", ints((0..edges).map(|edge| edge * 7_919 % 1_000_003))),
    ]);
    let load = BulkLoad::new().with_vertices("Person", futures::stream::iter([Ok(vertices)])).with_edges(
        "KNOWS",
        Ends::Indexes,
        futures::stream::iter([Ok(rows)]),
    );
    writer.bulk_load(load).await.unwrap();
    let latest = store.latest();
    let bare = latest.edges("KNOWS", Some(&[])).await.unwrap();
    let dated = latest.edges("KNOWS", Some(&["date"])).await.unwrap();
    let all: Vec<i64> = (0..persons).collect();
    for direction in [Direction::Out, Direction::In] {
        dated.expand(direction, &all).await.unwrap();
    }
    let ages = latest.vertices("Person", Some(&["age"])).await.unwrap();
    ages.take(&all).await.unwrap();
    let some: Vec<i64> = (0..100_000).map(|_| random.random_range(0..persons)).collect();
    let at = |call: u32| some[call as usize % some.len()];
    println!("{edges} edges");
    for (name, view) in [("bare", &bare), ("one column", &dated)] {
        let out = timed(100_000, |call| drop(view.of_cached(Direction::Out, at(call)).unwrap().unwrap()));
        let into = timed(100_000, |call| drop(view.of_cached(Direction::In, at(call)).unwrap().unwrap()));
        let lookup = timed(100_000, |call| {
            let edge = at(call) * DEGREE;
            let found = view.lookup_cached(edge / DEGREE, targets[edge as usize]).unwrap().unwrap();
            assert!(!found.neighbors.is_empty());
        });
        let thousand = &some[..1_000];
        let expand = timed(200, |_| drop(view.expand_cached(Direction::Out, thousand).unwrap().unwrap()));
        println!(
            "  {name}: out {out:.0} ns, in {into:.0} ns, lookup {lookup:.0} ns, 1,000 at once {expand:.0} ns"
        );
    }
    let two = latest
        .start("Person", VertexIds::Indexes(vec![1]))
        .out("KNOWS", None)
        .out("KNOWS", None)
        .columns(["date"])
        .top(20, "date", true)
        .select(["date", "Person_2.age"]);
    let two = two.prepare().await.unwrap();
    let ids: Vec<VertexIds> =
        some.iter().take(1_000).map(|person| VertexIds::Indexes(vec![*person])).collect();
    let hops = timed(2_000, |call| drop(two.run_cached(&ids[call as usize % ids.len()]).unwrap().unwrap()));
    println!("  two hops, the first 20 of {}: {hops:.0} ns", DEGREE * DEGREE);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures"]
async fn warm_lookups_are_flat() {
    for edges in [10_000, 1_000_000, 10_000_000] {
        measure(edges).await;
    }
}
