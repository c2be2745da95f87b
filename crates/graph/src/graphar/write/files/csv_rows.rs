//! Encodes rows of a CSV file, in which null is an empty field and no line is empty.

use arrow::{
    array::{Array, RecordBatch},
    datatypes::DataType,
};
use stylobate_columnar::CsvEncoder;

use crate::{Result, graphar::write::names::unwritable};

/// Encodes rows. `name` is the file's name in errors.
pub(super) fn encode(rows: &RecordBatch, name: String) -> Result<Vec<u8>> {
    let mut encoder = CsvEncoder::without_header(Vec::new(), b',');
    encoder.write(rows)?;
    let text = encoder.into_inner();
    match rows.columns() {
        [column] if column.null_count() > 0 => without_empty_lines(&text, column.data_type(), name),
        _ => Ok(text),
    }
}

/// Quotes or rejects empty lines, which nulls produce in a file with one column: readers skip them, which would shift
/// the following rows.
fn without_empty_lines(text: &[u8], data_type: &DataType, name: String) -> Result<Vec<u8>> {
    if *data_type == DataType::Utf8 {
        let reason = "a null in the only column of CSV files would be an empty line, and an empty text is one of its \
                      values: put another property into its group, or take another format";
        return Err(unwritable(name, reason));
    }
    let mut whole = Vec::with_capacity(text.len());

    // Numbers, dates and the like have no line breaks.
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        whole.extend_from_slice(if line == b"\n" { b"\"\"\n" } else { line });
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn text(columns: Vec<(&str, ArrayRef)>) -> Result<String> {
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        Ok(String::from_utf8(encode(&rows, "x".to_owned())?).unwrap())
    }

    #[test]
    fn no_line_is_empty() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        assert_eq!(text(vec![("n", numbers.clone())]).unwrap(), "1\n\"\"\n3\n");
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("")]));
        assert_eq!(text(vec![("n", numbers), ("t", texts.clone())]).unwrap(), "1,a\n,\n3,\"\"\n");
        assert!(text(vec![("t", texts.clone())]).is_err());
        assert_eq!(text(vec![("t", texts.slice(2, 1))]).unwrap(), "\"\"\n");
    }
}
