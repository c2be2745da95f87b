//! The table that files form: their own columns, those of their paths, and the types that the caller gave.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use arrow::{
    array::{
        Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array,
        new_null_array,
    },
    compute::take,
    datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef},
    error::ArrowError,
};

use super::selection::AllColumns;
use crate::{
    Error, Predicate, Result,
    file::{
        schema::{cast_field, finer, value_type, widened},
        statistics::PruningStatistics,
    },
    kernels::exact_cast::common_cast,
    predicate::Column,
    prune::{PruneVerdict, prune},
    table::{
        locate::LocatedFile,
        options::TableOptions,
        partition_names,
        partition_type::{inferred_type, parse_value},
        partition_values, path_texts,
    },
};

/// The columns that a caller requests, before those of the files are known.
#[derive(Clone, Copy)]
pub(super) struct ColumnRequest<'a> {
    /// The output columns; `None` for all.
    pub(super) columns: Option<&'a [String]>,
    pub(super) filter: Option<&'a Predicate>,
    pub(super) located: &'a [&'a LocatedFile],
    pub(super) options: &'a TableOptions,
}

impl<'a> ColumnRequest<'a> {
    /// Returns true if any path has a value of a column.
    pub(super) fn is_of_path(&self, column: &str) -> bool {
        self.located.iter().any(|file| file.has_partition(column))
    }

    /// Returns true if all paths have a value of a column, so that it is never read from a file.
    pub(super) fn is_of_all_paths(&self, column: &str) -> bool {
        self.located.iter().all(|file| file.has_partition(column))
    }

    /// Returns the columns of the files to which the caller gave a type, with these types.
    pub(super) fn given_types(&self) -> Vec<(&'a str, &'a DataType)> {
        let options = self.options;
        let mut seen = HashSet::new();
        let names = options.cast_columns().map(|(name, _)| name).filter(|name| seen.insert(*name));
        let of_files = names.filter(|name| {
            let is_row_number = options.row_number.as_deref() == Some(*name);
            !is_row_number && !self.is_of_all_paths(name)
        });
        of_files.filter_map(|name| Some((name, options.cast_type(name)?))).collect()
    }

    /// Returns the columns of the files that the scan needs; `None` if it needs all of them. The types of `of_files`
    /// tell which dotted names lead to a field.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchColumn`], and [`Error::Option`] if a file has a column with the name of a generated one.
    pub(super) fn needed(&self, of_files: &Fields) -> Result<Option<Vec<String>>> {
        let options = self.options;
        let mut generated = options.filename.iter().chain(&options.row_number);
        if let Some(column) = generated.find(|column| of_files.find(column).is_some()) {
            let reason = "a file has a column of this name: give another one".to_owned();
            return Err(Error::Option { column: Some(column.clone()), reason });
        }

        let of_paths = partition_names(self.located);
        let not_of_paths = of_files.iter().filter(|field| !of_paths.contains(&field.name().as_str()));
        let mut fields: Vec<FieldRef> = not_of_paths.map(|field| with_cast_type(field, options)).collect();
        // The values of paths are scalars: no dotted name leads below them.
        fields.extend(of_paths.iter().map(|name| Arc::new(Field::new(*name, DataType::Utf8, true))));

        let is_known = |column: &str| fields.iter().any(|field| field.name() == column);
        if let Some(unknown) = options.casts.keys().find(|column| !is_known(column)) {
            return Err(AllColumns(&Fields::from(fields)).no_such(unknown));
        }

        let row_number = options.row_number.iter();
        fields.extend(row_number.map(|name| Arc::new(Field::new(name, DataType::Int64, false))));
        let absent = absent_fields(&fields, options);
        fields.extend(absent);

        let needed = AllColumns(&Fields::from(fields)).needed(self.columns, self.filter)?;
        if of_paths.is_empty() {
            return Ok(needed);
        }

        let mut needed =
            needed.unwrap_or_else(|| of_files.iter().map(|field| field.name().clone()).collect());
        needed.retain(|name| !self.is_of_all_paths(name));
        Ok(Some(needed))
    }
}

/// Source of a column of the table.
enum ColumnSource {
    /// A column of the files, by its index in their schema.
    File(usize),
    /// The value of each file's path as an array of one row. Files whose path has none may have the column themselves.
    Path { values: Vec<Option<ArrayRef>>, of_file: Option<usize> },
    /// The number of each row within its file.
    RowNumber,
    /// No file has the column.
    Absent,
}

impl ColumnSource {
    /// Returns the index of the column in the schema of the files, if any of them may be read.
    fn of_file(&self) -> Option<usize> {
        match self {
            Self::File(at) => Some(*at),
            Self::Path { of_file, .. } => *of_file,
            Self::RowNumber | Self::Absent => None,
        }
    }
}

/// All columns that may be read, and how each file has them.
pub(super) struct SequentialTable {
    schema: SchemaRef,
    /// By column of the schema.
    sources: Vec<ColumnSource>,
    /// Names of the files.
    files: Vec<String>,
    /// The filter, which compares partition columns of text with the strings in the paths.
    filter: Option<Predicate>,
}

/// Columns of the table that are read, and those of the files that this takes.
pub(super) struct TableProjection {
    columns: Vec<usize>,
    of_files: Vec<usize>,
    schema: SchemaRef,
}

impl TableProjection {
    /// Returns the indices of the columns to read in the schema of the files, in ascending order.
    pub(super) fn of_files(&self) -> &[usize] {
        &self.of_files
    }
}

impl SequentialTable {
    /// Adds the columns of paths, and those that only the caller's schema has, to the columns of the files.
    ///
    /// # Errors
    ///
    /// [`Error::Arrow`] if the value of a path does not fit the type of its column, and [`Error::Schema`] if the
    /// paths of some files and other files themselves have a column without a common type.
    pub(super) fn new(request: &ColumnRequest<'_>, of_files: &Schema) -> Result<Self> {
        let &ColumnRequest { located, options, .. } = request;
        let partitions = partition_names(located);
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut sources = Vec::new();

        for (at, field) in of_files.fields().iter().enumerate() {
            if partitions.contains(&field.name().as_str()) {
                continue;
            }
            fields.push(with_cast_type(field, options));
            sources.push(ColumnSource::File(at));
        }

        for name in partitions {
            let own = of_files.fields().find(name).filter(|_| !request.is_of_all_paths(name));
            let data_type = path_type(request, name, own.map(|(_, field)| field))?;
            let values = located.iter().map(|file| path_value(file, name, &data_type));
            let values = values.collect::<Result<Vec<_>>>()?;
            fields.push(Arc::new(Field::new(name, data_type, true)));
            sources.push(ColumnSource::Path { values, of_file: own.map(|(at, _)| at) });
        }

        if let Some(column) = &options.row_number {
            fields.push(Arc::new(Field::new(column, DataType::Int64, false)));
            sources.push(ColumnSource::RowNumber);
        }
        for field in absent_fields(&fields, options) {
            fields.push(field);
            sources.push(ColumnSource::Absent);
        }

        options.add_field_metadata(fields.iter_mut());
        let mut metadata = of_files.metadata().clone();
        options.add_metadata(&mut metadata);
        let schema = Schema::new_with_metadata(fields, metadata);
        let texts = path_texts(&schema, located, options);
        let filter = request.filter.map(|filter| texts.rewrite(filter)).transpose()?;
        let files = located.iter().map(|file| file.name()).collect();
        Ok(Self { schema: Arc::new(schema), sources, files, filter })
    }

    /// Returns all columns that may be read.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the filter for this schema.
    pub(super) fn filter(&self) -> Option<&Predicate> {
        self.filter.as_ref()
    }

    /// Returns the files without rows that pass the filter, by the values of their paths.
    pub(super) fn pruned_files(&self) -> Result<BTreeSet<usize>> {
        let has_paths = self.sources.iter().any(|source| matches!(source, ColumnSource::Path { .. }));
        let Some(filter) = self.filter.as_ref().filter(|_| has_paths) else { return Ok(BTreeSet::new()) };

        let bound = filter.bind(&self.schema)?;
        let is_pruned = |file: &usize| {
            prune(&bound, &PathStatistics { table: self, file: *file }) == [PruneVerdict::None]
        };
        Ok((0..self.files.len()).filter(is_pruned).collect())
    }

    /// Selects columns by their indices.
    pub(super) fn project(&self, columns: &[usize]) -> TableProjection {
        let sources = columns.iter().filter_map(|at| self.sources.get(*at));
        let mut of_files: Vec<usize> = sources.filter_map(ColumnSource::of_file).collect();
        of_files.sort_unstable();
        of_files.dedup();

        let fields = columns.iter().filter_map(|at| self.schema.fields().get(*at).cloned());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        TableProjection { columns: columns.to_vec(), of_files, schema }
    }

    /// Returns true if a column is not read from the files, so that a batch may need more memory than its file.
    pub(super) fn adds_columns(&self, projection: &TableProjection) -> bool {
        let sources = projection.columns.iter().filter_map(|at| self.sources.get(*at));
        sources.into_iter().any(|source| !matches!(source, ColumnSource::File(_)))
    }

    /// Builds the columns of the table from a batch of the columns of a file. `first_row` is the number of its
    /// first row within the file.
    pub(super) fn batch(
        &self,
        projection: &TableProjection,
        file: usize,
        first_row: usize,
        batch: &RecordBatch,
    ) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(projection.columns.len());

        for (at, field) in projection.columns.iter().zip(projection.schema.fields()) {
            let of_file = |at: usize| {
                let index = projection.of_files.binary_search(&at).ok()?;
                batch.columns().get(index)
            };
            columns.push(match self.sources.get(*at) {
                Some(ColumnSource::File(own)) => self.typed(of_file(*own), file, field)?,
                Some(ColumnSource::Path { values, of_file: own }) => match (values.get(file), own) {
                    (Some(Some(value)), _) => repeated(value, rows)?,
                    (_, Some(own)) => self.typed(of_file(*own), file, field)?,
                    (_, None) => new_null_array(field.data_type(), rows),
                },
                Some(ColumnSource::RowNumber) => row_numbers(first_row, rows),
                Some(ColumnSource::Absent) => new_null_array(field.data_type(), rows),
                None => return Err(missing(field)),
            });
        }

        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(projection.schema.clone(), columns, &options)
            .map_err(Error::arrow("choosing columns"))
    }

    /// Casts a column of a file to its type in the table.
    fn typed(&self, column: Option<&ArrayRef>, file: usize, field: &Field) -> Result<ArrayRef> {
        let (Some(column), Some(name)) = (column, self.files.get(file)) else { return Err(missing(field)) };
        common_cast(column, field.data_type())
            .map_err(|error| Error::misfit(name.clone(), field.name(), &error))
    }
}

/// Returns the error of a column that a batch of a file should have.
fn missing(field: &Field) -> Error {
    let reason = format!("column {} is missing", field.name());
    Error::arrow("choosing columns")(ArrowError::SchemaError(reason))
}

/// Returns a field of the files with the type that the caller gave, if any.
fn with_cast_type(field: &FieldRef, options: &TableOptions) -> FieldRef {
    match options.cast_type(field.name()) {
        Some(given) if given != field.data_type() => Arc::new(cast_field(field, given.clone())),
        _ => field.clone(),
    }
}

/// Returns the fields of the caller's schema that are not among `known`.
fn absent_fields(known: &[FieldRef], options: &TableOptions) -> Vec<FieldRef> {
    let names: HashSet<&str> = known.iter().map(|field| field.name().as_str()).collect();
    let of_schema = options.schema.iter().flat_map(|schema| schema.fields());
    let absent = of_schema.filter(|field| !names.contains(field.name().as_str()));
    absent.map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect()
}

/// Returns the type of a column of paths. `own` is the column of files whose paths lack it.
fn path_type(request: &ColumnRequest<'_>, name: &str, own: Option<&FieldRef>) -> Result<DataType> {
    let options = request.options;
    if let Some(given) = options.cast_type(name) {
        return Ok(given.clone());
    }

    let inferred = || inferred_type(partition_values(name, request.located));
    let of_paths = options.partition_types.get(name).cloned().unwrap_or_else(inferred);
    let Some(own) = own.map(|field| value_type(field.data_type())) else { return Ok(of_paths) };

    widened(&of_paths, own, finer).ok_or_else(|| {
        let lacking = request.located.iter().find(|file| !file.has_partition(name));
        let object = lacking.map(|file| file.name()).unwrap_or_default();
        let reason = format!("it is {own} here and {of_paths} in other paths");
        Error::Schema { object, column: name.to_owned(), reason }
    })
}

/// Returns the value of a path as an array of one row; `None` if the path has none.
fn path_value(file: &LocatedFile, name: &str, data_type: &DataType) -> Result<Option<ArrayRef>> {
    let Some((_, text)) = file.partitions.iter().find(|(known, _)| known == name) else { return Ok(None) };
    let Some(text) = text else { return Ok(Some(new_null_array(data_type, 1))) };

    let context = || Error::arrow(format!("{}: {name}", file.name()));
    let value = parse_value(text, value_type(data_type)).map_err(context())?;
    common_cast(&value, data_type).map(Some).map_err(context())
}

fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    take(value, &UInt32Array::from(vec![0_u32; rows]), None).map_err(Error::arrow("a value of a path"))
}

fn row_numbers(first: usize, rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((first..first + rows).map(|row| row as i64)))
}

/// Statistics of a whole file: the values of its path.
struct PathStatistics<'a> {
    table: &'a SequentialTable,
    file: usize,
}

impl PathStatistics<'_> {
    /// Returns the value of the path; `None` if the path has none.
    fn value(&self, column: &Column) -> Option<&ArrayRef> {
        let (at, _) = self.table.schema.column_with_name(column.name())?;
        match self.table.sources.get(at)? {
            ColumnSource::Path { values, .. } => values.get(self.file)?.as_ref(),
            ColumnSource::File(_) | ColumnSource::RowNumber | ColumnSource::Absent => None,
        }
    }

    fn bound(&self, column: &Column) -> Option<ArrayRef> {
        let value = self.value(column).filter(|value| value.is_valid(0))?;
        common_cast(value, value_type(value.data_type())).ok()
    }
}

impl PruningStatistics for PathStatistics<'_> {
    fn parts(&self) -> usize {
        1
    }

    fn min(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column)
    }

    fn max(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column)
    }

    fn null_counts(&self, column: &Column) -> Option<UInt64Array> {
        let value = self.value(column)?;
        Some(vec![u64::from(value.is_null(0))].into())
    }

    /// Returns one row, for all rows of the file: they have the same values.
    fn row_counts(&self) -> Option<UInt64Array> {
        Some(vec![1_u64].into())
    }
}
