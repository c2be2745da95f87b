//! Refused operations, and their error messages.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, ListArray, StringArray},
    datatypes::Date32Type,
};
use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use stylobate_graph::{
    Error, PropertyType,
    store::{
        BulkLoad, CompactOptions, EdgeType, Ends, SchemaChange, StoreOptions, StoreProperty, StoreSchema,
        VertexIds, VertexType,
    },
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
        StoreSchema::new().with_edges(EdgeType::new("Person", "KNOWS", "Person")),
    ];

    for schema in wrong {
        assert!(Bucket::new().create(schema, StoreOptions::default()).await.is_err());
    }
}

fn list(item: PropertyType) -> PropertyType {
    PropertyType::List(Box::new(item))
}

/// Returns properties that GraphAr cannot represent, and what their errors name.
fn unwritable_properties() -> Vec<(StoreProperty, &'static str)> {
    let property = |name: &str, of| StoreProperty::new(name, of);
    vec![
        (property("days", list(PropertyType::Date)), "list<date>"),
        (property("flags", list(PropertyType::Bool)), "list<bool>"),
        (property("times", list(PropertyType::Timestamp)), "list<timestamp>"),
        (property("matrix", list(list(PropertyType::Int64))), "matrix"),
        (property("a##b", PropertyType::String), "a##b"),
        (property("a'b\"c", PropertyType::Int64), "a'b"),
    ]
}

fn is_unwritable(error: &Error, says: &str) -> bool {
    matches!(error, Error::Unwritable { .. }) && error.to_string().contains(says)
}

/// A store took them, and its compactions and exports failed ever after.
#[tokio::test(flavor = "multi_thread")]
async fn properties_that_no_base_can_have_are_refused_before_anything_is_written() {
    let person = || VertexType::new("Person", "id", PropertyType::Int64);
    let knows = || EdgeType::new("Person", "KNOWS", "Person");
    let of_person = |property| SchemaChange::AddVertexProperty { vertex_type: "Person".to_owned(), property };
    let of_knows = |property| SchemaChange::AddEdgeProperty { edge_type: "KNOWS".to_owned(), property };
    let existing = Bucket::new();
    let store = existing.create(schema(), StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let version = writer.snapshot().version();

    for (property, says) in unwritable_properties() {
        let StoreProperty { name, property_type } = property.clone();
        let vertices = person().with_property(&name, property_type.clone());
        let edges = knows().with_property(&name, property_type);
        for wrong in [
            StoreSchema::new().with_vertices(vertices.clone()),
            StoreSchema::new().with_vertices(person()).with_edges(edges.clone()),
        ] {
            let bucket = Bucket::new();
            let error = bucket.create(wrong, StoreOptions::default()).await.unwrap_err();
            assert!(is_unwritable(&error, says), "{name}: {error}");
            assert!(bucket.memory.list(None).try_collect::<Vec<_>>().await.unwrap().is_empty());
        }

        let new_vertices = VertexType { name: "Dog".to_owned(), ..vertices };
        let new_edges = EdgeType { name: "LOVES".to_owned(), ..edges };
        for change in [
            of_person(property.clone()),
            of_knows(property),
            SchemaChange::AddVertexType(new_vertices),
            SchemaChange::AddEdgeType(new_edges),
        ] {
            let error = writer.alter([change.clone()]).unwrap_err();
            assert!(is_unwritable(&error, says), "{name}: {error}");
            let error = writer.bulk_load(BulkLoad::new().with_changes([change])).await.unwrap_err();
            assert!(is_unwritable(&error, says), "{name}: {error}");
        }
    }

    assert!(!writer.has_pending());
    assert_eq!(store.refresh().await.unwrap().version(), version);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_too_long_for_the_files_of_a_base_are_refused() {
    let long = "x".repeat(100);
    let vertices = VertexType::new(&long, "id", PropertyType::Int64);
    let schema = StoreSchema::new().with_vertices(vertices);
    let edges = |length: usize| EdgeType::new(&long, "y".repeat(length), &long);
    let error = Bucket::new().create(schema.clone().with_edges(edges(44)), StoreOptions::default()).await;
    let error = error.unwrap_err();
    assert!(is_unwritable(&error, "is too long"), "{error}");
    Bucket::new().create(schema.with_edges(edges(43)), StoreOptions::default()).await.unwrap();
}

/// Earlier programs took such properties: their stores are read and written as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_a_property_that_no_base_can_have_is_read_written_and_altered() {
    let bucket = Bucket::new();
    let person = VertexType::new("Person", "id", PropertyType::Int64);
    let schema = StoreSchema::new().with_vertices(person.with_property("days", list(PropertyType::Int64)));
    bucket.create(schema, StoreOptions::default()).await.unwrap();
    let record = Path::from("lake/graph/_log/00000000000000000000.json");
    let bytes = bucket.memory.get(&record).await.unwrap().bytes().await.unwrap();
    let text = std::str::from_utf8(&bytes).unwrap().replace("list<int64>", "list<date>");
    let (text, _) = text.rsplit_once(",\"crc32\":").unwrap();
    let signed = format!("{text},\"crc32\":\"{:08x}\"}}", crc32fast::hash(text.as_bytes()));
    bucket.memory.put(&record, signed.into()).await.unwrap();

    let days: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Date32Type, _, _>([Some(vec![Some(1), None]), None]));
    let store = bucket.open(StoreOptions::default()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let persons = batch([("id", ints([1, 2])), ("days", days.clone())]);
    writer.add_vertices("Person", &persons).await.unwrap();
    writer.commit().await.unwrap();

    let add = |property| SchemaChange::AddVertexProperty { vertex_type: "Person".to_owned(), property };
    for (property, says) in unwritable_properties().into_iter().skip(1) {
        let error = writer.alter([add(property)]).unwrap_err();
        assert!(is_unwritable(&error, says), "{error}");
    }
    writer.alter([add(StoreProperty::new("city", PropertyType::String))]).unwrap();
    writer.commit().await.unwrap();

    let store = bucket.open(StoreOptions::default()).await.unwrap();
    let view = store.latest().vertices("Person", Some(&["days", "city"])).await.unwrap();
    let taken = view.take(&[0, 1]).await.unwrap();
    assert_eq!(taken.column(1), &days);
    assert_eq!(store.latest().verify().await.flaws, Vec::<String>::new());
    let error = store.compact(&CompactOptions::default().with_force(true)).await.unwrap_err();
    assert!(is_unwritable(&error, "list<date>"), "{error}");
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
