//! `stylobate graph store query`.

use super::{social, store, store_fails, temporary};

#[test]
fn hops_are_followed_in_the_order_in_which_they_stand() {
    let folder = temporary();
    social(folder.path());
    let args = [
        "query",
        "social",
        "--start",
        "Person:7",
        "--in",
        "HAS_CREATOR:Post",
        "--in",
        "LIKES:Person",
        "--columns",
        "at",
        "--top",
        "2:at",
        "--select",
        "Person_2.name,at,Post.content",
        "--format",
        "csv",
    ];

    assert_eq!(store(folder.path(), &args), "Person_2.name,at,Post.content\nCy,7,first\nCy,6,second\n");
}

#[test]
fn the_least_values_are_taken_where_that_is_asked_for() {
    let folder = temporary();
    social(folder.path());
    let query = |more: &[&str]| {
        let args = [
            "query",
            "social",
            "--start",
            "Person:7,8",
            "--out",
            "KNOWS",
            "--columns",
            "since",
            "--format",
            "csv",
        ];
        store(folder.path(), &[&args[..], more].concat())
    };

    assert_eq!(query(&["--top", "1:since", "--select", "since"]), "since\n2020\n");
    assert_eq!(query(&["--top", "1:since", "--least", "--select", "since"]), "since\n2001\n");
    assert_eq!(
        query(&["--select", "position,Person_1._index,since"]),
        "position,Person_1._index,since\n0,1,2001\n0,2,2020\n1,2,2010\n"
    );
}

#[test]
fn vertices_are_named_by_key_or_by_index_and_printed_in_any_format() {
    let folder = temporary();
    social(folder.path());
    let by_key = store(folder.path(), &["query", "social", "--start", "Post:p3", "--format", "json"]);
    let by_index =
        store(folder.path(), &["query", "social", "--start", "Post:2", "--by-index", "--format", "json"]);
    assert_eq!(by_key, by_index);
    assert_eq!(by_key.trim(), r#"{"_index":2,"id":"p3","content":"third"}"#);
    assert!(store(folder.path(), &["query", "social", "--start", "Post:p3"]).contains("third"));
}

#[test]
fn a_query_is_explained_without_reading() {
    let folder = temporary();
    social(folder.path());
    let text = store(
        folder.path(),
        &["query", "social", "--start", "Person:7", "--out", "KNOWS", "--top", "3:name", "--explain"],
    );
    let words: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(words, ["version", "start", "out", "top", "select"]);
}

#[test]
fn what_was_mistyped_is_named() {
    let folder = temporary();
    social(folder.path());

    for (args, said) in [
        (&["--start", "Person"][..], "TYPE:KEYS"),
        (&["--start", "Person:x"], "\"x\" is no key"),
        (&["--start", "Person:99"], "99"),
        (&["--start", "Persn:7"], "Person"),
        (&["--start", "Person:7", "--out", "KNWS"], "KNWS"),
        (&["--start", "Person:7", "--out", "KNOWS", "--columns", "sinc"], "sinc"),
        (&["--start", "Person:7", "--out", "KNOWS", "--select", "nme"], "nme"),
    ] {
        let error = store_fails(folder.path(), 2, &[&["query", "social"], args].concat());
        assert!(error.contains(said), "{args:?}: {error}");
    }

    let error = store_fails(folder.path(), 1, &["query", "social", "--start", "Person:7", "--version", "77"]);
    assert!(error.contains("77"), "{error}");
}
