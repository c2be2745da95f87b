//! `stylobate graph export`.

use std::{fs, path::Path};

use super::{
    files::{
        eventually::eventually_blocking, interrupt, names, numbers, start, stylobate, succeeds, write_parquet,
    },
    graph, graph_fails, known, raw, rows, samples, temporary,
};

const LDBC: &str = "ldbc_sample/parquet/ldbc_sample.graph.yml";

fn export(folder: &Path, args: &[&str]) {
    assert_eq!(graph(folder, &[&["export", "--quiet"], args].concat()), "");
}

#[test]
fn exported_rows_are_those_of_the_raw_files() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    let file = root.join(LDBC);
    export(folder.path(), &[file.to_str().unwrap(), "out", "--format", "csv", "--keys"]);
    assert_eq!(names(&folder.path().join("out")), ["person.csv", "person_knows_person.csv"]);
    let persons = fs::read_to_string(folder.path().join("out/person.csv")).unwrap();
    assert!(persons.starts_with("id,firstName,lastName,gender\n"), "{persons}");
    assert_eq!(rows(&persons), raw(&root, "person_0_0.csv"));

    let edges = fs::read_to_string(folder.path().join("out/person_knows_person.csv")).unwrap();
    assert!(edges.starts_with("src,dst,creationDate\n"), "{edges}");
    let mut found = rows(&edges);
    let mut wanted = raw(&root, "person_knows_person_0_0.csv");
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn every_format_has_the_same_rows() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    let path = folder.path();
    let file = root.join("neo4j/MovieGraph.graph.yml");
    let file = file.to_str().unwrap();
    export(path, &[file, "csv", "--format", "csv"]);
    assert_eq!(names(&path.join("csv")).len(), 2 + 6);
    let wanted = |name: &str| fs::read_to_string(path.join(format!("csv/{name}.csv"))).unwrap();

    for (format, extension) in [("parquet", "parquet"), ("orc", "orc")] {
        export(path, &[file, format, "--format", format, "--compression", "snappy"]);
        for name in ["Person", "Movie", "Person_REVIEWED_Movie", "Person_FOLLOWS_Person"] {
            let csv = succeeds(path, &["scan", &format!("{format}/{name}.{extension}"), "--format", "csv"]);
            assert_eq!(csv, wanted(name), "{format} {name}");
        }
    }

    export(path, &[file, "json", "--format", "json"]);
    let json = fs::read_to_string(path.join("json/Person.jsonl")).unwrap();
    assert_eq!(json.lines().count(), 133);
    export(path, &[file, "arrow", "--format", "arrow"]);
    assert!(path.join("arrow/Person_ACTED_IN_Movie.arrow").is_file());
}

#[test]
fn the_summary_counts_files_and_rows() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    let file = root.join("modern_graph");
    let output =
        stylobate(folder.path(), &["graph", "export", file.to_str().unwrap(), "out"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout.is_empty(), "{error}");
    assert!(error.starts_with("out: 4 files, 12 rows, ") && error.lines().count() == 1, "{error}");
}

#[test]
fn a_folder_with_files_is_refused_without_force() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    let file = root.join("modern_graph/modern_graph.graph.yml");
    let file = file.to_str().unwrap();
    fs::create_dir(folder.path().join("out")).unwrap();
    fs::write(folder.path().join("out/person.csv"), "mine").unwrap();
    let error = graph_fails(folder.path(), 2, &["export", file, "out", "--format", "csv"]);
    assert!(error.contains("out is not empty") && error.contains("--force"), "{error}");

    for (args, said) in [
        (&["export", file, "no/out"][..], "no folder no"),
        (&["export", file, "s3://bucket/out"], "local folder"),
        (&["export", file, "new", "--format", "csv", "--compression", "zstd(1)"], "--compression is for"),
        (&["export", file, "new", "--compression", "zip"], "zip"),
    ] {
        let error = graph_fails(folder.path(), 2, args);
        assert!(error.contains(said), "{error}");
    }

    assert_eq!(names(folder.path()), ["out"]);
    assert_eq!(names(&folder.path().join("out")), ["person.csv"]);
    export(folder.path(), &[file, "out", "--format", "csv", "--force"]);
    assert_eq!(names(&folder.path().join("out")).len(), 4);
    assert!(fs::read_to_string(folder.path().join("out/person.csv")).unwrap().starts_with("id,name,age\n"));
}

#[test]
fn a_failed_export_leaves_no_files() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    succeeds(folder.path(), &["graph", "export", "--quiet", root.join(LDBC).to_str().unwrap(), "tables"]);
    let import = [
        "--vertices",
        "person=tables/person.parquet:id",
        "--edges",
        "person_knows_person=tables/person_knows_person.parquet",
    ];

    succeeds(
        folder.path(),
        &[
            &[
                "graph",
                "import",
                "--quiet",
                "--by-index",
                "--name",
                "g",
                "--output",
                "g",
                "--vertex-chunk-size",
                "100",
            ],
            &import[..],
        ]
        .concat(),
    );

    let chunk = folder.path().join("g/edge/person_knows_person/ordered_by_source/adj_list/part8/chunk0");
    fs::write(&chunk, "broken").unwrap();

    for format in ["csv", "parquet"] {
        let error = graph_fails(folder.path(), 1, &["export", "g", "out", "--format", format]);
        assert!(error.contains("part8/chunk0"), "{error}");
        assert_eq!(names(folder.path()), ["g", "tables"], "{format}");
    }
}

#[test]
fn keys_replace_the_indexes_of_both_ends() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    let file = root.join(LDBC);
    export(folder.path(), &[file.to_str().unwrap(), "keys", "--keys"]);
    export(folder.path(), &[file.to_str().unwrap(), "indexes"]);
    let csv = |file: &str| rows(&succeeds(folder.path(), &["scan", file, "--format", "csv"]));
    let keys = csv("keys/person_knows_person.parquet");
    let indexes = csv("indexes/person_knows_person.parquet");
    let persons = raw(&root, "person_0_0.csv");
    let known = known(&root);

    for (key, index) in keys.iter().zip(&indexes) {
        let ids = [0, 1].map(|end| persons[index[end].parse::<usize>().unwrap()][0].clone());
        assert_eq!((&ids[0], &ids[1]), (&key[0], &key[1]));
        assert!(known[&ids[0]].contains(&ids[1]));
    }

    write_parquet(&folder.path().join("n.parquet"), &[numbers(3)], 10);
    write_parquet(&folder.path().join("e.parquet"), &[numbers(2)], 10);
    let args = ["--vertices", "n=n.parquet", "--edges", "n_to_n=e.parquet:number,number2"];
    graph_fails(
        folder.path(),
        2,
        &[&["import", "--name", "g", "--output", "g", "--by-index"], &args[..]].concat(),
    );

    let vertices = ["--vertices", "n=n.parquet", "--name", "g", "--output", "g", "--quiet"];
    graph(folder.path(), &[&["import"], &vertices[..]].concat());
    export(folder.path(), &["g", "without", "--keys"]);
    assert_eq!(names(&folder.path().join("without")), ["n.parquet"]);
}

#[test]
fn an_interrupted_export_leaves_no_files() {
    let folder = temporary();
    write_parquet(&folder.path().join("n.parquet"), &vec![numbers(1_000_000); 4], 1_000_000);
    let vertices = ["--vertices", "n=n.parquet", "--name", "g", "--output", "g", "--quiet"];
    graph(folder.path(), &[&["import"], &vertices[..]].concat());

    for (format, extra) in [("csv", None), ("parquet", Some(["--compression", "zstd(19)"]))] {
        let args = [
            &["graph", "export", "g", "out", "--format", format][..],
            extra.as_ref().map_or(&[], |extra| &extra[..]),
        ];

        let mut child = start(folder.path(), &args.concat());
        eventually_blocking("the export to begin", || names(folder.path()).len() > 2);
        assert_eq!(interrupt(&mut child), Some(130), "{format}");
        assert_eq!(names(folder.path()), ["g", "n.parquet"], "{format}");
    }
}
