//! Errors in both modes, with the file and key that they name.

use super::*;

/// Reads the example with one passage of a file replaced, and expects an error at `key` of that file in both modes.
#[track_caller]
fn refuses(text: &str, from: &str, to: &str, key: &str, reason: &str) {
    let text = changed(text, from, to);
    let changed_file = text.as_str();
    let (graph, person, knows, file) =
        if changed_file.contains("dst_type") || changed_file.contains("adj_lists") {
            (GRAPH, PERSON, changed_file, "person_knows_person.edge.yml")
        } else if changed_file.contains("file_type") {
            (GRAPH, changed_file, KNOWS, "person.vertex.yml")
        } else {
            (changed_file, PERSON, KNOWS, "friends.graph.yml")
        };

    for strictness in [Strictness::Tolerant, Strictness::Strict] {
        let found = info_error(read(graph, person, knows, strictness));
        assert_eq!((found.0.as_str(), found.1.as_str()), (file, key), "{}", found.2);
        assert!(found.2.contains(reason), "{:?} says nothing of {reason:?}", found.2);
    }
}

#[test]
fn keys_without_which_data_cannot_be_found_must_be_there() {
    refuses(PERSON, "type: person\n", "", "type", "missing");
    refuses(PERSON, "type: person\n", "type:\n", "type", "missing");
    refuses(PERSON, "type: person\n", "type: ''\n", "type", "missing");
    refuses(PERSON, "chunk_size: 100\n", "", "chunk_size", "missing");
    refuses(PERSON, "    file_type: orc\n", "", "property_groups[1].file_type", "missing");
    refuses(
        PERSON,
        "      - name: last\n        data",
        "      - data",
        "property_groups[1].properties[1].name",
        "missing",
    );
    refuses(
        PERSON,
        "        data_type: int64\n",
        "",
        "property_groups[0].properties[0].data_type",
        "missing",
    );

    for key in ["src_type: person", "edge_type: knows", "dst_type: person"] {
        refuses(KNOWS, &format!("{key}\n"), "", key.split_once(':').unwrap().0, "missing");
    }
    refuses(KNOWS, "\nchunk_size: 1024", "", "chunk_size", "missing");
    refuses(KNOWS, "src_chunk_size: 100\n", "", "src_chunk_size", "missing");
    refuses(KNOWS, "dst_chunk_size: 100\n", "", "dst_chunk_size", "missing");
    refuses(KNOWS, "ordered: true\n    ", "", "adj_lists[0].ordered", "missing");
    refuses(KNOWS, "    aligned_by: dst\n", "", "adj_lists[1].aligned_by", "missing");
    refuses(KNOWS, "    file_type: csv\n", "", "adj_lists[1].file_type", "missing");
}

#[test]
fn edges_without_a_list_are_refused() {
    let (before, rest) = KNOWS.split_once("adj_lists:").unwrap();
    let (_, after) = rest.split_once("property_groups:").unwrap();
    for (lists, reason) in [("", "missing"), ("adj_lists: []\n", "empty")] {
        let knows = format!("{before}{lists}property_groups:{after}");
        let found = info_error(read(GRAPH, PERSON, &knows, Strictness::Tolerant));
        assert_eq!((found.1.as_str(), found.2.contains(reason)), ("adj_lists", true), "{}", found.2);
    }
}

#[test]
fn chunk_sizes_are_whole_numbers_from_1() {
    let size = "chunk_size: 100";
    refuses(PERSON, size, "chunk_size: 0", "chunk_size", "at least 1, not 0");
    refuses(PERSON, size, "chunk_size: -7", "chunk_size", "at least 1, not -7");
    for text in ["many", "1e3", "100.0", "9223372036854775808", "0x10", "true"] {
        refuses(PERSON, size, &format!("chunk_size: {text}"), "chunk_size", "whole number");
    }
    refuses(KNOWS, "src_chunk_size: 100", "src_chunk_size: 0", "src_chunk_size", "at least 1");
    refuses(KNOWS, "dst_chunk_size: 100", "dst_chunk_size: 0", "dst_chunk_size", "at least 1");
    refuses(KNOWS, "\nchunk_size: 1024", "\nchunk_size: 0", "chunk_size", "at least 1");
}

#[test]
fn names_that_the_format_does_not_have_are_refused() {
    let first = "property_groups[0].properties[0]";
    refuses(PERSON, "int64", "int128", &format!("{first}.data_type"), "int128");
    refuses(PERSON, "int64", "list<list<int64>>", &format!("{first}.data_type"), "list<list<int64>>");
    refuses(PERSON, "parquet", "avro", "property_groups[0].file_type", "parquet, orc, csv or json");
    let cardinality = "is_primary: true\n        cardinality: many";
    refuses(PERSON, "is_primary: true", cardinality, &format!("{first}.cardinality"), "many");
    refuses(
        PERSON,
        "is_primary: true",
        "is_primary: maybe",
        &format!("{first}.is_primary"),
        "neither true nor false",
    );
    refuses(KNOWS, "aligned_by: src", "aligned_by: source", "adj_lists[0].aligned_by", "neither src nor dst");
    refuses(KNOWS, "ordered: true", "ordered: ascending", "adj_lists[0].ordered", "neither");
    refuses(KNOWS, "directed: false", "directed: ''", "directed", "neither");
    refuses(GRAPH, "gar/v1", "gar/v2", "version", "gar/v2");
    refuses(PERSON, "gar/v1", "gar/v2", "version", "gar/v2");
    refuses(KNOWS, "gar/v1", "gar/v2", "version", "gar/v2");
}

#[test]
fn a_list_of_lists_is_refused() {
    let list = "data_type: list<int64>\n        cardinality: list";
    let key = "property_groups[0].properties[0].cardinality";
    refuses(PERSON, "data_type: int64", list, key, "list of lists");
}

#[test]
fn groups_without_properties_are_refused() {
    let without = PERSON.split_once("  - properties:").unwrap().0;
    for (group, reason) in
        [("properties: []", "empty"), ("prefix: x/", "missing"), ("properties:", "missing")]
    {
        let person = format!("{without}  - file_type: csv\n    {group}\n");
        let found = info_error(read(GRAPH, &person, KNOWS, Strictness::Tolerant));
        assert_eq!(found.1, "property_groups[0].properties");
        assert!(found.2.contains(reason), "{}", found.2);
    }
}

#[test]
fn nothing_is_there_twice() {
    let key = "property_groups[1].properties[1].name";
    refuses(PERSON, "name: last", "name: first", key, "property_groups[1].properties[0]");
    refuses(PERSON, "name: last", "name: id", key, "property_groups[0].properties[0]");
    let source = "ordered: false\n    aligned_by: dst";
    refuses(KNOWS, source, "ordered: true\n    aligned_by: src", "adj_lists[1]", "ordered_by_source");

    let named = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let file = GraphFile::parse("friends.graph.yml", GRAPH, Strictness::Tolerant).unwrap();
    let twice = file.clone().with(vec![named("a.yml", PERSON), named("b.yml", PERSON)], vec![]);
    let found = info_error(twice);
    assert_eq!((found.0.as_str(), found.1.as_str()), ("b.yml", "type"), "{}", found.2);
    let found = info_error(
        file.with(vec![named("a.yml", PERSON)], vec![named("c.yml", KNOWS), named("d.yml", KNOWS)]),
    );
    assert_eq!((found.0.as_str(), found.1.as_str()), ("d.yml", "edge_type"), "{}", found.2);
}

#[test]
fn keys_that_are_there_twice_are_refused() {
    let found = info_error(read(
        GRAPH,
        &changed(PERSON, "chunk_size: 100", "chunk_size: 100\nchunk_size: 9"),
        KNOWS,
        Strictness::Tolerant,
    ));
    assert_eq!(
        (found.0.as_str(), found.1.as_str()),
        ("person.vertex.yml", "line 3, column 1"),
        "{}",
        found.2
    );
}

#[test]
fn edges_are_between_vertices_that_are_there() {
    refuses(KNOWS, "src_type: person", "src_type: city", "src_type", "available: person");
    refuses(KNOWS, "dst_type: person", "dst_type: city", "dst_type", "available: person");
}

#[test]
fn properties_of_edges_have_one_value() {
    let cardinality = "data_type: timestamp\n        cardinality: list";
    let key = "property_groups[0].properties[0].cardinality";
    refuses(KNOWS, "data_type: timestamp", cardinality, key, "one value");
}

#[test]
fn no_path_leads_out_of_the_graph() {
    for out in ["../", "x/../../y/", "\"..\\\\x/\""] {
        refuses(GRAPH, "version:", &format!("prefix: {out}\nversion:"), "prefix", "..");
        refuses(PERSON, "vertex/person/", out, "prefix", "..");
        refuses(PERSON, "names/", out, "property_groups[1].prefix", "..");
        refuses(KNOWS, "edge/person_knows_person/", out, "prefix", "..");
        refuses(KNOWS, "coo/", out, "adj_lists[1].prefix", "..");
        refuses(KNOWS, "since/", out, "property_groups[0].prefix", "..");
    }

    for absolute in ["/etc/", "s3://elsewhere/", "C:/data/"] {
        refuses(PERSON, "vertex/person/", absolute, "prefix", "absolute");
        refuses(PERSON, "names/", absolute, "property_groups[1].prefix", "absolute");
        refuses(KNOWS, "edge/person_knows_person/", absolute, "prefix", "absolute");
        refuses(KNOWS, "coo/", absolute, "adj_lists[1].prefix", "absolute");
        refuses(
            GRAPH,
            "person.vertex.yml",
            &format!("{absolute}person.vertex.yml"),
            "vertices[0]",
            "absolute",
        );
    }

    refuses(GRAPH, "person.vertex.yml", "../person.vertex.yml", "vertices[0]", "..");
    refuses(GRAPH, "person_knows_person.edge.yml", "x/../../y.yml", "edges[0]", "..");
    refuses(PERSON, "vertex/person/", "\"a\\nb/\"", "prefix", "control");
}

#[test]
fn a_usual_prefix_does_not_lead_out_either() {
    let text = changed(&changed(PERSON, "prefix: vertex/person/\n", ""), "type: person", "type: ..");
    let found = info_error(read(GRAPH, &text, KNOWS, Strictness::Tolerant));
    assert_eq!((found.0.as_str(), found.1.as_str()), ("person.vertex.yml", "prefix"), "{}", found.2);
    let text = changed(&changed(PERSON, "    prefix: names/\n", ""), "name: first", "name: /etc");
    assert_eq!(info_error(read(GRAPH, &text, KNOWS, Strictness::Tolerant)).1, "property_groups[1].prefix");
}

#[test]
fn what_is_not_yaml_is_told_by_line_and_column() {
    refuses(PERSON, "chunk_size: 100", "chunk_size: [100", "line 2, column 13", "");
    refuses(PERSON, "chunk_size: 100", "chunk_size: \"100", "line 3, column 1", "");
    refuses(GRAPH, "  - person.vertex.yml", "  - {a: b}", "line 3, column 5", "");
    refuses(
        GRAPH,
        "vertices:\n  - person.vertex.yml",
        "vertices: person.vertex.yml",
        "line 2, column 11",
        "",
    );
    refuses(PERSON, "chunk_size: 100", "chunk_size: {}", "line 2, column 13", "");

    for text in ["", "a", "- a", "{", "\0", "\u{feff}", "a: &a [*a]", "a: *b", "!!binary x", "--- a\n--- b\n"]
    {
        let found = info_error(GraphFile::parse("x.graph.yml", text, Strictness::Strict));
        assert_eq!(found.0, "x.graph.yml");
        assert!(!found.2.contains('\n'), "{:?}", found.2);
    }
}

#[test]
fn a_bomb_of_aliases_does_not_go_off() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..30 {
        let before = i - 1;
        text += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{before}"); 10].join(", "));
    }
    assert!(GraphFile::parse("x.graph.yml", &text, Strictness::Tolerant).is_err());
    let deep = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(GraphFile::parse("x.graph.yml", &deep, Strictness::Tolerant).is_err());
}
