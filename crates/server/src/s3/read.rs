//! GetObject and HeadObject.

use http::header::HeaderMap;
use object_store::{GetOptions, GetResult, ObjectStore, path::Path};
use s3s::{
    S3Error, S3Response, S3Result,
    dto::{
        ETag, ETagCondition, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput,
        StreamingBlob, Timestamp, TimestampFormat,
    },
    s3_error,
};
use stylobate_storage::{ObjectHeaders, ReadThrough};

use super::{
    attributes::Described,
    conditions::{Conditions, Verdict, timestamp},
    door::{Door, refuse_version},
    error, etag,
    keys::Key,
    object_body::ObjectBody,
    range::{Wanted, content_range},
};

const ACCEPT_RANGES: &str = "bytes";

pub(super) async fn get_object(door: &Door, input: GetObjectInput) -> S3Result<S3Response<GetObjectOutput>> {
    let reader = &door.readable(&input.bucket)?.reader;
    refuse_version(input.version_id.as_deref())?;
    refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    let path = readable_path(&input.key)?;
    let wanted = Wanted::new(input.range, input.part_number)?;
    let conditions = Conditions {
        if_match: input.if_match,
        if_none_match: input.if_none_match,
        if_modified_since: input.if_modified_since,
        if_unmodified_since: input.if_unmodified_since,
    };
    let result = open(reader, &path, &wanted, &conditions).await?.result;
    let (meta, range) = (result.meta.clone(), result.range.clone());
    let described = Described::from_origin(&result.attributes, path.as_ref());
    let length = range.end - range.start;
    let body = ObjectBody::new(result.into_stream(), length);
    Ok(S3Response::new(GetObjectOutput {
        accept_ranges: Some(ACCEPT_RANGES.to_owned()),
        body: Some(StreamingBlob::new(body)),
        content_length: Some(length as i64),
        content_range: wanted.is_partial().then(|| content_range(&range, meta.size)),
        e_tag: meta.e_tag.as_deref().map(etag::from_origin),
        last_modified: Some(timestamp(meta.last_modified)),
        cache_control: described.cache_control,
        content_disposition: described.content_disposition,
        content_encoding: described.content_encoding,
        content_language: described.content_language,
        content_type: described.content_type,
        metadata: described.metadata,
        storage_class: described.storage_class,
        ..Default::default()
    }))
}

pub(super) async fn head_object(
    door: &Door,
    input: HeadObjectInput,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let reader = &door.readable(&input.bucket)?.reader;
    refuse_version(input.version_id.as_deref())?;
    refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    let path = readable_path(&input.key)?;
    let wanted = Wanted::new(input.range, input.part_number)?;
    let conditions = Conditions {
        if_match: input.if_match,
        if_none_match: input.if_none_match,
        if_modified_since: input.if_modified_since,
        if_unmodified_since: input.if_unmodified_since,
    };
    let result = look(reader, &path, &conditions).await?.result;
    let meta = &result.meta;
    let range = wanted.within(meta.size).ok_or_else(|| error::invalid_range(meta.size))?;
    let described = Described::from_origin(&result.attributes, path.as_ref());
    let mut response = S3Response::new(HeadObjectOutput {
        accept_ranges: Some(ACCEPT_RANGES.to_owned()),
        content_length: Some((range.end - range.start) as i64),
        content_range: wanted.is_partial().then(|| content_range(&range, meta.size)),
        e_tag: meta.e_tag.as_deref().map(etag::from_origin),
        last_modified: Some(timestamp(meta.last_modified)),
        cache_control: described.cache_control,
        content_disposition: described.content_disposition,
        content_encoding: described.content_encoding,
        content_language: described.content_language,
        content_type: described.content_type,
        metadata: described.metadata,
        storage_class: described.storage_class,
        ..Default::default()
    });
    insert(&mut response.headers, "content-type", input.response_content_type)?;
    insert(&mut response.headers, "content-disposition", input.response_content_disposition)?;
    insert(&mut response.headers, "content-encoding", input.response_content_encoding)?;
    insert(&mut response.headers, "content-language", input.response_content_language)?;
    insert(&mut response.headers, "cache-control", input.response_cache_control)?;
    insert(&mut response.headers, "expires", input.response_expires.as_ref().and_then(http_date))?;
    Ok(response)
}

/// The path of a key that may be read. A key that no object can have is one that no object has.
pub(super) fn readable_path(key: &str) -> S3Result<Path> {
    match Key::parse(key) {
        Ok(Key::Object(path)) => Ok(path),
        Ok(Key::Folder) | Err(_) => Err(error::no_such_key()),
    }
}

/// An object that was opened, and how an origin that speaks the S3 protocol describes it.
pub(super) struct Opened {
    pub(super) result: GetResult,
    pub(super) headers: Option<ObjectHeaders>,
}

impl Opened {
    /// Opens an object, or what is known of it.
    pub(super) async fn of(reader: &ReadThrough, path: &Path, options: GetOptions) -> S3Result<Self> {
        let opened = reader.get_with_headers(path, options).await;
        let (result, headers) = opened.map_err(|failed| error::from_storage(&failed))?;
        Ok(Self { result, headers })
    }

    fn tag(&self) -> Option<ETag> {
        self.result.meta.e_tag.as_deref().map(etag::from_origin)
    }
}

/// Opens the bytes that are wanted of the object, of a version for which the conditions hold.
pub(super) async fn open(
    reader: &ReadThrough,
    path: &Path,
    wanted: &Wanted,
    conditions: &Conditions,
) -> S3Result<Opened> {
    if *wanted == Wanted::Nothing {
        let size = look(reader, path, conditions).await?.result.meta.size;
        return Err(error::invalid_range(size));
    }
    // What the client has already is not worth a request for its bytes.
    if conditions.revalidates() {
        look(reader, path, conditions).await?;
    }
    let get = async || {
        let options = GetOptions { range: wanted.to_store(), ..GetOptions::default() };
        Opened::of(reader, path, options).await
    };
    let outcome = match get().await {
        Ok(opened)
            if conditions.check(opened.tag().as_ref(), opened.result.meta.last_modified)
                == Verdict::Failed =>
        {
            refresh(reader, path, conditions).await?;
            get().await
        }
        outcome => outcome,
    };
    match outcome {
        Ok(opened) => {
            judge(conditions, &opened)?;
            match wanted.within(opened.result.meta.size) {
                Some(_) => Ok(opened),
                None => Err(error::invalid_range(opened.result.meta.size)),
            }
        }
        // A condition that does not hold says more than a range that does not fit.
        Err(failed) if is_invalid_range(&failed) && !conditions.is_empty() => {
            look(reader, path, conditions).await?;
            Err(failed)
        }
        Err(failed) => Err(failed),
    }
}

/// What is known of the object, of a version for which the conditions hold.
pub(super) async fn look(reader: &ReadThrough, path: &Path, conditions: &Conditions) -> S3Result<Opened> {
    let head = async || {
        let options = GetOptions { head: true, ..GetOptions::default() };
        Opened::of(reader, path, options).await
    };
    let mut opened = head().await?;
    if conditions.check(opened.tag().as_ref(), opened.result.meta.last_modified) == Verdict::Failed {
        refresh(reader, path, conditions).await?;
        opened = head().await?;
    }
    judge(conditions, &opened)?;
    Ok(opened)
}

/// A condition failed on what is known of the object. Where the client may know a newer version, the origin is
/// asked before the request is refused.
async fn refresh(reader: &ReadThrough, path: &Path, conditions: &Conditions) -> S3Result<()> {
    let Some(ETagCondition::ETag(ETag::Strong(tag))) = &conditions.if_match else {
        return Err(conditions.failed());
    };
    // Origins quote their ETags or do not.
    let if_match = Some(format!("\"{tag}\",{tag}"));
    let options = GetOptions { head: true, if_match, ..GetOptions::default() };
    reader.get_opts(path, options).await.map_err(error::from_store)?;
    Ok(())
}

fn judge(conditions: &Conditions, opened: &Opened) -> S3Result<()> {
    let meta = &opened.result.meta;
    match conditions.check(opened.tag().as_ref(), meta.last_modified) {
        Verdict::Proceed => Ok(()),
        Verdict::NotModified => Err(error::not_modified(meta, opened.headers.as_ref())),
        Verdict::Failed => Err(conditions.failed()),
    }
}

fn is_invalid_range(error: &S3Error) -> bool {
    *error.code() == s3s::S3ErrorCode::InvalidRange
}

/// Encryption under the client's own key would have to be undone and done by the origin.
pub(super) fn refuse_customer_key(algorithm: Option<&str>) -> S3Result<()> {
    match algorithm {
        None => Ok(()),
        Some(_) => Err(s3_error!(NotImplemented, "encryption with keys of the client's is not supported")),
    }
}

fn http_date(time: &Timestamp) -> Option<String> {
    let mut text = Vec::new();
    time.format(TimestampFormat::HttpDate, &mut text).ok()?;
    String::from_utf8(text).ok()
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: Option<String>) -> S3Result<()> {
    if let Some(value) = value {
        let value = value.parse().map_err(|_| s3_error!(InvalidArgument, "invalid response-{name}"))?;
        headers.insert(name, value);
    }
    Ok(())
}
