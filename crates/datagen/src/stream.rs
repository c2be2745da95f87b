//! The rows of a table as record batches, in order, made by several threads.

use std::{fmt, sync::Arc, vec};

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{
    Error, Part, Result, Scale, Table,
    columns::{ColumnRepresentation, TableColumns},
    ordered::OrderedWork,
};

/// Rows of a part of a table: the same rows in the same batches for any number of threads.
pub struct TableStream {
    table: Table,
    schema: SchemaRef,
    chunks: OrderedWork<Vec<RecordBatch>>,
    batches: vec::IntoIter<RecordBatch>,
}

impl Table {
    /// Streams the rows of a part, made by `threads` threads; with one, by the consumer.
    pub fn stream(self, scale: Scale, part: Part, threads: usize) -> Result<TableStream> {
        TableStream::new(self, scale, part, threads)
    }
}

impl TableStream {
    fn new(table: Table, scale: Scale, part: Part, threads: usize) -> Result<Self> {
        let columns = TableColumns::new(table, scale, ColumnRepresentation::Stream);
        let schema = columns.schema().clone();
        let chunks = chunks(table, scale, part, threads, &columns, || Ok)?;
        Ok(Self { table, schema, chunks, batches: Vec::new().into_iter() })
    }

    /// Returns the columns of its batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for TableStream {
    type Item = Result<RecordBatch>;

    /// Returns the next batch. Nothing follows an error.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.batches.next() {
                return Some(Ok(batch));
            }
            match self.chunks.next()? {
                Ok(batches) => self.batches = batches.into_iter(),
                Err(reason) => return Some(Err(Error::Generator { table: self.table.name(), reason })),
            }
        }
    }
}

impl fmt::Debug for TableStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableStream").field("table", &self.table).finish_non_exhaustive()
    }
}

/// Applies `worker` to the batches of each chunk of a part, in order. Each thread has a worker of its own.
pub(crate) fn chunks<T, W>(
    table: Table,
    scale: Scale,
    part: Part,
    threads: usize,
    columns: &Arc<TableColumns>,
    worker: impl Fn() -> W,
) -> Result<OrderedWork<T>>
where
    T: Send + 'static,
    W: FnMut(Vec<RecordBatch>) -> Result<T> + Send + 'static,
{
    let chunks: Arc<[_]> = table.chunks(scale, part)?.into();
    Ok(OrderedWork::new(chunks.len(), threads, || {
        let chunks = chunks.clone();
        let mut converter = columns.converter();
        let mut work = worker();
        Box::new(move |number| {
            let Some(chunk) = chunks.get(number) else { return Err("no such chunk".to_owned()) };
            let converted = table.batches(scale, *chunk).and_then(|batches| {
                let batches = batches.map(|batch| {
                    converter.convert(&batch.map_err(Error::arrow(format!("table {}", table.name())))?)
                });
                work(batches.collect::<Result<_>>()?)
            });
            converted.map_err(|error| error.to_string())
        })
    }))
}
