//! Generates traces and their data: `trace.csv`, `objects.csv` and `data/*.parquet` in one folder.

use std::{
    fs,
    path::{Path as FilePath, PathBuf},
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use object_store::path::Path;

use super::{
    data::{self, TraceFileSize},
    plan::{TraceKind, TracePlan, TraceSpec, plan},
    random::ReplayRng,
    trace::{self, TraceObject},
};
use crate::{failure::usage, out::print, table};

/// The distribution of requests for `--make`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TraceDistribution {
    /// Zipf-distributed requests, and Parquet files of random numbers.
    Zipf,
}

#[derive(Args, Clone, Debug)]
pub(super) struct MakeTraceArgs {
    /// Generate a trace and its data instead of playing one
    #[arg(long, value_name = "DISTRIBUTION", requires = "output", conflicts_with_all = ["trace", "simulate"])]
    pub(super) make: Option<TraceDistribution>,
    /// Folder for trace.csv, objects.csv and data/, which is created if missing
    #[arg(long, value_name = "DIR", requires = "make")]
    output: Option<PathBuf>,
    /// The kind of trace
    #[arg(long, value_enum, default_value = "1m", requires = "make")]
    kind: TraceKind,
    /// Number of files [default: 9, 10, 19 or 8 by kind]
    #[arg(long, value_name = "N", requires = "make")]
    files: Option<usize>,
    /// Number of requests [default: 20, 20, 160 or twice the files by kind]
    #[arg(long, value_name = "N", requires = "make")]
    requests: Option<usize>,
    /// Skew of the files' popularity: p is proportional to 1/rank^skew
    #[arg(long, value_name = "SKEW", default_value_t = 1.5, requires = "make")]
    skew: f64,
    /// Seed; equal seeds give equal traces and data
    #[arg(long, default_value_t = 7, requires = "make")]
    seed: u64,
    /// Factor on the files' sizes
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "make")]
    scale: f64,
    /// Replace an existing trace in the folder
    #[arg(long, requires = "make")]
    force: bool,
}

/// Writes a trace and its data, and prints a summary.
pub(super) fn run(args: MakeTraceArgs) -> Result<()> {
    let MakeTraceArgs { kind, files, requests, skew, seed, scale, .. } = args;
    let output = args.output.ok_or_else(|| usage("--make needs --output DIR"))?;
    if !(scale.is_finite() && scale > 0.0) {
        return Err(usage(format!("--scale {scale}: a factor above 0 is needed")));
    }

    let plan = plan(TraceSpec { kind, files, requests, skew, seed })?;

    let trace_file = output.join("trace.csv");
    let data_folder = output.join("data");
    if trace_file.exists() && !args.force {
        return Err(usage(format!(
            "{}: there is a trace already; --force replaces it",
            trace_file.display()
        )));
    }

    fs::create_dir_all(&data_folder).with_context(|| data_folder.display().to_string())?;
    let objects = write_data(&plan, &data_folder, seed, scale)?;

    let kind_name = kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let note = format!(
        "stylobate replay --make zipf --kind {kind_name} --files {} --requests {} --skew {skew} \
         --seed {seed} --scale {scale}",
        plan.files.len(),
        plan.requests.len(),
    );

    data::replace(&output.join("objects.csv"), trace::write_objects(&objects).as_bytes())?;
    data::replace(&trace_file, trace::write_requests(&note, &plan.requests).as_bytes())?;

    let total = objects.iter().filter_map(|object| object.size).sum();
    print(format_args!(
        "{trace}: {} over {}, {}\nServe the data: stylobate serve {}\nPlay the trace: stylobate replay \
         {trace} --bucket data\n",
        table::count(plan.requests.len(), "request"),
        table::count(plan.files.len(), "file"),
        table::bytes(total),
        data_folder.display(),
        trace = trace_file.display(),
    ))
}

fn write_data(plan: &TracePlan, folder: &FilePath, seed: u64, scale: f64) -> Result<Vec<TraceObject>> {
    let rows = |size: &TraceFileSize| ((size.rows() as f64 * scale).round() as u64).max(1);
    let progress = ProgressBar::new(plan.files.iter().map(rows).sum());
    progress.set_style(ProgressStyle::with_template("{bar:40} {percent}% of the data, {eta} left")?);

    let mut objects = Vec::new();
    let mut numbers = [0; 2];
    for (index, size) in plan.files.iter().enumerate() {
        let number = &mut numbers[usize::from(*size == TraceFileSize::Large)];
        let name = format!("{}-{number}.parquet", size.name());
        *number += 1;
        let random = ReplayRng::of_part(seed, index as u64 + 1);
        let bytes = data::write_file(&folder.join(&name), rows(size), random, &progress)?;
        objects.push(TraceObject { key: Path::from(name), size: Some(bytes) });
    }

    progress.finish_and_clear();
    Ok(objects)
}
