//! `stylobate top`: displays the activity of a node in a terminal, updated every second.

mod figures;
mod screen;
mod terminal;

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use console::Term;
use serde_json::Value;
use stylobate_server::AdminClient;
use tokio::time::{Instant, sleep, sleep_until};

use self::{figures::NodeFigures, screen::picture, terminal::RawTerminal};
use crate::{
    admin_door::{self, read_secret},
    out::{print, print_json},
    rows::until_stopped,
};

const PERIOD: Duration = Duration::from_secs(1);
/// Interval at which key presses are polled.
const KEY_PERIOD: Duration = Duration::from_millis(50);
/// Time over which rates are averaged.
const RATE_MS: u64 = 5_000;
/// Width of the output without a terminal.
const PLAIN_WIDTH: usize = 160;

const EXAMPLES: &str = "\
Examples:
  Watch the node on this machine; q or Ctrl-C ends it:
    stylobate top
  Watch a node that has access keys:
    stylobate top https://node-1:9001 --secret-file /etc/stylobate/secret
  Print the figures once:
    stylobate top --once
  Print the hit ratio each second:
    stylobate top --json | jq --unbuffered .stats.hit_ratio

Rates are means over the last five seconds; other numbers count since the node started.
Without a terminal, a picture follows the other.
Exit codes: 2 wrong command line; 1 anything else, such as a node that does not answer.";

/// The arguments of `stylobate top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Admin door of the node
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:9001", value_parser = admin_door::url)]
    url: String,

    /// A file with the secret of an access key for all buckets, if the node has access keys
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Print the figures once, and end
    #[arg(long)]
    once: bool,

    /// Print the figures as JSON, an object per second
    #[arg(long)]
    json: bool,
}

/// Runs the command until it ends or the process is stopped.
pub(crate) async fn run(args: TopArgs) -> Result<()> {
    until_stopped(top(&args)).await
}

async fn top(args: &TopArgs) -> Result<()> {
    let client = AdminClient::new(&args.url, read_secret(args.secret_file.as_deref())?);

    // A node that does not answer the first request is an error; later failures are tolerated, since it may come
    // back.
    let first = documents(&client, 0).await?;
    if args.once {
        return if args.json { print_json(&first) } else { print(text(&client, &first, PLAIN_WIDTH)?) };
    }
    if args.json {
        return lines(&client, first).await;
    }
    if io::stdout().is_terminal() { watch(&client, first).await } else { pictures(&client, first).await }
}

/// Prints a line of JSON every second.
async fn lines(client: &AdminClient, first: Value) -> Result<()> {
    let mut since = latest(&first);
    print(format!("{first}\n"))?;
    loop {
        sleep(PERIOD).await;
        let found = documents(client, since).await?;
        since = latest(&found).max(since);
        print(format!("{found}\n"))?;
    }
}

/// Prints the figures every second, for outputs other than a terminal.
async fn pictures(client: &AdminClient, first: Value) -> Result<()> {
    let mut since = latest(&first);
    print(text(client, &first, PLAIN_WIDTH)?)?;
    loop {
        sleep(PERIOD).await;
        let found = documents(client, since).await?;
        since = latest(&found).max(since);
        print(format!("\n{}", text(client, &found, PLAIN_WIDTH)?))?;
    }
}

/// Displays the figures on the terminal until `q` is pressed.
async fn watch(client: &AdminClient, first: Value) -> Result<()> {
    let terminal = RawTerminal::open()?;
    let mut shown = first;
    let mut problem = None;
    loop {
        let next = Instant::now() + PERIOD;
        let (height, width) = Term::stdout().size();
        let mut picture = text(client, &shown, usize::from(width))?;
        if let Some(problem) = &problem {
            picture = format!("{problem}\n{picture}");
        }
        terminal.draw(&picture, usize::from(height))?;

        let asked = async {
            sleep_until(next).await;
            documents(client, latest(&shown)).await
        };
        tokio::select! {
            found = asked => match found {
                Ok(found) => {
                    shown = found;
                    problem = None;
                }
                Err(error) => problem = Some(format!("{error:#}; trying again")),
            },
            () = quit(&terminal) => return Ok(()),
        }
    }
}

/// Waits for the key that quits the display.
async fn quit(terminal: &RawTerminal) {
    while !terminal.pressed().contains(&b'q') {
        sleep(KEY_PERIOD).await;
    }
}

/// Requests all documents that are displayed, with the samples of the last five seconds. `since` is the time of the
/// last known sample, or 0.
async fn documents(client: &AdminClient, since: u64) -> Result<Value> {
    let since = since.saturating_sub(RATE_MS);
    let history = format!("/api/history?every=1s&since={since}");
    let (stats, history, reads, hot) = tokio::try_join!(
        client.get::<Value>("/api/stats"),
        client.get::<Value>(&history),
        client.get::<Value>("/api/reads"),
        client.get::<Value>("/api/hot?top=5"),
    )?;

    let samples = history.get("samples").and_then(Value::as_array).cloned().unwrap_or_default();
    let at = |sample: &Value| sample.get("at_ms").and_then(Value::as_u64).unwrap_or_default();
    let from = samples.last().map_or(0, at).saturating_sub(RATE_MS);
    let samples: Vec<_> = samples.into_iter().filter(|sample| at(sample) > from).collect();
    Ok(serde_json::json!({ "samples": samples, "stats": stats, "reads": reads["reads"], "hot": hot }))
}

/// Returns the time of the last sample.
fn latest(documents: &Value) -> u64 {
    documents["samples"].as_array().and_then(|samples| samples.last()?["at_ms"].as_u64()).unwrap_or_default()
}

fn text(client: &AdminClient, documents: &Value, width: usize) -> Result<String> {
    let figures =
        NodeFigures::of(documents).context("the answer cannot be read: is it a node of this version?")?;
    Ok(picture(&figures, &client.url(), width))
}
