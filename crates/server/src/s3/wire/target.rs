//! Parses the target of a request (the service, a bucket or an object) and its query.

use std::borrow::Cow;

use http::{HeaderMap, Uri, header::HOST};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use s3s::{S3Result, s3_error};

use super::host::bucket_of_host;

/// Bytes that are escaped in a query: all except those that S3's URLs leave unescaped.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Bytes that are escaped in a path.
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// Target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget {
    /// All buckets.
    Service,
    /// A bucket.
    Bucket {
        /// Its name.
        bucket: String,
    },
    /// An object.
    Object {
        /// The bucket's name.
        bucket: String,
        /// The raw key, without any normalization.
        key: String,
    },
}

impl RequestTarget {
    /// Parses the target of a request, in path style or, for one of `domains`, with the bucket in the host.
    ///
    /// Fails if the path is not UTF-8 once its escapes are decoded.
    pub(crate) fn of(uri: &Uri, headers: &HeaderMap, domains: &[String]) -> S3Result<Self> {
        let path = uri.path().strip_prefix('/').unwrap_or(uri.path());
        let path = percent_decode(path.as_bytes()).decode_utf8();
        let path = path.map_err(|_| s3_error!(InvalidURI, "Couldn't parse the specified URI."))?;
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();

        let (bucket, key) = match bucket_of_host(host, domains) {
            Some(bucket) => (bucket, &*path),
            None => path.split_once('/').unwrap_or((&path, "")),
        };
        Ok(match (bucket, key) {
            ("", "") => Self::Service,
            ("", _) => return Err(s3_error!(InvalidBucketName, "The specified bucket is not valid.")),
            (bucket, "") => Self::Bucket { bucket: bucket.to_owned() },
            (bucket, key) => Self::Object { bucket: bucket.to_owned(), key: key.to_owned() },
        })
    }

    /// Returns the bucket, unless the target is the service.
    pub(crate) fn bucket(&self) -> Option<&str> {
        match self {
            Self::Service => None,
            Self::Bucket { bucket } | Self::Object { bucket, .. } => Some(bucket),
        }
    }

    /// Returns the key, if the target is an object.
    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Self::Service | Self::Bucket { .. } => None,
            Self::Object { key, .. } => Some(key),
        }
    }
}

/// Parameters of a query, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueryParameters(pub(crate) Vec<QueryParameter>);

/// One parameter, unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryParameter {
    pub(crate) name: String,
    /// `None` if the parameter has no `=`.
    pub(crate) value: Option<String>,
}

impl QueryParameters {
    /// Parses the query of a URI. A `+` is a space, as in S3.
    pub(crate) fn of(uri: &Uri) -> Self {
        let decode = |text: &str| {
            let spaced: Cow<'_, str> =
                if text.contains('+') { text.replace('+', " ").into() } else { text.into() };
            percent_decode(spaced.as_bytes()).decode_utf8_lossy().into_owned()
        };
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| match pair.split_once('=') {
            Some((name, value)) => QueryParameter { name: decode(name), value: Some(decode(value)) },
            None => QueryParameter { name: decode(pair), value: None },
        });

        Self(parameters.collect())
    }

    /// Returns the first value of a parameter, which is empty if the parameter has no value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|parameter| parameter.name == name)?;
        Some(found.value.as_deref().unwrap_or_default())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|parameter| parameter.name.as_str())
    }

    /// Returns the query in escaped form, in the original order.
    pub(crate) fn to_text(&self) -> String {
        let encoded = self.0.iter().map(|QueryParameter { name, value }| match value {
            Some(value) => format!("{}={}", encode_query(name), encode_query(value)),
            None => encode_query(name),
        });
        encoded.collect::<Vec<_>>().join("&")
    }

    /// Returns the query in the canonical form of Signature Version 4, without the parameter that holds the signature.
    pub(crate) fn to_canonical(&self) -> String {
        let mut pairs: Vec<(String, String)> = self
            .0
            .iter()
            .filter(|parameter| parameter.name != "X-Amz-Signature")
            .map(|QueryParameter { name, value }| {
                (encode_query(name), encode_query(value.as_deref().unwrap_or_default()))
            })
            .collect();
        pairs.sort();
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }
}

/// Escapes a path in the canonical form of Signature Version 4 for S3: each byte once, except for slashes.
pub(crate) fn encode_path(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

fn encode_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uri: &str, host: &'static str) -> RequestTarget {
        let headers = [(HOST, http::HeaderValue::from_static(host))].into_iter().collect();
        RequestTarget::of(&uri.parse().unwrap(), &headers, &["localhost".to_owned()]).unwrap()
    }

    fn object(bucket: &str, key: &str) -> RequestTarget {
        RequestTarget::Object { bucket: bucket.into(), key: key.into() }
    }

    #[test]
    fn a_key_is_taken_as_it_is() {
        for (path, key) in [
            ("/b/a//b", "a//b"),
            ("/b//a", "/a"),
            ("/b/t/", "t/"),
            ("/b/a/./b", "a/./b"),
            ("/b/a/%2e%2e/b", "a/../b"),
            ("/b/a%2Fb", "a/b"),
            ("/b/a+b%20c%25", "a+b c%"),
        ] {
            assert_eq!(target(path, "127.0.0.1:1"), object("b", key), "{path}");
        }
    }

    #[test]
    fn a_bucket_is_in_the_path_or_in_the_host() {
        assert_eq!(target("/", "h"), RequestTarget::Service);
        assert_eq!(target("/b", "h"), RequestTarget::Bucket { bucket: "b".into() });
        assert_eq!(target("/b/", "h"), RequestTarget::Bucket { bucket: "b".into() });
        assert_eq!(target("/", "b.localhost:9"), RequestTarget::Bucket { bucket: "b".into() });
        assert_eq!(target("/k/x", "b.localhost"), object("b", "k/x"));
        assert_eq!(target("//x", "b.localhost"), object("b", "/x"));
        assert!(RequestTarget::of(&"//x".parse().unwrap(), &HeaderMap::new(), &[]).is_err());
        assert!(RequestTarget::of(&"/b/%ff".parse().unwrap(), &HeaderMap::new(), &[]).is_err());
    }

    #[test]
    fn a_query_is_sent_as_it_came_and_signed_in_order() {
        let query = QueryParameters::of(&"/b?uploads&prefix=a%2Fb+c&X-Amz-Signature=1&a=".parse().unwrap());
        assert_eq!(query.get("prefix"), Some("a/b c"));
        assert_eq!(query.to_text(), "uploads&prefix=a%2Fb%20c&X-Amz-Signature=1&a=");
        assert_eq!(query.to_canonical(), "a=&prefix=a%2Fb%20c&uploads=");
    }
}
