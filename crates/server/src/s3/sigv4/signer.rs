//! Signs requests as clients do, for tests. Written from the specification; shares no code with the verifier.

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use http::{Request, Version, request::Parts};
use sha2::{Digest, Sha256};

pub(in crate::s3) const EMPTY_SHA256: &str =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// An HTTP request in which a test may change any byte.
#[derive(Clone, Debug)]
pub(in crate::s3) struct RequestDraft {
    pub(in crate::s3) method: &'static str,
    /// The raw path, including escapes.
    pub(in crate::s3) path: String,
    /// The raw query.
    pub(in crate::s3) query: Vec<(String, String)>,
    pub(in crate::s3) headers: Vec<(String, String)>,
    pub(in crate::s3) version: Version,
}

impl RequestDraft {
    pub(in crate::s3) fn get(path: &str) -> Self {
        let headers = vec![("host".to_owned(), "127.0.0.1:9000".to_owned())];
        Self { method: "GET", path: path.into(), query: Vec::new(), headers, version: Version::HTTP_11 }
    }

    pub(in crate::s3) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Returns the value of a header or of a query parameter.
    pub(in crate::s3) fn value_mut(&mut self, name: &str) -> Option<&mut String> {
        let mut pairs = self.headers.iter_mut().chain(&mut self.query);
        pairs.find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub(in crate::s3) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.query.retain(|(known, _)| known != name);
        self
    }

    /// Returns the head of the request; `None` if it is not valid HTTP.
    pub(in crate::s3) fn into_parts(self) -> Option<Parts> {
        let query: Vec<_> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let target = if query.is_empty() { self.path } else { format!("{}?{}", self.path, query.join("&")) };
        let request = Request::builder().method(self.method).uri(target).version(self.version);
        let request = self.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        Some(request.body(()).ok()?.into_parts().0)
    }
}

/// A client with an access key.
#[derive(Clone)]
pub(in crate::s3) struct Signer {
    pub(in crate::s3) access_key: String,
    pub(in crate::s3) secret: String,
    pub(in crate::s3) time: DateTime<Utc>,
    pub(in crate::s3) region: String,
    pub(in crate::s3) service: String,
    pub(in crate::s3) payload: String,
}

impl Signer {
    pub(in crate::s3) fn new(access_key: &str, time: DateTime<Utc>) -> Self {
        Self {
            access_key: access_key.into(),
            secret: format!("secret of {access_key}"),
            time,
            region: "us-east-1".into(),
            service: "s3".into(),
            payload: "UNSIGNED-PAYLOAD".into(),
        }
    }

    /// Signs all headers of the request, and adds the signature as a header.
    pub(in crate::s3) fn sign(&self, request: RequestDraft) -> RequestDraft {
        self.sign_without_hash(request.with_header("x-amz-content-sha256", &self.payload))
    }

    /// Signs all headers of the request, without adding the payload to them.
    pub(in crate::s3) fn sign_without_hash(&self, request: RequestDraft) -> RequestDraft {
        let request = request.with_header("x-amz-date", &self.stamp());
        let names = signed_names(&request);
        let signature = self.signature(&request, &names, &self.payload);
        let credential = format!("{}/{}", self.access_key, self.scope());
        let value =
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}");
        request.with_header("authorization", &value)
    }

    /// Signs all headers of the request, and adds the signature to the query. The payload is that of the query.
    pub(in crate::s3) fn presign(&self, mut request: RequestDraft, expires: u64) -> RequestDraft {
        let names = signed_names(&request);
        let credential = format!("{}/{}", self.access_key, self.scope());
        let parameters = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256".to_owned()),
            ("X-Amz-Credential", credential.replace('/', "%2F")),
            ("X-Amz-Date", self.stamp()),
            ("X-Amz-Expires", expires.to_string()),
            ("X-Amz-SignedHeaders", names.replace(';', "%3B")),
        ];

        request.query.extend(parameters.map(|(name, value)| (name.to_owned(), value)));
        request.query.sort();
        let payload = request.query.iter().find(|(name, _)| name == "X-Amz-Content-Sha256");
        let payload = payload.map_or("UNSIGNED-PAYLOAD", |(_, hash)| hash);
        let signature = self.signature(&request, &names, payload);
        request.query.push(("X-Amz-Signature".into(), signature));
        request
    }

    fn stamp(&self) -> String {
        self.time.format("%Y%m%dT%H%M%SZ").to_string()
    }

    fn scope(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.time.format("%Y%m%d"), self.region, self.service)
    }

    fn signature(&self, request: &RequestDraft, names: &str, payload: &str) -> String {
        let query: Vec<_> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut headers = request.headers.clone();
        headers.sort();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical = format!(
            "{}\n{}\n{}\n{headers}\n{names}\n{payload}",
            request.method,
            request.path,
            query.join("&"),
        );

        let digest = hex::encode(Sha256::digest(canonical.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{}\n{}\n{digest}", self.stamp(), self.scope());

        let day = self.time.format("%Y%m%d").to_string();
        let first = format!("AWS4{}", self.secret).into_bytes();
        let fields = [&day, &self.region, &self.service, "aws4_request", &text];
        hex::encode(fields.iter().fold(first, |key, field| hmac(&key, field.as_bytes())))
    }
}

fn signed_names(request: &RequestDraft) -> String {
    let mut names: Vec<_> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort();
    names.join(";")
}

fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.chain_update(data).finalize().into_bytes().to_vec()
}
