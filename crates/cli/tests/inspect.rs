//! `stylobate inspect` as a process: its output for Parquet and ORC files.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod files;

use std::{fs, path::Path};

use arrow::array::RecordBatch;
use parquet::{
    basic::Compression,
    file::{metadata::SortingColumn, properties::WriterProperties},
};
use serde_json::Value;

use self::files::{
    fails, numbers, people, redacted, stylobate, succeeds, write_orc, write_parquet, write_parquet_with,
};

fn write_numbers(path: &Path) {
    let sorting = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(1000))
        .set_compression(Compression::SNAPPY)
        .set_column_dictionary_enabled("number".into(), false)
        .set_column_bloom_filter_enabled("word".into(), true)
        .set_sorting_columns(Some(vec![sorting]))
        .set_created_by("a test".to_owned())
        .build();

    write_parquet_with(path, &[numbers(2500)], properties);
}

fn folder_with_numbers() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_numbers(&folder.path().join("numbers.parquet"));
    folder
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&succeeds(folder, &[&["inspect", "--json"], args].concat())).unwrap()
}

/// Returns the line that begins with this text, ignoring indentation.
fn line<'a>(text: &'a str, start: &str) -> &'a str {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = text.lines().find(|line| words(line).starts_with(start));
    found.unwrap_or_else(|| panic!("no line {start} in\n{text}"))
}

/// Writes `sales.parquet` with two row groups, and `sales.orc`. Neither is compressed, so that sizes depend on no codec.
fn folder_with_sales() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let rows = "id,city,price,day\n1,Oslo,1.5,2024-01-01\n2,Oslo,,2024-01-02\n3,Rome,-0.25,2024-01-03\n";
    fs::write(folder.path().join("sales.csv"), rows).unwrap();

    let convert = ["convert", "--quiet", "--compression", "none", "sales.csv"];
    succeeds(folder.path(), &[&convert[..], &["sales.parquet", "--row-group-rows", "2"]].concat());
    succeeds(folder.path(), &[&convert[..], &["sales.orc"]].concat());
    folder
}

#[test]
fn all_that_is_shown_of_parquet_and_orc_is_as_reviewed() {
    let folder = folder_with_sales();
    for (name, file, form) in [
        ("parquet_text", "sales.parquet", "--row-groups"),
        ("parquet_json", "sales.parquet", "--json"),
        ("orc_text", "sales.orc", "--row-groups"),
        ("orc_json", "sales.orc", "--json"),
    ] {
        let text = succeeds(folder.path(), &["inspect", file, form]);
        insta::assert_snapshot!(name, redacted(folder.path(), &text));
    }
}

#[test]
fn a_parquet_file_is_shown_with_schema_storage_values_and_row_groups() {
    let folder = folder_with_numbers();
    let text = succeeds(folder.path(), &["inspect", "numbers.parquet"]);
    assert!(line(&text, "format").contains("Parquet"), "{text}");
    assert!(line(&text, "rows").contains("2,500 in 3 row groups"), "{text}");
    assert!(line(&text, "created by").contains("a test"), "{text}");
    assert!(line(&text, "metadata").contains("ARROW:schema = "), "{text}");
    line(&text, "number int64");
    line(&text, "word string as byte_array");
    assert!(line(&text, "number snappy plain no").contains('%'), "{text}");
    line(&text, "word snappy rle_dictionary all");
    line(&text, "number int64 0 0 2499 yes no");
    line(&text, "word string 0 even odd yes yes");
    assert!(line(&text, "2 500").ends_with("number"), "{text}");
}

#[test]
fn row_groups_are_shown_column_by_column_when_asked_for() {
    let folder = folder_with_numbers();
    let text =
        succeeds(folder.path(), &["inspect", "numbers.parquet", "--row-groups", "--columns", "number"]);
    assert!(line(&text, "1 number plain no").ends_with("1999"), "{text}");
    assert!(!text.contains("word"), "{text}");
}

#[test]
fn json_has_numbers_as_numbers() {
    let folder = folder_with_numbers();
    let file = &json(folder.path(), &["numbers.parquet"])[0];
    assert_eq!(file["format"], "parquet");
    assert_eq!((&file["rows"], &file["parts"][2]["rows"]), (&2500.into(), &500.into()));
    assert_eq!(file["size"], fs::metadata(folder.path().join("numbers.parquet")).unwrap().len());
    let number = &file["columns"][0];
    assert_eq!((&number["min"], &number["max"], &number["nulls"]), (&0.into(), &2499.into(), &0.into()));
    assert_eq!(number["dictionary_chunks"], 0);
    let word = &file["columns"][1];
    assert_eq!((&word["dictionary_chunks"], &word["bloom_filter_chunks"]), (&3.into(), &3.into()));
    assert_eq!(word["codecs"], serde_json::json!(["SNAPPY"]));
    assert_eq!(file["parts"][0]["sorted_by"], serde_json::json!(["number"]));
    assert!(file["parts"][0].get("columns").is_none());
    let with_chunks = json(folder.path(), &["numbers.parquet", "--row-groups"]);
    assert_eq!(with_chunks[0]["parts"][1]["columns"][0]["min"], 1000);
}

#[test]
fn an_orc_file_is_shown_with_stripes_and_encodings() {
    let folder = tempfile::tempdir().unwrap();
    write_orc(&folder.path().join("people.orc"), &[people()]);
    let text = succeeds(folder.path(), &["inspect", "people.orc"]);
    assert!(line(&text, "format").contains("ORC"), "{text}");
    assert!(line(&text, "rows").contains("3 in 1 stripe"), "{text}");
    line(&text, "age bigint");
    line(&text, "name none direct");
    let file = &json(folder.path(), &["people.orc", "--row-groups"])[0];
    assert_eq!((&file["format"], &file["rows"]), (&"orc".into(), &3.into()));
    assert_eq!(file["parts"][0]["columns"].as_array().unwrap().len(), 3);
}

/// Returns the ranges of all chunks and parts, as offset and size, and the size of the footer.
fn ranges(file: &Value) -> (Vec<(u64, u64)>, u64) {
    let parts = file["parts"].as_array().unwrap();
    let chunks = parts.iter().flat_map(|part| part["columns"].as_array().unwrap());
    let extents = parts.iter().chain(chunks).filter_map(|holder| holder["extents"].as_array()).flatten();
    let mut ranges: Vec<_> = extents
        .map(|extent| (extent["offset"].as_u64().unwrap(), extent["size"].as_u64().unwrap()))
        .collect();

    ranges.sort_unstable();
    (ranges, file["footer_size"].as_u64().unwrap())
}

#[test]
fn the_ranges_of_chunks_are_all_of_a_file_but_its_magic_bytes_and_footer() {
    let folder = folder_with_numbers();
    write_orc(&folder.path().join("people.orc"), &[people()]);
    for (name, magic) in [("numbers.parquet", 4), ("people.orc", 3)] {
        let file = &json(folder.path(), &[name, "--row-groups"])[0];
        let (ranges, footer_size) = ranges(file);
        let mut reached = magic;
        for (offset, size) in ranges {
            assert_eq!(offset, reached, "{name}: {file:#}");
            reached += size;
        }
        assert_eq!(reached + footer_size, file["size"].as_u64().unwrap(), "{name}");
        assert!(json(folder.path(), &[name])[0]["parts"][0].get("extents").is_none(), "{name}");
    }

    let file = &json(folder.path(), &["numbers.parquet", "--row-groups"])[0];
    let contents = |column: usize| {
        let extents = file["parts"][0]["columns"][column]["extents"].as_array().unwrap();
        extents.iter().map(|extent| extent["content"].as_str().unwrap()).collect::<Vec<_>>()
    };

    assert_eq!(contents(0), ["data", "index", "index"]);
    assert_eq!(contents(1), ["dictionary", "data", "bloom_filter", "index", "index"]);
}

#[test]
fn a_drawing_shows_ranges_and_chunks() {
    let folder = folder_with_numbers();
    let path = folder.path();
    let text = succeeds(path, &["inspect", "numbers.parquet"]);
    assert_eq!(succeeds(path, &["inspect", "numbers.parquet", "--svg", "layout.svg"]), text);
    let drawing = fs::read_to_string(path.join("layout.svg")).unwrap();
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"), "{drawing}");
    for part in [
        ">Layout of numbers.parquet</text>",
        "2,500 rows in 3 row groups of 2 columns, written by a test<",
        ">row groups</text>",
        ">data</text>",
        ">dictionaries</text>",
        ">indexes</text>",
        ">bloom filters</text>",
        ">footers</text>",
        ">other bytes</text>",
        ">offset in the file</text>",
        "<title>word, row group 2\n",
        "\nin dictionary: all\n500 values, 0 nulls</title>",
        "prefers-color-scheme:dark",
    ] {
        assert!(drawing.contains(part), "{part} is not in\n{drawing}");
    }

    assert_eq!(succeeds(path, &["inspect", "numbers.parquet", "--svg", "-"]), drawing);
    let one = succeeds(path, &["inspect", "numbers.parquet", "--svg", "-", "--columns", "number"]);
    assert!(!one.contains("<title>word, row group 2"), "{one}");
    assert!(one.contains("<title>number, row group 2"), "{one}");

    write_orc(&path.join("people.orc"), &[people()]);
    let drawing = succeeds(path, &["inspect", "people.orc", "--svg", "-"]);
    for part in ["3 rows in 1 stripe of 3 columns", ">columns by stripe</text>", "<title>name, stripe 0\n"] {
        assert!(drawing.contains(part), "{part} is not in\n{drawing}");
    }
}

#[test]
fn a_drawing_of_a_file_without_rows_or_with_a_hostile_column_is_well_formed() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("none.parquet"), &[people().slice(0, 0)], 10);
    let drawing = succeeds(folder.path(), &["inspect", "none.parquet", "--svg", "-"]);
    assert!(drawing.contains(">no row groups</text>"), "{drawing}");

    let hostile = people().columns().first().map(|names| ("</text>&\"name", names.clone()));
    let hostile = RecordBatch::try_from_iter_with_nullable(hostile.map(|(name, names)| (name, names, true)));
    write_parquet(&folder.path().join("hostile.parquet"), &[hostile.unwrap()], 10);
    let drawing = succeeds(folder.path(), &["inspect", "hostile.parquet", "--svg", "-"]);
    assert!(drawing.contains("&lt;/text&gt;&amp;&quot;name, row group 0"), "{drawing}");
    assert_eq!(drawing.matches("<text").count(), drawing.matches("</text>").count(), "{drawing}");
}

#[test]
fn what_cannot_be_drawn_is_an_error_of_the_command_line() {
    let folder = folder_with_numbers();
    let path = folder.path();
    let error = fails(path, 2, &["inspect", "numbers.parquet", "--json", "--svg", "-"]);
    assert!(error.contains("standard output"), "{error}");
    let error = fails(path, 2, &["inspect", "numbers.parquet", "--svg", "no/such/folder.svg"]);
    assert!(error.contains("there is no folder"), "{error}");
    write_numbers(&path.join("more.parquet"));
    let before = fs::read(path.join("numbers.parquet")).unwrap();
    let error = fails(path, 2, &["inspect", "numbers.parquet", "--svg", "numbers.parquet"]);
    assert!(error.contains("another extension than .svg"), "{error}");
    assert!(fs::read(path.join("numbers.parquet")).unwrap() == before);
    let error = fails(path, 2, &["inspect", ".", "--svg", "layout.svg"]);
    assert!(error.contains("--svg draws one file"), "{error}");
    assert!(!path.join("layout.svg").exists());
}

#[test]
fn an_orc_file_of_another_writer_is_shown_with_its_statistics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphar/ldbc_sample/orc");
    let file = "vertex/person/id/chunk0";
    if !folder.join(file).is_file() {
        assert!(std::env::var_os("CI").is_none(), "{} is missing", folder.display());
        return;
    }

    let shown = &json(&folder, &[file, "--row-groups"])[0];
    assert_eq!(shown["format"], "orc");
    assert!(shown["created_by"].as_str().unwrap().starts_with("ORC Java"), "{shown:#}");
    let id = &shown["columns"][1];
    assert!(id["min"].as_i64() < id["max"].as_i64(), "{id:#}");
    assert_eq!((&id["nulls"], &id["values"]), (&0.into(), &shown["rows"]));
}

#[test]
fn several_files_are_summed_up_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    write_numbers(&folder.path().join("lake/a.parquet"));
    write_numbers(&folder.path().join("lake/b.parquet"));
    write_parquet(&folder.path().join("lake/c.parquet"), &[people()], 10);
    write_orc(&folder.path().join("lake/d.orc"), &[people()]);
    let text = succeeds(folder.path(), &["inspect", "lake"]);
    assert!(line(&text, "files").ends_with('4'), "{text}");
    assert!(line(&text, "format").contains("ORC (1), Parquet (3)"), "{text}");
    assert!(line(&text, "rows").contains("5,006 in 8 parts"), "{text}");
    assert!(line(&text, "schemas").ends_with('3'), "{text}");
    assert!(text.lines().last().unwrap().ends_with("lake/d.orc"), "{text}");
    let files = json(folder.path(), &["lake/*.parquet"]);
    assert_eq!(files.as_array().unwrap().len(), 3);
}

#[test]
fn what_is_missing_or_broken_is_an_error_of_one_line() {
    let folder = folder_with_numbers();
    let path = folder.path();
    let error = fails(path, 2, &["inspect", "numbers.parquet", "--columns", "numbr"]);
    assert!(error.contains("did you mean number?"), "{error}");
    fails(path, 1, &["inspect", "nothing.parquet"]);
    fs::write(path.join("text.orc"), "no columns here").unwrap();
    let error = fails(path, 1, &["inspect", "text.orc"]);
    assert!(error.contains("text.orc"), "{error}");
    let bytes = fs::read(path.join("numbers.parquet")).unwrap();

    for cut in [4, 8, 30, 200] {
        let mut broken = bytes.clone();
        let end = broken.len() - cut;
        broken[end - 20..end].fill(0xee);
        fs::write(path.join("broken.parquet"), broken).unwrap();
        let output = stylobate(path, &["inspect", "broken.parquet"]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("panicked") && error.lines().count() <= 1, "{error}");
    }
}

#[test]
fn a_broken_file_among_others_does_not_hide_them() {
    let folder = folder_with_numbers();
    let path = folder.path();
    write_numbers(&path.join("more.parquet"));
    fs::write(path.join("broken.parquet"), "PAR1 no columns here, no columns here PAR1").unwrap();
    fs::write(path.join("text.parquet"), "something else").unwrap();
    let output = stylobate(path, &["inspect", "."]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(text.contains("numbers.parquet") && text.contains("more.parquet"), "{text}");
    assert!(error.contains("broken.parquet") && error.contains("1 of 4 files"), "{error}");
    assert_eq!(error.matches("broken.parquet").count(), 1, "{error}");
    assert!(line(&text, "others").contains("1, neither"), "{text}");
}
