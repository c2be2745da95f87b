//! Checks batches against the schema of a file that is being written.

use arrow::{
    array::{Array, RecordBatch},
    datatypes::{DataType, Schema},
};

use crate::file::schema::{is_text, value_type};

/// Checks a batch. The error is the column, if one is at fault, and the reason.
pub(crate) fn check(batch: &RecordBatch, schema: &Schema) -> Result<(), (Option<String>, String)> {
    let given = batch.schema_ref().fields();
    let wanted = schema.fields();
    if given.len() != wanted.len() {
        let reason = format!("a batch of {} columns where {} were promised", given.len(), wanted.len());
        return Err((None, reason));
    }

    for ((given, wanted), column) in given.iter().zip(wanted).zip(batch.columns()) {
        let wrong = |reason: String| Err((Some(wanted.name().clone()), reason));
        // Scans pass dictionaries of strings to writers as strings.
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

/// Returns whether an array is a dictionary of the strings or bytes that the schema states.
pub(crate) fn is_coded_as(given: &DataType, wanted: &DataType) -> bool {
    is_text(wanted) && value_type(given) == wanted
}
