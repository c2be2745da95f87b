//! `stylobate graph import`: its errors, which leave no files behind.

use std::{fs, path::Path};

use super::{
    described,
    files::{
        eventually::eventually_blocking, interrupt, names, numbers, start, stylobate,
        wait_for_interrupt_handler, write_parquet,
    },
    graph, graph_fails, temporary,
};

fn folder() -> tempfile::TempDir {
    let folder = temporary();
    fs::write(folder.path().join("people.csv"), "id,name\n7,Al\n8,Bo\n").unwrap();
    fs::write(folder.path().join("knows.csv"), "src,dst\n7,8\n8,9\n").unwrap();
    folder
}

fn fails(folder: &Path, code: i32, args: &[&str]) -> String {
    let before = names(folder);
    let error = graph_fails(folder, code, &[&["import", "--name", "g", "--output", "g"], args].concat());
    assert_eq!(names(folder), before, "{args:?}");
    error
}

#[test]
fn an_edge_to_nobody_is_named_and_nothing_is_left() {
    let folder = folder();
    let args = ["--vertices", "person=people.csv:id", "--edges", "person_knows_person=knows.csv"];
    let error = fails(folder.path(), 1, &args);
    assert!(error.contains("column dst: no person has the key 9 of row 1"), "{error}");
    fs::write(folder.path().join("people.csv"), "id,name\n7,Al\n7,Bo\n").unwrap();
    let error = fails(folder.path(), 1, &args);
    assert!(error.contains("the key 7 of row 1"), "{error}");
}

#[test]
fn what_is_mistyped_is_found_before_anything_is_written() {
    let folder = folder();
    let person = ["--vertices", "person=people.csv:id"];

    for (args, said) in [
        (&["--vertices", "person"][..], "TYPE=SOURCE"),
        (&["--vertices", "person=people.csv:key"], "has no property key"),
        (&["--vertices", "person=people.csv:nmae"], "did you mean name?"),
        (&[&person[..], &["--edges", "knows=knows.csv"]].concat(), "types of vertices, which are person"),
        (&[&person[..], &["--edges", "person/knows/robot=knows.csv"]].concat(), "no vertex type robot"),
        (&[&person[..], &["--edges", "person_knows_person=knows.csv:a"]].concat(), "name two columns"),
        (
            &[&person[..], &["--edges", "person_knows_person=knows.csv:from,dst"]].concat(),
            "has no property from",
        ),
        (&[&person[..], &["--labels", "robot=name"]].concat(), "--vertices robot"),
    ] {
        let error = fails(folder.path(), 2, args);
        assert!(error.contains(said), "{error}");
    }

    for args in [
        &["import"][..],
        &["import", "--name", "g", "--vertices", "a=people.csv"],
        &["import", "spec.yml", "--vertices", "a=people.csv"],
        &["import", "--name", "g", "--output", "g", "--vertices", "a=people.csv", "--delimiter", "||"],
        &["import", "--name", "g", "--output", "g", "--vertices", "a=people.csv", "--lists", "sorted"],
        &["import", "--name", "g", "--output", "g", "--vertices", "a=people.csv", "--edge-chunk-size", "0"],
        &["import", "--name", "g", "--output", "g", "--vertices", "a=people.csv", "--format", "json"],
    ] {
        let output = stylobate(folder.path(), &[&["graph"], args].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }

    assert_eq!(names(folder.path()), ["knows.csv", "people.csv"]);
}

#[test]
fn what_is_missing_or_broken_is_an_error_of_one_line() {
    let folder = folder();
    fs::write(folder.path().join("broken.csv"), "id,name\n7,Al\n8\n").unwrap();
    fs::write(folder.path().join("text.parquet"), "no columns at all, whatever its name says").unwrap();
    fs::write(folder.path().join("broken.json"), "{\"id\": 1}\n{\"id\": \n").unwrap();
    fs::create_dir(folder.path().join("mixed")).unwrap();
    fs::write(folder.path().join("mixed/a.csv"), "id\n1\n").unwrap();
    fs::write(folder.path().join("mixed/b.json"), "{\"id\": 1}\n").unwrap();

    for (code, source, said) in [
        (1, "none.csv", "none.csv"),
        (1, "none/*.parquet", "none"),
        (1, "broken.csv", "broken.csv: line 3: the record that begins here has 1 field, and there are 2"),
        (1, "text.parquet", "neither a Parquet nor an ORC file"),
        (1, "broken.json", "broken.json"),
        (2, "mixed", "files of several formats"),
    ] {
        let error = fails(folder.path(), code, &["--vertices", &format!("person={source}:id")]);
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_graph_that_is_there_is_replaced_only_when_told_to() {
    let folder = folder();
    let args = ["import", "--quiet", "--name", "g", "--output", "g", "--vertices"];
    graph(folder.path(), &[&args[..], &["person=people.csv:id"]].concat());
    fs::write(folder.path().join("g/README"), "mine").unwrap();
    let error = graph_fails(folder.path(), 2, &[&args[..], &["robot=people.csv:id"]].concat());
    assert!(error.contains("exists already") && error.contains("--overwrite"), "{error}");
    assert_eq!(described(folder.path(), "g")["vertices"][0]["type"], "person");
    graph(folder.path(), &[&args[..], &["robot=people.csv:id", "--overwrite"]].concat());
    assert_eq!(described(folder.path(), "g")["vertices"][0]["type"], "robot");
    assert!(!folder.path().join("g/person.vertex.yml").exists() && folder.path().join("g/README").exists());
}

#[test]
fn what_fails_while_it_replaces_a_graph_leaves_the_old_one() {
    let folder = folder();
    let args = ["import", "--name", "g", "--output", "g", "--vertices", "person=people.csv:id"];
    graph(folder.path(), &[&args[..], &["--quiet"]].concat());
    let edges = ["--edges", "person_knows_person=knows.csv", "--overwrite"];
    graph_fails(folder.path(), 1, &[&args[..], &edges].concat());
    assert_eq!(described(folder.path(), "g")["vertices"][0]["count"], 2);
    assert_eq!(names(&folder.path().join("g")), ["g.graph.yml", "person.vertex.yml", "vertex"]);
}

#[test]
fn an_interrupt_leaves_nothing() {
    let folder = temporary();
    let numbers = numbers(500_000);
    write_parquet(&folder.path().join("n.parquet"), std::slice::from_ref(&numbers), 500_000);
    let edges: String = std::iter::once("src,dst\n".to_owned())
        .chain(
            (0..1_000_000_u64)
                .map(|edge| format!("{},{}\n", edge * 7919 % 500_000, edge * 104_729 % 500_000)),
        )
        .collect();

    fs::write(folder.path().join("e.csv"), edges).unwrap();
    let args = ["graph", "import", "--name", "g", "--output", "g", "--vertices", "n=n.parquet:number"];
    let args = [&args[..], &["--edges", "n_to_n=e.csv", "--edge-chunk-size", "1000"]].concat();

    // Interrupts type inference, and the writing of vertices and edges.
    for begun in [0, 1, 60] {
        let mut child = start(folder.path(), &args);
        eventually_blocking("the import to begin", || {
            let is_begun = files(folder.path()) >= 2 + begun;
            assert!(is_begun || child.try_wait().unwrap().is_none(), "it ended before {begun} files");
            is_begun
        });

        if begun == 0 {
            wait_for_interrupt_handler(&child);
        }

        assert_eq!(interrupt(&mut child), Some(130), "{begun}");
        assert_eq!(names(folder.path()), ["e.csv", "n.parquet"], "{begun}");
    }
}

/// Counts the files below a folder. Files that disappear in the meantime are not counted.
fn files(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}
