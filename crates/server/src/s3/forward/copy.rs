//! Copies from a bucket that the target's origin cannot reach: reads the source through the cache, and writes it as a
//! new object or part.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE,
        ETAG, EXPIRES,
    },
};
use s3s::{
    Body, HttpResponse, S3ErrorCode, S3Result,
    dto::{StreamingBlob, Timestamp, TimestampFormat},
    s3_error,
};

use super::{
    super::{authorize::CopySourceHeader, operation::S3Operation},
    BucketNames, ChangedObjects, ForwardRequest, Forwarder, OutgoingBody, UNSIGNED_PAYLOAD,
};
use crate::s3::{
    read::{
        body::ObjectBody,
        conditions::ReadConditions,
        object::{describe_copy, tag_condition},
        open::{self as read, OpenedObject},
        range::RequestedRange,
    },
    wire::error::{self, push_element},
};

const COPY: &str = "x-amz-copy-source";
const METADATA_DIRECTIVE: HeaderName = HeaderName::from_static("x-amz-metadata-directive");
const TAGGING_DIRECTIVE: HeaderName = HeaderName::from_static("x-amz-tagging-directive");
const COPY_RANGE: HeaderName = HeaderName::from_static("x-amz-copy-source-range");
const METADATA: &str = "x-amz-meta-";

/// Headers that describe an object, which a copy keeps unless the request replaces them.
const DESCRIBING: [HeaderName; 6] =
    [CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES];

impl Forwarder {
    /// Copies through the node, if the target's origin cannot copy the source itself.
    pub(super) async fn copy_from_elsewhere(
        &self,
        request: &ForwardRequest<'_>,
        headers: &HeaderMap,
    ) -> S3Result<Option<HttpResponse>> {
        let Some(source) = CopySourceHeader::of(headers)? else { return Ok(None) };
        let bucket = self.node.bucket(&source.bucket).ok_or_else(error::no_such_bucket)?;
        if bucket.reader.origin().s3().is_some_and(|endpoint| endpoint.is_beside(request.endpoint)) {
            return Ok(None);
        }
        if source.version.is_some() {
            return Err(s3_error!(
                NotImplemented,
                "x-amz-copy-source: a version can be copied within one origin only"
            ));
        }

        let is_part = request.operation.name == "UploadPartCopy";
        let conditions = conditions(headers)?;
        let range = headers.get(COPY_RANGE).filter(|_| is_part).and_then(|range| range.to_str().ok());
        let wanted = RequestedRange::of_copy(range)?;

        let path = read::readable_path(&bucket.reader, &source.key)?;
        let opened = read::open(&bucket.reader, &path, &wanted, &conditions).await.map_err(|failed| {
            match failed.code() {
                S3ErrorCode::NotModified => error::precondition_failed("x-amz-copy-source-If-None-Match"),
                _ => failed,
            }
        })?;
        wanted.check_copy(opened.result.meta.size)?;

        let is_replaced = headers.get(METADATA_DIRECTIVE).is_some_and(|value| value == "REPLACE");
        let sent = if is_part {
            HeaderMap::new()
        } else {
            target_headers(headers, &opened, path.as_ref(), is_replaced)
        };
        self.put_copy(request, sent, opened, is_part).await.map(Some)
    }

    /// Writes the opened source object to the target of the request.
    async fn put_copy(
        &self,
        request: &ForwardRequest<'_>,
        mut headers: HeaderMap,
        opened: OpenedObject,
        is_part: bool,
    ) -> S3Result<HttpResponse> {
        let length = opened.result.range.end - opened.result.range.start;
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        let modified = opened.result.meta.last_modified;
        let stream = ObjectBody::new(opened.result.into_stream(), length);
        let outgoing = OutgoingBody {
            body: Body::from(StreamingBlob::new(stream)),
            payload: UNSIGNED_PAYLOAD.to_owned(),
        };

        let names = BucketNames::of(request.bucket, request.endpoint);
        let name = if is_part { "UploadPart" } else { "PutObject" };
        let put = ForwardRequest {
            bucket: request.bucket,
            endpoint: request.endpoint,
            operation: S3Operation { name, ..request.operation },
            target: request.target,
            query: request.query.clone(),
            method: Method::PUT,
            headers: HeaderMap::new(),
            caller: request.caller.clone(),
        };

        let keys: Vec<String> = request.target.key().map(str::to_owned).into_iter().collect();
        let changes = ChangedObjects::of(&self.node, request.endpoint, &put.operation, &keys);
        let sent = self.build(&put, &names, headers, outgoing).await?;
        let answer = self.send(sent, changes, &put).await?;
        if answer.status() != StatusCode::OK {
            return self.hand_back(&put, &names, std::time::Instant::now(), answer).await;
        }

        let etag = answer.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default();
        let root = if is_part { "CopyPartResult" } else { "CopyObjectResult" };
        let mut xml = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root}>");
        let time = if is_part { modified } else { chrono::Utc::now() };
        push_element(&mut xml, "LastModified", &time.format("%Y-%m-%dT%H:%M:%S.000Z").to_string());
        push_element(&mut xml, "ETag", etag);
        xml.push_str(&format!("</{root}>"));
        let mut copied = HttpResponse::new(Body::from(xml));
        copied.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));

        Ok(copied)
    }
}

/// Returns the headers of the written object: those of the request and, unless it replaces them, those that describe
/// the source.
fn target_headers(headers: &HeaderMap, opened: &OpenedObject, path: &str, is_replaced: bool) -> HeaderMap {
    let mut sent = HeaderMap::new();
    let describes = |name: &HeaderName| DESCRIBING.contains(name) || name.as_str().starts_with(METADATA);
    for (name, value) in headers {
        let is_of_copy = name.as_str().starts_with(COPY)
            || *name == METADATA_DIRECTIVE
            || *name == TAGGING_DIRECTIVE
            || *name == CONTENT_LENGTH;
        if !is_of_copy && (is_replaced || !describes(name)) {
            sent.append(name.clone(), value.clone());
        }
    }

    if !is_replaced {
        for (name, value) in &describe_copy(opened, path) {
            if describes(name) {
                sent.append(name.clone(), value.clone());
            }
        }
    }

    sent
}

fn conditions(headers: &HeaderMap) -> S3Result<ReadConditions> {
    let tag = |name: &'static str| {
        tag_condition(headers, &HeaderName::from_static(name))
            .ok_or_else(|| s3_error!(NotImplemented, "{name}: one ETag can be compared"))
    };
    let date = |name: &str| {
        let text = headers.get(name)?.to_str().ok()?;
        Timestamp::parse(TimestampFormat::HttpDate, text).ok()
    };

    Ok(ReadConditions {
        if_match: tag("x-amz-copy-source-if-match")?,
        if_none_match: tag("x-amz-copy-source-if-none-match")?,
        if_modified_since: date("x-amz-copy-source-if-modified-since"),
        if_unmodified_since: date("x-amz-copy-source-if-unmodified-since"),
    })
}
