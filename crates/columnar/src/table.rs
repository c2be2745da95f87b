//! The table that files make together: its columns, which of them come out, and where each is in each file.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, StringArray, new_null_array},
    compute::{cast_with_options, kernels::cast_utils::string_to_datetime},
    datatypes::{DataType, Field, FieldRef, Schema, TimeUnit},
};
use chrono::{NaiveDate, NaiveDateTime, Timelike, Utc};

use crate::{
    Error, Result,
    exact_cast::EXACT,
    format::FileMetadata,
    locate::Located,
    merged_column::{MergedColumn, TypeConflict},
    predicate::{Bound, Column, Root},
    schema::{Projected, finer, is_text, leaf_count, leaves_below, position, same_leaves, widened},
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
    /// None.
    None,
    /// These, whatever their type; booleans, durations and nested columns come out as they are.
    Columns(Vec<String>),
}

/// The columns of all files, and those that their paths give.
#[derive(Debug)]
pub(crate) struct Table {
    schema: Schema,
    by_name: HashMap<String, usize>,
    /// Why columns, by their place, are none that all files have together.
    conflicts: BTreeMap<usize, Error>,
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

/// Keys of a file's metadata that describe all of its columns, for readers who believe them more than the file's schema.
const OF_ONE_SCHEMA: [&str; 4] =
    ["org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema", "avro.schema", "iceberg.schema"];

/// An estimate of no more values than these is believed to be of less than 65,536.
const SURELY_FEW: u64 = 32_768;

/// The key type of dictionaries that paths give.
fn partition_type(values: DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(values))
}

impl Table {
    /// The table of these files: all columns of all of them, in the order in which they appear. Columns whose types do
    /// not go together are an error for those only who ask for them.
    pub(crate) fn of(files: &[(&Located, &FileMetadata)]) -> Self {
        let partitions = partition_names(files);
        let mut columns: Vec<MergedColumn> = Vec::new();
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        let mut conflicts = BTreeMap::new();
        let path = |at: usize| files.get(at).map(|(located, _)| located.path.to_string()).unwrap_or_default();
        let differ = |conflict: TypeConflict, column: &str| {
            let TypeConflict { file, data_type, other, before } = conflict;
            let reason = format!("it is {data_type} here and {before} in {}", path(other));
            Error::Schema { object: path(file), column: column.to_owned(), reason }
        };
        let mut metadata: Option<HashMap<String, String>> = None;
        for (at, (_, file)) in files.iter().enumerate() {
            let schema = file.schema();
            // What all files say alike holds of the table.
            match &mut metadata {
                None => metadata = Some(schema.metadata().clone()),
                Some(known) => known.retain(|key, value| schema.metadata().get(key) == Some(value)),
            }
            // What a path says wins over a column of the file.
            let of_file = schema.fields().iter().filter(|field| !partitions.contains(&field.name().as_str()));
            for field in of_file {
                let root = *by_name.entry(field.name()).or_insert(columns.len());
                let Some(known) = columns.get_mut(root) else {
                    columns.push(MergedColumn::of(field, at, file.is_orc()));
                    continue;
                };
                let conflict = match known.file == at {
                    true => {
                        let reason = "there are two of this name".to_owned();
                        Some(Error::Schema { object: path(at), column: field.name().clone(), reason })
                    }
                    false => {
                        known.add(field, at, file.is_orc()).err().map(|failed| differ(failed, field.name()))
                    }
                };
                if let Some(conflict) = conflict {
                    conflicts.entry(root).or_insert(conflict);
                }
            }
        }
        let mut fields: Vec<Field> = Vec::with_capacity(columns.len());
        for (root, column) in columns.into_iter().enumerate() {
            let (field, undecided) = column.finished(files.len());
            if let Some(conflict) = undecided {
                conflicts.entry(root).or_insert_with(|| differ(conflict, field.name()));
            }
            fields.push(field);
        }
        for name in partitions {
            let mut data_type = partition_values(name, files);
            // Where other paths do not say it, files may.
            for (located, file) in files {
                let is_of_path = located.partitions.iter().any(|(known, _)| known == name);
                let Ok(own) = file.schema().field_with_name(name) else { continue };
                if is_of_path {
                    continue;
                }
                match widened(&data_type, own.data_type(), finer) {
                    Some(wider) => data_type = wider,
                    None => {
                        let reason = format!("it is {} here and {data_type} in other paths", own.data_type());
                        let (object, column) = (located.path.to_string(), name.to_owned());
                        conflicts.entry(fields.len()).or_insert(Error::Schema { object, column, reason });
                    }
                }
            }
            fields.push(Field::new(name, partition_type(data_type), true));
        }
        let mut metadata = metadata.unwrap_or_default();
        OF_ONE_SCHEMA.iter().for_each(|key| drop(metadata.remove(*key)));
        Self { conflicts, ..Self::given(Schema::new_with_metadata(fields, metadata)) }
    }

    /// A table whose columns were worked out before.
    pub(crate) fn given(schema: Schema) -> Self {
        let mut by_name = HashMap::with_capacity(schema.fields().len());
        for (at, field) in schema.fields().iter().enumerate() {
            by_name.entry(field.name().clone()).or_insert(at);
        }
        Self { schema, by_name, conflicts: BTreeMap::new() }
    }

    /// Fails if the files have no common type for a top-level column.
    pub(crate) fn check(&self, root: usize) -> Result<()> {
        match self.conflicts.get(&root) {
            None => Ok(()),
            Some(conflict) => Err(conflict.clone()),
        }
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
        if let Some(root) = self.by_name.get(name) {
            return Some((*root, Vec::new()));
        }
        name.match_indices('.').find_map(|(dot, _)| {
            let root = self.by_name.get(name.get(..dot)?)?;
            Some((*root, name.get(dot + 1..)?.split('.').collect()))
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
        let mut places: HashMap<usize, usize> = HashMap::new();
        match columns {
            None => wanted.extend((0..self.schema.fields().len()).map(|root| (root, vec![Vec::new()]))),
            Some(columns) => {
                for column in columns {
                    let (root, path) = self.resolve(column).ok_or_else(|| self.no_such_column(column))?;
                    let place = *places.entry(root).or_insert(wanted.len());
                    match wanted.get_mut(place) {
                        Some((_, paths)) => paths.push(path),
                        None => wanted.push((root, vec![path])),
                    }
                }
            }
        }
        if let Dictionaries::Columns(names) = dictionaries
            && let Some(unknown) = names.iter().find(|name| !self.by_name.contains_key(*name))
        {
            return Err(self.no_such_column(unknown));
        }
        let output = |(root, paths): (usize, Vec<Vec<&str>>)| {
            self.check(root)?;
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
        let table = self.schema.field(projected.root);
        let name = table.name();
        let value = located.partitions.iter().find(|(partition, _)| partition == name);
        if value.is_none()
            && let Some(root) = position(file.schema(), name, projected.root)
        {
            let own = file.schema().field(root).data_type();
            let leaves = projected.leaves.as_ref().map(|leaves| same_leaves(own, table.data_type(), leaves));
            let leaves = leaves.filter(|leaves| leaves.len() < leaf_count(own));
            return Ok(FileColumn::Read(Projected { root, leaves }));
        }
        let value = match value {
            Some((_, Some(text))) => {
                let text: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
                cast_with_options(&text, values, &EXACT).map_err(Error::arrow(format!("{object}: {name}")))?
            }
            _ => new_null_array(values, 1),
        };
        Ok(FileColumn::Value(value))
    }

    /// The top-level columns that a filter looks at, each less the fields that it does not.
    pub(crate) fn filtered(&self, filter: &Bound) -> Vec<Filtered> {
        let filtered = |(at, root): (usize, &Root)| {
            let columns = filter.columns().iter().filter(|column| column.root == at);
            let paths: Vec<Vec<&str>> =
                columns.map(|column| column.path.iter().map(String::as_str).collect()).collect();
            let field = Arc::new(self.schema.field(root.index).clone());
            let leaves = leaves_below(&field, &paths).flatten();
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
            let fits = output.values == values
                || widened(&output.values, &values, finer).is_some_and(|wider| wider == values);
            if !fits {
                let reason =
                    format!("it is {} now and was {values} when the scan was planned", output.values);
                let object = "the schema given".to_owned();
                return Err(Error::Schema { object, column: field.name().clone(), reason });
            }
            let insist = output.insist || matches!(field.data_type(), DataType::Dictionary(..));
            Ok(Self { field: field.clone(), values, insist, ..output })
        });
        retyped.collect()
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
            has_dictionaries(&values)
                && all_files(&field, projected.root, files, FileMetadata::has_only_dictionaries)
        }
        Dictionaries::Auto | Dictionaries::None => false,
    };
    let automatic = *dictionaries == Dictionaries::Auto
        && is_text
        && all_files(&field, projected.root, files, FileMetadata::repeats);
    let field = if is_partition && *dictionaries == Dictionaries::None {
        Arc::new(field.as_ref().clone().with_data_type(values.clone()))
    } else if is_partition || !(insist || automatic) {
        field
    } else {
        // A batch of 65,536 rows has no more values than two bytes tell apart, so these are always enough; but to
        // make them so where dictionaries are larger takes time.
        let few = |(_, file): &(&Located, &FileMetadata)| match position(
            file.schema(),
            field.name(),
            projected.root,
        ) {
            Some(root) => file.most_values(root).is_some_and(|values| values <= SURELY_FEW),
            None => true,
        };
        let key = if automatic || files.iter().all(few) { DataType::UInt16 } else { DataType::UInt32 };
        let coded = DataType::Dictionary(Box::new(key), Box::new(values.clone()));
        let mut field = field.as_ref().clone().with_data_type(coded);
        // An extension type is one of its own storage, not of codes.
        field.metadata_mut().retain(|key, _| !key.starts_with("ARROW:extension:"));
        Arc::new(field)
    };
    Output { field, projected, values, insist }
}

/// Whether something holds of a column in all files that have it and rows, and there is one.
fn all_files(
    field: &Field,
    root: usize,
    files: &[(&Located, &FileMetadata)],
    holds: fn(&FileMetadata, usize) -> bool,
) -> bool {
    let mut with_it = files
        .iter()
        .filter(|(_, file)| file.units() > 0)
        .filter_map(|(_, file)| Some(holds(file, position(file.schema(), field.name(), root)?)))
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

/// The names of the columns that paths give, in the order in which they appear.
fn partition_names<'f>(files: &[(&'f Located, &FileMetadata)]) -> Vec<&'f str> {
    let mut names: Vec<&str> = Vec::new();
    for (located, _) in files {
        for (name, _) in &located.partitions {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    names
}

/// The type of what paths say: whole numbers, days or points in time where all values are, else text.
fn partition_values(name: &str, files: &[(&Located, &FileMetadata)]) -> DataType {
    let values = || {
        let all = files.iter().flat_map(|(located, _)| &located.partitions);
        all.filter(|(known, _)| known == name).filter_map(|(_, value)| value.as_deref())
    };
    // What is written in another way, such as 007, is a name and not a number.
    let is_whole = |value: &str| value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
    let is_date = |value: &str| {
        let parsed = NaiveDate::parse_from_str(value, "%Y-%m-%d");
        parsed.is_ok_and(|date| date.to_string() == value)
    };
    let is_moment = |value: &str| {
        let parsed = NaiveDateTime::parse_from_str(value, "%Y-%m-%d %H:%M:%S%.f");
        // Neither leap seconds nor nanoseconds.
        parsed.is_ok_and(|time| time.nanosecond() < 1_000_000_000 && time.nanosecond() % 1_000 == 0)
            && string_to_datetime(&Utc, value).is_ok()
    };
    match () {
        () if values().all(is_whole) => DataType::Int64,
        () if values().all(is_date) => DataType::Date32,
        () if values().all(is_moment) => DataType::Timestamp(TimeUnit::Microsecond, None),
        () => DataType::Utf8,
    }
}
