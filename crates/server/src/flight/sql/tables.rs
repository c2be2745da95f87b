//! Resolves table names to files and folders of the buckets that the caller may read.
//!
//! | name | files |
//! |---|---|
//! | `lake.orders` | the file or folder `orders` of the bucket `lake`, else `orders.parquet`, else `orders.orc` |
//! | `lake."tpch/orders.parquet"` | a file, folder or pattern of the bucket |
//! | `'lake/tpch/*.parquet'`, `'s3://lake/tpch/*.parquet'` | a path that begins with the bucket |
//! | `orders` | same as `lake.orders`, if the caller may read one bucket only |
//!
//! No other name resolves to a file: local paths and URLs of other stores name no bucket.

use std::collections::BTreeSet;
#[cfg(feature = "distributed")]
use std::sync::Arc;

use stylobate_columnar::{Dictionaries, Error as ScanError, ScanRequest, Source, Strings};
#[cfg(feature = "distributed")]
use stylobate_datafusion::distributed::TableSources;
use stylobate_datafusion::{ScanTable, SqlEngine, TableName};
use stylobate_storage::{Error as StorageError, nearest_name};
use tonic::Status;

use super::super::{
    bucket_path::BucketPath,
    error::{BucketNaming, from_scan},
    list::scannable,
};
use crate::{Action, Bucket, Node};

/// Extensions that a table name may omit, in the order in which they are tried.
const EXTENSIONS: [&str; 2] = [".parquet", ".orc"];
/// Maximum tables listed per bucket, or per prefix that the key is limited to.
const MAX_LISTED: usize = 1_000;
/// Maximum table names in a hint.
const MAX_HINTS: usize = 8;

/// A bucket, and a path within it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TablePath {
    bucket: String,
    within: String,
}

/// Returns the buckets that the caller may read, by name.
pub(super) fn readable<'a>(node: &'a Node, caller: Option<&str>) -> Vec<&'a Bucket> {
    let keys = node.keys();
    node.buckets().filter(|bucket| keys.allows(caller, &bucket.name, Action::Read)).collect()
}

/// Returns the name of the bucket if there is only one: table names may then omit it.
fn only<'a>(buckets: &[&'a Bucket]) -> Option<&'a str> {
    match buckets {
        [bucket] => Some(&bucket.name),
        _ => None,
    }
}

/// Opens a table; `None` if it does not exist. Its source is identified by bucket and path, which identify it on the
/// other nodes of a cluster, too.
pub(super) async fn find(
    node: &Node,
    caller: Option<&str>,
    name: &TableName,
) -> Result<Option<ScanTable>, Status> {
    let buckets = readable(node, caller);
    let Some(TablePath { bucket, within }) = path_of(name, only(&buckets)) else { return Ok(None) };

    let mut refused = None;
    for candidate in candidates(&within) {
        let path = format!("{bucket}/{candidate}");
        let bucket_path = BucketPath::parse(&path)?;
        let opened = match bucket_path.open(node, caller, Action::Read) {
            Ok(opened) => opened,
            Err(error) => {
                refused.get_or_insert(error);
                continue;
            }
        };

        let source = Source::Store { store: opened.reader.clone(), pattern: candidate };
        let request =
            ScanRequest::over([source]).with_strings(Strings::View).with_dictionary(Dictionaries::None);
        match request.plan(node.columns()).await {
            Ok(scan) => return Ok(Some(ScanTable::of(scan).with_source_names([path]))),
            Err(
                ScanError::NoFiles { .. }
                | ScanError::Storage(StorageError::NotFound { .. } | StorageError::ImpossiblePath { .. }),
            ) => {}
            Err(error) => return Err(from_scan(&error, &BucketNaming::from(opened))),
        }
    }
    match refused {
        Some(refused) => Err(refused),
        None => Ok(None),
    }
}

/// The buckets of the node as sources of tables.
#[cfg(feature = "distributed")]
#[derive(Debug)]
pub(super) struct BucketSources(pub(super) Arc<Node>);

#[cfg(feature = "distributed")]
impl TableSources for BucketSources {
    /// Opens `bucket/path`. The node that planned the query has checked the caller's rights.
    fn source(&self, name: &str) -> stylobate_datafusion::Result<Source> {
        let refused =
            || stylobate_datafusion::Error::Query { reason: format!("{name} names no files of this node") };
        let bucket_path = BucketPath::parse(name).map_err(|_| refused())?;
        let bucket = self.0.bucket(bucket_path.bucket).ok_or_else(refused)?;
        Ok(Source::Store { store: bucket.reader.clone(), pattern: bucket_path.within.to_owned() })
    }
}

/// Returns the location that a name refers to. A name without a bucket refers to the only bucket.
fn path_of(name: &TableName, only_bucket: Option<&str>) -> Option<TablePath> {
    let table_path =
        |bucket: &str, within: &str| Some(TablePath { bucket: bucket.to_owned(), within: within.to_owned() });
    let table = name.table.as_str();
    if let Some(bucket) = &name.schema {
        return table_path(bucket, table);
    }

    let path = table.strip_prefix("s3://");
    match path.unwrap_or(table).split_once('/') {
        Some((bucket, within)) => table_path(bucket, within),
        None if path.is_some() => table_path(path?, ""),
        None => table_path(only_bucket?, table),
    }
}

/// Returns the paths that a name may refer to, the likeliest first.
fn candidates(within: &str) -> Vec<String> {
    let mut paths = vec![within.to_owned()];
    let is_whole = within.is_empty() || within.ends_with('/') || within.contains(['*', '?', '[']);
    if is_whole || EXTENSIONS.iter().any(|extension| within.ends_with(extension)) {
        return paths;
    }

    paths.extend(EXTENSIONS.iter().map(|extension| format!("{within}{extension}")));
    // A key may be limited to the objects in a folder; it then has no access to the folder's name without the slash.
    paths.push(format!("{within}/"));
    paths
}

/// Lists the tables of a bucket that the caller may see: the files and folders at the top level, or directly below
/// each prefix that the caller is limited to.
pub(super) async fn listed(
    node: &Node,
    caller: Option<&str>,
    bucket: &Bucket,
) -> Result<Vec<TableName>, Status> {
    let mut keys = BTreeSet::new();
    for prefix in node.keys().prefixes(caller) {
        keys.extend(scannable(bucket, &prefix, MAX_LISTED).await?);
    }
    let name =
        |key: &String| TableName { schema: Some(bucket.name.clone()), table: short(key, &keys).to_owned() };
    Ok(keys.iter().map(name).collect())
}

/// Lists the tables of all buckets that the caller may read.
pub(super) async fn all(node: &Node, caller: Option<&str>) -> Result<Vec<TableName>, Status> {
    let mut tables = Vec::new();
    for bucket in readable(node, caller) {
        tables.append(&mut listed(node, caller, bucket).await?);
    }
    Ok(tables)
}

/// Returns a key without its extension, if that name resolves to the same file.
fn short<'a>(key: &'a str, keys: &BTreeSet<String>) -> &'a str {
    for (at, extension) in EXTENSIONS.iter().enumerate() {
        let Some(stem) = key.strip_suffix(extension).filter(|stem| !stem.is_empty()) else { continue };
        let earlier = EXTENSIONS.iter().take(at).map(|extension| format!("{stem}{extension}"));
        let is_taken = earlier.chain([stem.to_owned()]).any(|other| keys.contains(&other));
        return if is_taken { key } else { stem };
    }
    key
}

/// Returns a hint on how to correct the name of a missing table.
pub(super) async fn hint(node: &Node, caller: Option<&str>, name: &TableName) -> String {
    let buckets = readable(node, caller);
    let path = path_of(name, only(&buckets));
    let bucket = path.and_then(|path| buckets.iter().copied().find(|bucket| bucket.name == path.bucket));
    let Some(bucket) = bucket else {
        let names: Vec<&str> = buckets.iter().map(|bucket| bucket.name.as_str()).take(MAX_HINTS).collect();
        return format!("name it bucket.table; buckets are {}", names.join(", "));
    };

    let tables = listed(node, caller, bucket).await.unwrap_or_default();
    let nearest = nearest_name(&name.table, tables.iter().map(|known| known.table.as_str()));
    if let Some(known) = nearest.and_then(|nearest| tables.iter().find(|known| known.table == nearest)) {
        return format!("did you mean {}?", written(known));
    }

    let names: Vec<String> = tables.iter().map(written).take(MAX_HINTS).collect();
    match names.as_slice() {
        [] => format!(
            "the bucket {} has no Parquet or ORC files at its top: write a path in quotes",
            bucket.name
        ),
        names => {
            format!(
                "available tables: {}; write paths in quotes: FROM 'bucket/folder/*.parquet'",
                names.join(", ")
            )
        }
    }
}

/// Formats a name as a query spells it.
fn written(name: &TableName) -> String {
    let quoted = |part: &str| {
        let is_plain = part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if is_plain { part.to_owned() } else { format!("\"{}\"", part.replace('"', "\"\"")) }
    };
    let schema = name.schema.as_deref().unwrap_or(SqlEngine::CATALOG);
    format!("{}.{}", quoted(schema), quoted(&name.table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(schema: Option<&str>, table: &str) -> TableName {
        TableName { schema: schema.map(str::to_owned), table: table.to_owned() }
    }

    #[test]
    fn a_name_leads_to_a_path_of_a_bucket() {
        let path = |schema: Option<&str>, table: &str, only: Option<&str>| {
            let found = path_of(&name(schema, table), only)?;
            Some(format!("{} {}", found.bucket, found.within))
        };
        assert_eq!(path(Some("lake"), "orders", None).unwrap(), "lake orders");
        assert_eq!(path(Some("lake"), "a/b.orc", None).unwrap(), "lake a/b.orc");
        assert_eq!(path(None, "lake/a/*.orc", None).unwrap(), "lake a/*.orc");
        assert_eq!(path(None, "s3://lake/a/*.orc", Some("pond")).unwrap(), "lake a/*.orc");
        assert_eq!(path(None, "s3://lake", Some("pond")).unwrap(), "lake ");
        assert_eq!(path(None, "orders", Some("lake")).unwrap(), "lake orders");
        assert_eq!(path(None, "orders", None), None);
    }

    #[test]
    fn paths_of_the_machine_and_of_other_stores_name_no_bucket() {
        for path in ["/etc/passwd", "file:///etc/passwd", "https://host/a.parquet", "s3:///a", "memory:///a"]
        {
            let found = path_of(&name(None, path), Some("lake")).unwrap();
            let path = format!("{}/{}", found.bucket, found.within);
            assert!(BucketPath::parse(&path).is_err(), "{path}");
        }
    }

    #[test]
    fn extensions_are_left_out_where_no_other_table_has_the_name() {
        let keys: BTreeSet<String> =
            ["a.parquet", "b", "b.parquet", "c.orc", "c.parquet", "d.orc", ".orc"].map(str::to_owned).into();
        let names: Vec<&str> = keys.iter().map(|key| short(key, &keys)).collect();
        assert_eq!(names, [".orc", "a", "b", "b.parquet", "c.orc", "c", "d"]);
    }

    #[test]
    fn names_are_quoted_where_a_query_needs_it() {
        for (name, expected) in [
            (name(Some("lake"), "orders_2"), "lake.orders_2"),
            (name(Some("my-lake"), "Orders"), "\"my-lake\".\"Orders\""),
            (name(Some("lake"), "a/b\"c"), "lake.\"a/b\"\"c\""),
        ] {
            assert_eq!(written(&name), expected);
        }
    }
}
