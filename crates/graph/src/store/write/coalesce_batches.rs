//! Coalesces batches before key lookups, so that uncached keys are read once for many rows.

use arrow::{array::RecordBatch, compute::concat_batches, datatypes::DataType};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use stylobate_storage::ByteSize;

use crate::{
    Result,
    store::{budgeted::bytes_of, delta::rows::arrow_error},
};

/// Fraction of the memory that a batch may take.
const SHARE: u64 = 16;
/// Maximum bytes of a batch, far below the limit of string offsets.
const MAX_BYTES: u64 = 64 << 20;

/// State of coalescing small batches.
struct CoalesceBatchesState<'a> {
    batches: BoxStream<'a, Result<RecordBatch>>,
    max_bytes: u64,
    /// First input of the next batch.
    first: Option<RecordBatch>,
}

/// Coalesces consecutive batches with the same columns, up to a share of the memory.
pub(crate) fn coalesce_batches(
    batches: BoxStream<'_, Result<RecordBatch>>,
    memory: ByteSize,
) -> BoxStream<'_, Result<RecordBatch>> {
    let max_bytes = (memory.as_u64() / SHARE).min(MAX_BYTES);
    // The stream is polled once more after its end.
    let gathered = CoalesceBatchesState { batches: batches.fuse().boxed(), max_bytes, first: None };
    futures::stream::try_unfold(gathered, CoalesceBatchesState::next).boxed()
}

impl CoalesceBatchesState<'_> {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        let mut some: Vec<RecordBatch> = self.first.take().into_iter().collect();
        let mut bytes: u64 = some.iter().map(|batch| bytes_of(batch.columns())).sum();
        while some.last().is_none_or(can_be_gathered) {
            let Some(batch) = self.batches.try_next().await? else { break };
            bytes += bytes_of(batch.columns());
            let fits = |other: &RecordBatch| {
                bytes <= self.max_bytes && can_be_gathered(&batch) && other.schema_ref() == batch.schema_ref()
            };
            if !some.first().is_none_or(fits) {
                self.first = Some(batch);
                break;
            }
            some.push(batch);
        }

        let Some(schema) = some.first().map(RecordBatch::schema) else { return Ok(None) };
        let batch = concat_batches(&schema, &some).map_err(|error| arrow_error("edges", error))?;
        Ok(Some((batch, self)))
    }
}

/// Returns true if the size of a batch is that of its columns and batches can be concatenated: merged dictionaries may
/// have more values than their keys can number, and views and nested columns may hold data that is not counted.
fn can_be_gathered(batch: &RecordBatch) -> bool {
    batch.schema_ref().fields().iter().all(|field| {
        let data_type = field.data_type();
        let is_text = matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
        );
        is_text || data_type.is_primitive() || *data_type == DataType::Boolean
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, DictionaryArray, Int64Array, StringArray, types::Int8Type};

    use super::*;
    use crate::Error;

    fn numbers(from: i64, to: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
        RecordBatch::try_from_iter([("src", numbers)]).unwrap()
    }

    async fn rows(batches: Vec<Result<RecordBatch>>, memory: u64) -> Result<Vec<RecordBatch>> {
        // Panics if polled after its end.
        let batches = futures::stream::unfold(batches.into_iter(), |mut batches| async move {
            batches.next().map(|batch| (batch, batches))
        });
        coalesce_batches(batches.boxed(), ByteSize::bytes(memory)).try_collect().await
    }

    #[tokio::test]
    async fn small_batches_become_large_ones_of_the_same_rows() {
        let whole = numbers(0, 1000);
        let small = || (0..100).map(|at| Ok(whole.slice(at * 10, 10))).collect();
        assert_eq!(rows(small(), 1 << 20).await.unwrap(), std::slice::from_ref(&whole));
        // Each of 80 bytes, and a little more for the bookkeeping.
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
        let keyed = |from: i32| -> Result<RecordBatch> {
            let values: Vec<String> = (from..from + 100).map(|value| value.to_string()).collect();
            let keys: DictionaryArray<Int8Type> = values.iter().map(String::as_str).collect();
            Ok(RecordBatch::try_from_iter([("src", Arc::new(keys) as ArrayRef)]).unwrap())
        };

        assert_eq!(rows(vec![keyed(0), keyed(100)], 1 << 20).await.unwrap().len(), 2);
        let failing = Err(Error::Fenced { object: "x".to_owned(), epoch: 1, by: 2 });
        assert!(matches!(rows(vec![Ok(numbers(0, 2)), failing], 1 << 20).await, Err(Error::Fenced { .. })));
    }
}
