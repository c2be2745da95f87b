//! Bodies as current clients send them: aws-chunked, with checksums in headers and trailers, as well as damaged ones.

use object_store::{ObjectStoreExt, path::Path};
use stylobate_storage::ByteSize;

use crate::{
    client::{Setup, TestNode, lake, sign},
    eventually::eventually,
};

const CRC32_OF_HELLO: &str = "NhCmhg==";
const SHA256_OF_HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[tokio::test]
async fn checksums_in_headers_are_checked_before_the_object_appears() {
    let (node, store) = lake().await;
    let good = [
        ("content-md5", "XUFAKrxLKna5cZ2REBfFkg=="),
        ("x-amz-checksum-crc32", CRC32_OF_HELLO),
        ("x-amz-checksum-crc32c", "mnG7TA=="),
        ("x-amz-checksum-crc64nvme", "M3eFcAZSQlc="),
        ("x-amz-checksum-sha1", "qvTGHdzF6KLavt4PO0gs2a6pQ00="),
        ("x-amz-checksum-sha256", "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="),
        ("x-amz-content-sha256", SHA256_OF_HELLO),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ];

    for (name, value) in good {
        let bad = node.send("PUT", "/lake/bad", &[(name, value)], b"hallo").await;
        if value != "UNSIGNED-PAYLOAD" {
            let code =
                if name.ends_with("content-sha256") { "XAmzContentSHA256Mismatch" } else { "BadDigest" };
            assert_eq!((bad.status, bad.code()), (400, code), "{name}");
            assert!(store.head(&Path::from("bad")).await.is_err(), "{name}");
        }

        let put = node.send("PUT", "/lake/good", &[(name, value)], b"hello").await;
        assert_eq!(put.status, 200, "{name}: {}", put.body);
        if name.starts_with("x-amz-checksum") {
            assert_eq!(put.header(name), Some(value));
        }
    }
    let digest = node.send("PUT", "/lake/bad", &[("content-md5", "short")], b"hello").await;
    assert_eq!(digest.code(), "InvalidDigest");
}

/// Sends an aws-chunked body to a node without keys, optionally with a fake signature.
async fn chunked(
    node: &TestNode,
    kind: &str,
    length: &str,
    trailer: Option<&str>,
    body: &str,
) -> crate::client::Answer {
    let mut headers = vec![
        ("x-amz-content-sha256", kind),
        ("x-amz-decoded-content-length", length),
        ("content-encoding", "aws-chunked"),
    ];
    if kind.contains("HMAC") {
        headers.push(("authorization", "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"));
    }
    headers.extend(trailer.map(|name| ("x-amz-trailer", name)));
    node.send("PUT", "/lake/a", &headers, body.as_bytes()).await
}

#[tokio::test]
async fn an_aws_chunked_body_is_taken_apart_without_keys_too() {
    let (node, store) = lake().await;
    let unsigned = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let signed = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let crc32 = Some("x-amz-checksum-crc32");
    let good = format!("3\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32:{CRC32_OF_HELLO}\r\n\r\n");
    let bad = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";

    for (kind, length, trailer, body, status, code) in [
        (unsigned, "5", crc32, good.as_str(), 200, ""),
        (signed, "5", None, "5;chunk-signature=0\r\nhello\r\n0;chunk-signature=0\r\n\r\n", 200, ""),
        (unsigned, "5", crc32, bad, 400, "BadDigest"),
        (unsigned, "5", crc32, "5\r\nhello\r\n0\r\n\r\n", 400, "InvalidRequest"),
        (unsigned, "6", None, "5\r\nhello\r\n0\r\n\r\n", 400, "IncompleteBody"),
        (unsigned, "5", None, "5\r\nhello\r\n", 400, "IncompleteBody"),
        (unsigned, "5", None, "no frame\r\n", 400, "InvalidRequest"),
        (unsigned, "x", None, "0\r\n\r\n", 411, "MissingContentLength"),
    ] {
        node.send("DELETE", "/lake/a", &[], b"").await;
        let put = chunked(&node, kind, length, trailer, body).await;
        assert_eq!((put.status, put.code()), (status, code), "{kind} {length} {body:?}: {}", put.body);
        let kept = store.get(&Path::from("a")).await;
        match status {
            200 => assert_eq!(kept.unwrap().bytes().await.unwrap(), "hello"),
            _ => assert!(kept.is_err(), "{body:?}"),
        }
    }
    chunked(&node, unsigned, "5", crc32, &good).await;
    assert_eq!(node.get("/lake/a", &[]).await.header("content-encoding"), None);
}

#[tokio::test]
async fn a_node_with_keys_checks_trailers_and_bodies() {
    let store = std::sync::Arc::new(object_store::memory::InMemory::new());
    let node = Setup::new().bucket("lake", store.clone()).key("me", &["*"], true).start().await;
    let body = |crc: &str| format!("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n");
    for (crc, status, code) in [(CRC32_OF_HELLO, 200, ""), ("AAAAAA==", 400, "BadDigest")] {
        let headers = [
            ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            ("x-amz-decoded-content-length", "5"),
            ("x-amz-trailer", "x-amz-checksum-crc32"),
            ("content-encoding", "aws-chunked"),
        ];
        let put = send_streaming(&node, &headers, &body(crc)).await;
        assert_eq!((put.status, put.code()), (status, code), "{}", put.body);
    }

    assert_eq!(store.get(&Path::from("a")).await.unwrap().bytes().await.unwrap(), "hello");
    // The signature covers the hash of one body, but a different body is sent.
    let signed = sign(&format!("http://{}/lake/b", node.address), "me", "PUT", &[], b"hello");
    let headers: Vec<_> = signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let put = node.send("PUT", "/lake/b", &headers, b"hallo").await;
    assert_eq!((put.status, put.code()), (400, "XAmzContentSHA256Mismatch"));
    assert!(store.head(&Path::from("b")).await.is_err());
}

/// Signs the head of a request whose x-amz-content-sha256 is a keyword, which object_store's signer does not support.
async fn send_streaming(node: &TestNode, headers: &[(&str, &str)], body: &str) -> crate::client::Answer {
    let signed = crate::client::sign_streaming(&node.address.to_string(), "me", "PUT", "/lake/a", headers);
    let headers: Vec<_> = signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    node.send("PUT", "/lake/a", &headers, body.as_bytes()).await
}

#[tokio::test]
async fn a_body_that_ends_early_leaves_nothing_behind() {
    let (node, store) = lake().await;
    let head =
        format!("PUT /lake/a HTTP/1.1\r\nhost: {}\r\ncontent-length: 100\r\n\r\nonly this", node.address);
    let mut stream = tokio::net::TcpStream::connect(node.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
    let in_flight = || node.node.metrics().snapshot().in_flight;
    eventually("the request to begin", async || in_flight() == 1).await;
    drop(stream);
    eventually("the request to end", async || in_flight() == 0).await;
    assert!(store.head(&Path::from("a")).await.is_err());
}

#[tokio::test]
async fn a_form_with_large_fields_is_refused_before_its_file_is_read() {
    for setup in [Setup::new(), Setup::new().key("me", &["*"], true)] {
        let node =
            setup.bucket("lake", std::sync::Arc::new(object_store::memory::InMemory::new())).start().await;
        let form = format!(
            "POST /lake HTTP/1.1\r\nhost: {}\r\ncontent-type: Multipart/Form-Data; boundary=x\r\n\
             content-length: 99999999999\r\n\r\n--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n{}",
            node.address,
            "k".repeat(21_000)
        );
        let answer = node.send_bytes(form.as_bytes()).await;
        assert_eq!((answer.status, answer.code()), (400, "MaxPostPreDataLengthExceededError"));
    }
}

#[tokio::test]
async fn uploads_wait_for_one_another_on_a_node_without_memory_and_all_go_through() {
    let store = std::sync::Arc::new(object_store::memory::InMemory::new());
    let node = Setup::new().memory(ByteSize::ZERO).bucket("lake", store.clone()).start().await;
    let bodies: Vec<Vec<u8>> =
        [1, 4 << 20, 5 << 20, 6 << 20, 17_000_001].iter().map(|&len| vec![len as u8; len]).collect();
    let puts = bodies.iter().enumerate().map(async |(n, body)| {
        let put = node.send("PUT", &format!("/lake/{n}"), &[], body).await;
        assert_eq!(put.status, 200, "{}", put.body);
    });

    futures::future::join_all(puts).await;
    for (n, body) in bodies.iter().enumerate() {
        let kept = store.get(&Path::from(n.to_string())).await.unwrap().bytes().await.unwrap();
        assert!(kept == *body, "{n}");
    }
    let create = [("if-none-match", "*")];
    assert_eq!(node.send("PUT", "/lake/new", &create, b"x").await.status, 200);
    let large = node.send("PUT", "/lake/large", &create, &vec![0; 6 << 20]).await;
    assert_eq!((large.code(), large.body.contains("5MiB")), ("NotImplemented", true), "{}", large.body);
}

#[tokio::test]
async fn uploads_may_hold_an_eighth_of_the_memory_and_pages_all_that_they_do_not_hold() {
    let (node, _) = lake().await;
    let cache = node.node.cache();
    assert_eq!(cache.upload_share().unwrap().as_u64(), 8 << 20);
    assert_eq!(cache.stats().memory_capacity, 64 << 20);
}
