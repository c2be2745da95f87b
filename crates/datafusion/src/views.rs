//! Casts string and binary views to plain arrays, for readers that do not support views.

use std::sync::Arc;

use datafusion::arrow::{
    array::{RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
    error::ArrowError,
};

/// Returns the schema without views, including those in nested columns.
pub fn plain_schema(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new_with_metadata(plain_fields(schema.fields()), schema.metadata().clone()))
}

/// Casts the columns of a batch to the types of [`plain_schema`].
///
/// # Errors
///
/// If a type cannot be cast, or the schema has different columns.
pub fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<_, _>>()?, &rows)
}

fn plain_fields(fields: &Fields) -> Fields {
    fields.iter().map(|field| plain_field(field)).collect()
}

fn plain_field(field: &Field) -> Arc<Field> {
    Arc::new(field.clone().with_data_type(plain_type(field.data_type())))
}

/// Returns the type without views, including those within other types.
pub fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(plain_fields(fields)),
        DataType::Map(entries, is_sorted) => DataType::Map(plain_field(entries), *is_sorted),
        DataType::Dictionary(keys, values) => DataType::Dictionary(keys.clone(), plain_type(values).into()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StructArray};

    use super::*;

    #[test]
    fn views_are_cast_in_nested_columns_too() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a text that is not short"), None]));
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths([2, 0]);
        let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, texts.clone(), None));
        let inner = Arc::new(Field::new("inner", DataType::Utf8View, true));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(inner, texts.clone())]));
        let batch = RecordBatch::try_from_iter([("t", texts), ("l", lists), ("s", structs)]).unwrap();

        let schema = plain_schema(&batch.schema());
        let plain = plain_batch(&batch, &schema).unwrap();
        assert_eq!(plain.schema(), schema);
        assert_eq!(plain.column(0).as_string::<i32>().value(0), "a text that is not short");
        assert!(plain.column(0).is_null(1));
        assert_eq!(plain.column(1).as_list::<i32>().value(0).data_type(), &DataType::Utf8);
        assert_eq!(plain.column(2).as_struct().column(0).data_type(), &DataType::Utf8);
    }

    #[test]
    fn a_batch_without_columns_keeps_its_rows() {
        let rows = RecordBatchOptions::new().with_row_count(Some(7));
        let empty = Arc::new(Schema::empty());
        let batch = RecordBatch::try_new_with_options(empty.clone(), Vec::new(), &rows).unwrap();
        assert_eq!(plain_batch(&batch, &plain_schema(&empty)).unwrap().num_rows(), 7);
    }
}
