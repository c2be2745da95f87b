//! Refused operations, and their error messages.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use object_store::{ObjectStoreExt, path::Path};
use stylobate_graph::{
    Error, PropertyType,
    store::{Ends, SchemaChange, StoreOptions, StoreProperty, StoreSchema, VertexIds, VertexType},
};

use crate::{
    bucket::Bucket,
    model::{batch, ints, schema, texts},
};

#[tokio::test]
async fn rows_that_cannot_be_are_refused_with_type_column_and_row_and_nothing_is_taken() {
    let store = Bucket::new().create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([1, 2]))])).await.unwrap();
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
    let wrong = [
        (batch([("id", ints([3, 1]))]), "column id, row 1"),
        (batch([("id", ints([3, 4, 3]))]), "column id, row 2"),
        (batch([("id", nulls)]), "column id, row 1"),
        (batch([("age", ints([3]))]), "column id"),
        (batch([("id", texts(["x"]))]), "column id"),
        (batch([("id", ints([3])), ("height", ints([3]))]), "column height"),
        (batch([("id", ints([3])), ("age", texts(["old"]))]), "column age"),
    ];

    for (rows, says) in wrong {
        let error = writer.add_vertices("Person", &rows).await.unwrap_err().to_string();
        assert!(error.starts_with("vertices of type Person") && error.contains(says), "{error}");
    }
    let dangling = batch([("src", ints([1, 1])), ("dst", ints([2, 9]))]);
    for ends in [Ends::Keys, Ends::Indexes] {
        let error = writer.add_edges("KNOWS", &dangling, ends).await.unwrap_err();
        let says = error.to_string();
        let column = if ends == Ends::Keys { "column dst, row 1" } else { "column dst, row 0" };
        assert!(says.contains("Person_KNOWS_Person") && says.contains(column), "{says}");
        assert!(matches!(error, Error::Row { .. }));
    }

    assert!(matches!(writer.add_vertices("Dog", &dangling).await, Err(Error::NoSuchVertexType { .. })));
    assert!(matches!(
        writer.add_edges("EATS", &dangling, Ends::Keys).await,
        Err(Error::NoSuchEdgeType { .. })
    ));
    let nobody = writer.delete_vertices("Person", &VertexIds::Keys(ints([1, 7]))).await.unwrap_err();
    assert!(nobody.to_string().contains("key 7"), "{nobody}");
    let update = batch([("id", ints([7])), ("age", ints([1]))]);
    writer.update_vertices("Person", &update).await.unwrap_err();

    let update = batch([("id", ints([1])), ("_index", ints([1]))]);
    writer.update_vertices("Person", &update).await.unwrap_err();
    writer.commit().await.unwrap();
    assert_eq!(store.latest().vertex_count("Person").unwrap(), 2);
    assert_eq!(store.latest().edge_count("KNOWS").unwrap(), 0);
}

#[tokio::test]
async fn a_schema_grows_and_what_was_there_has_null() {
    let bucket = Bucket::new();
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([1]))])).await.unwrap();
    writer.commit().await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([2]))])).await.unwrap();
    let city = StoreProperty::new("city", PropertyType::String);
    let grow = SchemaChange::AddVertexProperty { vertex_type: "Person".to_owned(), property: city };
    writer.alter([grow.clone()]).unwrap();
    assert!(matches!(writer.alter([grow]), Err(Error::Schema { .. })), "it is there already");

    let dog = VertexType::new("Dog", "name", PropertyType::String);
    writer.alter([SchemaChange::AddVertexType(dog)]).unwrap();
    writer.add_vertices("Dog", &batch([("name", texts(["Rex"]))])).await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([3])), ("city", texts(["Bern"]))])).await.unwrap();
    writer.commit().await.unwrap();
    for store in [store, bucket.open(StoreOptions::default()).await.unwrap()] {
        let persons = store.latest().vertices("Person", Some(&["city"])).await.unwrap();
        let cities = persons.by_keys(&ints([1, 2, 3])).await.unwrap();
        let expected: ArrayRef = Arc::new(StringArray::from(vec![None, None, Some("Bern")]));
        assert_eq!(cities.column(1), &expected);
        assert_eq!(store.latest().vertex_count("Dog").unwrap(), 1);
        let before = store.snapshot(Some(2)).await.unwrap();
        assert!(matches!(
            before.vertices("Person", Some(&["city"])).await,
            Err(Error::NoSuchProperty { .. })
        ));
    }
}

#[tokio::test]
async fn schemas_that_cannot_be_are_refused() {
    let person = || VertexType::new("Person", "id", PropertyType::Int64);
    let wrong = [
        StoreSchema::new().with_vertices(VertexType::new("a/b", "id", PropertyType::Int64)),
        StoreSchema::new().with_vertices(VertexType::new("A", "id", PropertyType::Double)),
        StoreSchema::new().with_vertices(person()).with_vertices(person()),
        StoreSchema::new().with_vertices(person().with_property("id", PropertyType::Int64)),
        StoreSchema::new().with_edges(stylobate_graph::store::EdgeType::new("Person", "KNOWS", "Person")),
    ];

    for schema in wrong {
        assert!(Bucket::new().create(schema, StoreOptions::default()).await.is_err());
    }
}

#[tokio::test]
async fn what_is_missing_or_broken_is_named() {
    let bucket = Bucket::new();
    let none = bucket.open(StoreOptions::default()).await.unwrap_err();
    assert!(matches!(&none, Error::NoSuchStore { .. }), "{none}");
    let store = bucket.create(schema(), StoreOptions::default()).await.unwrap();
    let twice = bucket.create(schema(), StoreOptions::default()).await.unwrap_err();
    assert!(matches!(&twice, Error::StoreExists { store } if store.contains("lake/graph")), "{twice}");
    assert!(matches!(store.snapshot(Some(7)).await, Err(Error::NoSuchStore { .. })));
    let mut writer = store.writer().await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([1]))])).await.unwrap();
    writer.commit().await.unwrap();
    writer.add_vertices("Person", &batch([("id", ints([2]))])).await.unwrap();
    writer.commit().await.unwrap();

    let record = |version: u64| Path::from(format!("lake/graph/_log/{version:020}.json"));
    // The record whose inline data the newest record refers to.
    bucket.memory.put(&record(2), "{\"format\": 1".into()).await.unwrap();
    let opened = bucket.open(StoreOptions::default()).await.unwrap();
    let broken = opened.latest().vertices("Person", None).await.map(drop).unwrap_err();
    assert!(
        matches!(&broken, Error::Data { file, .. } if file.ends_with("00000000000000000002.json")),
        "{broken}"
    );
    bucket.memory.delete(&record(2)).await.unwrap();

    let opened = bucket.open(StoreOptions::default()).await.unwrap();
    let missing = opened.latest().vertices("Person", None).await.map(drop).unwrap_err();
    assert!(
        matches!(&missing, Error::Missing { file } if file.ends_with("00000000000000000002.json")),
        "{missing}"
    );
    bucket.memory.put(&record(3), "[]".into()).await.unwrap();
    let broken = bucket.open(StoreOptions::default()).await.unwrap_err();
    assert!(
        matches!(&broken, Error::Data { file, .. } if file.ends_with("00000000000000000003.json")),
        "{broken}"
    );
}
