//! Reads comma-separated values as [`CsvEncoder`](crate::CsvEncoder) writes them: an empty field is null, and an empty
//! field in quotes an empty string. Readers that do not tell the two apart cannot say what was written.

use std::{io::Read, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, StringBuilder},
    compute::cast_with_options,
    datatypes::{DataType, Schema, SchemaRef},
};

use crate::exact_cast::EXACT;

/// Bytes that are read at a time.
const READ_AT_ONCE: usize = 256 << 10;

/// Reads records in batches. Errors are what is wrong, for callers who know the file.
#[derive(Debug)]
pub struct CsvReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// What of the buffer is not yet looked at.
    unread: std::ops::Range<usize>,
    record: Record,
    header: Vec<String>,
    schema: SchemaRef,
    /// By field of a record, which column it goes to.
    targets: Vec<Option<usize>>,
    columns: Vec<StringBuilder>,
    batch_rows: usize,
    records: u64,
}

impl<R: Read> CsvReader<R> {
    /// Reads the header. Until [`Self::select`], there are no columns.
    pub fn new(input: R, batch_rows: usize) -> Result<Self, String> {
        Self::with_delimiter(input, b',', batch_rows)
    }

    /// The same where another byte stands between fields: neither a quote nor the end of a line.
    pub fn with_delimiter(input: R, delimiter: u8, batch_rows: usize) -> Result<Self, String> {
        if matches!(delimiter, b'"' | b'\n' | b'\r') {
            return Err("a delimiter that is a quote or the end of a line".to_owned());
        }
        let mut reader = Self {
            input,
            buffer: vec![0; READ_AT_ONCE],
            unread: 0..0,
            record: Record { delimiter, bytes: Vec::new(), ends: Vec::new(), state: State::Start },
            header: Vec::new(),
            schema: Arc::new(Schema::empty()),
            targets: Vec::new(),
            columns: Vec::new(),
            batch_rows: batch_rows.max(1),
            records: 0,
        };
        if !reader.next_record()? {
            return Err("no header".to_owned());
        }
        let name = |field: Option<&[u8]>| match std::str::from_utf8(field.unwrap_or_default()) {
            Ok(name) => Ok(name.to_owned()),
            Err(_) => Err("a header that is not UTF-8".to_owned()),
        };
        reader.header = reader.record.fields().map(name).collect::<Result<_, _>>()?;
        reader.targets = vec![None; reader.header.len()];
        Ok(reader)
    }

    /// The names of all columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Reads these columns, as these types; dictionaries and views come as plain strings.
    pub fn select(&mut self, schema: &SchemaRef) -> Result<(), String> {
        let plain = |data_type: &DataType| match data_type {
            DataType::Dictionary(..) | DataType::Utf8View => DataType::Utf8,
            other => other.clone(),
        };
        let fields = schema.fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_data_type(plain(field.data_type())));
        self.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        self.columns = schema.fields().iter().map(|_| StringBuilder::new()).collect();
        self.targets = vec![None; self.header.len()];
        for (column, field) in schema.fields().iter().enumerate() {
            let place = self.header.iter().position(|name| name == field.name());
            let target = place.and_then(|place| self.targets.get_mut(place));
            *target.ok_or_else(|| format!("its header has no column {}", field.name()))? = Some(column);
        }
        Ok(())
    }

    /// The next rows; none after the last.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, String> {
        let mut rows = 0;
        while rows < self.batch_rows && self.next_record()? {
            self.take_record().map_err(|reason| format!("row {}: {reason}", self.records))?;
            self.records += 1;
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.columns.iter_mut().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| {
            let text: ArrayRef = Arc::new(column.finish());
            cast_with_options(&text, field.data_type(), &EXACT)
                .map_err(|error| format!("column {}: {error}", field.name()))
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        batch.map(Some).map_err(|error| error.to_string())
    }

    fn take_record(&mut self) -> Result<(), String> {
        if self.record.len() != self.targets.len() {
            return Err(format!("{} fields, not {}", self.record.len(), self.targets.len()));
        }
        for (field, target) in self.record.fields().zip(&self.targets) {
            let Some(column) = target.and_then(|target| self.columns.get_mut(target)) else { continue };
            let text = field.map(std::str::from_utf8).transpose();
            column.append_option(text.map_err(|_| "text that is not UTF-8".to_owned())?);
        }
        Ok(())
    }

    /// Reads up to the end of the next record; whether there was one.
    fn next_record(&mut self) -> Result<bool, String> {
        self.record.clear();
        loop {
            let bytes = self.buffer.get(self.unread.clone()).unwrap_or_default();
            let (taken, ended) = self.record.push(bytes)?;
            self.unread.start += taken;
            if ended {
                return Ok(true);
            }
            let read = self.input.read(&mut self.buffer).map_err(|error| error.to_string())?;
            self.unread = 0..read;
            if read == 0 {
                return self.record.end();
            }
        }
    }
}

/// The fields of one record, as their bytes come in.
#[derive(Debug)]
struct Record {
    /// What stands between fields.
    delimiter: u8,
    bytes: Vec<u8>,
    /// Where each field ends, and whether it is there: not if it is empty and without quotes.
    ends: Vec<(usize, bool)>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Bare,
    Quoted,
    /// After a quote within quotes: the end of the field, or the first of two.
    Quote,
    /// After a carriage return behind quotes.
    Return,
}

impl Record {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.state = State::Start;
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn fields(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut start = 0;
        self.ends.iter().map(move |(end, is_there)| {
            let field = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            is_there.then_some(field)
        })
    }

    /// Takes bytes up to the end of the record: how many, and whether it ends there.
    fn push(&mut self, bytes: &[u8]) -> Result<(usize, bool), String> {
        let mut at = 0;
        let delimiter = self.delimiter;
        while let Some(byte) = bytes.get(at).copied() {
            let rest = bytes.get(at..).unwrap_or_default();
            at += 1;
            self.state = match (self.state, byte) {
                (State::Quoted, b'"') => State::Quote,
                (State::Quoted, _) => {
                    at += self.take_while(rest, |byte| byte != b'"') - 1;
                    State::Quoted
                }
                (State::Quote, b'"') => {
                    self.bytes.push(byte);
                    State::Quoted
                }
                (State::Start, b'"') => State::Quoted,
                (_, byte) if byte == delimiter && self.state != State::Return => self.end_field(),
                (_, b'\n') => {
                    self.end_field();
                    return Ok((at, true));
                }
                (State::Start | State::Bare, _) => {
                    at += self.take_while(rest, |byte| byte != delimiter && byte != b'\n') - 1;
                    State::Bare
                }
                (State::Quote, b'\r') => State::Return,
                (State::Quote | State::Return, _) => return Err("bytes after a closing quote".to_owned()),
            };
        }
        Ok((at, false))
    }

    /// Takes the first byte, and those after it as long as they are such.
    fn take_while(&mut self, bytes: &[u8], is_such: impl Fn(u8) -> bool) -> usize {
        let rest = bytes.iter().skip(1).position(|byte| !is_such(*byte));
        let count = rest.map_or(bytes.len(), |rest| rest + 1);
        self.bytes.extend_from_slice(bytes.get(..count).unwrap_or_default());
        count
    }

    fn end_field(&mut self) -> State {
        // A line may end with a carriage return as well.
        let start = self.ends.last().map_or(0, |(end, _)| *end);
        let is_bare = self.state == State::Bare;
        if is_bare && self.bytes.len() > start && self.bytes.last() == Some(&b'\r') {
            self.bytes.pop();
        }
        let is_there = self.state != State::Start && !(is_bare && self.bytes.len() == start);
        self.ends.push((self.bytes.len(), is_there));
        State::Start
    }

    /// The input has ended: whether there is a record that no line ends.
    fn end(&mut self) -> Result<bool, String> {
        match self.state {
            State::Quoted => Err("a quote that is never closed".to_owned()),
            State::Start if self.ends.is_empty() => Ok(false),
            _ => {
                self.end_field();
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Date32Array, Decimal128Array, Int64Array, StringArray, Time32SecondArray},
        compute::concat_batches,
        datatypes::Field,
    };

    use super::*;
    use crate::CsvEncoder;

    fn read(text: &[u8], schema: &SchemaRef) -> Result<RecordBatch, String> {
        let mut reader = CsvReader::new(text, 3)?;
        reader.select(schema)?;
        let mut batches = Vec::new();
        while let Some(batch) = reader.next_batch()? {
            batches.push(batch);
        }
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
            ("a,b", Arc::new(StringArray::from(vec![Some(""), None, Some("x, \"y\"\r\n"), Some("é")]))),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
        let batch = batch.unwrap();
        let mut encoder = CsvEncoder::new(Vec::new(), &batch.schema()).unwrap();
        encoder.write(&batch).unwrap();
        let text = encoder.into_inner();
        assert_eq!(read(&text, &batch.schema()).unwrap(), batch);
        let some = Arc::new(batch.schema().project(&[4, 0]).unwrap());
        assert_eq!(read(&text, &some).unwrap(), batch.project(&[4, 0]).unwrap());
    }

    #[test]
    fn pieces_of_any_size_make_the_same_records() {
        struct Slowly<'a>(&'a [u8], usize);
        impl Read for Slowly<'_> {
            fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
                let count = self.1.min(self.0.len()).min(to.len());
                to[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let text = "a,\"b\"\r\n1,\"x\"\"y\"\r\n,\"\"\n3,\"p\nq,\"\n\"4\",z";
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
        ]));
        for size in 1..text.len() {
            let mut reader = CsvReader::new(Slowly(text.as_bytes(), size), 100).unwrap();
            reader.select(&schema).unwrap();
            let batch = reader.next_batch().unwrap().unwrap();
            let numbers = Int64Array::from(vec![Some(1), None, Some(3), Some(4)]);
            let texts = StringArray::from(vec!["x\"y", "", "p\nq,", "z"]);
            let wanted = RecordBatch::try_new(schema.clone(), vec![Arc::new(numbers), Arc::new(texts)]);
            assert_eq!(batch, wanted.unwrap(), "{size} bytes at a time");
            assert!(reader.next_batch().unwrap().is_none());
        }
    }

    #[test]
    fn another_byte_may_stand_between_fields() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
        ]));
        let mut reader = CsvReader::with_delimiter(&b"b|a\nx,y|1\n\"p|q\"|2\n"[..], b'|', 9).unwrap();
        reader.select(&schema).unwrap();
        let batch = reader.next_batch().unwrap().unwrap();
        assert_eq!(batch.column(0).as_ref(), &Int64Array::from(vec![1, 2]));
        assert_eq!(batch.column(1).as_ref(), &StringArray::from(vec!["x,y", "p|q"]));
        assert!(CsvReader::with_delimiter(&b"a"[..], b'"', 9).is_err());
    }

    #[test]
    fn what_is_not_such_a_file_is_an_error() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
        ]));
        assert_eq!(read(b"a,b\n1,x\n2,", &schema).unwrap().num_rows(), 2);
        for text in ["", "a\n", "a,c\n", "a,b\n1\n", "a,b\nx,y\n", "a,b\n1,\"y\"z\n", "a,b\n1,\"y"] {
            assert!(read(text.as_bytes(), &schema).is_err(), "{text:?}");
        }
        assert!(read(b"a,b\n1,\xFF\n", &schema).is_err());
    }
}
