//! The projection of a source: selects, renames and casts its columns.

use std::sync::Arc;

use anyhow::Result;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, Scalar, StringArray},
    compute::{CastOptions, cast, cast_with_options, kernels::cmp::eq, nullif},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit},
    error::ArrowError,
};
use stylobate_columnar::Error as ColumnarError;
use stylobate_graph::PropertyType;

use super::plan::ImportColumnPlan;

/// Projection that selects, renames and casts columns.
#[derive(Clone, Debug)]
pub(super) struct ImportProjection {
    /// Indexes of the input columns.
    positions: Vec<usize>,
    schema: SchemaRef,
}

impl ImportProjection {
    /// Creates the projection of a plan; without a plan, that of all columns.
    pub(super) fn new(input: &SchemaRef, plan: Option<&[ImportColumnPlan]>) -> Result<Self> {
        let Some(plan) = plan else {
            return Ok(Self { positions: (0..input.fields().len()).collect(), schema: input.clone() });
        };
        let mut positions: Vec<usize> = Vec::new();
        let mut fields: Vec<FieldRef> = Vec::new();
        for column in plan {
            let (position, field) = input.column_with_name(&column.column).ok_or_else(|| {
                let names: Vec<_> = input.fields().iter().map(|field| field.name().as_str()).collect();
                ColumnarError::NoSuchColumn { column: column.column.clone(), available: names.join(", ") }
            })?;
            let from = field.data_type();
            let to = column.property_type.as_ref().map_or_else(|| from.clone(), |to| target(from, to));
            positions.push(position);
            fields.push(Arc::new(Field::new(&column.name, to, column.is_nullable)));
        }

        Ok(Self { positions, schema: Arc::new(Schema::new(fields)) })
    }

    /// Returns the output schema.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Projects a batch. The error names the column that cannot be converted.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let taken = self.positions.iter().zip(self.schema.fields()).map(|(position, field)| {
            let wrong = |reason: String| format!("column {}: {reason}", field.name());
            let array = batch.columns().get(*position).ok_or_else(|| wrong("it is missing".to_owned()))?;
            let array = converted(array, field.data_type()).map_err(|error| wrong(error.to_string()))?;
            match array.null_count() {
                nulls if nulls > 0 && !field.is_nullable() => Err(wrong("a value is missing".to_owned())),
                _ => Ok(array),
            }
        });

        let columns = taken.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);

        batch.map_err(|error| error.to_string())
    }
}

/// Returns the Arrow type to which a column is cast for a property type. Timestamps keep a precision that the graph
/// cannot store, so that the loss of precision becomes an error instead of going unnoticed.
pub(super) fn target(from: &DataType, to: &PropertyType) -> DataType {
    match (from, to) {
        (DataType::Timestamp(..), PropertyType::Timestamp) => from.clone(),
        (_, PropertyType::Timestamp) => DataType::Timestamp(TimeUnit::Microsecond, None),
        (_, to) => to.arrow(),
    }
}

/// Casts the values. Empty strings become null, unless the target is a string.
fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let from = array.data_type();
    if from == to {
        return Ok(array.clone());
    }

    let is_text = matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    if !is_text || matches!(to, DataType::Utf8) {
        return cast_with_options(array, to, &exact);
    }

    let texts = cast(array, &DataType::Utf8)?;
    let empty = eq(texts.as_string::<i32>(), &Scalar::new(StringArray::from(vec![""])))?;

    cast_with_options(&nullif(&texts, &empty)?, to, &exact)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Date32Array, Int64Array},
        datatypes::{Date32Type, Int64Type},
    };

    use super::*;

    fn column(column: &str, name: &str, property_type: PropertyType, is_nullable: bool) -> ImportColumnPlan {
        let column = column.to_owned();
        let name = name.to_owned();
        ImportColumnPlan { column, name, property_type: Some(property_type), is_nullable }
    }

    #[test]
    fn columns_are_chosen_renamed_and_read_as_their_types() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("7"), Some(""), None]));
        let days: ArrayRef = Arc::new(StringArray::from(vec!["2020-01-02", "1969-12-31", ""]));
        let batch = RecordBatch::try_from_iter([("a", texts), ("b", days)]).unwrap();
        let plan =
            [column("b", "day", PropertyType::Date, true), column("a", "id", PropertyType::Int64, true)];
        let shaped = ImportProjection::new(&batch.schema(), Some(&plan)).unwrap().apply(&batch).unwrap();
        let days = Date32Array::from(vec![Some(18_263), Some(-1), None]);
        assert_eq!(shaped.column_by_name("day").unwrap().as_primitive::<Date32Type>(), &days);
        let ids = Int64Array::from(vec![Some(7), None, None]);
        assert_eq!(shaped.column_by_name("id").unwrap().as_primitive::<Int64Type>(), &ids);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
        let batch = RecordBatch::try_from_iter_with_nullable([("a", texts, true)]).unwrap();
        let apply = |plan: ImportColumnPlan| {
            ImportProjection::new(&batch.schema(), Some(&[plan])).unwrap().apply(&batch)
        };
        let error = apply(column("a", "id", PropertyType::Int64, true)).unwrap_err();
        assert!(error.starts_with("column id: ") && error.contains('x'), "{error}");
        let error = apply(column("a", "id", PropertyType::String, false)).unwrap_err();
        assert_eq!(error, "column id: a value is missing");
        let none =
            ImportProjection::new(&batch.schema(), Some(&[column("b", "b", PropertyType::Int64, true)]))
                .unwrap_err();
        assert!(none.to_string().contains("no column b"), "{none}");
    }
}
