//! Scans whose row groups are assigned to partitions by the hash of a partition folder's value, as DataFusion's exchange
//! would assign their rows: operators above need no exchange.

use std::sync::Arc;

#[cfg(feature = "distributed")]
use std::collections::HashSet;

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

use super::source::ScanSource;
use crate::error::external;

impl ScanSource {
    /// Returns the same scan with its row groups assigned to partitions by the value of an output column, by position;
    /// `None` if the column has no value per file, or fewer than `min_values` distinct ones.
    #[cfg(feature = "distributed")]
    pub(crate) fn hashed_by(&self, position: usize, min_values: usize) -> Result<Option<Self>> {
        let Some(values) = self.scan.path_values(position).map_err(external)? else { return Ok(None) };

        let mut distinct = HashSet::new();
        for row_group in 0..values.len() {
            distinct.insert(ScalarValue::try_from_array(&values, row_group)?);
        }
        let hashed = self.columns.get(position).filter(|_| distinct.len() >= min_values.max(2));
        Ok(hashed.map(|column| Self { hashed: Some(*column), ..self.clone() }))
    }

    /// Returns the output position of the column whose hash determines the partition of a row group; `None` if partitions
    /// share the row groups.
    pub(crate) fn hashed_position(&self) -> Option<usize> {
        self.columns.iter().position(|column| self.hashed == Some(*column))
    }

    /// Returns the partition of each row group, of `partitions` partitions; `None` if partitions share the row groups.
    pub(crate) fn hash_partitions(&self, partitions: usize) -> Result<Option<Vec<usize>>> {
        let Some(position) = self.hashed_position() else { return Ok(None) };
        if self.scan.units() == 0 {
            return Ok(Some(Vec::new()));
        }

        let name = || self.schema.field(position).name().clone();
        let unknown = || internal_datafusion_err!("the paths of files do not determine {}", name());
        let values = self.scan.path_values(position).map_err(external)?.ok_or_else(unknown)?;
        hash_partitions(values, partitions).map(Some)
    }
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

/// Returns the partition of each value, to which DataFusion's exchange would send a row with this value.
fn hash_partitions(values: ArrayRef, partitions: usize) -> Result<Vec<usize>> {
    let mut found = vec![0; values.len()];
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
            if let Some(found) = found.get_mut(*position as usize) {
                *found = partition;
            }
        }
        Ok(())
    })?;
    Ok(found)
}
