//! CSV files: their columns, whose types are inferred from a sample of the records, and their rows.

pub(super) mod options;
pub(super) mod rows;

use std::{io::Read, ops::ControlFlow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray, StringBuilder, new_null_array},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
};
use stylobate_storage::OpenObject;
use tokio::runtime::Handle;

use self::rows::CsvRows;
use super::{
    CsvOptions,
    bytes::{ObjectReader, decompressed, read_error},
    guard::guard_object,
    infer::{TypeInference, fits},
    reading::{BatchCallback, FileBatchCallback, SequentialReadOptions},
    selection::no_such_column,
    table::ColumnRequest,
};
use crate::{
    Error, Result,
    csv::{CsvFieldKind, RecordError},
    kernels::exact_cast::{fractional_digits, has_more_digits},
};

/// Maximum bytes of text of a batch; its last record may exceed it.
const MAX_BATCH_TEXT: usize = 16 << 20;
/// Maximum characters of a value that an error quotes.
const MAX_QUOTED: usize = 60;

/// Files whose columns are matched by name.
pub(super) struct CsvFiles {
    files: Vec<OpenObject>,
    options: CsvOptions,
    /// The columns that are needed.
    columns: Vec<CsvColumn>,
    schema: SchemaRef,
    /// Rows of all files, if the sample was all of them.
    rows: Option<u64>,
}

/// A column that may be read.
#[derive(Clone)]
struct CsvColumn {
    name: String,
    data_type: DataType,
    /// True if the type was inferred from only some of the values, so that others may not fit.
    is_guessed: bool,
}

/// Types inferred from the part of the sample that was read so far.
struct CsvTypeSample {
    /// Inferences by column whose type is inferred.
    inferences: Vec<TypeInference>,
    rows: u64,
    bytes: u64,
    /// True if all records of all files so far belong to the sample.
    is_all: bool,
}

impl CsvFiles {
    /// Reads all headers and the sample.
    pub(super) fn open(
        files: Vec<OpenObject>,
        options: CsvOptions,
        request: &ColumnRequest<'_>,
        runtime: &Handle,
    ) -> Result<Self> {
        let opened =
            Self { files, options, columns: Vec::new(), schema: Arc::new(Schema::empty()), rows: None };
        let names = opened.names(runtime)?;
        for (name, data_type) in &opened.options.types {
            if request.is_of_path(name) {
                continue;
            }
            if !names.contains(name) {
                return Err(no_such_column(name, names.iter().map(String::as_str)));
            }
            check_of_text(name, data_type)?;
        }

        // Types are inferred only for needed columns. No column is nested, so text stands for all types.
        let fields: Fields = names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        let needed = request.needed(&fields)?;
        let needed =
            names.into_iter().filter(|name| needed.as_ref().is_none_or(|needed| needed.contains(name)));
        opened.infer(needed.collect(), request, runtime)
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn rows(&self) -> Option<u64> {
        self.rows
    }

    fn file(&self, object: &OpenObject, runtime: &Handle) -> Result<OpenCsvFile> {
        let reader = ObjectReader::new(object.clone(), runtime.clone());
        let bytes = decompressed(reader).map_err(|error| read_error(object, &error))?;
        let rows = CsvRows::open(bytes, self.options.dialect()?, &self.options.header);
        let rows = rows.map_err(|error| in_file(object, error))?;
        Ok(OpenCsvFile { object: object.clone(), rows })
    }

    /// Returns the names of the columns of all files, in order of first appearance.
    fn names(&self, runtime: &Handle) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for object in &self.files {
            let file = guard_object(object, || self.file(object, runtime))?;
            for name in file.rows.names() {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }

        Ok(names)
    }

    /// Infers the types of these columns from the sample, unless the caller gave them.
    fn infer(self, names: Vec<String>, request: &ColumnRequest<'_>, runtime: &Handle) -> Result<Self> {
        let declared = |name: &String| {
            let of_option = self.options.types.iter().find(|(column, _)| column == name);
            of_option.map(|(_, data_type)| data_type).or_else(|| request.options.cast_type(name))
        };
        for name in &names {
            if let Some(data_type) = declared(name) {
                check_of_text(name, data_type)?;
            }
        }

        let to_infer: Vec<String> = names.iter().filter(|name| declared(name).is_none()).cloned().collect();
        let mut sample = CsvTypeSample {
            inferences: vec![TypeInference::new(self.options.timestamps); to_infer.len()],
            rows: 0,
            bytes: 0,
            is_all: !to_infer.is_empty(),
        };

        for object in self.files.iter().filter(|_| !to_infer.is_empty()) {
            guard_object(object, || self.sample_file(object, &to_infer, &mut sample, runtime))?;
        }

        let CsvTypeSample { inferences, rows, is_all, .. } = sample;
        let mut inferred = inferences.into_iter();
        let column = |name: String| match declared(&name) {
            Some(data_type) => CsvColumn { name, data_type: data_type.clone(), is_guessed: false },
            None => {
                let data_type = inferred.next().map_or(DataType::Utf8, |inference| inference.data_type());
                CsvColumn { name, is_guessed: !is_all && data_type != DataType::Utf8, data_type }
            }
        };

        let columns: Vec<CsvColumn> = names.into_iter().map(column).collect();

        let fields = columns.iter().map(|column| Field::new(&column.name, column.data_type.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self { columns, schema, rows: is_all.then_some(rows), ..self })
    }

    /// Reads the records of a file that belong to the sample.
    fn sample_file(
        &self,
        object: &OpenObject,
        to_infer: &[String],
        sample: &mut CsvTypeSample,
        runtime: &Handle,
    ) -> Result<()> {
        let mut file = self.file(object, runtime)?;
        let targets = targets(file.rows.names(), to_infer);

        loop {
            if !self.options.sample.has_room(sample.rows, sample.bytes + file.rows.bytes_read()) {
                sample.is_all = false;
                break;
            }
            if !file.next()? {
                break;
            }

            sample.rows += 1;
            for ((kind, field), target) in file.rows.fields().zip(&targets) {
                let Some(target) = target else { continue };
                let Some(inference) = sample.inferences.get_mut(*target) else { continue };
                let Some(text) = file.text(kind, field, to_infer.get(*target))? else { continue };
                if !self.options.is_null(kind, text) {
                    inference.see(text);
                }
            }
        }

        sample.bytes += file.rows.bytes_read();
        Ok(())
    }

    /// Reads columns of all rows.
    pub(super) fn read(
        &self,
        reading: &SequentialReadOptions<'_>,
        emit: FileBatchCallback<'_>,
    ) -> Result<()> {
        let columns: Vec<CsvColumn> =
            reading.columns.iter().filter_map(|at| self.columns.get(*at).cloned()).collect();
        let fields = reading.columns.iter().filter_map(|at| self.schema.fields().get(*at).cloned());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));

        for (at, object) in self.files.iter().enumerate() {
            if reading.skipped.contains(&at) {
                continue;
            }
            let read = || self.read_file(object, &columns, &schema, reading, &mut |batch| emit(at, batch));
            if guard_object(object, read)?.is_break() {
                return Ok(());
            }
        }

        Ok(())
    }

    /// Reads columns of the rows of one file. Breaks once no more rows are wanted.
    fn read_file(
        &self,
        object: &OpenObject,
        columns: &[CsvColumn],
        schema: &SchemaRef,
        reading: &SequentialReadOptions<'_>,
        emit: BatchCallback<'_>,
    ) -> Result<ControlFlow<()>> {
        let file = self.file(object, reading.runtime)?;
        let mut batches = CsvBatches::new(file, &self.options, columns, schema.clone());

        while let Some(batch) = batches.next(reading.batch_rows)? {
            if emit(batch)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }

        Ok(ControlFlow::Continue(()))
    }
}

impl CsvOptions {
    fn is_null(&self, kind: CsvFieldKind, text: &str) -> bool {
        match kind {
            CsvFieldKind::Missing => true,
            CsvFieldKind::Bare => self.null_values.iter().any(|null| null == text),
            CsvFieldKind::Quoted => false,
        }
    }
}

/// Returns, by field of a record, the index of its column in the output; `None` if it is not read.
fn targets(names: &[String], columns: &[String]) -> Vec<Option<usize>> {
    names.iter().map(|name| columns.iter().position(|column| column == name)).collect()
}

fn in_file(object: &OpenObject, error: RecordError) -> Error {
    match error {
        RecordError::Read(error) => read_error(object, &error),
        RecordError::Syntax { line, reason } => {
            Error::Text { object: object.name(), line, column: None, reason }
        }
    }
}

/// A file that is being read.
struct OpenCsvFile {
    object: OpenObject,
    rows: CsvRows<Box<dyn Read + Send>>,
}

impl OpenCsvFile {
    fn next(&mut self) -> Result<bool> {
        self.rows.next().map_err(|error| in_file(&self.object, error))
    }

    /// Returns the text of a field; `None` if the field is missing.
    fn text<'f>(
        &self,
        kind: CsvFieldKind,
        field: &'f [u8],
        column: Option<&String>,
    ) -> Result<Option<&'f str>> {
        if kind == CsvFieldKind::Missing {
            return Ok(None);
        }
        std::str::from_utf8(field).map(Some).map_err(|_| Error::Text {
            object: self.object.name(),
            line: self.rows.line(),
            column: column.cloned(),
            reason: "the text is not UTF-8: convert the file".to_owned(),
        })
    }
}

/// The rows of a file, batch by batch.
struct CsvBatches<'a> {
    file: OpenCsvFile,
    options: &'a CsvOptions,
    columns: &'a [CsvColumn],
    schema: SchemaRef,
    /// By field of a record, the index of its column in the output; `None` if it is not read.
    targets: Vec<Option<usize>>,
    builders: Vec<StringBuilder>,
    /// The line of each row.
    lines: Vec<u64>,
}

impl<'a> CsvBatches<'a> {
    fn new(file: OpenCsvFile, options: &'a CsvOptions, columns: &'a [CsvColumn], schema: SchemaRef) -> Self {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let targets = targets(file.rows.names(), &names);
        let builders = columns.iter().map(|_| StringBuilder::new()).collect();
        Self { file, options, columns, schema, targets, builders, lines: Vec::new() }
    }

    fn next(&mut self, max_rows: usize) -> Result<Option<RecordBatch>> {
        self.lines.clear();
        let mut bytes = 0;
        while self.lines.len() < max_rows && bytes < MAX_BATCH_TEXT && self.file.next()? {
            self.lines.push(self.file.rows.line());
            bytes += self.take_row()?;
        }

        if self.lines.is_empty() {
            return Ok(None);
        }

        let rows = self.lines.len();
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (at, column) in self.columns.iter().enumerate() {
            let is_there = self.targets.contains(&Some(at));
            let texts = self.builders.get_mut(at).filter(|_| is_there).map(|builder| builder.finish());
            let array = match texts {
                Some(texts) => self.typed(texts, column)?,
                None => new_null_array(&column.data_type, rows),
            };
            arrays.push(array);
        }

        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options);
        batch.map(Some).map_err(Error::arrow("reading CSV"))
    }

    /// Appends the fields of the current row. Returns their bytes.
    fn take_row(&mut self) -> Result<usize> {
        let mut bytes = 0;
        for ((kind, field), target) in self.file.rows.fields().zip(&self.targets) {
            let Some(target) = *target else { continue };
            let (Some(column), Some(builder)) = (self.columns.get(target), self.builders.get_mut(target))
            else {
                continue;
            };

            let text = self.file.text(kind, field, Some(&column.name))?;
            let text = text.filter(|text| !self.options.is_null(kind, text));
            // Only text columns have an empty value.
            let text = text.filter(|text| !text.is_empty() || is_text(&column.data_type));
            if let Some(text) = text.filter(|_| column.is_guessed)
                && !fits(text, &column.data_type, self.options.timestamps)
            {
                return Err(misfit(&self.file.object, self.file.rows.line(), column, text));
            }

            bytes += field.len();
            builder.append_option(text);
        }

        Ok(bytes)
    }

    /// Casts the strings to the column's type.
    fn typed(&self, texts: StringArray, column: &CsvColumn) -> Result<ArrayRef> {
        if column.data_type == DataType::Utf8 {
            return Ok(Arc::new(texts));
        }

        let options = CastOptions { safe: true, ..CastOptions::default() };
        let array = cast_with_options(&texts, &column.data_type, &options)
            .map_err(Error::arrow(format!("column {}", column.name)))?;
        let digits = fractional_digits(&column.data_type);
        if digits.is_none() && array.logical_null_count() == texts.null_count() {
            return Ok(array);
        }

        let nulls = array.logical_nulls();
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let is_rounded = |row: usize| digits.is_some_and(|digits| has_more_digits(texts.value(row), digits));
        let is_lost = |row: &usize| texts.is_valid(*row) && (is_null(*row) || is_rounded(*row));
        match (0..texts.len()).find(is_lost) {
            None => Ok(array),
            Some(row) => {
                let line = self.lines.get(row).copied().unwrap_or_default();
                Err(misfit(&self.file.object, line, column, texts.value(row)))
            }
        }
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

fn misfit(object: &OpenObject, line: u64, column: &CsvColumn, text: &str) -> Error {
    let mut shown: String = text.chars().take(MAX_QUOTED).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let what_to_do = if column.is_guessed {
        "which is the type of all values of the sample: give the column a type, or take a larger sample"
    } else {
        "which is the type that the column is to have: correct the value, or give the column another type"
    };

    let reason = format!("{shown:?} is no {}, {what_to_do}", column.data_type);
    Error::Text { object: object.name(), line, column: Some(column.name.clone()), reason }
}

/// Fails if strings cannot be cast to the type of a column.
fn check_of_text(column: &str, data_type: &DataType) -> Result<()> {
    if is_of_text(data_type) {
        return Ok(());
    }
    let reason = format!("a field of a CSV file is no {data_type}: read it as a string");
    Err(Error::Option { column: Some(column.to_owned()), reason })
}

/// Returns `true` if strings can be cast to this type.
fn is_of_text(data_type: &DataType) -> bool {
    let without = matches!(
        data_type,
        DataType::Null | DataType::Duration(_) | DataType::Interval(_) | DataType::RunEndEncoded(..)
    );
    !without && !data_type.is_nested()
}
