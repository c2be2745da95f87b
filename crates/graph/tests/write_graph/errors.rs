//! Graphs that cannot be written: the error names the location, and no files are left.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
        UInt64Array,
    },
    datatypes::{DataType, Field, Int32Type, Schema},
};
use futures::StreamExt;
use stylobate_graph::{
    Error, Result,
    graphar::{AdjacencyOrder, EdgeWrite, FileType, GraphWriteOptions, GraphWriter, VertexWrite},
};
use stylobate_storage::ByteSize;

use super::{
    arriving, batch, edges_of, folder, knows, numbers, options, persons, read_back::paths, with_persons,
};

/// Returns the error of writing these vertices, after checking that no files are left and the writer is unusable.
async fn refused_vertices(
    options: GraphWriteOptions,
    vertices: VertexWrite,
    rows: Vec<RecordBatch>,
) -> String {
    let place = tempfile::tempdir().unwrap();
    let mut writer = GraphWriter::create(folder(&place), "social", options).await.unwrap();
    let error = writer.vertices(vertices, arriving(rows)).await.unwrap_err();
    assert!(paths(place.path()).is_empty(), "{:?}", paths(place.path()));
    assert!(!place.path().join("graph").exists());
    let (more, rows) = persons(&[1]);
    assert!(writer.vertices(more, arriving(rows)).await.unwrap_err().to_string().contains("earlier write"));
    error.to_string()
}

/// Returns the error of writing edges between persons with the keys 10, 20 and 30.
async fn refused_edges(edges: EdgeWrite, rows: Vec<RecordBatch>) -> Error {
    let place = tempfile::tempdir().unwrap();
    let mut writer = with_persons(folder(&place), options(), &[10, 20, 30]).await;
    let error = writer.edges(edges, arriving(rows)).await.unwrap_err();
    assert!(paths(place.path()).is_empty(), "{:?}", paths(place.path()));
    assert!(writer.finish().await.is_err());
    assert!(paths(place.path()).is_empty());
    error
}

fn of(column: ArrayRef) -> (VertexWrite, Vec<RecordBatch>) {
    let rows = batch(vec![("x", column)]);
    (VertexWrite::new("person", rows.schema()), vec![rows])
}

fn says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_key_that_is_null_or_there_twice_is_named() {
    let (vertices, mut rows) = persons(&[7, 9, 13]);
    rows.extend(persons(&[4, 9, 7]).1);
    says(&refused_vertices(options(), vertices, rows).await, &["column id", "key 9 of row 4", "row 1"]);
    let rows = batch(vec![("id", Arc::new(StringArray::from(vec![Some("a"), None, Some("a")])) as ArrayRef)]);
    let vertices = VertexWrite::new("person", rows.schema()).with_key("id");
    says(&refused_vertices(options(), vertices, vec![rows]).await, &["column id", "key of row 1 is null"]);
    let rows = batch(vec![("id", Arc::new(StringArray::from(vec!["a", "b", "a"])) as ArrayRef)]);
    let vertices = VertexWrite::new("person", rows.schema()).with_key("id");
    says(&refused_vertices(options(), vertices, vec![rows]).await, &["key a of row 2", "row 0"]);

    let primary = batch(vec![("id", Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef)]);
    let vertices = VertexWrite::new("person", primary.schema()).with_primary("id");
    says(&refused_vertices(options(), vertices, vec![primary]).await, &["column id", "null in row 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_would_change_are_named() {
    let (vertices, mut rows) = of(Arc::new(TimestampMicrosecondArray::from(vec![1000, 2000])));
    rows.extend(of(Arc::new(TimestampMicrosecondArray::from(vec![3000, 3001]))).1);
    let error = refused_vertices(options(), vertices, rows).await;
    says(&error, &["column x", "row 3", "Timestamp"]);
    let (vertices, rows) = of(Arc::new(UInt64Array::from(vec![1])));
    says(&refused_vertices(options(), vertices, rows).await, &["column x", "UInt64"]);
    let lists = arrow::array::ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)])]);
    let (vertices, rows) = of(Arc::new(lists));
    let csv = options().with_file_type(FileType::Csv);
    says(&refused_vertices(csv, vertices.clone(), rows.clone()).await, &["person", "CSV"]);

    let json = options().with_file_type(FileType::Json);
    says(&refused_vertices(json, vertices, rows).await, &["JSON"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_what_was_promised() {
    let (vertices, _) = of(numbers([1]));
    let other = batch(vec![("x", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]);
    says(&refused_vertices(options(), vertices.clone(), vec![other]).await, &["Utf8", "Int64"]);
    let more = batch(vec![("x", numbers([1])), ("y", numbers([1]))]);
    says(&refused_vertices(options(), vertices, vec![more]).await, &["2 columns"]);
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
    let nulls = batch(vec![("x", Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef)]);
    let vertices = VertexWrite::new("person", schema);
    says(&refused_vertices(options(), vertices, vec![nulls]).await, &["column x", "null in row 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_sizes_that_cannot_be_are_refused() {
    let (vertices, rows) = persons(&[1]);
    for wrong in [
        vertices.clone().with_key("none"),
        vertices.clone().with_labels_column("none"),
        vertices.clone().with_labels_column("id"),
        vertices.clone().with_groups([["none"]]),
        vertices.clone().with_groups([["id"], ["id"]]),
        vertices.clone().with_chunk_size(0),
        vertices.clone().with_labels(["a", "a"]),
        VertexWrite::new("a/b", rows[0].schema()),
        VertexWrite::new("..", rows[0].schema()),
    ] {
        refused_vertices(options(), wrong, rows.clone()).await;
    }

    let place = tempfile::tempdir().unwrap();
    for name in ["", "a/b"] {
        assert!(GraphWriter::create(folder(&place), name, options()).await.is_err());
    }
    let mut writer = with_persons(folder(&place), options(), &[1]).await;
    let again = writer.vertices(vertices, arriving(rows)).await.unwrap_err();
    says(&again.to_string(), &["person"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_edge_that_names_no_vertex_is_named() {
    let (edges, mut rows) = knows(&[(10, 20), (30, 10)]);
    rows.extend(knows(&[(20, 99), (98, 10)]).1);
    let error = refused_edges(edges.clone(), rows).await.to_string();
    says(&error, &["person_knows_person", "column dst", "key 99", "row 2", "person"]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["10"]));
    let text_rows = batch(vec![("src", texts.clone()), ("dst", numbers([10]))]);
    says(
        &refused_edges(edges_of(text_rows.schema()), vec![text_rows]).await.to_string(),
        &["column src", "Utf8"],
    );

    let huge: ArrayRef = Arc::new(UInt64Array::from(vec![10, u64::MAX]));
    let huge = batch(vec![("src", numbers([10, 10])), ("dst", huge)]);
    says(&refused_edges(edges_of(huge.schema()), vec![huge]).await.to_string(), &["column dst", "row 1"]);
    let null = batch(vec![
        ("src", numbers([10, 99])),
        ("dst", Arc::new(Int64Array::from(vec![None, Some(20)])) as ArrayRef),
    ]);
    let error = refused_edges(edges_of(null.schema()), vec![null]).await.to_string();
    says(&error, &["column dst", "null in row 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_that_no_vertex_has_are_named() {
    for (ends, row, index) in [([(0, 2), (3, 0)], 1, 3), ([(-1, 2), (0, 0)], 0, -1)] {
        let (edges, rows) = knows(&ends);
        match refused_edges(edges.by_index(), rows).await {
            Error::OutOfRange { of, index: found, count } => {
                assert_eq!((found, count), (index, 3));
                says(&of, &["person_knows_person", "column src", &format!("row {row}")]);
            }
            other => panic!("{other}"),
        }
    }

    let codes: DictionaryArray<Int32Type> = vec!["a"].into_iter().collect();
    let rows = batch(vec![("src", Arc::new(codes) as ArrayRef), ("dst", numbers([1]))]);
    says(&refused_edges(edges_of(rows.schema()).by_index(), vec![rows]).await.to_string(), &["column src"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn edges_need_vertices_with_keys_and_lists() {
    let (_, rows) = knows(&[(10, 20)]);
    let other = EdgeWrite::new("person", "lives in", "town", rows[0].schema());
    let error = refused_edges(other, rows.clone()).await;
    assert!(matches!(&error, Error::NoSuchVertexType { name, .. } if name == "town"), "{error}");
    let none = edges_of(rows[0].schema()).with_adjacencies(Vec::<AdjacencyOrder>::new());
    says(&refused_edges(none, rows.clone()).await.to_string(), &["list"]);
    let no_column = edges_of(rows[0].schema()).with_source("who");
    assert!(matches!(refused_edges(no_column, rows.clone()).await, Error::NoSuchProperty { .. }));

    let place = tempfile::tempdir().unwrap();
    let mut writer = GraphWriter::create(folder(&place), "social", options()).await.unwrap();
    let (vertices, persons) = persons(&[1]);
    writer.vertices(vertices.with_primary("id"), arriving(persons)).await.unwrap();
    let error = writer.edges(edges_of(rows[0].schema()), arriving(rows)).await.unwrap_err();
    says(&error.to_string(), &["person", "by index"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_do_not_fit_say_how_much_they_need() {
    let keys: Vec<i64> = (0..300_000).map(|key| key * 7 % 1_000_003).collect();
    let (vertices, rows) = persons(&keys);
    let small = options().with_memory(ByteSize::mib(4));
    let error = refused_vertices(small.clone(), vertices.clone(), rows.clone()).await;
    says(&error, &["300000 keys", "MiB", "4MiB", "by index"]);

    // The memory in the message suffices, and without a key map none is needed.
    let needed: u64 = error.split(" need ").nth(1).unwrap().split("MiB").next().unwrap().parse().unwrap();
    for (options, vertices) in [
        (options().with_memory(ByteSize::mib(needed * 4 / 3 + 1)), vertices.clone()),
        (small, vertices.with_primary("id")),
    ] {
        let place = tempfile::tempdir().unwrap();
        let mut writer = GraphWriter::create(folder(&place), "social", options).await.unwrap();
        writer.vertices(vertices, arriving(rows.clone())).await.unwrap();
        assert_eq!(writer.finish().await.unwrap().vertices, 300_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_batches_is_that_of_the_write() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = GraphWriter::create(folder(&place), "social", options()).await.unwrap();
    let (vertices, rows) = persons(&[1, 2]);
    let failure: Result<RecordBatch> = Err(Error::Ended { reason: "the source is gone".to_owned() });
    let batches = arriving(rows).chain(futures::stream::iter([failure]));
    let error = writer.vertices(vertices, batches).await.unwrap_err();
    says(&error.to_string(), &["the source is gone"]);
    assert!(paths(place.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_folder_that_is_not_there_is_named() {
    let place = tempfile::tempdir().unwrap();
    let tiny = options().with_memory(ByteSize::kib(1)).with_temporary_folder(place.path().join("none"));
    let mut writer = with_persons(folder(&place), tiny, &[0, 1, 2, 3, 4, 5, 6, 7]).await;
    let ends: Vec<(i64, i64)> = (0..1000).map(|edge| (edge % 8, edge % 5)).collect();
    let (edges, rows) = knows(&ends);
    let error = writer.edges(edges, arriving(rows)).await.unwrap_err().to_string();
    says(&error, &["none", "do not fit into memory"]);
    assert!(paths(place.path()).is_empty());
}
