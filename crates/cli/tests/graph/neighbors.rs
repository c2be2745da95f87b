//! `stylobate graph neighbors`.

use std::fs::File;

use arrow::ipc::reader::FileReader;

use super::{files::names, graph, graph_fails, known, raw, rows, samples, temporary};

const LDBC: [&str; 3] = [
    "ldbc_sample/parquet/ldbc_sample.graph.yml",
    "ldbc_sample/csv/ldbc_sample.graph.yml",
    "ldbc_sample/orc/ldbc_sample.graph.yml",
];
const KNOWS: [&str; 3] = ["person", "knows", "person"];

/// Returns pairs of key and neighbor id, parsed from the CSV output.
fn by_key(root: &std::path::Path, file: &str, ids: &str, direction: &str) -> Vec<(String, String)> {
    let args = ["--key", "id", "--with", "id", "--properties", "creationDate", "--format", "csv"];
    let args = [&["neighbors", file], &KNOWS[..], &["--of", ids, "--direction", direction], &args].concat();
    let csv = graph(root, &args);
    assert!(csv.starts_with("of,neighbor,creationDate,neighbor.id\n"), "{csv}");
    rows(&csv).into_iter().map(|row| (row[0].clone(), row[3].clone())).collect()
}

#[test]
fn neighbours_by_key_are_those_of_the_raw_file_both_ways() {
    let Some(root) = samples() else { return };
    let known = known(&root);
    let mut ids: Vec<&String> = known.keys().collect();
    ids.sort();
    let some = [ids[3].clone(), ids[100].clone(), ids[7].clone()];

    for file in LDBC {
        let mut found = by_key(&root, file, &some.join(","), "out");
        let mut wanted: Vec<_> =
            some.iter().flat_map(|id| known[id].iter().map(|other| (id.clone(), other.clone()))).collect();
        let order: Vec<_> = found.iter().map(|(id, _)| id.clone()).collect();
        let in_order: Vec<_> = wanted.iter().map(|(id, _)| id.clone()).collect();
        assert_eq!(order, in_order, "{file}");
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{file}");

        let mut found: Vec<_> =
            by_key(&root, file, &some[0], "in").into_iter().map(|(_, other)| other).collect();
        let mut wanted: Vec<_> =
            known.iter().filter(|(_, others)| others.contains(&some[0])).map(|(id, _)| id.clone()).collect();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{file}");
    }
}

#[test]
fn indexes_name_vertices_and_all_properties_of_edges_come_along() {
    let Some(root) = samples() else { return };
    let persons = raw(&root, "person_0_0.csv");
    let known = known(&root);
    let asked =
        ["neighbors", LDBC[0], "person", "knows", "person", "--of", "5", "--of", "17,5", "--with", "id"];
    let csv = graph(&root, &[&asked[..], &["--format", "csv"]].concat());
    assert!(csv.starts_with("of,neighbor,creationDate,neighbor.id\n"), "{csv}");
    let found = rows(&csv);
    let degree = |index: usize| known.get(&persons[index][0]).map_or(0, Vec::len);
    assert_eq!(found.len(), 2 * degree(5) + degree(17));

    for row in &found {
        let of: usize = row[0].parse().unwrap();
        let neighbor: usize = row[1].parse().unwrap();
        assert!(known[&persons[of][0]].contains(&row[3]));
        assert_eq!(persons[neighbor][0], row[3]);
    }

    let json = graph(
        &root,
        &[&asked[..], &["--format", "json", "--limit", "1", "--properties", "creationDate"]].concat(),
    );

    let first: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((first["of"].as_i64(), first["neighbor"].to_string()), (Some(5), found[0][1].clone()));
}

#[test]
fn a_table_ends_after_a_hundred_rows_and_says_how_many_more_there_are() {
    let Some(root) = samples() else { return };
    let all: Vec<String> = (0..903).map(|index| index.to_string()).collect();
    let asked = ["neighbors", LDBC[0], "person", "knows", "person", "--of", &all.join(",")];
    let table = graph(&root, &asked);
    assert_eq!(table.lines().count(), 2 + 100 + 1);
    assert!(
        table.trim_start().starts_with("of  neighbor  creationDate\n")
            && table.ends_with("… 6,526 more rows\n"),
        "{table}"
    );

    let table = graph(&root, &[&asked[..], &["--limit", "3"]].concat());
    assert_eq!(table.lines().count(), 2 + 3);
    let csv = graph(&root, &[&asked[..], &["--format", "csv"]].concat());
    assert_eq!(csv.lines().count(), 1 + 6626);
}

#[test]
fn keys_may_be_texts_with_commas_and_vertices_without_neighbours_have_no_rows() {
    let Some(root) = samples() else { return };
    let acted = ["neighbors", "neo4j", "Person", "ACTED_IN", "Movie"];
    let csv = graph(
        &root,
        &[&acted[..], &["--of", "Tom Hanks", "--key", "name", "--with", "title", "--format", "csv"]].concat(),
    );

    assert_eq!(csv.lines().count(), 1 + 12, "{csv}");
    assert!(
        csv.contains("Cast Away") && csv.lines().skip(1).all(|line| line.starts_with("Tom Hanks,")),
        "{csv}"
    );

    let who = ["--of", r"Cast Away,One Flew Over the Cuckoo's Nest", "--key", "title", "--direction", "in"];
    let csv = graph(&root, &[&acted[..], &who, &["--with", "name", "--format", "csv"]].concat());
    assert!(csv.contains("Cast Away") && csv.contains("Jack Nicholson"), "{csv}");
    let none =
        graph(&root, &[&acted[..], &["--of", "Nancy Meyers", "--key", "name", "--format", "csv"]].concat());
    assert_eq!(none, "of,neighbor\n");
    let error = graph_fails(&root, 2, &[&acted[..], &["--of", r"Meyers\, Nancy", "--key", "name"]].concat());
    assert!(error.ends_with("no vertex of type Person has the name Meyers, Nancy"), "{error}");
}

#[test]
fn an_output_file_appears_whole_and_is_not_replaced_unasked() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    let file = root.join(LDBC[0]);
    let asked =
        ["neighbors", file.to_str().unwrap(), "person", "knows", "person", "--of", "0,1,2", "-o", "a.arrow"];
    assert_eq!(graph(folder.path(), &asked), "");
    let reader = FileReader::try_new(File::open(folder.path().join("a.arrow")).unwrap(), None).unwrap();
    assert_eq!(reader.schema().field(0).name(), "of");
    assert!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>() > 0);
    assert!(graph_fails(folder.path(), 2, &asked).contains("--force"));
    let wrong = [&asked[..6], &["903", "-o", "b.csv"]].concat();
    graph_fails(folder.path(), 2, &wrong);
    assert_eq!(names(folder.path()), ["a.arrow"]);
}

#[test]
fn what_is_not_there_is_named() {
    let Some(root) = samples() else { return };
    let fails = |args: &[&str], said: &str| {
        let error = graph_fails(&root, 2, &[&["neighbors", LDBC[0]], args].concat());
        assert!(error.contains(said), "{error}");
    };

    fails(&["persn", "knows", "person", "--of", "0"], "did you mean person_knows_person?");
    fails(&["person", "knows", "person", "--of", "903"], "no vertex 903 of type person: indexes are 0..903");
    fails(&["person", "knows", "person", "--of", "-1"], "no vertex -1");
    fails(&["person", "knows", "person", "--of", "x"], "--key");
    fails(&["person", "knows", "person", "--of", "1,2,3", "--key", "id"], "has the id 1, nor 2, nor 3");
    fails(&["person", "knows", "person", "--of", "x", "--key", "id"], "\"x\" is no id");
    fails(&["person", "knows", "person", "--of", "0", "--with", "lastname"], "did you mean lastName?");
    fails(&["person", "knows", "person", "--of", "0", "--properties", "weight"], "has no property weight");
    let created =
        ["neighbors", "modern_graph", "person", "created", "software", "--of", "0", "--direction", "in"];
    let error = graph_fails(&root, 2, &created);
    assert!(error.contains("has no list ordered_by_dest"), "{error}");
}
