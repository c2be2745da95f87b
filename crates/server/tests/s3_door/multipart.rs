//! Multipart uploads, by object_store's client and by hand.

use std::sync::Arc;

use futures::StreamExt;
use object_store::{
    Attribute, Attributes, MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions,
    memory::InMemory, path::Path,
};
use stylobate_storage::ByteSize;

use crate::client::{Answer, Setup, TestNode, lake};

#[tokio::test]
async fn an_upload_in_parts_is_joined_with_its_attributes() {
    let (node, store) = lake().await;
    let s3 = node.s3("lake", None);
    let path = Path::from("a/large");
    let attributes = Attributes::from_iter([
        (Attribute::ContentType, "text/x"),
        (Attribute::Metadata("owner".into()), "me"),
    ]);

    let options = PutMultipartOptions::from(attributes.clone());
    let mut upload = s3.put_multipart_opts(&path, options).await.unwrap();
    let parts = [upload.put_part(vec![1; 6 << 20].into()), upload.put_part(vec![2; 100].into())];
    futures::future::try_join_all(parts).await.unwrap();
    assert!(store.head(&path).await.is_err(), "nothing appears before the upload is complete");
    upload.complete().await.unwrap();
    let got = s3.get(&path).await.unwrap();
    assert_eq!(got.attributes, attributes);
    let bytes = got.bytes().await.unwrap();
    assert_eq!((bytes.len(), bytes[0], bytes[bytes.len() - 1]), ((6 << 20) + 100, 1, 2));
    assert_eq!(s3.list(None).count().await, 1, "what was staged is gone");
}

#[tokio::test]
async fn an_aborted_upload_is_gone() {
    let (node, store) = lake().await;
    let s3 = node.s3("lake", None);
    let mut upload = s3.put_multipart(&Path::from("a")).await.unwrap();
    upload.put_part("data".into()).await.unwrap();
    upload.abort().await.unwrap();
    assert!(upload.complete().await.is_err());
    assert_eq!(store.list(None).count().await, 0);
}

async fn begin(node: &TestNode, target: &str) -> String {
    let answer = node.send("POST", &format!("{target}?uploads"), &[], b"").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.element("UploadId").unwrap().to_owned()
}

fn completion(parts: &[(u32, &str)]) -> String {
    let part = |(number, etag): &(u32, &str)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
}

#[tokio::test]
async fn a_part_can_be_copied_from_another_bucket() {
    let lake = Arc::new(InMemory::new());
    let pond = Arc::new(InMemory::new());
    let node = Setup::new().bucket("lake", lake.clone()).bucket("pond", pond.clone()).start().await;
    let source: Vec<u8> = (0..6 << 20).map(|at| (at / 7) as u8).collect();
    lake.put(&Path::from("source"), source.clone().into()).await.unwrap();
    let id = begin(&node, "/pond/a").await;
    let copy = [("x-amz-copy-source", "/lake/source"), ("x-amz-copy-source-range", "bytes=2-5242881")];
    let first = node.send("PUT", &format!("/pond/a?partNumber=1&uploadId={id}"), &copy, b"").await;
    assert_eq!(first.status, 200, "{}", first.body);
    let second = node.send("PUT", &format!("/pond/a?partNumber=2&uploadId={id}"), &[], b"-end").await;
    let parts = [(1, first.element("ETag").unwrap()), (2, second.header("etag").unwrap())];
    let done = node.send("POST", &format!("/pond/a?uploadId={id}"), &[], completion(&parts).as_bytes()).await;
    assert_eq!((done.status, done.element("Key")), (200, Some("a")), "{}", done.body);
    let joined = pond.get(&Path::from("a")).await.unwrap().bytes().await.unwrap();
    assert!(joined == [&source[2..5_242_882], b"-end"].concat());
}

#[tokio::test]
async fn a_part_is_never_copied_from_beyond_the_end_of_its_source() {
    let (node, _) = lake().await;
    node.send("PUT", "/lake/source", &[], b"0123456789").await;
    let id = begin(&node, "/lake/a").await;
    let target = format!("/lake/a?partNumber=1&uploadId={id}");
    for (range, status) in
        [("bytes=5-9", 200), ("bytes=5-10", 400), ("bytes=5-", 400), ("bytes=-5", 400), ("5-9", 400)]
    {
        let headers = [("x-amz-copy-source", "/lake/source"), ("x-amz-copy-source-range", range)];
        let copy = node.send("PUT", &target, &headers, b"").await;
        assert_eq!(copy.status, status, "{range}: {}", copy.body);
    }
}

#[tokio::test]
async fn a_completion_that_is_repeated_while_it_runs_has_the_same_answer() {
    let (node, store) = lake().await;
    let id = begin(&node, "/lake/a").await;
    let parts = send_parts(&node, "/lake/a", &id, &[(1, &[7; 5 << 20]), (2, b"end")]).await;
    let again = (0..8).map(|_| complete(&node, "/lake/a", &id, &parts));
    for done in futures::future::join_all(again).await {
        assert_eq!((done.status, done.element("Key")), (200, Some("a")), "{}", done.body);
    }
    assert_eq!(store.head(&Path::from("a")).await.unwrap().size, (5 << 20) + 3);
}

#[tokio::test]
async fn uploads_are_rolled_up_by_a_delimiter() {
    let (node, _) = lake().await;
    for key in ["a", "b/1", "b/2", "b/c/3", "d", "e/1"] {
        // With headers, uploads are staged by the node, and listed.
        let headers = [("content-type", "text/x")];
        assert_eq!(node.send("POST", &format!("/lake/{key}?uploads"), &headers, b"").await.status, 200);
    }
    let mut found = Vec::new();
    let mut marker = String::new();
    loop {
        let target = format!("/lake?uploads&delimiter=%2F&max-uploads=1{marker}");
        let page = node.get(&target, &[]).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let names = page.elements("Prefix").into_iter().chain(page.elements("Key"));
        found.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        if page.element("IsTruncated") != Some("true") {
            break;
        }
        let id = page.element("NextUploadIdMarker").unwrap_or_default();
        marker = format!("&key-marker={}&upload-id-marker={id}", page.element("NextKeyMarker").unwrap());
    }
    assert_eq!(found, ["a", "b/", "d", "e/"]);
    let below = node.get("/lake?uploads&delimiter=%2F&prefix=b%2F", &[]).await;
    assert_eq!(below.elements("Key"), ["b/1", "b/2"]);
    assert!(below.elements("Prefix").contains(&"b/c/"), "{}", below.body);
}

#[tokio::test]
async fn an_upload_that_makes_no_sense_is_refused() {
    let (node, _) = lake().await;
    let id = begin(&node, "/lake/a").await;
    let put = |number: &str, id: &str| format!("/lake/a?partNumber={number}&uploadId={id}");
    for (target, code) in [
        (put("0", &id), "InvalidArgument"),
        (put("10001", &id), "InvalidArgument"),
        (put("1", "none"), "NoSuchUpload"),
        (put("1", "s...%2F..%2Fetc"), "NoSuchUpload"),
        (format!("/lake/b?partNumber=1&uploadId={id}"), "NoSuchUpload"),
    ] {
        assert_eq!(node.send("PUT", &target, &[], b"x").await.code(), code, "{target}");
    }

    let bad = node.send("PUT", &put("1", &id), &[("x-amz-checksum-crc32", "AAAAAA==")], b"x").await;
    assert_eq!(bad.code(), "BadDigest");
    let part = node.send("PUT", &put("1", &id), &[], b"x").await;
    let etag = part.header("etag").unwrap();
    let target = format!("/lake/a?uploadId={id}");
    for (parts, code) in [
        (vec![], "MalformedXML"),
        (vec![(1, "\"other\"")], "InvalidPart"),
        (vec![(1, etag), (2, etag)], "InvalidPart"),
        (vec![(2, etag), (1, etag)], "InvalidPartOrder"),
    ] {
        assert_eq!(
            node.send("POST", &target, &[], completion(&parts).as_bytes()).await.code(),
            code,
            "{parts:?}"
        );
    }
    assert_eq!(node.send("DELETE", &target, &[], b"").await.status, 204);
    assert_eq!(node.send("DELETE", &target, &[], b"").await.code(), "NoSuchUpload");
}

/// Sends parts of an upload and returns their ETags.
async fn send_parts(node: &TestNode, target: &str, id: &str, parts: &[(u32, &[u8])]) -> Vec<(u32, String)> {
    let mut sent = Vec::new();
    for (number, bytes) in parts {
        let target = format!("{target}?partNumber={number}&uploadId={id}");
        let answer = node.send("PUT", &target, &[], bytes).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        sent.push((*number, answer.header("etag").unwrap().to_owned()));
    }
    sent
}

async fn complete(node: &TestNode, target: &str, id: &str, parts: &[(u32, String)]) -> Answer {
    let parts: Vec<_> = parts.iter().map(|(number, etag)| (*number, etag.as_str())).collect();
    node.send("POST", &format!("{target}?uploadId={id}"), &[], completion(&parts).as_bytes()).await
}

#[tokio::test]
async fn the_parts_of_an_upload_are_listed_in_their_order_a_page_at_a_time() {
    let (node, store) = lake().await;
    let id = begin(&node, "/lake/a").await;
    let two = vec![b'2'; 5 << 20];
    let sent =
        send_parts(&node, "/lake/a", &id, &[(7, b"seven"), (2, b"x"), (2, &two), (10_000, b"last")]).await;
    let list = async |query: &str| node.get(&format!("/lake/a?uploadId={id}{query}"), &[]).await;
    let all = list("").await;
    assert_eq!(all.status, 200, "{}", all.body);
    assert_eq!(all.elements("PartNumber"), ["2", "7", "10000"]);
    assert_eq!(all.elements("Size"), ["5242880", "5", "4"]);
    assert_eq!(all.elements("ETag"), [&sent[2].1, &sent[0].1, &sent[3].1].map(String::as_str));
    assert_eq!((all.element("IsTruncated"), all.element("UploadId")), (Some("false"), Some(id.as_str())));
    let first = list("&max-parts=2").await;
    assert_eq!((first.elements("PartNumber"), first.element("IsTruncated")), (vec!["2", "7"], Some("true")));
    assert_eq!(first.element("NextPartNumberMarker"), Some("7"));
    assert_eq!(list("&part-number-marker=7").await.elements("PartNumber"), ["10000"]);
    assert_eq!(list("&max-parts=-1").await.code(), "InvalidArgument");

    let small = [sent[2].clone(), sent[0].clone(), sent[3].clone()];
    assert_eq!(complete(&node, "/lake/a", &id, &small).await.code(), "EntityTooSmall");
    let gaps = [sent[2].clone(), sent[3].clone()];
    assert_eq!(complete(&node, "/lake/a", &id, &gaps).await.status, 200);
    let joined = store.get(&Path::from("a")).await.unwrap().bytes().await.unwrap();
    assert!(joined == [two.as_slice(), b"last"].concat(), "gaps in the numbers are no gaps in the object");
    assert_eq!(complete(&node, "/lake/a", &id, &gaps).await.status, 200, "asked again");
    assert_eq!(complete(&node, "/lake/a", &id, &gaps[..1]).await.code(), "NoSuchUpload");
    assert_eq!(list("").await.code(), "NoSuchUpload");
}

#[tokio::test]
async fn uploads_are_listed_until_they_are_complete() {
    let (node, _) = lake().await;
    let list = async |query: &str| node.get(&format!("/lake?uploads{query}"), &[]).await;
    assert_eq!(list("").await.elements("Upload").len(), 0);

    let mut ids = Vec::new();
    for key in ["b/%C3%BC", "a", "b/1", "a"] {
        ids.push(begin(&node, &format!("/lake/{key}")).await);
    }
    let all = list("").await;
    assert_eq!(all.elements("Key"), ["a", "a", "b/1", "b/\u{fc}"], "{}", all.body);
    assert_eq!((all.element("IsTruncated"), all.elements("Initiated").len()), (Some("false"), 4));
    let mut of_a = [ids[1].as_str(), ids[3].as_str()];
    of_a.sort_unstable();

    assert_eq!(all.elements("UploadId"), [of_a[0], of_a[1], &ids[2], &ids[0]]);
    assert_eq!(list("&prefix=b/&encoding-type=url").await.elements("Key"), ["b/1", "b/%C3%BC"]);
    let first = list("&max-uploads=1").await;
    assert_eq!(
        (first.element("NextKeyMarker"), first.element("NextUploadIdMarker")),
        (Some("a"), Some(of_a[0]))
    );

    let rest = list(&format!("&key-marker=a&upload-id-marker={}", of_a[0])).await;
    assert_eq!(rest.elements("UploadId"), [of_a[1], &ids[2], &ids[0]]);
    assert_eq!(list("&key-marker=a").await.elements("Key"), ["b/1", "b/\u{fc}"]);
    let part = send_parts(&node, "/lake/b/1", &ids[2], &[(1, b"x")]).await;
    assert_eq!(complete(&node, "/lake/b/1", &ids[2], &part).await.status, 200);
    node.send("DELETE", &format!("/lake/a?uploadId={}", ids[1]), &[], b"").await;
    assert_eq!(list("").await.elements("Key"), ["a", "b/\u{fc}"]);
}

/// Starts a node over a prefix `at` of another node's bucket, as an S3 origin.
async fn over_a_cloud(memory: ByteSize) -> (TestNode, Arc<InMemory>) {
    let (cloud, store) = lake().await;
    (Setup::new().memory(memory).origin("lake", cloud.as_cloud("lake/at")).start().await, store)
}

#[tokio::test]
async fn the_uploads_of_a_cloud_are_its_own_and_take_no_memory() {
    for memory in [ByteSize::ZERO, ByteSize::mib(64)] {
        let (node, store) = over_a_cloud(memory).await;
        let id = begin(&node, "/lake/a").await;
        let first = vec![b'x'; 17_000_001];
        let last = vec![b'y'; 12_000_000];
        let sent = send_parts(&node, "/lake/a", &id, &[(5, &last), (2, &first)]).await;

        let listed = node.get(&format!("/lake/a?uploadId={id}"), &[]).await;
        assert_eq!(listed.elements("Size"), ["17000001", "12000000"]);
        assert_eq!((listed.element("Bucket"), listed.element("Key")), (Some("lake"), Some("a")));
        let uploads = node.get("/lake?uploads", &[]).await;
        assert_eq!(uploads.elements("Key"), ["a"], "{}", uploads.body);

        let bad = [("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")];
        let target = format!("/lake/a?partNumber=2&uploadId={id}");
        assert_eq!(node.send("PUT", &target, &bad, &last).await.code(), "BadDigest");
        let done = complete(&node, "/lake/a", &id, &[sent[1].clone(), sent[0].clone()]).await;
        assert_eq!((done.status, done.element("Key")), (200, Some("a")), "{}", done.body);
        let bytes = store.get(&Path::from("at/a")).await.unwrap().bytes().await.unwrap();
        assert!(bytes == [first, last].concat(), "{memory}");
        assert_eq!(store.list(None).count().await, 1, "what was staged is gone");
    }
}
