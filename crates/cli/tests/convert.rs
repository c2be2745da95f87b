//! `stylobate convert` as a process: each format is read back, and the output is either complete or absent.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod files;

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    sync::Arc,
    time::Instant,
};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringArray},
    compute::{cast, concat_batches},
    datatypes::{DataType, Int32Type, Int64Type},
    ipc::reader::{FileReader, StreamReader},
};
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use self::files::{
    eventually::eventually_blocking, fails, interrupt, names, numbers, people, start, stylobate, succeeds,
    write_orc, write_parquet,
};

fn folder_with_people() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("people.parquet"), &[people()], 2);
    folder
}

fn convert(folder: &Path, args: &[&str]) -> String {
    succeeds(folder, &[&["convert", "--quiet"], args].concat())
}

fn read_file(path: &Path) -> RecordBatch {
    let reader = FileReader::try_new(File::open(path).unwrap(), None).unwrap();
    let schema = reader.schema();
    concat_batches(&schema, &reader.map(Result::unwrap).collect::<Vec<_>>()).unwrap()
}

#[test]
fn every_extension_gives_the_same_rows() {
    let folder = folder_with_people();
    let path = folder.path();
    let destinations = ["a.csv", "a.json", "a.jsonl", "a.ndjson", "a.arrow", "a.feather", "a.arrows"];

    for destination in destinations {
        assert_eq!(convert(path, &["people.parquet", destination]), "");
    }

    let csv = fs::read_to_string(path.join("a.csv")).unwrap();
    assert_eq!(csv, "name,age,score\nAda,36,1.5\n,-1,2.0\n\"Grace, \"\"Amazing\"\"\",,-0.25\n");

    for json in ["a.json", "a.jsonl", "a.ndjson"] {
        let json = fs::read_to_string(path.join(json)).unwrap();
        let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
        assert_eq!(last, serde_json::json!({"name": "Grace, \"Amazing\"", "age": null, "score": -0.25}));
    }

    for arrow in ["a.arrow", "a.feather"] {
        assert_eq!(read_file(&path.join(arrow)).columns(), people().columns());
    }

    let stream = StreamReader::try_new(File::open(path.join("a.arrows")).unwrap(), None).unwrap();
    assert_eq!(stream.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
    let mut expected = destinations.map(str::to_owned).to_vec();
    expected.push("people.parquet".to_owned());
    expected.sort();
    assert_eq!(names(path), expected);
}

#[test]
fn a_file_that_may_not_be_as_large_is_an_error_that_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("numbers.parquet"), &[numbers(100_000)], 10_000);

    for destination in ["a.csv", "a.parquet"] {
        let mut limited = Command::new("sh");
        let program = stylobate(folder.path(), &[]);
        limited.current_dir(folder.path()).env_remove("RUST_BACKTRACE");
        limited.args(["-c", "ulimit -f 16 && exec \"$0\" \"$@\""]).arg(program.get_program());
        let output = limited.args(["convert", "numbers.parquet", destination]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code != 0), "{}: {error}", output.status);
        assert!(error.contains("File too large"), "{error}");
        assert_eq!(names(folder.path()), ["numbers.parquet"]);
    }
}

#[test]
fn the_summary_says_what_was_written() {
    let folder = folder_with_people();
    let output = stylobate(folder.path(), &["convert", "people.parquet", "a.csv"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout.is_empty(), "{error}");
    assert!(error.starts_with("a.csv: 3 rows, 70 B, in ") || error.starts_with("a.csv: 3 rows, "), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn standard_output_is_a_dash_and_needs_a_format() {
    let folder = folder_with_people();
    let csv =
        convert(folder.path(), &["people.parquet", "-", "--to", "csv", "--columns", "age", "--limit", "1"]);
    assert_eq!(csv, "age\n36\n");
    let error = fails(folder.path(), 2, &["convert", "people.parquet", "-"]);
    assert!(error.contains("--to"), "{error}");
    let args = ["convert", "people.parquet", "-", "--to", "arrow"];
    let output = stylobate(folder.path(), &args).output().unwrap();
    let reader = FileReader::try_new(std::io::Cursor::new(output.stdout), None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
}

#[test]
fn parquet_becomes_orc_and_is_the_same() {
    let folder = folder_with_people();
    convert(folder.path(), &["people.parquet", "a.orc"]);
    convert(
        folder.path(),
        &["people.parquet", "b.ORC", "--compression", "zlib(9)", "--where", "age IS NULL"],
    );

    for (from, to) in [("a.orc", "a.csv"), ("people.parquet", "b.csv"), ("b.ORC", "c.csv")] {
        convert(folder.path(), &[from, to]);
    }

    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("a.csv"), read("b.csv"));
    assert_eq!(read("c.csv").lines().count(), 2);

    for (name, codec) in [("a.orc", "zstd"), ("b.ORC", "zlib")] {
        let shown = succeeds(folder.path(), &["inspect", name]).to_lowercase();
        assert!(shown.contains(codec), "{shown}");
    }

    let error = fails(folder.path(), 2, &["convert", "people.parquet", "c.orc", "--compression", "gzip(3)"]);
    assert!(error.contains("gzip"), "{error}");

    for (name, option, value) in [
        ("c.orc", "--row-group-rows", "5"),
        ("d.csv", "--compression", "zstd"),
        ("d.csv", "--row-group-rows", "5"),
    ] {
        let error = fails(folder.path(), 2, &["convert", "people.parquet", name, option, value]);
        assert!(error.contains(option) && error.contains("Parquet"), "{error}");
        assert!(!names(folder.path()).contains(&name.to_owned()));
    }

    assert!(!names(folder.path()).contains(&"c.orc".to_owned()));
}

#[test]
fn a_partitioned_folder_is_written_in_modes() {
    let folder = folder_with_people();
    for format in ["parquet", "orc"] {
        let to = ["people.parquet", format, "--to", format, "--partition-by", "age"];
        convert(folder.path(), &to);
        let count = || {
            let shown = convert(folder.path(), &[&[format][..], &["-", "--to", "csv"]].concat());
            shown.lines().count() - 1
        };

        assert_eq!(count(), 3);
        let part = format!("part-00000.{format}");
        assert!(folder.path().join(format).join("age=36").join(part).exists());
        let error = fails(folder.path(), 2, &[&["convert"][..], &to].concat());
        assert!(error.contains("--mode"), "{error}");

        for (mode, rows) in [("append", 6), ("overwrite-partitions", 3), ("overwrite", 3)] {
            convert(folder.path(), &[&to[..], &["--mode", mode]].concat());
            assert_eq!(count(), rows, "{mode}");
        }

        let one = [&to[..], &["--mode", "overwrite", "--where", "name = 'Ada'"]].concat();
        convert(folder.path(), &one);
        assert_eq!(count(), 1);
    }

    for (args, told) in [
        (vec!["people.parquet", "x", "--partition-by", "age"], "--to parquet"),
        (vec!["people.parquet", "x.csv", "--partition-by", "age"], "--partition-by"),
        (vec!["people.parquet", "x.orc", "--mode", "append"], "--partition-by"),
        (vec!["people.parquet", "x.orc", "--partition-by", "age", "--force"], "--force"),
        (vec!["people.parquet", "x.orc", "--partition-by", "no"], "no column no"),
    ] {
        let error = fails(folder.path(), 2, &[&["convert"][..], &args].concat());
        assert!(error.contains(told), "{error}");
    }

    let replace = ["convert", "people.parquet", "x.orc", "--partition-by", "age", "--mode", "replace"];
    let output = stylobate(folder.path(), &replace).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("overwrite_partitions"), "{output:?}");
}

#[test]
fn parquet_becomes_parquet_as_it_is_told() {
    let folder = folder_with_people();
    for (destination, codec, sink) in [("a.parquet", "zstd(3)", "thread"), ("b.PARQUET", "none", "io-uring")]
    {
        let told = ["--compression", codec, "--sink", sink, "--row-group-rows", "2"];
        convert(folder.path(), &[&["people.parquet", destination][..], &told].concat());
        let reader = SerializedFileReader::new(File::open(folder.path().join(destination)).unwrap()).unwrap();
        let groups = reader.metadata().row_groups();
        assert_eq!(groups.iter().map(|group| group.num_rows()).collect::<Vec<_>>(), [2, 1]);
        let arrow = format!("{destination}.arrow");
        convert(folder.path(), &[destination, &arrow]);
        assert_eq!(read_file(&folder.path().join(arrow)).columns(), people().columns());
    }

    for wrong in [["--compression", "zip"], ["--row-group-rows", "0"], ["--sink", "sieve"]] {
        let args = [&["convert", "people.parquet", "c.parquet"][..], &wrong].concat();
        let output = stylobate(folder.path(), &args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }

    let error = fails(folder.path(), 2, &["convert", "people.parquet", "-", "--to", "parquet"]);
    assert!(error.contains("file"), "{error}");
}

#[test]
fn dictionaries_of_all_row_groups_become_one_in_an_arrow_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.parquet");
    let words: Vec<String> = (0..5000).map(|row| format!("word {}", row / 500 * 10 + row % 3)).collect();
    let column: ArrayRef = Arc::new(StringArray::from(words.clone()));
    write_parquet(&path, &[RecordBatch::try_from_iter([("word", column)]).unwrap()], 1000);
    convert(folder.path(), &["words.parquet", "dictionary.arrow", "--dictionary", "all"]);
    convert(folder.path(), &["words.parquet", "plain.arrow"]);
    let plain = read_file(&folder.path().join("plain.arrow"));
    assert_eq!(plain.schema().field(0).data_type(), &DataType::Utf8);
    let reader =
        FileReader::try_new(File::open(folder.path().join("dictionary.arrow")).unwrap(), None).unwrap();
    assert!(matches!(reader.schema().field(0).data_type(), DataType::Dictionary(..)));

    let mut row = 0;
    for batch in reader.map(Result::unwrap) {
        let values = cast(batch.column(0), &DataType::Utf8).unwrap();
        for value in values.as_string::<i32>() {
            assert_eq!(value, Some(words[row].as_str()));
            row += 1;
        }
    }

    assert_eq!(row, 5000);
}

#[test]
fn lists_are_json_in_csv() {
    let folder = tempfile::tempdir().unwrap();
    let lists = vec![Some(vec![Some(1), Some(2)]), None, Some(vec![])];
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
    write_parquet(
        &folder.path().join("a.parquet"),
        &[RecordBatch::try_from_iter([("x", lists)]).unwrap()],
        10,
    );

    convert(folder.path(), &["a.parquet", "a.csv"]);
    assert_eq!(fs::read_to_string(folder.path().join("a.csv")).unwrap(), "x\n\"[1,2]\"\n\n[]\n");
}

#[test]
fn orc_becomes_arrow() {
    let folder = tempfile::tempdir().unwrap();
    write_orc(&folder.path().join("numbers.orc"), &[numbers(3000)]);
    convert(folder.path(), &["numbers.orc", "numbers.arrow", "--where", "number >= 2990"]);
    let read = read_file(&folder.path().join("numbers.arrow"));
    let numbers = read.column(0).as_primitive::<Int64Type>();
    assert_eq!(numbers, &(2990..3000).collect::<Int64Array>());
}

#[test]
fn formats_that_cannot_be_written_and_names_that_tell_none_are_errors() {
    let folder = folder_with_people();
    for (destination, said) in [("a.txt", ".txt"), ("a", "--to")] {
        let error = fails(folder.path(), 2, &["convert", "people.parquet", destination]);
        assert!(error.contains(said), "{error}");
    }

    for destination in ["no/folder/a.csv", "s3://bucket/a.csv"] {
        fails(folder.path(), 2, &["convert", "people.parquet", destination]);
    }

    fs::create_dir(folder.path().join("folder.csv")).unwrap();
    fails(folder.path(), 2, &["convert", "people.parquet", "folder.csv"]);
    assert_eq!(names(folder.path()), ["folder.csv", "people.parquet"]);
}

#[test]
fn a_file_that_exists_is_replaced_only_when_told_to() {
    let folder = folder_with_people();
    fs::write(folder.path().join("a.csv"), "before").unwrap();
    let error = fails(folder.path(), 2, &["convert", "people.parquet", "a.csv"]);
    assert!(error.contains("--force"), "{error}");
    assert_eq!(fs::read_to_string(folder.path().join("a.csv")).unwrap(), "before");
    convert(folder.path(), &["people.parquet", "a.csv", "--force", "--columns", "age"]);
    assert_eq!(fs::read_to_string(folder.path().join("a.csv")).unwrap(), "age\n36\n-1\n\n");
    let url = format!("file://{}", folder.path().join("b.parquet").display());

    for destination in ["b.parquet", &url] {
        fs::write(folder.path().join("b.parquet"), "before").unwrap();
        let error = fails(folder.path(), 2, &["convert", "people.parquet", destination]);
        assert!(error.contains("--force"), "{error}");
        assert_eq!(fs::read(folder.path().join("b.parquet")).unwrap(), b"before");
        convert(folder.path(), &["people.parquet", destination, "--force"]);
    }
}

#[test]
fn what_a_file_stores_as_dictionaries_is_stored_so_again_however_many_values_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let texts: Vec<String> = (0..90_000).map(|row| format!("text {}", row * 7 % 30_000)).collect();
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..90_000).map(|row| row % 70_001)));
    let batch = RecordBatch::try_from_iter([("text", texts), ("number", numbers)]).unwrap();
    write_parquet(&path("a.parquet"), std::slice::from_ref(&batch), 90_000);
    convert(folder.path(), &["a.parquet", "b.parquet"]);

    for name in ["a.parquet", "b.parquet"] {
        let reader = SerializedFileReader::new(File::open(path(name)).unwrap()).unwrap();
        let columns = reader.metadata().row_group(0).columns();
        assert!(columns.iter().all(|column| column.dictionary_page_offset().is_some()), "{name}");
    }

    convert(folder.path(), &["b.parquet", "b.arrow"]);
    assert_eq!(read_file(&path("b.arrow")).columns(), batch.columns());

    // ORC supports dictionaries of strings only.
    convert(folder.path(), &["b.parquet", "c.orc"]);
    convert(folder.path(), &["c.orc", "d.orc"]);
    convert(folder.path(), &["d.orc", "d.parquet"]);
    let reader = SerializedFileReader::new(File::open(path("d.parquet")).unwrap()).unwrap();
    assert!(reader.metadata().row_group(0).column(0).dictionary_page_offset().is_some());

    for name in ["c.orc", "d.orc", "d.parquet"] {
        let arrow = format!("{name}.arrow");
        convert(folder.path(), &[name, &arrow]);
        assert_eq!(read_file(&path(&arrow)).columns(), batch.columns(), "{name}");
    }
}

#[test]
fn what_fails_half_way_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_parquet(&path, &[numbers(200_000)], 10_000);
    let last = {
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let groups = reader.metadata().row_groups();
        groups.last().unwrap().column(0).byte_range()
    };

    let mut bytes = fs::read(&path).unwrap();
    bytes[last.0 as usize..(last.0 + last.1) as usize].fill(0xff);
    fs::write(&path, bytes).unwrap();

    for destination in ["a.csv", "a.parquet"] {
        let error = fails(folder.path(), 1, &["convert", "numbers.parquet", destination]);
        assert!(error.contains("numbers.parquet"), "{error}");
        assert_eq!(names(folder.path()), ["numbers.parquet"]);
    }
}

#[test]
fn an_interrupt_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![7; 1_000_000]));
    let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
    write_parquet(&folder.path().join("a.parquet"), &vec![batch; 60], 1_000_000);
    let slow = ["--compression", "zstd(19)", "--row-group-rows", "1000000"];

    for (destination, options) in [("b.csv", &[][..]), ("b.parquet", &slow)] {
        let args = [&["convert", "a.parquet", destination], options].concat();
        let mut child = start(folder.path(), &args);
        eventually_blocking("the conversion to begin", || names(folder.path()).len() > 1);
        assert_eq!(interrupt(&mut child), Some(130), "{destination}");
        assert_eq!(names(folder.path()), ["a.parquet"], "{destination}");
    }
}

/// A conversion killed at any moment leaves no invalid file under the final name, and the next run leaves only its
/// own file.
#[test]
fn what_is_killed_leaves_no_broken_file_and_the_next_run_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.parquet");
    write_parquet(&folder.path().join("a.parquet"), &vec![numbers(200_000); 5], 200_000);
    let args =
        ["convert", "a.parquet", "b.parquet", "--compression", "zstd(9)", "--row-group-rows", "100000"];
    let started = Instant::now();
    assert!(start(folder.path(), &args).wait().unwrap().success());
    let whole = started.elapsed();

    let mut finished = 0;
    let mut left = 0;
    for moment in 0..10 {
        fs::remove_file(&path).or_else(|error| if path.exists() { Err(error) } else { Ok(()) }).unwrap();
        let mut child = start(folder.path(), &args);
        std::thread::sleep(whole.mul_f64(0.1 + f64::from(moment * 7 % 10) / 10.0));
        child.kill().unwrap();
        child.wait().unwrap();
        if path.exists() {
            let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
            assert_eq!(reader.metadata().file_metadata().num_rows(), 1_000_000);
            finished += 1;
        }

        left += usize::from(names(folder.path()).iter().any(|name| name.ends_with(".part")));
    }

    assert!(finished < 10 && left > 0, "{finished} finished and {left} left something");
    convert(folder.path(), &[&args[1..], &["--force"]].concat());
    assert_eq!(names(folder.path()), ["a.parquet", "b.parquet"]);
}

#[test]
fn csv_becomes_parquet_and_comes_back_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let text = "id,zip,x,t,note\n1,01234,0.5,2020-01-02T03:04:05.000001,\n,99999,NaN,,\"\"\n";
    fs::write(path.join("a.csv"), text).unwrap();

    for format in ["parquet", "orc", "arrow", "arrows"] {
        let there = format!("a.{format}");
        convert(path, &["a.csv", &there]);
        convert(path, &[&there, "b.csv", "--force"]);
        assert_eq!(fs::read_to_string(path.join("b.csv")).unwrap(), text, "{format}");
    }

    fs::write(path.join("late.csv"), "a\n1\nx\n").unwrap();
    fails(path, 1, &["convert", "late.csv", "late.parquet", "--sample-rows", "1"]);
    assert!(!path.join("late.parquet").exists());
}
