//! The command in a folder with Parquet and ORC files, for tests of the subcommands that read them.
#![allow(dead_code, reason = "each test uses some of it")]

#[path = "../../../storage/tests/support/eventually.rs"]
pub(crate) mod eventually;

use std::{
    fs::File,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use eventually::eventually_blocking;
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};

/// Creates the command in a folder, without the environment variables of the test process.
pub(crate) fn stylobate(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stylobate"));
    let own = |name: &str| name.starts_with("STYLOBATE_") || name.starts_with("AWS_");
    for (name, _) in std::env::vars().filter(|(name, _)| own(name)) {
        command.env_remove(name);
    }
    command.current_dir(folder).args(args).env_remove("RUST_BACKTRACE");
    command
}

/// Returns the standard output of a command that must succeed without errors or warnings.
pub(crate) fn succeeds(folder: &Path, args: &[&str]) -> String {
    let output = stylobate(folder, args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    assert_eq!(error, "", "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the error line of a command that must fail with this exit code.
pub(crate) fn fails(folder: &Path, code: i32, args: &[&str]) -> String {
    let output = stylobate(folder, args).output().unwrap();
    failure(&output, code, args)
}

fn failure(output: &Output, code: i32, args: &[&str]) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert!(error.starts_with("stylobate: ") && error.lines().count() == 1, "{args:?}: {error}");
    assert!(!error.contains("panicked"), "{error}");
    error.trim().to_owned()
}

/// Replaces what differs between runs: the path of the folder, and the version of the command.
pub(crate) fn redacted(folder: &Path, text: &str) -> String {
    let path = folder.canonicalize().unwrap();
    text.replace(path.to_str().unwrap(), "/folder").replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

/// Returns the sorted names of the files in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns a batch of three rows.
pub(crate) fn people() -> RecordBatch {
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("Ada"), None, Some("Grace, \"Amazing\"")]));
    let ages: ArrayRef = Arc::new(Int64Array::from(vec![Some(36), Some(-1), None]));
    let scores: ArrayRef = Arc::new(Float64Array::from(vec![1.5, 2.0, -0.25]));
    let columns = [("name", names, true), ("age", ages, true), ("score", scores, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Returns numbers from 0, each with a word: `even` or `odd`.
pub(crate) fn numbers(rows: i64) -> RecordBatch {
    let numbers: Vec<i64> = (0..rows).collect();
    let words: Vec<_> = numbers.iter().map(|number| if number % 2 == 0 { "even" } else { "odd" }).collect();
    let words: ArrayRef = Arc::new(StringArray::from(words));
    let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
    RecordBatch::try_from_iter([("number", numbers), ("word", words)]).unwrap()
}

pub(crate) fn write_parquet(path: &Path, batches: &[RecordBatch], row_group_rows: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(row_group_rows)).build();
    write_parquet_with(path, batches, properties);
}

pub(crate) fn write_parquet_with(path: &Path, batches: &[RecordBatch], properties: WriterProperties) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

pub(crate) fn write_orc(path: &Path, batches: &[RecordBatch]) {
    let file = File::create(path).unwrap();
    let mut writer = orc_rust::ArrowWriterBuilder::new(file, batches[0].schema()).try_build().unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

/// Waits until the process handles SIGINT.
pub(crate) fn wait_for_interrupt_handler(child: &Child) {
    const SIGINT_BIT: u64 = 1 << 1;

    let path = format!("/proc/{}/status", child.id());
    eventually_blocking("a handler of SIGINT", || {
        let status = std::fs::read_to_string(&path).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & SIGINT_BIT != 0
    });
}

/// Waits until a thread of the process is blocked writing to a full pipe.
pub(crate) fn wait_for_full_pipe(child: &Child) {
    let threads = format!("/proc/{}/task", child.id());
    let is_blocked = |thread: std::io::Result<std::fs::DirEntry>| {
        let waits_in = thread.and_then(|thread| std::fs::read_to_string(thread.path().join("wchan")));
        waits_in.is_ok_and(|function| function.contains("pipe_write"))
    };
    eventually_blocking("a full pipe", || std::fs::read_dir(&threads).unwrap().any(is_blocked));
}

/// Sends SIGINT, and waits briefly for the exit code.
pub(crate) fn interrupt(child: &mut Child) -> Option<i32> {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let started = Instant::now();

    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(started.elapsed() < Duration::from_secs(20), "it did not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts the command with its output connected to pipes.
pub(crate) fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = stylobate(folder, args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}
