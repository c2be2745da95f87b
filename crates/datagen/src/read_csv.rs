//! Reads CSV back as it was written: an empty field is null, and an empty field in quotes an empty string. Readers that
//! do not tell the two apart cannot say whether a file is right.

use std::{io::Read, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, StringBuilder},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Schema, SchemaRef},
};

use crate::chunk::BATCH_ROWS;

/// Bytes that are read at a time.
const READ_AT_ONCE: usize = 1 << 20;

/// Hands batches of the columns of `schema` to `each`; dictionaries and views come as plain strings.
pub(crate) fn read_csv(
    input: &mut dyn Read,
    schema: &SchemaRef,
    mut each: impl FnMut(&RecordBatch) -> Result<(), String>,
) -> Result<(), String> {
    let mut rows = Rows::new(schema);
    let mut fields = Fields::default();
    let mut buffer = vec![0; READ_AT_ONCE];
    let mut has_header = false;
    loop {
        let read = input.read(&mut buffer).map_err(|error| error.to_string())?;
        let bytes = buffer.get(..read).unwrap_or_default();
        let bytes = if read == 0 { fields.rest() } else { bytes };
        for byte in bytes {
            if !fields.push(*byte)? {
                continue;
            }
            let record = fields.take();
            if has_header {
                rows.push(&record)?;
            } else {
                rows.check_header(&record)?;
                has_header = true;
            }
            if rows.count == BATCH_ROWS {
                each(&rows.take()?)?;
            }
        }
        if read == 0 {
            break;
        }
    }
    if !has_header {
        return Err("no header".to_owned());
    }
    each(&rows.take()?)
}

/// The fields of one record, as their bytes come in.
#[derive(Default)]
struct Fields {
    done: Vec<Option<Vec<u8>>>,
    field: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Bare,
    Quoted,
    /// After a quote within quotes: the end of the field, or the first of two.
    Quote,
}

impl Fields {
    /// Takes a byte; whether the record ends with it.
    fn push(&mut self, byte: u8) -> Result<bool, String> {
        self.state = match (self.state, byte) {
            (State::Quoted, b'"') => State::Quote,
            (State::Quoted, _) => {
                self.field.push(byte);
                State::Quoted
            }
            (State::Quote, b'"') => {
                self.field.push(byte);
                State::Quoted
            }
            (State::Start, b'"') => State::Quoted,
            (_, b',' | b'\n') => {
                let field = std::mem::take(&mut self.field);
                self.done.push((self.state != State::Start).then_some(field));
                State::Start
            }
            (State::Start | State::Bare, _) => {
                self.field.push(byte);
                State::Bare
            }
            (State::Quote, _) => return Err("bytes after a closing quote".to_owned()),
        };
        Ok(byte == b'\n' && self.state == State::Start)
    }

    /// What the last record lacks to be ended.
    fn rest(&self) -> &'static [u8] {
        if self.state == State::Start && self.done.is_empty() { b"" } else { b"\n" }
    }

    fn take(&mut self) -> Vec<Option<Vec<u8>>> {
        std::mem::take(&mut self.done)
    }
}

/// Records on their way into a batch.
struct Rows {
    schema: SchemaRef,
    columns: Vec<StringBuilder>,
    count: usize,
}

impl Rows {
    fn new(schema: &SchemaRef) -> Self {
        let plain = |data_type: &DataType| match data_type {
            DataType::Dictionary(..) | DataType::Utf8View => DataType::Utf8,
            other => other.clone(),
        };
        let fields = schema.fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_data_type(plain(field.data_type())));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = schema.fields().iter().map(|_| StringBuilder::new()).collect();
        Self { schema, columns, count: 0 }
    }

    fn check_header(&self, record: &[Option<Vec<u8>>]) -> Result<(), String> {
        let names = self.schema.fields().iter().map(|field| Some(field.name().as_bytes()));
        match names.eq(record.iter().map(Option::as_deref)) {
            true => Ok(()),
            false => Err("its header names other columns".to_owned()),
        }
    }

    fn push(&mut self, record: &[Option<Vec<u8>>]) -> Result<(), String> {
        if record.len() != self.columns.len() {
            return Err(format!("a row of {} fields, not {}", record.len(), self.columns.len()));
        }
        for (column, field) in self.columns.iter_mut().zip(record) {
            let text = field.as_deref().map(std::str::from_utf8).transpose();
            column.append_option(text.map_err(|_| "text that is not UTF-8".to_owned())?);
        }
        self.count += 1;
        Ok(())
    }

    fn take(&mut self) -> Result<RecordBatch, String> {
        self.count = 0;
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let columns = self.columns.iter_mut().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| {
            let text: ArrayRef = Arc::new(column.finish());
            cast_with_options(&text, field.data_type(), &options)
                .map_err(|error| format!("column {}: {error}", field.name()))
        });
        let columns = columns.collect::<Result<_, _>>()?;
        RecordBatch::try_new(self.schema.clone(), columns).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Date32Array, Decimal128Array, Int64Array, StringArray, Time32SecondArray},
        compute::concat_batches,
        datatypes::Field,
    };
    use stylobate_columnar::CsvEncoder;

    use super::*;

    fn read(text: &[u8], schema: &SchemaRef) -> Result<RecordBatch, String> {
        let mut batches = Vec::new();
        read_csv(&mut &text[..], schema, |batch| {
            batches.push(batch.clone());
            Ok(())
        })?;
        Ok(concat_batches(schema, &batches).unwrap())
    }

    #[test]
    fn what_was_written_is_read() {
        let prices = Decimal128Array::from(vec![Some(1_234), None, Some(-5), Some(0)]);
        let columns: [(&str, ArrayRef); 5] = [
            ("number", Arc::new(Int64Array::from(vec![Some(1), None, Some(-3), Some(4)]))),
            ("price", Arc::new(prices.with_precision_and_scale(7, 2).unwrap())),
            ("day", Arc::new(Date32Array::from(vec![Some(9_000), None, Some(-1), Some(0)]))),
            ("time", Arc::new(Time32SecondArray::from(vec![Some(1), None, Some(86_399), Some(0)]))),
            ("a,b", Arc::new(StringArray::from(vec![Some(""), None, Some("x, \"y\"\n"), Some("é")]))),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
        let batch = batch.unwrap();
        let mut encoder = CsvEncoder::new(Vec::new(), &batch.schema()).unwrap();
        encoder.write(&batch).unwrap();
        assert_eq!(read(&encoder.into_inner(), &batch.schema()).unwrap(), batch);
    }

    #[test]
    fn what_is_not_such_a_file_is_an_error() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
        ]));
        assert_eq!(read(b"a,b\n1,x\n2,", &schema).unwrap().num_rows(), 2);
        for text in ["", "a\n", "a,c\n", "a,b\n1\n", "a,b\nx,y\n", "a,b\n1,\"y\"z\n"] {
            assert!(read(text.as_bytes(), &schema).is_err(), "{text:?}");
        }
        assert!(read(b"a,b\n1,\xFF\n", &schema).is_err());
    }
}
