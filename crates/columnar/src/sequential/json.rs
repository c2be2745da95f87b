//! JSON files: their columns, whose types are inferred from a sample of the records, and their rows.

pub(super) mod infer;
pub(super) mod records;

use std::{io::Read, ops::ControlFlow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray},
    compute::cast_with_options,
    datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef},
    error::ArrowError,
    json::ReaderBuilder,
};
use stylobate_storage::{ByteSize, OpenObject};
use tokio::runtime::Handle;

use self::{
    infer::{JsonFields, JsonType},
    records::JsonRecords,
};
use super::{
    Sample,
    bytes::{ObjectReader, decompressed, read_error},
    guard::guard_object,
    reading::{BatchCallback, FileBatchCallback, SequentialReadOptions},
    selection::no_such_column,
    table::ColumnRequest,
};
use crate::{
    Error, Result,
    csv::{CsvDialect, RecordError},
    file::schema::value_type,
    kernels::exact_cast::EXACT,
    table::partition_names,
};

/// All integers up to this are exact as float64.
const MAX_EXACT_INTEGER: f64 = (1_u64 << 53) as f64;
/// Maximum bytes of text of a batch; its last record may exceed it.
const MAX_BATCH_TEXT: usize = 16 << 20;

/// Options to read JSON files. A record is an object: on a separate line, or an element of an array that is the
/// whole file. Keys become columns, in order of first appearance; a key that a record lacks is null.
///
/// Types are inferred: int64, float64, bool, text, lists and structs. Integers that int64 does not hold become text,
/// and so do integers beyond 2^53 in a column that also has floating-point numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonOptions {
    pub(super) types: Vec<(String, DataType)>,
    sample: Sample,
    max_record: ByteSize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        let max_record = ByteSize::bytes(CsvDialect::MAX_RECORD_BYTES as u64);
        Self { types: Vec::new(), sample: Sample::default(), max_record }
    }
}

impl JsonOptions {
    /// Sets the type of a column instead of inferring it. A column that no record has is an
    /// [`Error::NoSuchColumn`]; if types were inferred from a sample, it is reported at the end of the files.
    #[must_use]
    pub fn with_type(mut self, column: impl Into<String>, data_type: DataType) -> Self {
        self.types.push((column.into(), data_type));
        self
    }

    /// Sets the records from which types are inferred. Default: those of the first 64 MiB.
    #[must_use]
    pub fn with_sample(mut self, sample: Sample) -> Self {
        self.sample = sample;
        self
    }

    /// Sets the maximum bytes of a record. Default: 16 MiB.
    #[must_use]
    pub fn with_max_record(mut self, size: ByteSize) -> Self {
        self.max_record = size;
        self
    }
}

impl JsonOptions {
    /// Fails if a type is that of a column that no record has.
    fn check_types(&self, fields: &JsonFields) -> Result<()> {
        match self.types.iter().find(|(name, _)| fields.get(name).is_none()) {
            Some((unknown, _)) => Err(no_such_column(unknown, fields.iter().map(|(name, _)| name.as_str()))),
            None => Ok(()),
        }
    }
}

/// Types inferred from the part of the sample that was read so far.
struct JsonTypeSample {
    fields: JsonFields,
    rows: u64,
    bytes: u64,
    /// True if all records of all files so far belong to the sample.
    is_all: bool,
}

impl JsonTypeSample {
    /// Reads the records of a file that belong to the sample.
    fn read_file(&mut self, object: &OpenObject, options: &JsonOptions, runtime: &Handle) -> Result<()> {
        let mut file = OpenJsonFile::open(object, options, runtime)?;
        loop {
            if !options.sample.has_room(self.rows, self.bytes + file.records.bytes_read()) {
                self.is_all = false;
                break;
            }
            if !file.next()? {
                break;
            }

            self.rows += 1;
            file.see(&mut self.fields)?;
        }

        self.bytes += file.records.bytes_read();
        Ok(())
    }
}

/// Files whose columns are matched by name.
pub(super) struct JsonFiles {
    files: Vec<OpenObject>,
    options: JsonOptions,
    /// The types that the caller gave.
    declared: Vec<(String, DataType)>,
    /// Columns whose values are those of the paths.
    of_paths: Vec<String>,
    schema: SchemaRef,
    /// Types inferred from the sample, unless it was all records: later values may not fit them.
    sampled: Option<JsonFields>,
    /// True if all columns are requested, so that a column that the sample lacks is an error.
    has_all: bool,
    /// Rows of all files, if the sample was all of them.
    rows: Option<u64>,
}

impl JsonFiles {
    /// Infers the columns and their types from the sample.
    pub(super) fn open(
        files: Vec<OpenObject>,
        options: JsonOptions,
        request: &ColumnRequest<'_>,
        runtime: &Handle,
    ) -> Result<Self> {
        let (options, declared) = with_given_types(options, request);
        let mut sample = JsonTypeSample { fields: JsonFields::default(), rows: 0, bytes: 0, is_all: true };
        for object in &files {
            guard_object(object, || sample.read_file(object, &options, runtime))?;
        }

        let JsonTypeSample { fields, rows, is_all, .. } = sample;
        let mut names: Vec<String> = fields.iter().map(|(name, _)| name.clone()).collect();
        names.extend(declared.iter().map(|(name, _)| name.clone()).filter(|name| fields.get(name).is_none()));

        if is_all && rows > 0 {
            options.check_types(&fields)?;
        }

        // A column without a common type is an error only if it is needed.
        let data_type = |name: &String| column_type(name, &declared, &fields).unwrap_or(DataType::Null);
        let all: Fields = names.iter().map(|name| Field::new(name, data_type(name), true)).collect();
        let needed = request.needed(&all)?;
        // The sample may lack a column that later records have besides their paths.
        let of_paths = partition_names(request.located).into_iter();
        let of_paths = of_paths.filter(|name| request.is_of_all_paths(name)).map(str::to_owned).collect();
        let needed =
            names.into_iter().filter(|name| needed.as_ref().is_none_or(|needed| needed.contains(name)));
        let schema = schema(&files, &declared, &fields, needed)?;

        Ok(Self {
            files,
            options,
            declared,
            of_paths,
            schema: Arc::new(schema),
            sampled: (!is_all).then_some(fields),
            has_all: request.columns.is_none(),
            rows: is_all.then_some(rows),
        })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// Reads columns of all rows.
    pub(super) fn read(
        &self,
        reading: &SequentialReadOptions<'_>,
        emit: FileBatchCallback<'_>,
    ) -> Result<()> {
        let fields = reading.columns.iter().filter_map(|at| self.schema.fields().get(*at).cloned());
        let columns = JsonColumns::new(fields.collect(), &self.declared);
        let mut check = self.sampled.clone();

        for (at, object) in self.files.iter().enumerate() {
            if reading.skipped.contains(&at) {
                continue;
            }
            let read = || self.read_file(object, &columns, &mut check, reading, &mut |batch| emit(at, batch));
            if guard_object(object, read)?.is_break() {
                return Ok(());
            }
        }

        match &check {
            // A file that was not read may have the column.
            Some(fields) if reading.skipped.is_empty() => self.options.check_types(fields),
            _ => Ok(()),
        }
    }

    /// Reads columns of the rows of one file. Breaks once no more rows are wanted.
    fn read_file(
        &self,
        object: &OpenObject,
        columns: &JsonColumns,
        check: &mut Option<JsonFields>,
        reading: &SequentialReadOptions<'_>,
        emit: BatchCallback<'_>,
    ) -> Result<ControlFlow<()>> {
        let mut file = OpenJsonFile::open(object, &self.options, reading.runtime)?;
        let mut chunk = JsonRecordBuffer::default();

        loop {
            let is_there = file.next()?;
            if is_there {
                if let Some(fields) = check {
                    let widened = file.see(fields)?;
                    self.check(&file, fields, &widened, &columns.schema)?;
                }
                chunk.push(file.records.record(), file.records.first_line());
            }

            let is_full = chunk.lines.len() >= reading.batch_rows || chunk.text.len() >= MAX_BATCH_TEXT;
            if (is_full || !is_there) && !chunk.lines.is_empty() {
                let batch = chunk.decode(object, columns)?;
                chunk = JsonRecordBuffer::default();
                if emit(batch)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }

            if !is_there {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    /// Fails if a record after the sample has a value that does not fit.
    fn check(
        &self,
        file: &OpenJsonFile,
        fields: &JsonFields,
        widened: &[String],
        schema: &Schema,
    ) -> Result<()> {
        for name in widened {
            let is_declared = self.declared.iter().any(|(column, _)| column == name);
            let reason = match schema.field_with_name(name) {
                _ if is_declared || self.of_paths.contains(name) => continue,
                Ok(field) if fields.get(name).is_some_and(|of_field| holds(field.data_type(), of_field)) => continue,
                Ok(field) => format!(
                    "the value is no {}, which is the type of all values of the sample: give the column a type, or \
                     take a larger sample",
                    field.data_type()
                ),
                Err(_) if !self.has_all || self.schema.field_with_name(name).is_ok() => continue,
                Err(_) => "no record of the sample has this column: name the columns that are to be read, or take a \
                           larger sample"
                    .to_owned(),
            };

            return Err(file.wrong(file.records.first_line(), Some(name.clone()), reason));
        }
        Ok(())
    }
}

/// Returns `true` if a column type can represent all values of a JSON type.
fn holds(data_type: &DataType, of_values: &JsonType) -> bool {
    let is_nested = matches!(of_values, JsonType::List(_) | JsonType::Struct(_) | JsonType::Mixed { .. });
    match data_type {
        DataType::Utf8 => !is_nested,
        other => of_values.data_type().as_ref() == Ok(other),
    }
}

/// Returns the options without the types of columns that come from paths and with those of `casts`, which some record
/// must have, and all types that the caller gave.
fn with_given_types(
    mut options: JsonOptions,
    request: &ColumnRequest<'_>,
) -> (JsonOptions, Vec<(String, DataType)>) {
    let mut declared = options.types.clone();
    declared.retain(|(name, _)| !request.is_of_all_paths(name));
    options.types.retain(|(name, _)| !request.is_of_path(name));

    for (name, data_type) in request.given_types() {
        if declared.iter().any(|(column, _)| column == name) {
            continue;
        }
        let given = (name.to_owned(), value_type(data_type).clone());
        if request.options.casts.contains_key(name) && !request.is_of_path(name) {
            options.types.push(given.clone());
        }
        declared.push(given);
    }

    (options, declared)
}

/// Returns the columns with their types.
fn schema(
    files: &[OpenObject],
    declared: &[(String, DataType)],
    fields: &JsonFields,
    names: impl Iterator<Item = String>,
) -> Result<Schema> {
    let mut columns: Vec<FieldRef> = Vec::new();
    for name in names {
        let data_type = column_type(&name, declared, fields).map_err(|line| Error::Text {
            object: files.first().map(OpenObject::name).unwrap_or_default(),
            line,
            column: Some(name.clone()),
            reason:
                "it is an object or a list in some records and something else in others: no type holds both: \
                     correct the records, or name other columns"
                    .to_owned(),
        })?;

        columns.push(Arc::new(Field::new(name, data_type, true)));
    }

    Ok(Schema::new(columns))
}

/// Returns the type of a column that was given or inferred, or the line of the first value without a common type.
fn column_type(name: &str, declared: &[(String, DataType)], fields: &JsonFields) -> Result<DataType, u64> {
    if let Some((_, given)) = declared.iter().find(|(column, _)| column == name) {
        return Ok(given.clone());
    }

    fields.get(name).map_or(Ok(DataType::Utf8), JsonType::data_type)
}

/// A file that is being read.
struct OpenJsonFile {
    object: OpenObject,
    records: JsonRecords<Box<dyn Read + Send>>,
}

impl OpenJsonFile {
    fn open(object: &OpenObject, options: &JsonOptions, runtime: &Handle) -> Result<Self> {
        let reader = ObjectReader::new(object.clone(), runtime.clone());
        let bytes = decompressed(reader).map_err(|error| read_error(object, &error))?;
        let max_record = usize::try_from(options.max_record.as_u64()).unwrap_or(usize::MAX);
        Ok(Self { object: object.clone(), records: JsonRecords::new(bytes, max_record) })
    }

    fn next(&mut self) -> Result<bool> {
        self.records.next().map_err(|error| match error {
            RecordError::Read(error) => read_error(&self.object, &error),
            RecordError::Syntax { line, reason } => self.wrong(line, None, reason),
        })
    }

    /// Adds the current record. Returns the columns whose type became wider.
    fn see(&self, fields: &mut JsonFields) -> Result<Vec<String>> {
        let line = self.records.first_line();
        fields.see(self.records.record(), line).map_err(|error| {
            // The parser counts lines within the record.
            let within = (error.line() as u64).saturating_sub(1);
            let text = error.to_string();
            let reason = text.split_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
            self.wrong(line + within, None, format!("column {} of the text: {reason}", error.column()))
        })
    }

    fn wrong(&self, line: u64, column: Option<String>, reason: String) -> Error {
        Error::Text { object: self.object.name(), line, column, reason }
    }
}

/// Records that become a batch.
#[derive(Default)]
struct JsonRecordBuffer {
    text: Vec<u8>,
    /// Offset of each record in the text.
    starts: Vec<usize>,
    /// The line of each record.
    lines: Vec<u64>,
}

impl JsonRecordBuffer {
    fn push(&mut self, record: &[u8], line: u64) {
        self.starts.push(self.text.len());
        self.lines.push(line);
        self.text.extend_from_slice(record);
        self.text.push(b'\n');
    }

    fn decode(&self, object: &OpenObject, columns: &JsonColumns) -> Result<RecordBatch> {
        let rows = self.lines.len();
        if columns.schema.fields().is_empty() {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            return RecordBatch::try_new_with_options(columns.schema.clone(), Vec::new(), &options)
                .map_err(Error::arrow("reading JSON"));
        }

        match columns.decode(&self.text, rows) {
            Ok(batch) => Ok(batch),
            Err(error) => Err(self.first_error(object, columns, &error)),
        }
    }

    /// Returns the error of the first record that fails on its own.
    fn first_error(&self, object: &OpenObject, columns: &JsonColumns, error: &ArrowError) -> Error {
        let ends = self.starts.iter().skip(1).copied().chain([self.text.len()]);
        let records = self.starts.iter().zip(ends).zip(&self.lines);
        let found = records.into_iter().find_map(|((start, end), line)| {
            let record = self.text.get(*start..end).unwrap_or_default();
            columns.decode(record, 1).err().map(|error| (*line, error))
        });

        let (line, reason) = match found {
            Some((line, error)) => (line, error.to_string()),
            None => (self.lines.first().copied().unwrap_or(1), error.to_string()),
        };

        let prefixes = ["Json error: ", "Cast error: "];
        let reason =
            prefixes.iter().find_map(|prefix| reason.strip_prefix(prefix)).unwrap_or(&reason).to_owned();
        Error::Text { object: object.name(), line, column: None, reason }
    }
}

/// Columns of a batch, and how they are decoded.
struct JsonColumns {
    schema: SchemaRef,
    /// The same columns, but strings for integers of declared types: arrow truncates numbers with a fraction.
    decoded: SchemaRef,
}

impl JsonColumns {
    fn new(fields: Vec<FieldRef>, declared: &[(String, DataType)]) -> Self {
        let decoded = |field: &FieldRef| {
            let is_declared = declared.iter().any(|(column, _)| column == field.name());
            if is_declared && field.data_type().is_integer() {
                Arc::new(Field::new(field.name(), DataType::Utf8, true))
            } else {
                field.clone()
            }
        };

        let decoded = fields.iter().map(decoded).collect::<Vec<_>>();
        Self { decoded: Arc::new(Schema::new(decoded)), schema: Arc::new(Schema::new(fields)) }
    }

    fn decode(&self, text: &[u8], rows: usize) -> Result<RecordBatch, ArrowError> {
        let mut decoder = ReaderBuilder::new(self.decoded.clone())
            .with_batch_size(rows)
            .with_coerce_primitive(true)
            .build_decoder()?;

        let taken = decoder.decode(text)?;
        let rest = text.get(taken..).unwrap_or_default();
        let no_object = || ArrowError::JsonError("a record is no single object".to_owned());
        if !rest.iter().all(u8::is_ascii_whitespace) {
            return Err(no_object());
        }

        let batch = decoder.flush()?.filter(|batch| batch.num_rows() == rows).ok_or_else(no_object)?;
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| {
            let is_decoded = field.data_type() == column.data_type();
            if is_decoded { Ok(column.clone()) } else { integers(column.as_string(), field.data_type()) }
        });
        RecordBatch::try_new(self.schema.clone(), columns.collect::<Result<_, _>>()?)
    }
}

/// Parses integers, which may be written as `1.0` or `1e3`. Fails if a number has a fraction.
fn integers(texts: &StringArray, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let is_float = |text: &str| text.contains(['.', 'e', 'E']);
    let as_integer = |text: &str| {
        let number = text.parse::<f64>().ok().filter(|_| is_float(text))?;
        (number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER).then(|| number.to_string())
    };

    let texts: ArrayRef = if texts.iter().flatten().any(is_float) {
        let rewritten = |text: &str| as_integer(text).unwrap_or_else(|| text.to_owned());
        Arc::new(texts.iter().map(|text| text.map(rewritten)).collect::<StringArray>())
    } else {
        Arc::new(texts.clone())
    };
    cast_with_options(&texts, to, &EXACT)
}
