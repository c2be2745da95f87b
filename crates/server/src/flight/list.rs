//! Lists scannable data: files and folders at the top of a bucket or below a prefix.

use arrow_flight::{FlightDescriptor, FlightInfo};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use stylobate_storage::{ListPage, ListRequest};
use tonic::Status;

use super::{
    bucket_path::BucketPath,
    error::{from_storage, invalid},
};
use crate::{Action, Bucket, Node};

/// Maximum flights of one answer; a client can narrow the listing by a prefix.
const MAX_FLIGHTS: usize = 1_000;
/// Keys inspected to decide whether a folder has scannable files.
const SAMPLED_KEYS: usize = 1_000;
/// Folders inspected concurrently.
const CONCURRENCY: usize = 8;
const MAX_CRITERIA_BYTES: usize = 4 << 10;

/// Criteria of a listing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListCriteria {
    /// A bucket, or a bucket and a key prefix.
    path: String,
}

/// Returns the flights that the caller may see, at most a thousand. Their schemas are omitted: only `GetFlightInfo`
/// reads them.
pub(super) async fn list(
    node: &Node,
    caller: Option<&str>,
    criteria: &[u8],
) -> Result<Vec<FlightInfo>, Status> {
    let mut flights = Vec::new();
    if criteria.is_empty() {
        for bucket in node.buckets().filter(|b| node.keys().allows_key(caller, &b.name, "", Action::Read)) {
            add(bucket, "", &mut flights).await?;
        }
        return Ok(flights);
    }

    if criteria.len() > MAX_CRITERIA_BYTES {
        return Err(invalid(format!("criteria: longer than {MAX_CRITERIA_BYTES} bytes")));
    }
    let ListCriteria { path } =
        serde_json::from_slice(criteria).map_err(|error| invalid(format!("criteria: {error}")))?;
    let path = BucketPath::parse(&path)?;
    let bucket = path.open(node, caller, Action::Read)?;
    add(bucket, path.within, &mut flights).await?;

    Ok(flights)
}

/// Adds a flight for each scannable file and folder whose key begins with `prefix`, down to the next slash.
async fn add(bucket: &Bucket, prefix: &str, flights: &mut Vec<FlightInfo>) -> Result<(), Status> {
    for key in scannable(bucket, prefix, MAX_FLIGHTS - flights.len()).await? {
        let path = [bucket.name.as_str()].into_iter().chain(key.split('/')).map(str::to_owned).collect();
        flights.push(FlightInfo::new().with_descriptor(FlightDescriptor::new_path(path)));
    }
    Ok(())
}

/// Returns at most `limit` keys of scannable files and folders that begin with `prefix`, down to the next slash.
pub(super) async fn scannable(bucket: &Bucket, prefix: &str, limit: usize) -> Result<Vec<String>, Status> {
    let mut found = Vec::new();
    let mut token = None;
    while found.len() < limit {
        let request = ListRequest {
            prefix: prefix.to_owned(),
            delimiter: "/".to_owned(),
            start_after: None,
            past_prefix: None,
            token: token.take(),
            max_keys: MAX_FLIGHTS,
        };

        let page = list_page(bucket, request).await?;
        let folders = page.prefixes.into_iter().map(|folder| async move {
            let scannable = has_files(bucket, &folder).await?;
            Ok::<_, Status>(scannable.then(|| folder.trim_end_matches('/').to_owned()))
        });
        let folders: Vec<_> = stream::iter(folders).buffered(CONCURRENCY).try_collect().await?;
        let files =
            page.objects.iter().map(|object| object.meta.location.as_ref()).filter(|key| is_file(key));
        let mut keys: Vec<String> = folders.into_iter().flatten().chain(files.map(str::to_owned)).collect();
        keys.sort_unstable();
        keys.truncate(limit - found.len());
        found.append(&mut keys);

        token = page.next_token;
        if token.is_none() {
            break;
        }
    }
    Ok(found)
}

/// Returns true if a folder has a scannable file among its first keys.
async fn has_files(bucket: &Bucket, folder: &str) -> Result<bool, Status> {
    let request = ListRequest { prefix: folder.to_owned(), max_keys: SAMPLED_KEYS, ..ListRequest::default() };
    let page = list_page(bucket, request).await?;
    Ok(page.objects.iter().any(|object| is_file(object.meta.location.as_ref())))
}

async fn list_page(bucket: &Bucket, request: ListRequest) -> Result<ListPage, Status> {
    bucket.reader.list_page(request).await.map_err(|error| from_storage(&error, &bucket.name))
}

/// Returns true if the key names a Parquet or ORC file. Names that begin with a dot or an underscore are hidden, as
/// in Hive.
fn is_file(key: &str) -> bool {
    let hidden = key.split('/').any(|segment| segment.starts_with(['.', '_']) && !segment.contains('='));
    let key = key.to_ascii_lowercase();
    !hidden && (key.ends_with(".parquet") || key.ends_with(".orc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_names() {
        for key in ["a.parquet", "A.ORC", "a/b/c.snappy.parquet", "_year=2024/a.parquet"] {
            assert!(is_file(key), "{key}");
        }
        for key in ["a", "a.csv", "parquet", "_delta_log/a.parquet", ".tmp.parquet", "a/_temporary/b.orc"] {
            assert!(!is_file(key), "{key}");
        }
    }
}
