//! Reads comma-separated values as [`CsvEncoder`](crate::CsvEncoder) writes them: an empty field is null, and an
//! empty field in quotes an empty string. Readers that do not distinguish the two lose data.

use std::{io::Read, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, StringBuilder},
    compute::cast_with_options,
    datatypes::{DataType, Schema, SchemaRef},
};

use super::{CsvDialect, CsvError, CsvFieldKind, CsvRecords};
use crate::kernels::exact_cast::EXACT;

/// Reader of records in batches.
#[derive(Debug)]
pub struct CsvReader<R> {
    records: CsvRecords<R>,
    header: Vec<String>,
    schema: SchemaRef,
    /// By field of a record, the index of its column; `None` if it is not read.
    targets: Vec<Option<usize>>,
    columns: Vec<StringBuilder>,
    batch_rows: usize,
    rows: u64,
}

impl<R: Read> CsvReader<R> {
    /// Reads the header. There are no columns until [`Self::select`] is called.
    ///
    /// # Errors
    ///
    /// [`CsvError::Read`], [`CsvError::Syntax`], and [`CsvError::Header`] if the input is empty or its header is not
    /// UTF-8.
    pub fn new(input: R, batch_rows: usize) -> Result<Self, CsvError> {
        Self::with_delimiter(input, b',', batch_rows)
    }

    /// Reads the header of fields separated by `delimiter`, which must be neither a quote nor a line end.
    ///
    /// # Errors
    ///
    /// Same as [`Self::new`], and [`CsvError::Delimiter`].
    pub fn with_delimiter(input: R, delimiter: u8, batch_rows: usize) -> Result<Self, CsvError> {
        let dialect = CsvDialect { max_record_bytes: usize::MAX, ..CsvDialect::with_delimiter(delimiter) };
        dialect.check().map_err(|reason| CsvError::Delimiter { reason })?;

        let mut records = CsvRecords::new(input, dialect);
        if !records.next()? {
            return Err(CsvError::Header { reason: "no header" });
        }

        let name = |(_, field): (CsvFieldKind, &[u8])| match std::str::from_utf8(field) {
            Ok(name) => Ok(name.to_owned()),
            Err(_) => Err(CsvError::Header { reason: "a header that is not UTF-8" }),
        };

        let header: Vec<String> = records.fields().map(name).collect::<Result<_, _>>()?;
        Ok(Self {
            records,
            targets: vec![None; header.len()],
            header,
            schema: Arc::new(Schema::empty()),
            columns: Vec::new(),
            batch_rows: batch_rows.max(1),
            rows: 0,
        })
    }

    /// Returns the names of all columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Selects the columns to read and their types; dictionaries and views are read as plain strings.
    ///
    /// # Errors
    ///
    /// [`CsvError::NoSuchColumn`] if the header lacks one of them.
    pub fn select(&mut self, schema: &SchemaRef) -> Result<(), CsvError> {
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
            let index = self.header.iter().position(|name| name == field.name());
            let Some(target) = index.and_then(|index| self.targets.get_mut(index)) else {
                return Err(CsvError::NoSuchColumn { column: field.name().clone() });
            };
            *target = Some(column);
        }

        Ok(())
    }

    /// Reads the next rows; `None` after the last.
    ///
    /// # Errors
    ///
    /// [`CsvError::Read`] and [`CsvError::Syntax`]; [`CsvError::Row`] for a record that does not match the header,
    /// [`CsvError::Value`] for a value of another type, [`CsvError::Batch`] for nulls in a non-nullable column.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, CsvError> {
        let mut rows = 0;
        while rows < self.batch_rows && self.records.next()? {
            self.take_record().map_err(|reason| CsvError::Row { row: self.rows, reason })?;
            self.rows += 1;
            rows += 1;
        }

        if rows == 0 {
            return Ok(None);
        }

        let columns = self.columns.iter_mut().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| {
            let text: ArrayRef = Arc::new(column.finish());
            cast_with_options(&text, field.data_type(), &EXACT)
                .map_err(|source| CsvError::Value { column: field.name().clone(), source })
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);

        batch.map(Some).map_err(CsvError::Batch)
    }

    /// Appends the fields of the current record to their columns. The error is a reason without the row.
    fn take_record(&mut self) -> Result<(), String> {
        if self.records.len() != self.targets.len() {
            return Err(format!("{} fields, not {}", self.records.len(), self.targets.len()));
        }
        for ((kind, field), target) in self.records.fields().zip(&self.targets) {
            let Some(column) = target.and_then(|target| self.columns.get_mut(target)) else { continue };
            let text = (kind != CsvFieldKind::Missing).then(|| std::str::from_utf8(field)).transpose();
            column.append_option(text.map_err(|_| "text that is not UTF-8".to_owned())?);
        }
        Ok(())
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

    fn read(text: &[u8], schema: &SchemaRef) -> Result<RecordBatch, CsvError> {
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
    fn what_was_written_with_another_delimiter_is_read() {
        let texts = [Some("a|b"), Some(""), None, Some("say \"x\""), Some("two\nlines"), Some("a,b")];
        let texts: ArrayRef = Arc::new(StringArray::from_iter(texts));
        let numbers: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(1), None, Some(-3), Some(4), None, Some(6)]));
        let batch =
            RecordBatch::try_from_iter_with_nullable([("x|y", texts, true), ("n", numbers, true)]).unwrap();
        let mut encoder = CsvEncoder::with_delimiter(Vec::new(), &batch.schema(), b'|').unwrap();
        encoder.write(&batch).unwrap();
        let written = encoder.into_inner();
        assert!(written.starts_with(b"\"x|y\"|n\n\"a|b\"|1\n\"\"|\n|-3\n"));
        assert!(written.ends_with(b"\na,b|6\n"));

        let mut reader = CsvReader::with_delimiter(&written[..], b'|', 100).unwrap();
        reader.select(&batch.schema()).unwrap();
        assert_eq!(reader.next_batch().unwrap().unwrap(), batch);
    }

    #[test]
    fn pieces_of_any_size_make_the_same_records() {
        struct SlowTextReader<'a>(&'a [u8], usize);
        impl Read for SlowTextReader<'_> {
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
            let mut reader = CsvReader::new(SlowTextReader(text.as_bytes(), size), 100).unwrap();
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

    #[test]
    fn an_error_tells_its_cause_and_where_it_is() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let error = |text: &str| read(text.as_bytes(), &schema).unwrap_err();

        assert!(matches!(error(""), CsvError::Header { .. }));
        assert!(matches!(error("b\n"), CsvError::NoSuchColumn { column } if column == "a"));
        assert!(matches!(error("a\n1\n\"2"), CsvError::Syntax { line: 3, .. }));
        assert!(matches!(error("a\n1\n2,3\n"), CsvError::Row { row: 1, .. }));
        assert!(matches!(error("a\nx\n"), CsvError::Value { column, .. } if column == "a"));
        assert!(matches!(error("a\n\n"), CsvError::Batch(_)));
        assert_eq!(error("a\n1\n2,3\n").to_string(), "row 1: 2 fields, not 1");
    }
}
