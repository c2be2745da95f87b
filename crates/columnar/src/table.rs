//! Merges the schemas of several files into a table, and maps the table's columns to those of each file.

pub(super) mod column_path;
pub(super) mod locate;
pub(super) mod merged_column;
pub(super) mod merged_metadata;
pub(super) mod options;
pub(super) mod partition_type;
pub(super) mod statistics;
pub(super) mod timestamp_reach;
pub(super) mod type_name;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, new_null_array},
    datatypes::{DataType, Field, FieldRef, Schema},
};

use crate::{
    Error, Result,
    file::schema::{
        ProjectedColumn, cast_field, finer, has_dictionaries, is_text, leaf_count, leaves_below, same_leaves,
        value_type, widened, without_list_views,
    },
    format::FileMetadata,
    predicate::{BoundPredicate, Column, PathTexts, Predicate, RootColumn},
    table::{
        column_path::column_path,
        locate::LocatedFile,
        merged_column::{MergedColumn, TypeConflict},
        merged_metadata::merged_metadata,
        options::TableOptions,
        partition_type::{inferred_type, parse_value},
        timestamp_reach::farther,
    },
};

/// The columns that a scan returns as dictionaries.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Dictionaries {
    /// Columns that were written from dictionaries in all files: every column has the type that it was written with.
    #[default]
    AsWritten,
    /// Columns of strings or bytes whose values repeat, according to the footers.
    Auto,
    /// Columns of any type that all files store only as dictionaries, however large.
    Stored,
    /// All columns of strings or bytes.
    All,
    /// No columns.
    None,
    /// These columns, of any type; booleans, durations and nested columns are returned unchanged.
    Columns(Vec<String>),
}

/// The type of strings and bytes that are not returned as dictionaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Strings {
    /// The type that they were written with.
    #[default]
    AsWritten,
    /// Views, which point into the file's dictionary if it has one. Nested columns keep their types, except that list
    /// views, which few readers of views accept, become lists.
    View,
}

/// Options for the types of the columns that a scan returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputTypes<'r> {
    pub(crate) dictionaries: &'r Dictionaries,
    pub(crate) strings: Strings,
}

/// The columns of all files and the partition columns of their paths.
#[derive(Debug)]
pub(crate) struct TableSchema {
    schema: Schema,
    /// Columns, by position, that were written with the same dictionary type in all files.
    written: BTreeMap<usize, FieldRef>,
    by_name: HashMap<String, usize>,
    /// Columns, by position, whose type the caller gave: statistics of files do not apply to their values.
    casts: BTreeSet<usize>,
    /// The column of row numbers.
    row_number: Option<usize>,
    /// Errors of columns, by position, that have no type common to all files.
    conflicts: BTreeMap<usize, Error>,
    /// Names shared by several columns, which cannot be requested by name.
    repeated: BTreeSet<String>,
    /// The values of partition columns whose type was inferred to be text.
    path_texts: PathTexts,
}

/// A column that a scan returns.
#[derive(Clone, Debug)]
pub(crate) struct OutputColumn {
    /// Name and type as returned.
    pub(crate) field: FieldRef,
    /// The column of the table, and its leaves.
    pub(crate) projected: ProjectedColumn,
    /// The type of its values: that of the field without the dictionary.
    pub(crate) values: DataType,
    /// True if the column is read as a dictionary even if the file has none.
    pub(crate) insist: bool,
}

/// A column that a filter reads.
#[derive(Clone, Debug)]
pub(crate) struct FilterColumn {
    /// Name and type, without the fields that are not read.
    pub(crate) field: FieldRef,
    /// The column of the table, and its leaves.
    pub(crate) projected: ProjectedColumn,
}

/// The source of a column of the table for one file.
#[derive(Clone, Debug)]
pub(crate) enum FileColumn {
    /// A column of the file.
    Read(ProjectedColumn),
    /// The value of all rows: that of the path, or null if the file has no such column.
    Value(ArrayRef),
    /// The number of each row within the file.
    RowNumber,
}

/// Largest estimated number of values that is trusted to mean fewer than 65,536.
const MAX_TRUSTED_ESTIMATE: u64 = 32_768;

/// Returns the type of a partition column.
fn partition_type(values: DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(values))
}

impl TableSchema {
    /// Merges the schemas of these files: all columns, in the order in which they first appear. Columns without a
    /// common type are errors only if they are requested.
    ///
    /// Fails if `options` name a column that no file has, or a partition column that no path has.
    pub(crate) fn of(files: &[(&LocatedFile, &FileMetadata)], options: &TableOptions) -> Result<Self> {
        let located: Vec<&LocatedFile> = files.iter().map(|(located, _)| *located).collect();
        let partitions = partition_names(&located);
        options.check_partitions(&partitions)?;
        let mut columns: Vec<MergedColumn> = Vec::new();
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        let mut repeated: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        let mut conflicts = BTreeMap::new();
        let path = |at: usize| files.get(at).map(|(located, _)| located.name()).unwrap_or_default();
        let differ = |conflict: TypeConflict, column: &str| {
            let TypeConflict { file, data_type, other, before } = conflict;
            let reason = format!("it is {data_type} here and {before} in {}", path(other));
            Error::Schema { object: path(file), column: column.to_owned(), reason }
        };

        for (at, (_, file)) in files.iter().enumerate() {
            // Partition values take precedence over a column of the file.
            let of_file = file.schema().fields().iter().zip(file.written()).enumerate();
            let of_file = of_file.filter(|(_, (field, _))| !partitions.contains(&field.name().as_str()));
            let mut occurrences: HashMap<&str, usize> = HashMap::new();

            for (own, (field, written)) in of_file {
                let is_chosen = file.has_chosen_unit(own);
                let mut root = *by_name.entry(field.name()).or_insert(columns.len());
                // Several columns of one name are matched by their order.
                if columns.get(root).is_some_and(|known| known.file == at) {
                    let nth = occurrences.entry(field.name()).or_insert(0);
                    *nth += 1;
                    root = *repeated.entry((field.name(), *nth)).or_insert(columns.len());
                }

                if let Some(error) = file.unreadable(own) {
                    conflicts.entry(root).or_insert(error);
                }
                let Some(known) = columns.get_mut(root) else {
                    columns.push(MergedColumn::of(field, at, is_chosen).written_as(written));
                    continue;
                };

                let conflict = known.add(field, at, is_chosen).err();
                known.add_written(written);
                if let Some(conflict) = conflict {
                    conflicts.entry(root).or_insert_with(|| differ(conflict, field.name()));
                }
            }
        }

        let repeated: BTreeSet<&str> = repeated.into_keys().map(|(name, _)| name).collect();
        conflicts.extend(repeated_conflicts(&columns, &repeated, files));
        let repeated = repeated.into_iter().map(str::to_owned).collect();

        let written = columns.iter().enumerate();
        let written = written.filter_map(|(at, column)| Some((at, column.written(files.len())?))).collect();
        let metadata_of_files: Vec<&FileMetadata> = files.iter().map(|(_, file)| *file).collect();
        let schemas: Vec<&Schema> = files.iter().map(|(_, file)| file.schema().as_ref()).collect();

        let mut fields: Vec<Field> = Vec::with_capacity(columns.len());
        for (root, column) in columns.into_iter().enumerate() {
            let (mut field, undecided) = column.finished(files.len());
            if let Some(data_type) = farther(&field, root, &metadata_of_files) {
                field.set_data_type(data_type);
            }
            if let Some(conflict) = undecided {
                conflicts.entry(root).or_insert_with(|| differ(conflict, field.name()));
            }
            fields.push(field);
        }

        for name in partitions {
            let given = options.partition_types.get(name).cloned();
            let mut data_type = given.unwrap_or_else(|| inferred_type(partition_values(name, &located)));
            // Files whose paths lack the partition may have it as a column.
            for (located, file) in files {
                if located.partitions.iter().any(|(known, _)| known == name) {
                    continue;
                }
                let Some((_, own)) = file.schema().column_with_name(name) else { continue };
                match widened(&data_type, own.data_type(), finer) {
                    Some(wider) => data_type = wider,
                    None => {
                        let reason = format!("it is {} here and {data_type} in other paths", own.data_type());
                        let object = located.name();
                        let column = name.to_owned();
                        conflicts.entry(fields.len()).or_insert(Error::Schema { object, column, reason });
                    }
                }
            }
            fields.push(Field::new(name, partition_type(data_type), true));
        }

        let schema = Schema::new_with_metadata(fields, merged_metadata(&schemas));
        let mut table =
            Self { conflicts, written, repeated, ..Self::planned(schema, &TableOptions::default()) };
        table.apply(options)?;
        Ok(table.with_path_texts(files, options))
    }

    /// Gives columns the types that `options` state, and adds those that no file has.
    fn apply(&mut self, options: &TableOptions) -> Result<()> {
        if let Some(unknown) = options.casts.keys().find(|column| !self.by_name.contains_key(*column)) {
            return Err(self.no_such_column(unknown));
        }

        let mut fields: Vec<FieldRef> = self.schema.fields().to_vec();
        for (column, data_type) in options.cast_columns() {
            let values = value_type(data_type).clone();
            let Some(root) = self.by_name.get(column).copied() else {
                fields.push(Arc::new(Field::new(column, data_type.clone(), true)));
                continue;
            };
            if self.repeated.contains(column) {
                return self.check_named(root);
            }

            let Some(field) = fields.get_mut(root) else { continue };
            let is_of_path = matches!(field.data_type(), DataType::Dictionary(..));
            if value_type(field.data_type()) == &values && value_type(data_type) == data_type {
                // Dictionaries of these values stay; nested types that contain some, or list views, do not.
                let is_other = |written: &FieldRef| value_type(written.data_type()) != data_type;
                if self.written.get(&root).is_some_and(is_other) {
                    self.written.remove(&root);
                }
                continue;
            }

            self.conflicts.remove(&root);
            self.casts.insert(root);
            let typed = |data_type: DataType| Arc::new(cast_field(field.as_ref(), data_type));
            if value_type(data_type) == data_type {
                self.written.remove(&root);
            } else {
                self.written.insert(root, typed(data_type.clone()));
            }
            *field = typed(if is_of_path { partition_type(values) } else { values });
        }
        if let Some(column) = &options.row_number {
            fields.push(Arc::new(Field::new(column, DataType::Int64, false)));
        }

        options.add_field_metadata(fields.iter_mut().chain(self.written.values_mut()));
        let mut metadata = self.schema.metadata().clone();
        options.add_metadata(&mut metadata);
        let schema = Schema::new_with_metadata(fields, metadata);
        let given = Self::planned(schema, options);
        self.schema = given.schema;
        self.by_name = given.by_name;
        self.row_number = given.row_number;
        Ok(())
    }

    /// Creates a table whose columns were planned before, with the same options.
    pub(crate) fn planned(schema: Schema, options: &TableOptions) -> Self {
        let mut by_name = HashMap::with_capacity(schema.fields().len());
        for (at, field) in schema.fields().iter().enumerate() {
            by_name.entry(field.name().clone()).or_insert(at);
        }

        let casts = options.cast_columns().filter_map(|(column, _)| by_name.get(column).copied()).collect();
        let row_number = options.row_number.as_ref().and_then(|column| by_name.get(column).copied());

        Self {
            schema,
            by_name,
            written: BTreeMap::new(),
            casts,
            row_number,
            conflicts: BTreeMap::new(),
            repeated: BTreeSet::new(),
            path_texts: PathTexts::default(),
        }
    }

    /// Adds the values of partition columns that are text because `options` give no type, if all paths have the column.
    pub(crate) fn with_path_texts(
        mut self,
        files: &[(&LocatedFile, &FileMetadata)],
        options: &TableOptions,
    ) -> Self {
        let located: Vec<&LocatedFile> = files.iter().map(|(located, _)| *located).collect();
        self.path_texts = path_texts(&self.schema, &located, options);
        self
    }

    /// Binds a filter to the columns of the table.
    pub(crate) fn bind(&self, predicate: &Predicate) -> Result<BoundPredicate> {
        if self.path_texts.is_empty() {
            return predicate.bind(&self.schema);
        }
        self.path_texts.rewrite(predicate)?.bind(&self.schema)
    }

    /// Fails if the files have no common type for a top-level column, or several columns of its name.
    pub(crate) fn check_named(&self, root: usize) -> Result<()> {
        let field = self.schema.field(root);
        if self.repeated.contains(field.name()) {
            return Err(Error::Schema {
                object: "the table".to_owned(),
                column: field.name().clone(),
                reason: "several columns have this name: ask for all columns, and tell them apart by their position"
                    .to_owned(),
            });
        }
        self.check(root)
    }

    /// Fails if the files have no common type for a top-level column.
    pub(crate) fn check(&self, root: usize) -> Result<()> {
        match self.conflicts.get(&root) {
            None => Ok(()),
            Some(conflict) => Err(conflict.clone()),
        }
    }

    /// Returns whether the caller gave the type of a top-level column.
    pub(crate) fn is_cast(&self, root: usize) -> bool {
        self.casts.contains(&root)
    }

    /// Returns all columns.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the columns that the scan returns or that its filter reads.
    pub(crate) fn relevant(&self, outputs: &[OutputColumn], filtered: Vec<Column>) -> Schema {
        let mut roots: BTreeSet<usize> = outputs.iter().map(|output| output.projected.root).collect();
        roots.extend(filtered.iter().filter_map(|column| self.resolve(column.name()).map(|(root, _)| root)));
        Schema::new(roots.iter().map(|root| self.schema.field(*root).clone()).collect::<Vec<_>>())
    }

    /// Returns the top-level column that a dotted name begins with, and the names of the fields below it. They may not
    /// exist: then the column is the shortest prefix.
    pub(crate) fn resolve<'n>(&'n self, name: &'n str) -> Option<(usize, Vec<&'n str>)> {
        if let Some(root) = self.by_name.get(name) {
            return Some((*root, Vec::new()));
        }
        column_path(self.schema.fields(), name)
    }

    fn no_such_column(&self, column: &str) -> Error {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        Error::NoSuchColumn { column: column.to_owned(), available: names.join(", ") }
    }

    /// Returns the requested columns, in that order; several fields of one struct are one column.
    pub(crate) fn outputs(
        &self,
        columns: Option<&[String]>,
        types: OutputTypes<'_>,
        files: &[(&LocatedFile, &FileMetadata)],
    ) -> Result<Vec<OutputColumn>> {
        let mut wanted: Vec<(usize, Vec<Vec<&str>>)> = Vec::new();
        let mut positions: HashMap<usize, usize> = HashMap::new();

        match columns {
            None => wanted.extend((0..self.schema.fields().len()).map(|root| (root, vec![Vec::new()]))),
            Some(columns) => {
                for column in columns {
                    let (root, path) = self.resolve(column).ok_or_else(|| self.no_such_column(column))?;
                    self.check_named(root)?;
                    let position = *positions.entry(root).or_insert(wanted.len());
                    match wanted.get_mut(position) {
                        Some((_, paths)) => paths.push(path),
                        None => wanted.push((root, vec![path])),
                    }
                }
            }
        }

        let mut coded: HashSet<&str> = HashSet::new();
        if let Dictionaries::Columns(names) = types.dictionaries {
            if let Some(unknown) = names.iter().find(|name| !self.by_name.contains_key(*name)) {
                return Err(self.no_such_column(unknown));
            }
            coded.extend(names.iter().map(String::as_str));
        }

        let output = |(root, paths): (usize, Vec<Vec<&str>>)| {
            self.check(root)?;
            let field = Arc::new(self.schema.field(root).clone());
            let leaves = leaves_below(&field, &paths).ok_or_else(|| {
                let path = paths.iter().map(|path| path.join(".")).collect::<Vec<_>>().join(", ");
                self.no_such_column(&format!("{}.{path}", field.name()))
            })?;

            let projected = ProjectedColumn { root, leaves };
            let field = projected.field(&field);
            let written = self.written.get(&root).filter(|_| *types.dictionaries == Dictionaries::AsWritten);
            let output = match written {
                Some(written) => OutputColumn::as_written(projected.field(written), projected),
                None => as_output(field, projected, types.dictionaries, &coded, files),
            };
            Ok(match types.strings {
                Strings::AsWritten => output,
                Strings::View => output.with_views(),
            })
        };
        wanted.into_iter().map(output).collect()
    }

    /// Returns the source of a column for one file.
    pub(crate) fn column_of_file(
        &self,
        projected: &ProjectedColumn,
        values: &DataType,
        located: &LocatedFile,
        file: &FileMetadata,
        object: &str,
    ) -> Result<FileColumn> {
        if self.row_number == Some(projected.root) {
            return Ok(FileColumn::RowNumber);
        }

        let table = self.schema.field(projected.root);
        let name = table.name();
        let value = located.partitions.iter().find(|(partition, _)| partition == name);
        if value.is_none()
            && let Some(root) = file.position_near(name, projected.root)
        {
            let own = file.schema().field(root).data_type();
            let leaves = projected.leaves.as_ref().map(|leaves| same_leaves(own, table.data_type(), leaves));
            let leaves = leaves.filter(|leaves| leaves.len() < leaf_count(own));
            return Ok(FileColumn::Read(ProjectedColumn { root, leaves }));
        }

        let value = match value {
            Some((_, Some(text))) => {
                parse_value(text, values).map_err(Error::arrow(format!("{object}: {name}")))?
            }
            _ => new_null_array(values, 1),
        };
        Ok(FileColumn::Value(value))
    }

    /// Returns the top-level columns that a filter reads, without the fields that it does not.
    pub(crate) fn filtered(&self, filter: &BoundPredicate) -> Vec<FilterColumn> {
        let filtered = |(at, root): (usize, &RootColumn)| {
            let columns = filter.columns().iter().filter(|column| column.root == at);
            let paths: Vec<Vec<&str>> =
                columns.map(|column| column.path.iter().map(String::as_str).collect()).collect();
            let field = Arc::new(self.schema.field(root.index).clone());
            let leaves = leaves_below(&field, &paths).flatten();
            let projected = ProjectedColumn { root: root.index, leaves };
            FilterColumn { field: projected.field(&field), projected }
        };
        filter.roots().iter().enumerate().map(filtered).collect()
    }

    /// Returns the source of a column of the filter for one file.
    pub(crate) fn filtered_of_file(
        &self,
        filtered: &FilterColumn,
        located: &LocatedFile,
        file: &FileMetadata,
        object: &str,
    ) -> Result<FileColumn> {
        let values = value_type(filtered.field.data_type());
        self.column_of_file(&filtered.projected, values, located, file, object)
    }
}

impl OutputColumn {
    /// Creates a column that was written from a dictionary, or contains dictionaries.
    fn as_written(field: FieldRef, projected: ProjectedColumn) -> Self {
        let values = value_type(field.data_type()).clone();
        let insist = matches!(field.data_type(), DataType::Dictionary(..));
        Self { field, projected, values, insist }
    }

    /// Changes the type of strings and bytes to views, and that of list views to lists.
    fn with_views(self) -> Self {
        let views = match self.field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            nested if nested.is_nested() => without_list_views(nested),
            _ => return self,
        };
        let field = Arc::new(self.field.as_ref().clone().with_data_type(views.clone()));
        Self { field, values: views, ..self }
    }

    /// Gives the outputs the types of another plan's schema.
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

/// Decides whether a column is returned as a dictionary, and with which keys. `coded` are the names of
/// [`Dictionaries::Columns`].
fn as_output(
    field: FieldRef,
    projected: ProjectedColumn,
    dictionaries: &Dictionaries,
    coded: &HashSet<&str>,
    files: &[(&LocatedFile, &FileMetadata)],
) -> OutputColumn {
    let values = value_type(field.data_type()).clone();
    let is_partition = matches!(field.data_type(), DataType::Dictionary(..));
    let is_text = is_text(&values);

    let insist = match dictionaries {
        Dictionaries::All => is_text,
        Dictionaries::Columns(_) => has_dictionaries(&values) && coded.contains(field.name().as_str()),
        Dictionaries::Stored => {
            has_dictionaries(&values)
                && all_files(&field, projected.root, files, FileMetadata::has_only_dictionaries)
        }
        Dictionaries::AsWritten | Dictionaries::Auto | Dictionaries::None => false,
    };
    let automatic = *dictionaries == Dictionaries::Auto
        && is_text
        && all_files(&field, projected.root, files, FileMetadata::repeats);
    let is_plain = matches!(dictionaries, Dictionaries::AsWritten | Dictionaries::None);

    let field = if is_partition && is_plain {
        Arc::new(field.as_ref().clone().with_data_type(values.clone()))
    } else if is_partition || !(insist || automatic) {
        field
    } else {
        // A batch has at most 65,536 rows, so 16-bit keys always suffice; but compacting larger dictionaries takes
        // time.
        let few = |(_, file): &(&LocatedFile, &FileMetadata)| {
            let root = file.position_near(field.name(), projected.root);
            root.is_none_or(|root| {
                file.max_dictionary_len(root).is_some_and(|values| values <= MAX_TRUSTED_ESTIMATE)
            })
        };
        let key = if automatic || files.iter().all(few) { DataType::UInt16 } else { DataType::UInt32 };
        let coded = DataType::Dictionary(Box::new(key), Box::new(values.clone()));
        Arc::new(cast_field(&field, coded))
    };

    OutputColumn { field, projected, values, insist }
}

/// Returns whether `holds` is true for a column in all files that have the column and any rows, and there is at least
/// one such file.
fn all_files(
    field: &Field,
    root: usize,
    files: &[(&LocatedFile, &FileMetadata)],
    holds: fn(&FileMetadata, usize) -> bool,
) -> bool {
    let mut with_it = files
        .iter()
        .filter(|(_, file)| file.row_group_count() > 0)
        .filter_map(|(_, file)| Some(holds(file, file.position_near(field.name(), root)?)))
        .peekable();
    with_it.peek().is_some() && with_it.all(|holds| holds)
}

/// Returns the errors of columns that share a name and whose position in some file differs from that in the table.
fn repeated_conflicts(
    columns: &[MergedColumn],
    repeated: &BTreeSet<&str>,
    files: &[(&LocatedFile, &FileMetadata)],
) -> BTreeMap<usize, Error> {
    let mut conflicts = BTreeMap::new();
    if repeated.is_empty() {
        return conflicts;
    }

    let of_table = positions_of(columns.iter().map(|column| column.field.name()), repeated);
    let of_files: Vec<HashMap<&str, Vec<usize>>> = files
        .iter()
        .map(|(_, file)| positions_of(file.schema().fields().iter().map(|field| field.name()), repeated))
        .collect();

    for (name, roots) in of_table {
        let Some(at) = of_files.iter().position(|own| own.get(name) != Some(&roots)) else { continue };
        let object = files.get(at).map(|(located, _)| located.name()).unwrap_or_default();
        let reason = "several columns have this name, in other places than in other files".to_owned();
        let conflict = Error::Schema { object, column: name.to_owned(), reason };
        conflicts.extend(roots.into_iter().map(|root| (root, conflict.clone())));
    }
    conflicts
}

/// Returns the positions of each of the wanted names, in ascending order.
fn positions_of<'n>(
    names: impl Iterator<Item = &'n String>,
    wanted: &BTreeSet<&str>,
) -> HashMap<&'n str, Vec<usize>> {
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, name) in names.enumerate().filter(|(_, name)| wanted.contains(name.as_str())) {
        positions.entry(name).or_default().push(at);
    }
    positions
}

/// Returns the names of the partition columns, in the order in which they first appear.
pub(crate) fn partition_names<'f>(files: &[&'f LocatedFile]) -> Vec<&'f str> {
    let mut names: Vec<&str> = Vec::new();
    for located in files {
        for (name, _) in &located.partitions {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    names
}

/// Returns the values of a partition column in all paths, without null.
pub(crate) fn partition_values<'f>(
    name: &'f str,
    files: &'f [&'f LocatedFile],
) -> impl Iterator<Item = &'f str> + Clone {
    let all = files.iter().flat_map(|located| &located.partitions);
    all.filter(move |(known, _)| known == name).filter_map(|(_, value)| value.as_deref())
}

/// Returns the values of partition columns that are text because `options` give no type, if all paths have the column.
pub(crate) fn path_texts(schema: &Schema, files: &[&LocatedFile], options: &TableOptions) -> PathTexts {
    let mut all = PathTexts::default();
    for name in partition_names(files) {
        let is_everywhere = files.iter().all(|located| located.has_partition(name));
        let column = schema.fields().find(name);
        let is_text = column.is_some_and(|(_, field)| *value_type(field.data_type()) == DataType::Utf8);
        let is_filename = options.filename.as_deref() == Some(name);

        if is_text && is_everywhere && !is_filename && !options.gives_type(name) {
            let texts: BTreeSet<&str> = partition_values(name, files).collect();
            all.insert(name.to_owned(), texts.into_iter().map(str::to_owned).collect());
        }
    }
    all
}
