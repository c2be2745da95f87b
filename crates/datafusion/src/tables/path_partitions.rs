//! Assigns row groups to partitions by the hash of a partition folder's value, as DataFusion's exchange would assign
//! their rows: operators above a scan need no exchange.

#[cfg(feature = "distributed")]
use std::collections::HashSet;
use std::sync::Arc;

#[cfg(feature = "distributed")]
use datafusion::common::ScalarValue;
use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, RecordBatch, UInt64Array},
        datatypes::{DataType, Field, Schema, UInt64Type},
    },
    common::{Result, internal_datafusion_err},
    physical_expr::expressions::Column,
    physical_plan::{Partitioning, metrics::Time, repartition::BatchPartitioner},
};

/// Returns whether a column has at least this number of distinct values.
#[cfg(feature = "distributed")]
pub(crate) fn has_distinct(values: &ArrayRef, min: usize) -> Result<bool> {
    let mut distinct = HashSet::new();
    for row in 0..values.len() {
        distinct.insert(ScalarValue::try_from_array(values, row)?);
    }
    Ok(distinct.len() >= min)
}

/// Returns the partitioning of rows by the hash of a column, by position; unknown if the column is not returned.
pub(crate) fn hash_partitioning(schema: &Schema, column: Option<usize>, partitions: usize) -> Partitioning {
    match column.and_then(|column| Some((column, schema.fields().get(column)?))) {
        Some((column, field)) => {
            Partitioning::Hash(vec![Arc::new(Column::new(field.name(), column))], partitions)
        }
        None => Partitioning::UnknownPartitioning(partitions),
    }
}

/// Returns the partition to which DataFusion's exchange would send a row with each value.
pub(crate) fn hash_partitions(values: ArrayRef, partitions: usize) -> Result<Vec<usize>> {
    let mut assigned: Vec<Option<usize>> = vec![None; values.len()];
    let positions = UInt64Array::from_iter_values(0..values.len() as u64);
    let schema = Schema::new(vec![
        Field::new("value", values.data_type().clone(), true),
        Field::new("position", DataType::UInt64, false),
    ]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![values, Arc::new(positions)])?;

    let value = Arc::new(Column::new("value", 0));
    let mut partitioner = BatchPartitioner::new_hash_partitioner(vec![value], partitions, Time::new())?;
    partitioner.partition(batch, |partition, rows| {
        for position in rows.column(1).as_primitive::<UInt64Type>().values() {
            if let Some(assigned) = assigned.get_mut(*position as usize) {
                *assigned = Some(partition);
            }
        }
        Ok(())
    })?;

    let unassigned = || internal_datafusion_err!("a value was assigned to no partition");
    assigned.into_iter().map(|partition| partition.ok_or_else(unassigned)).collect()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Date32Array, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn partitions_of_all_nodes_agree_with_those_of_one() {
        let words = ["", "short", "a value that is longer than a view holds inline", "short"];
        let columns: [ArrayRef; 3] = [
            Arc::new((0..50).map(|at| words.get(at % 5)).collect::<StringViewArray>()),
            Arc::new((0..50).map(|at| (at % 7 != 0).then_some(at * 31)).collect::<Int64Array>()),
            Arc::new((0..50).map(Some).collect::<Date32Array>()),
        ];
        for values in columns {
            let of_one = hash_partitions(values.clone(), 4).unwrap();
            let of_all = hash_partitions(values, 3 * 4).unwrap();
            let local: Vec<usize> = of_all.iter().map(|partition| partition % 4).collect();
            assert_eq!(local, of_one);
            assert!(of_all.iter().any(|partition| *partition >= 4));
        }
    }
}
