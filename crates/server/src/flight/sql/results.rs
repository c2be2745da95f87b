//! Types and names of results, so that all clients know them.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    error::ArrowError,
};

/// Returns the columns of a result as they are sent. Strings and bytes are no views, which few drivers read, and each
/// column may have nulls: what a plan promises of them may change with the files.
pub(super) fn sent_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let sent = Field::new(field.name(), sent_type(field.data_type()), true);
        Arc::new(sent.with_metadata(field.metadata().clone()))
    });
    Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()))
}

/// Replaces views, also within other types.
pub(super) fn sent_type(data_type: &DataType) -> DataType {
    let sent_field = |field: &FieldRef| -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(sent_type(field.data_type())))
    };
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(sent_field(item)),
        DataType::LargeList(item) => DataType::LargeList(sent_field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(sent_field(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(sent_field).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(sent_field(entries), *is_sorted),
        DataType::Dictionary(keys, values) => DataType::Dictionary(keys.clone(), sent_type(values).into()),
        other => other.clone(),
    }
}

/// Converts a batch to the types of `schema`.
pub(super) fn sent_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(column.clone());
        }
        cast(column, field.data_type())
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

/// Replaces text in the string columns of a batch.
pub(super) fn with_text(
    batch: &RecordBatch,
    replaced: impl Fn(&str) -> String,
) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        let Some(texts) = column.as_string_opt::<i32>() else { return column.clone() };
        Arc::new(texts.iter().map(|text| text.map(&replaced)).collect::<StringArray>())
    });
    RecordBatch::try_new(batch.schema(), columns.collect())
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int32Array, ListBuilder, StringViewArray, StringViewBuilder},
        datatypes::Fields,
    };

    use super::*;

    #[test]
    fn views_are_sent_as_plain_strings_at_any_depth() {
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        lists.append_value([Some("a text that is longer than a view itself"), None]);
        lists.append_null();
        let columns: [(&str, ArrayRef); 3] = [
            ("n", Arc::new(Int32Array::from(vec![1, 2]))),
            ("text", Arc::new(StringViewArray::from(vec![Some("x"), None]))),
            ("list", Arc::new(lists.finish())),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();

        let schema = sent_schema(&batch.schema());
        assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
        assert_eq!(schema.field(2).data_type(), &DataType::new_list(DataType::Utf8, true));
        assert!(schema.fields().iter().all(|field| field.is_nullable()));
        let sent = sent_batch(&batch, &schema).unwrap();
        assert_eq!(sent.column(1).as_string::<i32>(), &StringArray::from(vec![Some("x"), None]));
        assert_eq!(sent.column(2).as_list::<i32>().value(0).len(), 2);

        let nested = DataType::Struct(Fields::from(vec![Field::new("a", DataType::BinaryView, false)]));
        let plain = DataType::Struct(Fields::from(vec![Field::new("a", DataType::Binary, false)]));
        assert_eq!(sent_type(&nested), plain);
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let options = RecordBatchOptions::new().with_row_count(Some(7));
        let batch = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &options).unwrap();
        assert_eq!(sent_batch(&batch, &batch.schema()).unwrap().num_rows(), 7);
    }

    #[test]
    fn text_is_replaced() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![Some("files=[s3://far/a]"), None]));
        let batch = RecordBatch::try_from_iter([("plan", column)]).unwrap();
        let replaced = with_text(&batch, |text| text.replace("s3://far/", "lake/")).unwrap();
        let expected = StringArray::from(vec![Some("files=[lake/a]"), None]);
        assert_eq!(replaced.column(0).as_string::<i32>(), &expected);
    }
}
