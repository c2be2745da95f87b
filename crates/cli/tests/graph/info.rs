//! `stylobate graph info`.

use std::fs;

use serde_json::{Value, json};

use super::{described, graph, graph_fails, known, raw, samples, temporary};

const LDBC: &str = "ldbc_sample/parquet/ldbc_sample.graph.yml";

#[test]
fn all_that_is_shown_of_a_graph_is_as_reviewed() {
    let folder = temporary();
    fs::write(folder.path().join("people.csv"), "id,name,age\n7,Al,20\n8,Bo,31\n9,Cy,\n").unwrap();
    fs::write(folder.path().join("knows.csv"), "src,dst,since\n7,8,2001\n9,7,\n7,9,2020\n").unwrap();
    let vertices = ["--vertices", "person=people.csv:id"];
    let edges = ["--edges", "person_knows_person=knows.csv"];
    let import = ["import", "--quiet", "--name", "social", "--output", "social"];
    graph(folder.path(), &[&import[..], &vertices, &edges].concat());

    insta::assert_snapshot!("text", graph(folder.path(), &["info", "social"]));
    insta::assert_snapshot!("json", graph(folder.path(), &["info", "social", "--json"]));
}

#[test]
fn a_picture_shows_types_properties_and_files() {
    let Some(root) = samples() else { return };
    let text = graph(&root, &["info", LDBC, "--degrees=never"]);
    assert!(
        text.starts_with("ldbc_sample\n  file      ldbc_sample/parquet/ldbc_sample.graph.yml\n"),
        "{text}"
    );

    for part in [
        "  vertices  903 of 1 type\n",
        "  edges     6,626 of 1 type\n",
        "╭─ person ",
        " 903 vertices ─╮\n",
        "│ 10 chunks of 100 ",
        "├─ parquet in id/ ",
        "│ id         int64   key ",
        "├─ parquet in firstName_lastName_gender/ ",
        "│ firstName  string ",
        "(person) -[knows]",
        " 6,626 edges\n",
        "  chunks of 1,024 edges\n",
        "ordered_by_dest      parquet  10 parts of 100\n",
        "creationDate         parquet  string",
        "\ndegrees were not counted: --degrees does\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }

    let frame: Vec<usize> = text
        .lines()
        .filter(|line| line.starts_with(['╭', '│', '├', '╰']))
        .map(|line| line.chars().count())
        .collect();

    assert!(frame.len() > 6 && frame.iter().all(|width| *width == frame[0]), "{text}");
}

#[test]
fn degrees_are_drawn_by_powers_of_two() {
    let Some(root) = samples() else { return };
    let text = graph(&root, &["info", LDBC]);
    let line = |start: &str| text.lines().find(|line| line.trim_start().starts_with(start));
    assert!(line("out ").is_some() && line("in ").is_some() && line("2 to 3 ").is_some(), "{text}");
    let head: Vec<&str> = line("min ").unwrap().split_whitespace().collect();
    assert_eq!(head, ["min", "median", "mean", "p99", "max", "without", "edges"]);
    assert!(text.contains('█') && !text.contains("were not counted"), "{text}");
}

#[test]
fn pictures_fit_into_eighty_columns() {
    let Some(root) = samples() else { return };
    for file in [LDBC, "modern_graph", "neo4j", "ldbc_sample/parquet/ldbc_sample_with_feature.graph.yml"] {
        let text = graph(&root, &["info", file]);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{text}");
        assert_eq!(graph(&root, &["info", file, "--degrees"]), text);
    }

    let text = graph(&root, &["info", "modern_graph"]);
    for part in
        ["╭─ software ", "(person) -[created]-> (software)", " double", "(person) -[knows]-> (person)"]
    {
        assert!(text.contains(part), "{text}");
    }
    let undirected = graph(&root, &["info", "ldbc_sample/parquet/ldbc_sample_date.graph.yml"]);
    assert!(undirected.contains("(person) -[knows-date]- (person)"), "{undirected}");
}

#[test]
fn everything_is_there_for_machines() {
    let Some(root) = samples() else { return };
    let facts = described(&root, LDBC);
    let person = &facts["vertices"][0];
    assert_eq!((&facts["name"], &facts["file"]), (&"ldbc_sample".into(), &LDBC.into()));
    assert_eq!(
        (&person["type"], &person["count"], &person["chunks"]),
        (&"person".into(), &903.into(), &10.into())
    );

    let id = json!({
        "name": "id", "data_type": "int64", "is_primary": true, "is_nullable": false, "cardinality": "single"
    });
    let group = &person["property_groups"][0];
    assert_eq!((&group["file_type"], &group["prefix"]), (&"parquet".into(), &"id/".into()));
    let found = &group["properties"][0];
    assert_eq!(
        (&found["name"], &found["data_type"], &found["is_primary"]),
        (&id["name"], &id["data_type"], &id["is_primary"])
    );

    let knows = &facts["edges"][0];
    assert_eq!(
        (&knows["src_type"], &knows["edge_type"], &knows["dst_type"]),
        (&"person".into(), &"knows".into(), &"person".into())
    );

    assert_eq!((&knows["count"], &knows["parts"]), (&6626.into(), &json!([10, 10, 10])));
    let orders: Vec<&Value> =
        knows["adj_lists"].as_array().unwrap().iter().map(|list| &list["order"]).collect();
    assert_eq!(orders, ["unordered_by_source", "ordered_by_source", "ordered_by_dest"]);
}

#[test]
fn degrees_are_those_of_the_raw_file() {
    let Some(root) = samples() else { return };
    let facts = described(&root, LDBC);
    let persons = raw(&root, "person_0_0.csv");
    let known = known(&root);
    let out: Vec<u64> = persons.iter().map(|row| known.get(&row[0]).map_or(0, Vec::len) as u64).collect();
    let entering = |id: &String| known.values().flatten().filter(|other| *other == id).count() as u64;
    let into: Vec<u64> = persons.iter().map(|row| entering(&row[0])).collect();
    for (found, direction, mut degrees) in
        [(&facts["edges"][0]["degrees"][0], "out", out), (&facts["edges"][0]["degrees"][1], "in", into)]
    {
        degrees.sort_unstable();
        let wanted = json!({
            "direction": direction,
            "vertices": 903,
            "min": degrees[0],
            "median": degrees[451],
            "p99": degrees[893],
            "max": degrees[902],
            "without_edges": degrees.iter().filter(|degree| **degree == 0).count(),
        });

        for (name, value) in wanted.as_object().unwrap() {
            assert_eq!(&found[name], value, "{direction} {name}");
        }

        assert!((found["mean"].as_f64().unwrap() - 6626.0 / 903.0).abs() < 1e-9);

        for bucket in found["histogram"].as_array().unwrap() {
            let range = bucket["from"].as_u64().unwrap()..=bucket["to"].as_u64().unwrap();
            let wanted = degrees.iter().filter(|degree| range.contains(degree)).count();
            assert_eq!(bucket["vertices"].as_u64(), Some(wanted as u64), "{direction} {range:?}");
        }
    }

    let never: Value =
        serde_json::from_str(&graph(&root, &["info", LDBC, "--json", "--degrees=never"])).unwrap();
    assert_eq!(never["edges"][0]["degrees"], Value::Null);
}

#[test]
fn degrees_are_drawn_for_each_edge_type_and_direction() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    let path = folder.path().join("degrees.svg");
    let file = path.to_str().unwrap();
    let text = graph(&root, &["info", LDBC]);
    assert_eq!(graph(&root, &["info", LDBC, "--svg", file]), text);
    let drawing = std::fs::read_to_string(&path).unwrap();
    for part in [
        ">Degrees of ldbc_sample</text>",
        ">903 vertices, 6,626 edges; both axes are logarithmic</text>",
        "(person) -[knows]",
        ">out: median ",
        ">in: median ",
        ">edges of a vertex</text>",
        "<title>vertices with 2 to 3 edges\nout: ",
        "prefers-color-scheme:dark",
    ] {
        assert!(drawing.contains(part), "{part} is not in\n{drawing}");
    }
    assert_eq!(drawing.matches("<path").count(), 2, "{drawing}");

    assert_eq!(graph(&root, &["info", LDBC, "--svg", "-"]), drawing);
    let facts = graph(&root, &["info", LDBC, "--json", "--svg", file]);
    assert!(serde_json::from_str::<Value>(&facts).is_ok());
    let error = graph_fails(&root, 2, &["info", LDBC, "--svg", file, "--degrees=never"]);
    assert!(error.contains("--degrees=never"), "{error}");
    let error = graph_fails(&root, 2, &["info", LDBC, "--json", "--svg", "-"]);
    assert!(error.contains("standard output"), "{error}");
}

#[test]
fn a_graph_may_be_named_by_its_folder_and_its_data_may_be_elsewhere() {
    let Some(root) = samples() else { return };
    let folder = temporary();

    for file in [
        "modern_graph.graph.yml",
        "person.vertex.yml",
        "software.vertex.yml",
        "person_knows_person.edge.yml",
        "person_created_software.edge.yml",
    ] {
        std::fs::copy(root.join("modern_graph").join(file), folder.path().join(file)).unwrap();
    }

    let error = graph_fails(folder.path(), 1, &["info", "."]);
    assert!(error.contains("vertex_count"), "{error}");
    let data = root.join("modern_graph");
    let text = graph(folder.path(), &["info", ".", "--prefix", data.to_str().unwrap()]);
    assert!(text.contains("4 vertices"), "{text}");
    let error = graph_fails(&root, 2, &["info", "ldbc_sample/parquet"]);
    assert!(error.contains("name one of ldbc_sample.graph.yml, ldbc_sample_date.graph.yml"), "{error}");
    let error = graph_fails(&root, 2, &["info", "ldbc_sample"]);
    assert!(error.contains("ends in .graph.yml"), "{error}");
}

#[test]
fn what_deviates_is_refused_when_asked_to_and_what_is_missing_is_named() {
    let Some(root) = samples() else { return };
    let error = graph_fails(&root, 1, &["info", "neo4j", "--strict"]);
    assert!(error.contains(".yml: "), "{error}");
    let error = graph_fails(&root, 1, &["info", "none.graph.yml"]);
    assert!(error.contains("none.graph.yml: there is no such file"), "{error}");
}

#[test]
fn a_folder_that_holds_no_graph_is_said_to_hold_none() {
    let folder = temporary();
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::create_dir_all(folder.path().join("other/inner")).unwrap();
    fs::write(folder.path().join("other/graph.yml"), "name: g\n").unwrap();
    for location in ["empty", "empty/", "other"] {
        let error = graph_fails(folder.path(), 2, &["info", location]);
        let reason = ": this folder holds no graph: no file there ends in .graph.yml";
        assert!(error.contains(location.trim_end_matches('/')) && error.ends_with(reason), "{error}");
    }

    let error = graph_fails(folder.path(), 1, &["info", "missing"]);
    assert!(error.ends_with("missing: there is no such file"), "{error}");
}
