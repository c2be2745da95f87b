//! Paths of files.

use super::*;

#[test]
fn files_of_vertices_are_where_the_format_has_them() {
    let graph = friends();
    let person = graph.vertex("person").unwrap();
    assert_eq!(person.chunk_path(&person.groups[0], 0), "vertex/person/id/chunk0");
    assert_eq!(person.chunk_path(&person.groups[1], 12), "vertex/person/names/chunk12");
    assert_eq!(person.count_path(), "vertex/person/vertex_count");
    assert_eq!(person.label_path(3), "vertex/person/labels/chunk3");
}

#[test]
fn files_of_edges_are_where_the_format_has_them() {
    let graph = friends();
    let knows = graph.edge("person", "knows", "person").unwrap();
    let list = knows.adjacency(AdjacencyOrder::OrderedBySource).unwrap();
    let at = "edge/person_knows_person/ordered_by_source/";
    assert_eq!(knows.adjacency_path(list, 1, 2), format!("{at}adj_list/part1/chunk2"));
    assert_eq!(knows.offset_path(list, 1), format!("{at}offset/chunk1"));
    assert_eq!(knows.vertex_count_path(list), format!("{at}vertex_count"));
    assert_eq!(knows.edge_count_path(list, 1), format!("{at}edge_count1"));
    assert_eq!(knows.property_path(list, &knows.groups[0], 1, 2), format!("{at}since/part1/chunk2"));

    let list = knows.adjacency(AdjacencyOrder::UnorderedByDest).unwrap();
    assert_eq!(knows.adjacency_path(list, 0, 0), "edge/person_knows_person/coo/adj_list/part0/chunk0");
    assert_eq!(knows.adjacency(AdjacencyOrder::OrderedByDest), None);
}

#[test]
fn chunks_are_as_many_as_the_vertices_fill() {
    let person = VertexInfo::new("person", 100);
    let chunks = [0, 1, 100, 101, 199, 200, u64::MAX].map(|vertices| person.chunks(vertices));
    assert_eq!(chunks, [0, 1, 1, 2, 2, 2, u64::MAX / 100 + 1]);
    assert_eq!(VertexInfo::new("person", 0).chunks(7), 7);
}

#[test]
fn a_part_holds_the_edges_of_one_chunk_of_the_side_it_is_aligned_by() {
    let mut knows = friends().edges.remove(0);
    (knows.src_chunk_size, knows.dst_chunk_size) = (7, 9);
    let orders = ["ordered_by_source", "ordered_by_dest", "unordered_by_source", "unordered_by_dest"];
    assert_eq!(orders.map(|order| knows.part_size(order.parse().unwrap())), [7, 9, 7, 9]);
}

#[test]
fn properties_are_found_by_name() {
    let graph = friends();
    let person = graph.vertex("person").unwrap();
    let (group, column, last) = person.property("last").unwrap();
    assert_eq!((group, column, last.name.as_str()), (1, 1, "last"));
    assert_eq!(person.property("Last"), None);
    assert_eq!(person.primary().unwrap().name, "id");
    let knows = graph.edge("person", "knows", "person").unwrap();
    assert_eq!(knows.property("since").unwrap().2.property_type, PropertyType::Timestamp);
    assert_eq!(knows.name(), "person_knows_person");
    assert_eq!((graph.vertex("city"), graph.edge("person", "knows", "city")), (None, None));
}

#[test]
fn names_are_read_as_they_are_shown() {
    for name in ["bool", "int32", "int64", "float", "double", "string", "date", "timestamp"] {
        assert_eq!(name.parse::<PropertyType>().unwrap().to_string(), name);
        let list = format!("list<{name}>");
        assert_eq!(list.parse::<PropertyType>().unwrap().to_string(), list);
    }
    for name in ["", "Int64", "int", "list<>", "list<int64", "list<list<int64>>", "list", "list< int64>"] {
        assert!(name.parse::<PropertyType>().is_err(), "{name}");
    }

    for name in ["parquet", "orc", "csv", "json"] {
        assert_eq!(name.parse::<FileType>().unwrap().to_string(), name);
    }
    for name in ["single", "list", "set"] {
        assert_eq!(name.parse::<Cardinality>().unwrap().to_string(), name);
    }

    for ordered in [false, true] {
        for side in [Side::Source, Side::Dest] {
            let order = AdjacencyOrder::new(ordered, side);
            assert_eq!((order.is_ordered(), order.aligned_by()), (ordered, side));
            assert_eq!(order.to_string().parse(), Ok(order));
        }
    }
}

#[test]
fn types_of_arrow_have_a_type_that_holds_their_values() {
    use arrow::datatypes::{DataType, Field, TimeUnit};

    let list = |item| DataType::new_list(item, false);
    let coded = |value| DataType::Dictionary(Box::new(DataType::UInt8), Box::new(value));
    for (arrow, name) in [
        (DataType::Boolean, "bool"),
        (DataType::Int8, "int32"),
        (DataType::UInt16, "int32"),
        (DataType::UInt32, "int64"),
        (DataType::Float16, "float"),
        (DataType::Float64, "double"),
        (DataType::Utf8View, "string"),
        (coded(DataType::LargeUtf8), "string"),
        (DataType::Date32, "date"),
        (DataType::Date64, "timestamp"),
        (DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), "timestamp"),
        (list(DataType::Int16), "list<int32>"),
        (list(coded(DataType::Utf8)), "list<string>"),
        (DataType::FixedSizeList(Field::new("x", DataType::Float32, true).into(), 3), "list<float>"),
    ] {
        let found = PropertyType::of_arrow(&arrow).unwrap();
        assert_eq!(found.to_string(), name, "{arrow}");
        assert_eq!(PropertyType::of_arrow(&found.arrow()).as_ref(), Some(&found));
    }

    for arrow in [DataType::UInt64, DataType::Binary, DataType::Null, list(list(DataType::Int32))] {
        assert_eq!(PropertyType::of_arrow(&arrow), None, "{arrow}");
    }
}

#[test]
fn several_values_are_a_list_in_arrow() {
    let mut emails = Property::new("emails", PropertyType::String);
    assert_eq!(emails.arrow(), arrow::datatypes::DataType::Utf8);
    emails.cardinality = Cardinality::Set;
    assert_eq!(emails.arrow(), PropertyType::List(Box::new(PropertyType::String)).arrow());
}
