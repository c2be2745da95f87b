//! The published examples of Signature Version 4, and faults that must not verify.

use chrono::TimeZone;
use http::Request;

use super::{
    signer::{EMPTY_SHA256, RequestDraft, Signer},
    *,
};
use crate::config::{AccessKeyConfig, Secret};

fn access_keys(keys: &[(&str, &str)]) -> AccessKeys {
    let keys = keys.iter().map(|(id, secret)| AccessKeyConfig {
        id: (*id).into(),
        secret: Secret::new(*secret),
        token: None,
        buckets: vec!["*".into()],
        prefixes: Vec::new(),
        write: false,
    });
    AccessKeys::new(&keys.collect::<Vec<_>>())
}

/// Returns the access key of Amazon's published examples.
fn published_key() -> AccessKeys {
    access_keys(&[("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")])
}

fn known_keys() -> AccessKeys {
    access_keys(&[("reader", "secret of reader"), ("writer", "secret of writer")])
}

fn noon() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()
}

fn signer() -> Signer {
    Signer::new("reader", noon())
}

fn get() -> RequestDraft {
    RequestDraft::get("/lake/year%3D2026/a.parquet").with_header("range", "bytes=0-9")
}

/// Verifies a request at noon, and returns the key that signed it.
fn verify(request: RequestDraft) -> Option<String> {
    let parts = request.into_parts().unwrap();
    SigningKeys::new().verify(&parts, &known_keys(), noon()).map(str::to_owned)
}

#[test]
fn the_published_signature_in_a_header_verifies() {
    let credential = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={credential},\
         SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
         Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    );

    let request = Request::get("/test.txt")
        .header("host", "examplebucket.s3.amazonaws.com")
        .header("authorization", authorization)
        .header("range", "bytes=0-9")
        .header("x-amz-content-sha256", EMPTY_SHA256)
        .header("x-amz-date", "20130524T000000Z");

    let (parts, ()) = request.body(()).unwrap().into_parts();
    let now = Utc.with_ymd_and_hms(2013, 5, 24, 0, 15, 0).unwrap();
    let verify = |now| SigningKeys::new().verify(&parts, &published_key(), now);
    assert_eq!(verify(now), Some("AKIAIOSFODNN7EXAMPLE"));
    assert_eq!(verify(now + TimeDelta::milliseconds(1)), None);
    assert_eq!(verify(now - TimeDelta::minutes(30)), Some("AKIAIOSFODNN7EXAMPLE"));
    assert_eq!(verify(now - TimeDelta::minutes(30) - TimeDelta::milliseconds(1)), None);
}

#[test]
fn the_published_presigned_url_verifies() {
    let query = "X-Amz-Algorithm=AWS4-HMAC-SHA256\
        &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
        &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
        &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    let request = Request::get(format!("/test.txt?{query}")).header("host", "examplebucket.s3.amazonaws.com");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let signed = Utc.with_ymd_and_hms(2013, 5, 24, 0, 0, 0).unwrap();
    let verify = |now| SigningKeys::new().verify(&parts, &published_key(), now);
    assert_eq!(verify(signed), Some("AKIAIOSFODNN7EXAMPLE"));
    assert_eq!(verify(signed + TimeDelta::days(1)), Some("AKIAIOSFODNN7EXAMPLE"));
    assert_eq!(verify(signed + TimeDelta::days(1) + TimeDelta::milliseconds(1)), None);
    assert_eq!(verify(signed - TimeDelta::minutes(15)), Some("AKIAIOSFODNN7EXAMPLE"));
    assert_eq!(verify(signed - TimeDelta::minutes(15) - TimeDelta::milliseconds(1)), None);
}

#[test]
fn a_request_that_a_client_signed_verifies() {
    assert_eq!(verify(signer().sign(get())).as_deref(), Some("reader"));
    assert_eq!(verify(signer().presign(get(), 60)).as_deref(), Some("reader"));
    for payload in [EMPTY_SHA256, &"0".repeat(64)] {
        let signer = Signer { payload: payload.to_owned(), ..signer() };
        assert_eq!(verify(signer.sign(get())).as_deref(), Some("reader"), "{payload}");
    }
}

#[test]
fn a_path_is_signed_as_it_is_escaped() {
    for path in ["/b/a", "/b/a%20b%2Bc", "/b/~a-b_c.d/e", "/b/%D0%BA", "/b/100%25", "/b//a"] {
        assert!(verify(signer().sign(RequestDraft::get(path))).is_some(), "{path}");
    }
    for path in ["/b/a=b", "/b/a+b", "/b/%2f", "/b/%2F", "/b/%3d", "/b/%61", "/b/100%", "/b/%2", "/b/a:b"] {
        assert!(verify(signer().sign(RequestDraft::get(path))).is_none(), "{path}");
    }
}

#[test]
fn a_request_without_a_signature_is_nobodys() {
    assert_eq!(verify(get()), None);
    assert_eq!(verify(signer().sign(get()).without("authorization")), None);
    assert_eq!(verify(signer().presign(get(), 60).without("X-Amz-Signature")), None);
}

#[test]
fn no_byte_of_what_is_signed_can_be_changed() {
    let originals = [signer().sign(get()), signer().presign(get(), 60)];
    for original in originals {
        let pairs = original.headers.len() + original.query.len();
        for index in 0..=pairs {
            let text = |request: &RequestDraft| {
                let mut texts = request.headers.iter().chain(&request.query).map(|(_, value)| value);
                texts.nth(index).unwrap_or(&request.path).clone()
            };
            for at in 0..text(&original).len() {
                let mut changed = original.clone();
                let RequestDraft { path, query, headers, .. } = &mut changed;
                let mut texts = headers.iter_mut().chain(query).map(|(_, value)| value);
                let value = texts.nth(index).unwrap_or(path);
                let replacement = if value.as_bytes()[at] == b'0' { "1" } else { "0" };
                value.replace_range(at..=at, replacement);
                let Some(parts) = changed.clone().into_parts() else { continue };
                let signer = SigningKeys::new().verify(&parts, &known_keys(), noon());
                assert_eq!(signer, None, "byte {at} of {:?}", text(&changed));
            }
        }
    }
}

#[test]
fn a_credential_of_another_scope_does_not_verify() {
    for (access_key, secret, region, service) in [
        ("reader", "secret of reader", "", "s3"),
        ("reader", "secret of reader", "EU", "s3"),
        ("reader", "secret of reader", "us-east-1", "sts"),
        ("reader", "secret of reader", "us-east-1", "iam"),
        ("reader", "secret of writer", "us-east-1", "s3"),
        ("stranger", "secret of stranger", "us-east-1", "s3"),
        ("", "", "us-east-1", "s3"),
    ] {
        let signer = Signer {
            access_key: access_key.into(),
            secret: secret.into(),
            region: region.into(),
            service: service.into(),
            ..signer()
        };
        assert_eq!(verify(signer.sign(get())), None, "{access_key}/{region}/{service}");
        assert_eq!(verify(signer.presign(get(), 60)), None, "{access_key}/{region}/{service}");
    }

    // A region other than the signed one.
    let mut moved = signer().sign(get());
    let value = moved.value_mut("authorization").unwrap();
    *value = value.replace("us-east-1", "us-west-2");
    assert_eq!(verify(moved), None);
    let mut moved = signer().presign(get(), 60);
    let value = moved.value_mut("X-Amz-Credential").unwrap();
    *value = value.replace("us-east-1", "us-west-2");
    assert_eq!(verify(moved), None);
}

#[test]
fn a_header_that_matters_must_be_signed() {
    let unsigned = |name: &str, value: &str| {
        let header = signer().sign(get()).with_header(name, value);
        let query = signer().presign(get(), 60).with_header(name, value);
        (verify(header).is_some(), verify(query).is_some())
    };
    assert_eq!(unsigned("x-amz-user-agent", "a"), (false, false));
    assert_eq!(unsigned("x-amz-security-token", "a"), (false, false));
    assert_eq!(unsigned("user-agent", "a"), (true, true));

    let without_host = signer().sign(get().without("host"));
    assert_eq!(verify(without_host.with_header("host", "127.0.0.1:9000")), None);
    let without_host = signer().presign(get().without("host"), 60);
    assert_eq!(verify(without_host.with_header("host", "127.0.0.1:9000")), None);
}

#[test]
fn a_signed_header_must_come_with_the_request_once() {
    for name in ["host", "range", "x-amz-date", "x-amz-content-sha256"] {
        assert_eq!(verify(signer().sign(get()).without(name)), None, "{name}");
    }
    for name in ["host", "range", "x-amz-date", "x-amz-content-sha256", "authorization"] {
        let mut signed = signer().sign(get());
        let value = signed.value_mut(name).unwrap().clone();
        assert_eq!(verify(signed.with_header(name, &value)), None, "{name}");
    }

    for name in ["host", "range"] {
        let mut signed = signer().presign(get(), 60);
        let value = signed.value_mut(name).unwrap().clone();
        assert_eq!(verify(signed.clone().with_header(name, &value)), None, "{name}");
        assert_eq!(verify(signed.without(name)), None, "{name}");
    }
}

#[test]
fn the_names_of_signed_headers_are_sorted_and_lower_case() {
    for (from, to) in [
        ("host;range", "range;host"),
        ("host;range", "host;host;range"),
        ("host;range", "Host;range"),
        ("host;range", "host;;range"),
        ("host;range", ";host;range"),
        ("host;range", "authorization;host;range"),
    ] {
        let mut request = signer().sign(get());
        let value = request.value_mut("authorization").unwrap();
        *value = value.replace(from, to);
        assert_eq!(verify(request), None, "{to}");
    }
}

#[test]
fn a_value_with_whitespace_to_fold_is_left_to_the_protocol_layer() {
    for (value, verifies) in [("a b", true), ("", true), ("a  b", false), ("a\tb", false), (" a", false)] {
        let request = signer().sign(get().with_header("x-amz-user-agent", value));
        assert_eq!(verify(request).is_some(), verifies, "{value:?}");
    }
}

#[test]
fn a_header_written_in_an_unusual_way_is_left_to_the_protocol_layer() {
    let rewritten = |from: &str, to: &str| {
        let mut request = signer().sign(get());
        let value = request.value_mut("authorization").unwrap();
        let changed = value.replacen(from, to, 1);
        assert_ne!(*value, changed);
        *value = changed;
        verify(request).is_some()
    };

    assert!(rewritten(", SignedHeaders", ",SignedHeaders"));
    assert!(rewritten(", Signature", ",  Signature"));
    assert!(!rewritten("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA512"));
    assert!(!rewritten("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256  "));
    assert!(!rewritten("Credential", "credential"));
    assert!(!rewritten("aws4_request", "aws4_request/"));
    assert!(!rewritten("/s3/", "/s3/s3/"));
}

#[test]
fn a_credential_of_a_query_does_not_verify_in_a_header() {
    let keys = SigningKeys::new();
    let verify = |request: RequestDraft| {
        let parts = request.into_parts().unwrap();
        keys.verify(&parts, &known_keys(), noon()).is_some()
    };
    let mut escaped = signer().sign(get());
    let value = escaped.value_mut("authorization").unwrap();
    let (start, end) = (value.find("reader/").unwrap(), value.find("aws4_request,").unwrap());
    let credential = value[start..end].replace('/', "%2F");
    value.replace_range(start..end, &credential);

    assert!(!verify(escaped.clone()));
    assert!(verify(signer().presign(get(), 60)), "caches the key of the escaped credential");
    assert!(!verify(escaped));
    assert!(verify(signer().sign(get())));
}

#[test]
fn a_presigned_url_has_its_six_parameters_once_and_no_other() {
    let presigned = || signer().presign(get(), 60);
    let with = |name: &str, value: &str| {
        let mut request = presigned();
        request.query.push((name.into(), value.into()));
        verify(request)
    };

    for (name, value) in presigned().query {
        assert_eq!(with(&name, &value), None, "{name} twice");
        assert_eq!(verify(presigned().without(&name)), None, "no {name}");
    }
    for name in ["versionId", "partNumber", "x-id", "X-Amz-Security-Token", "x-amz-date", "Signature", ""] {
        assert_eq!(with(name, "1"), None, "{name}");
    }

    let mut signed_with_more = get();
    signed_with_more.query.push(("partNumber".into(), "1".into()));
    assert_eq!(verify(signer().presign(signed_with_more.clone(), 60)), None);
    assert_eq!(verify(signer().sign(signed_with_more)), None);
}

#[test]
fn the_order_of_the_parameters_is_not_signed() {
    let presigned = signer().presign(get(), 60);
    for first in 0..presigned.query.len() {
        for second in 0..first {
            let mut reordered = presigned.clone();
            reordered.query.swap(first, second);
            assert!(verify(reordered).is_some(), "parameters {second} and {first} are exchanged");
        }
    }
}

#[test]
fn a_request_has_one_signature() {
    let presigned = signer().presign(get(), 60);
    let authorization = signer().sign(get()).value_mut("authorization").unwrap().clone();
    assert_eq!(verify(presigned.with_header("authorization", &authorization)), None);
}

#[test]
fn a_presigned_url_is_valid_for_a_week_at_most() {
    assert!(verify(signer().presign(get(), MAX_EXPIRES_SECONDS)).is_some());
    assert!(verify(signer().presign(get(), MAX_EXPIRES_SECONDS + 1)).is_none());
    assert!(verify(signer().presign(get(), u64::MAX)).is_none());
}

#[test]
fn the_clock_may_differ_as_far_as_the_protocol_layer_allows() {
    let config = s3s::config::S3Config::default();
    assert_eq!(config.presigned_url_max_skew_time_secs, MAX_SKEW_SECONDS);
}

#[test]
fn a_body_must_be_known_to_be_absent() {
    for payload in ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "", "abc"] {
        let signer = Signer { payload: payload.into(), ..signer() };
        assert_eq!(verify(signer.sign(get())), None, "{payload}");
        let request = get().with_header("x-amz-content-sha256", payload);
        assert_eq!(verify(signer.presign(request, 60)), None, "{payload}");
    }
    let http_2 = RequestDraft { version: Version::HTTP_2, ..signer().sign(get()) };
    assert_eq!(verify(http_2), None);
}

#[test]
fn a_time_is_a_time_of_the_calendar() {
    let expected = Utc.with_ymd_and_hms(2024, 2, 29, 23, 59, 59).unwrap();
    assert_eq!(parse_time("20240229T235959Z"), Some(expected));
    for text in [
        "",
        "20230229T000000Z",
        "20240229T240000Z",
        "20240229T235960Z",
        "20240229T235959",
        "20240229T235959z",
        "+0240229T235959Z",
        "20240229T23595Z",
        "2024-02-29T23:59:59Z",
    ] {
        assert_eq!(parse_time(text), None, "{text}");
    }
}

#[test]
fn each_day_has_a_signing_key_of_its_own() {
    let keys = SigningKeys::new();
    let known = known_keys();
    let verify = |signed: DateTime<Utc>, now: DateTime<Utc>| {
        let parts = Signer::new("reader", signed).presign(get(), 3 * 86_400).into_parts().unwrap();
        keys.verify(&parts, &known, now).is_some()
    };

    let tomorrow = noon() + TimeDelta::days(1);
    assert!(verify(noon(), noon()));
    assert!(verify(tomorrow, tomorrow), "a new day");
    assert!(verify(noon(), tomorrow), "a URL of the day before");
    assert!(verify(noon(), tomorrow), "again, from the cache");
    assert_eq!(keys.by_credential.read().len(), 2);
}

#[test]
fn a_cached_signing_key_opens_nothing_for_others() {
    let keys = SigningKeys::new();
    let parts = |signer: Signer| signer.sign(get()).into_parts().unwrap();
    let reader = parts(signer());
    assert!(keys.verify(&reader, &known_keys(), noon()).is_some());
    let forged = parts(Signer { secret: "a guess".into(), ..signer() });
    assert_eq!(keys.verify(&forged, &known_keys(), noon()), None);
    let writer = parts(Signer::new("writer", noon()));
    assert_eq!(keys.verify(&writer, &known_keys(), noon()), Some("writer"));

    let changed = access_keys(&[("reader", "another secret"), ("writer", "secret of writer")]);
    assert_eq!(keys.verify(&reader, &changed, noon()), None, "the key of its former secret is cached");
    let revoked = access_keys(&[("writer", "secret of writer")]);
    assert_eq!(keys.verify(&reader, &revoked, noon()), None, "its key is cached");
}

#[test]
fn only_valid_signatures_fill_the_cache_and_it_is_bounded() {
    let keys = SigningKeys::new();
    let verify = |secret: &str, region: String| {
        let signer = Signer { secret: secret.into(), region, ..signer() };
        keys.verify(&signer.sign(get()).into_parts().unwrap(), &known_keys(), noon()).is_some()
    };
    assert!(!verify("a guess", "us-east-1".into()));
    assert_eq!(keys.by_credential.read().len(), 0);

    for region in 0..MAX_SIGNING_KEYS + 10 {
        assert!(verify("secret of reader", format!("region-{region}")));
        assert!(keys.by_credential.read().len() <= MAX_SIGNING_KEYS);
    }
}
