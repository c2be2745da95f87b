//! Types and names of results, converted to those that all clients support.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, StringArray},
    datatypes::{Field, FieldRef, Schema, SchemaRef},
    error::ArrowError,
};
use stylobate_datafusion::plain_type;

/// Returns the schema of a result as it is sent. String and binary views are replaced, since few drivers support
/// them, and every column is nullable, since the nullability of a plan may change with the files.
pub(super) fn sent_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let sent = Field::new(field.name(), plain_type(field.data_type()), true);
        Arc::new(sent.with_metadata(field.metadata().clone()))
    });
    Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()))
}

/// Applies a function to the values in the string columns of a batch.
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
        array::{Int32Array, StringViewArray},
        datatypes::DataType,
    };
    use stylobate_datafusion::plain_batch;

    use super::*;

    #[test]
    fn columns_are_sent_without_views_and_may_have_nulls() {
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int32Array::from(vec![1, 2]))),
            ("text", Arc::new(StringViewArray::from(vec![Some("x"), None]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();

        let schema = sent_schema(&batch.schema());
        assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
        assert!(schema.fields().iter().all(|field| field.is_nullable()));
        let sent = plain_batch(&batch, &schema).unwrap();
        assert_eq!(sent.column(1).as_string::<i32>(), &StringArray::from(vec![Some("x"), None]));
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
