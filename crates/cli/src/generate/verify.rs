//! `stylobate generate verify`: reads files back and compares them with the manifest.

use anyhow::{Result, bail};
use clap::Args;
use stylobate_datagen::{Output, Verdict};
use stylobate_storage::SinkOptions;

use crate::{
    out::{print, print_json},
    rows::{grouped, option, printable, until_stopped},
    table,
};

const EXAMPLES: &str = "\
Examples:
  Verify a folder:
    stylobate generate verify data/tpch
  Verify a bucket, and print JSON:
    stylobate generate verify s3://lake/tpch --json

Each file is read twice: its bytes, and its rows through the reader of its format.
Exit codes: 1 if a file is missing or differs, or on any error.";

/// The arguments of `stylobate generate verify`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct GenerateVerifyArgs {
    /// The output folder or URL of the generation
    #[arg(value_name = "DIR|URL")]
    output: String,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// An option of the store, such as region=eu-west-1 or endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    option: Vec<(String, String)>,
}

pub(super) async fn run(args: &GenerateVerifyArgs) -> Result<()> {
    until_stopped(verify(args)).await
}

async fn verify(args: &GenerateVerifyArgs) -> Result<()> {
    let output = Output::open(&args.output, &args.option, SinkOptions::default())?;
    let mut printed = Ok(());
    let say = |verdict: &Verdict| {
        if !args.json && printed.is_ok() {
            printed = print(line(verdict) + "\n");
        }
    };

    let verdicts = stylobate_datagen::verify(&output, say).await?;
    let wrong = verdicts.iter().filter(|verdict| !verdict.ok).count();
    if args.json {
        let answer = serde_json::json!({ "ok": wrong == 0, "files": verdicts });
        printed = print_json(&answer);
    }

    match wrong {
        0 => printed,
        wrong => bail!("{}: {wrong} of {} not as made", output.name(), table::count(verdicts.len(), "file")),
    }
}

fn line(verdict: &Verdict) -> String {
    let Verdict { path, rows, bytes, differences, .. } = verdict;
    if verdict.ok {
        format!("ok     {}: {} rows, {}", printable(path), grouped(*rows), table::bytes(*bytes))
    } else {
        format!("wrong  {}: {}", printable(path), printable(&differences.join("; ")))
    }
}
