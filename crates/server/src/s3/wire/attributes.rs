//! Converts an object's metadata between S3 headers and the attributes of an object store.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE},
};
use object_store::{Attribute, AttributeValue, Attributes};
use s3s::dto::{Metadata, StorageClass};

pub(crate) const METADATA: &str = "x-amz-meta-";
pub(crate) const STORAGE_CLASS: HeaderName = HeaderName::from_static("x-amz-storage-class");

/// Content type that S3 reports for an object without one.
const UNTYPED: &str = "binary/octet-stream";

/// Descriptive headers of an object in S3 requests and answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DescriptiveHeaders {
    pub(crate) content_type: Option<String>,
    pub(crate) cache_control: Option<String>,
    pub(crate) content_disposition: Option<String>,
    pub(crate) content_encoding: Option<String>,
    pub(crate) content_language: Option<String>,
    pub(crate) storage_class: Option<StorageClass>,
    pub(crate) metadata: Option<Metadata>,
}

impl DescriptiveHeaders {
    /// Converts the attributes of the object at `path`. If the origin stores no content type, as with a folder, it is
    /// derived from the path's extension.
    pub(crate) fn from_origin(attributes: &Attributes, path: &str) -> Self {
        let mut described = Self::default();
        for (attribute, value) in attributes {
            let value = value.as_ref().to_owned();
            match attribute {
                Attribute::ContentType => described.content_type = Some(value),
                Attribute::CacheControl => described.cache_control = Some(value),
                Attribute::ContentDisposition => described.content_disposition = Some(value),
                Attribute::ContentEncoding => described.content_encoding = Some(value),
                Attribute::ContentLanguage => described.content_language = Some(value),
                Attribute::StorageClass => described.storage_class = Some(value.into()),
                Attribute::Metadata(key) => {
                    described.metadata.get_or_insert_default().insert(key.to_string(), value);
                }
                _ => {}
            }
        }
        described.content_type.get_or_insert_with(|| type_of(path).to_owned());

        described
    }

    /// Takes the descriptive headers from a header map.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let text =
            |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let metadata = headers.iter().filter_map(|(name, value)| {
            let key = name.as_str().strip_prefix(METADATA)?;
            Some((key.to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        });

        let metadata: Metadata = metadata.collect();
        Self {
            content_type: text(&CONTENT_TYPE),
            cache_control: text(&CACHE_CONTROL),
            content_disposition: text(&CONTENT_DISPOSITION),
            content_encoding: text(&CONTENT_ENCODING),
            content_language: text(&CONTENT_LANGUAGE),
            storage_class: text(&STORAGE_CLASS).map(StorageClass::from),
            metadata: (!metadata.is_empty()).then_some(metadata),
        }
    }

    /// Returns the values as headers.
    pub(crate) fn into_headers(self) -> Vec<(HeaderName, HeaderValue)> {
        let encoding = self.content_encoding.and_then(|encoding| without_aws_chunked(&encoding));
        let class = self.storage_class.map(|class| class.as_str().to_owned());
        let named = [
            (CONTENT_TYPE, self.content_type),
            (CACHE_CONTROL, self.cache_control),
            (CONTENT_DISPOSITION, self.content_disposition),
            (CONTENT_ENCODING, encoding),
            (CONTENT_LANGUAGE, self.content_language),
            (STORAGE_CLASS, class.filter(|class| class != "STANDARD")),
        ];

        let named = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let metadata =
            self.metadata.into_iter().flatten().filter_map(|(key, value)| {
                Some((HeaderName::try_from(format!("{METADATA}{key}")).ok()?, value))
            });
        let headers = named.chain(metadata);

        headers
            .filter_map(|(name, value)| Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?)))
            .collect()
    }

    /// Returns the attributes to store with the object.
    pub(crate) fn into_attributes(self) -> Attributes {
        let encoding = self.content_encoding.and_then(|encoding| without_aws_chunked(&encoding));
        // The default storage class is omitted, since not every origin supports classes.
        let class =
            self.storage_class.map(|class| class.as_str().to_owned()).filter(|class| class != "STANDARD");
        let named = [
            (Attribute::ContentType, self.content_type),
            (Attribute::CacheControl, self.cache_control),
            (Attribute::ContentDisposition, self.content_disposition),
            (Attribute::ContentEncoding, encoding),
            (Attribute::ContentLanguage, self.content_language),
            (Attribute::StorageClass, class),
        ];

        let named = named.into_iter().filter_map(|(name, value)| Some((name, AttributeValue::from(value?))));
        let metadata = self.metadata.into_iter().flatten();
        let metadata = metadata.map(|(key, value)| (Attribute::Metadata(key.into()), value.into()));
        named.chain(metadata).collect()
    }
}

/// Returns the content encoding of the object, without the encoding of the request body.
pub(crate) fn without_aws_chunked(encoding: &str) -> Option<String> {
    let kept: Vec<&str> =
        encoding.split(',').map(str::trim).filter(|e| !e.is_empty() && !is_aws_chunked(e)).collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// Returns true if a Content-Encoding header includes aws-chunked.
pub(crate) fn names_aws_chunked(encoding: &str) -> bool {
    encoding.split(',').map(str::trim).any(is_aws_chunked)
}

fn is_aws_chunked(encoding: &str) -> bool {
    encoding.eq_ignore_ascii_case("aws-chunked")
}

/// Returns the content type for an object that has none of its own.
pub(crate) fn type_of(path: &str) -> &'static str {
    let extension =
        path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension);
    match extension {
        Some("parquet") => "application/vnd.apache.parquet",
        Some("json") => "application/json",
        Some("csv") => "text/csv",
        Some("txt" | "log") => "text/plain",
        Some("html") => "text/html",
        Some("xml") => "application/xml",
        Some("yml" | "yaml") => "application/yaml",
        Some("arrow") => "application/vnd.apache.arrow.file",
        Some("arrows") => "application/vnd.apache.arrow.stream",
        Some("gz") => "application/gzip",
        Some("zst") => "application/zstd",
        _ => UNTYPED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_what_is_got() {
        let described = DescriptiveHeaders {
            content_type: Some("text/x".into()),
            cache_control: Some("no-store".into()),
            content_encoding: Some("gzip".into()),
            metadata: Some([("owner".to_owned(), "me".to_owned())].into_iter().collect()),
            ..DescriptiveHeaders::default()
        };
        assert_eq!(DescriptiveHeaders::from_origin(&described.clone().into_attributes(), "a"), described);
    }

    #[test]
    fn the_encoding_of_the_transfer_is_not_the_encoding_of_the_object() {
        let kept = |encoding: &str| {
            let described = DescriptiveHeaders {
                content_encoding: Some(encoding.into()),
                ..DescriptiveHeaders::default()
            };
            described
                .into_attributes()
                .get(&Attribute::ContentEncoding)
                .map(|value| value.as_ref().to_owned())
        };

        assert_eq!(kept("aws-chunked"), None);
        assert_eq!(kept("gzip, aws-chunked"), Some("gzip".to_owned()));
        assert_eq!(kept("gzip"), Some("gzip".to_owned()));
    }

    #[test]
    fn an_object_without_a_type_has_that_of_its_extension() {
        let content_type =
            |path| DescriptiveHeaders::from_origin(&Attributes::new(), path).content_type.unwrap();
        assert_eq!(content_type("a/b.parquet"), "application/vnd.apache.parquet");
        assert_eq!(content_type("a.parquet/part-0"), UNTYPED);
        assert_eq!(content_type("a.orc"), UNTYPED);
    }
}
