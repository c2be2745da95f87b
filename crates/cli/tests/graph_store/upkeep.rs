//! `stylobate graph store log`, `compact`, `gc` and `verify`.

use std::fs;

use super::{json, social, store, store_fails, temporary};

#[test]
fn the_log_names_versions_and_what_was_done() {
    let folder = temporary();
    social(folder.path());
    let csv = store(folder.path(), &["log", "social", "--format", "csv"]);
    assert!(csv.starts_with("version,time,operation,vertices,edges,epoch,commit\n"), "{csv}");
    let last = csv.lines().last().unwrap();
    let fields: Vec<&str> = last.split(',').collect();
    assert_eq!((fields[0], fields[2], fields[3], fields[4]), ("2", "load", "6", "10"), "{last}");
}

#[test]
fn a_sound_store_is_verified_and_one_that_lost_a_file_is_not() {
    let folder = temporary();
    social(folder.path());
    let found = json(folder.path(), &["verify", "social", "--json"]);
    assert_eq!((found["version"].as_u64(), found["flaws"].as_array().unwrap().len()), (Some(2), 0));
    assert_eq!(store(folder.path(), &["verify", "social", "--quiet"]), "");

    for base in fs::read_dir(folder.path().join("social/edges")).unwrap() {
        let base = base.unwrap();
        if base.file_name().to_string_lossy().contains("KNOWS") {
            fs::remove_dir_all(base.path()).unwrap();
        }
    }

    let output =
        super::files::stylobate(folder.path(), &["graph", "store", "verify", "social"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let out = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(out.contains("KNOWS") && error.contains("flaws") && error.lines().count() == 1, "{out}{error}");
}

#[test]
fn compaction_and_collection_keep_what_the_store_says() {
    let folder = temporary();
    social(folder.path());
    fs::write(folder.path().join("more.csv"), "src,dst,since\n9,7,2024\n").unwrap();
    assert_eq!(
        store(folder.path(), &["load", "social", "--quiet", "--edges", "Person_KNOWS_Person=more.csv"]),
        ""
    );

    let edges = || {
        let args = [
            "query",
            "social",
            "--start",
            "Person:7,8,9",
            "--out",
            "KNOWS",
            "--columns",
            "since",
            "--format",
            "csv",
        ];
        store(folder.path(), &args)
    };

    let before = edges();
    let compacted = json(folder.path(), &["compact", "social", "--force", "--json"]);
    let types: Vec<&str> =
        compacted.as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["Person_KNOWS_Person"]);
    assert_eq!(edges(), before);
    let would =
        json(folder.path(), &["gc", "social", "--older-than", "0s", "--even-young", "--dry-run", "--json"]);
    let gone = json(folder.path(), &["gc", "social", "--older-than", "0s", "--even-young", "--json"]);
    assert_eq!((&would["versions"], &would["files"]), (&gone["versions"], &gone["files"]));
    assert!(gone["files"].as_u64().unwrap() > 0, "{gone}");
    assert_eq!(edges(), before);
    let kept = json(folder.path(), &["gc", "social", "--json"]);
    assert_eq!(kept["files"].as_u64(), Some(0));
}

#[test]
fn an_age_that_is_none_is_refused() {
    let folder = temporary();
    let output =
        super::files::stylobate(folder.path(), &["graph", "store", "gc", "x", "--older-than", "soon"])
            .output()
            .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = store_fails(folder.path(), 2, &["compact", "x", "--share=-1"]);
    assert!(error.contains("--share"), "{error}");
}
