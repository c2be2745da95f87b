//! GetObject and HeadObject: ranges, conditions, overrides, keys, and failures of the origin.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, memory::InMemory,
    path::Path,
};
use stylobate_storage::{Origin, RequestOptions};

use crate::client::{Setup, TestNode, lake};

async fn ten_bytes() -> TestNode {
    let (node, store) = lake().await;
    store.put(&Path::from("a/ten"), "0123456789".into()).await.unwrap();
    store.put(&Path::from("empty"), PutPayload::new()).await.unwrap();
    node
}

#[tokio::test]
async fn a_whole_object_comes_with_what_is_known_of_it() {
    let node = ten_bytes().await;
    let answer = node.get("/lake/a/ten", &[]).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "0123456789"));
    assert_eq!(answer.header("content-length"), Some("10"));
    assert_eq!(answer.header("accept-ranges"), Some("bytes"));
    assert_eq!(answer.header("etag"), Some("\"0\""));
    assert_eq!(answer.header("content-type"), Some("binary/octet-stream"));
    assert!(answer.header("last-modified").unwrap().ends_with("GMT"));
    assert_eq!(answer.header("x-amz-request-id").unwrap().len(), 16);
}

/// A GET without a query or conditions takes the fast path; a meaningless parameter sends the same request through
/// the full path.
#[tokio::test]
async fn the_short_way_and_the_long_way_answer_alike() {
    let node = ten_bytes().await;
    let requests = [
        ("/lake/a/ten", None),
        ("/lake/a/ten", Some("bytes=2-4")),
        ("/lake/a/ten", Some("bytes=7-")),
        ("/lake/a/ten", Some("bytes=-3")),
        ("/lake/a/ten", Some("bytes=-0")),
        ("/lake/a/ten", Some("bytes=10-12")),
        ("/lake/a/ten", Some("bytes=1-2,4-5")),
        ("/lake/empty", None),
        ("/lake/empty", Some("bytes=0-0")),
        ("/lake/a", None),
        ("/lake/a/ten/", None),
        ("/lake/none", None),
        ("/none/a", None),
    ];

    for (path, range) in requests {
        let headers: Vec<_> = range.into_iter().map(|range| ("range", range)).collect();
        let short = node.get(path, &headers).await;
        let long = node.get(&format!("{path}?x-id=GetObject"), &headers).await;
        let body = |answer: &crate::client::Answer| {
            let (before, after) = answer.body.split_once("<RequestId>").unwrap_or((&answer.body, ""));
            (before.to_owned(), after.is_empty())
        };

        assert_eq!((short.status, body(&short)), (long.status, body(&long)), "{path} {range:?}");
        let named = |name: &str| !matches!(name, "x-amz-request-id" | "date");
        let headers = |answer: &crate::client::Answer| {
            let mut headers: Vec<_> = answer
                .headers
                .iter()
                .filter(|(name, _)| named(name))
                .map(|(n, v)| (n.clone(), v.clone()))
                .collect();
            headers.sort();
            headers
        };
        assert_eq!(headers(&short), headers(&long), "{path} {range:?}");
    }
}

#[tokio::test]
async fn every_form_of_a_range_is_answered_as_s3_does() {
    let node = ten_bytes().await;
    for (range, body, content_range) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
        ("bytes=5-99999", "56789", "bytes 5-9/10"),
        ("bytes=5-99999999999999999999999", "56789", "bytes 5-9/10"),
    ] {
        let answer = node.get("/lake/a/ten", &[("range", range)]).await;
        assert_eq!((answer.status, answer.body.as_str()), (206, body), "{range}");
        assert_eq!(answer.header("content-range"), Some(content_range), "{range}");
        let head = node.send("HEAD", "/lake/a/ten", &[("range", range)], b"").await;
        assert_eq!((head.status, head.header("content-range")), (206, Some(content_range)), "{range}");
    }

    for range in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999999-"] {
        let answer = node.get("/lake/a/ten", &[("range", range)]).await;
        assert_eq!((answer.status, answer.code()), (416, "InvalidRange"), "{range}");
        assert_eq!(answer.header("content-range"), Some("bytes */10"), "{range}");
    }
    for range in ["bytes=0-1,3-4", "bytes=5-2", "bytes=x", "lines=1-2"] {
        let answer = node.get("/lake/a/ten", &[("range", range)]).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "0123456789"), "{range}");
    }
}

#[tokio::test]
async fn an_empty_object_has_no_range() {
    let node = ten_bytes().await;
    assert_eq!(node.get("/lake/empty", &[]).await.status, 200);
    for range in ["bytes=0-", "bytes=-1", "bytes=0-0"] {
        let answer = node.get("/lake/empty", &[("range", range)]).await;
        assert_eq!((answer.status, answer.header("content-range")), (416, Some("bytes */0")), "{range}");
    }
}

#[tokio::test]
async fn conditions_are_checked_in_the_order_of_s3() {
    let node = ten_bytes().await;
    let early = "Mon, 01 Jan 2001 00:00:00 GMT";
    let late = "Fri, 01 Jan 2100 00:00:00 GMT";
    for (headers, status) in [
        (vec![("if-match", "\"0\"")], 200),
        (vec![("if-match", "*")], 200),
        (vec![("if-match", "\"other\"")], 412),
        (vec![("if-none-match", "\"0\"")], 304),
        (vec![("if-none-match", "*")], 304),
        (vec![("if-none-match", "\"other\"")], 200),
        (vec![("if-modified-since", late)], 304),
        (vec![("if-modified-since", early)], 200),
        (vec![("if-modified-since", "no date")], 200),
        (vec![("if-unmodified-since", early)], 412),
        (vec![("if-unmodified-since", late)], 200),
        (vec![("if-match", "\"0\""), ("if-unmodified-since", early)], 200),
        (vec![("if-none-match", "\"other\""), ("if-modified-since", late)], 200),
        (vec![("if-match", "\"other\""), ("if-none-match", "\"0\"")], 412),
        (vec![("if-match", "\"other\""), ("range", "bytes=50-")], 412),
        (vec![("if-none-match", "\"0\""), ("range", "bytes=50-")], 304),
        (vec![("if-match", "\"0\""), ("range", "bytes=50-")], 416),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = node.send(method, "/lake/a/ten", &headers, b"").await;
            assert_eq!(answer.status, status, "{method} {headers:?}");
            if status == 304 {
                assert_eq!(answer.header("etag"), Some("\"0\""));
                assert!(answer.header("last-modified").is_some());
                assert_eq!(answer.body, "");
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_knows_a_newer_version_than_the_node_is_not_refused() {
    let store = Arc::new(InMemory::new());
    let path = Path::from("a");
    store.put(&path, "old".into()).await.unwrap();
    let node = Setup::new().bucket("lake", store.clone()).rarely_asked().start().await;
    assert_eq!(node.get("/lake/a", &[]).await.body, "old");
    store.put(&path, "new".into()).await.unwrap();
    assert_eq!(node.get("/lake/a", &[]).await.body, "old", "the node asks once an hour");
    let answer = node.get("/lake/a", &[("if-match", "\"1\"")]).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "new"));
}

#[tokio::test]
async fn headers_of_the_answer_can_be_overridden() {
    let node = ten_bytes().await;
    let query = "response-content-type=text%2Fx&response-content-disposition=attachment&response-cache-control=no-store\
                 &response-content-encoding=gzip&response-content-language=en&response-expires=Fri,%2001%20Jan%202100%2000:00:00%20GMT";
    for method in ["GET", "HEAD"] {
        let answer = node.send(method, &format!("/lake/a/ten?{query}"), &[], b"").await;
        for (name, value) in [
            ("content-type", "text/x"),
            ("content-disposition", "attachment"),
            ("cache-control", "no-store"),
            ("content-encoding", "gzip"),
            ("content-language", "en"),
            ("expires", "Fri, 01 Jan 2100 00:00:00 GMT"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{method} {name}");
        }
    }
}

#[tokio::test]
async fn a_part_number_reads_the_object_as_its_only_part() {
    let node = ten_bytes().await;
    let answer = node.get("/lake/a/ten?partNumber=1", &[]).await;
    assert_eq!((answer.status, answer.header("content-range")), (206, Some("bytes 0-9/10")));
    assert_eq!(node.get("/lake/a/ten?partNumber=2", &[]).await.status, 416);
}

#[tokio::test]
async fn what_is_not_there_has_its_own_code() {
    let node = ten_bytes().await;
    for (target, status, code) in [
        ("/lake/none", 404, "NoSuchKey"),
        ("/none/a", 404, "NoSuchBucket"),
        ("/none?list-type=2", 404, "NoSuchBucket"),
        ("/lake/a/", 404, "NoSuchKey"),
        ("/lake/a/ten?versionId=1", 501, "NotImplemented"),
        ("/lake?policy", 404, "NoSuchBucketPolicy"),
        ("/lake?inventory", 501, "NotImplemented"),
    ] {
        let answer = node.get(target, &[]).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{target}");
    }
}

#[tokio::test]
async fn no_key_leads_out_of_its_bucket() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bucket")).unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    std::fs::write(folder.path().join("bucket/open"), "open").unwrap();
    let url = folder.path().join("bucket");
    let origin = Origin::parse(url.to_str().unwrap(), &[], &RequestOptions::default()).unwrap();
    let node = Setup::new().origin("lake", origin).start().await;
    assert_eq!(node.get("/lake/open", &[]).await.body, "open");
    let outside = folder.path().join("secret");
    let absolute = format!("/lake/{}", outside.display());

    for target in [
        "/lake/../secret",
        "/lake/%2e%2e/secret",
        "/lake/%2e%2e%2fsecret",
        "/lake/..%2Fsecret",
        "/lake/x/../../secret",
        "/lake/%252e%252e%252fsecret",
        "/lake/..%5csecret",
        "/lake/./open",
        "/lake//open",
        "/lake/open%00",
        "/lake/%2e%2e",
        "/lake/open/",
        absolute.as_str(),
        "/%2e%2e/secret",
        "/../secret",
        "/lake/.stylobate-uploads/a",
    ] {
        for method in ["GET", "HEAD", "DELETE"] {
            let answer = node.send(method, target, &[], b"").await;
            assert!(
                answer.status >= 400 || (method == "DELETE" && answer.status == 204),
                "{method} {target}"
            );
            assert_ne!(answer.body, "secret", "{method} {target}");
        }
        // A folder can store such a key, which is distinct from all similar ones.
        let put = node.send("PUT", target, &[], b"mine").await;
        let got = node.get(target, &[]).await;
        assert!(put.status >= 400 || got.body == "mine", "PUT {target}: {}", put.status);
        node.send("DELETE", target, &[], b"").await;
    }

    assert_eq!(std::fs::read_to_string(folder.path().join("bucket/open")).unwrap(), "open");
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "secret");
    assert_eq!(std::fs::read_to_string(folder.path().join("bucket/open")).unwrap(), "open");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn a_folder_gives_the_type_that_the_extension_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.parquet"), "x").unwrap();
    let origin = Origin::parse(folder.path().to_str().unwrap(), &[], &RequestOptions::default()).unwrap();
    let node = Setup::new().origin("lake", origin).start().await;
    let answer = node.get("/lake/a.parquet", &[]).await;
    assert_eq!(answer.header("content-type"), Some("application/vnd.apache.parquet"));
}

/// A store whose objects have no strong ETag, and whose bytes are cut off half way.
#[derive(Debug)]
struct Broken(InMemory);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Broken")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Broken {
    async fn put_opts(
        &self,
        path: &Path,
        data: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.0.put_opts(path, data, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let mut result = self.0.get_opts(path, options).await?;
        result.meta.e_tag = Some("W/\"weak\"".to_owned());
        let meta = result.meta.clone();
        let range = result.range.clone();
        let attributes = result.attributes.clone();
        let bytes = result.bytes().await?;
        let half = bytes.slice(..bytes.len() / 2);
        let failure =
            object_store::Error::Generic { store: "S3", source: "https://h/?X-Amz-Signature=s".into() };
        let breaks_off = async {
            // Waits long enough for the preceding data to be sent.
            tokio::time::sleep(Duration::from_millis(100)).await;
            Err(failure)
        };
        let stream = futures::stream::iter([Ok(half)]).chain(futures::stream::once(breaks_off)).boxed();
        Ok(GetResult { payload: GetResultPayload::Stream(stream), meta, range, attributes })
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_finished_breaks_the_connection() {
    let store = Broken(InMemory::new());
    store.put(&Path::from("a"), vec![b'x'; 8 << 20].into()).await.unwrap();
    let node = Setup::new().bucket("lake", Arc::new(store)).start().await;
    let answer = node.get("/lake/a", &[]).await;
    assert_eq!((answer.status, answer.header("etag")), (200, Some("W/\"weak\"")));
    assert!(!answer.whole, "half an object must not look like a whole one");
    assert!(!answer.body.contains("Signature"));
}
