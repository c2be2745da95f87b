//! Traversals of several hops, and scans, compared with plain loops.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, RecordBatch},
    compute::concat_batches,
    datatypes::{Int64Type, SchemaRef, UInt32Type},
};
use futures::{Stream, TryStreamExt};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::col;
use stylobate_graph::{
    Error, PropertyType, Result,
    store::{EdgeType, Ends, GraphStore, StoreOptions, StoreSchema, VertexIds, VertexType},
};

use crate::{
    bucket::Bucket,
    model::{batch, ints, texts},
};

const PERSONS: i64 = 30;
const POSTS: i64 = 90;

/// Author of each post, and its likes with their dates.
struct Network {
    store: GraphStore,
    bucket: Arc<Bucket>,
    creators: Vec<i64>,
    likes: Vec<(i64, i64, i64)>,
}

async fn network() -> Network {
    let schema = StoreSchema::new()
        .with_vertices(
            VertexType::new("Person", "id", PropertyType::Int64).with_property("name", PropertyType::String),
        )
        .with_vertices(
            VertexType::new("Post", "id", PropertyType::Int64).with_property("date", PropertyType::Int64),
        )
        .with_edges(EdgeType::new("Post", "HAS_CREATOR", "Person"))
        .with_edges(EdgeType::new("Person", "LIKES", "Post").with_property("date", PropertyType::Int64))
        .with_edges(EdgeType::new("Person", "LIKES", "Person"));

    let bucket = Bucket::new();
    let store = bucket.create(schema, StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut random = StdRng::seed_from_u64(3);
    let names = texts((0..PERSONS).map(|person| format!("name {person}")));
    let persons = batch([("id", ints((0..PERSONS).map(|person| person + 1_000))), ("name", names)]);
    writer.add_vertices("Person", &persons).await.unwrap();
    let dates = ints((0..POSTS).map(|post| post * 37 % POSTS));
    writer.add_vertices("Post", &batch([("id", ints(0..POSTS)), ("date", dates)])).await.unwrap();

    let creators: Vec<i64> = (0..POSTS).map(|_| random.random_range(0..PERSONS)).collect();
    let created = batch([("src", ints(0..POSTS)), ("dst", ints(creators.clone()))]);
    writer.add_edges("HAS_CREATOR", &created, Ends::Indexes).await.unwrap();
    writer.commit().await.unwrap();
    let mut likes = Vec::new();
    // Two commits, so that rows of two deltas are merged.
    for commit in 0..2 {
        let more: Vec<(i64, i64, i64)> = (0..200)
            .map(|at| {
                (
                    random.random_range(0..PERSONS),
                    random.random_range(0..POSTS),
                    commit * 1_000 + at * 7 % 200,
                )
            })
            .collect();

        let rows = batch([
            ("src", ints(more.iter().map(|like| like.0))),
            ("dst", ints(more.iter().map(|like| like.1))),
            ("date", ints(more.iter().map(|like| like.2))),
        ]);
        writer.add_edges("Person_LIKES_Post", &rows, Ends::Indexes).await.unwrap();
        writer.commit().await.unwrap();
        likes.extend(more);
    }

    Network { store, bucket, creators, likes }
}

fn column(batch: &RecordBatch, name: &str) -> Vec<i64> {
    batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().values().to_vec()
}

#[tokio::test]
async fn the_latest_likes_of_somebodys_posts_are_found_in_one_call() {
    let network = network().await;
    for start in [0, 7, 29] {
        let traversal = network
            .store
            .latest()
            .start("Person", VertexIds::Keys(ints([start + 1_000])))
            .in_("HAS_CREATOR", "Post")
            .in_("LIKES", "Person")
            .columns(["date"])
            .top(20, "date", true)
            .select([
                "date",
                "LIKES.date",
                "Post.id",
                "Post.date",
                "Person_2.name",
                "Person_0.id",
                "Person_2._index",
            ]);

        let found = traversal.collect().await.unwrap();
        let mut expected: Vec<(i64, i64, i64)> = network
            .likes
            .iter()
            .filter(|(_, post, _)| network.creators[*post as usize] == start)
            .copied()
            .collect();
        expected.sort_by_key(|(_, _, date)| std::cmp::Reverse(*date));
        expected.truncate(20);
        assert_eq!(column(&found, "date"), expected.iter().map(|like| like.2).collect::<Vec<_>>());
        assert_eq!(column(&found, "date"), column(&found, "LIKES.date"));

        let names = found.column_by_name("Person_2.name").unwrap().as_string::<i32>();
        for row in 0..found.num_rows() {
            let fan = column(&found, "Person_2._index")[row];
            let post = column(&found, "Post.id")[row];
            assert!(network.likes.contains(&(fan, post, column(&found, "date")[row])));
            assert_eq!(names.value(row), format!("name {fan}"));
            assert_eq!(column(&found, "Post.date")[row], post * 37 % POSTS);
            assert_eq!(column(&found, "Person_0.id")[row], start + 1_000);
        }

        let before = network.bucket.total();
        let prepared = traversal.prepare().await.unwrap();
        let again = prepared.run_cached(&VertexIds::Indexes(vec![start])).unwrap().unwrap();
        assert_eq!(again, found);
        assert_eq!(again.schema_ref(), prepared.schema());
        assert_eq!(network.bucket.total(), before, "nothing was asked for");
    }
}

#[tokio::test]
async fn rows_are_ordered_by_properties_of_vertices_too_and_say_where_they_began() {
    let network = network().await;
    let traversal = network
        .store
        .latest()
        .start("Person", VertexIds::Indexes(vec![3, 4, 3]))
        .in_("HAS_CREATOR", None)
        .named("written")
        .top(5, "date", false)
        .select(["position", "written.date", "written._index"]);

    let found = traversal.collect().await.unwrap();
    let mut expected: Vec<(i64, i64)> = [3, 4, 3]
        .iter()
        .flat_map(|person| (0..POSTS).filter(|post| network.creators[*post as usize] == *person))
        .map(|post| (post * 37 % POSTS, post))
        .collect();
    expected.sort_unstable();
    expected.truncate(5);

    let rows: Vec<(i64, i64)> =
        column(&found, "written.date").into_iter().zip(column(&found, "written._index")).collect();
    assert_eq!(rows, expected);

    let positions = found.column(0).as_primitive::<UInt32Type>();
    for (position, (_, post)) in positions.values().iter().zip(rows) {
        assert_eq!(network.creators[post as usize], [3, 4, 3][*position as usize]);
    }

    let text = traversal.explain().await.unwrap();
    for says in
        ["start Person: 3 indexes", "in HAS_CREATOR to written", "top 5", "at most 5 rows", "gathered"]
    {
        assert!(text.contains(says), "{says} in\n{text}");
    }
}

#[tokio::test]
async fn without_a_selection_rows_have_their_start_edges_columns_and_end() {
    let network = network().await;
    let found = network
        .store
        .latest()
        .start("Person", VertexIds::Indexes(vec![1]))
        .out("LIKES", "Post")
        .columns(["date"])
        .collect()
        .await
        .unwrap();

    let names: Vec<&str> = found.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["position", "date", "Post._index"]);
    assert_eq!(found.num_rows(), network.likes.iter().filter(|like| like.0 == 1).count());
    let none = network.store.latest().start("Person", VertexIds::Indexes(Vec::new())).out("LIKES", "Post");
    assert_eq!(none.collect().await.unwrap().num_rows(), 0);
}

#[tokio::test]
async fn names_that_are_not_there_are_errors_that_say_which_there_are() {
    let network = network().await;
    let latest = network.store.latest();
    let start = |key: i64| latest.start("Person", VertexIds::Keys(ints([key])));
    let failed = |result: Result<RecordBatch>| result.unwrap_err();
    let error = failed(start(1_000).out("LIKES", None).collect().await);
    assert!(
        matches!(&error, Error::NoSuchEdgeType { available, .. } if available.contains("Person_LIKES_Post"))
    );

    let error = failed(start(1_000).out("HAS_CREATOR", None).collect().await);
    assert!(error.to_string().contains("HAS_CREATOR out of Person"), "{error}");
    let error = failed(start(1_000).out("LIKES", "Post").columns(["when"]).collect().await);
    assert!(matches!(&error, Error::NoSuchProperty { property, .. } if property == "when"), "{error}");
    let error = failed(start(1_000).out("LIKES", "Post").select(["Dog.name"]).collect().await);
    assert!(error.to_string().contains("Person, Post, LIKES"), "{error}");
    let error = failed(start(5).out("LIKES", "Post").collect().await);
    assert!(matches!(&error, Error::NoSuchVertex { vertex, .. } if vertex.contains("key 5")), "{error}");

    let error = failed(latest.start("Person", VertexIds::Indexes(vec![99])).collect().await);
    assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
}

async fn collected((schema, batches): (SchemaRef, impl Stream<Item = Result<RecordBatch>>)) -> RecordBatch {
    let batches: Vec<RecordBatch> = batches.try_collect().await.unwrap();
    concat_batches(&schema, &batches).unwrap()
}

#[tokio::test]
async fn scans_have_all_rows_or_those_that_a_filter_leaves() {
    let network = network().await;
    let mut writer = network.store.writer().await.unwrap();
    writer.delete_vertices("Person", &VertexIds::Indexes(vec![5])).await.unwrap();
    let renamed = batch([("_index", ints([6])), ("name", texts(["somebody"]))]);
    writer.update_vertices("Person", &renamed).await.unwrap();
    writer.commit().await.unwrap();
    let latest = network.store.latest();
    let all = collected(latest.scan_vertices("Person", None, None).await.unwrap()).await;
    assert_eq!(all.num_rows() as i64, PERSONS - 1);

    let filter = col("name").eq("somebody");
    let one = collected(latest.scan_vertices("Person", Some(&["id"]), Some(&filter)).await.unwrap()).await;
    assert_eq!((column(&one, "_index"), column(&one, "id"), one.num_columns()), (vec![6], vec![1_006], 2));
    let filter = col("date").gt_eq(1_000);
    let edges = latest.scan_edges("Person_LIKES_Post", Some(&[]), Some(&filter)).await.unwrap();
    let edges = collected(edges).await;
    let mut found: Vec<(i64, i64)> = column(&edges, "src").into_iter().zip(column(&edges, "dst")).collect();
    let mut expected: Vec<(i64, i64)> = network
        .likes
        .iter()
        .filter(|like| like.2 >= 1_000 && like.0 != 5)
        .map(|like| (like.0, like.1))
        .collect();

    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(edges.column(0).null_count(), 0);
}
