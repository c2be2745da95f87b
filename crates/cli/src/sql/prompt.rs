//! The prompt: reads statements, with history and completion, and runs them one after another.

use std::{
    env, fs, io,
    path::PathBuf,
    process,
    sync::mpsc::{Receiver, sync_channel},
    time::Instant,
};

use anyhow::{Context, Result};
use rustyline::{Config, Editor, error::ReadlineError, history::FileHistory};
use stylobate_datafusion::SqlStatement;
use stylobate_storage::run_blocking;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    SqlArgs, SqlOutput,
    complete::{KnownWords, SqlHelper},
    executor::StatementExecutor,
    run_one,
    text::is_complete,
};
use crate::{failure::in_one_line, rows::grouped};

/// Maximum lines of history.
const HISTORY: usize = 10_000;

const HELP: &str = "\
Statements end with a semicolon: SELECT * FROM 'folder/*.parquet' LIMIT 10;
  SHOW TABLES;        the tables
  DESCRIBE name;      the columns of a table
  EXPLAIN SELECT …;   the plan of a query; EXPLAIN ANALYZE also runs it
  quit                ends, as Ctrl-D does; Ctrl-C stops a statement";

/// Reads and runs statements until the input ends. Prints their errors and continues.
pub(super) async fn prompt(args: &SqlArgs, executor: StatementExecutor) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let output = SqlOutput::chosen(args)?;
    eprintln!("Statements end with a semicolon. `help` shows more, `quit` ends.");

    let words = KnownWords::default();
    let (typed, mut statements) = mpsc::channel(1);
    let (done, wait) = sync_channel(1);
    words.set(executor.known_words().await);
    let reader = {
        let words = words.clone();
        run_blocking(move || read_statements(words, &typed, &wait))
    };

    loop {
        let text = tokio::select! {
            text = statements.recv() => text,
            _ = terminate.recv() => {
                drop(executor);
                process::exit(128 + SignalKind::terminate().as_raw_value());
            }
        };
        let Some(text) = text else { break };

        run_typed(args, &executor, &text, &output).await?;
        words.set(executor.known_words().await);
        if done.send(()).is_err() {
            break;
        }
    }
    reader.await.context("reading lines")?
}

/// Runs a typed statement. Ctrl-C cancels it.
async fn run_typed(
    args: &SqlArgs,
    executor: &StatementExecutor,
    text: &str,
    output: &SqlOutput,
) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let statements = match SqlStatement::parse(text) {
        Ok(statements) => statements,
        Err(error) => {
            eprintln!("{}", in_one_line(&error.into()));
            return Ok(());
        }
    };

    for statement in statements {
        let started = Instant::now();
        let done = tokio::select! {
            done = run_one(args, executor, statement, output.clone()) => done,
            _ = interrupt.recv() => {
                eprintln!("stopped");
                return Ok(());
            }
        };
        match done {
            Ok(rows) => {
                let noun = if rows == 1 { "row" } else { "rows" };
                eprintln!("{} {noun}, {:.3} s", grouped(rows), started.elapsed().as_secs_f64());
            }
            Err(error) => {
                eprintln!("{}", in_one_line(&error));
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Reads lines, and sends each statement when it is complete. Waits for it to finish before reading on.
fn read_statements(words: KnownWords, typed: &mpsc::Sender<String>, done: &Receiver<()>) -> Result<()> {
    let config = Config::builder().max_history_size(HISTORY)?.auto_add_history(false).build();
    let mut editor: Editor<SqlHelper, FileHistory> = Editor::with_config(config)?;
    editor.set_helper(Some(SqlHelper::new(words)));
    let history = history_file();
    if let Some(path) = &history {
        // The file does not exist before the first use.
        let _ = editor.load_history(path);
    }

    let mut text = String::new();
    loop {
        let line = match editor.readline(if text.is_empty() { "sql> " } else { "...> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };

        if text.is_empty() {
            match line.trim().trim_end_matches(';').to_lowercase().as_str() {
                "" => continue,
                "quit" | "exit" | r"\q" => break,
                "help" | r"\?" | r"\h" => {
                    eprintln!("{HELP}");
                    continue;
                }
                _ => {}
            }
        } else {
            text.push('\n');
        }
        text.push_str(&line);
        if !is_complete(&text) {
            continue;
        }

        let _ = editor.add_history_entry(text.as_str());
        if let Some(path) = &history
            && let Err(error) = editor.append_history(path)
        {
            tracing::debug!(%error, path = %path.display(), "the history is not kept");
        }
        if typed.blocking_send(std::mem::take(&mut text)).is_err() || done.recv().is_err() {
            break;
        }
    }
    Ok(())
}

/// Returns the history file; `None` if there is no folder for it.
fn history_file() -> Option<PathBuf> {
    let state = match env::var_os("XDG_STATE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env::var_os("HOME")?).join(".local/state"),
    };
    let folder = state.join("stylobate");
    let created: io::Result<()> = fs::create_dir_all(&folder);
    created.ok().map(|()| folder.join("sql-history"))
}
