//! The schema of several Arrow IPC files as one table. Columns are matched by name, and their types merged by the rules
//! for Parquet files.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::{
    Error, Result,
    file::schema::cast_field,
    table::{
        merged_column::{MergedColumn, TypeConflict},
        options::TableOptions,
    },
};

/// The columns of all files, in order of first appearance, and the position of each in each file.
pub(super) struct MergedIpcSchema {
    schema: SchemaRef,
    /// Position in each file of each column of the schema; `None` if the file lacks it.
    positions: Vec<Vec<Option<usize>>>,
    /// By column, the error of types without a common one.
    conflicts: BTreeMap<usize, Error>,
}

impl MergedIpcSchema {
    /// Merges the schemas of files, each with the name of its file.
    ///
    /// Columns that are the same dictionary type in all files stay dictionaries. Other dictionaries are replaced by
    /// their values.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] if several columns of a file have one name and another file has other names.
    pub(super) fn new(files: &[(String, SchemaRef)]) -> Result<Self> {
        check_repeated(files)?;

        let mut columns: Vec<MergedColumn> = Vec::new();
        let mut roots: HashMap<(&str, usize), usize> = HashMap::new();
        let mut positions: Vec<Vec<Option<usize>>> = Vec::with_capacity(files.len());
        let mut conflicts = BTreeMap::new();

        for (at, (_, schema)) in files.iter().enumerate() {
            let mut occurrences: HashMap<&str, usize> = HashMap::new();
            let mut of_file = vec![None; columns.len()];

            for (position, written) in schema.fields().iter().enumerate() {
                let occurrence = occurrences.entry(written.name()).or_default();
                let root = *roots.entry((written.name(), *occurrence)).or_insert(columns.len());
                *occurrence += 1;

                let values = without_dictionaries(written.data_type());
                let field = Field::clone(written).with_data_type(values);
                if let Some(column) = columns.get_mut(root) {
                    let conflict = column.add(&field, at, false).err();
                    column.add_written(written);
                    if let Some(conflict) = conflict {
                        conflicts.entry(root).or_insert_with(|| conflict_error(files, &conflict, &field));
                    }
                } else {
                    columns.push(MergedColumn::of(&field, at, false).written_as(written));
                    of_file.push(None);
                }

                if let Some(own) = of_file.get_mut(root) {
                    *own = Some(position);
                }
            }

            positions.push(of_file);
        }

        for of_file in &mut positions {
            of_file.resize(columns.len(), None);
        }

        let mut fields: Vec<FieldRef> = Vec::with_capacity(columns.len());
        for (root, column) in columns.into_iter().enumerate() {
            let written = column.written(files.len());
            let (field, undecided) = column.finished(files.len());
            if let Some(conflict) = undecided {
                conflicts.entry(root).or_insert_with(|| conflict_error(files, &conflict, &field));
            }
            fields.push(written.unwrap_or_else(|| Arc::new(field)));
        }

        let schema = Arc::new(Schema::new_with_metadata(fields, common_metadata(files)));
        Ok(Self { schema, positions, conflicts })
    }

    /// Sets the column types that the caller gave, to which the values of each file are cast.
    pub(super) fn with_types(self, options: &TableOptions) -> Self {
        let Self { schema, positions, mut conflicts } = self;
        let mut fields: Vec<FieldRef> = schema.fields().to_vec();

        for (root, field) in fields.iter_mut().enumerate() {
            let Some(given) = options.cast_type(field.name()) else { continue };
            conflicts.remove(&root);
            if given != field.data_type() {
                *field = Arc::new(cast_field(field, given.clone()));
            }
        }

        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Self { schema, positions, conflicts }
    }

    /// Returns the columns of all files.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns, by file, the position of each column of the schema in it; `None` if the file lacks it.
    pub(super) fn positions(&self) -> &[Vec<Option<usize>>] {
        &self.positions
    }

    /// Fails if the files have no common type for a needed column. `None` means all columns.
    pub(super) fn check(&self, needed: Option<&[String]>) -> Result<()> {
        let is_needed = |root: usize| match (needed, self.schema.fields().get(root)) {
            (Some(needed), Some(field)) => needed.contains(field.name()),
            _ => true,
        };

        let conflict = self.conflicts.iter().find(|(root, _)| is_needed(**root));
        match conflict {
            None => Ok(()),
            Some((_, error)) => Err(error.clone()),
        }
    }
}

fn conflict_error(files: &[(String, SchemaRef)], conflict: &TypeConflict, field: &Field) -> Error {
    let TypeConflict { file, data_type, other, before } = conflict;
    let name = |at: usize| files.get(at).map(|(name, _)| name.clone()).unwrap_or_default();
    let reason = format!("it is {data_type} here and {before} in {}: scan them apart", name(*other));
    Error::Schema { object: name(*file), column: field.name().clone(), reason }
}

/// Fails if several columns of a file have one name, and another file has other names or another order.
fn check_repeated(files: &[(String, SchemaRef)]) -> Result<()> {
    for (name, schema) in files {
        let Some(column) = repeated_name(schema) else { continue };
        let differs = |(_, other): &&(String, SchemaRef)| names(other).ne(names(schema));
        let Some((object, _)) = files.iter().find(differs) else { continue };

        let reason =
            format!("several columns of {name} have this name, and this file has others: scan them apart");
        return Err(Error::Schema { object: object.clone(), column: column.to_owned(), reason });
    }
    Ok(())
}

fn names(schema: &Schema) -> impl Iterator<Item = &str> {
    schema.fields().iter().map(|field| field.name().as_str())
}

/// Returns the first name that an earlier column of the schema also has.
fn repeated_name(schema: &Schema) -> Option<&str> {
    let mut seen = HashSet::new();
    names(schema).find(|name| !seen.insert(*name))
}

/// Returns the key-value metadata that is equal in all files.
fn common_metadata(files: &[(String, SchemaRef)]) -> HashMap<String, String> {
    let Some(((_, first), rest)) = files.split_first() else { return HashMap::new() };

    let mut metadata = first.metadata().clone();
    for (_, schema) in rest {
        metadata.retain(|key, value| schema.metadata().get(key) == Some(value));
    }
    metadata
}

/// Replaces dictionaries with their values, at any depth of the type.
fn without_dictionaries(data_type: &DataType) -> DataType {
    let plain = |field: &FieldRef| {
        let values = without_dictionaries(field.data_type());
        Arc::new(Field::clone(field).with_data_type(values))
    };
    match data_type {
        DataType::Dictionary(_, values) => without_dictionaries(values),
        DataType::List(item) => DataType::List(plain(item)),
        DataType::LargeList(item) => DataType::LargeList(plain(item)),
        DataType::ListView(item) => DataType::ListView(plain(item)),
        DataType::LargeListView(item) => DataType::LargeListView(plain(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(plain(item), *len),
        DataType::Map(entries, sorted) => DataType::Map(plain(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, fields: Vec<Field>) -> (String, SchemaRef) {
        (name.to_owned(), Arc::new(Schema::new(fields)))
    }

    fn dictionary(key: DataType) -> DataType {
        DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8))
    }

    #[test]
    fn columns_meet_by_name_in_a_type_that_has_all_values() {
        let merged = MergedIpcSchema::new(&[
            file("a", vec![Field::new("x", DataType::Int32, false), Field::new("y", DataType::Utf8, false)]),
            file(
                "b",
                vec![Field::new("z", DataType::Date32, false), Field::new("x", DataType::Int64, false)],
            ),
        ]);
        let merged = merged.unwrap();
        let expected = vec![
            Field::new("x", DataType::Int64, false),
            Field::new("y", DataType::Utf8, true),
            Field::new("z", DataType::Date32, true),
        ];
        assert_eq!(**merged.schema(), Schema::new(expected));
        assert_eq!(merged.positions(), [[Some(0), Some(1), None], [Some(1), None, Some(0)]]);
        merged.check(None).unwrap();
    }

    #[test]
    fn dictionaries_stay_where_all_files_have_the_same() {
        let of = |types: &[DataType]| {
            let files: Vec<_> =
                types.iter().map(|of_file| file("a", vec![Field::new("x", of_file.clone(), true)])).collect();
            MergedIpcSchema::new(&files).unwrap().schema().field(0).data_type().clone()
        };
        assert_eq!(of(&[dictionary(DataType::Int8)]), dictionary(DataType::Int8));
        assert_eq!(of(&[dictionary(DataType::Int8), dictionary(DataType::Int8)]), dictionary(DataType::Int8));
        assert_eq!(of(&[dictionary(DataType::Int8), dictionary(DataType::Int32)]), DataType::Utf8);
        assert_eq!(of(&[DataType::Utf8, dictionary(DataType::Int8)]), DataType::Utf8);

        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        assert_eq!(of(&[list(dictionary(DataType::Int8)), list(DataType::Utf8)]), list(DataType::Utf8));
    }

    #[test]
    fn a_conflict_names_both_files_and_is_an_error_only_for_those_who_need_the_column() {
        let merged = MergedIpcSchema::new(&[
            file("a", vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Int32, true)]),
            file("b", vec![Field::new("x", DataType::Utf8, true), Field::new("y", DataType::Int32, true)]),
        ]);
        let merged = merged.unwrap();
        let error = merged.check(None).unwrap_err();
        assert_eq!(error.to_string(), "b: column x: it is Utf8 here and Int32 in a: scan them apart");
        assert!(merged.check(Some(&["x".to_owned()])).is_err());
        merged.check(Some(&["y".to_owned()])).unwrap();
        merged.check(Some(&[])).unwrap();
    }

    #[test]
    fn names_that_repeat_are_an_error_unless_all_files_have_the_same() {
        let twice = || vec![Field::new("x", DataType::Int32, true), Field::new("x", DataType::Utf8, true)];
        let once = vec![Field::new("x", DataType::Int32, true)];
        let merged = MergedIpcSchema::new(&[file("a", twice()), file("b", twice())]).unwrap();
        assert_eq!(*merged.schema().field(1).data_type(), DataType::Utf8);
        assert_eq!(merged.positions(), [[Some(0), Some(1)], [Some(0), Some(1)]]);
        assert!(MergedIpcSchema::new(&[file("a", twice()), file("b", once)]).is_err());
    }

    #[test]
    fn metadata_is_kept_where_all_files_have_it_alike() {
        let with = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let schema = Schema::new_with_metadata(Vec::<Field>::new(), pairs.collect());
            ("a".to_owned(), Arc::new(schema))
        };
        let merged =
            MergedIpcSchema::new(&[with(&[("k", "1"), ("l", "2")]), with(&[("k", "1"), ("l", "3")])]);
        let metadata = merged.unwrap().schema().metadata().clone();
        assert_eq!(metadata, HashMap::from([("k".to_owned(), "1".to_owned())]));
    }
}
