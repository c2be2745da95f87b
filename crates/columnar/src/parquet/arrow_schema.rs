//! The columns of a file as Arrow has them.
//!
//! An Arrow schema in the file that cannot be decoded is taken as absent. A column that no type of Arrow holds does not keep
//! others from being read: it has a type of its own, which nothing reads.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use parquet::{
    arrow::{
        ARROW_SCHEMA_META_KEY,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
        parquet_to_arrow_schema,
    },
    file::metadata::ParquetMetaData,
    schema::types::{SchemaDescriptor, Type, TypePtr},
};

use super::{footer::has_arrow_schema, intervals::with_all_parts, logical_types::annotated};
use crate::{guarded::guarded, schema::leaf_count};

/// Top-level columns, each with its leaves.
pub(super) struct ArrowColumns {
    pub(super) fields: Vec<FieldRef>,
    pub(super) leaves: Vec<Range<usize>>,
    /// Why some of them cannot be read.
    pub(super) unreadable: BTreeMap<usize, String>,
    pub(super) metadata: HashMap<String, String>,
}

impl ArrowColumns {
    pub(super) fn of(metadata: &Arc<ParquetMetaData>) -> Result<Self, String> {
        let read = |options| {
            let read = guarded(|| ArrowReaderMetadata::try_new(metadata.clone(), options))?;
            read.map_err(|error| error.to_string())
        };
        let (mut columns, has_schema) = match read(ArrowReaderOptions::new()) {
            Ok(reader) => (Self::read(reader.schema(), metadata)?, has_arrow_schema(metadata)),
            Err(reason) => {
                tracing::debug!(%reason, "the Arrow schema of a file is left out");
                let read = read(ArrowReaderOptions::new().with_skip_arrow_metadata(true));
                let columns = match read {
                    Ok(reader) => Self::read(reader.schema(), metadata)?,
                    Err(_) => Self::one_by_one(metadata)?,
                };
                (columns, false)
            }
        };
        if !has_schema {
            let fields = columns.fields.iter().map(|field| Arc::new(with_all_parts(field)));
            columns.fields = fields.collect();
        }
        columns.fields = annotated(&columns.fields, metadata);
        Ok(columns)
    }

    fn read(schema: &Schema, metadata: &ParquetMetaData) -> Result<Self, String> {
        let fields = schema.fields().to_vec();
        let mut leaves = Vec::with_capacity(fields.len());
        let mut next = 0;
        for field in &fields {
            let count = leaf_count(field.data_type());
            leaves.push(next..next + count);
            next += count;
        }
        if next != metadata.file_metadata().schema_descr().num_columns() {
            return Err("the schema has fields without columns".to_owned());
        }
        let mut said = schema.metadata().clone();
        if said.is_empty() {
            said = pairs(metadata);
        }
        Ok(Self { fields, leaves, unreadable: BTreeMap::new(), metadata: said })
    }

    /// Each column by itself, so that one that cannot be read does not hide others.
    fn one_by_one(metadata: &ParquetMetaData) -> Result<Self, String> {
        let roots = metadata.file_metadata().schema_descr().root_schema().get_fields();
        let mut columns = Self {
            fields: Vec::with_capacity(roots.len()),
            leaves: Vec::with_capacity(roots.len()),
            unreadable: BTreeMap::new(),
            metadata: pairs(metadata),
        };
        let mut next = 0;
        for root in roots {
            let count = leaves_of(root);
            let field = match alone(root) {
                Ok(Some(field)) if leaf_count(field.data_type()) == count => field,
                // A struct without fields has no values.
                Ok(None) if count == 0 => continue,
                Ok(_) => return Err("the schema has fields without columns".to_owned()),
                Err(reason) => {
                    columns.unreadable.insert(columns.fields.len(), reason);
                    Arc::new(Field::new(root.name(), DataType::Null, true))
                }
            };
            columns.fields.push(field);
            columns.leaves.push(next..next + count);
            next += count;
        }
        Ok(columns)
    }
}

/// The field of one column, as if there were no other.
fn alone(root: &TypePtr) -> Result<Option<FieldRef>, String> {
    let convert = || {
        let schema = Type::group_type_builder("schema").with_fields(vec![root.clone()]).build()?;
        parquet_to_arrow_schema(&SchemaDescriptor::new(Arc::new(schema)), None)
    };
    let schema = guarded(convert)?.map_err(|error| error.to_string())?;
    Ok(schema.fields().first().cloned())
}

fn leaves_of(root: &Type) -> usize {
    match root.is_primitive() {
        true => 1,
        false => root.get_fields().iter().map(|field| leaves_of(field)).sum(),
    }
}

/// What the file says of itself, less the Arrow schema.
fn pairs(metadata: &ParquetMetaData) -> HashMap<String, String> {
    let pairs = metadata.file_metadata().key_value_metadata().map(Vec::as_slice).unwrap_or_default();
    let pairs = pairs.iter().filter(|pair| pair.key != ARROW_SCHEMA_META_KEY);
    pairs.filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?))).collect()
}
