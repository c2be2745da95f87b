//! `stylobate generate` as a process: generated files, resuming after an interruption, and verification.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod files;

use std::{
    fs::{self, File},
    path::Path,
};

use parquet::{
    arrow::arrow_reader::ParquetRecordBatchReaderBuilder,
    file::reader::{FileReader, SerializedFileReader},
};
use serde_json::Value;

use self::files::{eventually::eventually_blocking, fails, interrupt, names, start, stylobate, succeeds};

const SMALL: [&str; 4] = ["--scale", "0.01", "--output", "out"];

fn generate(folder: &Path, args: &[&str]) {
    assert_eq!(succeeds(folder, &[&["generate", "tpch", "--quiet"], &SMALL[..], args].concat()), "");
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("out/manifest.json")).unwrap()).unwrap()
}

/// Returns the rows and the column checksums of each table.
fn contents(manifest: &Value) -> Vec<(String, u64, Vec<String>)> {
    let files = manifest["files"].as_array().unwrap();
    let file = |file: &Value| {
        let columns = file["columns"].as_array().unwrap().iter();
        let sums = columns.map(|column| column["checksum"].as_str().unwrap().to_owned());
        (file["table"].as_str().unwrap().to_owned(), file["rows"].as_u64().unwrap(), sums.collect())
    };
    files.iter().map(file).collect()
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn all_tables_are_made_and_the_manifest_says_what_is_in_them() {
    let folder = temporary();
    generate(folder.path(), &[]);
    let tables = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"];
    let mut expected = tables.map(|table| format!("{table}.parquet")).to_vec();
    expected.push("manifest.json".to_owned());
    expected.sort();
    assert_eq!(names(&folder.path().join("out")), expected);
    let manifest = manifest(folder.path());
    assert_eq!(manifest["complete"], true);
    assert_eq!((&manifest["benchmark"], &manifest["scale"]), (&"tpch".into(), &0.01.into()));
    let rows: Vec<_> = contents(&manifest).into_iter().map(|(table, rows, _)| (table, rows)).collect();
    assert!(rows.contains(&("lineitem".to_owned(), 60_175)) && rows.contains(&("region".to_owned(), 5)));
    let lineitem = folder.path().join("out/lineitem.parquet");
    let reader = SerializedFileReader::new(File::open(&lineitem).unwrap()).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 60_175);
    // Types are exact, regardless of the options of the writer.
    let schema =
        ParquetRecordBatchReaderBuilder::try_new(File::open(&lineitem).unwrap()).unwrap().schema().clone();
    let type_of = |column: &str| schema.field_with_name(column).unwrap().data_type().to_string();
    assert_eq!(type_of("l_quantity"), "Decimal128(15, 2)");
    assert_eq!(type_of("l_shipdate"), "Date32");
    assert_eq!(type_of("l_shipmode"), "Dictionary(UInt8, Utf8)");
    let verified = succeeds(folder.path(), &["generate", "verify", "out"]);
    assert_eq!(verified.lines().filter(|line| line.starts_with("ok     ")).count(), 8, "{verified}");
}

#[test]
fn neither_threads_nor_formats_change_what_is_in_the_files() {
    let folder = temporary();
    generate(folder.path(), &["--threads", "1"]);
    let expected = contents(&manifest(folder.path()));
    let lineitem = fs::read(folder.path().join("out/lineitem.parquet")).unwrap();
    let others: [&[&str]; 6] = [
        &["--threads", "3"],
        &["--format", "orc"],
        &["--format", "orc", "--compression", "snappy"],
        &["--format", "csv"],
        &["--format", "arrow"],
        &["--compression", "zstd(3)", "--row-group-rows", "10000"],
    ];

    for args in others {
        fs::remove_dir_all(folder.path().join("out")).unwrap();
        generate(folder.path(), args);
        assert_eq!(contents(&manifest(folder.path())), expected, "{args:?}");
        succeeds(folder.path(), &["generate", "verify", "out"]);
        if args[0] == "--threads" {
            assert!(fs::read(folder.path().join("out/lineitem.parquet")).unwrap() == lineitem);
        }
    }
}

#[test]
fn csv_has_a_header_and_the_values_as_text() {
    let folder = temporary();
    generate(folder.path(), &["--format", "csv", "--tables", "region,nation"]);
    let text = fs::read_to_string(folder.path().join("out/region.csv")).unwrap();
    assert!(text.starts_with("r_regionkey,r_name,r_comment\n0,AFRICA,"), "{text}");
    assert_eq!(names(&folder.path().join("out")), ["manifest.json", "nation.csv", "region.csv"]);
}

#[test]
fn every_file_of_tpcds_is_read_back_as_it_was_made() {
    for format in ["parquet", "csv"] {
        let folder = temporary();
        let tables =
            "web_sales,web_returns,customer,customer_address,item,store,call_center,date_dim,dbgen_version";
        let args = ["generate", "tpcds", "--quiet", "--format", format, "--tables", tables];
        succeeds(folder.path(), &[&args[..], &SMALL[..]].concat());
        let verified = succeeds(folder.path(), &["generate", "verify", "out", "--json"]);
        let verified: Value = serde_json::from_str(&verified).unwrap();
        assert_eq!(
            (&verified["ok"], verified["files"].as_array().unwrap().len()),
            (&true.into(), 9),
            "{verified}"
        );
    }
}

#[test]
fn parts_are_files_of_their_own_and_one_may_be_made_alone() {
    let folder = temporary();
    let tables = ["--tables", "orders,region"];
    generate(folder.path(), &[&tables[..], &["--parts", "3"]].concat());
    let out = folder.path().join("out");
    assert_eq!(names(&out), ["manifest.json", "orders", "region.parquet"]);
    let whole = contents(&manifest(folder.path()));
    assert_eq!(whole.iter().map(|(_, rows, _)| *rows).collect::<Vec<_>>(), [5_000, 5_000, 5_000, 5]);
    fs::rename(&out, folder.path().join("whole")).unwrap();

    for part in ["2", "1"] {
        generate(folder.path(), &[&tables[..], &["--parts", "3", "--part", part]].concat());
    }

    assert_eq!(names(&out), ["manifest.1-of-3.json", "manifest.2-of-3.json", "orders", "region.parquet"]);
    assert_eq!(names(&out.join("orders")), ["orders.1.parquet", "orders.2.parquet"]);
    let path = "orders/orders.2.parquet";
    assert!(fs::read(out.join(path)).unwrap() == fs::read(folder.path().join("whole").join(path)).unwrap());
    succeeds(folder.path(), &["generate", "verify", "out"]);
    let other = ["generate", "tpch", "--parts", "4", "--part", "1"];
    assert!(fails(folder.path(), 2, &[&other[..], &tables[..], &SMALL[..]].concat()).contains("another run"));
}

#[test]
fn a_run_goes_on_with_the_files_that_are_missing_or_damaged() {
    let folder = temporary();
    generate(folder.path(), &[]);
    let out = folder.path().join("out");
    let before = manifest(folder.path());
    let time = |name: &str| fs::metadata(out.join(name)).unwrap().modified().unwrap();
    let orders = time("orders.parquet");
    let part = time("part.parquet");
    fs::remove_file(out.join("supplier.parquet")).unwrap();
    let mut bytes = fs::read(out.join("part.parquet")).unwrap();
    bytes[5_000] ^= 1;
    fs::write(out.join("part.parquet"), bytes).unwrap();
    let output = stylobate(folder.path(), &[&["generate", "tpch"], &SMALL[..]].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("8 files, 86,805 rows") && said.contains("6 files kept"),
        "{said}"
    );

    assert_eq!(manifest(folder.path()), before);
    assert_eq!(time("orders.parquet"), orders);
    assert_ne!(time("part.parquet"), part);
    succeeds(folder.path(), &["generate", "verify", "out"]);
}

#[test]
fn a_flipped_byte_or_a_missing_file_is_found() {
    let folder = temporary();
    for format in ["parquet", "orc", "csv", "arrow"] {
        generate(folder.path(), &["--format", format, "--tables", "orders,nation", "--force"]);
        let file = folder.path().join(format!("out/orders.{format}"));
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(&file, &bytes).unwrap();
        let output = stylobate(folder.path(), &["generate", "verify", "out"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("wrong  orders.{format}: other bytes")), "{said}");
        assert!(said.contains(&format!("ok     nation.{format}")), "{said}");
        fs::remove_file(file).unwrap();
        let output = stylobate(folder.path(), &["generate", "verify", "out", "--json"]).output().unwrap();
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&said["ok"], &said["files"][0]["differences"][0]), (&false.into(), &"missing".into()));
    }
}

#[test]
fn what_cannot_be_is_one_line_and_nothing_is_written() {
    let folder = temporary();
    for scale in ["0", "-1", "NaN", "ten", "inf", ""] {
        let line = fails(folder.path(), 2, &["generate", "tpch", "--output", "out", "--scale", scale]);
        assert!(line.contains("a number from 0.001"), "{line}");
    }

    let with = |args: &[&str]| fails(folder.path(), 2, &[&["generate", "tpch"], &SMALL[..], args].concat());
    assert_eq!(
        with(&["--tables", "lineitm"]),
        "stylobate: TPC-H has no table lineitm; did you mean lineitem?"
    );

    assert!(with(&["--tables", "zebra"]).contains("available: lineitem, orders"));
    assert!(with(&["--parts", "2", "--part", "3"]).contains("numbered from 1 to 2"));
    assert!(with(&["--format", "csv", "--compression", "snappy"]).contains("--format parquet"));
    assert!(with(&["--format", "orc", "--compression", "brotli(1)"]).contains("zlib(0 to 9)"));
    assert!(with(&["--format", "orc", "--row-group-rows", "100"]).contains("--format parquet"));
    assert_eq!(names(folder.path()), Vec::<String>::new());
    fails(folder.path(), 1, &["generate", "verify", "out"]);
}

#[test]
fn what_is_there_already_stays_unless_force_is_given() {
    let folder = temporary();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("mine.txt"), "mine").unwrap();
    let args = [&["generate", "tpch", "--tables", "region"], &SMALL[..]].concat();
    let line = fails(folder.path(), 2, &args);
    assert!(line.contains("mine.txt") && line.contains("--force"), "{line}");
    assert_eq!(names(&out), ["mine.txt"]);
    succeeds(folder.path(), &[&args[..], &["--force", "--quiet"]].concat());
    assert_eq!(names(&out), ["manifest.json", "mine.txt", "region.parquet"]);
    let other = ["generate", "tpch", "--tables", "region", "--output", "out", "--scale", "0.02"];
    assert!(fails(folder.path(), 2, &other).contains("TPC-H at scale 0.01, not TPC-H at scale 0.02"));
    fs::write(folder.path().join("file"), "").unwrap();
    fails(folder.path(), 2, &["generate", "tpch", "--output", "file"]);
}

#[test]
fn an_interrupted_run_leaves_whole_files_only_and_can_go_on() {
    let folder = temporary();
    let args = [
        "generate",
        "tpch",
        "--scale",
        "0.3",
        "--output",
        "out",
        "--tables",
        "lineitem,supplier",
        "--threads",
        "2",
    ];

    let mut child = start(folder.path(), &args);
    let out = folder.path().join("out");
    eventually_blocking("the run to begin", || out.join("manifest.json").exists());
    assert_eq!(interrupt(&mut child), Some(130));
    assert_eq!(manifest(folder.path())["complete"], false);
    let known: Vec<_> = contents(&manifest(folder.path())).into_iter().map(|(table, ..)| table).collect();
    let there = names(&out).into_iter().filter(|name| name.ends_with(".parquet")).count();
    assert!(there == known.len() || there == known.len() + 1);
    succeeds(folder.path(), &[&args[..], &["--quiet"]].concat());
    let rows: Vec<_> = contents(&manifest(folder.path())).into_iter().map(|(_, rows, _)| rows).collect();
    assert_eq!(rows, [1_800_093, 3_000]);
}

#[test]
fn how_files_are_written_is_said_to_who_asks() {
    let folder = temporary();
    let said = |filter: &str, sink: &str| {
        let args = [
            "generate", "tpch", "--quiet", "--scale", "0.001", "--tables", "region", "--force", "--output",
            "out",
        ];
        let mut command = stylobate(folder.path(), &[&args[..], &["--sink", sink]].concat());
        let output = command.env("STYLOBATE_LOG", filter).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };

    let (code, log) = said("debug", "auto");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("how files are written asked=auto chosen=thread"), "{log}");
    let (_, log) = said("debug", "io_uring");
    let gave_way = log.contains("the system gives no io_uring");
    let chosen = if gave_way { "thread" } else { "io_uring" };
    assert!(log.contains(&format!("asked=io_uring chosen={chosen}\n")), "{log}");
    assert_eq!(said("", "auto"), (Some(0), String::new()));
    let (code, error) = said("stylobate=loud", "auto");
    assert_eq!((code, error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.contains("STYLOBATE_LOG"), "{error}");
}

#[test]
fn what_nobody_reads_any_more_ends_quietly() {
    let folder = temporary();
    generate(folder.path(), &["--tables", "region,nation"]);

    for args in [
        &["generate", "verify", "out"][..],
        &["generate", "verify", "out", "--json"],
        &["inspect", "out/region.parquet"],
        &["inspect", "out/region.parquet", "--json"],
        &["scan", "out/region.parquet"],
        &["scan", "out/region.parquet", "--count"],
        &["convert", "out/region.parquet", "-", "--to", "csv"],
        &["serve", "--origin", "lake=out", "--print-config"],
    ] {
        let mut child = start(folder.path(), args);
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn help_has_examples() {
    let help = succeeds(temporary().path(), &["generate", "tpch", "--help"]);
    assert!(
        help.contains("Examples:") && help.contains("--parts") && help.contains("[default: 1]"),
        "{help}"
    );
}

#[test]
fn a_social_network_is_made_as_parquet_and_as_text_and_repeats_itself() {
    let folder = temporary();
    let snb = |args: &[&str]| {
        assert_eq!(
            succeeds(folder.path(), &[&["generate", "snb", "--quiet"], &SMALL[..], args].concat()),
            ""
        );
        contents(&manifest(folder.path()))
    };

    let made = snb(&[]);
    let rows: Vec<_> = made.iter().map(|(table, rows, _)| (table.as_str(), *rows)).collect();
    let vertices = [("persons", 100), ("posts", 1_000), ("comments", 500)];
    let edges = [("knows", 1_000), ("has_creator", 1_500), ("likes", 1_000), ("reply_of", 300)];
    assert_eq!(rows, [&vertices[..], &edges].concat());
    assert_eq!(manifest(folder.path())["seed"], 42);
    assert_eq!(snb(&["--force", "--format", "csv", "--threads", "1"]), made);
    let text = fs::read_to_string(folder.path().join("out/likes.csv")).unwrap();
    assert!(text.starts_with("src|dst|creationDate\n50") && text.lines().count() == 1_001, "{text}");
    succeeds(folder.path(), &["generate", "verify", "out"]);
    assert_ne!(snb(&["--force", "--seed", "7"]), made);
    let typed = snb(&["--force", "--tables", "likes_post,reply_of_comment,posts"]);
    let rows: Vec<_> = typed.iter().map(|(table, rows, _)| (table.as_str(), *rows)).collect();
    assert_eq!(rows, [("posts", 1_000), ("likes_post", 500), ("reply_of_comment", 90)]);
    let wrong =
        fails(folder.path(), 2, &[&["generate", "snb", "--tables", "likes_posts"], &SMALL[..]].concat());
    assert_eq!(wrong, "stylobate: SNB has no table likes_posts; did you mean likes_post?");
    let help = succeeds(folder.path(), &["generate", "snb", "--help"]);
    assert!(
        help.contains("10,000 persons") && help.contains("--seed") && help.contains("data/snb"),
        "{help}"
    );

    assert!(!help.contains("TPC"), "{help}");
}
