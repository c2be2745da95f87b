//! Uploads in parts, by object_store's client and by hand.

use std::sync::Arc;

use futures::StreamExt;
use object_store::{
    Attribute, Attributes, MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions,
    memory::InMemory, path::Path,
};

use crate::client::{Setup, TestNode, lake};

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
    let (lake, pond) = (Arc::new(InMemory::new()), Arc::new(InMemory::new()));
    let node = Setup::new().bucket("lake", lake.clone()).bucket("pond", pond.clone()).start().await;
    lake.put(&Path::from("source"), "0123456789".into()).await.unwrap();
    let id = begin(&node, "/pond/a").await;
    let copy = [("x-amz-copy-source", "/lake/source"), ("x-amz-copy-source-range", "bytes=2-4")];
    let first = node.send("PUT", &format!("/pond/a?partNumber=1&uploadId={id}"), &copy, b"").await;
    assert_eq!(first.status, 200, "{}", first.body);
    let second = node.send("PUT", &format!("/pond/a?partNumber=2&uploadId={id}"), &[], b"-end").await;
    let parts = [(1, first.element("ETag").unwrap()), (2, second.header("etag").unwrap())];
    let done = node.send("POST", &format!("/pond/a?uploadId={id}"), &[], completion(&parts).as_bytes()).await;
    assert_eq!((done.status, done.element("Key")), (200, Some("a")), "{}", done.body);
    assert_eq!(node.get("/pond/a", &[]).await.body, "234-end");
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
