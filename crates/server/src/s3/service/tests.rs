//! Compares the answers of the fast path for plain GETs with those of the full path.

use chrono::{TimeDelta, Utc};
use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory, path::Path};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use stylobate_storage::{ByteSize, Origin};

use super::{
    super::sigv4::signer::{EMPTY_SHA256, RequestDraft, Signer},
    *,
};
use crate::config::{AccessKeyConfig, BucketConfig, NodeConfig, Secret};

const KEYS: [&str; 3] = ["a", "year=2026/part 0.parquet", "ключ+1"];
const PATHS: [&str; 6] = [
    "/lake/a",
    "/lake/year%3D2026/part%200.parquet",
    "/lake/%D0%BA%D0%BB%D1%8E%D1%87%2B1",
    "/lake/none",
    "/pond/a",
    "/none/a",
];

/// Creates a door for the buckets `lake` and `pond`, with a key that may read the first, or without keys.
async fn door(with_key: bool) -> S3Door {
    let mut config = NodeConfig::default();
    config.settings.memory = ByteSize::mib(64);
    if with_key {
        config.access_keys.push(AccessKeyConfig {
            id: "reader".into(),
            secret: Secret::new("secret of reader"),
            token: None,
            buckets: vec!["lake".into()],
            prefixes: Vec::new(),
            write: false,
        });
    }

    let mut origins = Vec::new();
    for name in ["lake", "pond"] {
        let store = Arc::new(InMemory::new());
        for key in KEYS {
            store.put(&Path::from(key), format!("{key} of the {name}").into()).await.unwrap();
        }
        config.buckets.push(BucketConfig::new(name, "memory:///"));
        origins.push(Origin::new(name, store as Arc<dyn ObjectStore>));
    }

    service(Node::open_over(&config, origins).await.unwrap())
}

/// The parts of an answer that a client sees.
#[derive(Debug, PartialEq)]
struct SeenResponse {
    status: StatusCode,
    headers: http::HeaderMap,
    body: bytes::Bytes,
}

async fn seen(answer: HttpResponse) -> SeenResponse {
    let (head, mut body) = answer.into_parts();
    let body = body.store_all_limited(MAX_XML).await.unwrap();
    SeenResponse { status: head.status, headers: head.headers, body }
}

async fn by_the_long_way(door: &S3Door, parts: Parts) -> SeenResponse {
    seen(door.shared.handle_any(parts, Body::empty(), RequestId(1)).await).await
}

/// Returns true if the request takes the fast path, and asserts that the full path gives the same answer.
async fn is_plain(door: &S3Door, request: &RequestDraft) -> bool {
    let Some(parts) = request.clone().into_parts() else { return false };
    let Some(get) = PlainGet::parse(&door.shared.node, &door.shared.signing_keys, &parts) else {
        return false;
    };
    let answer = match get.answer().await {
        Ok(answer) => answer,
        Err(error) => {
            let target = door.shared.target(&parts).unwrap();
            finish(error::to_answer(&error), &target, RequestId(1)).await
        }
    };
    assert_eq!(seen(answer).await, by_the_long_way(door, parts).await, "{request:?}");

    true
}

fn draft(path: &str) -> RequestDraft {
    RequestDraft::get(path)
}

fn pick<'a>(rng: &mut StdRng, choices: &[&'a str]) -> &'a str {
    choices.choose(rng).unwrap()
}

/// Returns a correctly signed request, in most cases with an authorized key and at a valid time.
fn random_request(rng: &mut StdRng) -> RequestDraft {
    let mut request = draft(pick(rng, &PATHS));
    let range = pick(rng, &["bytes=0-3", "bytes=-5", "bytes=2-", "bytes=100-200", "bytes=0-1,3-4", "a"]);
    let is_range_signed = rng.random_bool(0.5);
    let has_range = rng.random_bool(0.5);
    if has_range && is_range_signed {
        request = request.with_header("range", range);
    }
    if rng.random_bool(0.1) {
        request = request.with_header("x-amz-user-agent", pick(rng, &["a", "a b", "a  b"]));
    }

    let mut signer = Signer::new("reader", Utc::now());
    if rng.random_bool(0.3) {
        signer.access_key = pick(rng, &["reader", "stranger", ""]).into();
        signer.secret = pick(rng, &["secret of reader", "a guess"]).into();
        signer.region = pick(rng, &["us-east-1", "eu-west-1", "EU", ""]).into();
        signer.service = pick(rng, &["s3", "s3", "sts", "iam"]).into();
    }

    if rng.random_bool(0.3) {
        signer.time += TimeDelta::minutes(*[-2000, -120, -16, -14, 14, 16].choose(rng).unwrap());
    }
    signer.payload = pick(
        rng,
        &["UNSIGNED-PAYLOAD", EMPTY_SHA256, &"0".repeat(64), "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "none"],
    )
    .into();

    request = if rng.random_bool(0.5) {
        signer.sign(request)
    } else {
        signer.presign(request, *[60, 3600, 604_800, 604_801].choose(rng).unwrap())
    };
    if has_range && !is_range_signed {
        request = request.with_header("range", range);
    }

    request
}

/// Introduces a fault or an oddity into the request.
fn tamper(rng: &mut StdRng, mut request: RequestDraft) -> RequestDraft {
    let pairs = if request.query.is_empty() || rng.random_bool(0.3) {
        &mut request.headers
    } else {
        &mut request.query
    };
    if pairs.is_empty() {
        return request;
    }

    let index = rng.random_range(0..pairs.len());
    match rng.random_range(0..9) {
        0 => drop(pairs.remove(index)),
        1 => pairs.push(pairs[index].clone()),
        2 => pairs.reverse(),
        3 => {
            let name = ["x-amz-user-agent", "accept", "x-id", "X-Amz-Security-Token", "range"].choose(rng);
            pairs.push((name.unwrap().to_string(), "1".into()));
        }
        4 => {
            let value = &mut pairs[index].1;
            let changes =
                [("%2F", "/"), ("%2F", "%2f"), (";", "%3B"), ("%3B", ";"), (", ", ","), ("SHA256", "SHA1")];
            let (from, to) = changes.choose(rng).unwrap();
            *value = value.replace(from, to);
        }
        5 => request.path = pick(rng, &PATHS).into(),
        6 => request.path = request.path.replace("%3D", "=").replace("%20", "+"),
        _ => {
            let value = &mut pairs[index].1;
            let at = rng.random_range(0..=value.len());
            let inserted = pick(rng, &["0", "a", "f", ";", ",", "/", " ", "%2F", "+", "="]);
            if value.is_char_boundary(at) {
                let end = (at + rng.random_range(0..2)).min(value.len());
                value.replace_range(at..end, inserted);
            }
        }
    }

    request
}

#[tokio::test]
async fn a_request_is_plain_only_where_the_long_way_gives_the_same_answer() {
    let door = door(true).await;
    let mut rng = StdRng::seed_from_u64(1);
    let mut plain = 0;
    let mut tampered = 0;
    for _ in 0..6000 {
        let mut request = random_request(&mut rng);
        plain += u32::from(is_plain(&door, &request).await);

        for _ in 0..rng.random_range(1..=2) {
            request = tamper(&mut rng, request);
        }
        tampered += u32::from(is_plain(&door, &request).await);
    }

    // Some changes are harmless: the order of headers and parameters, or an optional header.
    eprintln!("STAT {plain} {tampered}");
    assert!(plain > 500 && tampered > 50, "{plain} and {tampered} requests were plain");
}

#[tokio::test]
async fn a_plain_get_that_is_signed_is_answered_at_once() {
    let door = door(true).await;
    let signer = Signer::new("reader", Utc::now());
    for path in &PATHS[..4] {
        assert!(is_plain(&door, &signer.sign(draft(path))).await, "{path}");
        assert!(is_plain(&door, &signer.presign(draft(path), 60)).await, "{path}");
        let range = draft(path).with_header("range", "bytes=1-2");
        assert!(is_plain(&door, &signer.sign(range.clone())).await, "{path}");
        assert!(is_plain(&door, &signer.presign(range, 60)).await, "{path}");
    }
}

#[tokio::test]
async fn a_get_that_its_signer_may_not_make_is_refused_on_the_long_way() {
    let door = door(true).await;
    let signer = Signer::new("reader", Utc::now());
    let stranger = Signer::new("stranger", Utc::now());
    let late = Signer::new("reader", Utc::now() - TimeDelta::minutes(16));
    for (request, code) in [
        (signer.sign(draft("/pond/a")), "AccessDenied"),
        (signer.presign(draft("/pond/a"), 60), "AccessDenied"),
        (stranger.sign(draft("/lake/a")), "InvalidAccessKeyId"),
        (late.sign(draft("/lake/a")), "RequestTimeTooSkewed"),
        (late.presign(draft("/lake/a"), 60), "AccessDenied"),
        (draft("/lake/a"), "AccessDenied"),
    ] {
        assert!(!is_plain(&door, &request).await, "{request:?}");
        let answer = by_the_long_way(&door, request.clone().into_parts().unwrap()).await;
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(body.contains(&format!("<Code>{code}</Code>")), "{request:?}: {body}");
    }
}

#[tokio::test]
async fn without_keys_escapes_are_plain_and_queries_are_not() {
    let door = door(false).await;
    for path in &PATHS[..5] {
        assert!(is_plain(&door, &draft(path)).await, "{path}");
    }
    assert!(!is_plain(&door, &draft("/lake/year=2026/part%200.parquet")).await, "an escape beside none");
    let signer = Signer::new("reader", Utc::now());
    assert!(is_plain(&door, &signer.sign(draft("/lake/a"))).await, "the signature is not looked at");
    assert!(!is_plain(&door, &signer.presign(draft("/lake/a"), 60)).await);
}
