//! A bucket that speaks the S3 protocol: its location, and the credentials to sign requests with.

use std::{fmt, sync::Arc, time::Duration};

use futures::FutureExt;
use http::{HeaderName, HeaderValue, Method};
use object_store::{
    ClientConfigKey,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider},
    path::Path,
    signer::Signer,
};
use url::Url;

use super::observed::{ObservedConnector, RequestResigner};
use crate::OriginMetrics;

/// The location of a bucket and its credentials, for forwarding requests that clients wrote.
#[derive(Clone)]
pub struct S3Endpoint {
    url: Url,
    bucket: String,
    region: String,
    credentials: Option<AwsCredentialProvider>,
    is_request_payer: bool,
    encryption: Vec<(HeaderName, HeaderValue)>,
    prefix: String,
}

impl S3Endpoint {
    /// Returns the URL of the bucket, in path style or with its name in the host, without a trailing slash.
    pub fn url(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Returns the bucket's name at the origin.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Returns the region that requests are signed for.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the prefix of the origin's keys, with a trailing slash; clients name keys without it.
    pub fn key_prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns whether requests declare that their sender pays for them.
    pub fn is_request_payer(&self) -> bool {
        self.is_request_payer
    }

    /// Returns the headers for encrypting new objects, as configured by the origin's options.
    pub fn encryption_headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.encryption
    }

    /// Returns the current credentials; `None` if requests are not signed.
    pub async fn credentials(&self) -> object_store::Result<Option<Arc<AwsCredential>>> {
        match &self.credentials {
            Some(provider) => provider.get_credential().await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether another bucket has the same endpoint and credentials, so that the origin can copy from one to
    /// the other.
    pub fn is_beside(&self, other: &Self) -> bool {
        let same_credentials = match (&self.credentials, &other.credentials) {
            // Keys that are not known yet may belong to different roles.
            (Some(_), Some(_)) => self.identity().is_some() && self.identity() == other.identity(),
            (None, None) => true,
            _ => false,
        };
        let service = |endpoint: &Self| {
            let host = endpoint.url.host_str().unwrap_or_default();
            let host = host.strip_prefix(&format!("{}.", endpoint.bucket)).unwrap_or(host).to_owned();
            (host, endpoint.url.port_or_known_default())
        };
        same_credentials && service(self) == service(other)
    }

    /// Returns the access key, if it is known without sending a request.
    fn identity(&self) -> Option<String> {
        let credential = self.credentials.as_ref()?.get_credential().now_or_never()?.ok()?;
        Some(credential.key_id.clone())
    }

    pub(super) fn with_prefix(self, prefix: String) -> Self {
        Self { prefix, ..self }
    }
}

impl fmt::Debug for S3Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Endpoint").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// Builds the client and the endpoint of the bucket at a URL. The endpoint is `None` if the options rule out requests
/// that bypass the client: plain HTTP that is not allowed, a customer-provided key for all objects, sessions of
/// directory buckets.
pub(super) fn build(
    builder: AmazonS3Builder,
    given: &Url,
    metrics: &Arc<OriginMetrics>,
) -> object_store::Result<(AmazonS3, Option<S3Endpoint>)> {
    let flag = |key: AmazonS3ConfigKey| builder.get_config_value(&key).is_some_and(|value| is_true(&value));
    let is_signed = !flag(AmazonS3ConfigKey::SkipSignature);
    let is_express = flag(AmazonS3ConfigKey::S3Express);
    let is_request_payer = flag(AmazonS3ConfigKey::RequestPayer);

    let (url, region) = locate(builder.clone())?;
    let bucket = match given.scheme() {
        "s3" | "s3a" => given.host_str().unwrap_or_default().to_owned(),
        _ => bucket_of(&url),
    };

    let encryption = encryption_headers(&builder);
    let is_allowed = url.scheme() == "https" || flag(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));

    let connector = ObservedConnector::new(metrics);
    let signing = connector.signing.clone();
    let client = builder.with_http_connector(connector).build()?;
    let credentials = is_signed.then(|| client.credentials().clone());
    if !is_express {
        let _ = signing.set(RequestResigner {
            credentials: credentials.clone(),
            region: region.clone(),
            is_request_payer,
        });
    }

    let prefix = String::new();
    let endpoint = encryption.filter(|_| is_allowed && !is_express).map(|encryption| S3Endpoint {
        url,
        bucket,
        region,
        credentials,
        is_request_payer,
        encryption,
        prefix,
    });

    Ok((client, endpoint))
}

/// Returns the encryption headers for the options; `None` if they use a key that is sent with each request.
fn encryption_headers(builder: &AmazonS3Builder) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let option = |key: &str| builder.get_config_value(&key.parse::<AmazonS3ConfigKey>().ok()?);
    if option("aws_sse_customer_key_base64").is_some() {
        return None;
    }
    let named = [
        ("x-amz-server-side-encryption", option("aws_server_side_encryption")),
        ("x-amz-server-side-encryption-aws-kms-key-id", option("aws_sse_kms_key_id")),
        ("x-amz-server-side-encryption-bucket-key-enabled", option("aws_sse_bucket_key_enabled")),
    ];
    let header = |(name, value): (&'static str, Option<String>)| {
        Some((HeaderName::from_static(name), HeaderValue::try_from(value?).ok()?))
    };
    Some(named.into_iter().filter_map(header).collect())
}

/// Returns the URL of the bucket and the region as the client derives them: any URL that it signs contains both.
fn locate(builder: AmazonS3Builder) -> object_store::Result<(Url, String)> {
    let failed = |what: &str| object_store::Error::Generic { store: "S3", source: what.to_owned().into() };
    let client = builder
        .with_access_key_id("locate")
        .with_secret_access_key("locate")
        .with_token("")
        .with_skip_signature(false)
        .build()?;

    let key = Path::from("key");
    let signed = client.signed_url(Method::GET, &key, Duration::from_secs(1)).now_or_never();
    let mut url = signed.ok_or_else(|| failed("the bucket's URL is not known yet"))??;

    let scope = url.query_pairs().find(|(name, _)| name == "X-Amz-Credential");
    let region = scope.and_then(|(_, scope)| scope.split('/').nth(2).map(str::to_owned));
    let region = region.ok_or_else(|| failed("the bucket's region is not known"))?;
    url.set_query(None);

    let path = url.path().strip_suffix("/key").unwrap_or_default().to_owned();
    url.set_path(&path);
    Ok((url, region))
}

/// Returns the bucket named by a URL: the last path segment, or the first label of the host.
fn bucket_of(url: &Url) -> String {
    let segment = url.path().rsplit('/').find(|segment| !segment.is_empty());
    let host = url.host_str().unwrap_or_default();
    let in_host = || {
        let end = host.find(".s3").or_else(|| host.find('.')).unwrap_or(host.len());
        &host[..end]
    };
    segment.unwrap_or_else(in_host).to_owned()
}

fn is_true(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y" | "t")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(builder: AmazonS3Builder) -> S3Endpoint {
        let given = Url::parse("https://example.com").unwrap();
        let builder = builder.with_access_key_id("a").with_secret_access_key("s");
        build(builder, &given, &Arc::default()).unwrap().1.unwrap()
    }

    fn described(builder: AmazonS3Builder) -> (String, String, String) {
        let endpoint = endpoint(builder);
        (endpoint.url().to_owned(), endpoint.bucket().to_owned(), endpoint.region().to_owned())
    }

    fn owned(url: &str, bucket: &str, region: &str) -> (String, String, String) {
        (url.to_owned(), bucket.to_owned(), region.to_owned())
    }

    #[test]
    fn a_bucket_is_found_in_every_style() {
        let named = || AmazonS3Builder::new().with_bucket_name("lake").with_region("eu-west-1");
        let amazon = owned("https://s3.eu-west-1.amazonaws.com/lake", "lake", "eu-west-1");
        assert_eq!(described(named()), amazon);
        let in_host = owned("https://lake.s3.eu-west-1.amazonaws.com", "lake", "eu-west-1");
        assert_eq!(described(named().with_virtual_hosted_style_request(true)), in_host);
        let local = named().with_endpoint("http://127.0.0.1:9000/").with_allow_http(true);
        assert_eq!(described(local), owned("http://127.0.0.1:9000/lake", "lake", "eu-west-1"));
        let by_url = AmazonS3Builder::new().with_url("https://lake.s3.us-west-2.amazonaws.com/");
        assert_eq!(described(by_url), owned("https://lake.s3.us-west-2.amazonaws.com", "lake", "us-west-2"));
    }

    #[test]
    fn the_encryption_that_the_options_want_goes_with_new_objects() {
        let builder = AmazonS3Builder::new().with_bucket_name("lake").with_region("x");
        let encrypted = endpoint(builder.clone().with_sse_kms_encryption("key"));
        let names: Vec<_> = encrypted.encryption_headers().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id"]);
        assert!(endpoint(builder).encryption_headers().is_empty());
    }

    #[test]
    fn buckets_beside_each_other_share_place_and_key() {
        let at = |bucket: &str, port: u16| {
            let builder = AmazonS3Builder::new().with_bucket_name(bucket).with_region("x");
            endpoint(builder.with_endpoint(format!("http://127.0.0.1:{port}")).with_allow_http(true))
        };
        assert!(at("a", 1).is_beside(&at("b", 1)));
        assert!(!at("a", 1).is_beside(&at("a", 2)));
    }
}
