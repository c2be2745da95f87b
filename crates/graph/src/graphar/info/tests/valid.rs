//! Requirements on graphs that are written.

use super::*;

/// Makes the example unwritable by `change`, and expects an error that names `of` and `reason`.
#[track_caller]
fn unwritable(change: impl Fn(&mut GraphInfo), of: &str, reason: &str) {
    let mut graph = friends();
    graph.validate().unwrap();
    change(&mut graph);
    match graph.validate() {
        Err(Error::Unwritable { of: found, reason: why }) => {
            assert_eq!(found, of, "{why}");
            assert!(why.contains(reason), "{why:?} says nothing of {reason:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(graph.yaml_files().is_err());
}

#[test]
fn a_graph_is_written_as_the_samples_are() {
    let mut graph = friends();
    graph.vertices[0].labels = vec!["student".into()];
    graph.extra = vec![("made by".into(), "us".into())];
    let files = graph.yaml_files().unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["person.vertex.yml", "person_knows_person.edge.yml", "friends.graph.yml"]);
    let person = "\
type: person
chunk_size: 100
prefix: vertex/person/
labels:
  - student
property_groups:
  - properties:
      - name: id
        data_type: int64
        is_primary: true
        is_nullable: false
    prefix: id/
    file_type: parquet
  - properties:
      - name: first
        data_type: string
        is_primary: false
        is_nullable: true
      - name: last
        data_type: string
        is_primary: false
        is_nullable: true
    prefix: names/
    file_type: orc
version: gar/v1
";

    assert_eq!(files[0].1, person);
    let knows = "\
src_type: person
edge_type: knows
dst_type: person
chunk_size: 1024
src_chunk_size: 100
dst_chunk_size: 100
directed: false
prefix: edge/person_knows_person/
adj_lists:
  - ordered: true
    aligned_by: src
    prefix: ordered_by_source/
    file_type: parquet
  - ordered: false
    aligned_by: dst
    prefix: coo/
    file_type: csv
property_groups:
  - prefix: since/
    file_type: parquet
    properties:
      - name: since
        data_type: timestamp
        is_primary: false
        is_nullable: true
version: gar/v1
";

    assert_eq!(files[1].1, knows);
    let friends = GRAPH.to_owned() + "extra_info:\n  - key: \"made by\"\n    value: us\n";
    assert_eq!(files[2].1, friends);
}

#[test]
fn names_that_cannot_be_names_of_files_are_refused() {
    for name in ["a/b", "a\\b", "..", ".", "", "a\nb", "c:", "c:x", &"x".repeat(250)] {
        unwritable(|graph| graph.name = name.into(), &format!("graph {name}"), "name: ");
        unwritable(
            |graph| {
                graph.vertices[0].vertex_type = name.into();
                graph.edges.clear();
            },
            &format!("vertices of type {name}"),
            "type: ",
        );
    }

    unwritable(
        |graph| graph.edges[0].edge_type = "a/b".into(),
        "edges of type person_a/b_person",
        "edge_type: ",
    );
}

#[test]
fn what_strictness_refuses_is_not_written() {
    let person = "vertices of type person";
    unwritable(|graph| graph.vertices[0].chunk_size = 0, person, "chunk_size: must be at least 1");
    unwritable(|graph| graph.vertices[0].chunk_size = u64::MAX, person, "chunk_size: must be at most");
    unwritable(
        |graph| graph.vertices[0].groups[1].properties.clear(),
        person,
        "property_groups[1].properties: is empty",
    );
    unwritable(|graph| graph.vertices[0].groups[0].properties[0].is_nullable = true, person, "is_nullable");
    unwritable(|graph| graph.vertices[0].prefix = "x".into(), person, "prefix: ");
    unwritable(|graph| graph.vertices[0].prefix = "../x/".into(), person, "prefix: ");
    unwritable(|graph| graph.vertices.push(VertexInfo::new("person", 1)), person, "type: ");
    unwritable(|graph| graph.vertices[0].labels = vec!["a".into(); 2], person, "labels[1]");

    let knows = "edges of type person_knows_person";
    unwritable(|graph| graph.edges[0].adjacencies.clear(), knows, "adj_lists: ");
    unwritable(|graph| graph.edges[0].dst_chunk_size = 9, knows, "dst_chunk_size: ");
    unwritable(|graph| graph.vertices.clear(), knows, "available: none");
    unwritable(|graph| graph.prefix = "../".into(), "graph friends", "prefix: ");
    unwritable(|graph| graph.extra = vec![("a".into(), String::new()); 2], "graph friends", "extra_info[1]");
    let lists = PropertyType::List(Box::new(PropertyType::List(Box::new(PropertyType::Int32))));
    unwritable(
        |graph| graph.vertices[0].groups[1].properties[0].property_type = lists.clone(),
        person,
        "data_type",
    );
}

#[test]
fn two_files_never_share_a_path() {
    let person = "vertices of type person";
    unwritable(
        |graph| graph.vertices[0].groups[1].prefix = "id/".into(),
        person,
        "property_groups[0].prefix of person.vertex.yml",
    );
    let labels = |graph: &mut GraphInfo| {
        graph.vertices[0].labels = vec!["student".into()];
        graph.vertices[0].groups[1].prefix = "labels/".into();
    };

    unwritable(labels, person, "vertex/person/labels/chunk0");
    let other = VertexInfo { prefix: "vertex/person/".into(), ..VertexInfo::new("city", 10) };
    unwritable(
        |graph| graph.vertices.push(other.clone()),
        "vertices of type city",
        "vertex/person/vertex_count",
    );
    let knows = "edges of type person_knows_person";
    unwritable(|graph| graph.edges[0].groups[0].prefix = "adj_list/".into(), knows, "adj_list/part0/chunk0");
    unwritable(
        |graph| graph.edges[0].adjacencies[1].prefix = "ordered_by_source/".into(),
        knows,
        "adj_lists[1].prefix",
    );
}

#[test]
fn two_types_never_share_a_file_name() {
    let mut graph = friends();
    graph.vertices.extend(["a", "a_b", "b_c", "c"].map(|name| VertexInfo::new(name, 100)));
    let edge = |src: &str, dst: &str| EdgeInfo {
        src_type: src.into(),
        edge_type: "x".into(),
        dst_type: dst.into(),
        prefix: format!("{src}-x-{dst}/"),
        ..graph.edges[0].clone()
    };

    let mut first = edge("a", "b_c");
    let mut second = edge("a_b", "c");
    (first.edge_type, second.edge_type) = ("b_x".into(), "x_b".into());
    graph.edges = vec![first, second];
    let error = graph.validate().unwrap_err().to_string();
    assert!(error.contains("a_b_x_b_c.edge.yml"), "{error}");
}

#[test]
fn names_of_the_formats_own_columns_are_refused() {
    let rename =
        |graph: &mut GraphInfo| graph.vertices[0].groups[1].properties[1].name = "_graphArOffset".into();
    unwritable(rename, "vertices of type person", "property_groups[1].properties[1].name: ");
}

#[test]
fn texts_that_official_readers_misunderstand_are_refused() {
    let person = "vertices of type person";
    let rename = |graph: &mut GraphInfo| graph.vertices[0].groups[1].properties[1].name = "#1 and #2".into();
    unwritable(rename, person, "property_groups[1].properties[1].name: ");
    unwritable(|graph| graph.vertices[0].labels = vec!["a".into(), "b\tc".into()], person, "labels[1]");
    unwritable(
        |graph| graph.extra = vec![("a".into(), "x\ny".into())],
        "graph friends",
        "extra_info[0].value: ",
    );
}
