//! `stylobate graph store` as a process, on stores in folders.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../files/mod.rs"]
mod files;
mod making;
mod query;
mod upkeep;

use std::{fs, path::Path};

use serde_json::Value;

const PEOPLE: &str = "id,name,age\n7,Al,20\n8,Bo,31\n9,Cy,40\n";
const POSTS: &str = "id,content\np1,first\np2,second\np3,third\n";
const KNOWS: &str = "src,dst,since\n7,8,2001\n8,9,2010\n7,9,2020\n";
const CREATED: &str = "post,person\np1,7\np2,7\np3,8\n";
const LIKES: &str = "src,dst,at\n8,p1,5\n9,p1,7\n9,p2,6\n7,p3,1\n";

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns the standard output of `stylobate graph store`, which must succeed without errors or warnings.
fn store(folder: &Path, args: &[&str]) -> String {
    files::succeeds(folder, &[&["graph", "store"], args].concat())
}

/// Returns the error line of `stylobate graph store`.
fn store_fails(folder: &Path, code: i32, args: &[&str]) -> String {
    files::fails(folder, code, &[&["graph", "store"], args].concat())
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&store(folder, args)).unwrap()
}

/// Creates a store with persons, posts, and edges of three types from tables.
fn social(folder: &Path) {
    for (name, text) in
        [("people", PEOPLE), ("posts", POSTS), ("knows", KNOWS), ("created", CREATED), ("likes", LIKES)]
    {
        fs::write(folder.join(format!("{name}.csv")), text).unwrap();
    }
    let args = [
        "create",
        "social",
        "--quiet",
        "--vertices",
        "Person=people.csv:id",
        "--vertices",
        "Post=posts.csv:id",
        "--edges",
        "Person_KNOWS_Person=knows.csv",
        "--edges",
        "Post_HAS_CREATOR_Person=created.csv:post,person",
        "--edges",
        "Person/LIKES/Post=likes.csv",
    ];

    assert_eq!(store(folder, &args), "");
}
