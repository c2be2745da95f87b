//! Converts a form to an equivalent PutObject, for non-S3 origins.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri,
    header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES},
    request::Parts,
};
use s3s::{
    S3Result,
    dto::Tagging,
    s3_error,
    xml::{Deserialize, Deserializer},
};

use super::VerifiedForm;
use crate::s3::{
    upload::kept::{TAGGING, tagging_text},
    wire::{
        attributes::{METADATA, without_aws_chunked},
        form::fields::{FormField, argument},
        target::encode_path,
    },
};

const ACL: HeaderName = HeaderName::from_static("x-amz-acl");

/// Fields that map to headers of the same name.
const HEADERS: [HeaderName; 6] = [
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_LANGUAGE,
    CONTENT_TYPE,
    EXPIRES,
    HeaderName::from_static("content-md5"),
];

/// Prefixes of further fields that map to headers. PutObject refuses those that it does not support.
const HEADER_PREFIXES: [&str; 6] = [
    METADATA,
    "x-amz-checksum-",
    "x-amz-object-lock-",
    "x-amz-server-side-encryption",
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
];

impl VerifiedForm {
    /// Builds the head of a PutObject request that stores the file.
    pub(in crate::s3) fn put_head(&self, bucket: &str) -> S3Result<Parts> {
        let mut headers = HeaderMap::new();
        for field in self.fields.iter().filter(|field| field.is_of_object()) {
            if let Some((name, value)) = header_of(field)? {
                let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
                    argument(&field.name, &field.value, format!("{}: no header can have it", field.name))
                })?;
                headers.insert(name, value);
            }
        }

        let path = format!("/{}/{}", encode_path(bucket), encode_path(&self.key));
        let uri: Uri =
            path.parse().map_err(|_| s3_error!(InvalidURI, "Couldn't parse the specified URI."))?;
        let mut request = Request::new(());
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;

        Ok(request.into_parts().0)
    }
}

/// Returns the PutObject header for a field; `None` if the field is not about the object.
fn header_of(field: &FormField) -> S3Result<Option<(HeaderName, String)>> {
    let name = field.lower_name();
    let same = || HeaderName::try_from(name.as_str()).ok();
    let value = || field.value.clone();
    Ok(match name.as_str() {
        "acl" => Some((ACL, value())),
        "tagging" => Some((TAGGING, tags(&field.value)?)),
        // The body is the plain file, without a frame.
        "content-encoding" => without_aws_chunked(&field.value).map(|kept| (CONTENT_ENCODING, kept)),
        _ if HEADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) => {
            same().map(|name| (name, value()))
        }
        _ if name.starts_with("x-amz-") => {
            return Err(s3_error!(NotImplemented, "the field {} is not supported", field.name));
        }
        _ => HEADERS.iter().find(|known| **known == *name).map(|known| (known.clone(), value())),
    })
}

/// Converts tags from XML to the form of a header.
fn tags(xml: &str) -> S3Result<String> {
    let malformed = |_| {
        s3_error!(
            MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema"
        )
    };

    let mut deserializer = Deserializer::new(xml.as_bytes());
    let tagging = Tagging::deserialize(&mut deserializer).map_err(malformed)?;
    deserializer.expect_eof().map_err(malformed)?;
    let tags = tagging.tag_set.into_iter();
    let tags: Vec<_> = tags.map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default())).collect();
    Ok(tagging_text(&tags))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str) -> Result<Option<(String, String)>, String> {
        let field = FormField { name: name.to_owned(), value: value.to_owned() };
        let header = header_of(&field).map_err(|error| error.code().as_str().to_owned())?;
        Ok(header.map(|(name, value)| (name.as_str().to_owned(), value)))
    }

    #[test]
    fn fields_are_headers_of_the_same_meaning() {
        let xml = "<Tagging><TagSet><Tag><Key>a b</Key><Value>1</Value></Tag></TagSet></Tagging>";
        for (field, value, expected) in [
            ("Content-Type", "text/x", Some(("content-type", "text/x"))),
            ("X-Amz-Meta-Who", "me", Some(("x-amz-meta-who", "me"))),
            ("acl", "private", Some(("x-amz-acl", "private"))),
            ("tagging", xml, Some(("x-amz-tagging", "a%20b=1"))),
            ("Content-Encoding", "aws-chunked", None),
            ("Content-Encoding", "gzip,aws-chunked", Some(("content-encoding", "gzip"))),
            ("key", "k", None),
            ("if-none-match", "*", None),
            ("transfer-encoding", "chunked", None),
            ("authorization", "x", None),
        ] {
            let expected = expected.map(|(name, value): (&str, &str)| (name.to_owned(), value.to_owned()));
            assert_eq!(header(field, value), Ok(expected), "{field}");
        }
    }

    #[test]
    fn what_no_write_knows_is_refused() {
        assert_eq!(header("x-amz-copy-source", "/b/k").unwrap_err(), "NotImplemented");
        assert_eq!(header("x-amz-content-sha256", "STREAMING-").unwrap_err(), "NotImplemented");
        assert_eq!(header("tagging", "<Tagging>").unwrap_err(), "MalformedXML");
    }
}
