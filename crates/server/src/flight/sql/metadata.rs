//! Answers to metadata commands, which need no query: catalogs, schemas, tables, types and capabilities.
//!
//! The catalog is `stylobate`. Its schemas are the buckets that the caller may read, and the tables of a schema are
//! the files and folders at the top level of the bucket.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, StringArray},
    compute::kernels::comparison::like,
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
};
use arrow_flight::{
    error::FlightError,
    sql::{Command, CommandGetTables},
};
use futures::{StreamExt, stream};
use stylobate_datafusion::{SqlEngine, TableName};
use tonic::{Code, Status};

use super::{
    super::error::status,
    info::{sql_info, type_info},
    results::sent_schema,
    tables,
};
use crate::{Bucket, Node};

/// The type of all tables.
const TABLE: &str = "TABLE";
/// Maximum tables that are opened concurrently for their columns.
const CONCURRENCY: usize = 8;

/// Returns the schema of the answer to a command; `None` if it is not a metadata command.
pub(super) fn schema(command: &Command) -> Result<Option<SchemaRef>, Status> {
    Ok(Some(match command.clone() {
        Command::CommandGetCatalogs(get) => get.into_builder().schema(),
        Command::CommandGetDbSchemas(get) => get.into_builder().schema(),
        Command::CommandGetTables(get) => get.into_builder().schema(),
        Command::CommandGetTableTypes(get) => get.into_builder().schema(),
        Command::CommandGetSqlInfo(_) => sql_info().map_err(unwritable)?.schema(),
        Command::CommandGetXdbcTypeInfo(_) => type_info().map_err(unwritable)?.schema(),
        Command::CommandGetPrimaryKeys(_) => primary_keys(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_keys(),
        _ => return Ok(None),
    }))
}

/// Returns the answer to a command; `None` if it is not a metadata command.
pub(super) async fn rows(
    node: &Node,
    caller: Option<&str>,
    command: &Command,
) -> Result<Option<RecordBatch>, Status> {
    let built = match command.clone() {
        Command::CommandGetCatalogs(get) => {
            let mut rows = get.into_builder();
            rows.append(SqlEngine::CATALOG);
            rows.build()
        }
        Command::CommandGetDbSchemas(get) => {
            let mut rows = get.into_builder();
            for bucket in tables::readable(node, caller) {
                rows.append(SqlEngine::CATALOG, &bucket.name);
            }
            rows.build()
        }
        Command::CommandGetTables(get) => table_rows(node, caller, get).await?,
        Command::CommandGetTableTypes(get) => {
            let mut rows = get.into_builder();
            rows.append(TABLE);
            rows.build()
        }
        Command::CommandGetSqlInfo(get) => sql_info().and_then(|info| get.into_builder(&info).build()),
        Command::CommandGetXdbcTypeInfo(get) => type_info().and_then(|info| get.into_builder(&info).build()),
        Command::CommandGetPrimaryKeys(_) => Ok(RecordBatch::new_empty(primary_keys())),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => Ok(RecordBatch::new_empty(foreign_keys())),
        _ => return Ok(None),
    };
    built.map(Some).map_err(unwritable)
}

async fn table_rows(
    node: &Node,
    caller: Option<&str>,
    get: CommandGetTables,
) -> Result<Result<RecordBatch, FlightError>, Status> {
    let is_of_catalog = get.catalog.as_ref().is_none_or(|catalog| catalog == SqlEngine::CATALOG);
    let is_of_type = get.table_types.is_empty() || get.table_types.iter().any(|name| name == TABLE);
    let buckets = if is_of_catalog && is_of_type { tables::readable(node, caller) } else { Vec::new() };
    let bucket_name = |bucket: &&Bucket| bucket.name.clone();
    let buckets = matching(buckets, bucket_name, get.db_schema_filter_pattern.as_deref());

    let mut found = Vec::new();
    for bucket in buckets.map_err(|error| unwritable(error.into()))? {
        found.append(&mut tables::listed(node, caller, bucket).await?);
    }
    let table_name = |name: &TableName| name.table.clone();
    let found = matching(found, table_name, get.table_name_filter_pattern.as_deref());
    let found = found.map_err(|error| unwritable(error.into()))?;

    let include_schema = get.include_schema;
    let columns = found.into_iter().map(|name| async move {
        // A table that cannot be read is listed without columns.
        let table = if include_schema { tables::find(node, caller, &name).await } else { Ok(None) };
        let columns = match table {
            Ok(Some(table)) => sent_schema(table.arrow_schema()),
            _ => Arc::new(Schema::empty()),
        };
        (name, columns)
    });
    let mut columns = stream::iter(columns).buffered(CONCURRENCY);

    let mut rows = get.into_builder();
    while let Some((name, columns)) = columns.next().await {
        let schema = name.schema.as_deref().unwrap_or_default();
        if let Err(error) = rows.append(SqlEngine::CATALOG, schema, &name.table, TABLE, &columns) {
            return Ok(Err(error));
        }
    }
    Ok(rows.build())
}

/// Keeps the items whose names match a pattern with `%` and `_`.
fn matching<T>(
    items: Vec<T>,
    name: impl Fn(&T) -> String,
    pattern: Option<&str>,
) -> Result<Vec<T>, ArrowError> {
    let Some(pattern) = pattern else { return Ok(items) };
    let names = StringArray::from_iter_values(items.iter().map(&name));
    let matches = like(&names, &StringArray::new_scalar(pattern))?;
    let kept = items.into_iter().zip(&matches).filter(|(_, matches)| *matches == Some(true));
    Ok(kept.map(|(item, _)| item).collect())
}

fn unwritable(error: FlightError) -> Status {
    tracing::warn!(%error, "metadata cannot be written");
    status(Code::Internal, "the answer cannot be written")
}

fn columns(names: &[(&str, DataType, bool)]) -> SchemaRef {
    let field = |(name, data_type, nullable): &(&str, DataType, bool)| {
        Field::new(*name, data_type.clone(), *nullable)
    };
    Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
}

/// Returns the schema of primary keys in FlightSql.proto.
fn primary_keys() -> SchemaRef {
    columns(&[
        ("catalog_name", DataType::Utf8, true),
        ("db_schema_name", DataType::Utf8, true),
        ("table_name", DataType::Utf8, false),
        ("column_name", DataType::Utf8, false),
        ("key_sequence", DataType::Int32, false),
        ("key_name", DataType::Utf8, true),
    ])
}

/// Returns the schema of foreign keys in FlightSql.proto.
fn foreign_keys() -> SchemaRef {
    columns(&[
        ("pk_catalog_name", DataType::Utf8, true),
        ("pk_db_schema_name", DataType::Utf8, true),
        ("pk_table_name", DataType::Utf8, false),
        ("pk_column_name", DataType::Utf8, false),
        ("fk_catalog_name", DataType::Utf8, true),
        ("fk_db_schema_name", DataType::Utf8, true),
        ("fk_table_name", DataType::Utf8, false),
        ("fk_column_name", DataType::Utf8, false),
        ("key_sequence", DataType::Int32, false),
        ("fk_key_name", DataType::Utf8, true),
        ("pk_key_name", DataType::Utf8, true),
        ("update_rule", DataType::UInt8, false),
        ("delete_rule", DataType::UInt8, false),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_as_by_like() {
        let names = || vec!["orders", "order_items", "parts"];
        let kept = |pattern| matching(names(), |name| (*name).to_owned(), pattern).unwrap();
        assert_eq!(kept(None), names());
        assert_eq!(kept(Some("%")), names());
        assert_eq!(kept(Some("order%")), ["orders", "order_items"]);
        assert_eq!(kept(Some("part_")), ["parts"]);
        assert!(kept(Some("")).is_empty());
    }
}
