//! The S3 endpoints that a trace is played against.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use object_store::{ClientOptions, ObjectStore, RetryConfig, aws::AmazonS3Builder};
use stylobate_storage::parse_positive_duration;

use crate::{failure::usage, redacted_string::RedactedString};

#[derive(Args, Clone, Debug)]
pub(super) struct EndpointArgs {
    /// Bucket of the objects
    #[arg(long, required_unless_present_any = ["make", "simulate"])]
    bucket: Option<String>,
    /// Prefix of each key of the objects file, such as `lake/`
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(super) prefix: String,
    /// URL of the S3 endpoint
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL", default_value = "http://127.0.0.1:9000")]
    endpoint: String,
    /// Access key; without one, requests are not signed
    #[arg(long, value_name = "ID", env = "AWS_ACCESS_KEY_ID")]
    access_key: Option<String>,
    /// Secret of the access key
    #[arg(long, value_name = "SECRET", env = "AWS_SECRET_ACCESS_KEY", hide_env_values = true)]
    secret_key: Option<RedactedString>,
    /// Session token of temporary keys
    #[arg(long, value_name = "TOKEN", env = "AWS_SESSION_TOKEN", hide_env_values = true)]
    session_token: Option<RedactedString>,
    /// Region that requests are signed for
    #[arg(long, env = "AWS_REGION", default_value = "us-east-1")]
    region: String,
    /// Time after which a request counts as failed: 500ms, 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_positive_duration)]
    timeout: Duration,
    /// Second endpoint to play the same trace against after the first
    #[arg(long, value_name = "URL", conflicts_with_all = ["make", "simulate"])]
    compare: Option<String>,
    /// Bucket at the second endpoint [default: that of the first]
    #[arg(long, value_name = "BUCKET", requires = "compare")]
    compare_bucket: Option<String>,
    /// Access key for the second endpoint; empty: not signed [default: that of the first]
    #[arg(long, value_name = "ID", requires = "compare")]
    compare_access_key: Option<String>,
    /// Secret for the second endpoint [default: that of the first]
    #[arg(long, value_name = "SECRET", requires = "compare")]
    compare_secret_key: Option<RedactedString>,
}

/// A bucket at an S3 endpoint.
#[derive(Clone, Debug)]
pub(super) struct ReplayEndpoint {
    /// The URL as given.
    pub(super) url: String,
    /// The bucket's name.
    pub(super) bucket: String,
    /// Reads the bucket's objects, without retries.
    pub(super) store: Arc<dyn ObjectStore>,
}

impl EndpointArgs {
    /// Returns the endpoint, followed by the one to compare it with, if given.
    ///
    /// # Errors
    ///
    /// If a URL is invalid, or one half of a key pair is missing.
    pub(super) fn endpoints(&self) -> Result<Vec<ReplayEndpoint>> {
        let bucket = self.bucket.clone().context("--bucket is needed")?;
        let mut endpoints = vec![self.connect(
            &self.endpoint,
            bucket.clone(),
            self.access_key.as_ref(),
            self.secret_key.as_ref(),
        )?];

        if let Some(url) = &self.compare {
            let bucket = self.compare_bucket.clone().unwrap_or(bucket);
            let key = self.compare_access_key.as_ref().or(self.access_key.as_ref());
            let secret = self.compare_secret_key.as_ref().or(self.secret_key.as_ref());
            endpoints.push(self.connect(url, bucket, key, secret)?);
        }

        Ok(endpoints)
    }

    fn connect(
        &self,
        url: &str,
        bucket: String,
        key: Option<&String>,
        secret: Option<&RedactedString>,
    ) -> Result<ReplayEndpoint> {
        // The builder would accept any string, and then every request would fail.
        let parsed = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        parsed.with_context(|| format!("{url:?} is not an http:// or https:// URL"))?;
        let client = ClientOptions::new().with_allow_http(true).with_timeout(self.timeout);
        // A retry would hide a failure in the measured latency.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let builder = AmazonS3Builder::new()
            .with_client_options(client)
            .with_retry(retry)
            .with_endpoint(url)
            .with_bucket_name(&bucket)
            .with_region(&self.region)
            .with_virtual_hosted_style_request(false);

        let mut builder = match (key.map(String::as_str), secret) {
            (None, None) | (Some(""), _) => builder.with_skip_signature(true),
            (Some(key), Some(secret)) => builder.with_access_key_id(key).with_secret_access_key(&secret.0),
            (Some(_), None) => {
                return Err(usage(format!("{url}: an access key needs its secret: --secret-key")));
            }
            (None, Some(_)) => {
                return Err(usage(format!("{url}: a secret needs its access key: --access-key")));
            }
        };

        if let Some(token) = self.session_token.as_ref().filter(|_| key == self.access_key.as_ref()) {
            builder = builder.with_token(&token.0);
        }

        let store = Arc::new(builder.build().with_context(|| format!("endpoint {url}"))?);
        Ok(ReplayEndpoint { url: url.to_owned(), bucket, store })
    }
}
