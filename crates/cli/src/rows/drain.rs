//! Writes batches on a separate thread rather than through a sink: an output such as a pipe without a reader may
//! block, and must not keep the process from exiting.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
};

use anyhow::{Context, Error, Result};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{Stream, StreamExt};
use stylobate_columnar::RowEncoder;
use stylobate_storage::run_blocking;
use tokio::sync::mpsc;

use super::{
    ProgressDisplay, RowDestination, RowFormat,
    grid::{TableEncoder, TableLimits},
    progress::ByteCount,
};
use crate::out::of_output;

/// Capacity of the channel to the writer, in batches.
const CHANNEL_CAPACITY: usize = 2;
const BUFFER: usize = 256 << 10;

/// Rows and bytes written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteTotals {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

enum DrainMessage {
    Batch(RecordBatch),
    /// The last batch has been sent. If the channel closes without this message, the work was cancelled.
    End,
}

/// Writes all batches of `schema` to the destination. A file becomes visible under its name only on success; on
/// failure or drop it is removed.
pub(crate) async fn drain<E: Into<Error>>(
    schema: SchemaRef,
    mut batches: impl Stream<Item = Result<RecordBatch, E>> + Unpin,
    format: RowFormat,
    bound: TableLimits,
    destination: RowDestination,
    progress: &ProgressDisplay,
) -> Result<WriteTotals> {
    // Waits for the first batch before anything is created.
    let mut next = batches.next().await.transpose().map_err(Into::into)?;
    let is_terminal = destination.is_terminal();
    let (file, unfinished) = destination.open()?;
    let (to_writer, waiting) = mpsc::channel(CHANNEL_CAPACITY);
    let bytes = progress.byte_count();
    let before = bytes.get();
    let counted = CountedFile { file, bytes: bytes.clone() };
    let writer = run_blocking(move || write(&schema, format, &bound, counted, waiting));

    let mut rows = 0;
    let mut failed = None;
    while let Some(batch) = next {
        let batch_rows = batch.num_rows();
        if to_writer.send(DrainMessage::Batch(batch)).await.is_err() {
            break;
        }

        rows += batch_rows as u64;
        progress.add_rows(batch_rows);
        next = match batches.next().await.transpose() {
            Ok(next) => next,
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
    }

    if is_terminal {
        progress.clear();
    }

    if failed.is_none() {
        // If the writer has already ended, its result contains the error.
        let _ = to_writer.send(DrainMessage::End).await;
    }

    drop(to_writer);
    let written = writer.await.context("the writer ended")?;
    if let Some(error) = failed {
        return Err(error.into());
    }

    written?;
    unfinished.finish()?;

    Ok(WriteTotals { rows, bytes: bytes.get() - before })
}

fn write(
    schema: &SchemaRef,
    format: RowFormat,
    bound: &TableLimits,
    file: CountedFile,
    mut waiting: mpsc::Receiver<DrainMessage>,
) -> Result<()> {
    let mut file = file;
    {
        let buffered = BufWriter::with_capacity(BUFFER, &mut file);
        let mut out = OutputEncoder::new(format, schema, bound, buffered)?;
        loop {
            match waiting.blocking_recv() {
                Some(DrainMessage::Batch(batch)) => out.write(&batch)?,
                Some(DrainMessage::End) => break,
                None => return Ok(()),
            }
        }

        out.finish()?;
    }

    file.sync()
}

/// A file that counts the bytes written.
struct CountedFile {
    file: File,
    bytes: ByteCount,
}

impl CountedFile {
    /// Syncs the file, so that a published file has its contents after a crash.
    fn sync(&self) -> Result<()> {
        if self.file.metadata()?.is_file() {
            self.file.sync_all()?;
        }
        Ok(())
    }
}

impl Write for CountedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes).map_err(of_output)?;
        self.bytes.add(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(of_output)
    }
}

/// Encodes batches of one schema.
enum OutputEncoder<W: Write> {
    Table(TableEncoder<W>),
    File(RowEncoder<W>),
}

impl<W: Write> OutputEncoder<W> {
    /// Creates an encoder of the format over `out`. `bound` applies to tables.
    fn new(format: RowFormat, schema: &SchemaRef, bound: &TableLimits, out: W) -> Result<Self> {
        Ok(match format {
            RowFormat::Table => Self::Table(TableEncoder::new(out, schema, bound.clone())),
            RowFormat::File(format) => Self::File(RowEncoder::new(&format.into(), schema, out)?),
        })
    }

    /// Writes the rows of a batch. A table may buffer some of them.
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Table(table) => table.write(batch),
            Self::File(encoder) => Ok(encoder.write(batch)?),
        }
    }

    /// Writes the end of the output after the last row.
    fn finish(&mut self) -> Result<()> {
        match self {
            Self::Table(table) => table.finish(),
            Self::File(encoder) => Ok(encoder.finish()?),
        }
    }
}
