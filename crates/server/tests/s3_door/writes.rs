//! PutObject, CopyObject and deletes: written through to the origin, with nothing stale left in the cache.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::{
    Attribute, Attributes, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion,
    memory::InMemory, path::Path,
};
use stylobate_storage::{Origin, RequestOptions};

use crate::client::{Setup, lake};

#[tokio::test]
async fn what_is_put_is_at_the_origin_and_replaces_what_was_cached() {
    let (node, store) = lake().await;
    let s3 = node.s3("lake", None);
    let path = Path::from("a/b");
    for text in ["one", "two"] {
        let put = s3.put(&path, text.into()).await.unwrap();
        let got = s3.get(&path).await.unwrap();
        assert_eq!(got.meta.e_tag, put.e_tag);
        assert_eq!(got.bytes().await.unwrap(), text);
        assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), text);
    }
}

#[tokio::test]
async fn what_is_said_of_an_object_comes_back_with_it() {
    let (node, _) = lake().await;
    let s3 = node.s3("lake", None);
    let attributes = Attributes::from_iter([
        (Attribute::ContentType, "text/x"),
        (Attribute::CacheControl, "no-store"),
        (Attribute::ContentEncoding, "gzip"),
        (Attribute::ContentLanguage, "en"),
        (Attribute::ContentDisposition, "inline"),
        (Attribute::Metadata("owner".into()), "me"),
    ]);

    let options = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
    s3.put_opts(&Path::from("a"), "x".into(), options).await.unwrap();
    assert_eq!(s3.get(&Path::from("a")).await.unwrap().attributes, attributes);
}

#[tokio::test]
async fn a_conditional_write_succeeds_once() {
    let (node, _) = lake().await;
    let s3 = node.s3("lake", None);
    let path = Path::from("log/0");
    let create = || PutOptions::from(PutMode::Create);
    let first = s3.put_opts(&path, "a".into(), create()).await.unwrap();
    let again = s3.put_opts(&path, "b".into(), create()).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    let update =
        |e_tag: Option<String>| PutOptions::from(PutMode::Update(UpdateVersion { e_tag, version: None }));
    s3.put_opts(&path, "c".into(), update(first.e_tag.clone())).await.unwrap();
    let stale = s3.put_opts(&path, "d".into(), update(first.e_tag)).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
    assert_eq!(s3.get(&path).await.unwrap().bytes().await.unwrap(), "c");
    let large = vec![0; 33 << 20];
    let refused = node.send("PUT", "/lake/large", &[("if-none-match", "*")], &large).await;
    assert_eq!(refused.code(), "NotImplemented");
}

#[tokio::test]
async fn a_large_object_is_put_in_parts_and_comes_back_whole() {
    let (node, store) = lake().await;
    let bytes: Vec<u8> = (0..40_000_001_u32).map(|n| (n / 7) as u8).collect();
    let put = node.send("PUT", "/lake/large", &[("content-type", "text/x")], &bytes).await;
    assert_eq!((put.status, put.header("etag").is_some()), (200, true));
    assert_eq!(store.get(&Path::from("large")).await.unwrap().bytes().await.unwrap(), bytes);
    let got = node.s3("lake", None).get(&Path::from("large")).await.unwrap();
    assert_eq!(got.attributes.get(&Attribute::ContentType).unwrap().as_ref(), "text/x");
    assert_eq!(got.bytes().await.unwrap(), bytes);
}

#[tokio::test]
async fn a_large_object_that_is_not_what_it_should_be_never_appears() {
    let (node, store) = lake().await;
    let bytes = vec![1; 40 << 20];
    let put = node.send("PUT", "/lake/large", &[("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")], &bytes).await;
    assert_eq!((put.status, put.code()), (400, "BadDigest"));
    assert!(store.head(&Path::from("large")).await.is_err());
}

#[tokio::test]
async fn a_key_that_ends_in_a_slash_is_a_mark_that_nothing_keeps() {
    let (node, store) = lake().await;
    let mark = node.send("PUT", "/lake/folder/", &[], b"").await;
    assert_eq!((mark.status, mark.header("etag")), (200, Some("\"d41d8cd98f00b204e9800998ecf8427e\"")));
    assert_eq!(node.send("PUT", "/lake/folder/", &[], b"x").await.code(), "InvalidArgument");
    assert_eq!(node.send("DELETE", "/lake/folder/", &[], b"").await.status, 204);
    assert_eq!(node.get("/lake/folder/", &[]).await.status, 404);
    assert_eq!(store.list(None).count().await, 0);
}

#[tokio::test]
async fn what_the_node_cannot_do_is_refused_and_not_dropped() {
    let (node, store) = lake().await;
    for (name, value, code) in [
        ("x-amz-server-side-encryption", "aws:kms", "NotImplemented"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256", "NotImplemented"),
        ("x-amz-tagging", "a=b", "NotImplemented"),
        ("x-amz-acl", "public-read", "AccessControlListNotSupported"),
        ("x-amz-object-lock-mode", "GOVERNANCE", "NotImplemented"),
        ("if-none-match", "\"x\"", "NotImplemented"),
    ] {
        assert_eq!(node.send("PUT", "/lake/a", &[(name, value)], b"x").await.code(), code, "{name}");
    }

    assert_eq!(node.send("PUT", "/lake/a?partNumber=1", &[], b"x").await.code(), "InvalidArgument");
    let tags = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    assert_eq!(node.send("PUT", "/lake/a?tagging", &[], tags).await.code(), "NotImplemented");
    assert_eq!(store.list(None).count().await, 0);
    assert_eq!(node.send("PUT", "/lake/a", &[("x-amz-acl", "private")], b"x").await.status, 200);
}

#[tokio::test]
async fn a_folder_keeps_content_and_what_is_said_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::parse(folder.path().to_str().unwrap(), &[], &RequestOptions::default()).unwrap();
    let node = Setup::new().origin("lake", origin).start().await;
    assert_eq!(node.send("PUT", "/lake/a/b.csv", &[("content-type", "text/x")], b"1,2").await.status, 200);
    assert_eq!(std::fs::read_to_string(folder.path().join("a/b.csv")).unwrap(), "1,2");
    let kept = node.send("PUT", "/lake/c", &[("x-amz-meta-owner", "me")], b"x").await;
    assert_eq!((kept.status, kept.header("etag")), (200, Some("\"9dd4e461268c8034f5c8564e155c67a6\"")));
    let got = node.get("/lake/a/b.csv", &[]).await;
    assert_eq!(got.header("content-type"), Some("text/x"));
    let got = node.get("/lake/c", &[]).await;
    assert_eq!((got.header("x-amz-meta-owner"), got.header("etag")), (Some("me"), kept.header("etag")));
}

#[tokio::test]
async fn a_copy_within_a_bucket_or_to_another_is_the_same_object() {
    let lake = Arc::new(InMemory::new());
    let pond = Arc::new(InMemory::new());
    let node = Setup::new().bucket("lake", lake.clone()).bucket("pond", pond.clone()).start().await;
    let put = [("x-amz-meta-owner", "me"), ("content-type", "text/x")];
    node.send("PUT", "/lake/a%20b", &put, b"data").await;
    for target in ["/lake/copy", "/pond/deep/copy"] {
        let copy = node.send("PUT", target, &[("x-amz-copy-source", "/lake/a%20b")], b"").await;
        assert_eq!((copy.status, copy.element("ETag").is_some()), (200, true), "{}", copy.body);
        let got = node.get(target, &[]).await;
        assert_eq!((got.body.as_str(), got.header("x-amz-meta-owner")), ("data", Some("me")), "{target}");
        assert_eq!(got.header("content-type"), Some("text/x"));
    }

    let replaced = [
        ("x-amz-copy-source", "lake/a%20b"),
        ("x-amz-metadata-directive", "REPLACE"),
        ("x-amz-meta-new", "1"),
    ];
    assert_eq!(node.send("PUT", "/lake/a%20b", &replaced, b"").await.status, 200);
    let got = node.get("/lake/a%20b", &[]).await;
    assert_eq!((got.header("x-amz-meta-new"), got.header("x-amz-meta-owner")), (Some("1"), None));
    assert_eq!(pond.get(&Path::from("deep/copy")).await.unwrap().bytes().await.unwrap(), "data");
}

#[tokio::test]
async fn a_copy_depends_on_its_source() {
    let (node, _) = lake().await;
    node.send("PUT", "/lake/a", &[], b"data").await;
    for (source, header, status, code) in [
        ("lake/none", None, 404, "NoSuchKey"),
        ("none/a", None, 404, "NoSuchBucket"),
        ("lake/../a", None, 404, "NoSuchKey"),
        ("lake/a", Some(("x-amz-copy-source-if-match", "\"other\"")), 412, "PreconditionFailed"),
        ("lake/a", Some(("x-amz-copy-source-if-none-match", "\"0\"")), 412, "PreconditionFailed"),
        ("lake/a", Some(("x-amz-copy-source-if-match", "\"0\"")), 200, ""),
    ] {
        let headers: Vec<_> = [("x-amz-copy-source", source)].into_iter().chain(header).collect();
        let copy = node.send("PUT", "/lake/b", &headers, b"").await;
        assert_eq!((copy.status, copy.code()), (status, code), "{headers:?}");
    }
    let itself = node.send("PUT", "/lake/a", &[("x-amz-copy-source", "lake/a")], b"").await;
    assert_eq!(itself.code(), "InvalidRequest");
}

#[tokio::test]
async fn a_copy_that_depends_on_its_target_is_refused_and_changes_nothing() {
    let (node, _) = lake().await;
    node.send("PUT", "/lake/a", &[], b"new").await;
    node.send("PUT", "/lake/b", &[], b"old").await;
    for condition in [("if-none-match", "*"), ("if-match", "\"0\"")] {
        let copy = node.send("PUT", "/lake/b", &[("x-amz-copy-source", "lake/a"), condition], b"").await;
        assert_eq!((copy.status, copy.code()), (501, "NotImplemented"));
    }
    assert_eq!(node.get("/lake/b", &[]).await.body, "old");
}

#[tokio::test]
async fn buckets_whose_names_s3_would_refuse_are_copied_from() {
    let store = Arc::new(InMemory::new());
    let node = Setup::new().bucket("tpc_h", store.clone()).bucket("a", store).start().await;
    node.send("PUT", "/tpc_h/x", &[], b"data").await;
    for source in ["/tpc_h/x", "a/x", "tpc_h/x?versionId=null"] {
        let copy = node.send("PUT", "/tpc_h/y", &[("x-amz-copy-source", source)], b"").await;
        assert_eq!(copy.status, 200, "{source}: {}", copy.body);
    }
    assert_eq!(node.get("/a/y", &[]).await.body, "data");
}

#[tokio::test]
async fn checksums_that_the_node_cannot_verify_are_refused() {
    let (node, _) = lake().await;
    for header in [
        ("x-amz-checksum-sha512", "AAAA"),
        ("x-amz-checksum-xxhash64", "AAAA"),
        ("x-amz-trailer", "x-amz-checksum-crc32, X-Amz-Checksum-MD5"),
    ] {
        let put = node.send("PUT", "/lake/a", &[header], b"data").await;
        assert_eq!((put.status, put.code()), (501, "NotImplemented"), "{header:?}");
    }
    assert_eq!(node.get("/lake/a", &[]).await.status, 404);
}

#[tokio::test]
async fn deleting_is_done_once_and_for_all() {
    let (node, store) = lake().await;
    for key in ["a", "b", "c"] {
        node.send("PUT", &format!("/lake/{key}"), &[], b"x").await;
    }
    assert_eq!(node.get("/lake/a", &[]).await.status, 200);
    for _ in 0..2 {
        assert_eq!(node.send("DELETE", "/lake/a", &[], b"").await.status, 204);
        assert_eq!(node.get("/lake/a", &[]).await.status, 404);
    }

    let s3 = node.s3("lake", None);
    let paths = futures::stream::iter(["b", "c", "none"].map(|key| Ok(Path::from(key)))).boxed();
    assert_eq!(s3.delete_stream(paths).try_collect::<Vec<_>>().await.unwrap().len(), 3);
    assert_eq!(store.list(None).count().await, 0);
}

#[tokio::test]
async fn deleting_many_reports_each_key_by_itself() {
    let (node, store) = lake().await;
    node.send("PUT", "/lake/a", &[], b"x").await;
    let body = |quiet: bool| {
        format!(
            "<Delete><Quiet>{quiet}</Quiet><Object><Key>a</Key></Object><Object><Key>x/../a</Key></Object>\
                 <Object><Key>folder/</Key></Object></Delete>"
        )
    };

    let answer = node.send("POST", "/lake?delete", &[], body(false).as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!((answer.elements("Deleted").len(), answer.elements("Error").len()), (2, 1));
    assert_eq!(answer.element("Code"), Some("InvalidArgument"));
    let quiet = node.send("POST", "/lake?delete", &[], body(true).as_bytes()).await;
    assert_eq!((quiet.elements("Deleted").len(), quiet.elements("Error").len()), (0, 1));
    assert_eq!(store.list(None).count().await, 0);
    assert_eq!(node.send("POST", "/lake?delete", &[], b"<Delete></Delete>").await.status, 400);
    assert_eq!(node.send("POST", "/lake?delete", &[], b"no xml").await.status, 400);
}

#[tokio::test]
async fn a_read_only_bucket_refuses_every_write() {
    let store = Arc::new(InMemory::new());
    store.put(&Path::from("a"), "data".into()).await.unwrap();
    let node = Setup::new().bucket("lake", store.clone()).read_only().start().await;
    assert_eq!(node.get("/lake/a", &[]).await.body, "data");
    let delete = b"<Delete><Object><Key>a</Key></Object></Delete>";
    for (method, target, headers, body) in [
        ("PUT", "/lake/b", vec![], &b"x"[..]),
        ("PUT", "/lake/b", vec![("x-amz-copy-source", "lake/a")], b""),
        ("PUT", "/lake/b?partNumber=1&uploadId=1", vec![], b"x"),
        ("POST", "/lake/b?uploads", vec![], b""),
        ("POST", "/lake?delete", vec![], delete),
        ("DELETE", "/lake/a", vec![], b""),
    ] {
        let answer = node.send(method, target, &headers, body).await;
        assert_eq!((answer.status, answer.code()), (403, "AccessDenied"), "{method} {target}");
    }
    assert_eq!(store.list(None).count().await, 1);
}
