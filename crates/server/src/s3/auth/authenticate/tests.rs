//! The example signatures of Amazon's documentation, and the errors for invalid ones.

use bytes::Bytes;
use futures::TryStreamExt;
use http::Request;
use s3s::Body;

use super::*;
use crate::{
    config::{AccessKeyConfig, Secret},
    s3::{
        sigv4::signer::{RequestDraft, Signer},
        wire::{
            chunked::{ChunkedBody, Trailers},
            error::to_answer,
        },
    },
};

fn keys(id: &str, secret: &str) -> AccessKeys {
    AccessKeys::new(&[AccessKeyConfig {
        id: id.into(),
        secret: Secret::new(secret),
        token: None,
        buckets: vec!["*".into()],
        prefixes: Vec::new(),
        write: true,
    }])
}

fn amazon() -> AccessKeys {
    keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
}

fn then() -> DateTime<Utc> {
    parse_time("20130524T000000Z").unwrap()
}

fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let request = Request::builder().method(method).uri(uri);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

fn verify(parts: &Parts, keys: &AccessKeys, now: DateTime<Utc>) -> S3Result<Caller> {
    authenticate(parts, &QueryParameters::of(&parts.uri), keys, now)
}

/// Returns the code of the error and its XML.
async fn refused(parts: &Parts, keys: &AccessKeys, now: DateTime<Utc>) -> (String, String) {
    let error = verify(parts, keys, now).err().unwrap();
    let mut body = to_answer(&error).into_body();
    let xml = body.store_all_limited(1 << 16).await.unwrap();
    (error.code().as_str().to_owned(), String::from_utf8(xml.to_vec()).unwrap())
}

fn example_put() -> Parts {
    let authorization = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
        SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;\
        x-amz-decoded-content-length;x-amz-storage-class,\
        Signature=4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
    parts(
        "PUT",
        "/examplebucket/chunkObject.txt",
        &[
            ("host", "s3.amazonaws.com"),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("authorization", authorization),
            ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
            ("content-encoding", "aws-chunked"),
            ("x-amz-decoded-content-length", "66560"),
            ("content-length", "66824"),
        ],
    )
}

fn example_chunks(last: &str) -> Vec<u8> {
    let chunk = |size: usize, signature: &str| {
        format!("{size:x};chunk-signature={signature}\r\n{}\r\n", "a".repeat(size))
    };
    [
        chunk(65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
        chunk(1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
        chunk(0, last),
    ]
    .concat()
    .into_bytes()
}

#[test]
fn the_examples_of_the_specification_are_verified() {
    let get = parts(
        "GET",
        "/test.txt",
        &[
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", EMPTY_SHA256),
            ("x-amz-date", "20130524T000000Z"),
            (
                "authorization",
                "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
        ],
    );

    let caller = verify(&get, &amazon(), then()).unwrap();
    assert_eq!(caller.access_key.as_deref(), Some("AKIAIOSFODNN7EXAMPLE"));

    let presigned = parts(
        "GET",
        "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
         &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
        &[("host", "examplebucket.s3.amazonaws.com")],
    );
    assert!(verify(&presigned, &amazon(), then()).is_ok());
}

#[tokio::test]
async fn the_chunks_of_the_specification_are_verified_one_by_one() {
    let right = "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9";
    let decode = async |body: Vec<u8>| {
        let chunks = verify(&example_put(), &amazon(), then()).unwrap().chunks;
        assert!(chunks.is_some());
        let body = ChunkedBody::new(Body::from(body), 66560, Trailers::default(), chunks);
        let mut received = 0;
        let outcome = body.try_for_each(|bytes: Bytes| {
            received += bytes.len();
            std::future::ready(Ok(()))
        });
        outcome.await.map(|()| 66560).map_err(|_| received)
    };

    assert_eq!(decode(example_chunks(right)).await, Ok(66560));

    // A reader never receives all bytes unless all signatures are valid.
    let wrong_end = decode(example_chunks(&right.replace('b', "c"))).await.unwrap_err();
    assert!(wrong_end < 66560, "{wrong_end}");
    let mut changed = example_chunks(right);
    changed[100] = b'b';
    assert!(decode(changed).await.unwrap_err() < 66560);
}

#[tokio::test]
async fn a_wrong_signature_is_told_what_was_verified() {
    let now = Utc::now();
    let signer = Signer::new("me", now);
    let ours = keys("me", "secret of me");
    let request = || RequestDraft::get("/b/k").with_header("x-amz-security-token", "s3cr3t-token");

    let mut signed = signer.sign(request());
    *signed.value_mut("host").unwrap() = "other:9000".into();
    let proxied = signed.clone().with_header("x-forwarded-host", "127.0.0.1:9000");
    let (code, xml) = refused(&signed.into_parts().unwrap(), &ours, now).await;
    assert_eq!(code, "SignatureDoesNotMatch");
    for part in ["<StringToSign>AWS4-HMAC-SHA256", "<CanonicalRequest>GET", "host:other:9000", "us-east-1"] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    assert!(!xml.contains("s3cr3t-token") && !xml.contains("secret of me"), "{xml}");

    let (_, xml) = refused(&proxied.into_parts().unwrap(), &ours, now).await;
    assert!(xml.contains("The signature is for the host 127.0.0.1:9000, and a proxy replaced it"), "{xml}");

    let late = signer.sign(request()).into_parts().unwrap();
    let (code, xml) = refused(&late, &ours, now + TimeDelta::minutes(20)).await;
    assert_eq!(code, "RequestTimeTooSkewed");
    assert!(xml.contains("<ServerTime>") && xml.contains("<RequestTime>"), "{xml}");
}

#[tokio::test]
async fn version_2_is_refused_with_the_option_that_helps() {
    let header = parts("GET", "/b/k", &[("host", "h"), ("authorization", "AWS me:c2ln")]);
    let query = parts("GET", "/b/k?AWSAccessKeyId=me&Expires=1&Signature=c2ln", &[("host", "h")]);
    for request in [header, query] {
        let (code, xml) = refused(&request, &keys("me", "x"), Utc::now()).await;
        assert_eq!(code, "InvalidRequest");
        assert!(xml.contains("signature_version"), "{xml}");
    }
}

#[test]
fn a_get_may_leave_out_the_hash_of_its_body() {
    let now = Utc::now();
    let mut signer = Signer::new("me", now);
    signer.payload = EMPTY_SHA256.into();
    let request = signer.sign_without_hash(RequestDraft::get("/b/k"));
    assert!(verify(&request.into_parts().unwrap(), &keys("me", "secret of me"), now).is_ok());
}

#[test]
fn the_payload_is_the_one_that_is_signed_whatever_the_header_says() {
    let now = Utc::now();
    let ours = keys("me", "secret of me");
    let payload = |request: RequestDraft| verify(&request.into_parts().unwrap(), &ours, now).unwrap().payload;
    let mut draft = RequestDraft::get("/b/k");
    draft.method = "PUT";

    let hash = "0".repeat(64);
    let mut pinned = draft.clone();
    pinned.query.push(("X-Amz-Content-Sha256".into(), hash.clone()));
    let pinned = Signer::new("me", now).presign(pinned, 60);
    assert_eq!(payload(pinned.clone()).as_ref(), Some(&hash));
    assert_eq!(payload(pinned.with_header("x-amz-content-sha256", "UNSIGNED-PAYLOAD")), Some(hash));

    let open = Signer::new("me", now).presign(draft.clone(), 60);
    assert_eq!(payload(open), None);

    // A request without the header has an empty body.
    let mut signer = Signer::new("me", now);
    signer.payload = EMPTY_SHA256.into();
    assert_eq!(payload(signer.sign_without_hash(draft.clone())).as_deref(), Some(EMPTY_SHA256));
    let with_body = signer.sign_without_hash(draft.with_header("content-length", "5")).into_parts().unwrap();
    let error = verify(&with_body, &ours, now).err().unwrap();
    assert_eq!(error.code().as_str(), "InvalidRequest");
    assert!(error.message().unwrap().contains("x-amz-content-sha256"));
}

#[test]
fn a_header_that_is_not_signed_changes_no_write() {
    let now = Utc::now();
    let mut draft = RequestDraft::get("/b/k");
    draft.method = "PUT";
    let signed = Signer::new("me", now).presign(draft, 60);
    let ours = keys("me", "secret of me");
    assert!(verify(&signed.clone().into_parts().unwrap(), &ours, now).is_ok());
    let copy = signed.with_header("x-amz-copy-source", "/b/secret").into_parts().unwrap();
    assert_eq!(verify(&copy, &ours, now).err().unwrap().code().as_str(), "AccessDenied");
}
