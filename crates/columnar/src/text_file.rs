//! Text files, read whole: comma-separated values, and JSON in lines.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::concat,
    datatypes::{DataType, FieldRef, Schema},
    json::ReaderBuilder,
};
use bytes::Bytes;
use stylobate_storage::OpenObject;

use crate::{CsvReader, Error, Result};

/// What a text file may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// Comma-separated values with a header.
    Csv,
    /// A JSON object in each line.
    JsonLines,
}

/// Rows that are parsed at a time.
const ROWS_AT_ONCE: usize = 8192;

/// How many rows a file has, and the columns of these names; none for one that the file does not have.
pub(crate) async fn read(
    object: &OpenObject,
    kind: TextKind,
    fields: &[FieldRef],
) -> Result<(usize, Vec<Option<ArrayRef>>)> {
    let size = object.meta().size;
    let bytes = object.read(std::slice::from_ref(&(0..size))).await?.pop().unwrap_or_default();
    let (fields, name) = (fields.to_vec(), object.name());
    let parse = move || {
        let parsed = match kind {
            TextKind::JsonLines => json(&bytes, &fields),
            TextKind::Csv => csv(&bytes, &fields),
        };
        parsed.map_err(|reason| Error::Corrupt {
            object: name,
            row_group: None,
            column: None,
            offset: None,
            reason,
        })
    };
    let parsed = tokio::task::spawn_blocking(parse).await;
    parsed.map_err(|error| Error::Ended { reason: error.to_string() })?
}

fn csv(bytes: &Bytes, fields: &[FieldRef]) -> Result<(usize, Vec<Option<ArrayRef>>), String> {
    let mut reader = CsvReader::new(bytes.as_ref(), ROWS_AT_ONCE)?;
    let there: Vec<usize> = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| reader.header().iter().any(|name| name == field.name()))
        .map(|(at, _)| at)
        .collect();
    let schema: Vec<FieldRef> = there.iter().filter_map(|at| fields.get(*at)).cloned().collect();
    reader.select(&Arc::new(Schema::new(schema)))?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        batches.push(batch);
    }
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let mut columns = vec![None; fields.len()];
    for (column, at) in there.into_iter().enumerate() {
        let data_type = fields.get(at).map_or(&DataType::Null, |field| field.data_type());
        if let Some(to) = columns.get_mut(at) {
            *to = Some(joined(&batches, column, data_type)?);
        }
    }
    Ok((rows, columns))
}

/// A key that no line has is a column of nulls: a line need not name what is null.
fn json(bytes: &Bytes, fields: &[FieldRef]) -> Result<(usize, Vec<Option<ArrayRef>>), String> {
    let nullable = fields.iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    let schema = Arc::new(Schema::new(nullable.collect::<Vec<FieldRef>>()));
    let reader = ReaderBuilder::new(schema).with_batch_size(ROWS_AT_ONCE).build(bytes.as_ref());
    let batches = reader.and_then(Iterator::collect::<Result<Vec<RecordBatch>, _>>);
    let batches = batches.map_err(|error| error.to_string())?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let columns = fields.iter().enumerate();
    let columns = columns.map(|(at, field)| joined(&batches, at, field.data_type()).map(Some));
    Ok((rows, columns.collect::<Result<_, _>>()?))
}

fn joined(batches: &[RecordBatch], column: usize, data_type: &DataType) -> Result<ArrayRef, String> {
    let pieces: Vec<&dyn Array> =
        batches.iter().filter_map(|batch| batch.columns().get(column)).map(AsRef::as_ref).collect();
    match pieces.is_empty() {
        true => Ok(arrow::array::new_empty_array(data_type)),
        false => concat(&pieces).map_err(|error| error.to_string()),
    }
}
