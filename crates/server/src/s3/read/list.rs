//! ListBuckets and both versions of ListObjects.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        self, CommonPrefix, EncodingType, ListBucketsInput, ListBucketsOutput, ListObjectVersionsInput,
        ListObjectVersionsOutput, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input,
        ListObjectsV2Output, Object, ObjectStorageClass, ObjectVersion, ObjectVersionStorageClass,
    },
    s3_error,
};
use stylobate_storage::{ListPage, ListRequest, ListedKey};

use super::{conditions::timestamp, questions, token};
use crate::{
    access::Action,
    node::Bucket,
    s3::{
        auth::authenticate::Caller,
        door::S3Backend,
        wire::{error, etag, keys},
    },
};

/// Version id of an object in an unversioned bucket.
const NO_VERSION: &str = "null";

/// Maximum keys and prefixes of one answer, as in S3.
const MAX_KEYS: i32 = 1000;

/// Bytes that are escaped in percent-encoded keys: all except those that S3's listings leave unescaped.
const LISTED_KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*').remove(b'/');

pub(crate) fn list_buckets(
    door: &S3Backend,
    request: &S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let key = request.extensions.get::<Caller>().and_then(|caller| caller.access_key.as_deref());
    let prefix = request.input.prefix.as_deref().unwrap_or_default();
    let seen = door.node.buckets().filter(|bucket| {
        bucket.name.starts_with(prefix) && door.node.keys().allows(key, &bucket.name, Action::Read)
    });
    let buckets = seen.map(|bucket| dto::Bucket {
        name: Some(bucket.name.clone()),
        creation_date: Some(timestamp(bucket.created)),
        bucket_region: Some(door.node.region().to_owned()),
    });

    let output = ListBucketsOutput {
        buckets: Some(buckets.collect()),
        prefix: request.input.prefix.clone(),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

pub(crate) async fn list_objects(
    door: &S3Backend,
    input: ListObjectsInput,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let bucket = door.readable(&input.bucket)?;
    let query = ListQuery::new(
        bucket,
        input.prefix.as_deref(),
        input.delimiter.as_deref(),
        input.max_keys,
        input.encoding_type.as_ref(),
    )?;

    let marker = input.marker.clone().filter(|marker| !marker.is_empty());
    let page = query.page_with_marker(bucket, marker).await?;
    let next_marker = page.next_token.is_some().then(|| last_of(&page)).flatten();
    let encoded = |text: Option<String>| text.map(|text| query.encoding.apply(text));
    Ok(S3Response::new(ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(query.encoding.apply(query.prefix.clone())),
        marker: Some(encoded(input.marker).unwrap_or_default()),
        max_keys: Some(query.max_keys),
        is_truncated: Some(page.next_token.is_some()),
        next_marker: encoded(next_marker),
        delimiter: encoded(input.delimiter),
        encoding_type: input.encoding_type,
        common_prefixes: Some(query.prefixes(page.prefixes)),
        contents: Some(query.objects(page.objects)),
        ..Default::default()
    }))
}

pub(crate) async fn list_objects_v2(
    door: &S3Backend,
    input: ListObjectsV2Input,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let bucket = door.readable(&input.bucket)?;
    let query = ListQuery::new(
        bucket,
        input.prefix.as_deref(),
        input.delimiter.as_deref(),
        input.max_keys,
        input.encoding_type.as_ref(),
    )?;

    let token = input.continuation_token.as_deref().map(token::open).transpose()?;
    let start_after = input.start_after.clone().filter(|key| !key.is_empty());
    let page = query.page(bucket, start_after, token).await?;
    let encoded = |text: Option<String>| text.map(|text| query.encoding.apply(text));
    Ok(S3Response::new(ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(query.encoding.apply(query.prefix.clone())),
        max_keys: Some(query.max_keys),
        key_count: Some((page.objects.len() + page.prefixes.len()) as i32),
        continuation_token: input.continuation_token,
        is_truncated: Some(page.next_token.is_some()),
        next_continuation_token: page.next_token.as_deref().map(token::seal),
        delimiter: encoded(input.delimiter),
        encoding_type: input.encoding_type,
        start_after: encoded(input.start_after),
        common_prefixes: Some(query.prefixes(page.prefixes)),
        contents: Some(query.objects(page.objects)),
        ..Default::default()
    }))
}

/// Lists the current objects as versions with the id "null", as in an unversioned bucket.
pub(crate) async fn list_object_versions(
    door: &S3Backend,
    input: ListObjectVersionsInput,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let bucket = door.readable(&input.bucket)?;
    let query = ListQuery::new(
        bucket,
        input.prefix.as_deref(),
        input.delimiter.as_deref(),
        input.max_keys,
        input.encoding_type.as_ref(),
    )?;

    let marker = input.key_marker.clone().filter(|marker| !marker.is_empty());
    let page = query.page_with_marker(bucket, marker).await?;
    let is_truncated = page.next_token.is_some();
    let next_key_marker = is_truncated.then(|| last_of(&page)).flatten();
    let encoded = |text: Option<String>| text.map(|text| query.encoding.apply(text));

    let version = |object: Object| ObjectVersion {
        key: object.key,
        e_tag: object.e_tag,
        size: object.size,
        last_modified: object.last_modified,
        is_latest: Some(true),
        version_id: Some(NO_VERSION.to_owned()),
        owner: Some(questions::owner()),
        storage_class: Some(ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD)),
        ..Default::default()
    };

    Ok(S3Response::new(ListObjectVersionsOutput {
        name: Some(input.bucket),
        prefix: Some(query.encoding.apply(query.prefix.clone())),
        key_marker: Some(encoded(input.key_marker).unwrap_or_default()),
        version_id_marker: input.version_id_marker,
        max_keys: Some(query.max_keys),
        is_truncated: Some(is_truncated),
        next_version_id_marker: next_key_marker.as_ref().map(|_| NO_VERSION.to_owned()),
        next_key_marker: encoded(next_key_marker),
        delimiter: encoded(input.delimiter),
        encoding_type: input.encoding_type,
        common_prefixes: Some(query.prefixes(page.prefixes)),
        versions: Some(query.objects(page.objects).into_iter().map(version).collect()),
        ..Default::default()
    }))
}

/// Parameters that all listings of a bucket share.
struct ListQuery {
    prefix: String,
    delimiter: String,
    max_keys: i32,
    encoding: KeyEncoding,
}

impl ListQuery {
    fn new(
        bucket: &Bucket,
        prefix: Option<&str>,
        delimiter: Option<&str>,
        max_keys: Option<i32>,
        encoding_type: Option<&EncodingType>,
    ) -> S3Result<Self> {
        Ok(Self {
            prefix: prefix.unwrap_or_default().to_owned(),
            delimiter: self::delimiter(bucket, delimiter)?,
            max_keys: self::max_keys(max_keys)?,
            encoding: encoding(encoding_type)?,
        })
    }

    /// Returns the page that begins after a key, or after all keys below a common prefix.
    async fn page(
        &self,
        bucket: &Bucket,
        marker: Option<String>,
        token: Option<String>,
    ) -> S3Result<ListPage> {
        if self.max_keys == 0 || !keys::can_begin_a_key(bucket.reader.origin(), &self.prefix) {
            return Ok(ListPage { objects: Vec::new(), prefixes: Vec::new(), next_token: None });
        }
        let (past_prefix, start_after): (Vec<_>, Vec<_>) =
            marker.into_iter().partition(|marker| is_prefix(marker, self));
        let request = ListRequest {
            prefix: self.prefix.clone(),
            delimiter: self.delimiter.clone(),
            start_after: start_after.into_iter().next(),
            past_prefix: past_prefix.into_iter().next(),
            token,
            max_keys: self.max_keys as usize,
        };

        bucket.reader.list_page(request).await.map_err(|failed| error::from_storage(&failed))
    }

    /// Returns a page of a listing that the client continues after the page's last key or prefix.
    async fn page_with_marker(&self, bucket: &Bucket, marker: Option<String>) -> S3Result<ListPage> {
        let mut page = self.page(bucket, marker.clone(), None).await?;
        // A page may be empty because its keys are hidden, but only a key or prefix can serve as a marker.
        while last_of(&page).is_none() && page.next_token.is_some() {
            page = self.page(bucket, marker.clone(), page.next_token).await?;
        }
        Ok(page)
    }

    fn objects(&self, objects: Vec<ListedKey>) -> Vec<Object> {
        let object = |ListedKey { key, meta }| Object {
            key: Some(self.encoding.apply(key)),
            last_modified: Some(timestamp(meta.last_modified)),
            e_tag: meta.e_tag.as_deref().map(etag::from_origin),
            size: Some(meta.size as i64),
            storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
            ..Default::default()
        };
        objects.into_iter().map(object).collect()
    }

    fn prefixes(&self, prefixes: Vec<String>) -> Vec<CommonPrefix> {
        let prefix = |prefix| CommonPrefix { prefix: Some(self.encoding.apply(prefix)) };
        prefixes.into_iter().map(prefix).collect()
    }
}

/// Encoding of keys in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyEncoding {
    /// As they are.
    Plain,
    /// Percent-encoded, so that any key fits into XML.
    Url,
}

impl KeyEncoding {
    pub(crate) fn apply(self, text: String) -> String {
        match self {
            Self::Plain => text,
            Self::Url => utf8_percent_encode(&text, LISTED_KEY).to_string(),
        }
    }
}

pub(crate) fn encoding(asked: Option<&EncodingType>) -> S3Result<KeyEncoding> {
    match asked.map(EncodingType::as_str) {
        None | Some("") => Ok(KeyEncoding::Plain),
        Some(EncodingType::URL) => Ok(KeyEncoding::Url),
        Some(_) => Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request")),
    }
}

/// Returns the delimiter of a listing. Only folders support delimiters other than a slash.
fn delimiter(bucket: &Bucket, asked: Option<&str>) -> S3Result<String> {
    match asked.unwrap_or_default() {
        known @ ("" | "/") => Ok(known.to_owned()),
        other if bucket.reader.origin().folder().is_some() => Ok(other.to_owned()),
        _ => Err(s3_error!(NotImplemented, "the only delimiter is '/'")),
    }
}

fn max_keys(asked: Option<i32>) -> S3Result<i32> {
    match asked {
        None => Ok(MAX_KEYS),
        Some(keys) if keys < 0 => Err(s3_error!(InvalidArgument, "max-keys must not be negative")),
        Some(keys) => Ok(keys.min(MAX_KEYS)),
    }
}

/// Returns true if `marker` was a common prefix. It then stands for all keys below it, which would be rolled up into
/// the same prefix again.
fn is_prefix(marker: &str, asked: &ListQuery) -> bool {
    let below = marker.strip_prefix(asked.prefix.as_str()).unwrap_or_default();
    let end = below.len().checked_sub(asked.delimiter.len());
    !asked.delimiter.is_empty() && !below.is_empty() && below.find(&asked.delimiter) == end
}

/// Returns the last key or prefix of a page.
fn last_of(page: &ListPage) -> Option<String> {
    let key = page.objects.last().map(|listed| listed.key.as_str());
    let prefix = page.prefixes.last().map(String::as_str);
    key.max(prefix).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(prefix: &str, delimiter: &str) -> ListQuery {
        ListQuery {
            prefix: prefix.into(),
            delimiter: delimiter.into(),
            max_keys: 1000,
            encoding: KeyEncoding::Plain,
        }
    }

    #[test]
    fn a_marker_that_is_a_common_prefix_stands_for_all_below_it() {
        assert!(is_prefix("a/", &asked("", "/")));
        assert!(is_prefix("a/b/", &asked("a/", "/")));
        assert!(!is_prefix("a/b/", &asked("", "/")));
        assert!(!is_prefix("a/", &asked("", "")));
        assert!(!is_prefix("a", &asked("", "/")));
    }

    #[test]
    fn max_keys_is_a_thousand_at_most() {
        assert_eq!(max_keys(None).unwrap(), 1000);
        assert_eq!(max_keys(Some(5_000)).unwrap(), 1000);
        assert_eq!(max_keys(Some(0)).unwrap(), 0);
        assert!(max_keys(Some(-1)).is_err());
    }

    #[test]
    fn url_encoding_leaves_slashes_alone() {
        assert_eq!(KeyEncoding::Url.apply("a b/c+d=ü".into()), "a%20b/c%2Bd%3D%C3%BC");
        assert_eq!(KeyEncoding::Plain.apply("a b".into()), "a b");
    }
}
