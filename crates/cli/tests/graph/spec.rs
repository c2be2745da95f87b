//! `stylobate graph import` with specification files of GraphAr's own importer.

use std::{fs, path::Path};

use super::{described, files::names, graph, graph_fails, samples, temporary};

/// Creates a folder with an example specification and its sources in the expected locations.
fn folder_with(example: &str) -> Option<tempfile::TempDir> {
    let root = samples()?;
    let folder = temporary();
    let from = root.join("neo4j/data");
    let to = folder.path().join("testing/neo4j/data");
    fs::create_dir_all(&to).unwrap();
    fs::create_dir(folder.path().join("build")).unwrap();

    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }

    fs::copy(root.join("neo4j/data").join(example), folder.path().join("build/import.yml")).unwrap();
    Some(folder)
}

fn import(folder: &Path) {
    assert_eq!(graph(&folder.join("build"), &["import", "import.yml", "--output", "movie", "--quiet"]), "");
}

#[test]
fn both_official_examples_make_the_same_graph() {
    for example in ["import.mini.yml", "import.full.yml"] {
        let Some(folder) = folder_with(example) else { return };
        import(folder.path());
        let build = folder.path().join("build");
        let facts = described(&build, "movie/MovieGraph.graph.yml");
        let counts = |types: &str| -> Vec<u64> {
            facts[types]
                .as_array()
                .unwrap()
                .iter()
                .map(|of_type| of_type["count"].as_u64().unwrap())
                .collect()
        };

        assert_eq!((counts("vertices"), counts("edges")), (vec![133, 38], vec![10, 172, 9]), "{example}");
        let (chunk, labels) = match example {
            "import.full.yml" => (100, serde_json::json!(["Person"])),
            _ => (262_144, serde_json::json!([])),
        };

        assert_eq!(facts["vertices"][0]["chunk_size"], chunk);
        assert_eq!(facts["vertices"][0]["labels"], labels);
        let key = &facts["vertices"][0]["property_groups"][0]["properties"][0];
        assert_eq!((&key["name"], &key["is_primary"]), (&"name".into(), &true.into()));
        let asked = ["movie", "Person", "REVIEWED", "Movie", "--of", "Jessica Thompson", "--key", "name"];
        let csv =
            graph(&build, &[&["neighbors"], &asked[..], &["--with", "title", "--format", "csv"]].concat());
        assert!(csv.starts_with("of,neighbor,rating,summary,neighbor.title\n"), "{csv}");
        assert!(csv.contains(",92,You had me at Jerry,Jerry Maguire\n"), "{csv}");
        let asked = [
            "movie",
            "Person",
            "ACTED_IN",
            "Movie",
            "--of",
            "The Matrix",
            "--key",
            "title",
            "--direction",
            "in",
        ];

        let csv =
            graph(&build, &[&["neighbors"], &asked[..], &["--with", "name", "--format", "csv"]].concat());
        assert!(csv.contains("Keanu Reeves") && csv.contains("Emil Eifrem"), "{csv}");
    }
}

#[test]
fn sources_are_also_looked_for_beside_the_spec() {
    let Some(folder) = folder_with("import.mini.yml") else { return };
    let spec = folder.path().join("build/import.yml");
    let args = [
        "import",
        spec.to_str().unwrap(),
        "--output",
        "movie",
        "--name",
        "other",
        "--quiet",
        "--lists",
        "ordered_by_dest",
    ];

    graph(folder.path(), &args);
    let facts = described(folder.path(), "movie/other.graph.yml");
    assert_eq!(facts["edges"][0]["adj_lists"][0]["order"], "ordered_by_dest");
}

#[test]
fn what_is_wrong_with_a_spec_is_named_with_its_place() {
    let Some(folder) = folder_with("import.mini.yml") else { return };
    let build = folder.path().join("build");
    let text = fs::read_to_string(build.join("import.yml")).unwrap();

    for (code, right, wrong, said) in [
        (2, "src_prop: name", "src_prop: born", "import_schema.edges[0]: src_prop: born is not name"),
        (2, "born: born", "born: age", "column born becomes age"),
        (2, "edge_type: WROTE", "edgetype: WROTE", "line "),
        (2, "data_type: int64", "data_type: integer", "vertices[0]: born: data_type"),
        (2, "            born: born", "            borne: born", "did you mean born?"),
        (1, "data/Movie.orc", "data/Movies.orc", "Movies.orc"),
        (1, "data_type: string", "data_type: int64", "column name: "),
    ] {
        assert!(text.contains(right));
        fs::write(build.join("import.yml"), text.replacen(right, wrong, 1)).unwrap();
        let error = graph_fails(&build, code, &["import", "import.yml", "--output", "movie"]);
        assert!(error.contains(said), "{error}");
        assert_eq!(names(&build), ["import.yml"]);
    }

    let error = graph_fails(&build, 2, &["import", "none.yml", "--output", "movie"]);
    assert!(error.starts_with("stylobate: none.yml: "), "{error}");
}
