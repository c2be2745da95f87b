//! Deviations from the format that only strict mode refuses.

use super::*;

/// Reads `text` in place of one of the three files.
fn read_with(text: &str, strictness: Strictness) -> Result<GraphInfo> {
    let knows = if text.contains("edge_type") || text.contains("edge_label") { text } else { KNOWS };
    let person = if text.contains("property_groups") && knows != text { text } else { PERSON };
    let graph = if knows == text || person == text { GRAPH } else { text };
    read(graph, person, knows, strictness)
}

/// Reads a file of the example with one passage replaced: tolerant mode reads it as `with`, strict mode fails at `key`.
#[track_caller]
fn deviates(text: &str, from: &str, to: &str, key: &str, with: impl Fn(&mut GraphInfo)) {
    let text = changed(text, from, to);
    let mut expected = friends();
    with(&mut expected);
    assert_eq!(read_with(&text, Strictness::Tolerant).unwrap(), expected);
    assert_eq!(info_error(read_with(&text, Strictness::Strict)).1, key);
}

/// Reads a file of the example with one passage replaced: both modes read it as `with`.
#[track_caller]
fn conforms(text: &str, from: &str, to: &str, with: impl Fn(&mut GraphInfo)) {
    let text = changed(text, from, to);
    let mut expected = friends();
    with(&mut expected);
    for strictness in [Strictness::Tolerant, Strictness::Strict] {
        assert_eq!(read_with(&text, strictness).unwrap(), expected);
    }
}

#[test]
fn keys_that_the_format_does_not_have_are_ignored() {
    let same = |_: &mut GraphInfo| {};
    deviates(GRAPH, "version:", "owner: {a: [1, 2]}\nversion:", "owner", same);
    deviates(PERSON, "version:", "owner: me\nversion:", "owner", same);
    deviates(
        PERSON,
        "        is_primary: true",
        "        is_primary: true\n        x: 1",
        "property_groups[0].properties[0].x",
        same,
    );
    deviates(PERSON, "    prefix: names/", "    prefix: names/\n    x: 1", "property_groups[1].x", same);
    deviates(KNOWS, "version:", "? 7\n: me\nversion:", "7", same);
    deviates(KNOWS, "    prefix: coo/", "    prefix: coo/\n    x:", "adj_lists[1].x", same);
    deviates(
        GRAPH,
        "version:",
        "extra_info:\n  - {key: a, value: b, x: c}\nversion:",
        "extra_info[0].x",
        |graph| {
            graph.extra = vec![("a".into(), "b".into())];
        },
    );
}

#[test]
fn prefixes_may_be_left_out() {
    conforms(PERSON, "prefix: vertex/person/\n", "", |graph| graph.vertices[0].prefix = "person/".into());
    conforms(PERSON, "prefix: vertex/person/\n", "prefix:\n", |graph| {
        graph.vertices[0].prefix = "person/".into();
    });
    conforms(PERSON, "    prefix: names/\n", "", |graph| {
        graph.vertices[0].groups[1].prefix = "first_last/".into();
    });
    conforms(KNOWS, "prefix: edge/person_knows_person/\n", "", |graph| {
        graph.edges[0].prefix = "person_knows_person/".into();
    });
    conforms(KNOWS, "    prefix: coo/\n", "", |graph| {
        graph.edges[0].adjacencies[1].prefix = "unordered_by_dest/".into();
    });
}

#[test]
fn prefixes_have_one_spelling() {
    deviates(PERSON, "vertex/person/", "./vertex//person/./", "prefix", |_| {});
    conforms(PERSON, "vertex/person/", "./", |graph| graph.vertices[0].prefix = String::new());
    deviates(PERSON, "vertex/person/", "vertex/person", "prefix", |_| {});
    deviates(PERSON, "names/", "./names", "property_groups[1].prefix", |_| {});
    deviates(KNOWS, "coo/", "coo", "adj_lists[1].prefix", |_| {});
}

#[test]
fn a_graph_may_say_that_it_is_elsewhere() {
    for (written, read, absolute) in [
        ("./", "", false),
        ("data/", "data/", false),
        ("/tmp/graphar/", "/tmp/graphar/", true),
        ("s3://bucket/graph/", "s3://bucket/graph/", true),
    ] {
        let prefix = format!("prefix: {written}\nversion:");
        conforms(GRAPH, "version:", &prefix, |graph| graph.prefix = read.into());
        let graph = read_with(&changed(GRAPH, "version:", &prefix), Strictness::Tolerant).unwrap();
        assert_eq!(graph.has_absolute_prefix(), absolute);
    }

    deviates(GRAPH, "version:", "prefix: /tmp/graphar\nversion:", "prefix", |graph| {
        graph.prefix = "/tmp/graphar/".into();
    });
}

#[test]
fn versions_are_of_the_first_and_may_be_missing() {
    for text in [GRAPH, PERSON, KNOWS] {
        deviates(text, "version: gar/v1\n", "", "version", |_| {});
        deviates(text, "gar/v1", "gar/v1.0", "version", |_| {});
        conforms(text, "gar/v1", "gar/v1 (point, polygon)", |_| {});
        for version in ["gar/v2", "gar/v10", "gar", "v1", "1"] {
            let error = info_error(read_with(&changed(text, "gar/v1", version), Strictness::Tolerant));
            assert_eq!(error.1, "version", "{version}");
        }
    }
}

#[test]
fn flags_may_be_missing_or_spelled_otherwise() {
    let first = "property_groups[0].properties[0]";
    deviates(KNOWS, "directed: false\n", "", "directed", |_| {});
    deviates(KNOWS, "directed: false", "directed: 'YES'", "directed", |graph| graph.edges[0].directed = true);
    deviates(PERSON, "is_primary: true", "is_primary: 1", &format!("{first}.is_primary"), |_| {});
    deviates(PERSON, "        is_primary: true\n", "", &format!("{first}.is_primary"), |graph| {
        graph.vertices[0].groups[0].properties[0] = Property::new("id", PropertyType::Int64);
    });
    deviates(KNOWS, "ordered: true", "ordered: True", "adj_lists[0].ordered", |_| {});
    conforms(PERSON, "is_primary: false", "is_primary: false\n        is_nullable: false", |graph| {
        graph.vertices[0].groups[1].properties[0].is_nullable = false;
    });

    let nullable = "is_primary: true\n        is_nullable: true";
    deviates(PERSON, "is_primary: true", nullable, &format!("{first}.is_nullable"), |graph| {
        graph.vertices[0].groups[0].properties[0].is_nullable = true;
    });
}

#[test]
fn types_may_go_by_the_names_of_their_keys_of_old() {
    deviates(PERSON, "type: person", "label: person", "label", |_| {});
    deviates(KNOWS, "src_type", "src_label", "src_label", |_| {});
    deviates(KNOWS, "dst_type", "dst_label", "dst_label", |_| {});
    deviates(KNOWS, "edge_type", "edge_label", "edge_label", |_| {});
    deviates(PERSON, "type: person", "type: person\nlabel: human", "label", |_| {});
}

/// Returns the edge type of the example with its groups in its lists.
fn groups_in_lists(groups: [&str; 2]) -> String {
    let (before, groups_of_type) = KNOWS.split_once("property_groups:").unwrap();
    let (_, version) = groups_of_type.split_once("version:").unwrap();
    let mut text = format!("{before}version:{version}");
    for (file_type, name) in ["file_type: parquet\n", "file_type: csv\n"].iter().zip(groups) {
        let group = format!(
            "property_groups: [{{file_type: parquet, properties: [{{name: {name}, data_type: timestamp}}]}}]\n"
        );
        text = text.replacen(file_type, &format!("{file_type}    {group}"), 1);
    }
    text
}

#[test]
fn groups_that_all_lists_have_are_the_edge_types() {
    let text = groups_in_lists(["since", "since"]);
    assert_eq!(read_with(&text, Strictness::Tolerant).unwrap(), friends());
    assert_eq!(info_error(read_with(&text, Strictness::Strict)).1, "adj_lists[0].property_groups");
    let text = groups_in_lists(["since", "until"]);
    assert!(read_with(&text, Strictness::Tolerant).unwrap().edges[0].groups.is_empty());
    let own = changed(&text, "version:", "property_groups: []\nversion:");
    assert!(read_with(&own, Strictness::Tolerant).unwrap().edges[0].groups.is_empty());
}

#[test]
fn edges_may_be_cut_otherwise_than_their_vertices() {
    deviates(KNOWS, "src_chunk_size: 100", "src_chunk_size: 50", "src_chunk_size", |graph| {
        graph.edges[0].src_chunk_size = 50;
    });
    deviates(KNOWS, "dst_chunk_size: 100", "dst_chunk_size: 50", "dst_chunk_size", |graph| {
        graph.edges[0].dst_chunk_size = 50;
    });
}

#[test]
fn several_values_are_read_wherever_they_are_said_to_be() {
    let list = |item| PropertyType::List(Box::new(item));
    let second = "property_groups[1].properties[0]";
    let several = changed(PERSON, "data_type: string", "data_type: list<float>");
    let in_orc = read_with(&several, Strictness::Strict).unwrap();
    assert_eq!(in_orc.vertices[0].groups[1].properties[0].property_type, list(PropertyType::Float));
    let in_csv = changed(&several, "orc", "csv");
    assert!(read_with(&in_csv, Strictness::Tolerant).is_ok());
    assert_eq!(info_error(read_with(&in_csv, Strictness::Strict)).1, format!("{second}.data_type"));

    let several = changed(PERSON, "data_type: string", "data_type: string\n        cardinality: set");
    let in_orc = read_with(&several, Strictness::Strict).unwrap();
    assert_eq!(in_orc.vertices[0].groups[1].properties[0].cardinality, Cardinality::Set);
    let in_csv = changed(&several, "orc", "csv");
    assert!(read_with(&in_csv, Strictness::Tolerant).is_ok());
    assert_eq!(info_error(read_with(&in_csv, Strictness::Strict)).1, format!("{second}.cardinality"));

    deviates(PERSON, "data_type: string", "data_type: list<date>", &format!("{second}.data_type"), |graph| {
        graph.vertices[0].groups[1].properties[0].property_type = list(PropertyType::Date);
    });
}

#[test]
fn the_first_of_several_primary_keys_is_the_primary_key() {
    deviates(
        PERSON,
        "is_primary: false",
        "is_primary: true",
        "property_groups[1].properties[0].is_primary",
        |graph| {
            let first = &mut graph.vertices[0].groups[1].properties[0];
            *first = first.clone().into_primary();
            assert_eq!(graph.vertices[0].primary().unwrap().name, "id");
        },
    );
}

#[test]
fn labels_are_lists() {
    conforms(PERSON, "version:", "labels: [student, '1.10', yes]\nversion:", |graph| {
        graph.vertices[0].labels = ["student", "1.10", "yes"].map(String::from).to_vec();
    });
    conforms(GRAPH, "version:", "labels:\n  - social\nversion:", |graph| {
        graph.labels = vec!["social".into()];
    });
    let twice = changed(PERSON, "version:", "labels: [a, b, a]\nversion:");
    assert_eq!(read_with(&twice, Strictness::Tolerant).unwrap().vertices[0].labels.len(), 3);
    assert_eq!(info_error(read_with(&twice, Strictness::Strict)).1, "labels[2]");
}

#[test]
fn what_else_is_said_of_a_graph_is_kept_in_order() {
    let extra = "extra_info:\n  - key: made by\n    value: 1.10\n  - key: at\n    value:\nversion:";
    conforms(GRAPH, "version:", extra, |graph| {
        graph.extra = vec![("made by".into(), "1.10".into()), ("at".into(), String::new())];
    });
}

#[test]
fn a_graph_may_be_empty_and_nameless() {
    let graph = GraphFile::parse("x.graph.yaml", "version: gar/v1\n", Strictness::Tolerant).unwrap();
    assert!(graph.vertex_files().is_empty() && graph.edge_files().is_empty());
    let graph = graph.with(vec![], vec![]).unwrap();
    assert_eq!(graph, GraphInfo { name: "graph".into(), ..GraphInfo::default() });
    let strict = |file| GraphFile::parse(file, "version: gar/v1\n", Strictness::Strict);
    assert_eq!(info_error(strict("x.graph.yml")).1, "name");
    assert_eq!(info_error(strict("x.graph.yaml")).1, "file name");
}

#[test]
fn names_that_look_like_numbers_stay_as_they_are_written() {
    let text = changed(PERSON, "name: first", "name: 1.10");
    assert_eq!(
        read_with(&text, Strictness::Strict).unwrap().vertices[0].groups[1].properties[0].name,
        "1.10"
    );
    let text = changed(PERSON, "name: first", "name: 0x1F");
    assert_eq!(
        read_with(&text, Strictness::Strict).unwrap().vertices[0].groups[1].properties[0].name,
        "0x1F"
    );
}
