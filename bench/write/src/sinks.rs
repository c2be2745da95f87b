//! Writes bytes into one file or many at once, by each kind of sink.

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use futures::future::try_join_all;
use serde_json::{Value, json};
use stylobate_storage::{ByteSize, Durability, Overwrite, SinkKind, SinkOptions, Sinks};

use crate::median;

const KINDS: [SinkKind; 3] = [SinkKind::Thread, SinkKind::IoUring, SinkKind::IoUringDirect];

/// Writes files of random bytes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder for the files, which are removed again.
    folder: PathBuf,
    /// Number of files written at once.
    #[arg(long, default_value_t = 1)]
    files: usize,
    /// Total size of all files, in MiB.
    #[arg(long, default_value_t = 1024)]
    mib: usize,
    /// Size of each write, in KiB.
    #[arg(long, default_value_t = 1024)]
    write_kib: u64,
    /// Sync the files to disk.
    #[arg(long)]
    fsync: bool,
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bytes: Vec<u8> =
        (0..1_u64 << 20).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let mut times = [const { Vec::new() }; KINDS.len()];
    for round in 0..=arguments.rounds {
        for (kind, times) in KINDS.iter().zip(&mut times) {
            // No writeback of an earlier kind is still in progress.
            std::process::Command::new("sync").status()?;
            let start = Instant::now();
            runtime.block_on(write(arguments, *kind, &bytes))?;
            if round > 0 {
                times.push(start.elapsed().as_secs_f64());
            }
            for file in 0..arguments.files {
                std::fs::remove_file(arguments.folder.join(file.to_string()))?;
            }
        }
    }
    let medians = KINDS.iter().zip(&mut times).map(|(kind, times)| (kind.to_string(), json!(median(times))));
    Ok(json!({
        "files": arguments.files, "mib": arguments.mib, "write_kib": arguments.write_kib,
        "fsync": arguments.fsync, "seconds": Value::Object(medians.collect()),
    }))
}

async fn write(arguments: &Arguments, kind: SinkKind, bytes: &[u8]) -> Result<()> {
    let durability = if arguments.fsync { Durability::Fsync } else { Durability::None };
    let size = ByteSize::kib(arguments.write_kib);
    let slots = usize::try_from((8 << 10) / arguments.write_kib.max(64))?.max(8);
    let options = SinkOptions::default().with_kind(kind).with_durability(durability).with_slots(slots, size);
    let sinks = Sinks::new(options);
    let each = (arguments.mib << 20) / arguments.files;
    let piece = usize::try_from(size.as_u64())?.min(bytes.len());
    try_join_all((0..arguments.files).map(async |file| {
        let mut sink = sinks.file(&arguments.folder.join(file.to_string()), Overwrite::Replace).await?;
        for _ in 0..each / piece {
            sink.write(bytes.get(..piece).unwrap_or_default()).await?;
        }
        sink.finish().await?;
        Ok(())
    }))
    .await
    .map(drop)
}
