//! `stylobate sql`: runs SQL on Parquet and ORC files.

mod complete;
mod executor;
mod prompt;
mod text;

use std::{
    io::{self, IsTerminal, Read},
    num::NonZeroUsize,
    path::PathBuf,
    str::FromStr,
};

use anyhow::{Context, Result};
use arrow::array::AsArray;
use clap::Args;
use futures::{StreamExt, TryStreamExt, future};
use stylobate_columnar::Cache;
use stylobate_datafusion::{SqlSession, SqlStatement};
use stylobate_server::{SqlClient, config::NodeSettings};
use stylobate_storage::{ByteSize, run_blocking};

use self::{
    executor::{StatementExecutor, StatementRows},
    prompt::prompt,
};
use crate::{
    failure::usage,
    out::print,
    redacted_string::RedactedString,
    rows::{
        ColumnFile, OutputArgs, ProgressDisplay, RowDestination, RowFormat, TableLimits, drain, open_cache,
        option, until_stopped,
    },
};

/// Default row limit of a table on a terminal.
const TABLE_ROWS: u64 = 40;
/// Maximum memory of a writer: with more, its row groups and stripes would not become larger.
const MAX_WRITER_MEMORY: ByteSize = ByteSize::mib(256);

const EXAMPLES: &str = "\
Examples:
  A query of files, which are named by a path in quotes:
    stylobate sql \"SELECT l_shipmode, count(*) FROM 'lineitem.parquet' GROUP BY l_shipmode\"
  Of a bucket, as CSV:
    stylobate sql \"SELECT * FROM 's3://lake/events/*/*.parquet' WHERE day = '2026-01-01'\" \\
      --option region=eu-west-1 --format csv
  Tables with names, and the rows into a Parquet file:
    stylobate sql \"SELECT * FROM orders JOIN lineitem ON o_orderkey = l_orderkey\" \\
      --table orders=lake/orders --table lineitem=lake/lineitem --output joined.parquet
  The plan of a query, and what each step of it took:
    stylobate sql \"EXPLAIN ANALYZE SELECT max(l_tax) FROM 'lineitem.orc' WHERE l_quantity < 24\"
  Statements of a file, separated by semicolons:
    stylobate sql --table t=data.parquet < queries.sql
  A prompt, with history and completion:
    stylobate sql --table t=data.parquet
  On the nodes of a cluster, whose tables are the files of their buckets:
    stylobate sql --cluster grpc://node-1:9002 \"SELECT count(*) FROM lake.orders\"

A path is a file, a folder with all its subfolders, or a pattern with *, ?, [...]
and **; below s3://, gs://, az:// and http(s):// too. In folders named name=value,
the name is a column. Names without double quotes are read in lower case.

--output also writes .parquet and .orc, to a URL too. What does not fit into the
memory is stored in a temporary folder, which is removed at the end.

Exit codes: 2 wrong command line or statement, unknown table or column; 1 anything
else, such as a query that needs more memory.";

/// The arguments of `stylobate sql`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SqlArgs {
    /// Statements, separated by semicolons [default: those of standard input, or a prompt if it is a terminal]
    #[arg(value_name = "SQL")]
    statements: Option<String>,

    /// A table: its name, and the path of its file, folder or pattern; may be repeated
    #[arg(long, value_name = "NAME=PATH", value_parser = option)]
    table: Vec<(String, String)>,

    #[command(flatten)]
    output: OutputArgs,

    /// Print at most N rows of a table [default: 40 on a terminal, otherwise all]
    #[arg(long, value_name = "N")]
    rows: Option<u64>,

    /// An option of the store, such as region=eu-west-1 or endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    option: Vec<(String, String)>,

    /// Memory for pages, decoded columns and queries [default: a quarter of the memory available to the process]
    #[arg(long, value_name = "SIZE", value_parser = ByteSize::from_str)]
    memory: Option<ByteSize>,

    /// Maximum threads [default: one per core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,

    /// Folder for data that does not fit into the memory [default: the system's temporary folder]
    #[arg(long, value_name = "FOLDER")]
    spill: Option<PathBuf>,

    /// Run the statements on the nodes of a cluster: the Flight door of any of them, such as grpc://127.0.0.1:9002
    #[arg(long, value_name = "URL", conflicts_with_all = ["table", "threads", "spill"])]
    cluster: Option<String>,

    /// Token of an access key of the nodes
    #[arg(long, value_name = "TOKEN", env = "STYLOBATE_TOKEN", hide_env_values = true)]
    token: Option<RedactedString>,
}

/// Runs the command until it completes or the process is stopped.
///
/// # Errors
///
/// If the command line or a statement is invalid, or reading or writing fails.
pub(crate) async fn run(args: SqlArgs) -> Result<()> {
    // At the prompt, a signal cancels the statement, not the command.
    if args.is_interactive() {
        let executor = args.executor().await?;
        return prompt(&args, executor).await;
    }

    until_stopped(async {
        let output = SqlOutput::chosen(&args)?;
        let executor = args.executor().await?;
        let text = match &args.statements {
            Some(text) => text.clone(),
            None => run_blocking(standard_input).await.context("reading standard input")??,
        };
        run_all(&args, &executor, &text, output).await
    })
    .await
}

fn standard_input() -> Result<String> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("standard input is no text")?;
    Ok(text)
}

/// Runs statements one after another.
async fn run_all(args: &SqlArgs, executor: &StatementExecutor, text: &str, output: SqlOutput) -> Result<()> {
    let statements = SqlStatement::parse(text)?;
    if statements.is_empty() {
        return Err(usage("there is no statement: give one, such as \"SELECT * FROM 'data.parquet'\""));
    }
    if statements.len() > 1 && output.is_file() {
        return Err(usage("--output takes the rows of one statement, and there are several"));
    }

    for statement in statements {
        run_one(args, executor, statement, output.clone()).await?;
    }
    Ok(())
}

/// Runs a statement, writes its rows, and returns their number.
async fn run_one(
    args: &SqlArgs,
    executor: &StatementExecutor,
    statement: SqlStatement,
    output: SqlOutput,
) -> Result<u64> {
    let rows = executor.run(statement).await?;
    match output {
        SqlOutput::Columns => {
            let file = args.column_file()?.ok_or_else(|| usage("--output names no file"))?;
            let progress = ProgressDisplay::new(None, false)?;
            // A file states the types of its columns, and few readers support views.
            let rows = rows.without_views();
            Ok(file.write(rows.schema(), rows, &progress).await?.rows)
        }
        // Statements such as SET return no rows.
        SqlOutput::Rows(..) if rows.schema().fields().is_empty() => {
            rows.try_for_each(|_| future::ready(Ok(()))).await?;
            Ok(0)
        }
        SqlOutput::Rows(RowDestination::Stdout, RowFormat::Table) if rows.is_explanation() => {
            print(explanation(rows).await?)?;
            Ok(0)
        }
        SqlOutput::Rows(destination, format) => {
            let bound = args.limits(format, &destination);
            let is_terminal = destination.is_terminal();
            let progress = ProgressDisplay::new(None, is_terminal)?;
            let mut left = bound.rows.map_or(u64::MAX, |rows| rows.saturating_add(1));
            let schema = rows.schema();
            // One additional row shows whether there are more.
            let some = rows.take_while(move |batch| {
                let goes_on = left > 0;
                left = left.saturating_sub(batch.as_ref().map_or(0, |batch| batch.num_rows() as u64));
                future::ready(goes_on)
            });
            Ok(drain(schema, some, format, bound, destination, &progress).await?.rows)
        }
    }
}

/// Returns the plans as text.
async fn explanation(rows: StatementRows) -> Result<String> {
    let batches: Vec<_> = rows.try_collect().await?;
    let mut text = String::new();
    for batch in batches {
        let [kinds, plans] = batch.columns() else { continue };
        let (Some(kinds), Some(plans)) = (kinds.as_string_opt::<i32>(), plans.as_string_opt::<i32>()) else {
            continue;
        };
        for (kind, plan) in kinds.iter().zip(plans) {
            let plan = plan.unwrap_or_default().trim_end();
            text.push_str(&format!("{}\n{plan}\n\n", kind.unwrap_or_default()));
        }
    }
    Ok(text.trim_end().to_owned() + "\n")
}

/// The output of a query's rows.
#[derive(Clone, Debug)]
enum SqlOutput {
    Rows(RowDestination, RowFormat),
    /// A Parquet or ORC file.
    Columns,
}

impl SqlOutput {
    /// Returns the output that the arguments select. Fails before any work is done if it cannot be written.
    fn chosen(args: &SqlArgs) -> Result<Self> {
        if args.column_file()?.is_some() {
            return Ok(Self::Columns);
        }
        let (destination, format) = args.output.chosen()?;
        Ok(Self::Rows(destination, format))
    }

    fn is_file(&self) -> bool {
        !matches!(self, Self::Rows(RowDestination::Stdout, _))
    }
}

impl SqlArgs {
    fn is_interactive(&self) -> bool {
        self.statements.is_none() && io::stdin().is_terminal()
    }

    /// Opens a session, or connects to the node.
    async fn executor(&self) -> Result<StatementExecutor> {
        match &self.cluster {
            Some(url) => {
                let token = self.token.as_ref().map(|token| token.0.as_str());
                Ok(StatementExecutor::Node(SqlClient::connect(url, token).await?))
            }
            None => Ok(StatementExecutor::Here(self.session().await?)),
        }
    }

    /// Opens a session with its tables.
    async fn session(&self) -> Result<SqlSession> {
        let cache = self.cache().await?;
        let mut builder = SqlSession::builder(cache).with_store_options(self.option.clone());
        if let Some(threads) = self.threads {
            builder = builder.with_threads(threads.get());
        }
        if let Some(folder) = &self.spill {
            builder = builder.with_spill_folder(folder);
        }

        let session = builder.build()?;
        future::try_join_all(self.table.iter().map(|(name, path)| session.add_table(name, path))).await?;
        Ok(session)
    }

    async fn cache(&self) -> Result<Cache> {
        let memory = self.memory.unwrap_or_else(|| NodeSettings::default().memory).as_u64();
        let writing = if self.column_file()?.is_some() { self.memory_for_writing(memory) } else { 0 };
        open_cache(Some(ByteSize::bytes(memory - writing))).await
    }

    /// Returns the quarter of the memory that the writer gets.
    fn memory_for_writing(&self, memory: u64) -> u64 {
        (memory / 4).min(MAX_WRITER_MEMORY.as_u64())
    }

    fn column_file(&self) -> Result<Option<ColumnFile>> {
        let Some(mut file) = self.output.column_file(&self.option)? else { return Ok(None) };
        if let Some(memory) = self.memory {
            file.options =
                file.options.with_memory(ByteSize::bytes(self.memory_for_writing(memory.as_u64())));
        }
        Ok(Some(file))
    }

    /// Returns the limits for tables.
    fn limits(&self, format: RowFormat, destination: &RowDestination) -> TableLimits {
        if format != RowFormat::Table {
            return TableLimits::default();
        }
        let is_terminal = destination.is_terminal();
        TableLimits {
            rows: self.rows.or(is_terminal.then_some(TABLE_ROWS)),
            width: is_terminal.then(|| usize::from(console::Term::stdout().size().1)),
            hint: Some("--rows shows more of them, and count(*) counts them"),
            ..TableLimits::default()
        }
    }
}
