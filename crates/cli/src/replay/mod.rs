//! `stylobate replay`: plays a request trace against an S3 endpoint, generates traces, and simulates caches.

mod data;
mod endpoint;
mod latency_plot;
mod make;
mod measure;
mod plan;
mod play;
mod random;
mod report;
mod simulate;
mod trace;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use stylobate_storage::run_blocking;

use self::{
    endpoint::EndpointArgs, make::MakeTraceArgs, measure::Measurement, report::ReplayReport,
    simulate::SimulateArgs, trace::ReplayTrace,
};
use crate::{failure::usage, out, rows::RowDestination, table};

/// Maximum duration of a trace. A longer trace has wrong timestamps.
const MAX_SPAN: Duration = Duration::from_secs(30 * 24 * 3600);

const EXAMPLES: &str = "\
Examples:
  Make a trace of 20 requests and its nine files of 1 MB:
    stylobate replay --make zipf --kind 1m --output bench/1m
  Play it against a node (stylobate serve bench/1m/data), and plot latencies:
    stylobate replay bench/1m/trace.csv --bucket data --svg latency.svg
  Compare a node with the store behind it:
    stylobate replay bench/1m/trace.csv --bucket data --compare http://minio:9000
  Print the hit ratio of each cache policy:
    stylobate replay bench/1m/trace.csv --simulate --capacity 4MiB,64MiB

A trace has lines `timestamp_ms,file_index`; the objects file has one `key` or
`key,size` per line, index 0 first. Latencies are measured from the arrival time in
the trace, so they include queueing. The exit code is 0 if every request was
answered in full.";

/// The arguments of `stylobate replay`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// Trace to play
    #[arg(value_name = "TRACE", required_unless_present = "make")]
    trace: Option<PathBuf>,
    /// Objects by index [default: objects.csv next to the trace]
    #[arg(long, value_name = "FILE", conflicts_with = "make")]
    objects: Option<PathBuf>,
    /// Speed relative to the trace
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// Write the report as JSON to a file; with `-` to standard output, and the table to standard error
    #[arg(long, value_name = "FILE", conflicts_with = "make")]
    json: Option<PathBuf>,
    /// Draw the latency distribution as an SVG file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["make", "simulate"])]
    svg: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Endpoint")]
    endpoint: EndpointArgs,
    #[command(flatten, next_help_heading = "Making a trace")]
    make: MakeTraceArgs,
    #[command(flatten, next_help_heading = "Simulating caches")]
    simulate: SimulateArgs,
}

/// Plays, generates or simulates a trace.
///
/// # Errors
///
/// If a file is invalid or cannot be read or written, or if a request failed. The report has been printed in that
/// case.
pub(crate) async fn run(args: ReplayArgs) -> Result<()> {
    if args.make.make.is_some() {
        // Encoding and writing would block the runtime.
        return run_blocking(move || make::run(args.make)).await?;
    }

    let reports = ReportFiles::of(&args)?;
    let file = args.trace.clone().context("a trace is needed")?;
    let objects = args.objects.clone().unwrap_or_else(|| file.with_file_name("objects.csv"));
    let trace = ReplayTrace::load(&file, &objects, &args.endpoint.prefix)?;
    if args.simulate.simulate {
        let simulation = simulate::run(&args.simulate, &trace, &objects.display().to_string())?;
        return print(&simulation.table(), &simulation, reports.json);
    }

    play_all(&args, &file, &trace, reports).await
}

/// The files that are written besides the table.
#[derive(Debug)]
struct ReportFiles {
    json: Option<RowDestination>,
    svg: Option<RowDestination>,
}

impl ReportFiles {
    /// Fails, before anything is played, if a file cannot be written or must not be replaced.
    fn of(args: &ReplayArgs) -> Result<Self> {
        let at = |path: &Option<PathBuf>, extension: &str| {
            path.as_ref().map(|path| RowDestination::of_report(path, extension)).transpose()
        };
        let json = at(&args.json, "json")?;
        let svg = at(&args.svg, "svg")?;
        if matches!(svg, Some(RowDestination::Stdout)) {
            return Err(usage(
                "--svg -: the table is printed to standard output: name a file for the drawing",
            ));
        }
        Ok(Self { json, svg })
    }
}

/// Plays the trace against each endpoint in turn, and reports the results.
async fn play_all(args: &ReplayArgs, file: &Path, trace: &ReplayTrace, reports: ReportFiles) -> Result<()> {
    if !(args.speed.is_finite() && args.speed > 0.0) {
        return Err(usage(format!("--speed {}: a factor above 0 is needed", args.speed)));
    }

    let span = play::span(trace, args.speed);
    if span > MAX_SPAN {
        let days = span.as_secs() / 86_400;
        return Err(usage(format!("{}: playing it would take {days} days: use --speed", file.display())));
    }

    let mut report = ReplayReport::new(file.display().to_string(), args.speed);
    let mut played = Vec::new();
    for endpoint in args.endpoint.endpoints()? {
        let progress = ProgressBar::new(trace.requests.len() as u64);
        progress
            .set_style(ProgressStyle::with_template("{bar:40} {pos} of {len} answered, {elapsed} {msg}")?);
        progress.set_message(endpoint.url.clone());
        let measured = play::play(trace, endpoint.store, args.speed, &progress, play::interrupt()).await?;
        progress.finish_and_clear();
        report.add(&endpoint.url, &endpoint.bucket, &measured);
        let interrupted = measured.interrupted;
        played.push((format!("{}/{}", endpoint.url.trim_end_matches('/'), endpoint.bucket), measured));

        if interrupted {
            break;
        }
    }

    print(&report.table(), &report, reports.json)?;
    if let Some(svg) = reports.svg {
        svg.write_text(&picture(args.speed, file, trace, &played))?;
    }

    report.problem().map_or(Ok(()), |problem| Err(anyhow!(problem)))
}

/// Draws the latencies of each endpoint, labelled with the endpoint's name.
fn picture(speed: f64, file: &Path, trace: &ReplayTrace, played: &[(String, Measurement)]) -> String {
    // Many traces are named trace.csv, so the title includes the folder.
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let name = parts[parts.len().saturating_sub(2)..].join("/");
    let title = format!("Latency of {}, {name}", table::count(trace.requests.len(), "request"));
    let seconds = play::span(trace, speed).as_secs_f64();
    let pace = if speed == 1.0 { String::new() } else { format!(" at {speed}x pace") };
    let subtitle = format!(
        "open loop over {seconds:.1} s{pace}; from a request's arrival to the last byte of its object"
    );
    let series = played.iter();
    let series = series.map(|(name, measured)| latency_plot::LatencySeries {
        name: name.clone(),
        latency: &measured.latency,
    });

    latency_plot::draw(&title, &subtitle, &series.collect::<Vec<_>>())
}

/// Prints a table, and writes the JSON if requested.
fn print(table: &str, report: &impl Serialize, json: Option<RowDestination>) -> Result<()> {
    let Some(json) = json else { return out::print(table) };
    let text = serde_json::to_string_pretty(report)? + "\n";
    match json {
        RowDestination::Stdout => eprint!("{table}"),
        _ => out::print(table)?,
    }
    json.write_text(&text)
}
