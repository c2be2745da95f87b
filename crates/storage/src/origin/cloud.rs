//! Clients of cloud stores and web servers, built from a URL, options, and the provider's environment variables.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use object_store::{
    BackoffConfig, ClientOptions, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey},
    azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey},
    http::{HttpBuilder, HttpStore},
};
use percent_encoding::percent_decode_str;
use url::Url;

use super::{
    observed::ObservedConnector,
    s3::{self, S3Endpoint},
};
use crate::{OriginMetrics, RequestOptions};

/// Maximum silence of an origin: enough to send a part of an upload over a slow link.
const IDLE_TIMEOUT: &str = "300s";

/// Inputs that a store is built from.
pub(super) struct CloudStoreBuilder<'a> {
    pub(super) url: &'a Url,
    pub(super) options: &'a [(String, String)],
    pub(super) requests: &'a RequestOptions,
    pub(super) metrics: &'a Arc<OriginMetrics>,
}

/// A store, and a text that distinguishes its objects from those of another store with the same URL.
type BuiltStore<S> = (S, String);

/// Applies the options to a builder of the object_store crate and returns it with the identity; an unknown key is an
/// error.
macro_rules! configured {
    ($self:ident, $builder:expr, $identity:expr) => {{
        let mut builder = $builder.with_url($self.url.as_str()).with_retry($self.retry());
        for (key, value) in $self.options() {
            builder = builder.with_config(key.to_ascii_lowercase().parse()?, value);
        }
        let identity = $identity.map(|key| builder.get_config_value(&key).unwrap_or_default());
        (builder, identity.join(" "))
    }};
}

impl CloudStoreBuilder<'_> {
    fn retry(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig { init_backoff: self.requests.backoff, ..BackoffConfig::default() },
            max_retries: self.requests.attempts.saturating_sub(1) as usize,
            retry_timeout: self.requests.deadline,
        }
    }

    /// Returns the options given, after the defaults that they override.
    fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        [("timeout", IDLE_TIMEOUT)].into_iter().chain(given)
    }

    pub(super) fn s3(&self) -> object_store::Result<(BuiltStore<AmazonS3>, Option<S3Endpoint>)> {
        let (builder, identity) =
            configured!(self, AmazonS3Builder::from_env(), [AmazonS3ConfigKey::Endpoint]);
        let (store, endpoint) = s3::build(builder, self.url, self.metrics)?;
        Ok(((store, identity), endpoint))
    }

    pub(super) fn gcs(&self) -> object_store::Result<BuiltStore<GoogleCloudStorage>> {
        let (builder, identity) =
            configured!(self, GoogleCloudStorageBuilder::from_env(), [GoogleConfigKey::BaseUrl]);
        Ok((builder.with_http_connector(ObservedConnector::new(self.metrics)).build()?, identity))
    }

    pub(super) fn azure(&self) -> object_store::Result<BuiltStore<MicrosoftAzure>> {
        let identity = [AzureConfigKey::AccountName, AzureConfigKey::Endpoint, AzureConfigKey::UseEmulator];
        let (builder, identity) = configured!(self, MicrosoftAzureBuilder::from_env(), identity);
        Ok((builder.with_http_connector(ObservedConnector::new(self.metrics)).build()?, identity))
    }

    pub(super) fn http(&self) -> object_store::Result<BuiltStore<HttpStore>> {
        let mut client = ClientOptions::new().with_allow_http(true);
        for (key, value) in self.options() {
            client = client.with_config(key.to_ascii_lowercase().parse()?, value);
        }

        if !self.url.username().is_empty() {
            client = client.with_default_headers(basic_auth(self.url));
        }
        let store = HttpBuilder::new()
            .with_url(without_user(self.url))
            .with_client_options(client)
            .with_retry(self.retry())
            .with_http_connector(ObservedConnector::new(self.metrics))
            .build()?;
        // The name omits the query, but different queries are different stores.
        let query = blake3::hash(self.url.query().unwrap_or_default().as_bytes()).to_hex();
        Ok((store, format!("{} {query}", self.url.username())))
    }
}

/// Returns the URL without its user and password.
fn without_user(url: &Url) -> Url {
    let mut url = url.clone();
    // Fails only for URLs without a host, which have no user.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url
}

/// Returns the URL's user and password as a header, so that the client's errors cannot quote them with the URL.
fn basic_auth(url: &Url) -> HeaderMap {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pair = format!("{}:{}", decode(url.username()), decode(url.password().unwrap_or_default()));
    let mut headers = HeaderMap::new();
    if let Ok(mut value) = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair))) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    headers
}
