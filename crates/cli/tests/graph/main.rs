//! `stylobate graph` as a process, on official sample graphs and generated graphs.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod export;
#[path = "../files/mod.rs"]
mod files;
mod import;
mod import_errors;
mod info;
mod neighbors;
mod spec;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// Returns the samples of the official repository; `None` if they are missing, which fails a full run.
fn samples() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphar");
    if !root.is_dir() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is missing", root.display());
        eprintln!("passed over: there are no sample graphs in {}", root.display());
        return None;
    }
    Some(root.canonicalize().unwrap())
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns the standard output of `stylobate graph`, which must succeed without errors or warnings.
fn graph(folder: &Path, args: &[&str]) -> String {
    files::succeeds(folder, &[&["graph"], args].concat())
}

/// Returns the error line of `stylobate graph`.
fn graph_fails(folder: &Path, code: i32, args: &[&str]) -> String {
    files::fails(folder, code, &[&["graph"], args].concat())
}

/// Returns the JSON of `stylobate graph info`.
fn described(folder: &Path, graph_file: &str) -> Value {
    serde_json::from_str(&graph(folder, &["info", graph_file, "--json"])).unwrap()
}

/// Returns the lines of a raw file of the LDBC sample, without the header.
fn raw(root: &Path, file: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root.join("ldbc_sample").join(file)).unwrap();
    text.lines().skip(1).map(|line| line.split('|').map(str::to_owned).collect()).collect()
}

/// Returns for each person the ids of their acquaintances, in the order of the raw file.
fn known(root: &Path) -> HashMap<String, Vec<String>> {
    let mut known: HashMap<String, Vec<String>> = HashMap::new();
    for row in raw(root, "person_knows_person_0_0.csv") {
        known.entry(row[0].clone()).or_default().push(row[1].clone());
    }
    known
}

/// Returns the fields of an unquoted CSV text, without the header.
fn rows(csv: &str) -> Vec<Vec<String>> {
    csv.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}
