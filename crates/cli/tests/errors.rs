//! Error texts of wrong command lines and unreadable inputs, word for word.
#![cfg(all(feature = "graph", feature = "sql"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod files;

use std::{fmt::Write, fs, path::Path};

use self::files::{names, people, redacted, stylobate, write_parquet};

const READING: &[&[&str]] = &[
    &["scan", "people.parquet", "--columns", "nmae"],
    &["scan", "people.parquet", "--columns", "zebra"],
    &["scan", "people.parquet", "--where", "age >"],
    &["scan", "people.parquet", "--where", "name > 1"],
    &["scan", "people.parquet", "--where", "nmae = 'Ada'"],
    &["scan", "people.parquet", "--memory", "1XB"],
    &["scan", "people.parquet", "--threads", "0"],
    &["scan", "missing.parquet"],
    &["scan", "folder/*.parquet"],
    &["scan", "people[.parquet"],
    &["scan", "text.parquet"],
    &["scan", "truncated.parquet"],
    &["scan", "short.csv"],
    &["scan", "gopher://host/people.parquet"],
    &["inspect", "people.parquet", "--columns", "nmae"],
    &["inspect", "short.csv"],
];

const WRITING: &[&[&str]] = &[
    &["convert", "people.parquet", "text.parquet"],
    &["convert", "people.parquet", "people.xlsx"],
    &["convert", "people.parquet", "out.parquet", "--compression", "zstd(99)"],
    &["convert", "people.parquet", "out.orc", "--row-group-rows", "10"],
    &["generate", "tpch", "--output", "out", "--tables", "lineitm"],
    &["generate", "tpch", "--output", "out", "--scale", "0"],
];

const SQL: &[&[&str]] = &[
    &["sql", "SELEC 1"],
    &["sql", "SELECT 1/0"],
    &["sql", "SELECT * FROM 'missing.parquet'"],
    &["sql", "SELECT * FROM poeple", "--table", "people=people.parquet"],
    &["sql", "SELECT * FROM zebra", "--table", "people=people.parquet"],
    &["sql", "SELECT nmae FROM people", "--table", "people=people.parquet"],
    &["sql", "DELETE FROM people", "--table", "people=people.parquet"],
    &["sql", "SELECT 1", "--table", "people"],
    &["sql", "SELECT 1", "--output", "out.txt"],
];

const NODES: &[&[&str]] = &[
    &["serve", "--config", "missing.toml"],
    &["serve", "--config", "broken.toml"],
    &["serve", "--config", "key.toml"],
    &["serve", "--config", "size.toml"],
    &["serve", "--config", "time.toml"],
    &["serve", "--consistency", "soon"],
    &["serve", "--page-size", "3MiB"],
    &["serve", "--listen", "nowhere"],
    &["top", "localhost:9001"],
];

const GRAPHS: &[&[&str]] = &[
    &["graph", "info", "missing"],
    &["graph", "import", "--name", "g", "--output", "g", "--vertices", "city=cities.csv:key"],
    &[
        "graph",
        "import",
        "--name",
        "g",
        "--output",
        "g",
        "--vertices",
        "city=cities.csv:id",
        "--edges",
        "city_road_city=roads.csv",
    ],
];

const INPUTS: [(&str, &str); 8] = [
    ("text.parquet", "no columns here, whatever the name says"),
    ("short.csv", "id,city\n1,Oslo\n2\n"),
    ("cities.csv", "id,city\n1,Oslo\n2,Rome\n"),
    ("roads.csv", "src,dst\n1,2\n2,9\n"),
    ("broken.toml", "[cache\n"),
    ("key.toml", "[cache]\nmemry = '1GiB'\n"),
    ("size.toml", "[cache]\nmemory = '1XB'\n"),
    ("time.toml", "[server]\ndrain_timeout = 'soon'\n"),
];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (name, text) in INPUTS {
        fs::write(path.join(name), text).unwrap();
    }

    write_parquet(&path.join("people.parquet"), &[people()], 10);
    let whole = fs::read(path.join("people.parquet")).unwrap();
    fs::write(path.join("truncated.parquet"), &whole[..whole.len() / 2]).unwrap();
    folder
}

/// Runs commands that must fail and leave no files behind. Returns each with its error text and exit code.
fn transcript(commands: &[&[&str]]) -> String {
    let folder = folder();
    let before = names(folder.path());

    let mut transcript = String::new();
    for args in commands {
        let (error, code) = failure(folder.path(), args);
        let command = args.iter().map(|arg| quoted(arg)).collect::<Vec<_>>().join(" ");
        writeln!(transcript, "$ stylobate {command}\n{error}\nexit code {code}\n").unwrap();
    }

    assert_eq!(names(folder.path()), before);
    transcript
}

/// Returns the error text and the exit code of a command.
fn failure(folder: &Path, args: &[&str]) -> (String, i32) {
    let output = stylobate(folder, args).output().unwrap();
    assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    (redacted(folder, error.trim_end()), output.status.code().unwrap())
}

/// Quotes an argument as a shell needs it.
fn quoted(arg: &str) -> String {
    let is_plain = arg.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,".contains(c));
    if is_plain { arg.to_owned() } else { format!("\"{arg}\"") }
}

#[test]
fn the_errors_of_commands_that_read_are_as_reviewed() {
    insta::assert_snapshot!("reading", transcript(READING));
}

#[test]
fn the_errors_of_commands_that_write_are_as_reviewed() {
    insta::assert_snapshot!("writing", transcript(WRITING));
}

#[test]
fn the_errors_of_sql_are_as_reviewed() {
    insta::assert_snapshot!("sql", transcript(SQL));
}

#[test]
fn the_errors_of_nodes_that_do_not_start_are_as_reviewed() {
    insta::assert_snapshot!("nodes", transcript(NODES));
}

#[test]
fn the_errors_of_graphs_are_as_reviewed() {
    insta::assert_snapshot!("graphs", transcript(GRAPHS));
}
