//! Options of a table that its files do not determine.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use arrow::datatypes::{DataType, FieldRef, SchemaRef};

use crate::{Error, Result, table::locate::LocatedFile};

/// Columns and types that override those of the files.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableOptions {
    /// All columns of the table.
    pub(crate) schema: Option<SchemaRef>,
    /// Types of some columns.
    pub(crate) casts: BTreeMap<String, DataType>,
    /// Types of partition columns.
    pub(crate) partition_types: BTreeMap<String, DataType>,
    /// The column with the path of each row's file.
    pub(crate) filename: Option<String>,
    /// The root of these paths, in place of the store's URL.
    pub(crate) filename_root: Option<String>,
    /// The column with the number of each row within its file.
    pub(crate) row_number: Option<String>,
}

impl TableOptions {
    /// Returns the types that columns are cast to, by name.
    pub(crate) fn cast_columns(&self) -> impl Iterator<Item = (&str, &DataType)> {
        let of_schema = self.schema.iter().flat_map(|schema| schema.fields());
        let of_schema = of_schema.map(|field| (field.name().as_str(), field.data_type()));
        of_schema.chain(self.casts.iter().map(|(name, data_type)| (name.as_str(), data_type)))
    }

    /// Returns the type that a column is cast to.
    pub(crate) fn cast_type(&self, column: &str) -> Option<&DataType> {
        let of_schema = || {
            let (_, field) = self.schema.as_ref()?.fields().find(column)?;
            Some(field.data_type())
        };
        self.casts.get(column).or_else(of_schema)
    }

    /// Adds the metadata of the given schema to that of the files.
    pub(crate) fn add_metadata(&self, of_files: &mut HashMap<String, String>) {
        if let Some(schema) = &self.schema {
            of_files.extend(schema.metadata().clone());
        }
    }

    /// Adds the metadata of the fields of the given schema to that of fields of the same names.
    pub(crate) fn add_field_metadata<'f>(&self, fields: impl Iterator<Item = &'f mut FieldRef>) {
        let given = self.schema.iter().flat_map(|schema| schema.fields());
        let given = given.filter(|field| !field.metadata().is_empty());
        let given: HashMap<&str, &FieldRef> = given.map(|field| (field.name().as_str(), field)).collect();
        if given.is_empty() {
            return;
        }

        for field in fields {
            let Some(given) = given.get(field.name().as_str()) else { continue };
            let mut metadata = field.metadata().clone();
            metadata.extend(given.metadata().clone());
            *field = Arc::new(field.as_ref().clone().with_metadata(metadata));
        }
    }

    /// Returns whether the caller gave the type of a column.
    pub(crate) fn gives_type(&self, column: &str) -> bool {
        self.partition_types.contains_key(column) || self.cast_columns().any(|(given, _)| given == column)
    }

    /// Fails if a type is given for a partition column that the paths do not have.
    pub(crate) fn check_partitions(&self, partitions: &[&str]) -> Result<()> {
        let filename = self.filename.as_deref();
        let known: Vec<&str> = partitions.iter().copied().filter(|name| filename != Some(*name)).collect();
        let unknown = self.partition_types.keys().find(|given| !known.contains(&given.as_str()));
        let Some(unknown) = unknown else { return Ok(()) };

        let reason = if known.is_empty() {
            "no such partition column: the paths have none".to_owned()
        } else {
            format!("no such partition column; available: {}", known.join(", "))
        };
        Err(Error::Option { column: Some(unknown.clone()), reason })
    }

    /// Returns the columns of the result by default; `None` for all.
    pub(crate) fn columns(&self) -> Option<Vec<String>> {
        let schema = self.schema.as_ref()?;
        let generated = self.filename.iter().chain(&self.row_number).cloned();
        Some(schema.fields().iter().map(|field| field.name().clone()).chain(generated).collect())
    }

    /// Adds the file's name to its partition values, if requested.
    ///
    /// Fails if the file has a column with the name of a generated one.
    pub(crate) fn name_file(
        &self,
        located: &mut LocatedFile,
        has_column: impl Fn(&str) -> bool,
        name: &str,
    ) -> Result<()> {
        for column in self.filename.iter().chain(&self.row_number) {
            if located.has_partition(column) || has_column(column) {
                let reason = format!("{name} has a column of this name: give another one");
                return Err(Error::Option { column: Some(column.clone()), reason });
            }
        }

        if let Some(column) = &self.filename {
            let path = match &self.filename_root {
                Some(root) => format!("{root}/{}", located.key()),
                None => name.to_owned(),
            };
            located.partitions.push((column.clone(), Some(path)));
        }
        Ok(())
    }
}
