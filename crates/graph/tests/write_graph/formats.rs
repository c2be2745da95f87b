//! Contents of single files: types, labels, empty graphs.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, Float32Array, Int8Array, ListArray, StringArray, UInt32Array},
    datatypes::{DataType, Field, Float32Type, Int64Type, Schema, TimeUnit},
};
use stylobate_graph::graphar::{AdjacencyOrder, EdgeWrite, FileType, GraphWriter, VertexWrite};
use stylobate_storage::ByteSize;

use super::{
    arriving, batch, cut, folder, knows, numbers, options, persons,
    read_back::{info, parquet_batch, paths},
    with_persons,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_without_anything_is_a_graph() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = GraphWriter::create(folder(&place), "social", options()).await.unwrap();
    let (vertices, _) = persons(&[]);
    assert_eq!(writer.vertices(vertices, arriving(Vec::new())).await.unwrap(), 0);
    let (edges, _) = knows(&[]);
    assert_eq!(writer.edges(edges, arriving(Vec::new())).await.unwrap(), 0);
    let bare = VertexWrite::new("thing", Arc::new(Schema::empty()));
    assert_eq!(writer.vertices(bare, arriving(Vec::new())).await.unwrap(), 0);

    let written = writer.finish().await.unwrap();
    let path = place.path().join("graph");
    assert_eq!(info(&path, "social"), written.info);
    let lists = ["ordered_by_dest", "ordered_by_source"];
    let counts = lists.map(|list| format!("edge/person_knows_person/{list}/vertex_count"));
    let others =
        ["person.vertex.yml", "person_knows_person.edge.yml", "social.graph.yml", "thing.vertex.yml"];
    let mut wanted: Vec<String> = others.iter().map(|&name| name.to_owned()).chain(counts).collect();
    wanted.extend(["vertex/person/vertex_count", "vertex/thing/vertex_count"].map(str::to_owned));
    wanted.sort();
    assert_eq!(paths(&path), wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_have_the_types_that_graphar_has_for_them() {
    let place = tempfile::tempdir().unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let lists = ListArray::from_iter_primitive::<Float32Type, _, _>(vec![Some(vec![Some(1.5)])]);
    let rows = batch(vec![
        ("small", Arc::new(Int8Array::from(vec![1])) as ArrayRef),
        ("wide", Arc::new(UInt32Array::from(vec![u32::MAX]))),
        ("text", arrow::compute::cast(&texts, &DataType::Utf8View).unwrap()),
        ("float", Arc::new(Float32Array::from(vec![1.5]))),
        ("flag", Arc::new(BooleanArray::from(vec![true]))),
        ("time", Arc::new(arrow::array::TimestampSecondArray::from(vec![7]).with_timezone("UTC"))),
        ("day", Arc::new(arrow::array::Date32Array::from(vec![7]))),
        ("list", Arc::new(lists)),
    ]);

    let mut writer = GraphWriter::create(folder(&place), "types", options()).await.unwrap();
    let vertices =
        VertexWrite::new("thing", rows.schema()).with_groups([vec!["small", "list"], vec!["time"]]);
    writer.vertices(vertices, arriving(vec![rows])).await.unwrap();
    writer.finish().await.unwrap();
    let read = |group: &str| parquet_batch(&place.path().join(format!("graph/vertex/thing/{group}/chunk0")));
    let types = |group: &str| -> Vec<DataType> {
        read(group).schema().fields().iter().map(|field| field.data_type().clone()).collect()
    };

    let list = DataType::List(Arc::new(Field::new("element", DataType::Float32, true)));
    assert_eq!(types("small_list"), [DataType::Int64, DataType::Int32, list]);
    let time = read("time");
    assert_eq!(time.column(1).data_type(), &DataType::Timestamp(TimeUnit::Millisecond, None));
    assert_eq!(time.column(1).as_primitive::<arrow::datatypes::TimestampMillisecondType>().value(0), 7000);
    let rest = [
        DataType::Int64,
        DataType::Int64,
        DataType::Utf8,
        DataType::Float32,
        DataType::Boolean,
        DataType::Date32,
    ];
    assert_eq!(types("wide_text_float_flag_day"), rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_found_where_none_are_given_and_all_have_them_where_there_is_no_column() {
    let place = tempfile::tempdir().unwrap();
    let mut writer =
        GraphWriter::create(folder(&place), "labels", options().with_vertex_chunk_size(2)).await.unwrap();
    let labels: ArrayRef = Arc::new(StringArray::from(vec![None, Some("b"), Some("a"), Some("b"), None]));
    let rows = batch(vec![("id", numbers(0..5)), ("kind", labels)]);
    let vertices = VertexWrite::new("thing", rows.schema()).with_key("id").with_labels_column("kind");
    writer.vertices(vertices, arriving(cut(&rows, 3))).await.unwrap();
    let (vertices, rows) = persons(&[1, 2, 3]);
    writer.vertices(vertices.with_labels(["human"]), arriving(rows)).await.unwrap();

    let written = writer.finish().await.unwrap();
    assert_eq!(written.info.vertex("thing").unwrap().labels, ["b", "a"]);
    assert_eq!(written.info.labels, ["b", "a", "human"]);
    let read = |path: &str| parquet_batch(&place.path().join(format!("graph/vertex/{path}")));
    let column = |path: &str, at: usize| -> Vec<bool> {
        read(path).column(at).as_boolean().iter().map(Option::unwrap).collect()
    };
    assert_eq!(column("thing/labels/chunk0", 0), [false, true]);
    assert_eq!(column("thing/labels/chunk1", 0), [false, true]);
    assert_eq!(column("thing/labels/chunk1", 1), [true, false]);
    assert_eq!(read("thing/labels/chunk2").num_rows(), 1);
    assert_eq!(column("person/labels/chunk1", 0), [true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_may_have_formats_of_their_own_types() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = with_persons(folder(&place), options().with_file_type(FileType::Csv), &[5, 6]).await;
    let rows = batch(vec![("src", numbers([5])), ("dst", numbers([6])), ("since", numbers([1999]))]);
    let edges = EdgeWrite::new("person", "knows", "person", rows.schema())
        .with_file_type(FileType::Parquet)
        .with_directed(false)
        .with_adjacencies([AdjacencyOrder::UnorderedBySource]);
    writer.edges(edges, arriving(vec![rows])).await.unwrap();

    let written = writer.finish().await.unwrap();
    let edges = written.info.edge("person", "knows", "person").unwrap();
    assert!(!edges.directed && edges.adjacencies.len() == 1);
    let path = place.path().join("graph");
    assert_eq!(
        std::fs::read_to_string(path.join("vertex/person/id/chunk0")).unwrap(),
        "_graphArVertexIndex,id\n0,5\n1,6\n"
    );

    let since = parquet_batch(&path.join("edge/person_knows_person/unordered_by_source/since/part0/chunk0"));
    assert_eq!(since.column(0).as_primitive::<Int64Type>().value(0), 1999);
}

#[tokio::test(flavor = "multi_thread")]
async fn edges_that_are_sorted_on_disk_are_those_that_are_sorted_in_memory() {
    let place = tempfile::tempdir().unwrap();
    let ends: Vec<(i64, i64)> =
        (0..150_000_i64).map(|edge| (edge * 7919 % 5003, edge * 104_729 % 4999)).collect();
    let (sources, destinations): (Vec<i64>, Vec<i64>) = ends.into_iter().unzip();
    let texts: StringArray =
        (0..150_000).map(|edge| (edge % 5 > 0).then(|| format!("edge {edge}"))).collect();
    let rows = batch(vec![
        ("src", numbers(sources)),
        ("dst", numbers(destinations)),
        ("number", numbers(0..150_000)),
        ("text", Arc::new(texts)),
    ]);

    let mut graphs = Vec::new();
    for (name, memory) in [("memory", ByteSize::gib(1)), ("disk", ByteSize::kib(300))] {
        let options = options().with_memory(memory).with_vertex_chunk_size(1500).with_edge_chunk_size(10_000);
        let destination = stylobate_storage::Destination::File(place.path().join(name));
        let mut writer = GraphWriter::create(destination, "social", options).await.unwrap();
        let (vertices, persons) = persons(&(0..5003).collect::<Vec<_>>());
        writer.vertices(vertices, arriving(persons)).await.unwrap();
        let edges = EdgeWrite::new("person", "knows", "person", rows.schema()).by_index();
        writer.edges(edges, arriving(cut(&rows, 777))).await.unwrap();
        graphs.push(writer.finish().await.unwrap());
    }

    assert_eq!(graphs[0].info, graphs[1].info);
    let [memory, disk] = ["memory", "disk"].map(|name| place.path().join(name));
    let all = paths(&memory);
    assert_eq!(all, paths(&disk));
    for name in all.iter().filter(|name| name.contains("/chunk")) {
        assert_eq!(parquet_batch(&memory.join(name)), parquet_batch(&disk.join(name)), "{name}");
    }
}
