//! Incomplete multipart uploads: ListMultipartUploads, and ListParts for one of them.
//!
//! Only uploads staged by this node are listed: the object_store crate cannot list an origin's own uploads.

use object_store::path::Path;
use s3s::{
    S3Error, S3Response, S3Result,
    dto::{
        CommonPrefix, ListMultipartUploadsInput, ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput,
        MultipartUpload, Part,
    },
    s3_error,
};
use stylobate_storage::{UnfinishedUpload, UploadedPart, key_of_path};

use super::put::writable_path;
use crate::s3::{
    door::S3Backend,
    read::{
        conditions::timestamp,
        list::{KeyEncoding, encoding},
        open as read,
    },
    wire::{error, etag},
};

/// Maximum parts or uploads of one answer, as in S3.
const MAX_LISTED: i32 = 1000;

pub(crate) async fn list_parts(
    door: &S3Backend,
    input: ListPartsInput,
) -> S3Result<S3Response<ListPartsOutput>> {
    let bucket = door.readable(&input.bucket)?;
    read::refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    let path = writable_path(&bucket.reader, &input.key)?;

    let max_parts = max_listed("max-parts", input.max_parts)?;
    let after = number("part-number-marker", input.part_number_marker)?.unwrap_or_default();

    let parts = bucket.reader.list_parts(&path, &input.upload_id).await;
    let parts = parts.map_err(|failed| error::from_storage(&failed))?.ok_or_else(unknown)?;
    let mut parts: Vec<_> =
        parts.into_iter().filter(|part| i64::from(part.number) > i64::from(after)).collect();

    let truncated = max_parts > 0 && parts.len() > max_parts as usize;
    parts.truncate(max_parts as usize);
    let last = parts.last().map(|part| part.number as i32);

    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        max_parts: Some(max_parts),
        part_number_marker: Some(after),
        next_part_number_marker: last.filter(|_| truncated),
        is_truncated: Some(truncated),
        parts: Some(parts.into_iter().map(part).collect()),
        ..Default::default()
    }))
}

fn part(part: UploadedPart) -> Part {
    Part {
        part_number: Some(part.number as i32),
        size: Some(part.size as i64),
        e_tag: part.e_tag.as_deref().map(etag::from_origin),
        last_modified: Some(timestamp(part.last_modified)),
        ..Default::default()
    }
}

pub(crate) async fn list_uploads(
    door: &S3Backend,
    input: ListMultipartUploadsInput,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let bucket = door.readable(&input.bucket)?;
    let max_uploads = max_listed("max-uploads", input.max_uploads)?;
    let encoding = encoding(input.encoding_type.as_ref())?;

    let uploads = bucket.reader.list_uploads().await;
    let mut uploads = uploads.map_err(|failed| error::from_storage(&failed))?.ok_or_else(unknown)?;
    if bucket.reader.origin().folder().is_some() {
        for upload in &mut uploads {
            if let Ok(path) = Path::parse(&upload.path) {
                upload.path = key_of_path(&path);
            }
        }
        uploads.sort_by(|a, b| (&a.path, &a.id).cmp(&(&b.path, &b.id)));
    }

    let prefix = input.prefix.as_deref().unwrap_or_default();
    let key = input.key_marker.as_deref();
    let id = input.upload_id_marker.as_deref();
    uploads.retain(|upload| upload.path.starts_with(prefix) && is_after(upload, key, id));

    let delimiter = input.delimiter.as_deref().unwrap_or_default();
    let mut found = rolled_up(uploads, prefix, delimiter, key);
    let truncated = max_uploads > 0 && found.len() > max_uploads as usize;
    found.truncate(max_uploads as usize);
    let (next_key_marker, next_upload_id_marker) = match found.last().filter(|_| truncated) {
        Some(ListedUpload::Upload(last)) => (Some(last.path.clone()), Some(last.id.clone())),
        Some(ListedUpload::Prefix(last)) => (Some(last.clone()), None),
        None => (None, None),
    };

    let (mut uploads, mut prefixes) = (Vec::new(), Vec::new());
    for found in found {
        match found {
            ListedUpload::Upload(found) => uploads.push(upload(found, encoding)),
            ListedUpload::Prefix(prefix) => {
                prefixes.push(CommonPrefix { prefix: Some(encoding.apply(prefix)) });
            }
        }
    }
    let encoded = |text: Option<String>| text.map(|text| encoding.apply(text));

    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        prefix: encoded(input.prefix),
        key_marker: encoded(input.key_marker),
        upload_id_marker: input.upload_id_marker,
        next_key_marker: encoded(next_key_marker),
        next_upload_id_marker,
        max_uploads: Some(max_uploads),
        is_truncated: Some(truncated),
        encoding_type: input.encoding_type,
        delimiter: encoded(input.delimiter),
        uploads: Some(uploads),
        common_prefixes: Some(prefixes),
        ..Default::default()
    }))
}

/// An upload in a listing, or the common prefix of the keys of several.
#[derive(Debug, PartialEq, Eq)]
enum ListedUpload {
    Upload(UnfinishedUpload),
    Prefix(String),
}

/// Rolls up uploads, in order of their keys, whose keys have the delimiter after the prefix. A common prefix that the
/// listing continues after is left out.
fn rolled_up(
    uploads: Vec<UnfinishedUpload>,
    prefix: &str,
    delimiter: &str,
    after: Option<&str>,
) -> Vec<ListedUpload> {
    let mut found: Vec<ListedUpload> = Vec::new();
    for upload in uploads {
        let below = upload.path.get(prefix.len()..).filter(|_| !delimiter.is_empty());
        let end = below.and_then(|below| below.find(delimiter)).map(|at| prefix.len() + at + delimiter.len());
        let Some(common) = end.and_then(|end| upload.path.get(..end)) else {
            found.push(ListedUpload::Upload(upload));
            continue;
        };

        let is_listed = matches!(found.last(), Some(ListedUpload::Prefix(last)) if last == common);
        if !is_listed && after != Some(common) {
            found.push(ListedUpload::Prefix(common.to_owned()));
        }
    }
    found
}

fn upload(upload: UnfinishedUpload, encoding: KeyEncoding) -> MultipartUpload {
    MultipartUpload {
        key: Some(encoding.apply(upload.path)),
        upload_id: Some(upload.id),
        initiated: Some(timestamp(upload.initiated)),
        ..Default::default()
    }
}

/// Returns true if the upload comes after these markers in a listing: a key alone skips all of its uploads.
fn is_after(upload: &UnfinishedUpload, key: Option<&str>, id: Option<&str>) -> bool {
    match (key.filter(|key| !key.is_empty()), id.filter(|id| !id.is_empty())) {
        (None, _) => true,
        (Some(key), None) => upload.path.as_str() > key,
        (Some(key), Some(id)) => (upload.path.as_str(), upload.id.as_str()) > (key, id),
    }
}

fn unknown() -> S3Error {
    s3_error!(NotImplemented, "the uploads of this bucket are the origin's own: ask the origin for them")
}

fn max_listed(name: &str, asked: Option<i32>) -> S3Result<i32> {
    Ok(number(name, asked)?.unwrap_or(MAX_LISTED).min(MAX_LISTED))
}

fn number(name: &str, asked: Option<i32>) -> S3Result<Option<i32>> {
    match asked {
        Some(number) if number < 0 => Err(s3_error!(InvalidArgument, "{name} must not be negative")),
        asked => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_of_a_key_stands_for_all_its_uploads_and_one_of_an_upload_for_itself() {
        let upload = |path: &str, id: &str| UnfinishedUpload {
            path: path.into(),
            id: id.into(),
            initiated: chrono::DateTime::default(),
        };
        let b2 = upload("b", "2");

        for (key, id, shown) in [
            (None, None, true),
            (None, Some("9"), true),
            (Some("a"), None, true),
            (Some("a"), Some("9"), true),
            (Some("b"), None, false),
            (Some("b"), Some("1"), true),
            (Some("b"), Some("2"), false),
            (Some("c"), Some("1"), false),
        ] {
            assert_eq!(is_after(&b2, key, id), shown, "{key:?} {id:?}");
        }
    }
}
