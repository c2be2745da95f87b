//! Connections to the S3 listeners of nodes.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, Error, ObjectStore, Result, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredentialProvider},
    client::{HttpClient, HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector},
};
use parking_lot::Mutex;

use super::failure::NodeFault;
use crate::address::NodeAddress;

/// Retries of requests in a multipart upload: its parts cannot go to another node.
const UPLOAD_RETRIES: usize = 3;
/// Region to sign requests for if the builder has none; the same default as object_store's.
const DEFAULT_REGION: &str = "us-east-1";

/// Stores for the bucket at one node.
#[derive(Clone, Debug)]
pub struct NodeStores {
    /// For single requests: fails immediately, so that the next node is tried.
    pub requests: Arc<dyn ObjectStore>,
    /// For multipart uploads, which stay on their node: may retry requests.
    pub uploads: Arc<dyn ObjectStore>,
}

/// Connects to the nodes of a cluster.
#[async_trait]
pub trait NodeConnector: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the bucket, as clients of the nodes use it: placement depends on it.
    fn bucket(&self) -> &str;

    /// Returns stores for the bucket at a node, without sending a request.
    fn connect(&self, address: &NodeAddress) -> Result<NodeStores>;

    /// Requests the description of a node's cluster: the answer to `GET /?x-stylobate-cluster`. It also serves as
    /// a probe of the node.
    async fn describe(&self, address: &NodeAddress) -> Result<Bytes>;
}

/// Connects to nodes with the credentials, region and options of an [`AmazonS3Builder`].
///
/// Replaces the builder's endpoint, addressing style, retries and HTTP connector: nodes have their own addresses,
/// their buckets are in the path, and a request that fails at one node goes to the next. Nodes are reached by
/// HTTPS, or by plain HTTP if the builder allows it. The builder's `timeout` applies to a whole answer of up to 64
/// MiB: slow readers need a long one.
#[derive(Clone)]
pub struct S3Connector {
    builder: AmazonS3Builder,
    bucket: String,
    scheme: &'static str,
    region: String,
    client: HttpClient,
    /// `None` if requests are not signed.
    credentials: Option<AwsCredentialProvider>,
}

impl fmt::Debug for S3Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Connector").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl S3Connector {
    /// Creates a connector. All its stores share a connection pool and a credential provider.
    ///
    /// Fails if the builder names no bucket ([`AmazonS3Builder::with_bucket_name`]) or cannot be built.
    pub fn new(builder: AmazonS3Builder) -> Result<Self> {
        let option = |key: AmazonS3ConfigKey| builder.get_config_value(&key);
        let is_set = |key: AmazonS3ConfigKey| option(key).is_some_and(|value| value == "true");
        let Some(bucket) = option(AmazonS3ConfigKey::Bucket) else {
            let source = "name the bucket by `with_bucket_name`".into();
            return Err(Error::Generic { store: super::STORE, source });
        };

        let allows_http = is_set(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
        let is_signed = !is_set(AmazonS3ConfigKey::SkipSignature);
        let region = option(AmazonS3ConfigKey::Region).unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let builder = builder.with_virtual_hosted_style_request(false).with_s3_express(false);

        let connector = LastHttpClient::default();
        let first = builder.clone().with_http_connector(connector.clone()).build()?;
        let client = match connector.0.lock().take() {
            Some(client) => client,
            None => ReqwestConnector::default().connect(&ClientOptions::default())?,
        };

        let credentials = first.credentials().clone();
        let builder = builder
            .with_credentials(credentials.clone())
            .with_http_connector(SharedHttpClient(client.clone()));

        Ok(Self {
            builder,
            bucket,
            scheme: if allows_http { "http" } else { "https" },
            region,
            client,
            credentials: is_signed.then_some(credentials),
        })
    }

    fn endpoint(&self, address: &NodeAddress) -> String {
        format!("{}://{address}", self.scheme)
    }

    fn store(&self, address: &NodeAddress, max_retries: usize) -> Result<Arc<dyn ObjectStore>> {
        let endpoint = self.endpoint(address);
        let backoff = BackoffConfig::default();
        let retry = RetryConfig { backoff, max_retries, ..RetryConfig::default() };
        let builder = self.builder.clone().with_endpoint(&endpoint);
        // An endpoint from the environment takes precedence over the other one.
        let builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, &endpoint);
        Ok(Arc::new(builder.with_retry(retry).build()?))
    }
}

#[async_trait]
impl NodeConnector for S3Connector {
    fn bucket(&self) -> &str {
        &self.bucket
    }

    fn connect(&self, address: &NodeAddress) -> Result<NodeStores> {
        Ok(NodeStores { requests: self.store(address, 0)?, uploads: self.store(address, UPLOAD_RETRIES)? })
    }

    async fn describe(&self, address: &NodeAddress) -> Result<Bytes> {
        let failed = |source| Error::Generic { store: super::STORE, source };
        let uri = format!("{}/?x-stylobate-cluster", self.endpoint(address));
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = uri.parse().map_err(|error: http::uri::InvalidUri| failed(error.into()))?;

        if let Some(credentials) = &self.credentials {
            let credential = credentials.get_credential().await?;
            AwsAuthorizer::new(&credential, "s3", &self.region).authorize(&mut request, None);
        }
        let response = self.client.execute(request).await.map_err(|error| failed(error.into()))?;
        if !response.status().is_success() {
            return Err(NodeFault::Status(response.status().as_u16()).into());
        }
        response.into_body().bytes().await.map_err(|error| failed(error.into()))
    }
}

/// Creates HTTP clients and remembers the last one: the store's own, which is created after those of its credentials.
#[derive(Clone, Debug, Default)]
struct LastHttpClient(Arc<Mutex<Option<HttpClient>>>);

impl HttpConnector for LastHttpClient {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        *self.0.lock() = Some(client.clone());
        Ok(client)
    }
}

/// Gives all stores the same HTTP client.
#[derive(Debug)]
struct SharedHttpClient(HttpClient);

impl HttpConnector for SharedHttpClient {
    fn connect(&self, _: &ClientOptions) -> Result<HttpClient> {
        Ok(self.0.clone())
    }
}
