//! Reads: each part from its home, the rest of a broken answer from another node, all from one version.

use std::{
    ops::Range,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutPayload, integration, memory::InMemory,
    path::Path,
};
use stylobate_client::{PathHash, STRIPE_BYTES};

use crate::fake::{FakeCluster, FakeRequest, Fault};

pub(crate) const S: u64 = STRIPE_BYTES;

/// Number of bytes received before an answer breaks.
const RECEIVED_BYTES: usize = 3 << 20;

/// Content of an object of two stripes and a few bytes.
static CONTENT: LazyLock<Bytes> = LazyLock::new(|| content(0));
/// Different content of the same length.
pub(crate) static OTHER_CONTENT: LazyLock<Bytes> = LazyLock::new(|| content(9));

fn content(seed: u8) -> Bytes {
    let len = usize::try_from(2 * S + 1000).unwrap();
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 20) as u8 ^ seed).collect()
}

pub(crate) fn slice(bytes: &Bytes, range: Range<u64>) -> Bytes {
    let end = bytes.len().min(usize::try_from(range.end).unwrap());
    bytes.slice(usize::try_from(range.start).unwrap()..end)
}

/// Returns three nodes over a bucket with an object, the object's bytes, and its path.
pub(crate) async fn cluster() -> (FakeCluster, Bytes, Path) {
    let cluster = FakeCluster::of_three();
    let path = Path::from("lineitem/part-0.parquet");
    let bytes = CONTENT.clone();
    cluster.bucket.put(&path, bytes.clone().into()).await.unwrap();
    (cluster, bytes, path)
}

/// Returns the id of the n-th node in rank for a stripe.
pub(crate) fn ranked(cluster: &FakeCluster, path: &Path, stripe: u64, n: usize) -> String {
    let key = PathHash::of("lake", path.as_ref()).stripe(stripe);
    cluster.view().rank(key, n + 1)[n].id().to_string()
}

/// Returns the ranges requested from a node since the last call, sorted.
fn ranges(cluster: &FakeCluster, id: &str) -> Vec<Range<u64>> {
    let mut ranges: Vec<_> =
        cluster.node(id).take_requests().into_iter().map(|request| request.range).collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}

/// Returns the ranges that a node receives when an object of three stripes is read from the homes.
fn expected(cluster: &FakeCluster, path: &Path, id: &str, parts: &[Range<u64>]) -> Vec<Range<u64>> {
    let is_home = |part: &&Range<u64>| ranked(cluster, path, part.start / S, 0) == id;
    parts.iter().filter(is_home).cloned().collect()
}

#[tokio::test]
async fn each_part_is_read_from_its_home() {
    let (cluster, bytes, path) = cluster().await;
    let store = cluster.store();
    let end = bytes.len() as u64;

    let range = 5..end + 10;
    let parts = [5..S, S..2 * S, 2 * S..end];
    let answer = store.get_opts(&path, GetOptions::new().with_range(Some(range.clone()))).await.unwrap();
    assert_eq!((answer.range.clone(), answer.meta.size), (5..end, end));
    assert!(answer.bytes().await.unwrap() == slice(&bytes, 5..end));
    for id in ["a", "b", "c"] {
        assert_eq!(ranges(&cluster, id), expected(&cluster, &path, id, &parts), "{id}");
    }

    let read = store.get_ranges(&path, std::slice::from_ref(&range)).await.unwrap();
    assert!(read[0] == slice(&bytes, range));
    for id in ["a", "b", "c"] {
        assert_eq!(ranges(&cluster, id), expected(&cluster, &path, id, &parts), "{id}");
    }

    // A range within one stripe is one request.
    assert!(store.get_range(&path, S + 7..S + 9).await.unwrap() == slice(&bytes, S + 7..S + 9));
    let requests: Vec<FakeRequest> = cluster.nodes().flat_map(|node| node.take_requests()).collect();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].range.clone(), &requests[0].if_match), (S + 7..S + 9, &None));
}

#[tokio::test]
async fn requests_after_the_first_are_for_its_version() {
    let (cluster, bytes, path) = cluster().await;
    let e_tag = cluster.bucket.head(&path).await.unwrap().e_tag;
    let read = cluster.store().get(&path).await.unwrap().bytes().await.unwrap();
    assert!(read == bytes);
    let mut requests: Vec<_> = cluster.nodes().flat_map(|node| node.take_requests()).collect();
    requests.sort_by_key(|request| request.range.start);
    let conditions: Vec<_> = requests.iter().map(|request| request.if_match.clone()).collect();
    assert_eq!(conditions, [None, e_tag.clone(), e_tag]);
}

#[tokio::test]
async fn ranges_of_all_kinds_are_those_of_one_store() {
    let (cluster, bytes, path) = cluster().await;
    let store = cluster.store();
    let end = bytes.len() as u64;
    for range in [
        GetRange::Bounded(0..1),
        GetRange::Bounded(S - 1..S + 1),
        GetRange::Bounded(end - 1..end + 1000),
        GetRange::Offset(0),
        GetRange::Offset(2 * S - 3),
        GetRange::Suffix(1),
        GetRange::Suffix(1001),
        GetRange::Suffix(S + 2000),
        GetRange::Suffix(end + 1),
    ] {
        let answer = store.get_opts(&path, GetOptions::new().with_range(Some(range.clone()))).await.unwrap();
        let expected = range.as_range(end).unwrap();
        assert_eq!(answer.range, expected, "{range}");
        assert!(answer.bytes().await.unwrap() == slice(&bytes, expected), "{range}");
    }

    for range in [GetRange::Bounded(end..end + 1), GetRange::Offset(end), GetRange::Bounded(5..5)] {
        let options = GetOptions::new().with_range(Some(range));
        assert!(store.get_opts(&path, options).await.is_err());
    }
    cluster.bucket.put(&"empty".into(), PutPayload::new()).await.unwrap();
    assert!(store.get(&"empty".into()).await.unwrap().bytes().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_rest_of_a_broken_answer_comes_from_the_deputy() {
    let (cluster, bytes, path) = cluster().await;
    for fault in
        [Fault::BreakAfter(RECEIVED_BYTES), Fault::EndAfter(RECEIVED_BYTES), Fault::HangAfter(RECEIVED_BYTES)]
    {
        let store = cluster.impatient_store();
        let home = ranked(&cluster, &path, 1, 0);
        let deputy = ranked(&cluster, &path, 1, 1);
        cluster.node(&home).fail_next([fault]);

        let read = store.get_range(&path, S..2 * S).await.unwrap();
        assert!(read == slice(&bytes, S..2 * S), "{fault:?}");
        assert_eq!(ranges(&cluster, &home), std::iter::once(S..2 * S).collect::<Vec<_>>(), "{fault:?}");
        let rest = cluster.node(&deputy).take_requests();
        assert_eq!(rest[0].range, S + RECEIVED_BYTES as u64..2 * S, "{fault:?}");
        assert!(rest[0].if_match.is_some(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_node_that_fails_is_followed_by_another_and_then_left_alone() {
    let (cluster, bytes, path) = cluster().await;
    for fault in [Fault::Refuse, Fault::Break, Fault::Hang] {
        let store = cluster.impatient_store();
        let home = ranked(&cluster, &path, 1, 0);
        cluster.node(&home).fail(Some(fault));
        for _ in 0..5 {
            let read = store.get_range(&path, S + 1..S + 100).await.unwrap();
            assert!(read == slice(&bytes, S + 1..S + 100), "{fault:?}");
        }
        let failed = ranges(&cluster, &home).len();
        assert!(failed <= 2, "{fault:?}: it was asked {failed} times");
        cluster.node(&home).fail(None);
    }
}

#[tokio::test]
async fn no_read_fails_while_one_node_answers() {
    let (cluster, bytes, path) = cluster().await;
    for last in ["a", "b", "c"] {
        let store = cluster.store();
        for id in ["a", "b", "c"] {
            cluster.node(id).fail(Some(Fault::BreakAfter(2 << 20)).filter(|_| id != last));
        }
        assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == bytes, "{last}");

        for id in ["a", "b", "c"] {
            cluster.node(id).fail(Some(Fault::Refuse).filter(|_| id != last));
        }
        let ranges = [0..10, S - 5..S + 5, 2 * S..2 * S + 1];
        let read = store.get_ranges(&path, &ranges).await.unwrap();
        for (range, read) in ranges.into_iter().zip(read) {
            assert!(read == slice(&bytes, range), "{last}");
        }
    }
}

#[tokio::test]
async fn a_node_that_fails_for_a_moment_is_asked_again() {
    let (cluster, bytes, path) = cluster().await;
    for node in cluster.nodes() {
        node.fail_next([Fault::Break]);
    }
    let read = cluster.store().get_range(&path, 0..10).await.unwrap();
    assert!(read == slice(&bytes, 0..10));
}

#[tokio::test]
async fn if_no_node_answers_the_error_is_that_of_the_last() {
    let (cluster, _, path) = cluster().await;
    for node in cluster.nodes() {
        node.fail(Some(Fault::Refuse));
    }
    let error = cluster.store().get(&path).await.unwrap_err();
    assert!(matches!(error, Error::Generic { store: "FakeNode", .. }), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_an_error_is_no_failure() {
    let (cluster, _, path) = cluster().await;
    let store = cluster.store();
    assert!(matches!(store.get(&"none".into()).await, Err(Error::NotFound { .. })));
    let asked: usize = cluster.nodes().map(|node| node.take_requests().len()).sum();
    assert_eq!(asked, 1);

    let meta = store.head(&path).await.unwrap();
    let same = GetOptions::new().with_if_none_match(meta.e_tag.clone());
    assert!(matches!(store.get_opts(&path, same).await, Err(Error::NotModified { .. })));
    let other = GetOptions::new().with_if_match(Some("\"other\""));
    assert!(matches!(store.get_opts(&path, other).await, Err(Error::Precondition { .. })));
    let later = GetOptions::new().with_if_modified_since(Some(meta.last_modified));
    assert!(matches!(store.get_opts(&path, later).await, Err(Error::NotModified { .. })));
    let head = cluster.node(&ranked(&cluster, &path, 0, 0)).take_requests();
    assert_eq!(head[0].operation, "head", "it goes to the authority");
}

#[tokio::test]
async fn an_object_that_is_replaced_during_a_read_is_never_mixed() {
    let (cluster, bytes, path) = cluster().await;
    let answer = cluster.store().get(&path).await.unwrap();
    cluster.bucket.put(&path, OTHER_CONTENT.clone().into()).await.unwrap();
    match answer.bytes().await {
        Err(Error::Precondition { .. }) => {}
        answer => panic!("{}", answer.is_ok_and(|read| read == bytes)),
    }
}

#[tokio::test]
async fn the_node_that_told_a_version_may_still_have_it() {
    let (cluster, bytes, path) = cluster().await;
    let newer = Arc::new(InMemory::new());
    newer.put(&"other".into(), PutPayload::new()).await.unwrap();
    newer.put(&path, OTHER_CONTENT.clone().into()).await.unwrap();
    let authority = ranked(&cluster, &path, 0, 0);
    for id in ["a", "b", "c"].into_iter().filter(|id| *id != authority) {
        cluster.node(id).serve(&newer);
    }
    let store = cluster.store();
    assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == bytes);

    // With `If-Match` on the authority's ETag, reads fall back to the authority if the home of the stripe knows a
    // newer version.
    let e_tag = store.head(&path).await.unwrap().e_tag;
    for stripe in 0..3 {
        let range = stripe * S..stripe * S + 10;
        let options = GetOptions::new().with_range(Some(range.clone())).with_if_match(e_tag.clone());
        let read = store.get_opts(&path, options).await.unwrap().bytes().await.unwrap();
        assert!(read == slice(&bytes, range));
    }
}

#[tokio::test]
async fn ranges_of_nodes_that_disagree_are_of_the_version_of_the_authority() {
    let (cluster, bytes, path) = cluster().await;
    let older = Arc::new(InMemory::new());
    older.put(&"first".into(), PutPayload::new()).await.unwrap();
    older.put(&path, OTHER_CONTENT.clone().into()).await.unwrap();
    let authority = ranked(&cluster, &path, 0, 0);
    for id in ["a", "b", "c"].into_iter().filter(|id| *id != authority) {
        cluster.node(id).serve(&older);
    }

    let ranges = [0..10, S + 5..S + 15, 2 * S..2 * S + 10];
    let read = cluster.store().get_ranges(&path, &ranges).await.unwrap();
    for (range, read) in ranges.into_iter().zip(read) {
        assert!(read == slice(&bytes, range));
    }
}

#[tokio::test]
async fn an_object_without_a_version_is_read_from_one_answer() {
    let (cluster, bytes, path) = cluster().await;
    for node in cluster.nodes() {
        node.hide_etags();
    }
    let store = cluster.store();
    let options = GetOptions::new().with_range(Some(S - 10..S + 10));
    assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == bytes);
    let read = store.get_opts(&path, options).await.unwrap().bytes().await.unwrap();
    assert!(read == slice(&bytes, S - 10..S + 10));
    let ranges = [S - 10..S + 10, 0..1];
    assert!(store.get_ranges(&path, &ranges).await.unwrap()[0] == read);
}

// The clock is paused, so that no answer is slow and none is hedged.
#[tokio::test(start_paused = true)]
async fn a_hot_stripe_is_shared_with_the_next_nodes_in_rank() {
    let (cluster, _, path) = cluster().await;
    let store = cluster.store();
    let mut answers = Vec::new();
    for _ in 0..100 {
        answers.push(store.get_opts(&path, GetOptions::new().with_range(Some(0..10))).await.unwrap());
    }
    let count = |rank| cluster.node(&ranked(&cluster, &path, 0, rank)).take_requests().len();
    assert_eq!([0, 1, 2].map(count), [42, 41, 17], "no node has much more than 1.25 times the mean");
    drop(answers);
    store.get_range(&path, 0..10).await.unwrap();
    assert_eq!(cluster.node(&ranked(&cluster, &path, 0, 0)).take_requests().len(), 1);
}

#[tokio::test]
async fn it_is_an_object_store() {
    let store = FakeCluster::of_three().store();
    integration::put_get_delete_list(&store).await;
    integration::get_opts(&store).await;
    integration::list_uses_directories_correctly(&store).await;
    integration::list_with_delimiter(&store).await;
    integration::rename_and_copy(&store).await;
    integration::copy_if_not_exists(&store).await;
    integration::stream_get(&store).await;
    integration::put_opts(&store, true).await;
    integration::put_get_attributes(&store).await;
}
