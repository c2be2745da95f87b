//! Ten columns of three million strings of 32 bytes, with few or many distinct values, written as Parquet.

use std::{fs::File, path::PathBuf, sync::Arc, time::Instant};

use anyhow::{Context, Result, ensure};
use arrow::{
    array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray},
    compute::cast,
    datatypes::{DataType, Field, Int32Type, Schema, SchemaRef},
};
use parquet::{arrow::ArrowWriter, basic, file::properties::WriterProperties};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use stylobate_columnar::parquet::{ColumnOptions, Compression, ParquetOptions, ParquetWriter};
use stylobate_storage::{Durability, Overwrite, SinkOptions, Sinks};

use crate::median;

const ROWS: usize = 3_000_000;
const COLUMNS: usize = 10;
const LENGTH: usize = 32;
const BATCH: usize = 1 << 16;

/// Writes ten columns of three million strings.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder for the files, which are removed again.
    folder: PathBuf,
    /// Number of distinct strings.
    #[arg(long, default_value_t = 1000)]
    distinct: usize,
    /// Use plain strings instead of dictionaries.
    #[arg(long)]
    dense: bool,
    /// Compression: `snappy`, `zstd(3)` and so on.
    #[arg(long, default_value = "snappy")]
    compression: Compression,
    /// Number of encoding threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Value> {
    let batches = table(arguments)?;
    let schema = batches.first().context("a table has batches")?.schema();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(arguments.threads).enable_all().build()?;
    let (mine, peers) =
        (arguments.folder.join("stylobate.parquet"), arguments.folder.join("parquet-rs.parquet"));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut sizes = (0, 0);
    for round in 0..=arguments.rounds {
        let start = Instant::now();
        sizes.0 = runtime.block_on(write(arguments, &schema, &batches, &mine))?;
        let took = start.elapsed().as_secs_f64();
        let start = Instant::now();
        write_by_crate(arguments, &schema, &batches, &peers)?;
        let other = start.elapsed().as_secs_f64();
        sizes.1 = std::fs::metadata(&peers)?.len();
        // The first round warms up memory.
        if round > 0 {
            ours.push(took);
            theirs.push(other);
        }
        std::fs::remove_file(&mine)?;
        std::fs::remove_file(&peers)?;
    }
    Ok(json!({
        "distinct": arguments.distinct, "dense": arguments.dense, "threads": arguments.threads,
        "stylobate_s": median(&mut ours), "parquet_rs_s": median(&mut theirs),
        "stylobate_bytes": sizes.0, "parquet_rs_bytes": sizes.1,
    }))
}

fn table(arguments: &Arguments) -> Result<Vec<RecordBatch>> {
    let mut random = StdRng::seed_from_u64(7);
    let mut value =
        |_| -> String { (0..LENGTH).map(|_| char::from(random.random_range(33_u8..126))).collect() };
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..arguments.distinct).map(&mut value)));
    let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let data_type = if arguments.dense { DataType::Utf8 } else { data_type };
    let fields = (0..COLUMNS).map(|column| Field::new(format!("c{column}"), data_type.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let code_count = i32::try_from(arguments.distinct)?;
    let batch = |start: usize| -> Result<RecordBatch> {
        let mut column = || -> Result<ArrayRef> {
            let codes = (start..ROWS.min(start + BATCH)).map(|_| random.random_range(0..code_count));
            let codes = Int32Array::from_iter_values(codes);
            let array: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(codes, values.clone())?);
            Ok(if arguments.dense { cast(&array, &DataType::Utf8)? } else { array })
        };
        let columns = (0..COLUMNS).map(|_| column()).collect::<Result<_>>()?;
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    };
    (0..ROWS).step_by(BATCH).map(batch).collect()
}

async fn write(
    arguments: &Arguments,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    path: &std::path::Path,
) -> Result<u64> {
    // Like the peers, does not sync to disk.
    let sinks = Sinks::new(SinkOptions::default().with_durability(Durability::None));
    let all = ColumnOptions::default().with_compression(arguments.compression);
    let options = ParquetOptions::default().with_all_columns(all).with_threads(arguments.threads);
    let name = path.display().to_string();
    let mut writer =
        ParquetWriter::new(sinks.file(path, Overwrite::Replace).await?, name, schema.clone(), options)?;
    for batch in batches {
        writer.write(batch).await?;
    }
    let written = writer.finish().await?;
    ensure!(written.rows == ROWS as u64, "{} rows", written.rows);
    Ok(written.bytes)
}

fn write_by_crate(
    arguments: &Arguments,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    path: &std::path::Path,
) -> Result<()> {
    let codec: basic::Compression = arguments.compression.to_string().parse()?;
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema.clone(), Some(properties))?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.close()?;
    Ok(())
}
