//! Comma-separated values according to RFC 4180, or with another delimiter. A null is an empty field and an empty
//! string is `""`, so that the two can be distinguished; lists, maps and structs are JSON.

use std::{
    fmt,
    io::{self, Write},
    str,
};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::take,
    datatypes::{DataType, FieldRef, SchemaRef},
    error::ArrowError,
    json::{
        EncoderOptions,
        writer::{NullableEncoder, make_encoder},
    },
    util::display::{ArrayFormatter, FormatOptions},
};

use crate::{Error, Result};

const DISPLAY: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

/// Encoder of a header and rows.
pub struct CsvEncoder<W> {
    out: W,
    delimiter: u8,
    /// Options of the JSON of nested values.
    json: EncoderOptions,
    /// Text of one batch.
    text: String,
}

impl<W: Write> CsvEncoder<W> {
    /// Creates an encoder and writes a header with the names of the columns.
    pub fn new(out: W, schema: &SchemaRef) -> Result<Self> {
        Self::with_delimiter(out, schema, b',')
    }

    /// Creates an encoder of fields separated by `delimiter`, and writes a header. The delimiter is a tab or an ASCII
    /// punctuation mark that occurs in no number, date or time, and is not a quote.
    pub fn with_delimiter(mut out: W, schema: &SchemaRef, delimiter: u8) -> Result<Self> {
        let is_punctuation = delimiter.is_ascii_punctuation() && !b"\"+-.:".contains(&delimiter);
        if delimiter != b'\t' && !is_punctuation {
            let reason = format!("{:?} cannot separate the fields of a CSV file", char::from(delimiter));
            return Err(Error::Option { column: None, reason });
        }

        let mut text = String::new();
        for (index, field) in schema.fields().iter().enumerate() {
            if index > 0 {
                text.push(char::from(delimiter));
            }
            push_quoted(&mut text, field.name(), delimiter);
        }

        text.push('\n');
        out.write_all(text.as_bytes()).map_err(unwritten)?;
        Ok(Self { text, ..Self::without_header(out, delimiter) })
    }

    /// Creates an encoder without a header.
    pub fn without_header(out: W, delimiter: u8) -> Self {
        let json = EncoderOptions::default().with_explicit_nulls(true);
        Self { out, delimiter, json, text: String::new() }
    }

    /// Writes the rows of a batch, and flushes.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema();
        let plain: Vec<_> = batch.columns().iter().map(without_long_dictionary).collect::<Result<_>>()?;
        let columns = schema.fields().iter().zip(&plain);
        let columns = columns.map(|(field, array)| {
            let column = CsvEncoderColumn::new(field, array, self.delimiter, &self.json);
            Ok((field.name(), column.map_err(Error::arrow(format!("column {}", field.name())))?))
        });
        let mut columns: Vec<_> = columns.collect::<Result<_>>()?;
        self.text.clear();

        for row in 0..batch.num_rows() {
            for (index, (name, column)) in columns.iter_mut().enumerate() {
                if index > 0 {
                    self.text.push(char::from(self.delimiter));
                }
                if let Err(error) = column.push(row, self.delimiter, &mut self.text) {
                    return Err(Error::arrow(format!("column {name}"))(error));
                }
            }

            self.text.push('\n');
        }

        self.out.write_all(self.text.as_bytes()).map_err(unwritten)?;
        self.out.flush().map_err(unwritten)
    }

    /// Flushes the writer.
    pub fn finish(&mut self) -> Result<()> {
        self.out.flush().map_err(unwritten)
    }

    /// Returns the underlying writer.
    pub(crate) fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Ends the encoder and returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.out
    }
}

impl<W> fmt::Debug for CsvEncoder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvEncoder").finish_non_exhaustive()
    }
}

fn unwritten(error: io::Error) -> Error {
    Error::arrow("writing CSV")(error.into())
}

/// A column of a batch, to be written row by row.
enum CsvEncoderColumn<'a> {
    /// Encoded fields, and each row's index among them.
    Dictionary { fields: Vec<String>, array: &'a dyn Array, keys: Vec<usize> },
    /// Text that may need quotes.
    Text { values: ArrayFormatter<'a>, array: &'a dyn Array, scratch: String },
    /// Values whose text never needs quotes; that of a null is empty.
    Bare(ArrayFormatter<'a>),
    /// Lists, maps and structs.
    Nested { values: NullableEncoder<'a>, scratch: Vec<u8> },
}

impl<'a> CsvEncoderColumn<'a> {
    fn new(
        field: &'a FieldRef,
        array: &'a ArrayRef,
        delimiter: u8,
        json: &'a EncoderOptions,
    ) -> Result<Self, ArrowError> {
        let values = || ArrayFormatter::try_new(array.as_ref(), &DISPLAY);
        Ok(match array.data_type() {
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let fields = fields(dictionary.values(), delimiter)?;
                let keys =
                    if fields.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
                Self::Dictionary { fields, array, keys }
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Text { values: values()?, array, scratch: String::new() }
            }
            nested if nested.is_nested() => {
                Self::Nested { values: make_encoder(field, array, json)?, scratch: Vec::new() }
            }
            _ => Self::Bare(values()?),
        })
    }

    fn push(&mut self, row: usize, delimiter: u8, text: &mut String) -> Result<(), ArrowError> {
        match self {
            Self::Dictionary { array, .. } | Self::Text { array, .. } if array.is_null(row) => {}
            Self::Dictionary { fields, keys, .. } => {
                let field = keys.get(row).and_then(|key| fields.get(*key));
                text.push_str(field.map_or("", String::as_str));
            }
            Self::Text { values, scratch, .. } => {
                scratch.clear();
                values.value(row).write(scratch)?;
                push_quoted(text, scratch, delimiter);
            }
            Self::Bare(values) => values.value(row).write(text)?,
            Self::Nested { values, .. } if values.is_null(row) => {}
            Self::Nested { values, scratch } => {
                scratch.clear();
                values.encode(row, scratch);
                push_quoted(text, str::from_utf8(scratch)?, delimiter);
            }
        }
        Ok(())
    }
}

/// Encodes each value of a dictionary as a field.
fn fields(values: &ArrayRef, delimiter: u8) -> Result<Vec<String>, ArrowError> {
    let is_text = matches!(values.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let formatter = ArrayFormatter::try_new(values.as_ref(), &DISPLAY)?;
    let field = |index| {
        let mut value = String::new();
        let mut field = String::new();
        formatter.value(index).write(&mut value)?;
        if is_text && values.is_valid(index) {
            push_quoted(&mut field, &value, delimiter);
        } else {
            field = value;
        }

        Ok(field)
    };

    (0..values.len()).map(field).collect()
}

/// Expands a dictionary that has more values than rows.
fn without_long_dictionary(array: &ArrayRef) -> Result<ArrayRef> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) if dictionary.values().len() > array.len() => {
            take(dictionary.values(), dictionary.keys(), None).map_err(Error::arrow("writing CSV"))
        }
        _ => Ok(array.clone()),
    }
}

/// Appends a string as a field, quoted if it would otherwise be misread.
fn push_quoted(out: &mut String, field: &str, delimiter: u8) {
    let needs_quotes = |byte: u8| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
    // Readers drop an unquoted byte order mark at the start of a file.
    let begins_with_mark = field.starts_with('\u{feff}');
    if !field.is_empty() && !begins_with_mark && !field.bytes().any(needs_quotes) {
        out.push_str(field);
        return;
    }

    out.push('"');
    for (index, part) in field.split('"').enumerate() {
        if index > 0 {
            out.push_str("\"\"");
        }
        out.push_str(part);
    }

    out.push('"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{DictionaryArray, Int64Array, ListArray, StringArray},
        datatypes::{Int8Type, Int32Type, Schema},
    };

    use super::*;

    fn csv(columns: Vec<(&str, ArrayRef)>) -> String {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut text = Vec::new();
        let mut encoder = CsvEncoder::new(&mut text, &batch.schema()).unwrap();
        encoder.write(&batch).unwrap();
        encoder.finish().unwrap();
        drop(encoder);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_null_is_empty_an_empty_string_is_quoted_and_quotes_are_doubled() {
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("x, \"y\"\n")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-3), Some(4)]));
        let written = csv(vec![("text", text), ("a,b", numbers)]);
        assert_eq!(written, "text,\"a,b\"\na,1\n,\n\"\",-3\n\"x, \"\"y\"\"\n\",4\n");
    }

    #[test]
    fn a_delimiter_that_values_may_contain_unquoted_is_an_error() {
        let schema = Arc::new(Schema::empty());
        for delimiter in [b',', b'\t', b'|', b';'] {
            assert!(CsvEncoder::with_delimiter(Vec::new(), &schema, delimiter).is_ok());
        }
        for delimiter in [b'-', b':', b'.', b'+', b'"', b'\n', b'0', b'a', b' ', 0xe9] {
            let error = CsvEncoder::with_delimiter(Vec::new(), &schema, delimiter).unwrap_err();
            assert!(error.to_string().contains("cannot separate the fields"), "{error}");
        }
    }

    #[test]
    fn a_leading_byte_order_mark_is_quoted() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["\u{feff}a"]));
        assert_eq!(csv(vec![("\u{feff}x", text)]), "\"\u{feff}x\"\n\"\u{feff}a\"\n");
    }

    #[test]
    fn a_dictionary_is_written_as_its_values_however_long_it_is() {
        let short: DictionaryArray<Int8Type> =
            vec![Some("a,b"), None, Some(""), Some("a,b")].into_iter().collect();
        let long = short.slice(3, 1);
        assert_eq!(csv(vec![("x", Arc::new(short))]), "x\n\"a,b\"\n\n\"\"\n\"a,b\"\n");
        assert_eq!(csv(vec![("x", Arc::new(long))]), "x\n\"a,b\"\n");
        let nulls: DictionaryArray<Int8Type> = vec![None::<&str>; 2].into_iter().collect();
        assert_eq!(csv(vec![("x", Arc::new(nulls))]), "x\n\n\n");
    }

    #[test]
    fn nested_values_are_json() {
        let lists = vec![Some(vec![Some(1), None]), None, Some(vec![])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        assert_eq!(csv(vec![("x", lists)]), "x\n\"[1,null]\"\n\n[]\n");
    }
}
