//! Hedged reads: the deputy is also asked if the home is slower than most answers were. The clock is virtual.

use std::{sync::Arc, time::Duration};

use object_store::{
    Error, GetOptions, ObjectStore, ObjectStoreExt, PutPayload, memory::InMemory, path::Path,
};
use stylobate_client::ClusterStore;
use tokio::time::Instant;

use crate::{
    fake::{FakeCluster, FakeNode, Fault},
    reads::{OTHER_CONTENT, S, cluster, ranked, slice},
};

/// Time of a slow answer, shorter than the time after which silence counts as a failure.
const SLOW: Duration = Duration::from_secs(5);

/// Number of reads after which a store knows how fast nodes answer.
const WARM_READS: usize = 40;

/// Puts a small object, and returns its path.
async fn small(cluster: &FakeCluster) -> Path {
    let path = Path::from("small");
    cluster.bucket.put(&path, "0123456789".into()).await.unwrap();
    path
}

/// Returns the nodes in rank order for stripe 0 of a path.
fn nodes_in_rank(cluster: &FakeCluster, path: &Path) -> [FakeNode; 3] {
    [0, 1, 2].map(|rank| cluster.node(&ranked(cluster, path, 0, rank)).clone())
}

/// Returns a store that knows how fast nodes answer.
async fn warm_store(cluster: &FakeCluster, path: &Path) -> ClusterStore {
    let store = cluster.store();
    for _ in 0..WARM_READS {
        store.get_range(path, 0..10).await.unwrap();
    }
    for node in cluster.nodes() {
        node.take_requests();
    }
    store
}

/// Returns the number of requests to each node since the last call.
fn counts(nodes: &[FakeNode; 3]) -> [usize; 3] {
    [0, 1, 2].map(|node| nodes[node].take_requests().len())
}

#[tokio::test(start_paused = true)]
async fn the_deputy_answers_a_read_for_which_the_home_is_slow() {
    let cluster = FakeCluster::of_three();
    let path = small(&cluster).await;
    let nodes = nodes_in_rank(&cluster, &path);
    let store = warm_store(&cluster, &path).await;

    // The last home sends the head of its answer at once, but none of its bytes.
    for (read, fault) in [
        ("head", Fault::Late(SLOW)),
        ("get", Fault::Late(SLOW)),
        ("range", Fault::Late(SLOW)),
        ("ranges", Fault::Late(SLOW)),
        ("range", Fault::HangAfter(0)),
    ] {
        nodes[0].fail_next([fault]);
        let begun = Instant::now();
        match read {
            "head" => assert_eq!(store.head(&path).await.unwrap().size, 10),
            "get" => assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "0123456789"),
            "range" => assert_eq!(store.get_range(&path, 2..5).await.unwrap(), "234"),
            _ => assert_eq!(store.get_ranges(&path, &[0..1, 9..10]).await.unwrap(), ["0", "9"]),
        }
        assert!(begun.elapsed() < SLOW / 2, "{read}, {fault:?}");

        // By now, a read that the home has not answered has been cancelled.
        tokio::time::sleep(2 * SLOW).await;
        let asked = nodes[0].take_requests();
        assert_eq!(asked.len(), 1, "{read}, {fault:?}");
        assert!(matches!(fault, Fault::HangAfter(_)) || asked[0].range.is_empty(), "{read}");
        assert_eq!(counts(&nodes), [0, 1, 0], "{read}, {fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_home_that_answers_in_time_is_asked_alone() {
    let cluster = FakeCluster::of_three();
    let path = small(&cluster).await;
    let nodes = nodes_in_rank(&cluster, &path);
    let store = warm_store(&cluster, &path).await;
    for _ in 0..WARM_READS {
        store.get_range(&path, 0..10).await.unwrap();
        store.head(&path).await.unwrap();
    }
    assert_eq!(counts(&nodes), [2 * WARM_READS, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn first_reads_are_not_hedged() {
    let cluster = FakeCluster::of_three();
    let path = small(&cluster).await;
    let nodes = nodes_in_rank(&cluster, &path);
    let store = cluster.store();
    for _ in 0..3 {
        nodes[0].fail_next([Fault::Late(SLOW)]);
        assert_eq!(store.get_range(&path, 2..5).await.unwrap(), "234");
        assert_eq!(counts(&nodes), [1, 0, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn if_home_and_deputy_fail_the_third_node_answers_and_else_the_error() {
    let cluster = FakeCluster::of_three();
    let path = small(&cluster).await;
    let nodes = nodes_in_rank(&cluster, &path);
    let store = warm_store(&cluster, &path).await;
    nodes[0].fail(Some(Fault::Hang));
    nodes[1].fail(Some(Fault::Break));
    assert_eq!(store.get_range(&path, 2..5).await.unwrap(), "234");
    assert!(counts(&nodes).iter().all(|count| *count > 0));

    nodes[2].fail(Some(Fault::Break));
    let error = store.get_range(&path, 2..5).await.unwrap_err();
    assert!(matches!(error, Error::Generic { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_deputy_is_no_answer_as_long_as_the_home_may_have_one() {
    let cluster = FakeCluster::of_three();
    let path = small(&cluster).await;
    let nodes = nodes_in_rank(&cluster, &path);
    let store = warm_store(&cluster, &path).await;
    nodes[0].fail_next([Fault::Late(SLOW)]);
    nodes[1].serve(&Arc::new(InMemory::new()));
    assert_eq!(store.get_range(&path, 2..5).await.unwrap(), "234");
    assert_eq!(counts(&nodes), [1, 1, 0]);

    // If the home fails, the deputy's response is the answer.
    nodes[0].fail_next([Fault::Hang]);
    assert!(matches!(store.get_range(&path, 2..5).await, Err(Error::NotFound { .. })));
    assert_eq!(counts(&nodes), [1, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_the_home_answers_is_the_answer() {
    let cluster = FakeCluster::of_three();
    let path = small(&cluster).await;
    let nodes = nodes_in_rank(&cluster, &path);
    let store = warm_store(&cluster, &path).await;
    nodes[0].serve(&Arc::new(InMemory::new()));
    nodes[0].fail_next([Fault::Late(SLOW / 5)]);
    nodes[1].fail_next([Fault::Late(SLOW)]);
    let begun = Instant::now();
    assert!(matches!(store.get_range(&path, 2..5).await, Err(Error::NotFound { .. })));
    assert!(begun.elapsed() < SLOW / 2);
    assert_eq!(counts(&nodes), [1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn all_hedged_parts_are_of_the_version_of_the_first() {
    let (cluster, bytes, path) = cluster().await;
    let store = warm_store(&cluster, &path).await;
    let home = cluster.node(&ranked(&cluster, &path, 1, 0));
    let deputy = cluster.node(&ranked(&cluster, &path, 1, 1));
    let answer = store.get(&path).await.unwrap();
    let e_tag = answer.meta.e_tag.clone();
    home.fail_next([Fault::Late(SLOW)]);
    assert!(answer.bytes().await.unwrap() == bytes);
    let hedged = deputy.take_requests().into_iter().find(|request| request.range == (S..2 * S)).unwrap();
    assert_eq!(hedged.if_match, e_tag);

    // A deputy that knows another version has no answer.
    let newer = Arc::new(InMemory::new());
    newer.put(&"other".into(), PutPayload::new()).await.unwrap();
    newer.put(&path, OTHER_CONTENT.clone().into()).await.unwrap();
    deputy.serve(&newer);
    home.take_requests();
    home.fail_next([Fault::Late(SLOW)]);
    let range = S + 5..S + 15;
    let options = GetOptions::new().with_range(Some(range.clone())).with_if_match(e_tag);
    let read = store.get_opts(&path, options).await.unwrap().bytes().await.unwrap();
    assert!(read == slice(&bytes, range));
    assert_eq!((home.take_requests().len(), deputy.take_requests().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn writes_are_never_hedged() {
    let cluster = FakeCluster::of_three();
    let path = small(&cluster).await;
    let nodes = nodes_in_rank(&cluster, &path);
    let store = warm_store(&cluster, &path).await;
    nodes[0].fail_next([Fault::Late(SLOW); 4]);
    store.put(&path, "x".into()).await.unwrap();
    store.put_multipart(&path).await.unwrap();
    store.copy(&path, &path).await.unwrap();
    store.delete(&path).await.unwrap();
    let operations: Vec<_> = nodes[0].take_requests().into_iter().map(|request| request.operation).collect();
    assert_eq!(operations, ["put", "upload", "copy", "delete"]);
    assert_eq!(counts(&nodes), [0, 0, 0]);
}
