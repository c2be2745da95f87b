//! Signatures of requests and answers of the peer door, with a key derived from the cluster's secret.
//!
//! ```text
//! request        keyed BLAKE3( "request" │ method │ path │ time in ms │ body )
//! answer         keyed BLAKE3( "answer" │ signature of the request │ status │ body )
//! page request   keyed BLAKE3( "page request" │ signature of the upgrade │ number │ content )
//! frame          keyed BLAKE3( "frame" │ signature of the page request │ number │ head )
//! call           keyed BLAKE3( "call" │ path │ version of the software │ time in ms │ nonce )
//! ```
//!
//! Each part is preceded by its length. The signature of a request is valid for five minutes, that of an upgrade for
//! the lifetime of its connection. A recorded request that is replayed within that time has the same effect as the
//! first time. Calls of queries are not idempotent, and no signature covers the streams of their messages, so the
//! nonce of each call is accepted once.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::config::Secret;

/// Context of the key derivation from the configured secret.
const CONTEXT: &str = "stylobate 2026 key of the peer door, version 1";
/// Maximum difference between the clocks of two nodes, including the transit time of the request.
pub(crate) const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(5 * 60);

const TIME: HeaderName = HeaderName::from_static("x-stylobate-time");
#[cfg(feature = "distributed")]
const NONCE: HeaderName = HeaderName::from_static("x-stylobate-nonce");
const SIGNATURE: HeaderName = HeaderName::from_static("x-stylobate-signature");

/// The key with which nodes of one cluster sign.
#[derive(Clone)]
pub(crate) struct PeerKey([u8; blake3::KEY_LEN]);

/// Signature of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSignature(blake3::Hash);

/// Nonce of a call, which is accepted once.
#[cfg(feature = "distributed")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallNonce(u128);

/// Reason why a signature is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureError {
    #[error("it is not signed with the secret of this cluster")]
    Wrong,
    #[error("the clocks of the two nodes differ by more than five minutes")]
    Clock,
}

impl RequestSignature {
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns true if the bytes equal this signature, in constant time.
    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        // The `==` of hashes takes constant time.
        blake3::Hash::from_slice(bytes).is_ok_and(|shown| shown == self.0)
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKey(***)")
    }
}

impl PeerKey {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self(blake3::derive_key(CONTEXT, secret.expose().as_bytes()))
    }

    /// Signs a request by adding headers, and returns the signature, which the signature of the answer covers.
    pub(crate) fn sign_request(
        &self,
        headers: &mut HeaderMap,
        method: &str,
        path: &str,
        body: &[u8],
        now: SystemTime,
    ) -> RequestSignature {
        let time = milliseconds(now).to_string();
        let signature = self.request(method, path, &time, body);
        headers.extend(HeaderValue::try_from(time).ok().map(|time| (TIME, time)));
        headers.insert(SIGNATURE, hexadecimal(&signature));
        RequestSignature(signature)
    }

    /// Verifies the signature of a request, and returns it.
    pub(crate) fn check_request(
        &self,
        headers: &HeaderMap,
        method: &str,
        path: &str,
        body: &[u8],
        now: SystemTime,
    ) -> Result<RequestSignature, SignatureError> {
        let time = headers.get(TIME).and_then(|time| time.to_str().ok()).ok_or(SignatureError::Wrong)?;
        let signature = self.request(method, path, time, body);
        check(headers, &signature)?;

        check_time(time, now)?;
        Ok(RequestSignature(signature))
    }

    /// Signs the answer to a request by adding a header.
    pub(crate) fn sign_answer(
        &self,
        headers: &mut HeaderMap,
        request: RequestSignature,
        status: StatusCode,
        body: &[u8],
    ) {
        headers.insert(SIGNATURE, hexadecimal(&self.answer(request, status, body)));
    }

    /// Verifies the signature of the answer to a request.
    pub(crate) fn check_answer(
        &self,
        headers: &HeaderMap,
        request: RequestSignature,
        status: StatusCode,
        body: &[u8],
    ) -> Result<(), SignatureError> {
        check(headers, &self.answer(request, status, body))
    }

    /// Signs a call of a query by adding headers.
    #[cfg(feature = "distributed")]
    pub(crate) fn sign_call(&self, headers: &mut HeaderMap, path: &str, nonce: u128, now: SystemTime) {
        let time = milliseconds(now).to_string();
        let nonce = format!("{nonce:032x}");
        let signature = self.call(path, &time, &nonce);
        headers.extend(HeaderValue::try_from(time).ok().map(|time| (TIME, time)));
        headers.extend(HeaderValue::try_from(nonce).ok().map(|nonce| (NONCE, nonce)));
        headers.insert(SIGNATURE, hexadecimal(&signature));
    }

    /// Verifies the signature of a call, and returns its nonce.
    #[cfg(feature = "distributed")]
    pub(crate) fn check_call(
        &self,
        headers: &HeaderMap,
        path: &str,
        now: SystemTime,
    ) -> Result<CallNonce, SignatureError> {
        let text =
            |name| headers.get(name).and_then(|value| value.to_str().ok()).ok_or(SignatureError::Wrong);
        let time = text(TIME)?;
        let nonce = text(NONCE)?;
        check(headers, &self.call(path, time, nonce))?;
        check_time(time, now)?;
        u128::from_str_radix(nonce, 16).map(CallNonce).map_err(|_| SignatureError::Wrong)
    }

    #[cfg(feature = "distributed")]
    fn call(&self, path: &str, time: &str, nonce: &str) -> blake3::Hash {
        let version = env!("CARGO_PKG_VERSION").as_bytes();
        self.mac([b"call", path.as_bytes(), version, time.as_bytes(), nonce.as_bytes()])
    }

    /// Returns the signature of a request for pages. `number` counts the requests on the connection from 0; `session`
    /// is the signature of the upgrade.
    pub(super) fn page_request(
        &self,
        session: RequestSignature,
        number: u64,
        content: &[u8],
    ) -> RequestSignature {
        RequestSignature(self.mac([b"page request", session.as_bytes(), &number.to_le_bytes(), content]))
    }

    /// Returns the signature of a frame. `number` counts the frames of an answer from 0. The `==` of hashes takes
    /// constant time.
    pub(super) fn frame(&self, request: RequestSignature, number: u64, head: &[u8]) -> blake3::Hash {
        self.mac([b"frame", request.0.as_bytes(), &number.to_le_bytes(), head])
    }

    fn request(&self, method: &str, path: &str, time: &str, body: &[u8]) -> blake3::Hash {
        self.mac([b"request", method.as_bytes(), path.as_bytes(), time.as_bytes(), body])
    }

    fn answer(&self, request: RequestSignature, status: StatusCode, body: &[u8]) -> blake3::Hash {
        self.mac([b"answer", request.0.as_bytes(), status.as_str().as_bytes(), body])
    }

    fn mac<const N: usize>(&self, parts: [&[u8]; N]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.finalize()
    }
}

/// Checks that the time at which a request was signed, in milliseconds, is close to `now`.
fn check_time(sent: &str, now: SystemTime) -> Result<(), SignatureError> {
    let sent: u64 = sent.parse().map_err(|_| SignatureError::Wrong)?;
    let difference = Duration::from_millis(sent.abs_diff(milliseconds(now)));
    if difference > MAX_CLOCK_DIFFERENCE { Err(SignatureError::Clock) } else { Ok(()) }
}

fn check(headers: &HeaderMap, expected: &blake3::Hash) -> Result<(), SignatureError> {
    let shown = headers.get(SIGNATURE).and_then(|text| blake3::Hash::from_hex(text.as_bytes()).ok());
    // The `==` of `blake3::Hash` takes constant time.
    if shown.is_some_and(|shown| shown == *expected) { Ok(()) } else { Err(SignatureError::Wrong) }
}

fn hexadecimal(hash: &blake3::Hash) -> HeaderValue {
    let text = hash.to_hex();
    // Hexadecimal digits always form a valid header value.
    HeaderValue::from_str(text.as_str()).unwrap_or(HeaderValue::from_static(""))
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &str) -> PeerKey {
        PeerKey::new(&Secret::new(secret))
    }

    #[test]
    fn a_request_holds_for_its_method_path_and_body() {
        let now = SystemTime::now();
        let mut headers = HeaderMap::new();
        key("a").sign_request(&mut headers, "POST", "/v1/hello", b"body", now);
        let check = |key: PeerKey, method, path, body: &[u8]| {
            key.check_request(&headers, method, path, body, now).map(|_| ())
        };

        assert_eq!(check(key("a"), "POST", "/v1/hello", b"body"), Ok(()));
        for (secret, method, path, body) in [
            ("b", "POST", "/v1/hello", "body"),
            ("a", "GET", "/v1/hello", "body"),
            ("a", "POST", "/v1/hell", "obody"),
            ("a", "POST", "/v1/hello", ""),
        ] {
            assert_eq!(check(key(secret), method, path, body.as_bytes()), Err(SignatureError::Wrong));
        }
        assert!(key("a").check_request(&HeaderMap::new(), "POST", "/v1/hello", b"body", now).is_err());
    }

    #[test]
    fn a_request_holds_for_five_minutes() {
        let now = SystemTime::now();
        let mut headers = HeaderMap::new();
        key("a").sign_request(&mut headers, "GET", "/", b"", now);
        let check = |now| key("a").check_request(&headers, "GET", "/", b"", now).map(|_| ());
        let minutes = |count: u64| Duration::from_secs(60 * count);
        assert_eq!((check(now + minutes(4)), check(now - minutes(4))), (Ok(()), Ok(())));
        assert_eq!(check(now + minutes(6)), Err(SignatureError::Clock));
        assert_eq!(check(now - minutes(6)), Err(SignatureError::Clock));
    }

    #[cfg(feature = "distributed")]
    #[test]
    fn a_call_holds_for_its_path_and_nonce() {
        let now = SystemTime::now();
        let mut headers = HeaderMap::new();
        key("a").sign_call(&mut headers, "/worker.WorkerService/ExecuteTask", 7, now);
        let check = |secret, path| key(secret).check_call(&headers, path, now);
        assert_eq!(check("a", "/worker.WorkerService/ExecuteTask"), Ok(CallNonce(7)));
        assert_eq!(check("b", "/worker.WorkerService/ExecuteTask"), Err(SignatureError::Wrong));
        assert_eq!(check("a", "/worker.WorkerService/GetWorkerInfo"), Err(SignatureError::Wrong));
        let late = now + Duration::from_secs(6 * 60);
        let path = "/worker.WorkerService/ExecuteTask";
        assert_eq!(key("a").check_call(&headers, path, late), Err(SignatureError::Clock));

        headers.insert(NONCE, HeaderValue::from_static("00000000000000000000000000000008"));
        assert_eq!(key("a").check_call(&headers, path, now), Err(SignatureError::Wrong));
        assert_eq!(key("a").check_call(&HeaderMap::new(), path, now), Err(SignatureError::Wrong));
    }

    #[test]
    fn an_answer_holds_for_its_request_and_status() {
        let now = SystemTime::now();
        let request = |path| key("a").sign_request(&mut HeaderMap::new(), "POST", path, b"", now);
        let mut headers = HeaderMap::new();
        key("a").sign_answer(&mut headers, request("/1"), StatusCode::OK, b"answer");
        let check = |secret, path, status, body: &[u8]| {
            key(secret).check_answer(&headers, request(path), status, body)
        };
        assert_eq!(check("a", "/1", StatusCode::OK, b"answer"), Ok(()));
        assert!(check("a", "/2", StatusCode::OK, b"answer").is_err());
        assert!(check("a", "/1", StatusCode::NOT_FOUND, b"answer").is_err());
        assert!(check("a", "/1", StatusCode::OK, b"another").is_err());
        assert!(check("b", "/1", StatusCode::OK, b"answer").is_err());
        assert_eq!(format!("{:?}", key("a")), "PeerKey(***)");
    }
}
