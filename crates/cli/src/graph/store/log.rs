//! `stylobate graph store log`: lists the versions of a store.

use std::sync::Arc;

use anyhow::Result;
use arrow::{
    array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray, UInt64Array},
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use clap::Args;
use futures::stream;
use stylobate_graph::store::{LogEntry, StoreOptions};

use super::location::StoreLocationArgs;
use crate::rows::{OutputArgs, ProgressDisplay, TableLimits, drain, open_cache, until_stopped};

const EXAMPLES: &str = "\
Examples:
  stylobate graph store log social
  stylobate graph store log s3://lake/social --format json | jq -c 'select(.operation == \"load\")'

Each kept version is a row, the oldest first: version; time, in UTC; operation, which
is create, writer (a writer was opened), write, load or compact; vertices and edges, of
all types; epoch, the number of the writer; commit.
Exit codes: 2 wrong command line; 1 anything else.";

/// The arguments of `stylobate graph store log`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct LogArgs {
    #[command(flatten)]
    location: StoreLocationArgs,

    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn run(args: LogArgs) -> Result<()> {
    until_stopped(log(&args)).await
}

async fn log(args: &LogArgs) -> Result<()> {
    let (destination, format) = args.output.chosen()?;
    let store = args.location.open(&open_cache(None).await?, StoreOptions::default()).await?;
    let batch = rows(&store.log().await?)?;
    let width = destination.is_terminal().then(|| usize::from(console::Term::stdout().size().1));
    let bound = TableLimits { width, ..TableLimits::default() };
    let progress = ProgressDisplay::new(None, true)?;
    let schema = batch.schema();
    let batches = stream::iter([anyhow::Ok(batch)]);
    drain(schema, batches, format, bound, destination, &progress).await?;

    Ok(())
}

fn rows(entries: &[LogEntry]) -> Result<RecordBatch> {
    let numbers = |number: fn(&LogEntry) -> u64| -> ArrayRef {
        Arc::new(entries.iter().map(|entry| Some(number(entry))).collect::<UInt64Array>())
    };
    let texts = |text: fn(&LogEntry) -> &String| -> ArrayRef {
        Arc::new(entries.iter().map(|entry| Some(text(entry))).collect::<StringArray>())
    };
    let times = entries.iter().map(|entry| Some(entry.time_ms)).collect::<TimestampMillisecondArray>();
    let columns: Vec<(&str, DataType, ArrayRef)> = vec![
        ("version", DataType::UInt64, numbers(|entry| entry.version)),
        ("time", DataType::Timestamp(TimeUnit::Millisecond, None), Arc::new(times)),
        ("operation", DataType::Utf8, texts(|entry| &entry.operation)),
        ("vertices", DataType::UInt64, numbers(|entry| entry.vertices)),
        ("edges", DataType::UInt64, numbers(|entry| entry.edges)),
        ("epoch", DataType::UInt64, numbers(|entry| entry.epoch)),
        ("commit", DataType::Utf8, texts(|entry| &entry.commit)),
    ];

    let fields = columns.iter().map(|(name, data_type, _)| Field::new(*name, data_type.clone(), false));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));

    Ok(RecordBatch::try_new(schema, columns.into_iter().map(|(_, _, column)| column).collect())?)
}
