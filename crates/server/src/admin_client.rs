//! A client of a node's admin door, which exchanges JSON documents.

use std::{fmt, time::Duration};

use axum::body::{Body, to_bytes};
use http::{
    Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
    request::Builder,
};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use stylobate_storage::without_credentials;
use tokio::time::timeout;

use crate::{Result, ServerError, config::Secret, https::connector};

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 16 << 20;

/// A client of a node's admin door.
pub struct AdminClient {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    url: String,
    secret: Option<Secret>,
}

impl fmt::Debug for AdminClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminClient").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// Error of a request.
pub(crate) enum AdminRequestError {
    /// The door has no such document.
    NotFound,
    /// Any other error, as a human-readable text.
    Other(String),
}

impl AdminClient {
    /// Creates a client of the admin door at `url`, such as `http://127.0.0.1:9001`. If the node has access keys,
    /// `secret` is the secret of a key for all buckets.
    pub fn new(url: &str, secret: Option<Secret>) -> Self {
        let client = Client::builder(TokioExecutor::new()).build(connector(None));
        Self { client, url: url.trim_end_matches('/').to_owned(), secret }
    }

    /// Returns the URL, without credentials.
    pub fn url(&self) -> String {
        without_credentials(&self.url)
    }

    /// Requests the document at `path`, such as `/api/stats`.
    ///
    /// # Errors
    ///
    /// [`ServerError::AdminDoor`] if the node does not answer within ten seconds, refuses the secret, or has no such
    /// document.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.fetch(path).await.map_err(|error| ServerError::AdminDoor {
            url: self.url(),
            reason: match error {
                AdminRequestError::NotFound => {
                    format!("there is no {path}: is it an admin door of this version?")
                }
                AdminRequestError::Other(reason) => reason,
            },
        })
    }

    /// Requests a document; the error distinguishes a missing document from other failures.
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, path: &str) -> Result<T, AdminRequestError> {
        let request = Request::get(format!("{}{path}", self.url));
        self.ask_in_time(request, Body::empty(), "all buckets").await
    }

    /// Posts a document, and returns the answer; the error distinguishes a missing document from other failures.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        document: &Value,
    ) -> Result<T, AdminRequestError> {
        let request = Request::post(format!("{}{path}", self.url)).header(CONTENT_TYPE, "application/json");
        let body = Body::from(document.to_string());
        self.ask_in_time(request, body, "all buckets that may write").await
    }

    /// Sends a request with a timeout. `rights` names the rights that the access key needs, for the error.
    async fn ask_in_time<T: DeserializeOwned>(
        &self,
        request: Builder,
        body: Body,
        rights: &str,
    ) -> Result<T, AdminRequestError> {
        let asked = timeout(TIMEOUT, self.ask(request, body, rights)).await;
        let no_answer = || AdminRequestError::Other(format!("no answer within {} s", TIMEOUT.as_secs()));
        let body = asked.unwrap_or_else(|_| Err(no_answer()))?;
        serde_json::from_slice(&body).map_err(|_| {
            let reason = "its answer cannot be read: is it an admin door of this version?";
            AdminRequestError::Other(reason.to_owned())
        })
    }

    async fn ask(
        &self,
        mut request: Builder,
        body: Body,
        rights: &str,
    ) -> Result<Vec<u8>, AdminRequestError> {
        let other = |reason: &str| AdminRequestError::Other(reason.to_owned());
        if let Some(secret) = &self.secret {
            request = request.header(AUTHORIZATION, format!("Bearer {}", secret.expose()));
        }
        let request = request.body(body).map_err(|_| other("this is not the URL of an admin door"))?;

        let answer = self.client.request(request).await.map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            AdminRequestError::Other(format!("no answer: {}", cause.unwrap_or_else(|| error.to_string())))
        })?;

        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(other(&format!("it needs the secret of an access key for {rights}")));
            }
            StatusCode::NOT_FOUND => return Err(AdminRequestError::NotFound),
            status => {
                return Err(AdminRequestError::Other(format!("it answered with status {}", status.as_u16())));
            }
        }

        let body = to_bytes(Body::new(answer.into_body()), MAX_ANSWER).await;
        body.map(|body| body.to_vec()).map_err(|error| AdminRequestError::Other(error.to_string()))
    }
}
