//! The table that files make together: its columns, which of them come out, and where each is in each file.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::{
    array::{ArrayRef, StringArray, new_null_array},
    compute::cast_with_options,
    datatypes::{DataType, Field, FieldRef, Schema},
};

use crate::{
    Error, Result,
    exact_cast::EXACT,
    format::FileMetadata,
    locate::Located,
    merged_column::MergedColumn,
    predicate::{Bound, Column, Root},
    schema::{Projected, is_text, leaves_below},
};

/// Which columns come out as dictionaries.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Dictionaries {
    /// Columns of strings or bytes whose values repeat, as far as the files' footers tell.
    #[default]
    Auto,
    /// Columns of any type that the files store as nothing but dictionaries, however many values these have.
    Stored,
    /// All columns of strings or bytes.
    All,
    /// None but those that paths give.
    None,
    /// These, whatever their type; booleans, durations and nested columns come out as they are.
    Columns(Vec<String>),
}

/// The columns of all files, and those that their paths give.
#[derive(Debug)]
pub(crate) struct Table {
    schema: Schema,
}

/// A column that comes out.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Its name and type as it comes out.
    pub(crate) field: FieldRef,
    /// Which column of the table it is, and which leaves of it.
    pub(crate) projected: Projected,
    /// The type of its values: that of the field, less the dictionary.
    pub(crate) values: DataType,
    /// Whether it is read as a dictionary even where the file has none.
    pub(crate) insist: bool,
}

/// A column that a filter looks at.
#[derive(Clone, Debug)]
pub(crate) struct Filtered {
    /// Its name and type, less the fields that are not looked at.
    pub(crate) field: FieldRef,
    /// Which column of the table it is, and which leaves of it.
    pub(crate) projected: Projected,
}

/// Where a file has a column.
#[derive(Clone, Debug)]
pub(crate) enum FileColumn {
    /// It is read.
    Read(Projected),
    /// All rows have this one value: its path's, or null where the file has no such column.
    Value(ArrayRef),
}

/// An estimate of no more values than these is believed to be of less than 65,536.
const SURELY_FEW: u64 = 32_768;

/// The key type of dictionaries that paths give.
fn partition_type(values: DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(values))
}

impl Table {
    /// The table of these files: all columns of all of them, in the order in which they appear.
    pub(crate) fn of(files: &[(&Located, &FileMetadata)]) -> Result<Self> {
        let mut columns: Vec<MergedColumn> = Vec::new();
        let mut metadata = None;
        for (at, (located, file)) in files.iter().enumerate() {
            let schema = file.schema();
            let wrong = |field: &Field, reason: String| Error::Schema {
                object: located.path.to_string(),
                column: field.name().clone(),
                reason,
            };
            metadata.get_or_insert_with(|| schema.metadata().clone());
            for field in schema.fields() {
                let Some(known) = columns.iter_mut().find(|known| known.field.name() == field.name()) else {
                    columns.push(MergedColumn::of(field, at, file.is_orc()));
                    continue;
                };
                if known.file == at {
                    return Err(wrong(field, "there are two of this name".to_owned()));
                }
                known.add(field, at, file.is_orc()).ok_or_else(|| {
                    let (here, before) = (field.data_type(), known.field.data_type());
                    wrong(field, format!("it is {here} here and {before} in files before"))
                })?;
            }
        }
        let mut fields: Vec<Field> = columns.into_iter().map(|column| column.field).collect();
        add_partitions(files, &mut fields);
        let nullable = |field: Field| {
            // A column is without nulls only where each file has it so.
            let always = files.iter().all(|(_, file)| {
                file.schema().field_with_name(field.name()).is_ok_and(|of_file| !of_file.is_nullable())
            });
            field.with_nullable(!always)
        };
        let fields: Vec<Field> = fields.into_iter().map(nullable).collect();
        Ok(Self { schema: Schema::new_with_metadata(fields, metadata.unwrap_or_default()) })
    }

    /// A table whose columns were worked out before.
    pub(crate) fn given(schema: Schema) -> Self {
        Self { schema }
    }

    /// All columns.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The columns that come out, or that the filter looks at.
    pub(crate) fn relevant(&self, outputs: &[Output], filtered: Vec<Column>) -> Schema {
        let mut roots: BTreeSet<usize> = outputs.iter().map(|output| output.projected.root).collect();
        roots.extend(filtered.iter().filter_map(|column| self.resolve(column.name()).map(|(root, _)| root)));
        Schema::new(roots.iter().map(|root| self.schema.field(*root).clone()).collect::<Vec<_>>())
    }

    /// The top-level column that a name begins with, and the names of the fields below it.
    pub(crate) fn resolve<'n>(&self, name: &'n str) -> Option<(usize, Vec<&'n str>)> {
        if let Ok(root) = self.schema.index_of(name) {
            return Some((root, Vec::new()));
        }
        name.match_indices('.').find_map(|(dot, _)| {
            let root = self.schema.index_of(name.get(..dot)?).ok()?;
            Some((root, name.get(dot + 1..)?.split('.').collect()))
        })
    }

    fn no_such_column(&self, column: &str) -> Error {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        Error::NoSuchColumn { column: column.to_owned(), available: names.join(", ") }
    }

    /// The columns that were asked for, in that order; several fields of one struct are one column.
    pub(crate) fn outputs(
        &self,
        columns: Option<&[String]>,
        dictionaries: &Dictionaries,
        files: &[(&Located, &FileMetadata)],
    ) -> Result<Vec<Output>> {
        let mut wanted: Vec<(usize, Vec<Vec<&str>>)> = Vec::new();
        match columns {
            None => wanted.extend((0..self.schema.fields().len()).map(|root| (root, vec![Vec::new()]))),
            Some(columns) => {
                for column in columns {
                    let (root, path) = self.resolve(column).ok_or_else(|| self.no_such_column(column))?;
                    match wanted.iter_mut().find(|(known, _)| *known == root) {
                        Some((_, paths)) => paths.push(path),
                        None => wanted.push((root, vec![path])),
                    }
                }
            }
        }
        if let Dictionaries::Columns(names) = dictionaries
            && let Some(unknown) = names.iter().find(|name| self.schema.index_of(name).is_err())
        {
            return Err(self.no_such_column(unknown));
        }
        let output = |(root, paths): (usize, Vec<Vec<&str>>)| {
            let field = Arc::new(self.schema.field(root).clone());
            let leaves = leaves_below(&field, &paths).ok_or_else(|| {
                let path = paths.iter().map(|path| path.join(".")).collect::<Vec<_>>().join(", ");
                self.no_such_column(&format!("{}.{path}", field.name()))
            })?;
            let projected = Projected { root, leaves };
            let field = projected.field(&field);
            Ok(as_output(field, projected, dictionaries, files))
        };
        wanted.into_iter().map(output).collect()
    }

    /// Where a file has a column that comes out.
    pub(crate) fn column_of_file(
        &self,
        projected: &Projected,
        values: &DataType,
        located: &Located,
        file: &FileMetadata,
        object: &str,
    ) -> Result<FileColumn> {
        let name = self.schema.field(projected.root).name();
        if let Ok(root) = file.schema().index_of(name) {
            let own = file.schema().field(root);
            let table = self.schema.field(projected.root);
            if projected.leaves.is_some() && !same_layout(own.data_type(), table.data_type()) {
                let reason =
                    "its fields differ from those of other files: ask for the whole column".to_owned();
                return Err(Error::Schema { object: object.to_owned(), column: name.clone(), reason });
            }
            return Ok(FileColumn::Read(Projected { root, leaves: projected.leaves.clone() }));
        }
        let value = located.partitions.iter().find(|(partition, _)| partition == name);
        let value = match value {
            Some((_, Some(text))) => {
                let text: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
                cast_with_options(&text, values, &EXACT).map_err(Error::arrow(format!("{object}: {name}")))?
            }
            _ => new_null_array(values, 1),
        };
        Ok(FileColumn::Value(value))
    }

    /// The top-level columns that a filter looks at, each less the fields that it does not, if all files have the same.
    pub(crate) fn filtered(&self, filter: &Bound, files: &[(&Located, &FileMetadata)]) -> Vec<Filtered> {
        let filtered = |(at, root): (usize, &Root)| {
            let columns = filter.columns().iter().filter(|column| column.root == at);
            let paths: Vec<Vec<&str>> =
                columns.map(|column| column.path.iter().map(String::as_str).collect()).collect();
            let field = Arc::new(self.schema.field(root.index).clone());
            let is_alike = |(_, file): &(&Located, &FileMetadata)| {
                let own = file.schema().field_with_name(field.name());
                own.map_or(true, |own| same_layout(own.data_type(), field.data_type()))
            };
            let leaves = leaves_below(&field, &paths).flatten().filter(|_| files.iter().all(is_alike));
            let projected = Projected { root: root.index, leaves };
            Filtered { field: projected.field(&field), projected }
        };
        filter.roots().iter().enumerate().map(filtered).collect()
    }

    /// Where a file has a column that the filter looks at.
    pub(crate) fn filtered_of_file(
        &self,
        filtered: &Filtered,
        located: &Located,
        file: &FileMetadata,
        object: &str,
    ) -> Result<FileColumn> {
        let values = value_type(filtered.field.data_type());
        self.column_of_file(&filtered.projected, values, located, file, object)
    }
}

impl Output {
    /// The outputs with the types that another plan decided.
    pub(crate) fn with_types_of(outputs: Vec<Self>, schema: &Schema) -> Result<Vec<Self>> {
        if outputs.len() != schema.fields().len() {
            let reason = format!("{} columns come out, not {}", outputs.len(), schema.fields().len());
            return Err(Error::Schema {
                object: "the schema given".to_owned(),
                column: String::new(),
                reason,
            });
        }
        let retyped = outputs.into_iter().zip(schema.fields()).map(|(output, field)| {
            let values = value_type(field.data_type()).clone();
            let insist = output.insist || matches!(field.data_type(), DataType::Dictionary(..));
            Self { field: field.clone(), values, insist, ..output }
        });
        Ok(retyped.collect())
    }
}

fn as_output(
    field: FieldRef,
    projected: Projected,
    dictionaries: &Dictionaries,
    files: &[(&Located, &FileMetadata)],
) -> Output {
    let values = value_type(field.data_type()).clone();
    let is_partition = matches!(field.data_type(), DataType::Dictionary(..));
    let is_text = is_text(&values);
    let insist = match dictionaries {
        Dictionaries::All => is_text,
        Dictionaries::Columns(names) => {
            has_dictionaries(&values) && names.iter().any(|name| name == field.name())
        }
        Dictionaries::Stored => {
            has_dictionaries(&values) && all_files(&field, files, FileMetadata::has_only_dictionaries)
        }
        Dictionaries::Auto | Dictionaries::None => false,
    };
    let automatic =
        *dictionaries == Dictionaries::Auto && is_text && all_files(&field, files, FileMetadata::repeats);
    let field = if is_partition || !(insist || automatic) {
        field
    } else {
        // A batch of 65,536 rows has no more values than two bytes tell apart, so these are always enough; but to
        // make them so where dictionaries are larger takes time.
        let few = |(_, file): &(&Located, &FileMetadata)| match file.schema().index_of(field.name()) {
            Ok(root) => file.most_values(root).is_some_and(|values| values <= SURELY_FEW),
            Err(_) => true,
        };
        let key = if automatic || files.iter().all(few) { DataType::UInt16 } else { DataType::UInt32 };
        Arc::new(
            field
                .as_ref()
                .clone()
                .with_data_type(DataType::Dictionary(Box::new(key), Box::new(values.clone()))),
        )
    };
    Output { field, projected, values, insist }
}

/// Whether something holds of a column in all files that have it and rows, and there is one.
fn all_files(
    field: &Field,
    files: &[(&Located, &FileMetadata)],
    holds: fn(&FileMetadata, usize) -> bool,
) -> bool {
    let mut with_it = files
        .iter()
        .filter(|(_, file)| file.units() > 0)
        .filter_map(|(_, file)| Some(holds(file, file.schema().index_of(field.name()).ok()?)))
        .peekable();
    with_it.peek().is_some() && with_it.all(|holds| holds)
}

/// Whether arrow makes dictionaries of such values; others come out as they are, whoever asks for one.
fn has_dictionaries(values: &DataType) -> bool {
    let without =
        matches!(values, DataType::Boolean | DataType::Null | DataType::Duration(_) | DataType::Interval(_));
    !without && !values.is_nested()
}

/// The type of the values, without the dictionary that they may come as.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Whether two nested types have the same fields at the same places, whatever the types of these.
fn same_layout(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.name() == b.name() && same_layout(a.data_type(), b.data_type()))
        }
        (DataType::List(a), DataType::List(b)) | (DataType::Map(a, _), DataType::Map(b, _)) => {
            same_layout(a.data_type(), b.data_type())
        }
        (a, b) => a == b || (!a.is_nested() && !b.is_nested()),
    }
}

/// Adds the columns that paths give, unless files have columns of these names: whole numbers where all values are,
/// else text.
fn add_partitions(files: &[(&Located, &FileMetadata)], fields: &mut Vec<Field>) {
    let mut names: Vec<&str> = Vec::new();
    for (located, _) in files {
        for (name, _) in &located.partitions {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    for name in names {
        if fields.iter().any(|field| field.name() == name) {
            continue;
        }
        let values = files.iter().flat_map(|(located, _)| &located.partitions);
        let mut values = values.filter(|(known, _)| known == name).filter_map(|(_, value)| value.as_deref());
        // What is written in another way, such as 007, is a name and not a number.
        let whole = values.all(|value| value.parse::<i64>().is_ok_and(|number| number.to_string() == value));
        let data_type = if whole { DataType::Int64 } else { DataType::Utf8 };
        fields.push(Field::new(name, partition_type(data_type), true));
    }
}
