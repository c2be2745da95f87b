//! Maps the columns of a file to Arrow.
//!
//! An Arrow schema in the file that cannot be decoded is treated as absent. A column that no Arrow type can represent
//! does not prevent others from being read: it gets a placeholder type and is never decoded.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};

use arrow::{
    datatypes::{DataType, Field, FieldRef, Schema},
    ipc::convert::try_schema_from_ipc_buffer,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use parquet::{
    arrow::{
        ARROW_SCHEMA_META_KEY,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
        parquet_to_arrow_schema,
    },
    file::metadata::ParquetMetaData,
    schema::types::{SchemaDescriptor, Type, TypePtr},
};
use stylobate_storage::Corrupt;

use super::{has_arrow_schema, logical_types::annotated};
use crate::{file::schema::leaf_count, parallel::guarded::guarded, parquet::intervals::with_all_parts};

/// Top-level columns, each with its leaves.
pub(crate) struct ArrowColumns {
    pub(crate) fields: Vec<FieldRef>,
    pub(crate) leaves: Vec<Range<usize>>,
    /// Reasons why some of the columns cannot be read.
    pub(crate) unreadable: BTreeMap<usize, String>,
    pub(crate) metadata: HashMap<String, String>,
}

impl ArrowColumns {
    pub(crate) fn of(metadata: &Arc<ParquetMetaData>) -> Result<Self, Corrupt> {
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

        if has_schema {
            columns.fields = with_zones(&columns.fields, metadata);
        } else {
            let fields = columns.fields.iter().map(|field| Arc::new(with_all_parts(field)));
            columns.fields = fields.collect();
        }
        columns.fields = annotated(&columns.fields, metadata);
        Ok(columns)
    }

    fn read(schema: &Schema, metadata: &ParquetMetaData) -> Result<Self, Corrupt> {
        let fields = schema.fields().to_vec();
        let mut leaves = Vec::with_capacity(fields.len());
        let mut next = 0;

        for field in &fields {
            let count = leaf_count(field.data_type());
            leaves.push(next..next + count);
            next += count;
        }

        if next != metadata.file_metadata().schema_descr().num_columns() {
            return Err("the schema has fields without columns".into());
        }

        let mut said = schema.metadata().clone();
        if said.is_empty() {
            said = pairs(metadata);
        }
        Ok(Self { fields, leaves, unreadable: BTreeMap::new(), metadata: said })
    }

    /// Converts each column separately, so that an unreadable one does not hide others.
    fn one_by_one(metadata: &ParquetMetaData) -> Result<Self, Corrupt> {
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
                Ok(_) => return Err("the schema has fields without columns".into()),
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

/// Restores the time zones of fields whose unit in the Arrow schema differs from the file's: seconds, which the format
/// lacks, or nanoseconds that the writer stored in a coarser unit. The parquet crate drops these zones.
fn with_zones(fields: &[FieldRef], metadata: &ParquetMetaData) -> Vec<FieldRef> {
    if !fields.iter().any(|field| is_in_utc(field.data_type())) {
        return fields.to_vec();
    }
    let Some(written) = arrow_schema(metadata).filter(|written| written.fields().len() == fields.len())
    else {
        return fields.to_vec();
    };
    fields.iter().zip(written.fields()).map(|(field, written)| with_zone(field, written)).collect()
}

fn is_in_utc(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, zone) => zone.as_deref() == Some("UTC"),
        DataType::Struct(fields) => fields.iter().any(|field| is_in_utc(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => is_in_utc(field.data_type()),
        _ => false,
    }
}

/// Returns the Arrow schema that the file was written with.
fn arrow_schema(metadata: &ParquetMetaData) -> Option<Schema> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let text = pairs.iter().find(|pair| pair.key == ARROW_SCHEMA_META_KEY)?.value.as_ref()?;
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    guarded(|| try_schema_from_ipc_buffer(&bytes)).ok()?.ok()
}

fn with_zone(field: &FieldRef, written: &FieldRef) -> FieldRef {
    let both = |field: &FieldRef, written: &FieldRef| with_zone(field, written);
    let data_type = match (field.data_type(), written.data_type()) {
        (DataType::Timestamp(unit, Some(_)), DataType::Timestamp(_, Some(zone))) => {
            DataType::Timestamp(*unit, Some(zone.clone()))
        }
        (DataType::Struct(own), DataType::Struct(fields)) if own.len() == fields.len() => {
            DataType::Struct(own.iter().zip(fields).map(|(own, written)| both(own, written)).collect())
        }
        (DataType::List(own), DataType::List(item)) => DataType::List(both(own, item)),
        (DataType::LargeList(own), DataType::LargeList(item)) => DataType::LargeList(both(own, item)),
        (DataType::ListView(own), DataType::ListView(item)) => DataType::ListView(both(own, item)),
        (DataType::LargeListView(own), DataType::LargeListView(item)) => {
            DataType::LargeListView(both(own, item))
        }
        (DataType::FixedSizeList(own, size), DataType::FixedSizeList(item, _)) => {
            DataType::FixedSizeList(both(own, item), *size)
        }
        (DataType::Map(own, sorted), DataType::Map(entries, _)) => DataType::Map(both(own, entries), *sorted),
        _ => return field.clone(),
    };

    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// Converts one column as if it were the only one.
fn alone(root: &TypePtr) -> Result<Option<FieldRef>, String> {
    let convert = || {
        let schema = Type::group_type_builder("schema").with_fields(vec![root.clone()]).build()?;
        parquet_to_arrow_schema(&SchemaDescriptor::new(Arc::new(schema)), None)
    };
    let schema = guarded(convert)?.map_err(|error| error.to_string())?;
    Ok(schema.fields().first().cloned())
}

fn leaves_of(root: &Type) -> usize {
    if root.is_primitive() { 1 } else { root.get_fields().iter().map(|field| leaves_of(field)).sum() }
}

/// Returns the key-value metadata of the file, except the Arrow schema.
fn pairs(metadata: &ParquetMetaData) -> HashMap<String, String> {
    let pairs = metadata.file_metadata().key_value_metadata().map(Vec::as_slice).unwrap_or_default();
    let pairs = pairs.iter().filter(|pair| pair.key != ARROW_SCHEMA_META_KEY);
    pairs.filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?))).collect()
}
