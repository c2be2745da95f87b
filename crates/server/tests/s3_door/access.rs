//! Access control: signatures, presigned URLs, and the buckets and rights of keys.

use std::{sync::Arc, time::Duration};

use http::Method;
use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory, path::Path, signer::Signer};

use crate::client::{Setup, TestNode, sign, sign_streaming};

/// Starts a node with two buckets, each containing an object `a`, with a key that reads one bucket, a key that writes
/// the other, and a key for everything.
async fn guarded() -> (TestNode, Arc<InMemory>) {
    let lake = Arc::new(InMemory::new());
    let pond = Arc::new(InMemory::new());
    lake.put(&Path::from("a"), "of the lake".into()).await.unwrap();
    pond.put(&Path::from("a"), "of the pond".into()).await.unwrap();
    let setup = Setup::new().bucket("lake", lake.clone()).bucket("pond", pond);
    let setup =
        setup.key("reader", &["lake"], false).key("writer", &["pond"], true).key("admin", &["*"], true);
    (setup.start().await, lake)
}

#[tokio::test]
async fn a_key_opens_its_buckets_for_what_it_may_do() {
    let (node, _) = guarded().await;
    let delete = b"<Delete><Object><Key>a</Key></Object></Delete>".as_slice();
    for (id, method, target, body, status) in [
        ("reader", "GET", "/lake/a", &b""[..], 200),
        ("reader", "HEAD", "/lake/a", b"", 200),
        ("reader", "GET", "/lake?list-type=2", b"", 200),
        ("reader", "HEAD", "/lake", b"", 200),
        ("reader", "GET", "/pond/a", b"", 403),
        ("reader", "GET", "/pond?list-type=2", b"", 403),
        ("reader", "GET", "/none/a", b"", 403),
        ("reader", "PUT", "/lake/b", b"x", 403),
        ("reader", "DELETE", "/lake/a", b"", 403),
        ("reader", "POST", "/lake?delete", delete, 403),
        ("reader", "POST", "/lake/b?uploads", b"", 403),
        ("writer", "PUT", "/pond/b", b"x", 200),
        ("writer", "PUT", "/lake/b", b"x", 403),
        ("writer", "GET", "/lake/a", b"", 403),
        ("admin", "GET", "/lake/a", b"", 200),
        ("admin", "PUT", "/lake/b", b"x", 200),
        ("admin", "GET", "/none/a", b"", 404),
        ("stranger", "GET", "/lake/a", b"", 403),
    ] {
        let answer = node.send_signed(id, method, target, &[], body).await;
        assert_eq!(answer.status, status, "{id} {method} {target}: {}", answer.body);
    }

    for (id, buckets) in [("reader", vec!["lake"]), ("writer", vec!["pond"]), ("admin", vec!["lake", "pond"])]
    {
        assert_eq!(node.send_signed(id, "GET", "/", &[], b"").await.elements("Name"), buckets, "{id}");
    }
}

#[tokio::test]
async fn object_stores_client_is_let_in_by_its_key() {
    let (node, _) = guarded().await;
    let s3 = node.s3("pond", Some("writer"));
    s3.put(&Path::from("x y/ü+%"), "data".into()).await.unwrap();
    assert_eq!(s3.get_range(&Path::from("x y/ü+%"), 1..3).await.unwrap(), "at");
    assert!(node.s3("lake", Some("writer")).get(&Path::from("a")).await.is_err());
    assert!(node.s3("pond", None).get(&Path::from("a")).await.is_err());
}

#[tokio::test]
async fn nobody_comes_in_without_a_signature() {
    let (node, _) = guarded().await;
    for (method, target) in [
        ("GET", "/"),
        ("GET", "/lake/a"),
        ("HEAD", "/lake/a"),
        ("PUT", "/lake/b"),
        ("GET", "/lake?list-type=2"),
        ("DELETE", "/lake/a"),
        ("POST", "/lake?delete"),
        ("GET", "/none"),
    ] {
        assert_eq!(node.send(method, target, &[], b"").await.status, 403, "{method} {target}");
    }
    let ranges = node.get("/lake/a", &[("range", "bytes=0-1,2-3")]).await;
    assert_eq!(ranges.status, 403, "nor with an odd header");
}

#[tokio::test]
async fn what_was_signed_cannot_be_changed() {
    let (node, _) = guarded().await;
    let url = format!("http://{}/lake/a", node.address);
    let signed = sign(&url, "reader", "GET", &[("range", "bytes=0-1")], b"");
    let send = async |target: &str, headers: Vec<(String, String)>| {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = node.get(target, &headers).await;
        (answer.status, answer.code().to_owned())
    };

    let with = |name: &str, value: &str| {
        let mut headers = signed.clone();
        headers.retain(|(known, _)| known != name);
        headers.push((name.to_owned(), value.to_owned()));
        headers
    };

    assert_eq!(send("/lake/a", signed.clone()).await.0, 206);
    let mismatch = (403, "SignatureDoesNotMatch".to_owned());
    assert_eq!(send("/lake/b", signed.clone()).await, mismatch);
    assert_eq!(send("/lake/a?acl", signed.clone()).await, mismatch);
    assert_eq!(send("/lake/a", with("range", "bytes=0-9")).await, mismatch);
    let stale = with("x-amz-date", "20200101T000000Z");
    assert_eq!(send("/lake/a", stale).await.0, 403);
    let version_2 = with("authorization", "AWS reader:c2lnbmF0dXJl");
    assert_eq!(send("/lake/a", version_2).await, (400, "InvalidRequest".to_owned()));

    assert_eq!(
        send("/lake/a?AWSAccessKeyId=reader&Expires=9999999999&%53ignature=x", Vec::new()).await.0,
        400
    );
}

#[tokio::test]
async fn a_signed_header_that_http_ignores_is_ignored_after_the_signature_was_checked() {
    let (node, _) = guarded().await;
    let ranges = [("range", "bytes=0-1,3-4")];
    let answer = node.send_signed("reader", "GET", "/lake/a", &ranges, b"").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "of the lake"));
    assert_eq!(node.send_signed("reader", "GET", "/pond/a", &ranges, b"").await.status, 403);
    assert_eq!(node.send_signed("reader", "GET", "/lake", &ranges, b"").await.status, 200);
}

/// Returns the path and query of a presigned URL.
async fn presigned(
    node: &TestNode,
    id: &str,
    method: Method,
    bucket: &str,
    key: &str,
    valid: Duration,
) -> String {
    let url = node.s3(bucket, Some(id)).signed_url(method, &Path::from(key), valid).await.unwrap();
    format!("{}?{}", url.path(), url.query().unwrap())
}

#[tokio::test]
async fn a_signed_url_opens_one_object_for_one_method_and_for_a_while() {
    let (node, lake) = guarded().await;
    let minute = Duration::from_secs(60);
    let get = presigned(&node, "reader", Method::GET, "lake", "a", minute).await;
    assert_eq!(node.get(&get, &[]).await.body, "of the lake");
    assert_eq!(node.get(&get, &[("range", "bytes=3-5")]).await.body, "the");
    assert_eq!(node.get(&get, &[("range", "bytes=0-1,3-5")]).await.body, "of the lake");
    assert_eq!(node.send("DELETE", &get, &[], b"").await.code(), "SignatureDoesNotMatch");
    assert_eq!(node.get(&get.replace("/lake/a", "/lake/b"), &[]).await.code(), "SignatureDoesNotMatch");
    let expired = get.replace("X-Amz-Expires=60", "X-Amz-Expires=61");
    assert_eq!(node.get(&expired, &[]).await.code(), "SignatureDoesNotMatch");
    let put = presigned(&node, "admin", Method::PUT, "lake", "new", minute).await;
    assert_eq!(node.send("PUT", &put, &[], b"put by url").await.status, 200);
    assert_eq!(lake.get(&Path::from("new")).await.unwrap().bytes().await.unwrap(), "put by url");
    let others = presigned(&node, "reader", Method::PUT, "lake", "new", minute).await;
    assert_eq!(node.send("PUT", &others, &[], b"x").await.code(), "AccessDenied");
}

#[tokio::test]
async fn a_signed_url_expires_and_is_not_valid_for_years() {
    let (node, _) = guarded().await;
    let short = presigned(&node, "reader", Method::GET, "lake", "a", Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let answer = node.get(&short, &[]).await;
    assert_eq!((answer.status, answer.code()), (403, "AccessDenied"));
    let year = presigned(&node, "reader", Method::GET, "lake", "a", Duration::from_secs(365 * 86_400)).await;
    assert_eq!(node.get(&year, &[]).await.code(), "AuthorizationQueryParametersError");
}

#[tokio::test]
async fn a_signed_url_cannot_be_made_into_a_copy() {
    // Otherwise the holder of a URL for putting one object could read any other by adding a header.
    let (node, _) = guarded().await;
    let put = presigned(&node, "admin", Method::PUT, "lake", "new", Duration::from_secs(60)).await;
    let answer = node.send("PUT", &put, &[("x-amz-copy-source", "/pond/a")], b"").await;
    assert_eq!((answer.status, answer.code()), (403, "AccessDenied"));
    let signed = sign(&format!("http://{}/lake/new", node.address), "admin", "PUT", &[], b"");
    let mut headers: Vec<_> = signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    headers.push(("x-amz-copy-source", "/pond/a"));
    assert_eq!(node.send("PUT", "/lake/new", &headers, b"").await.code(), "AccessDenied");
}

#[tokio::test]
async fn a_body_is_refused_that_the_signature_does_not_cover() {
    let (node, lake) = guarded().await;
    // Without x-amz-content-sha256, the signature covers an empty body.
    let signed = sign_streaming(&node.address.to_string(), "admin", "PUT", "/lake/new", &[]);
    let headers: Vec<_> = signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let answer = node.send("PUT", "/lake/new", &headers, b"another body").await;
    assert_eq!((answer.status, answer.code()), (400, "InvalidRequest"), "{}", answer.body);
    assert!(lake.head(&Path::from("new")).await.is_err());
}

#[tokio::test]
async fn a_copy_needs_the_right_to_read_its_source() {
    let (node, _) = guarded().await;
    let copy = |source| [("x-amz-copy-source", source)];
    let own = node.send_signed("writer", "PUT", "/pond/b", &copy("/pond/a"), b"").await;
    assert_eq!(own.status, 200, "{}", own.body);
    let foreign = node.send_signed("writer", "PUT", "/pond/c", &copy("/lake/a"), b"").await;
    assert_eq!((foreign.status, foreign.code()), (403, "AccessDenied"));
    let begun = node.send_signed("writer", "POST", "/pond/d?uploads=", &[], b"").await;
    let id = begun.element("UploadId").unwrap();
    let target = format!("/pond/d?partNumber=1&uploadId={id}");
    let part = node.send_signed("writer", "PUT", &target, &copy("/lake/a"), b"").await;
    assert_eq!((part.status, part.code()), (403, "AccessDenied"));
}

#[tokio::test]
async fn a_node_without_keys_takes_any_signature_off() {
    let store = Arc::new(InMemory::new());
    let node = Setup::new().bucket("lake", store).start().await;
    let s3 = node.s3("lake", Some("whoever"));
    s3.put(&Path::from("a"), "data".into()).await.unwrap();
    assert_eq!(s3.get(&Path::from("a")).await.unwrap().bytes().await.unwrap(), "data");
    assert_eq!(futures::StreamExt::count(s3.list(None)).await, 1);
    let url = presigned(&node, "whoever", Method::GET, "lake", "a", Duration::from_secs(60)).await;
    assert_eq!(node.get(&url, &[]).await.body, "data");
}

#[tokio::test]
async fn the_metrics_count_what_the_door_answered() {
    let (node, _) = guarded().await;
    node.send_signed("reader", "GET", "/lake/a", &[], b"").await;
    node.send_signed("reader", "GET", "/pond/a", &[], b"").await;
    node.get("/lake/a", &[("range", "bytes=0-1,2-3")]).await;
    let stats = serde_json::to_value(node.node.metrics().snapshot()).unwrap();
    let operations = stats["operations"].as_array().unwrap();
    let gets = operations.iter().find(|operation| operation["operation"] == "GetObject").unwrap();
    assert_eq!(gets["codes"]["200"], 1);
    assert_eq!(gets["codes"]["403"], 1);
}
