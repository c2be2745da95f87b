//! Times scans of a file beside the parquet crate's reader, alternating in one process, and prints medians as JSON.

use std::{fs::File, time::Instant};

use anyhow::{Context, Result, ensure};
use arrow::{
    array::{Array, RecordBatch, RecordBatchReader},
    datatypes::{DataType, Field, Schema},
};
use clap::Parser;
use futures::{StreamExt, TryStreamExt};
use parquet::{
    arrow::{
        ArrowWriter, ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    },
    basic::Compression,
    file::properties::WriterProperties,
};
use stylobate_columnar::{Cache, Dictionaries, Predicate, ScanRequest};
use stylobate_storage::{ByteSize, CacheOptions};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Times scans of a Parquet file.
#[derive(Parser)]
struct Arguments {
    /// The Parquet file.
    file: String,
    /// Write TPC-H lineitem of this scale to the file instead.
    #[arg(long)]
    generate: Option<f64>,
    /// Read strings as dictionaries.
    #[arg(long)]
    dictionary: bool,
    /// Columns to read. Default: all.
    #[arg(long, value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Read only rows that match this predicate; disables the parquet crate's reader.
    #[arg(long = "where")]
    filter: Option<String>,
    /// Keep decoded data from one round to the next.
    #[arg(long)]
    warm: bool,
    /// Do not run the parquet crate's reader.
    #[arg(long)]
    alone: bool,
    /// Number of threads of the scan.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Number of rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(scale) = arguments.generate {
        return generate(scale, &arguments.file);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(arguments.threads).enable_all().build()?;
    let cache = runtime.block_on(Cache::open(CacheOptions::new(ByteSize::gib(8))))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut rows = (0, 0);
    for round in 0..=arguments.rounds {
        if !arguments.warm {
            cache.clear();
        }
        let start = Instant::now();
        rows.0 = runtime.block_on(scan(&arguments, &cache))?;
        let took = start.elapsed().as_secs_f64();
        // The first round warms up memory and files.
        if round > 0 {
            ours.push(took);
        }
        if arguments.filter.is_none() && !arguments.alone {
            let start = Instant::now();
            rows.1 = read(&arguments)?;
            let took = start.elapsed().as_secs_f64();
            if round > 0 {
                theirs.push(took);
            }
            ensure!(rows.0 == rows.1, "{} rows and {} rows: one of both is wrong", rows.0, rows.1);
        }
    }
    let report = serde_json::json!({
        "file": arguments.file, "threads": arguments.threads, "rows": rows.0,
        "stylobate_s": median(&mut ours), "parquet_rs_s": median(&mut theirs), "peak_kib": peak_kib()?,
    });
    println!("{report}");
    Ok(())
}

async fn scan(arguments: &Arguments, cache: &Cache) -> Result<usize> {
    let dictionary = if arguments.dictionary { Dictionaries::All } else { Dictionaries::None };
    let mut request =
        ScanRequest::new(&arguments.file).with_dictionary(dictionary).with_threads(arguments.threads);
    if let Some(columns) = &arguments.columns {
        request = request.with_columns(columns);
    }
    if let Some(filter) = &arguments.filter {
        request = request.with_filter(Predicate::parse(filter)?);
    }
    let stream = request.plan(cache).await?.stream();
    let rows = stream.map(|batch| batch.map(|batch: RecordBatch| batch.num_rows()));
    Ok(rows.try_fold(0, |sum, rows| async move { Ok(sum + rows) }).await?)
}

fn read(arguments: &Arguments) -> Result<usize> {
    let file = File::open(&arguments.file)?;
    let plain = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new().with_skip_arrow_metadata(true))?;
    let fields = plain.schema().fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 if arguments.dictionary => {
            let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Field::new(field.name(), dictionary, field.is_nullable())
        }
        _ => field.as_ref().clone(),
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let options = ArrowReaderOptions::new().with_schema(schema.into());
    let metadata = ArrowReaderMetadata::try_new(plain.metadata().clone(), options)?;
    let mut builder =
        ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).with_batch_size(8192);
    if let Some(columns) = &arguments.columns {
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().map(String::as_str));
        builder = builder.with_projection(mask);
    }
    let mut rows = 0;
    for batch in builder.build()? {
        let batch = batch.context("the parquet crate's reader")?;
        rows += batch.column(0).len();
    }
    Ok(rows)
}

/// Writes lineitem as the tpchgen command does: snappy, row groups of about a million rows.
fn generate(scale: f64, file: &str) -> Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(1 << 20))
        .build();
    let lineitem = LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(8192);
    let mut writer = ArrowWriter::try_new(File::create(file)?, lineitem.schema(), Some(properties))?;
    for batch in lineitem {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

/// Peak resident memory of the process so far.
fn peak_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    peak.context("the system says how much memory a process has held")?.parse().context("a number")
}

fn median(times: &mut [f64]) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}
