//! The HTTP client of every origin: counts and times requests, captures the headers of responses, and checks their
//! ranges.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_RANGE, RANGE},
};
use object_store::{
    ClientOptions,
    aws::{AwsAuthorizer, AwsCredentialProvider},
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
        HttpService, ReqwestConnector,
    },
};

use super::idle_timeout;
use crate::{OriginFailure, OriginMetrics, OriginRequest, RequestKind, object::headers::CapturedHeaders};

const SERVICE: &str = "s3";
const CHECKSUM_MODE: HeaderName = HeaderName::from_static("x-amz-checksum-mode");
const METADATA: &str = "x-amz-meta-";

/// Hosts that issue credentials: requests to them do not count as requests to the origin.
const CREDENTIAL_HOSTS: [&str; 9] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "iamcredentials.googleapis.com",
    "login.microsoftonline.com",
    "metadata",
    "metadata.google.internal",
    "oauth2.googleapis.com",
    "sts.googleapis.com",
];

/// Connects clients that count requests and capture the headers of responses.
#[derive(Debug)]
pub(super) struct ObservedConnector {
    metrics: Arc<OriginMetrics>,
    /// Set for a bucket that speaks the S3 protocol, once its client is built.
    pub(super) signing: Arc<OnceLock<RequestResigner>>,
}

impl ObservedConnector {
    pub(super) fn new(metrics: &Arc<OriginMetrics>) -> Self {
        Self { metrics: metrics.clone(), signing: Arc::default() }
    }
}

impl HttpConnector for ObservedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let idle_timeout = idle_timeout::limit_of(options);
        let mut options = options.clone();
        if idle_timeout.is_some() {
            options = options.with_timeout_disabled();
        }

        let client = ReqwestConnector::default().connect(&options)?;
        Ok(HttpClient::new(ObservedClient {
            client,
            idle_timeout,
            metrics: self.metrics.clone(),
            signing: self.signing.clone(),
        }))
    }
}

/// Signs a request again after adding a header to it.
#[derive(Debug)]
pub(super) struct RequestResigner {
    pub(super) credentials: Option<AwsCredentialProvider>,
    pub(super) region: String,
    pub(super) is_request_payer: bool,
}

/// A client that counts requests, and passes response headers to callers that ask for them in the extensions.
#[derive(Debug)]
struct ObservedClient {
    client: HttpClient,
    /// Maximum silence of the origin. `None` if the client limits the time of whole responses.
    idle_timeout: Option<Duration>,
    metrics: Arc<OriginMetrics>,
    signing: Arc<OnceLock<RequestResigner>>,
}

#[async_trait]
impl HttpService for ObservedClient {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Some(seen) = request.extensions().get::<CapturedHeaders>().cloned() else {
            return self.send(request).await;
        };

        if let Some(signing) = self.signing.get() {
            signing.ask_for_checksums(&mut request).await;
        }

        let mut response = self.send(request).await?;
        if response.status().is_success() {
            seen.set(response.headers(), response.status());
        }

        // object_store fails on non-ASCII metadata. Callers that need it have already received the headers.
        let metadata: Vec<_> =
            response.headers().keys().filter(|name| name.as_str().starts_with(METADATA)).cloned().collect();
        for name in metadata {
            if response.headers().get_all(&name).iter().any(|value| value.to_str().is_err()) {
                response.headers_mut().remove(&name);
            }
        }
        Ok(response)
    }
}

impl ObservedClient {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if is_for_credentials(request.uri()) {
            return self.execute(request).await;
        }

        let method = request.method();
        let uri = request.uri();
        let sent = OriginRequest::begin(self.metrics.clone(), RequestKind::of(method, uri), method, uri);

        let start = if *method == Method::GET { range_start(request.headers()) } else { None };
        let answer = self.execute(request).await;

        match &answer {
            Ok(answer) => sent.answered(answer.status()),
            Err(error) if error.kind() == HttpErrorKind::Timeout => sent.failed(OriginFailure::Timeout),
            Err(_) => sent.failed(OriginFailure::Connection),
        }
        answer.map(|answer| match start {
            Some(start) if answer.status().is_success() && !begins_at(&answer, start) => without_body(answer),
            _ => answer,
        })
    }

    async fn execute(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        match self.idle_timeout {
            Some(limit) => idle_timeout::execute(&self.client, request, limit).await,
            None => self.client.execute(request).await,
        }
    }
}

/// Returns the start of the requested range; `None` without a Range header, or for a suffix range.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes=")?.split_once('-')?.0.parse().ok()
}

/// Returns whether a response contains a part of an object from `start` on.
fn begins_at(response: &HttpResponse, start: u64) -> bool {
    let first = || {
        let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
        range.trim().strip_prefix("bytes ")?.split_once('-')?.0.parse::<u64>().ok()
    };
    response.status() == StatusCode::PARTIAL_CONTENT && first() == Some(start)
}

/// Replaces the body of a response by an error. object_store checks the Content-Range of the first response, but
/// after a broken connection, it accepts any body with the same ETag as the remainder.
fn without_body(response: HttpResponse) -> HttpResponse {
    let (parts, _) = response.into_parts();
    HttpResponse::from_parts(parts, HttpResponseBody::new(WrongRange))
}

/// A body that fails: the response has another range than the request.
struct WrongRange;

impl http_body::Body for WrongRange {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, HttpError>>> {
        let error = std::io::Error::other("the response has another range than the request");
        Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Decode, error))))
    }
}

fn is_for_credentials(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    CREDENTIAL_HOSTS.contains(&host) || host.starts_with("sts.")
}

impl RequestResigner {
    /// Also requests the object's checksums, since a client may want them in a response from the cache.
    async fn ask_for_checksums(&self, request: &mut HttpRequest) {
        let credential = match &self.credentials {
            Some(provider) => match provider.get_credential().await {
                Ok(credential) => Some(credential),
                Err(_) => return,
            },
            None => None,
        };
        request.headers_mut().insert(CHECKSUM_MODE, HeaderValue::from_static("ENABLED"));
        if let Some(credential) = credential {
            request.headers_mut().remove(AUTHORIZATION);
            AwsAuthorizer::new(&credential, SERVICE, &self.region)
                .with_request_payer(self.is_request_payer)
                .authorize(request, None);
        }
    }
}
