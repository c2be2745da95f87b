//! Signs requests to an origin with Signature Version 4, over the path exactly as it is sent.

use chrono::{DateTime, Utc};
use hmac::Mac;
use http::{
    HeaderName, HeaderValue,
    header::{AUTHORIZATION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, USER_AGENT},
    request::Parts,
};
use object_store::aws::AwsCredential;
use sha2::{Digest, Sha256};

use super::super::sigv4::{ALGORITHM, signing_key};
use crate::s3::wire::target::QueryParameters;

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Headers that intermediaries may change, and that are therefore not signed.
const UNSIGNED: [HeaderName; 5] = [AUTHORIZATION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, USER_AGENT];

/// Signs the head of a request. `payload` describes the body: its hash, or a keyword if the hash is unknown.
pub(super) fn sign(
    parts: &mut Parts,
    payload: &str,
    credential: &AwsCredential,
    region: &str,
    now: DateTime<Utc>,
) {
    let time = now.format("%Y%m%dT%H%M%SZ").to_string();
    let day = now.format("%Y%m%d").to_string();
    insert(parts, DATE, &time, false);
    if let Some(token) = &credential.token {
        insert(parts, SECURITY_TOKEN, token, true);
    }

    let (names, canonical_headers) = canonical_headers(parts);
    let query = QueryParameters::of(&parts.uri).to_canonical();
    let mut canonical_request = format!("{}\n{}\n{query}\n", parts.method, parts.uri.path()).into_bytes();
    canonical_request.extend(canonical_headers);
    canonical_request.extend(format!("\n{names}\n{payload}").into_bytes());
    let digest = hex::encode(Sha256::digest(&canonical_request));
    let scope = format!("{day}/{region}/s3/aws4_request");
    let string_to_sign = format!("{ALGORITHM}\n{time}\n{scope}\n{digest}");
    let Some(key) = signing_key(&credential.secret_key, &day, region) else { return };

    let signature = hex::encode(key.chain_update(string_to_sign).finalize().into_bytes());
    let authorization = format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        credential.key_id
    );
    insert(parts, AUTHORIZATION, &authorization, true);
}

/// Returns the names of the signed headers, and the canonical headers. The latter are bytes, since header values need
/// not be text.
fn canonical_headers(parts: &Parts) -> (String, Vec<u8>) {
    let mut names: Vec<&HeaderName> = parts.headers.keys().filter(|name| !UNSIGNED.contains(name)).collect();
    names.sort_unstable_by_key(|name| name.as_str());

    let mut lines = Vec::new();
    for name in &names {
        let values = parts.headers.get_all(*name).iter().map(|value| {
            let words = value.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.collect::<Vec<_>>().join(&b' ')
        });
        lines.extend_from_slice(name.as_str().as_bytes());
        lines.push(b':');
        lines.extend(values.collect::<Vec<_>>().join(&b','));
        lines.push(b'\n');
    }
    let names: Vec<&str> = names.into_iter().map(HeaderName::as_str).collect();
    (names.join(";"), lines)
}

fn insert(parts: &mut Parts, name: HeaderName, text: &str, is_secret: bool) {
    if let Ok(mut value) = HeaderValue::from_str(text) {
        value.set_sensitive(is_secret);
        parts.headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::{auth::authenticate::authenticate, wire::target::QueryParameters};
    use crate::{
        access::AccessKeys,
        config::{AccessKeyConfig, Secret},
    };

    #[test]
    fn what_is_signed_here_is_verified_there() {
        let keys = AccessKeys::new(&[AccessKeyConfig {
            id: "me".into(),
            secret: Secret::new("secret"),
            token: None,
            buckets: vec!["*".into()],
            prefixes: Vec::new(),
            write: true,
        }]);

        let credential =
            AwsCredential { key_id: "me".into(), secret_key: "secret".into(), token: Some("t".into()) };
        for uri in ["/b/a//b/./c%20%2B?uploads&prefix=a%2Fb", "/b?delete", "/b/%D0%BA?versionId=1%2B"] {
            let request = http::Request::put(uri)
                .header("host", "h:1")
                .header("x-amz-meta-a", " a   b ")
                .header("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            sign(&mut parts, "UNSIGNED-PAYLOAD", &credential, "eu-west-1", Utc::now());
            let caller = authenticate(&parts, &QueryParameters::of(&parts.uri), &keys, Utc::now());
            assert_eq!(caller.unwrap().access_key.as_deref(), Some("me"), "{uri}");

            parts.headers.insert("x-amz-meta-a", HeaderValue::from_static("c"));
            assert!(authenticate(&parts, &QueryParameters::of(&parts.uri), &keys, Utc::now()).is_err());
        }
    }
}
