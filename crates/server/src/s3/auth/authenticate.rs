//! Verifies Signature Version 4 of any request, and reports why a verification failed.
//!
//! Plain GETs are verified by [`sigv4`](crate::s3::sigv4), which is faster but can only accept. All other requests
//! are verified here.
//!
//! Source: "Authenticating Requests (AWS Signature Version 4)" in the Amazon S3 API Reference.

use chrono::{DateTime, TimeDelta, Utc};
use hmac::Mac;
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, CONTENT_LENGTH, DATE, HOST, TRANSFER_ENCODING},
    request::Parts,
};
use s3s::{S3Error, S3Result, s3_error};
use sha2::{Digest, Sha256};

use crate::{
    access::AccessKeys,
    s3::{
        sigv4::{
            ALGORITHM, HmacSha256, MAX_EXPIRES_SECONDS, MAX_SKEW_SECONDS, UNSIGNED_PAYLOAD, parse_hex,
            parse_time, signing_key, to_hex,
        },
        wire::{
            chunked::ChunkSignatures,
            error::{ErrorDetail, detailed},
            target::{QueryParameters, encode_path},
        },
    },
};

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const SECURITY_TOKEN: &str = "x-amz-security-token";

/// Maximum number of signed headers; no client signs more than this.
const MAX_SIGNED_HEADERS: usize = 100;

/// SHA-256 of an empty body.
pub(crate) const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Query parameters of a presigned URL.
const SIGNING_PARAMETERS: [&str; 11] = [
    "AWSAccessKeyId",
    "Expires",
    "Signature",
    "X-Amz-Algorithm",
    "X-Amz-Content-Sha256",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Security-Token",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
];

/// Returns true if a query parameter belongs to the signature of a presigned URL, ignoring case.
pub(crate) fn is_signing_parameter(name: &str) -> bool {
    let is_of_version_4 = |known: &&str| known.starts_with("X-Amz-") && known.eq_ignore_ascii_case(name);
    SIGNING_PARAMETERS.iter().any(|known| *known == name || is_of_version_4(known))
}

/// The authenticated sender of a request.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    /// The access key that signed it; `None` on a node without keys.
    pub(crate) access_key: Option<String>,
    /// Verifier of the body's chunks, if they are signed.
    pub(crate) chunks: Option<ChunkSignatures>,
    /// The value of x-amz-content-sha256 that the signature covers; `None` if it covers none. It replaces that of the
    /// header, which need not be signed.
    pub(crate) payload: Option<String>,
}

/// Verifies the signature of a request against the keys of the node. A node without keys admits anyone.
pub(crate) fn authenticate(
    parts: &Parts,
    query: &QueryParameters,
    keys: &AccessKeys,
    now: DateTime<Utc>,
) -> S3Result<Caller> {
    if keys.is_empty() {
        return Ok(Caller::default());
    }
    let signature = ClaimedSignature::of(parts, query, now)?;
    signature.refuse_unsigned_headers(parts)?;

    let access_key = &signature.scope.access_key;
    let secret = keys.secret(access_key).ok_or_else(|| unknown_access_key(access_key))?;
    let key = signing_key(secret.expose(), &signature.scope.day, &signature.scope.region)
        .ok_or_else(|| s3_error!(InternalError))?;

    if !signature.matches_any(&key, parts, query, None) {
        return Err(signature.mismatch(&key, parts, query));
    }
    let chunks = signature.payload.starts_with("STREAMING-AWS4-HMAC-SHA256-PAYLOAD").then(|| {
        let has_trailers = signature.payload.ends_with("-TRAILER");
        let time = signature.time.clone();
        let scope = signature.scope.joined();
        ChunkSignatures::new(key, time, scope, signature.value.clone(), has_trailers)
    });

    let payload = Some(signature.payload).filter(|payload| payload != UNSIGNED_PAYLOAD);
    Ok(Caller { access_key: Some(signature.scope.access_key), chunks, payload })
}

/// Returns whether the head of a request announces a body that is not empty.
fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
}

/// An access key id and the scope of its signature.
pub(crate) struct CredentialScope {
    pub(crate) access_key: String,
    pub(crate) day: String,
    pub(crate) region: String,
}

impl CredentialScope {
    /// Parses `id/day/region/s3/aws4_request`. The id may contain slashes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.rsplitn(5, '/');
        let terminator = fields.next()?;
        let service = fields.next()?;
        let region = fields.next()?;
        let day = fields.next()?;
        let access_key = fields.next()?;
        let is_ours = terminator == "aws4_request" && service == "s3" && !access_key.is_empty();

        is_ours.then(|| Self {
            access_key: access_key.to_owned(),
            day: day.to_owned(),
            region: region.to_owned(),
        })
    }

    /// Returns `day/region/s3/aws4_request`.
    fn joined(&self) -> String {
        format!("{}/{}/s3/aws4_request", self.day, self.region)
    }
}

/// A signature that is neither expired nor from the future, not yet verified.
struct ClaimedSignature {
    scope: CredentialScope,
    /// Time of signing, as `YYYYMMDDTHHMMSSZ`.
    time: String,
    signed_headers: Vec<String>,
    /// The payload hash in the canonical request.
    payload: String,
    value: String,
}

impl ClaimedSignature {
    fn of(parts: &Parts, query: &QueryParameters, now: DateTime<Utc>) -> S3Result<Self> {
        let authorization = parts.headers.get(AUTHORIZATION);
        let in_query = query.has("X-Amz-Signature") || query.has("X-Amz-Algorithm");
        if query.has("Signature") && query.has("AWSAccessKeyId") {
            return Err(version_2());
        }
        match authorization {
            Some(_) if in_query => Err(s3_error!(
                InvalidArgument,
                "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter or the Authorization header should be specified"
            )),
            Some(text) => Self::of_header(text, &parts.headers, now),
            None if in_query => Self::of_query(query, &parts.headers, now),
            None => Err(s3_error!(
                AccessDenied,
                "Access Denied: this node requires requests to be signed with an access key."
            )),
        }
    }

    /// Parses `AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…` and the related headers.
    fn of_header(authorization: &HeaderValue, headers: &HeaderMap, now: DateTime<Utc>) -> S3Result<Self> {
        let malformed = || {
            s3_error!(
                AuthorizationHeaderMalformed,
                "The authorization header is malformed: Credential=ID/DAY/REGION/s3/aws4_request, SignedHeaders and Signature are needed."
            )
        };

        let text = authorization.to_str().map_err(|_| malformed())?.trim();
        if text.starts_with("AWS ") {
            return Err(version_2());
        }
        let Some(fields) = text.strip_prefix(ALGORITHM) else {
            return Err(s3_error!(
                InvalidRequest,
                "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."
            ));
        };

        let field = |name: &str| {
            let mut fields = fields.split(',').map(str::trim);
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).ok_or_else(malformed)
        };
        let scope = CredentialScope::parse(field("Credential")?).ok_or_else(malformed)?;
        let time = match text_of(headers, &AMZ_DATE) {
            Some(time) => time,
            None => text_of(headers, &DATE).as_deref().and_then(from_http_date).ok_or_else(|| {
                s3_error!(AccessDenied, "AWS authentication requires a valid Date or x-amz-date header")
            })?,
        };

        let signed = checked_time(&time, &scope)?;
        if (now - signed).abs() > TimeDelta::seconds(i64::from(MAX_SKEW_SECONDS)) {
            return Err(skewed(&time, now));
        }
        let payload = match text_of(headers, &CONTENT_SHA256) {
            Some(payload) => payload,
            None if has_body(headers) => {
                return Err(s3_error!(
                    InvalidRequest,
                    "Missing required header for this request: x-amz-content-sha256. Its value is the SHA-256 of the body, or UNSIGNED-PAYLOAD; curl: -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD'."
                ));
            }
            None => EMPTY_SHA256.to_owned(),
        };

        Ok(Self {
            scope,
            time,
            signed_headers: field("SignedHeaders")?.split(';').map(str::to_owned).collect(),
            payload,
            value: field("Signature")?.to_owned(),
        })
    }

    /// Parses the query of a presigned URL.
    fn of_query(query: &QueryParameters, headers: &HeaderMap, now: DateTime<Utc>) -> S3Result<Self> {
        let error = |message: String| {
            S3Error::with_message(s3s::S3ErrorCode::AuthorizationQueryParametersError, message)
        };
        let field = |name: &str| {
            query.get(name).filter(|value| !value.is_empty()).ok_or_else(|| {
                error(format!("Query-string authentication version 4 requires the parameter {name}."))
            })
        };

        if field("X-Amz-Algorithm")? != ALGORITHM {
            return Err(error(format!("X-Amz-Algorithm only supports \"{ALGORITHM}\".")));
        }
        let scope = CredentialScope::parse(field("X-Amz-Credential")?).ok_or_else(|| {
            error(
                "Error parsing the X-Amz-Credential parameter: ID/DAY/REGION/s3/aws4_request is needed."
                    .to_owned(),
            )
        })?;

        let time = field("X-Amz-Date")?.to_owned();
        let signed = checked_time(&time, &scope)?;
        let expires: u64 = field("X-Amz-Expires")?
            .parse()
            .map_err(|_| error("X-Amz-Expires should be a number".to_owned()))?;
        if expires > MAX_EXPIRES_SECONDS {
            return Err(error(
                "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds".to_owned(),
            ));
        }

        let age = now - signed;
        if age < -TimeDelta::seconds(i64::from(MAX_SKEW_SECONDS)) {
            return Err(s3_error!(AccessDenied, "Request is not yet valid"));
        }
        if age > TimeDelta::seconds(expires as i64) {
            let ended = signed + TimeDelta::seconds(expires as i64);
            return Err(detailed(
                s3_error!(AccessDenied, "Request has expired"),
                vec![
                    ErrorDetail::new("X-Amz-Expires", expires.to_string()),
                    ErrorDetail::new("Expires", ended.format("%Y-%m-%dT%H:%M:%SZ").to_string()),
                    ErrorDetail::new("ServerTime", now.format("%Y-%m-%dT%H:%M:%SZ").to_string()),
                ],
            ));
        }

        let in_header = text_of(headers, &CONTENT_SHA256).filter(|text| text.starts_with("STREAMING-"));
        let in_query = query.get("X-Amz-Content-Sha256").map(str::to_owned);
        Ok(Self {
            scope,
            time,
            signed_headers: field("X-Amz-SignedHeaders")?.split(';').map(str::to_owned).collect(),
            payload: in_header.or(in_query).unwrap_or_else(|| UNSIGNED_PAYLOAD.to_owned()),
            value: field("X-Amz-Signature")?.to_owned(),
        })
    }

    /// Refuses an x-amz-* header that the signature does not cover, as S3 does: otherwise the holder of a presigned
    /// URL for putting one object could add a header that turns the request into a copy of another object.
    fn refuse_unsigned_headers(&self, parts: &Parts) -> S3Result<()> {
        let mut names: Vec<&str> = self.signed_headers.iter().map(String::as_str).collect();
        names.sort_unstable();
        // Each signed header costs time in proportion to its length, before anything is verified.
        if names.len() > MAX_SIGNED_HEADERS || names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(s3_error!(
                AuthorizationHeaderMalformed,
                "SignedHeaders: too many names, or one twice"
            ));
        }

        let is_signed =
            |name: &str| self.signed_headers.iter().any(|signed| signed.eq_ignore_ascii_case(name));
        // The body's hash need not be covered: the signature has a hash of its own, which the body is compared with.
        let needs_cover = |name: &str| name.starts_with("x-amz-") && name != CONTENT_SHA256.as_str();
        match parts.headers.keys().map(HeaderName::as_str).find(|name| needs_cover(name) && !is_signed(name))
        {
            Some(name) => Err(detailed(
                s3_error!(
                    AccessDenied,
                    "There were headers present in the request which were not signed: {name}"
                ),
                vec![ErrorDetail::new("HeadersNotSigned", name.to_owned())],
            )),

            None if !is_signed(HOST.as_str()) => {
                Err(s3_error!(AccessDenied, "The header Host must be among the signed headers"))
            }
            None => Ok(()),
        }
    }

    /// Returns true if the signature matches the request under any common escaping of the path.
    fn matches_any(
        &self,
        key: &HmacSha256,
        parts: &Parts,
        query: &QueryParameters,
        host: Option<&str>,
    ) -> bool {
        let canonical = self.canonical_request(parts, &canonical_path(parts), query, host);
        self.matches(key, &canonical)
            || self.matches(key, &self.canonical_request(parts, parts.uri.path(), query, host))
    }

    fn matches(&self, key: &HmacSha256, canonical_request: &str) -> bool {
        let mac = key.clone().chain_update(self.string_to_sign(canonical_request));
        let Some(value) = parse_hex(&self.value) else { return false };
        // The comparison takes constant time.
        mac.verify_slice(&value).is_ok()
    }

    fn string_to_sign(&self, canonical_request: &str) -> String {
        let digest = to_hex(Sha256::digest(canonical_request.as_bytes()).into());
        let digest = String::from_utf8_lossy(&digest);
        format!("{ALGORITHM}\n{}\n{}\n{digest}", self.time, self.scope.joined())
    }

    /// Builds the canonical request, with `host` in place of the Host header if given.
    fn canonical_request(
        &self,
        parts: &Parts,
        path: &str,
        query: &QueryParameters,
        host: Option<&str>,
    ) -> String {
        let mut text = format!("{}\n{path}\n{}\n", parts.method, query.to_canonical());
        for name in &self.signed_headers {
            let value = match host.filter(|_| name == HOST.as_str()) {
                Some(host) => host.to_owned(),
                None => canonical_value(&parts.headers, name),
            };
            text.push_str(name);
            text.push(':');
            text.push_str(&value);
            text.push('\n');
        }

        text.push('\n');
        text.push_str(&self.signed_headers.join(";"));
        text.push('\n');
        text.push_str(&self.payload);
        text
    }

    /// Returns the error for a mismatch: the strings that were signed and, if known, the difference.
    fn mismatch(&self, key: &HmacSha256, parts: &Parts, query: &QueryParameters) -> S3Error {
        let mut message = "The request signature we calculated does not match the signature you provided. Check your key and signing method."
            .to_owned();
        let forwarded = parts.headers.get(FORWARDED_HOST).and_then(|host| host.to_str().ok());
        if let Some(host) = forwarded.filter(|host| self.matches_any(key, parts, query, Some(host))) {
            message = format!(
                "The signature is for the host {host}, and a proxy replaced it: have the proxy hand on the Host header as it came."
            );
        } else if let Some(absent) =
            self.signed_headers.iter().find(|name| !parts.headers.contains_key(*name))
        {
            message = format!(
                "The signature covers the header {absent}, which did not arrive: a proxy may have removed it."
            );
        }

        let canonical_request = self.canonical_request(parts, &canonical_path(parts), query, None);
        let string_to_sign = self.string_to_sign(&canonical_request);
        // The answer may end up in a log, which must not contain the session token.
        let token = canonical_value(&parts.headers, SECURITY_TOKEN);
        let canonical_request =
            if token.is_empty() { canonical_request } else { canonical_request.replace(&token, "***") };

        detailed(
            S3Error::with_message(s3s::S3ErrorCode::SignatureDoesNotMatch, message),
            vec![
                ErrorDetail::new("AWSAccessKeyId", self.scope.access_key.clone()),
                ErrorDetail::new("StringToSign", string_to_sign),
                ErrorDetail::new("SignatureProvided", self.value.clone()),
                ErrorDetail::new("CanonicalRequest", canonical_request),
            ],
        )
    }
}

/// Returns the path with each byte escaped once, regardless of how the client escaped it.
fn canonical_path(parts: &Parts) -> String {
    let decoded = percent_encoding::percent_decode(parts.uri.path().as_bytes()).decode_utf8_lossy();
    encode_path(&decoded)
}

/// Returns the values of a header, trimmed, with runs of spaces collapsed, joined by commas.
fn canonical_value(headers: &HeaderMap, name: &str) -> String {
    let values = headers.get_all(name).iter();
    let values = values.map(|value| {
        let text = String::from_utf8_lossy(value.as_bytes());
        text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
    });
    values.collect::<Vec<_>>().join(",")
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(|value| value.trim().to_owned())
}

fn checked_time(time: &str, scope: &CredentialScope) -> S3Result<DateTime<Utc>> {
    let parsed = parse_time(time).ok_or_else(|| {
        s3_error!(AccessDenied, "The date of the signature is not written YYYYMMDDTHHMMSSZ")
    })?;
    if time.get(..8) != Some(&scope.day) {
        return Err(s3_error!(
            SignatureDoesNotMatch,
            "The day of the credential, {}, is not that of the date, {time}.",
            scope.day
        ));
    }

    Ok(parsed)
}

fn from_http_date(text: &str) -> Option<String> {
    let time = DateTime::parse_from_rfc2822(text).ok()?.with_timezone(&Utc);
    Some(time.format("%Y%m%dT%H%M%SZ").to_string())
}

fn skewed(time: &str, now: DateTime<Utc>) -> S3Error {
    let message = "The difference between the request time and the server's time is too large.";
    detailed(
        s3_error!(RequestTimeTooSkewed, "{message}"),
        vec![
            ErrorDetail::new("RequestTime", time.to_owned()),
            ErrorDetail::new("ServerTime", now.format("%Y-%m-%dT%H:%M:%SZ").to_string()),
            ErrorDetail::new("MaxAllowedSkewMilliseconds", (MAX_SKEW_SECONDS * 1000).to_string()),
        ],
    )
}

/// Returns a 403 error: the node has no such access key.
pub(crate) fn unknown_access_key(id: &str) -> S3Error {
    detailed(
        s3_error!(InvalidAccessKeyId, "The access key id you provided does not exist here."),
        vec![ErrorDetail::new("AWSAccessKeyId", id.to_owned())],
    )
}

/// Returns a 400 error: the request is signed by Signature Version 2.
pub(crate) fn version_2() -> S3Error {
    s3_error!(
        InvalidRequest,
        "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256 (boto3: Config(signature_version=\"s3v4\"); s3cmd: signature_v2 = False; rclone: v2_auth = false)."
    )
}

#[cfg(test)]
mod tests;
