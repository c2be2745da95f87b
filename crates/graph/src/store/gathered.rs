//! Batches whose keys are looked up: large ones, so that keys that are not in memory are read once for many rows.

use arrow::{array::RecordBatch, compute::concat_batches};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use stylobate_storage::ByteSize;

use super::{budgeted::bytes_of, rows::arrow_error};
use crate::Result;

/// A batch has about this share of the memory.
const SHARE: u64 = 16;

/// The rows of small batches, put together.
struct Gathered<'a> {
    batches: BoxStream<'a, Result<RecordBatch>>,
    most: u64,
    /// The first of the next ones.
    first: Option<RecordBatch>,
}

/// Batches put together, as many as have the same columns and fit into a share of the memory.
pub(super) fn gathered(
    batches: BoxStream<'_, Result<RecordBatch>>,
    memory: ByteSize,
) -> BoxStream<'_, Result<RecordBatch>> {
    let gathered = Gathered { batches, most: memory.as_u64() / SHARE, first: None };
    futures::stream::try_unfold(gathered, Gathered::next).boxed()
}

impl Gathered<'_> {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        let mut some: Vec<RecordBatch> = self.first.take().into_iter().collect();
        let mut bytes: u64 = some.iter().map(|batch| bytes_of(batch.columns())).sum();
        while some.is_empty() || bytes < self.most {
            let Some(batch) = self.batches.try_next().await? else { break };
            if some.first().is_some_and(|other| other.schema_ref() != batch.schema_ref()) {
                self.first = Some(batch);
                break;
            }
            bytes += bytes_of(batch.columns());
            some.push(batch);
        }
        let Some(schema) = some.first().map(RecordBatch::schema) else { return Ok(None) };
        let batch = concat_batches(&schema, &some).map_err(|error| arrow_error("edges", error))?;
        Ok(Some((batch, self)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;
    use crate::Error;

    fn numbers(from: i64, to: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
        RecordBatch::try_from_iter([("src", numbers)]).unwrap()
    }

    async fn rows(batches: Vec<Result<RecordBatch>>, memory: u64) -> Result<Vec<RecordBatch>> {
        gathered(futures::stream::iter(batches).boxed(), ByteSize::bytes(memory)).try_collect().await
    }

    #[tokio::test]
    async fn small_batches_become_large_ones_of_the_same_rows() {
        let whole = numbers(0, 1000);
        let small = || (0..100).map(|at| Ok(whole.slice(at * 10, 10))).collect();
        assert_eq!(rows(small(), 1 << 20).await.unwrap(), std::slice::from_ref(&whole));
        // Each of 80 bytes, and a little more for what is asked of them.
        let some = rows(small(), 16 * 400).await.unwrap();
        assert!((10..40).contains(&some.len()), "{}", some.len());
        assert_eq!(concat_batches(&whole.schema(), &some).unwrap(), whole);
        assert_eq!(rows(small(), 0).await.unwrap().len(), 100);
        assert!(rows(Vec::new(), 1 << 20).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn batches_with_other_columns_stay_apart_and_errors_pass() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let other = RecordBatch::try_from_iter([("src", texts)]).unwrap();
        let batches = vec![Ok(numbers(0, 2)), Ok(other.clone()), Ok(numbers(2, 3)), Ok(numbers(3, 4))];
        assert_eq!(rows(batches, 1 << 20).await.unwrap(), [numbers(0, 2), other, numbers(2, 4)]);
        let failing = Err(Error::Fenced { object: "x".to_owned(), epoch: 1, by: 2 });
        assert!(matches!(rows(vec![Ok(numbers(0, 2)), failing], 1 << 20).await, Err(Error::Fenced { .. })));
    }
}
