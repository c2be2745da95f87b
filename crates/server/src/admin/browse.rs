//! Browses the buckets for the status page: lists them, describes files, and reads their first rows.
//!
//! Each request needs a key that may read the object. Answers are bounded in size: the page displays no more.

use std::{sync::Arc, time::Duration};

use arrow::{
    array::RecordBatch,
    datatypes::Field,
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};
use axum::http::StatusCode;
use chrono::SecondsFormat;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use stylobate_columnar::{Error, Inspection, ScanRequest, Source, inspect};
use stylobate_storage::{Error as StorageError, ListRequest, is_reserved_key, redacted};
use tokio::time::timeout;

use super::AdminRejection;
use crate::{
    Bucket, Node,
    running_reads::{NewRead, RunningReadGuard},
    s3::listing_token,
};

/// Maximum objects and folders in one answer.
const MAX_LISTED: usize = 200;
/// Time limit for describing a file or reading its rows.
const TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const DEFAULT_ROWS: u64 = 50;
pub(super) const MAX_ROWS: u64 = 500;
/// Maximum columns and row groups of a file in an answer; the first ones are returned.
pub(super) const MAX_COLUMNS: usize = 200;
const MAX_PARTS: usize = 1_000;
/// Maximum characters of a value.
const MAX_VALUE_CHARS: usize = 200;

/// Parameters of `GET /api/list`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BrowseQuery {
    pub(super) bucket: String,
    #[serde(default)]
    pub(super) prefix: String,
    token: Option<String>,
}

/// Parameters of `GET /api/inspect`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InspectQuery {
    pub(super) bucket: String,
    pub(super) key: String,
    /// Row group or stripe whose column chunks are described as well.
    row_group: Option<usize>,
}

/// Parameters of `GET /api/rows`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowsQuery {
    pub(super) bucket: String,
    /// A file, or a folder of files.
    pub(super) key: String,
    rows: Option<u64>,
}

/// A page of a listing.
#[derive(Debug, Serialize)]
pub(super) struct BrowsedPage {
    /// Prefixes of the folders.
    folders: Vec<String>,
    objects: Vec<BrowsedObject>,
    /// Continuation token of the next page, if there is one.
    next: Option<String>,
}

#[derive(Debug, Serialize)]
struct BrowsedObject {
    key: String,
    size: u64,
    /// Time of the last modification, as RFC 3339.
    modified: String,
}

/// The description of a file, truncated to what the page shows.
#[derive(Debug, Serialize)]
pub(super) struct FileReport {
    #[serde(flatten)]
    file: Inspection,
    columns_total: usize,
    parts_total: usize,
}

/// The first rows of a file or folder, as text.
#[derive(Debug, Serialize)]
pub(super) struct RowsReport {
    columns: Vec<RowsColumn>,
    columns_total: usize,
    /// Text of each column of each row; `None` for a null.
    rows: Vec<Vec<Option<String>>>,
    /// Rows of the file, or of all files of the folder.
    rows_total: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct RowsColumn {
    name: String,
    #[serde(rename = "type")]
    data_type: String,
}

impl RowsColumn {
    pub(super) fn of(field: &Field) -> Self {
        Self { name: field.name().clone(), data_type: field.data_type().to_string() }
    }
}

/// Lists a level of a bucket.
pub(super) async fn list(bucket: &Bucket, query: BrowseQuery) -> Result<BrowsedPage, AdminRejection> {
    let token = query.token.as_deref().map(listing_token::open).transpose();
    let token = token.map_err(|_| (StatusCode::BAD_REQUEST, "token: not one of this node"))?;
    let request = ListRequest {
        prefix: query.prefix,
        delimiter: "/".to_owned(),
        token,
        max_keys: MAX_LISTED,
        ..ListRequest::default()
    };

    let page = bucket.reader.list_page(request).await.map_err(|error| rejection_of_origin(bucket, &error))?;
    let objects = page.objects.into_iter().map(|object| BrowsedObject {
        size: object.meta.size,
        modified: object.meta.last_modified.to_rfc3339_opts(SecondsFormat::Secs, true),
        key: object.key,
    });
    Ok(BrowsedPage {
        folders: page.prefixes,
        objects: objects.collect(),
        next: page.next_token.as_deref().map(listing_token::seal),
    })
}

/// Describes a file. Column chunks are described for one row group only: a file may have millions.
pub(super) async fn describe(
    node: &Node,
    bucket: &Bucket,
    query: &InspectQuery,
) -> Result<FileReport, AdminRejection> {
    let source = source(bucket, &query.key)?;
    let inspected = with_deadline(inspect(&source, node.columns())).await?;
    let mut file = inspected.map_err(|error| rejection_of_file(bucket, &error))?;

    file.object = format!("{}/{}", bucket.name, query.key);
    let columns_total = file.columns.len();
    let parts_total = file.parts.len();
    if query.row_group.is_some_and(|row_group| row_group >= parts_total.min(MAX_PARTS)) {
        return Err((StatusCode::NOT_FOUND, "the file has no such row group"));
    }
    file.schema.truncate(MAX_COLUMNS);
    file.columns.truncate(MAX_COLUMNS);
    file.metadata.truncate(MAX_COLUMNS);
    for (index, part) in file.parts.iter_mut().enumerate() {
        let columns = if query.row_group == Some(index) { MAX_COLUMNS } else { 0 };
        part.columns.truncate(columns);
        part.extents.clear();
    }
    file.parts.truncate(MAX_PARTS);
    for entry in &mut file.metadata {
        entry.value = entry.value.take().map(shortened);
    }

    Ok(FileReport { file, columns_total, parts_total })
}

/// Reads the first rows of a file, or of the files in a folder.
pub(super) async fn first_rows(
    node: &Node,
    bucket: &Bucket,
    query: &RowsQuery,
    access_key: Option<String>,
) -> Result<RowsReport, AdminRejection> {
    let limit = query.rows.unwrap_or(DEFAULT_ROWS);
    if !(1..=MAX_ROWS).contains(&limit) {
        return Err((StatusCode::BAD_REQUEST, "rows: must be 1 to 500"));
    }
    let source = source(bucket, &query.key)?;
    let running = node.running_reads().begin(NewRead {
        kind: "preview",
        text: format!("{}/{}", bucket.name, query.key),
        access_key,
        total_rows: None,
    });

    let read = with_deadline(read_rows(node, source, limit, &running));
    tokio::select! {
        read = read => read?.map_err(|error| rejection_of_file(bucket, &error)),
        () = running.cancelled() => Err((StatusCode::CONFLICT, "the read was cancelled at the admin door")),
    }
}

async fn read_rows(
    node: &Node,
    source: Source,
    limit: u64,
    running: &RunningReadGuard,
) -> Result<RowsReport, Error> {
    let whole = ScanRequest::over([source]).with_glob(false).plan(node.columns()).await?;
    let columns_total = whole.schema().fields().len();
    let shown: Vec<usize> = (0..columns_total.min(MAX_COLUMNS)).collect();
    let scan = whole.select(&shown, None, Some(limit))?;
    let columns = scan.schema().fields().iter().map(|field| RowsColumn::of(field)).collect();
    let mut rows = Vec::new();
    let mut batches = scan.stream();
    while let Some(batch) = batches.try_next().await? {
        running.sent(batch.num_rows() as u64, 0);
        append_rows(&batch, &mut rows).map_err(|source| Error::Arrow {
            context: "showing rows".to_owned(),
            source: Arc::new(source),
        })?;
    }

    Ok(RowsReport { columns, columns_total, rows, rows_total: whole.estimated_rows() })
}

/// Appends the rows of a batch as text.
pub(super) fn append_rows(
    batch: &RecordBatch,
    rows: &mut Vec<Vec<Option<String>>>,
) -> Result<(), ArrowError> {
    let options = FormatOptions::new().with_display_error(true);
    let formatters: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<_, _>>()?;
    for row in 0..batch.num_rows() {
        let values = batch.columns().iter().zip(&formatters);
        let values = values.map(|(column, formatter)| {
            (!column.is_null(row)).then(|| shortened(formatter.value(row).to_string()))
        });
        rows.push(values.collect());
    }
    Ok(())
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_VALUE_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns the file or folder at a key, which must not be a pattern.
fn source(bucket: &Bucket, key: &str) -> Result<Source, AdminRejection> {
    if is_reserved_key(key) {
        return Err((StatusCode::NOT_FOUND, "no such object"));
    }
    if key.is_empty() || key.contains(['*', '?', '[']) {
        return Err((StatusCode::BAD_REQUEST, "key: name a file or a folder, without *, ? and ["));
    }
    Ok(Source::Store { store: bucket.reader.clone(), pattern: key.to_owned() })
}

async fn with_deadline<T>(work: impl Future<Output = T>) -> Result<T, AdminRejection> {
    timeout(TIMEOUT, work)
        .await
        .map_err(|_| (StatusCode::GATEWAY_TIMEOUT, "the file could not be read within 30 seconds"))
}

/// Maps an error of a file to a status. Error texts of origins and files go to the log only.
fn rejection_of_file(bucket: &Bucket, error: &Error) -> AdminRejection {
    let what = match error {
        Error::Storage(error) => return rejection_of_origin(bucket, error),
        Error::NoFiles { .. } => return (StatusCode::NOT_FOUND, "no such object"),
        Error::Pattern { .. } => return (StatusCode::BAD_REQUEST, "key: not a path"),
        Error::Format { .. } => "the object is neither Parquet nor ORC",
        Error::Encrypted { .. } => "the file is encrypted",
        Error::Corrupt { .. } => "the file is corrupt",
        _ => "the file cannot be read",
    };
    tracing::info!(bucket = bucket.name, error = %redacted(&error.to_string()), "not shown");
    (StatusCode::UNPROCESSABLE_ENTITY, what)
}

fn rejection_of_origin(bucket: &Bucket, error: &StorageError) -> AdminRejection {
    match error {
        StorageError::NotFound { .. } => (StatusCode::NOT_FOUND, "no such object"),
        StorageError::ImpossiblePath { .. } => (StatusCode::BAD_REQUEST, "key: not a path of this origin"),
        _ => {
            tracing::warn!(bucket = bucket.name, error = %redacted(&error.to_string()), "origin failed");
            (StatusCode::BAD_GATEWAY, "the bucket's origin cannot be read")
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    #[test]
    fn rows_are_text_with_nulls_and_long_values_are_cut() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["é".repeat(1_000), String::new()]));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        let mut rows = Vec::new();
        append_rows(&batch, &mut rows).unwrap();
        assert_eq!(rows[0][0].as_deref(), Some("1"));
        assert_eq!(rows[0][1].as_ref().unwrap().chars().count(), MAX_VALUE_CHARS + 1);
        assert_eq!(rows[1], [None, Some(String::new())]);
    }
}
