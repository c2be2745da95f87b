//! `stylobate sql` as a process: statements, outputs, tables and exit codes.
#![cfg(feature = "sql")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod files;

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Stdio,
};

use arrow::ipc::reader::StreamReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use self::files::{
    eventually::eventually_blocking, fails, interrupt, names, numbers, people, start, stylobate, succeeds,
    write_orc, write_parquet,
};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("people.parquet"), &[people()], 2);
    write_parquet(&folder.path().join("numbers.parquet"), &[numbers(2500)], 1000);
    folder
}

/// Runs a command with this text as its standard input, and returns its output.
fn with_input(folder: &Path, args: &[&str], input: &str) -> String {
    let mut child = stylobate(folder, args);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn files_are_named_by_their_path_and_rows_are_a_table() {
    let folder = folder();
    let sql = "SELECT name, age FROM 'people.parquet' WHERE age > 0";
    assert_eq!(succeeds(folder.path(), &["sql", sql]), "name  age\n────  ───\nAda    36\n");

    let sql =
        "SELECT word, count(*) AS n, max(number) AS most FROM 'numbers.parquet' GROUP BY word ORDER BY word";
    let text = succeeds(folder.path(), &["sql", sql]);
    assert_eq!(text, "word     n  most\n────  ────  ────\neven  1250  2498\nodd   1250  2499\n");
}

#[test]
fn tables_have_names_and_are_joined() {
    let folder = folder();
    write_orc(&folder.path().join("more.orc"), &[numbers(100)]);
    let sql =
        "SELECT count(*) AS n FROM numbers JOIN more ON numbers.number = more.number WHERE more.word = 'odd'";
    let args =
        ["sql", sql, "--table", "numbers=numbers.parquet", "--table", "more=more.orc", "--format", "csv"];
    assert_eq!(succeeds(folder.path(), &args), "n\n50\n");
}

#[test]
fn rows_are_written_in_every_format() {
    let folder = folder();
    let sql = "SELECT number, word FROM 'numbers.parquet' WHERE number < 3 ORDER BY number";
    assert_eq!(
        succeeds(folder.path(), &["sql", sql, "--format", "csv"]),
        "number,word\n0,even\n1,odd\n2,even\n"
    );
    let json = succeeds(folder.path(), &["sql", sql, "--format", "json"]);
    assert_eq!(json.lines().nth(1), Some(r#"{"number":1,"word":"odd"}"#));

    let output = stylobate(folder.path(), &["sql", sql, "--format", "arrow"]).output().unwrap();
    let reader = StreamReader::try_new(&output.stdout[..], None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);

    for name in ["out.csv", "out.jsonl", "out.arrow", "out.parquet", "out.orc"] {
        assert_eq!(succeeds(folder.path(), &["sql", sql, "--output", name]), "");
        let error = fails(folder.path(), 2, &["sql", sql, "--output", name]);
        assert!(error.contains("exists already"), "{error}");
        succeeds(folder.path(), &["sql", sql, "--output", name, "--force"]);
    }
    let parquet = File::open(folder.path().join("out.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(parquet).unwrap().build().unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
    let again = ["sql", "SELECT sum(number) AS s FROM 'out.orc'", "--format", "csv"];
    assert_eq!(succeeds(folder.path(), &again), "s\n3\n");
    assert_eq!(names(folder.path()).len(), 7, "nothing unfinished is left");
}

#[test]
fn text_files_are_tables_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("people.csv"), "name,born\nAda,1815\nGrace,1906\n").unwrap();
    let sql = "SELECT name FROM 'people.csv' WHERE born > 1900";
    assert_eq!(succeeds(folder.path(), &["sql", sql, "--format", "csv"]), "name\nGrace\n");
    fs::write(folder.path().join("people.jsonl"), "{\"a\": 1}\n{\"a\": 2}\n").unwrap();
    let sql = "SELECT sum(a) AS s FROM t";
    assert_eq!(
        succeeds(folder.path(), &["sql", sql, "--table", "t=people.jsonl", "--format", "csv"]),
        "s\n3\n"
    );
}

#[test]
fn statements_come_from_standard_input_and_share_a_session() {
    let folder = folder();
    let input = "\
-- a comment; with a semicolon
CREATE VIEW odd AS SELECT number FROM t WHERE word = 'odd';
SET datafusion.execution.batch_size = 100;
SELECT count(*) AS n FROM odd;
SELECT min(number) AS least, ';' AS s FROM odd
";
    let args = ["sql", "--table", "t=numbers.parquet", "--format", "csv"];
    assert_eq!(with_input(folder.path(), &args, input), "n\n1250\nleast,s\n1,;\n");
}

#[test]
fn plans_are_printed_as_text() {
    let folder = folder();
    let sql = "EXPLAIN SELECT word FROM 'numbers.parquet' WHERE number >= 2000";
    let plan = succeeds(folder.path(), &["sql", sql]);
    assert!(plan.starts_with("logical_plan\n") && plan.contains("\nphysical_plan\n"), "{plan}");
    assert!(plan.contains("row_groups=1/3, projection=[word], filter=number >= 2000"), "{plan}");

    let sql = "EXPLAIN ANALYZE SELECT count(*) FROM 'numbers.parquet' WHERE word = 'odd'";
    let plan = succeeds(folder.path(), &["sql", sql]);
    assert!(plan.contains("row_groups_read=3") && plan.contains("output_rows="), "{plan}");
}

#[test]
fn an_alias_may_begin_with_the_path_of_a_table() {
    let folder = folder();
    let sql = r#"SELECT max(age) AS "people.parquet.most", max(age) FROM 'people.parquet'"#;
    let text = succeeds(folder.path(), &["sql", sql, "--format", "csv"]);
    assert_eq!(text, "people.parquet.most,max(age)\n36,36\n");
}

#[test]
fn prepared_statements_are_executed_and_only_queries_are_explained() {
    let folder = folder();
    let prepare = "PREPARE p AS SELECT max(age) FROM 'people.parquet'";
    let text = succeeds(folder.path(), &["sql", &format!("{prepare}; EXECUTE p"), "--format", "csv"]);
    assert_eq!(text, "max(age)\n36\n");
    let error = fails(folder.path(), 2, &["sql", &format!("{prepare}; EXPLAIN EXECUTE p")]);
    assert!(error.ends_with("EXPLAIN takes a query, and no other statement"), "{error}");
    let error = fails(folder.path(), 2, &["sql", "EXECUTE q"]);
    assert!(error.contains("'q' does not exist"), "{error}");
}

#[test]
fn a_table_is_cut_at_the_rows_that_are_asked_for() {
    let folder = folder();
    let sql = "SELECT number FROM 'numbers.parquet' ORDER BY number";
    assert_eq!(succeeds(folder.path(), &["sql", sql]).lines().count(), 2 + 2500);
    let text = succeeds(folder.path(), &["sql", sql, "--rows", "2"]);
    assert!(text.starts_with("number\n──────\n     0\n     1\n… more rows: --rows"), "{text}");
}

#[test]
fn errors_are_one_line_that_says_what_to_do() {
    let folder = folder();
    let table = ["--table", "numbers=numbers.parquet"];
    for (sql, part) in [
        ("SELEC 1", "does not parse"),
        ("SELECT * FROM number", "did you mean numbers?"),
        ("SELECT nmber FROM numbers", "number"),
        ("SELECT number + word FROM numbers", ""),
        ("SELECT * FROM numbers.parquet", "in quotes"),
        ("INSERT INTO numbers VALUES (1, 'x')", "statements that write"),
        ("", "there is no statement"),
    ] {
        let error = fails(folder.path(), 2, &[&["sql", sql], &table[..]].concat());
        assert!(error.contains(part), "{sql}: {error}");
    }

    let error = fails(folder.path(), 1, &["sql", "SELECT * FROM 'nothing.parquet'"]);
    assert!(error.contains("nothing.parquet"), "{error}");
    let error = fails(folder.path(), 1, &["sql", "SELECT number / 0 FROM 'numbers.parquet'"]);
    assert!(error.to_lowercase().contains("divide by zero"), "{error}");
    let error = fails(folder.path(), 2, &["sql", "SELECT 1; SELECT 2", "--output", "out.csv"]);
    assert!(error.contains("one statement"), "{error}");
}

#[test]
fn what_needs_more_memory_than_there_is_fails_and_leaves_nothing() {
    let folder = folder();
    let spill = tempfile::tempdir().unwrap();
    let spilled = spill.path().to_string_lossy().into_owned();
    let sql = "SELECT array_length(array_agg(a.number + b.number)) FROM t a CROSS JOIN t b";
    let args = ["sql", sql, "--table", "t=numbers.parquet", "--memory", "1MiB", "--spill", &spilled];
    let error = fails(folder.path(), 1, &args);
    assert!(error.contains("out of memory"), "{error}");
    assert!(names(spill.path()).is_empty());

    let missing = fails(folder.path(), 1, &["sql", "SELECT 1", "--spill", "no/such/folder"]);
    assert!(missing.contains("no/such/folder"), "{missing}");
}

#[test]
fn an_interrupt_ends_a_query_and_removes_what_it_stored() {
    let folder = folder();
    let spill = tempfile::tempdir().unwrap();
    let spilled = spill.path().to_string_lossy().into_owned();
    let sql = "SELECT count(*) FROM t a, t b, t c WHERE a.number + b.number + c.number < 0";
    let args = ["sql", sql, "--table", "t=numbers.parquet", "--spill", &spilled];
    let mut child = start(folder.path(), &args);
    eventually_blocking("the session is open", || !names(spill.path()).is_empty());
    assert_eq!(interrupt(&mut child), Some(130));
    assert!(names(spill.path()).is_empty());
}
