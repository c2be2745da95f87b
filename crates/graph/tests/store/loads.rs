//! Failing loads, and loads that add types.

use arrow::array::AsArray;
use futures::{TryStreamExt, stream};
use object_store::ObjectStore;
use stylobate_graph::{
    Direction, Error, PropertyType,
    store::{BulkLoad, EdgeType, Ends, SchemaChange, StoreOptions, StoreProperty, VertexType},
};

use crate::{
    bucket::Bucket,
    model::{Person, batch, ints, schema, texts},
    upkeep::{check, loaded, medium, persons},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_load_with_rows_that_cannot_be_taken_loads_nothing_and_leaves_nothing() {
    let bucket = Bucket::new();
    let (store, model) = loaded(&bucket, medium()).await;
    let files = || async { bucket.memory.list(None).try_collect::<Vec<_>>().await.unwrap().len() };
    let mut writer = store.writer().await.unwrap();
    let before = files().await;
    let vertices = |keys: Vec<i64>| {
        BulkLoad::new().with_vertices("Person", stream::iter([Ok(persons(keys.into_iter()))]))
    };

    let edge = |to: i64| stream::iter([Ok(batch([("src", ints([1_000])), ("dst", ints([to]))]))]);
    let failed = |error: std::result::Result<_, Error>| {
        error.map(|_: stylobate_graph::store::Loaded| ()).unwrap_err().to_string()
    };
    let said = failed(writer.bulk_load(vertices(vec![5, 6, 5])).await);
    assert!(said.contains("Person") && said.contains("row 2: the key 5 is that of row 0 too"), "{said}");
    let said = failed(writer.bulk_load(vertices(vec![5, 1_000])).await);
    assert!(said.contains("there is a vertex with key 1000 already"), "{said}");

    let said = failed(writer.bulk_load(vertices(vec![5]).with_edges("KNOWS", Ends::Keys, edge(6))).await);
    assert!(said.contains("no vertex of type Person with key 6"), "{said}");
    let said =
        failed(writer.bulk_load(vertices(vec![5]).with_edges("KNOWS", Ends::Indexes, edge(9_999))).await);
    assert!(said.contains("no vertex of type Person with index 1000"), "{said}");
    let broken = || stream::iter([Err(Error::Ended { reason: "the source ended".to_owned() })]);
    let said = failed(writer.bulk_load(vertices(vec![5]).with_edges("KNOWS", Ends::Keys, broken())).await);
    assert!(said.contains("the source ended"), "{said}");

    let said = failed(writer.bulk_load(vertices(vec![5]).with_vertices("Person", broken())).await);
    assert!(said.contains("twice"), "{said}");
    check(&model, &store.refresh().await.unwrap()).await;
    assert_eq!(files().await, before);
    let load = vertices(vec![5]).with_edges("KNOWS", Ends::Keys, edge(5));
    assert_eq!(writer.bulk_load(load).await.unwrap().vertices, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_come_with_a_load_are_there_with_it_or_not_at_all() {
    let bucket = Bucket::new();
    let (store, mut model) = loaded(&bucket, medium()).await;
    let mut writer = store.writer().await.unwrap();
    let files = || async { bucket.memory.list(None).try_collect::<Vec<_>>().await.unwrap().len() };
    let before = (files().await, store.latest().version(), store.latest().schema());
    let load = |towns: [&str; 2]| {
        let email = StoreProperty::new("email", PropertyType::String);
        let changes = [
            SchemaChange::AddVertexType(VertexType::new("Town", "name", PropertyType::String)),
            SchemaChange::AddEdgeType(EdgeType::new("Person", "LIVES_IN", "Town")),
            SchemaChange::AddVertexProperty { vertex_type: "Person".to_owned(), property: email },
        ];
        let person = batch([("id", ints([5_000])), ("email", texts(["a@b"]))]);
        let lives = batch([("src", ints([1_000, 5_000])), ("dst", texts(towns))]);

        BulkLoad::new()
            .with_changes(changes)
            .with_vertices("Town", stream::iter([Ok(batch([("name", texts(["Ur", "Uruk"]))]))]))
            .with_vertices("Person", stream::iter([Ok(person)]))
            .with_edges("LIVES_IN", Ends::Keys, stream::iter([Ok(lives)]))
    };

    let said = writer.bulk_load(load(["Ur", "Eridu"])).await.unwrap_err().to_string();
    assert!(said.contains("no vertex of type Town with key \"Eridu\""), "{said}");
    let now = store.refresh().await.unwrap();
    assert_eq!((files().await, now.version(), now.schema()), before);
    check(&model, &now).await;

    let done = writer.bulk_load(load(["Uruk", "Uruk"])).await.unwrap();
    assert_eq!((done.version, done.vertices, done.edges), (before.1 + 1, 3, 2));
    let index = model.next_person;
    model.persons.insert(5_000, Person { index, name: None, age: None });
    model.next_person += 1;
    let store = bucket.open(medium()).await.unwrap();
    check(&model, &store.latest()).await;
    let emails = store.latest().vertices("Person", Some(&["email"])).await.unwrap();
    let emails = emails.take(&[index - 1, index]).await.unwrap();
    assert_eq!(emails.column(1).as_string::<i32>().iter().collect::<Vec<_>>(), [None, Some("a@b")]);

    let lives = store.latest().edges("LIVES_IN", None).await.unwrap();
    let found = lives.of(Direction::In, 1).await.unwrap();
    assert_eq!(found.neighbors.len(), 2);
    // The rows exist now: the same load again is an error that changes nothing.
    let mut writer = store.writer().await.unwrap();
    let said = writer.bulk_load(load(["Ur", "Ur"])).await.unwrap_err();
    assert!(matches!(said, Error::Schema { .. }), "{said}");
    assert_eq!(store.refresh().await.unwrap().version(), done.version + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_more_text_than_a_chunk_takes_are_found_again() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let urls: Vec<String> = (0..30_000).map(|n| format!("/{:0>60}", n * 7_919 % 30_011)).collect();
    let posts = batch([("url", texts(&urls))]);
    let mut writer = store.writer().await.unwrap();
    writer.bulk_load(BulkLoad::new().with_vertices("Post", stream::iter([Ok(posts)]))).await.unwrap();
    let again = Bucket::over(bucket.memory.clone()).open(StoreOptions::default()).await.unwrap();
    let all = again.latest().vertices("Post", None).await.unwrap();
    assert_eq!(all.indexes_of_all(&texts(&urls)).await.unwrap(), (0..30_000).collect::<Vec<i64>>());
    assert_eq!(again.latest().verify().await.flaws, Vec::<String>::new());
}
