//! ListBuckets, both versions of ListObjects, and queries about a bucket.

use object_store::{ObjectStore, ObjectStoreExt, path::Path};

use futures::TryStreamExt;

use crate::client::{Setup, TestNode, lake};

async fn tree() -> TestNode {
    let (node, store) = lake().await;
    for key in ["a", "b/1", "b/2", "b/c/3", "d", "e f/ü+", "z/1"] {
        store.put(&Path::parse(key).unwrap(), key.into()).await.unwrap();
    }
    node
}

/// Returns all keys and prefixes of a listing, page by page.
async fn pages(node: &TestNode, query: &str, next: &str, parameter: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut go_on = String::new();
    for _ in 0..20 {
        let answer = node.get(&format!("/lake?{query}{go_on}"), &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let mut page: Vec<String> = answer.elements("Key").into_iter().map(str::to_owned).collect();
        let prefixes = answer.elements("CommonPrefixes").into_iter();
        page.extend(prefixes.map(|text| text.replace("<Prefix>", "").replace("</Prefix>", "")));
        page.sort();
        all.push(page);
        if answer.element("IsTruncated") == Some("false") {
            return all;
        }

        let token = answer.element(next).expect("a listing that was cut off says where to go on");
        let token: String = url::form_urlencoded::byte_serialize(token.as_bytes()).collect();
        go_on = format!("&{parameter}={token}");
    }
    panic!("the listing does not end");
}

#[tokio::test]
async fn both_versions_page_through_the_same_keys() {
    let node = tree().await;
    let expected = ["a", "b/1", "b/2", "b/c/3", "d", "e f/ü+", "z/1"];
    for max_keys in [1, 2, 3, 7, 1000, 5000] {
        let query = format!("list-type=2&max-keys={max_keys}");
        let v2 = pages(&node, &query, "NextContinuationToken", "continuation-token").await;
        assert_eq!(v2.concat(), expected, "{max_keys}");
        let v1 = pages(&node, &format!("max-keys={max_keys}"), "NextMarker", "marker").await;
        assert_eq!(v1.concat(), expected, "{max_keys}");
    }
}

#[tokio::test]
async fn a_delimiter_rolls_up_each_prefix_once_however_small_the_pages() {
    let node = tree().await;
    let expected = ["a", "b/", "d", "e f/", "z/"];
    for max_keys in [1, 2, 1000] {
        let query = format!("delimiter=/&max-keys={max_keys}");
        let v2 = pages(&node, &format!("list-type=2&{query}"), "NextContinuationToken", "continuation-token")
            .await;
        assert_eq!(v2.concat(), expected, "{max_keys}");
        assert_eq!(pages(&node, &query, "NextMarker", "marker").await.concat(), expected, "{max_keys}");
    }

    let below =
        pages(&node, "list-type=2&delimiter=/&prefix=b/", "NextContinuationToken", "continuation-token")
            .await;
    assert_eq!(below.concat(), ["b/1", "b/2", "b/c/"]);
}

#[tokio::test]
async fn a_prefix_need_not_be_a_whole_segment() {
    let node = tree().await;
    for (query, expected) in [
        ("prefix=b", vec!["b/1", "b/2", "b/c/3"]),
        ("prefix=b/c", vec!["b/c/3"]),
        ("prefix=b/&start-after=b/1", vec!["b/2", "b/c/3"]),
        ("start-after=e", vec!["e f/ü+", "z/1"]),
        ("prefix=nothing", vec![]),
        ("prefix=../", vec![]),
        ("prefix=/", vec![]),
    ] {
        let listed =
            pages(&node, &format!("list-type=2&{query}"), "NextContinuationToken", "continuation-token")
                .await;
        assert_eq!(listed.concat(), expected, "{query}");
    }
}

#[tokio::test]
async fn a_listing_says_what_was_asked_and_how_much_it_holds() {
    let node = tree().await;
    let answer =
        node.get("/lake?list-type=2&prefix=e&encoding-type=url&max-keys=5000&fetch-owner=true", &[]).await;
    assert_eq!(answer.element("Key"), Some("e%20f/%C3%BC%2B"));
    assert_eq!(answer.element("KeyCount"), Some("1"));
    assert_eq!(answer.element("MaxKeys"), Some("1000"));
    assert_eq!(answer.element("EncodingType"), Some("url"));
    assert_eq!(answer.element("Size"), Some("7"));
    assert_eq!(answer.element("Name"), Some("lake"));
    assert!(answer.element("ETag").is_some() && answer.element("LastModified").is_some());
    let nothing = node.get("/lake?list-type=2&max-keys=0", &[]).await;
    assert_eq!((nothing.element("KeyCount"), nothing.element("IsTruncated")), (Some("0"), Some("false")));

    for query in ["list-type=2&max-keys=-1", "encoding-type=x", "list-type=2&continuation-token="] {
        assert_eq!(node.get(&format!("/lake?{query}"), &[]).await.code(), "InvalidArgument", "{query}");
    }
}

#[tokio::test]
async fn a_continuation_token_that_the_node_did_not_give_out_is_refused() {
    let node = tree().await;
    for token in ["%00", "b/1", "AAAA", "%FF", "a%00"] {
        for query in ["", "&max-keys=0", "&prefix=../", "&delimiter=/"] {
            let answer = node.get(&format!("/lake?list-type=2&continuation-token={token}{query}"), &[]).await;
            assert_eq!((answer.status, answer.code()), (400, "InvalidArgument"), "{token} {query}");
        }
    }
}

#[tokio::test]
async fn a_clouds_listing_is_paged_by_tokens_of_the_node() {
    let cloud = tree().await;
    let node = Setup::new().origin("lake", cloud.as_cloud("lake")).start().await;
    let query = "list-type=2&max-keys=2";
    let listed = pages(&node, query, "NextContinuationToken", "continuation-token").await;
    assert_eq!(listed.concat(), ["a", "b/1", "b/2", "b/c/3", "d", "e f/\u{fc}+", "z/1"]);
    let answer = node.get("/lake?list-type=2&continuation-token=%00", &[]).await;
    assert_eq!((answer.status, answer.code()), (400, "InvalidArgument"));
}

#[tokio::test]
async fn object_store_lists_through_the_door() {
    let node = tree().await;
    let s3 = node.s3("lake", None);
    let mut listed: Vec<_> =
        s3.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap();
    listed.sort();
    assert_eq!(listed, ["a", "b/1", "b/2", "b/c/3", "d", "e f/ü+", "z/1"]);
    let level = s3.list_with_delimiter(Some(&Path::from("b"))).await.unwrap();
    assert_eq!((level.objects.len(), level.common_prefixes), (2, vec![Path::from("b/c")]));
}

#[tokio::test]
async fn a_bucket_answers_for_itself() {
    let node = tree().await;
    let head = node.send("HEAD", "/lake", &[], b"").await;
    assert_eq!((head.status, head.header("x-amz-bucket-region")), (200, Some("us-east-1")));
    assert_eq!(node.send("HEAD", "/none", &[], b"").await.status, 404);
    assert_eq!(node.get("/lake?location", &[]).await.status, 200);
    assert_eq!(node.get("/lake?versioning", &[]).await.status, 200);
    assert_eq!(node.get("/", &[]).await.elements("Name"), ["lake"]);
    assert_eq!(node.send("PUT", "/lake", &[], b"").await.code(), "BucketAlreadyOwnedByYou");
    assert_eq!(node.send("PUT", "/other", &[], b"").await.code(), "NotImplemented");
    assert_eq!(node.send("DELETE", "/lake", &[], b"").await.code(), "NotImplemented");
}

#[tokio::test]
async fn a_bucket_is_named_by_the_path_or_by_the_host() {
    let node = tree().await;
    for (host, target) in [
        ("lake.localhost", "/a"),
        ("lake.localhost:9000", "/a"),
        ("LAKE.localhost", "/lake/a"),
        ("localhost", "/lake/a"),
        ("127.0.0.1:9000", "/lake/a"),
        // A node without keys answers to the names of its own machine.
        ("some.proxy.example", "/lake/a"),
    ] {
        let answer = node.get(target, &[("host", host)]).await;
        let expected = match host {
            "LAKE.localhost" => 404,
            "some.proxy.example" => 403,
            _ => 200,
        };
        assert_eq!(answer.status, expected, "{host}{target}");
    }

    assert_eq!(
        node.get("/?list-type=2&max-keys=1", &[("host", "lake.localhost")]).await.element("Key"),
        Some("a")
    );
    let ranges = node.get("/a", &[("host", "lake.localhost"), ("range", "bytes=0-0,0-0")]).await;
    assert_eq!((ranges.status, ranges.body.as_str()), (200, "a"));
}
