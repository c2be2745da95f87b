//! Whether a batch is what a file's schema promised.

use arrow::{
    array::{Array, RecordBatch},
    datatypes::{DataType, Schema},
};

use crate::file::schema::{is_text, value_type};

/// Nothing, or the column that is not and what is wrong with it.
pub(crate) fn check(batch: &RecordBatch, schema: &Schema) -> Result<(), (Option<String>, String)> {
    let (given, wanted) = (batch.schema_ref().fields(), schema.fields());
    if given.len() != wanted.len() {
        let reason = format!("a batch of {} columns where {} were promised", given.len(), wanted.len());
        return Err((None, reason));
    }
    for ((given, wanted), column) in given.iter().zip(wanted).zip(batch.columns()) {
        let wrong = |reason: String| Err((Some(wanted.name().clone()), reason));
        // Codes of strings are strings: a scan gives them to writers.
        let is_coded = is_coded_as(given.data_type(), wanted.data_type());
        if given.data_type() != wanted.data_type() && !is_coded {
            return wrong(format!("{} where {} was promised", given.data_type(), wanted.data_type()));
        }
        if !wanted.is_nullable() && column.logical_null_count() > 0 {
            return wrong("a null in a column that has none".to_owned());
        }
    }
    Ok(())
}

/// Whether an array of one type holds codes of strings or bytes where the values themselves were promised.
pub(crate) fn is_coded_as(given: &DataType, wanted: &DataType) -> bool {
    is_text(wanted) && value_type(given) == wanted
}
