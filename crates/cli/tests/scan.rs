//! `stylobate scan` as a process: formats, options and exit codes.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod files;

use std::{fs, io::Read, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StringArray, StructArray},
    compute::cast,
    datatypes::{DataType, Field, Int64Type},
    ipc::reader::{FileReader, StreamReader},
};

use self::files::{
    fails, interrupt, names, numbers, people, start, stylobate, succeeds, wait_for_full_pipe, write_orc,
    write_parquet,
};

fn folder_with_people() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("people.parquet"), &[people()], 2);
    folder
}

fn folder_with_numbers(rows: i64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("numbers.parquet"), &[numbers(rows)], 1000);
    folder
}

#[test]
fn a_table_has_numbers_to_the_right_and_visible_nulls() {
    let folder = folder_with_people();
    let expected = "\
name               age  score
────────────────  ────  ─────
Ada                 36    1.5
NULL                -1    2.0
Grace, \"Amazing\"  NULL  -0.25
";

    assert_eq!(succeeds(folder.path(), &["scan", "people.parquet"]), expected);
}

#[test]
fn a_table_ends_after_twenty_rows_and_says_how_many_more_there_are() {
    let folder = folder_with_numbers(2500);
    let text = succeeds(folder.path(), &["scan", "numbers.parquet"]);
    assert_eq!(text.lines().count(), 2 + 20 + 1);
    assert!(text.ends_with("… 2,480 more rows\n"), "{text}");
    let text = succeeds(folder.path(), &["scan", "numbers.parquet", "--where", "number >= 10"]);
    assert!(text.contains("\n    10  even\n") && text.contains("more rows: --limit"), "{text}");
    let text = succeeds(folder.path(), &["scan", "numbers.parquet", "--limit", "1500"]);
    assert_eq!(text.lines().count(), 2 + 1500);
    let text = succeeds(folder.path(), &["scan", "numbers.parquet", "--limit", "0"]);
    assert_eq!(text, "number  word\n──────  ────\n");
}

#[test]
fn csv_has_a_header_and_tells_null_from_empty() {
    let folder = folder_with_people();
    let csv = succeeds(folder.path(), &["scan", "people.parquet", "--format", "csv"]);
    assert_eq!(csv, "name,age,score\nAda,36,1.5\n,-1,2.0\n\"Grace, \"\"Amazing\"\"\",,-0.25\n");
}

#[test]
fn json_is_one_object_per_line_with_all_names() {
    let folder = folder_with_people();
    let json =
        succeeds(folder.path(), &["scan", "people.parquet", "--format", "json", "--columns", "age,name"]);
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1], serde_json::json!({"age": -1, "name": null}));
}

#[test]
fn arrow_is_a_stream_with_the_values_of_all_row_groups() {
    let folder = folder_with_numbers(2500);
    for dictionary in ["auto", "all", "none", "word"] {
        let args = ["scan", "numbers.parquet", "--format", "arrow", "--dictionary", dictionary];
        let output = stylobate(folder.path(), &args).output().unwrap();
        assert!(output.status.success());
        let reader = StreamReader::try_new(&output.stdout[..], None).unwrap();
        let is_dictionary = matches!(reader.schema().field(1).data_type(), DataType::Dictionary(..));
        assert_eq!(is_dictionary, dictionary != "none", "{dictionary}");

        let mut next = 0;
        for batch in reader.map(Result::unwrap) {
            let words = cast(batch.column(1), &DataType::Utf8).unwrap();
            for (row, number) in batch.column(0).as_primitive::<Int64Type>().values().iter().enumerate() {
                assert_eq!(*number, next);
                assert_eq!(words.as_string::<i32>().value(row), if next % 2 == 0 { "even" } else { "odd" });
                next += 1;
            }
        }

        assert_eq!(next, 2500);
    }
}

#[test]
fn rows_and_columns_are_chosen_and_counted() {
    let folder = folder_with_numbers(2500);
    let scan = |args: &[&str]| succeeds(folder.path(), &[&["scan", "numbers.parquet"], args].concat());
    let some = ["--where", "number > 997 AND word = 'odd'", "--limit", "2", "--columns", "word,number"];
    assert_eq!(scan(&[&some[..], &["--format", "csv"]].concat()), "word,number\nodd,999\nodd,1001\n");
    assert_eq!(scan(&["--count"]), "2500\n");
    assert_eq!(scan(&["--count", "--where", "word = 'odd' AND number < 1100"]), "550\n");
    assert_eq!(scan(&["--count", "--limit", "7"]), "7\n");
    assert_eq!(scan(&["--count", "--columns", "word"]), "2500\n");
}

#[test]
fn a_dot_reaches_into_a_struct() {
    let folder = tempfile::tempdir().unwrap();
    let city: ArrayRef = Arc::new(StringArray::from(vec!["Rome", "Oslo"]));
    let zip: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let fields = [("city", city), ("zip", zip)];
    let fields =
        fields.map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array));
    let address: ArrayRef = Arc::new(StructArray::from(fields.to_vec()));
    let batch = RecordBatch::try_from_iter([("address", address)]).unwrap();
    write_parquet(&folder.path().join("a.parquet"), &[batch], 10);
    let json =
        succeeds(folder.path(), &["scan", "a.parquet", "--columns", "address.city", "--format", "json"]);
    assert!(json.contains("Oslo") && !json.contains("zip"), "{json}");
    let error = fails(folder.path(), 2, &["scan", "a.parquet", "--columns", "citi"]);
    assert!(error.contains("citi"), "{error}");
}

#[test]
fn folders_patterns_and_several_paths_are_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for (day, rows) in [("2024-01-01", 2), ("2024-01-02", 3)] {
        write_parquet(&folder.path().join(format!("lake/day={day}/part.parquet")), &[numbers(rows)], 10);
    }

    let scan = |args: &[&str]| succeeds(folder.path(), &[&["scan"], args, &["--format", "csv"]].concat());
    let all = scan(&["lake", "--columns", "number,day"]);
    assert!(all.starts_with("number,day\n0,2024-01-01\n1,2024-01-01\n0,2024-01-02\n"), "{all}");
    assert_eq!(all.lines().count(), 6);
    assert_eq!(scan(&["lake/*/part.parquet", "--columns", "number"]).lines().count(), 6);
    let twice =
        ["lake/day=2024-01-02/part.parquet", "lake/day=2024-01-01/part.parquet", "--columns", "number"];
    assert_eq!(scan(&twice), "number\n0\n1\n2\n0\n1\n");
}

#[test]
fn orc_files_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    write_orc(&folder.path().join("people.orc"), &[people()]);
    let csv = succeeds(folder.path(), &["scan", "people.orc", "--format", "csv", "--columns", "name,age"]);
    assert_eq!(csv, "name,age\nAda,36\n,-1\n\"Grace, \"\"Amazing\"\"\",\n");
}

#[test]
fn an_output_file_gets_the_format_of_its_name_and_is_not_replaced_unasked() {
    let folder = folder_with_people();
    let path = folder.path();
    assert_eq!(succeeds(path, &["scan", "people.parquet", "--output", "out.csv"]), "");
    assert!(fs::read_to_string(path.join("out.csv")).unwrap().starts_with("name,age,score\n"));
    let error = fails(path, 2, &["scan", "people.parquet", "--output", "out.csv", "--limit", "1"]);
    assert!(error.contains("out.csv exists") && error.contains("--force"), "{error}");
    succeeds(path, &["scan", "people.parquet", "--output", "out.csv", "--limit", "1", "--force"]);
    assert_eq!(fs::read_to_string(path.join("out.csv")).unwrap(), "name,age,score\nAda,36,1.5\n");
    succeeds(path, &["scan", "people.parquet", "--output", "out.arrow", "--format", "arrow"]);
    let file = fs::File::open(path.join("out.arrow")).unwrap();
    let rows: usize = FileReader::try_new(file, None).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 3);
    assert_eq!(names(path), ["out.arrow", "out.csv", "people.parquet"]);
}

#[test]
fn an_unknown_column_is_named_with_the_one_that_was_probably_meant() {
    let folder = folder_with_people();
    let error = fails(folder.path(), 2, &["scan", "people.parquet", "--columns", "nmae"]);
    assert!(error.contains("nmae") && error.contains("did you mean name?"), "{error}");
    let error = fails(folder.path(), 2, &["scan", "people.parquet", "--where", "agee > 1"]);
    assert!(error.contains("agee") && error.contains("age"), "{error}");
}

#[test]
fn what_is_mistyped_is_an_error_of_one_line() {
    let folder = folder_with_people();
    for filter in ["age >", "age > 'x", "name + 1", ""] {
        fails(folder.path(), 2, &["scan", "people.parquet", "--where", filter]);
    }

    for args in [
        &["scan"][..],
        &["scan", "people.parquet", "--option", "x"],
        &["scan", "people.parquet", "--format", "xml"],
        &["scan", "people.parquet", "--limit", "-1"],
        &["scan", "people.parquet", "--memory", "much"],
        &["scan", "people.parquet", "--count", "--format", "csv"],
        &["scan", "people.parquet", "--columns", ""],
    ] {
        let output = stylobate(folder.path(), args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn what_is_missing_or_broken_is_an_error_of_one_line() {
    let folder = folder_with_people();
    let path = folder.path();
    let error = fails(path, 1, &["scan", "peeple.parquet"]);
    assert!(error.contains("peeple.parquet"), "{error}");
    fs::write(path.join("text.parquet"), "not columns at all, whatever its name says").unwrap();
    let error = fails(path, 1, &["scan", "text.parquet"]);
    assert!(error.ends_with("neither a Parquet nor an ORC file"), "{error}");
    fs::write(path.join("notes"), "no columns\u{1}").unwrap();
    let error = fails(path, 1, &["scan", "notes"]);
    assert!(error.contains("name the format with --from"), "{error}");
    fs::write(path.join("empty.parquet"), "").unwrap();
    for command in ["scan", "inspect"] {
        let error = fails(path, 1, &[command, "empty.parquet"]);
        assert!(error.contains("the file is empty"), "{error}");
    }
    let mut bytes = fs::read(path.join("people.parquet")).unwrap();
    fs::write(path.join("cut.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    for command in ["scan", "inspect"] {
        let error = fails(path, 1, &[command, "cut.parquet"]);
        assert!(error.contains("begins as Parquet and its footer is missing"), "{error}");
    }
    let footer = bytes.len() - 100;
    bytes[footer..footer + 40].fill(0xff);
    fs::write(path.join("broken.parquet"), bytes).unwrap();
    let error = fails(path, 1, &["scan", "broken.parquet"]);
    assert!(error.contains("broken.parquet"), "{error}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = folder_with_numbers(300_000);
    for format in ["csv", "json", "arrow"] {
        let mut child = start(folder.path(), &["scan", "numbers.parquet", "--format", format]);
        let mut some = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0), "{format}");
    }
}

#[test]
fn an_interrupt_ends_it_at_once_though_nobody_reads() {
    let folder = folder_with_numbers(300_000);
    let mut child = start(folder.path(), &["scan", "numbers.parquet", "--format", "csv"]);
    let mut some = [0; 100];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut some).unwrap();
    wait_for_full_pipe(&child);
    assert_eq!(interrupt(&mut child), Some(130));
}

#[test]
fn statistics_go_to_standard_error() {
    let folder = folder_with_people();
    let args = ["scan", "people.parquet", "--format", "csv", "--stats"];
    let output = stylobate(folder.path(), &args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(output.stdout.starts_with(b"name,age,score\n"));
    assert!(error.contains("rows") && error.contains("3 in ") && error.contains("footers parsed"), "{error}");
}

#[test]
fn memory_and_threads_may_be_few() {
    let folder = folder_with_numbers(100_000);
    let args = ["scan", "numbers.parquet", "--format", "csv", "--memory", "1MiB", "--threads", "1"];
    assert_eq!(succeeds(folder.path(), &args).lines().count(), 100_001);
}

#[test]
fn csv_is_scanned_with_types_that_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let people = "id,zip,born,note\n1,01234,2001-02-03,\n2,99999,1999-12-31,\"\"\n\n3,,,x\n";
    fs::write(folder.path().join("people.csv"), people).unwrap();
    let csv =
        |args: &[&str]| succeeds(folder.path(), &[&["scan", "people.csv", "--format", "csv"], args].concat());
    assert_eq!(csv(&[]), "id,zip,born,note\n1,01234,2001-02-03,\n2,99999,1999-12-31,\"\"\n3,,,x\n");
    assert_eq!(csv(&["--where", "born > '2000-01-01'", "--columns", "zip,id"]), "zip,id\n01234,1\n");
    assert_eq!(csv(&["--limit", "1", "--type", "id=decimal(10,2)", "--columns", "id"]), "id\n1.00\n");
    assert_eq!(csv(&["--null", "x", "--where", "note is null", "--columns", "id"]), "id\n1\n3\n");
    assert_eq!(succeeds(folder.path(), &["scan", "people.csv", "--count"]), "3\n");
    let table = succeeds(folder.path(), &["scan", "people.csv", "--limit", "1"]);
    assert!(table.starts_with("id  zip"), "{table}");
}

#[test]
fn options_of_csv_say_what_the_file_does_not() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "1;'x;y'\n2;z\n").unwrap();
    fs::write(folder.path().join("b.tsv"), "a\tb\n1\t2\n").unwrap();
    let options = ["--from", "csv", "--delimiter", ";", "--quote", "'", "--format", "csv"];
    let text = succeeds(folder.path(), &[&["scan", "a.txt", "--no-header"], &options[..]].concat());
    assert_eq!(text, "column0,column1\n1,x;y\n2,z\n");
    let text = succeeds(folder.path(), &[&["scan", "a.txt", "--column-names", "n,t"], &options[..]].concat());
    assert_eq!(text, "n,t\n1,x;y\n2,z\n");
    assert_eq!(succeeds(folder.path(), &["scan", "b.tsv", "--format", "csv"]), "a,b\n1,2\n");
}

#[test]
fn json_and_arrow_are_scanned_by_their_names_or_first_bytes() {
    let folder = folder_with_people();
    let path = folder.path();
    let expected = succeeds(path, &["scan", "people.parquet", "--format", "csv"]);

    for name in ["a.jsonl", "a.arrow", "a.arrows", "a.feather", "a.csv"] {
        succeeds(path, &["convert", "--quiet", "people.parquet", name]);
        assert_eq!(succeeds(path, &["scan", name, "--format", "csv"]), expected, "{name}");
        let some =
            succeeds(path, &["scan", name, "--format", "csv", "--where", "age > 0", "--columns", "age"]);
        assert_eq!(some, "age\n36\n", "{name}");
    }

    fs::create_dir(path.join("nameless")).unwrap();
    fs::copy(path.join("a.arrows"), path.join("nameless/0001")).unwrap();
    assert_eq!(succeeds(path, &["scan", "nameless", "--format", "csv"]), expected);
    fs::create_dir(path.join("lines")).unwrap();
    fs::copy(path.join("a.jsonl"), path.join("lines/a.jsonl")).unwrap();
    assert_eq!(succeeds(path, &["scan", "lines", "--format", "csv"]), expected);
}

#[test]
fn what_is_wrong_in_a_text_or_its_options_is_one_line() {
    let folder = folder_with_people();
    let path = folder.path();
    fs::write(path.join("ragged.csv"), "a,b\n1,2\n3\n").unwrap();
    fs::write(path.join("stray.csv"), "a,b\n1,\"x\n2,y\n").unwrap();
    let rows: String = (0..50).map(|n| format!("{n}\n")).collect();
    fs::write(path.join("late.csv"), format!("v\n{rows}abc\n")).unwrap();
    fs::write(path.join("a.json"), "{\"a\": 1}\n{\"a\": }\n").unwrap();

    for (code, args, said) in [
        (1, &["ragged.csv"][..], "line 3: the record that begins here has 1 field"),
        (1, &["stray.csv"], "line 2: the quote that opens here is not closed"),
        (1, &["late.csv", "--sample-rows", "10"], "line 52: column v: \"abc\" is no Int64"),
        (1, &["a.json"], "line 2: "),
        (2, &["ragged.csv", "--columns", "c"], "no column c"),
        (2, &["people.parquet", "--delimiter", ";"], "--delimiter is for CSV"),
        (2, &["a.json", "--no-header"], "--no-header is for CSV, and the source is JSON"),
        (2, &["late.csv", "--dictionary", "v"], "--dictionary is for Parquet and ORC"),
        (2, &["late.csv", "a.json"], "several formats"),
    ] {
        let error = fails(path, code, &[&["scan"], args].concat());
        assert!(error.contains(said), "{args:?}: {error}");
    }

    assert_eq!(succeeds(path, &["scan", "late.csv", "--sample-rows", "all", "--count"]), "51\n");
}
