//! CSV with another delimiter than a comma: a null is an empty field, an empty string `""`.

use arrow::{
    array::{Array, RecordBatch},
    datatypes::SchemaRef,
    util::display::{ArrayFormatter, FormatOptions},
};

use crate::{Error, Result};

/// Returns the line with the names of the columns.
pub(crate) fn header(schema: &SchemaRef, delimiter: u8) -> Vec<u8> {
    let mut text = String::new();
    for (index, field) in schema.fields().iter().enumerate() {
        if index > 0 {
            text.push(char::from(delimiter));
        }
        push(&mut text, field.name(), delimiter);
    }
    text.push('\n');
    text.into_bytes()
}

/// Returns a line for each row.
pub(crate) fn lines(batches: &[RecordBatch], delimiter: u8) -> Result<Vec<u8>> {
    let options = FormatOptions::new().with_display_error(false);
    let mut text = String::new();
    let mut field = String::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let formats = columns.map(|column| Ok((column, ArrayFormatter::try_new(column, &options)?)));
        let formats: Vec<_> = formats.collect::<Result<_, _>>().map_err(Error::arrow("lines"))?;
        for row in 0..batch.num_rows() {
            for (index, (column, format)) in formats.iter().enumerate() {
                if index > 0 {
                    text.push(char::from(delimiter));
                }
                if column.is_null(row) {
                    continue;
                }
                field.clear();
                format.value(row).write(&mut field).map_err(Error::arrow("lines"))?;
                push(&mut text, &field, delimiter);
            }
            text.push('\n');
        }
    }

    Ok(text.into_bytes())
}

/// Appends a field, in quotes if it would be ambiguous without.
fn push(text: &mut String, field: &str, delimiter: u8) {
    let is_plain = |byte: &u8| *byte != delimiter && !matches!(byte, b'"' | b'\r' | b'\n');
    if !field.is_empty() && field.as_bytes().iter().all(is_plain) {
        text.push_str(field);
        return;
    }
    text.push('"');
    text.push_str(&field.replace('"', "\"\""));
    text.push('"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use stylobate_columnar::CsvReader;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let texts = [Some("a|b"), Some(""), None, Some("say \"x\""), Some("two\nlines"), Some("a,b")];
        let texts: ArrayRef = Arc::new(StringArray::from_iter(texts));
        let numbers: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(1), None, Some(-3), Some(4), None, Some(6)]));
        let batch =
            RecordBatch::try_from_iter_with_nullable([("x|y", texts, true), ("n", numbers, true)]).unwrap();
        let mut written = header(&batch.schema(), b'|');
        written.extend(lines(std::slice::from_ref(&batch), b'|').unwrap());
        let mut reader = CsvReader::with_delimiter(&written[..], b'|', 100).unwrap();
        reader.select(&batch.schema()).unwrap();
        assert_eq!(reader.next_batch().unwrap().unwrap(), batch);
    }
}
