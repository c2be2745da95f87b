//! Writes a file of a format that is encoded batch by batch.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use stylobate_storage::{Sink, run_blocking};

use super::{FileOptions, RowEncoder};
use crate::{Error, Result, Written, file::promised};

/// Writer that encodes batches in memory, one at a time, and passes the bytes to the sink.
pub(super) struct RowFileWriter {
    sink: Box<dyn Sink>,
    name: String,
    schema: SchemaRef,
    /// `None` while a batch is written: if the write fails or its future is dropped, rows are lost.
    encoder: Option<RowEncoder<Vec<u8>>>,
    rows: u64,
}

impl RowFileWriter {
    pub(super) fn new(
        sink: Box<dyn Sink>,
        name: String,
        schema: SchemaRef,
        options: &FileOptions,
    ) -> Result<Self> {
        let encoder = RowEncoder::new(options, &schema, Vec::new());
        let encoder = encoder.map_err(|error| unwritable(&name, error))?;
        Ok(Self { sink, name, schema, encoder: Some(encoder), rows: 0 })
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sink.position()
    }

    pub(super) fn sink_memory(&self) -> usize {
        self.sink.memory()
    }

    pub(super) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        promised::check(batch, &self.schema).map_err(|(column, reason)| Error::Unwritable {
            object: self.name.clone(),
            column,
            reason,
        })?;

        let mut encoder = self.take_encoder()?;
        let rows = batch.num_rows();
        let batch = batch.clone();
        let (encoder, encoded) = run_blocking(move || {
            let encoded = encoder.write(&batch);
            (encoder, encoded)
        })
        .await?;
        encoded.map_err(|error| unwritable(&self.name, error))?;

        self.pass_on(encoder, &[], rows).await
    }

    pub(super) async fn write_encoded(&mut self, bytes: &[u8], rows: usize) -> Result<()> {
        let encoder = self.take_encoder()?;
        self.pass_on(encoder, bytes, rows).await
    }

    /// Writes the output of the encoder, then `more`, to the sink.
    async fn pass_on(&mut self, mut encoder: RowEncoder<Vec<u8>>, more: &[u8], rows: usize) -> Result<()> {
        for bytes in [encoder.out().as_slice(), more] {
            if !bytes.is_empty() {
                self.sink.write(bytes).await?;
            }
        }

        encoder.out().clear();
        self.encoder = Some(encoder);
        self.rows += rows as u64;

        Ok(())
    }

    /// Writes the end of the file, and returns the sink that has all bytes.
    pub(super) async fn end(mut self) -> Result<(Written, Box<dyn Sink>)> {
        let mut encoder = self.take_encoder()?;
        encoder.finish().map_err(|error| unwritable(&self.name, error))?;
        self.pass_on(encoder, &[], 0).await?;
        let written = Written { rows: self.rows, bytes: self.sink.position(), row_groups: 0 };

        Ok((written, self.sink))
    }

    fn take_encoder(&mut self) -> Result<RowEncoder<Vec<u8>>> {
        let broken = || unwritable(&self.name, "an earlier write failed or was given up");
        self.encoder.take().ok_or_else(broken)
    }
}

fn unwritable(name: &str, reason: impl ToString) -> Error {
    Error::Unwritable { object: name.to_owned(), column: None, reason: reason.to_string() }
}
