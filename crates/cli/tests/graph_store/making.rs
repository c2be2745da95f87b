//! `stylobate graph store create` and `load`.

use std::fs;

use super::{files::numbers, files::write_parquet, json, social, store, store_fails, temporary};

const SCHEMA: &str = "\
vertices:
  Person: {key: id, properties: {id: int64, name: string}}
edges:
  Person/KNOWS/Person: {since: int64}
";

#[test]
fn a_store_of_tables_has_their_rows_and_types() {
    let folder = temporary();
    social(folder.path());
    let csv = store(folder.path(), &["query", "social", "--start", "Person:9,7", "--format", "csv"]);
    assert_eq!(csv, "_index,id,name,age\n2,9,Cy,40\n0,7,Al,20\n");
    let log = store(folder.path(), &["log", "social", "--format", "json"]);
    let operations: Vec<String> = log
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["operation"].as_str().unwrap().to_owned()
        })
        .collect();

    assert_eq!(operations, ["create", "writer", "load"]);
}

#[test]
fn a_store_of_a_schema_is_empty_and_is_loaded_later() {
    let folder = temporary();
    fs::write(folder.path().join("schema.yml"), SCHEMA).unwrap();
    assert_eq!(store(folder.path(), &["create", "small", "--schema", "schema.yml"]), "");
    fs::write(folder.path().join("people.csv"), "id,name\n1,One\n2,Two\n").unwrap();
    fs::write(folder.path().join("knows.csv"), "a,b,since\n1,2,2001\n1,1,2002\n").unwrap();
    let loaded = json(
        folder.path(),
        &[
            "load",
            "small",
            "--json",
            "--vertices",
            "Person=people.csv",
            "--edges",
            "Person_KNOWS_Person=knows.csv:a,b",
        ],
    );

    assert_eq!((loaded["vertices"].as_u64(), loaded["edges"].as_u64()), (Some(2), Some(2)));
    let csv = store(
        folder.path(),
        &[
            "query",
            "small",
            "--start",
            "Person:1",
            "--out",
            "KNOWS",
            "--columns",
            "since",
            "--select",
            "name,since",
            "--format",
            "csv",
        ],
    );

    assert_eq!(csv, "name,since\nOne,2002\nTwo,2001\n");
}

#[test]
fn a_type_that_is_new_is_made_when_it_is_loaded() {
    let folder = temporary();
    social(folder.path());
    write_parquet(&folder.path().join("numbers.parquet"), &[numbers(100)], 10);
    fs::write(folder.path().join("owns.csv"), "src,dst\n7,42\n").unwrap();
    let args = [
        "load",
        "social",
        "--quiet",
        "--vertices",
        "Number=numbers.parquet:number",
        "--edges",
        "Person_OWNS_Number=owns.csv",
    ];

    assert_eq!(store(folder.path(), &args), "");
    let csv = store(
        folder.path(),
        &[
            "query",
            "social",
            "--start",
            "Person:7",
            "--out",
            "OWNS",
            "--select",
            "number,word",
            "--format",
            "csv",
        ],
    );

    assert_eq!(csv, "number,word\n42,even\n");
}

#[test]
fn a_load_that_fails_leaves_the_version_that_was() {
    let folder = temporary();
    social(folder.path());
    fs::write(folder.path().join("wrong.csv"), "src,dst,since\n7,8,2022\n7,99,2023\n").unwrap();
    let error = store_fails(
        folder.path(),
        1,
        &["load", "social", "--edges", "Person_KNOWS_Person=wrong.csv", "--quiet"],
    );

    assert!(
        error.contains("Person_KNOWS_Person") && error.contains("dst") && error.contains("99"),
        "{error}"
    );

    let csv = store(
        folder.path(),
        &["query", "social", "--start", "Person:7", "--out", "KNOWS", "--select", "name", "--format", "csv"],
    );

    assert_eq!(csv, "name\nBo\nCy\n");
}

#[test]
fn what_was_mistyped_is_said_before_anything_is_made() {
    let folder = temporary();
    fs::write(folder.path().join("people.csv"), "id,name\n1,One\n").unwrap();
    fs::write(folder.path().join("schema.yml"), SCHEMA.replace("int64", "number")).unwrap();
    fs::write(folder.path().join("days.yml"), SCHEMA.replace("name: string", "days: list<date>")).unwrap();

    for (args, said) in [
        (&["create", "s"][..], "--schema"),
        (&["create", "s", "--schema", "none.yml"], "none.yml"),
        (&["create", "s", "--schema", "schema.yml"], "schema.yml: vertices.Person: id"),
        (&["create", "s", "--schema", "days.yml"], "list<date>"),
        (&["create", "s", "--vertices", "Person=people.csv"], "key"),
        (&["create", "s", "--vertices", "Person=people.csv:key"], "key"),
        (&["create", "s", "--vertices", "people.csv"], "TYPE=SOURCE"),
    ] {
        let error = store_fails(folder.path(), 2, args);
        assert!(error.contains(said), "{args:?}: {error}");
        assert!(!folder.path().join("s").exists(), "{args:?}");
    }
}

#[test]
fn a_store_that_is_there_is_not_made_again() {
    let folder = temporary();
    social(folder.path());
    fs::write(folder.path().join("schema.yml"), SCHEMA).unwrap();
    let error = store_fails(folder.path(), 2, &["create", "social", "--schema", "schema.yml"]);
    assert!(error.contains("already"), "{error}");
    let error = store_fails(folder.path(), 1, &["log", "none"]);
    assert!(error.contains("none") && error.contains("no graph store"), "{error}");
}
