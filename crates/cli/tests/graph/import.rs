//! `stylobate graph import`: graphs from tables.

use std::{fs, path::Path, sync::Arc};

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use serde_json::Value;

use super::{
    described,
    files::{names, stylobate, succeeds, write_orc, write_parquet},
    graph, raw, rows, samples, temporary,
};

const SOCIAL: [&str; 4] = ["--name", "social", "--output", "social"];

fn import(folder: &Path, args: &[&str]) {
    assert_eq!(graph(folder, &[&["import", "--quiet"], &SOCIAL[..], args].concat()), "");
}

/// Writes small tables as a user would type them.
fn small(folder: &Path) {
    let people = "id,name,age,zip,born,seen,fine\n7,Al,20,01234,2001-02-03,2020-01-02T03:04:05.678Z,true\n\
                  8,\"Bo, \"\"B\"\"\",31.5,00001,,2020-01-02 03:04:05,FALSE\n9,\"\",,99999,1969-12-31,,\n";
    fs::write(folder.join("people.csv"), people).unwrap();
    fs::write(folder.join("knows.csv"), "src,dst,since\n7,8,2001\n9,7,\n7,9,2020\n").unwrap();
}

/// Returns the type of a property.
fn type_of(types: &Value, property: &str) -> String {
    let groups = types["property_groups"].as_array().unwrap().iter();
    let mut all = groups.flat_map(|group| group["properties"].as_array().unwrap());
    let found = all.find(|known| known["name"] == property);
    found.unwrap_or_else(|| panic!("no {property} in {types}"))["data_type"].as_str().unwrap().to_owned()
}

#[test]
fn types_are_found_by_looking_at_all_values() {
    let folder = temporary();
    small(folder.path());
    import(
        folder.path(),
        &["--vertices", "person=people.csv:id", "--edges", "person_knows_person=knows.csv"],
    );

    let facts = described(folder.path(), "social/social.graph.yml");
    let person = &facts["vertices"][0];
    let types =
        ["id", "name", "age", "zip", "born", "seen", "fine"].map(|property| type_of(person, property));
    assert_eq!(types, ["int64", "string", "double", "string", "date", "timestamp", "bool"]);
    assert_eq!((person["count"].as_u64(), facts["edges"][0]["count"].as_u64()), (Some(3), Some(3)));
    succeeds(folder.path(), &["graph", "export", "social", "out", "--quiet", "--keys", "--format", "csv"]);
    let people = fs::read_to_string(folder.path().join("out/person.csv")).unwrap();
    let wanted = "id,name,age,zip,born,seen,fine\n7,Al,20.0,01234,2001-02-03,2020-01-02T03:04:05.678,true\n\
                  8,\"Bo, \"\"B\"\"\",31.5,00001,,2020-01-02T03:04:05,false\n9,\"\",,99999,1969-12-31,,\n";
    assert_eq!(people, wanted);
    let edges = fs::read_to_string(folder.path().join("out/person_knows_person.csv")).unwrap();
    assert_eq!(edges, "src,dst,since\n7,8,2001\n7,9,2020\n9,7,\n");
}

#[test]
fn ldbc_comes_in_and_goes_out_the_same() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    let ldbc = root.join("ldbc_sample");
    let source = |file: &str| format!("{}/{file}", ldbc.display());
    let vertices = format!("person={}:id", source("person_0_0.csv"));
    let edges = format!("person_knows_person={}:src,dst", source("person_knows_person_0_0.csv"));

    for format in ["parquet", "orc", "csv"] {
        let args = [
            "--vertices",
            &vertices,
            "--edges",
            &edges,
            "--delimiter",
            "|",
            "--format",
            format,
            "--overwrite",
        ];

        let sizes = [
            "--vertex-chunk-size",
            "100",
            "--edge-chunk-size",
            "1024",
            "--memory",
            "64MiB",
            "--threads",
            "2",
        ];

        import(folder.path(), &[&args[..], &sizes].concat());
        let facts = described(folder.path(), "social");
        assert_eq!(
            (facts["vertices"][0]["chunks"].as_u64(), facts["vertices"][0]["count"].as_u64()),
            (Some(10), Some(903))
        );

        assert_eq!(facts["edges"][0]["count"].as_u64(), Some(6626));
        assert_eq!(type_of(&facts["edges"][0], "creationDate"), "timestamp");
        let out = ["graph", "export", "social", "out", "--quiet", "--keys", "--format", "csv", "--force"];
        succeeds(folder.path(), &out);
        let people = fs::read_to_string(folder.path().join("out/person.csv")).unwrap();
        assert_eq!(rows(&people), raw(&root, "person_0_0.csv"), "{format}");
        let knows = fs::read_to_string(folder.path().join("out/person_knows_person.csv")).unwrap();
        let mut found = rows(&knows);
        let mut wanted = raw(&root, "person_knows_person_0_0.csv");
        wanted.iter_mut().for_each(|row| row[2] = row[2].replace("+0000", ""));
        // The output omits zero fractions.
        let short = |row: &mut Vec<String>| row[2] = row[2].trim_end_matches(".000").to_owned();
        found.iter_mut().for_each(short);
        wanted.iter_mut().for_each(short);
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{format}");
    }
}

#[test]
fn what_was_exported_by_index_is_imported_again() {
    let Some(root) = samples() else { return };
    let folder = temporary();
    let file = root.join("modern_graph/modern_graph.graph.yml");

    for format in ["parquet", "orc", "csv", "json"] {
        succeeds(
            folder.path(),
            &["graph", "export", file.to_str().unwrap(), format, "--quiet", "--format", format],
        );

        let extension = if format == "json" { "jsonl" } else { format };
        let of = |name: &str| format!("{name}={format}/{name}.{extension}");
        let person = of("person") + ":id";
        let software = of("software");
        let knows = of("person_knows_person");
        let created = of("person_created_software");
        let vertices = ["--vertices", &person, "--vertices", &software, "--by-index", "--overwrite"];
        import(folder.path(), &[&vertices[..], &["--edges", &knows, "--edges", &created]].concat());

        for edge in ["person/knows/person", "person/created/software"] {
            let names: Vec<&str> = edge.split('/').collect();
            let asked = [&names[..], &["--of", "0,1,2,3", "--with", "name", "--format", "csv"]].concat();
            let wanted = graph(folder.path(), &[&["neighbors", file.to_str().unwrap()], &asked[..]].concat());
            let found = graph(folder.path(), &[&["neighbors", "social"], &asked[..]].concat());
            let sorted = |csv: &str| {
                let mut rows = rows(csv);
                rows.sort();
                rows
            };

            assert_eq!(sorted(&found), sorted(&wanted), "{format} {edge}");
        }
    }
}

#[test]
fn folders_patterns_and_other_columns_are_taken() {
    let folder = temporary();
    let path = folder.path();
    let people = |ids: Vec<i64>| {
        let names: ArrayRef = Arc::new(ids.iter().map(|id| Some(format!("n{id}"))).collect::<StringArray>());
        let ids: ArrayRef = Arc::new(Int64Array::from(ids));
        RecordBatch::try_from_iter([("key", ids), ("name", names)]).unwrap()
    };

    write_parquet(&path.join("people/a.parquet"), &[people(vec![5, 1])], 10);
    write_parquet(&path.join("people/b.parquet"), &[people(vec![3])], 10);
    write_orc(&path.join("more.orc"), &[people(vec![10, 20])]);
    fs::create_dir(path.join("edges")).unwrap();
    fs::write(path.join("edges/1.csv"), "\u{feff}to;from\n10;5\n").unwrap();
    fs::write(path.join("edges/2.csv"), "to;from\n20;3\n10;1").unwrap();
    let vertices = ["--vertices", "a_b=people:key", "--vertices", "c=more.orc:key", "--delimiter", ";"];
    import(
        path,
        &[&vertices[..], &["--edges", "a_b_is_c=edges/*.csv:from,to", "--lists", "ordered_by_dest"]].concat(),
    );

    let facts = described(path, "social");
    assert_eq!(facts["edges"][0]["src_type"], "a_b");
    assert_eq!(facts["edges"][0]["adj_lists"].as_array().unwrap().len(), 1);
    let asked = [
        "a_b",
        "is",
        "c",
        "--of",
        "10",
        "--key",
        "key",
        "--direction",
        "in",
        "--with",
        "key",
        "--format",
        "csv",
    ];

    let csv = graph(path, &[&["neighbors", "social"], &asked[..]].concat());
    assert_eq!(csv, "of,neighbor,neighbor.key\n10,0,5\n10,1,1\n");
}

#[test]
fn labels_are_kept() {
    let folder = temporary();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["cat", "dog", "dog"]));
    let batch = RecordBatch::try_from_iter([("id", ids), ("kind", names)]).unwrap();
    write_parquet(&folder.path().join("a.parquet"), &[batch], 10);
    import(folder.path(), &["--vertices", "pet=a.parquet:id", "--labels", "pet=kind"]);
    assert_eq!(
        described(folder.path(), "social")["vertices"][0]["labels"],
        serde_json::json!(["cat", "dog"])
    );

    succeeds(folder.path(), &["graph", "export", "social", "out", "--quiet", "--labels", "--format", "json"]);
    let json = fs::read_to_string(folder.path().join("out/pet.jsonl")).unwrap();
    assert_eq!(json.lines().nth(1), Some("{\"id\":2,\"labels\":[\"dog\"]}"));
    succeeds(folder.path(), &["graph", "export", "social", "again", "--quiet", "--labels"]);
    import(
        folder.path(),
        &["--vertices", "pet=again/pet.parquet:id", "--labels", "pet=labels", "--overwrite"],
    );

    assert_eq!(
        described(folder.path(), "social")["vertices"][0]["labels"],
        serde_json::json!(["cat", "dog"])
    );
}

#[test]
fn lists_go_in_and_out() {
    let folder = temporary();
    let lists = vec![Some(vec![Some(1), None]), None, Some(vec![])];
    let lists: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>(lists));
    write_parquet(
        &folder.path().join("a.parquet"),
        &[RecordBatch::try_from_iter_with_nullable([("x", lists, true)]).unwrap()],
        10,
    );

    import(folder.path(), &["--vertices", "a=a.parquet"]);
    succeeds(folder.path(), &["graph", "export", "social", "out", "--quiet", "--format", "json"]);
    let json = fs::read_to_string(folder.path().join("out/a.jsonl")).unwrap();
    assert_eq!(json, "{\"x\":[1,null]}\n{\"x\":null}\n{\"x\":[]}\n");
}

#[test]
fn a_summary_is_told_to_people_and_to_programs() {
    let folder = temporary();
    small(folder.path());
    let args =
        ["graph", "import", "--vertices", "person=people.csv:id", "--edges", "person_knows_person=knows.csv"];
    let args = [&args[..], &SOCIAL].concat();
    let output = stylobate(folder.path(), &args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout.is_empty(), "{error}");
    assert!(error.starts_with("social: 3 vertices, 3 edges, ") && error.lines().count() == 1, "{error}");
    let json: Value =
        serde_json::from_str(&succeeds(folder.path(), &[&args[..], &["--json", "--overwrite"]].concat()))
            .unwrap();
    assert_eq!(json["graph"], "social/social.graph.yml");
    assert_eq!((&json["vertices"]["person"], &json["edges"]["person_knows_person"]), (&3.into(), &3.into()));

    let mut bytes = 0;
    let mut files = 0;
    for entry in walk(&folder.path().join("social")) {
        bytes += fs::metadata(&entry).unwrap().len();
        files += 1;
    }

    assert_eq!((json["bytes"].as_u64(), json["files"].as_u64()), (Some(bytes), Some(files)));
    assert!(json["seconds"].as_f64().unwrap() > 0.0 && json["rows_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(names(folder.path()), ["knows.csv", "people.csv", "social"]);
}

/// Returns all files below a folder.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}
