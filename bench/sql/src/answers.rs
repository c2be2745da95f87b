//! Input and output of the programs that run queries, one line of JSON each.

use std::time::Instant;

use anyhow::Result;
use arrow::{
    array::{Array, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Float64Type},
    util::display::{ArrayFormatter, FormatOptions},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line of standard input.
#[derive(Deserialize)]
pub(crate) struct Query {
    pub(crate) sql: String,
    pub(crate) tables: Vec<String>,
}

/// A line of standard output.
#[derive(Serialize)]
pub(crate) struct Answer {
    milliseconds: f64,
    rows: Vec<Vec<Value>>,
}

impl Answer {
    /// Returns the answer of a query that began at `start` and has just ended.
    pub(crate) fn ended_now(start: Instant, batches: &[RecordBatch]) -> Result<Self> {
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;

        let mut rows = Vec::new();
        for batch in batches {
            add_rows(batch, &mut rows)?;
        }
        Ok(Self { milliseconds, rows })
    }
}

fn add_rows(batch: &RecordBatch, rows: &mut Vec<Vec<Value>>) -> Result<()> {
    let first = rows.len();
    rows.resize(first + batch.num_rows(), Vec::with_capacity(batch.num_columns()));
    for column in batch.columns() {
        for (row, cell) in rows[first..].iter_mut().zip(cells(column)?) {
            row.push(cell);
        }
    }
    Ok(())
}

/// Returns numbers as numbers, and other values as text.
fn cells(column: &dyn Array) -> Result<Vec<Value>> {
    if column.data_type().is_numeric() {
        let numbers = cast(column, &DataType::Float64)?;
        return Ok(numbers.as_primitive::<Float64Type>().iter().map(Value::from).collect());
    }

    let options = FormatOptions::default();
    let texts = ArrayFormatter::try_new(column, &options)?;
    let text = |row| (!column.is_null(row)).then(|| texts.value(row).to_string());
    Ok((0..column.len()).map(|row| Value::from(text(row))).collect())
}
