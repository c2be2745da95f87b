//! Verifies Signature Version 4 of plain GETs with cached signing keys.
//!
//! The verifier can only accept. A request whose signature is absent, wrong or in an unusual form is left to the
//! protocol layer, which verifies it from scratch and reports the fault. So each rule here must be at least as strict
//! as the protocol layer's; a stricter rule costs time but does not change any answer.
//!
//! Source: "Authenticating Requests (AWS Signature Version 4)" in the Amazon S3 API Reference.

use std::{borrow::Cow, collections::HashMap};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use http::{
    HeaderMap, HeaderName, Version,
    header::{AUTHORIZATION, AsHeaderName, HOST},
    request::Parts,
};
use parking_lot::RwLock;
use sha2::{Digest, Sha256};

use crate::access::AccessKeys;

pub(super) type HmacSha256 = Hmac<Sha256>;

/// Maximum validity of a presigned URL, as in S3: a week.
pub(super) const MAX_EXPIRES_SECONDS: u64 = 7 * 24 * 60 * 60;

/// Maximum clock skew of a client, equal to that in the protocol layer's configuration.
pub(super) const MAX_SKEW_SECONDS: u32 = 15 * 60;

const MAX_SIGNING_KEYS: usize = 1024;

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "s3";
const TERMINATOR: &str = "aws4_request";
pub(super) const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DATE: HeaderName = HeaderName::from_static("x-amz-date");

/// The query parameters that a presigned URL signs, in canonical order.
const SIGNED_PARAMETERS: [&str; 5] =
    ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders"];
const SIGNATURE_PARAMETER: &str = "X-Amz-Signature";

/// Verifies signatures, and caches the signing keys of valid ones.
///
/// A signing key is cached under its credential as requests write it, so that a credential that is cached needs no
/// parsing. Only a valid signature caches its key, so a client without a secret cannot fill the cache. There is no
/// `Debug` implementation, since it would have to hide everything.
pub(super) struct SigningKeys {
    by_credential: RwLock<HashMap<String, SigningKey>>,
}

/// A signing key, and the parts of its credential that a verification needs.
struct SigningKey {
    mac: HmacSha256,
    /// Generation of the access keys that it is derived from: a secret may change when the configuration is
    /// reloaded.
    generation: u64,
    /// Separator in the credential, which differs between headers and queries.
    separator: Separator,
    access_key_length: usize,
    /// `day/region/s3/aws4_request`.
    scope: String,
}

impl SigningKeys {
    pub(super) fn new() -> Self {
        Self { by_credential: RwLock::new(HashMap::new()) }
    }

    /// Returns the access key id that signed the request, or `None` if the protocol layer must decide.
    pub(super) fn verify<'a>(
        &self,
        parts: &'a Parts,
        keys: &AccessKeys,
        now: DateTime<Utc>,
    ) -> Option<&'a str> {
        // An HTTP/1 request without a length has no body. HTTP/2 differs in this, and moves the host into the URI.
        if !matches!(parts.version, Version::HTTP_10 | Version::HTTP_11) {
            return None;
        }

        let is_in_header = parts.headers.contains_key(AUTHORIZATION);
        let signature = match parts.uri.query() {
            None => SigV4Signature::from_headers(&parts.headers, now)?,
            Some(query) if !is_in_header => SigV4Signature::from_query(query, &parts.headers, now)?,
            Some(_) => return None,
        };

        let canonical_request = signature.canonical_request(parts)?;
        let digest = to_hex(Sha256::digest(canonical_request.as_bytes()).into());
        if let Some(key) = self.by_credential.read().get(signature.credential)
            && key.generation == keys.generation()
        {
            return key.verify(&signature, &digest);
        }

        let key = signature.signing_key(keys)?;
        let access_key = key.verify(&signature, &digest)?;
        self.insert(signature.credential.to_owned(), key);
        Some(access_key)
    }

    /// Caches a key. Clears the cache when it is full, which also evicts the keys of past days; deriving a key again
    /// takes only microseconds.
    fn insert(&self, credential: String, key: SigningKey) {
        let mut keys = self.by_credential.write();

        if keys.len() >= MAX_SIGNING_KEYS {
            keys.clear();
        }
        keys.insert(credential, key);
    }
}

impl SigningKey {
    /// Returns the access key id in the credential of a signature, if this key made the signature. `digest`: SHA-256
    /// of the canonical request, in hexadecimal.
    fn verify<'a>(&self, signature: &SigV4Signature<'a>, digest: &[u8]) -> Option<&'a str> {
        if self.separator != signature.separator || !self.scope.starts_with(signature.day()?) {
            return None;
        }

        let mut text = String::with_capacity(256);
        for line in [ALGORITHM, signature.time, &self.scope] {
            text.push_str(line);
            text.push('\n');
        }

        let mac = self.mac.clone().chain_update(text.as_bytes()).chain_update(digest);
        // The comparison takes constant time.
        mac.verify_slice(&signature.value).ok()?;
        signature.credential.get(..self.access_key_length)
    }
}

/// A signature that is neither expired nor from the future, not yet verified.
struct SigV4Signature<'a> {
    /// `id/day/region/s3/aws4_request`, with `separator` in place of the slashes.
    credential: &'a str,
    separator: Separator,
    /// Time of signing, as `YYYYMMDDTHHMMSSZ`.
    time: &'a str,
    signed_headers: SignedHeaders<'a>,
    /// The payload hash in the canonical request.
    payload: &'a str,
    /// The signed part of the query, in its canonical order and encoding.
    query: Cow<'a, str>,
    value: [u8; 32],
}

/// Names of the signed headers.
struct SignedHeaders<'a>(Vec<&'a str>);

impl<'a> SignedHeaders<'a> {
    fn new(text: &'a str, separator: Separator) -> Self {
        Self(split_fields(text, separator).collect())
    }

    fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().copied()
    }

    /// Returns true if the names are lowercase and in strictly ascending order.
    fn are_ordered(&self) -> bool {
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let mut previous = "";
        self.iter().all(|name| name.bytes().all(is_name) && std::mem::replace(&mut previous, name) < name)
    }

    /// Returns true if they include the host and every S3-specific header of the request.
    fn cover(&self, headers: &HeaderMap) -> bool {
        let is_signed = |name: &str| self.iter().any(|signed| signed == name);
        let mut of_s3 = headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with("x-amz-"));
        is_signed(HOST.as_str()) && of_s3.all(is_signed)
    }
}

impl<'a> SigV4Signature<'a> {
    /// Parses `AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…` and the related headers.
    fn from_headers(headers: &'a HeaderMap, now: DateTime<Utc>) -> Option<Self> {
        let authorization = single(headers, AUTHORIZATION)?;
        let rest = authorization.strip_prefix(ALGORITHM)?.strip_prefix(" Credential=")?;
        let (credential, rest) = rest.split_once(',')?;
        let (names, rest) = rest.trim_start_matches(' ').strip_prefix("SignedHeaders=")?.split_once(',')?;
        let value = rest.trim_start_matches(' ').strip_prefix("Signature=")?;

        let time = single(headers, DATE)?;
        let age = now - parse_time(time)?;
        if age.abs() > seconds(MAX_SKEW_SECONDS) {
            return None;
        }

        // The request has no body. Like the protocol layer, this does not compare the hash with that of an empty
        // body.
        let payload = single(headers, CONTENT_SHA256).filter(|text| is_payload_hash(text))?;
        Some(Self {
            credential,
            separator: ('/', ""),
            time,
            signed_headers: SignedHeaders::new(names, (';', "")),
            payload,
            query: Cow::Borrowed(""),
            value: parse_hex(value)?,
        })
    }

    /// Parses the query of a presigned URL, which may contain no other parameters.
    fn from_query(query: &'a str, headers: &HeaderMap, now: DateTime<Utc>) -> Option<Self> {
        let mut values = [None; 5];
        let mut signature = None;
        let mut is_ordered = true;
        for pair in query.split('&') {
            let value_of = |name: &str| pair.strip_prefix(name)?.strip_prefix('=');
            let found =
                SIGNED_PARAMETERS.iter().enumerate().find_map(|(at, name)| Some((at, value_of(name)?)));
            let (slot, value) = match found {
                Some((at, value)) => {
                    let is_next = values.iter().take(at).all(Option::is_some) && signature.is_none();
                    is_ordered &= is_next;
                    (values.get_mut(at)?, value)
                }
                None => (&mut signature, value_of(SIGNATURE_PARAMETER)?),
            };
            if slot.replace(value).is_some() {
                return None;
            }
        }

        let [Some(algorithm), Some(credential), Some(time), Some(expires), Some(names)] = values else {
            return None;
        };
        let signature = signature?;
        if algorithm != ALGORITHM {
            return None;
        }

        let age = now - parse_time(time)?;
        if age < -seconds(MAX_SKEW_SECONDS) || age > seconds(parse_expires(expires)?) {
            return None;
        }

        // Most clients send the parameters in canonical order, and the signature last.
        let signed_query = if is_ordered {
            Cow::Borrowed(query.rsplit_once('&')?.0)
        } else {
            let values = [algorithm, credential, time, expires, names];
            let pairs = SIGNED_PARAMETERS.iter().zip(values).map(|(name, value)| format!("{name}={value}"));
            Cow::Owned(pairs.collect::<Vec<_>>().join("&"))
        };

        let has_payload_hash = headers.contains_key(CONTENT_SHA256);
        if has_payload_hash && !single(headers, CONTENT_SHA256).is_some_and(is_payload_hash) {
            return None;
        }
        Some(Self {
            credential,
            separator: ('%', "2F"),
            time,
            signed_headers: SignedHeaders::new(names, ('%', "3B")),
            payload: UNSIGNED_PAYLOAD,
            query: signed_query,
            value: parse_hex(signature)?,
        })
    }

    /// Returns the day of signing, as `YYYYMMDD`.
    fn day(&self) -> Option<&'a str> {
        self.time.get(..8)
    }

    /// Derives the signing key of the credential, or returns `None` if it is unknown or has an unusual form.
    fn signing_key(&self, keys: &AccessKeys) -> Option<SigningKey> {
        let mut fields = split_fields(self.credential, self.separator);
        let access_key = fields.next()?;
        let day = fields.next()?;
        let region = fields.next()?;

        let is_region = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_plain = !access_key.is_empty()
            && access_key.bytes().all(is_unreserved)
            && !region.is_empty()
            && region.bytes().all(is_region)
            && self.day() == Some(day)
            && fields.eq([SERVICE, TERMINATOR]);
        if !is_plain {
            return None;
        }

        Some(SigningKey {
            mac: signing_key(keys.secret(access_key)?.expose(), day, region)?,
            generation: keys.generation(),
            separator: self.separator,
            access_key_length: access_key.len(),
            scope: [day, region, SERVICE, TERMINATOR].join("/"),
        })
    }

    /// Builds the canonical form of the request, or returns `None` if the request is ambiguous.
    fn canonical_request(&self, parts: &Parts) -> Option<String> {
        let path = parts.uri.path();
        let signed = &self.signed_headers;
        if !is_canonical_path(path) || !signed.are_ordered() || !signed.cover(&parts.headers) {
            return None;
        }

        let mut text = String::with_capacity(1024);
        text.push_str(parts.method.as_str());
        text.push('\n');
        text.push_str(path);
        text.push('\n');

        text.push_str(&self.query);
        text.push('\n');

        for name in signed.iter() {
            let value = single(&parts.headers, name).filter(|value| is_canonical_value(value))?;
            text.push_str(name);
            text.push(':');
            text.push_str(value);
            text.push('\n');
        }

        text.push('\n');

        for (index, name) in signed.iter().enumerate() {
            if index > 0 {
                text.push(';');
            }
            text.push_str(name);
        }

        text.push('\n');
        text.push_str(self.payload);
        Some(text)
    }
}

/// A separator: a character, and the rest of its escape if it is escaped.
type Separator = (char, &'static str);

/// Splits a text at a separator. A text with another escape yields `%`, which no field may be. Searching for a
/// character is faster than for a string.
fn split_fields(text: &str, (first, rest): Separator) -> impl Iterator<Item = &str> {
    let pieces = text.split(first).enumerate();
    pieces.map(move |(index, piece)| match index {
        0 => piece,
        _ => piece.strip_prefix(rest).unwrap_or("%"),
    })
}

/// Returns true if a path equals its own canonical form, in which only the necessary escapes occur, once and in upper
/// case. Its escapes may still decode to bytes that are not UTF-8.
pub(super) fn is_canonical_path(path: &str) -> bool {
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => match (upper_hex(*high), upper_hex(*low)) {
                (Some(high), Some(low)) if !is_path_byte(high << 4 | low) => tail,
                _ => return false,
            },
            (byte, _) if is_path_byte(*byte) => tail,
            _ => return false,
        };
    }

    true
}

fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte) || byte == b'/'
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~')
}

/// Returns true if a header value has no whitespace that its canonical form would trim or collapse.
fn is_canonical_value(value: &str) -> bool {
    // Begins as after a space, which may not be followed by another one, nor by the end.
    let mut previous = b' ';
    for byte in value.bytes() {
        if byte == b'\t' || (byte == b' ' && previous == b' ') {
            return false;
        }
        previous = byte;
    }
    previous != b' ' || value.is_empty()
}

fn is_payload_hash(text: &str) -> bool {
    text == UNSIGNED_PAYLOAD || parse_hex(text).is_some()
}

/// Returns the value of a header that occurs exactly once.
fn single(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    match values.next() {
        None => value.to_str().ok(),
        Some(_) => None,
    }
}

fn seconds(count: u32) -> TimeDelta {
    TimeDelta::seconds(i64::from(count))
}

fn parse_expires(text: &str) -> Option<u32> {
    let expires = parse_digits(text)?;
    (u64::from(expires) <= MAX_EXPIRES_SECONDS).then_some(expires)
}

/// Parses `YYYYMMDDTHHMMSSZ`.
pub(super) fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    if date.len() != 8 || time.len() != 6 {
        return None;
    }

    let date = parse_digits(date)?;
    let time = parse_digits(time)?;
    let day = NaiveDate::from_ymd_opt((date / 10_000) as i32, date / 100 % 100, date % 100)?;
    Some(day.and_hms_opt(time / 10_000, time / 100 % 100, time % 100)?.and_utc())
}

/// Parses a number. Unlike the standard library's parser, it accepts no sign.
fn parse_digits(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Parses 32 bytes in hexadecimal.
pub(super) fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    hex_simd::decode(text.as_bytes(), hex_simd::Out::from_slice(&mut bytes)).ok()?;
    Some(bytes)
}

fn upper_hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Formats a hash in lowercase hexadecimal, without an allocation.
pub(super) fn to_hex(hash: [u8; 32]) -> [u8; 64] {
    let mut text = [0; 64];
    _ = hex_simd::encode(&hash, hex_simd::Out::from_slice(&mut text), hex_simd::AsciiCase::Lower);
    text
}

/// Derives the signing key of a credential.
pub(super) fn signing_key(secret: &str, day: &str, region: &str) -> Option<HmacSha256> {
    let mut key = HmacSha256::new_from_slice(format!("AWS4{secret}").as_bytes()).ok()?;
    for text in [day, region, SERVICE, TERMINATOR] {
        key.update(text.as_bytes());
        key = HmacSha256::new_from_slice(&key.finalize().into_bytes()).ok()?;
    }
    Some(key)
}

#[cfg(test)]
pub(super) mod signer;
#[cfg(test)]
mod tests;
