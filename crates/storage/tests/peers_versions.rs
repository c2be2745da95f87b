//! Versions in a cluster: as fresh as on one node, consistent across nodes, and never older after a write.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod cluster;
mod support;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use cluster::Cluster;
use object_store::{Attribute, Attributes, GetOptions, ObjectStore, ObjectStoreExt, PutOptions, path::Path};
use stylobate_storage::{
    ByteSize, CacheOptions, Completion, Consistency, KeptHeaders, ListRequest, PeerFault,
};
use support::{eventually::eventually, noise};
use tokio::time::{Instant, sleep};

const BLOCK: usize = 64 << 10;
const STRIPE: u64 = 1 << 20;
const NODES: [usize; 3] = [0, 1, 2];

async fn three(consistency: Consistency) -> Cluster {
    let memory = || CacheOptions::new(ByteSize::mib(64)).with_page_size(ByteSize::kib(64));
    Cluster::start(NODES.map(|_| memory()), STRIPE, consistency).await
}

fn lookups(cluster: &Cluster) -> u64 {
    cluster.origin.heads() + cluster.origin.gets()
}

async fn check_all(cluster: &Cluster, path: &Path, expected: &Bytes, what: &str) {
    for node in NODES {
        assert!(cluster.read(node, path).await.unwrap() == *expected, "{what}, through node {node}");
    }
}

/// Returns bytes that differ from those of all other calls.
fn new_bytes() -> Bytes {
    static SEED: AtomicU64 = AtomicU64::new(1);
    noise(BLOCK, SEED.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn strict_reads_ask_the_origin_each_time_through_any_node() {
    let cluster = three(Consistency::Strict).await;
    for _ in 0..3 {
        let data = new_bytes();
        let path = cluster.put("object", data.clone()).await;
        for node in NODES {
            for _ in 0..2 {
                let before = lookups(&cluster);
                assert!(cluster.read(node, &path).await.unwrap() == data);
                assert!(lookups(&cluster) > before);
            }
        }
    }
    assert_eq!(cluster.network.take_suspects(), []);
}

/// The GET that opens a cold object is answered late, with the version that was current when it was sent. Readers
/// that ask later, before or after that answer, see the newer version.
#[tokio::test(start_paused = true)]
async fn strict_reads_do_not_go_back_when_a_later_question_is_answered_first() {
    for late in NODES {
        let cluster = three(Consistency::Strict).await;
        let before = new_bytes();
        let path = cluster.put("object", before.clone()).await;
        cluster.origin.lags.lock().push_back(Duration::from_secs(2));
        let store = cluster.nodes[late].store.clone();
        let opened = path.clone();
        let opening = tokio::spawn(async move { store.get(&opened).await.unwrap().bytes().await.unwrap() });
        sleep(Duration::from_millis(50)).await;

        let after = new_bytes();
        cluster.put("object", after.clone()).await;
        let current = cluster.origin.memory.head(&path).await.unwrap().e_tag;
        let check = async |what: &str| {
            for node in NODES {
                let head = cluster.nodes[node].store.head(&path).await.unwrap();
                assert_eq!(head.e_tag, current, "{what}, through node {node}");
            }
            check_all(&cluster, &path, &after, what).await;
        };
        check("while the GET waits").await;
        assert!(!opening.is_finished());
        let read = opening.await.unwrap();
        assert!(read == before || read == after, "bytes of one version");
        check("after the GET").await;
        assert_eq!(cluster.network.take_suspects(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_is_stale_for_the_time_of_one_rule_and_not_of_two() {
    let cluster = three(Consistency::Ttl(Duration::from_secs(10))).await;
    let before = new_bytes();
    let path = cluster.put("object", before.clone()).await;
    let authority = cluster.network.home(&path, 0);
    let other = (authority + 1) % 3;
    assert!(cluster.read(authority, &path).await.unwrap() == before);

    sleep(Duration::from_secs(8)).await;
    assert!(cluster.read(other, &path).await.unwrap() == before);
    let after = new_bytes();
    cluster.put("object", after.clone()).await;
    assert_eq!(lookups(&cluster), 1, "the answer of the authority was fresh");

    sleep(Duration::from_millis(1_500)).await;
    assert!(cluster.read(other, &path).await.unwrap() == before);
    sleep(Duration::from_secs(1)).await;
    assert!(cluster.read(other, &path).await.unwrap() == after);
    check_all(&cluster, &path, &after, "after the time of the rule").await;
}

#[tokio::test(start_paused = true)]
async fn a_cold_read_through_any_node_is_one_request_of_the_origin() {
    for reader in NODES {
        let cluster = three(Consistency::DEFAULT).await;
        let data = new_bytes();
        let path = cluster.put("object", data.clone()).await;
        assert!(cluster.read(reader, &path).await.unwrap() == data);
        check_all(&cluster, &path, &data, "again").await;
        assert_eq!((cluster.origin.gets(), cluster.origin.heads()), (1, 0), "{reader}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_write_through_any_node_is_seen_through_all() {
    for writer in NODES {
        // Only the notification of a write ends the life of a version.
        let cluster = three(Consistency::Immutable).await;
        let store = cluster.nodes[writer].store.clone();
        let data = new_bytes();
        let path = cluster.put("object", data.clone()).await;
        check_all(&cluster, &path, &data, "before").await;

        let data = new_bytes();
        store.put(&path, data.clone().into()).await.unwrap();
        check_all(&cluster, &path, &data, "put").await;

        let data = new_bytes();
        let from = cluster.put("from", data.clone()).await;
        store.copy(&from, &path).await.unwrap();
        check_all(&cluster, &path, &data, "copy").await;

        let data = new_bytes();
        cluster.put("from", data.clone()).await;
        store.rename(&from, &path).await.unwrap();
        check_all(&cluster, &path, &data, "rename").await;

        let data = new_bytes();
        let mut upload = store.put_multipart(&path).await.unwrap();
        upload.put_part(data.clone().into()).await.unwrap();
        upload.complete().await.unwrap();
        check_all(&cluster, &path, &data, "multipart").await;

        let data = new_bytes();
        let attributes = Attributes::new();
        let upload = store.create_upload(&path, attributes, KeptHeaders::default()).await.unwrap();
        let part = (data.clone().into(), KeptHeaders::default());
        let etag = store.upload_part(&path, &upload, 1, part).await.unwrap();
        store.complete_upload(&path, &upload, &[(1, etag)], Completion::default()).await.unwrap();
        check_all(&cluster, &path, &data, "upload").await;

        store.delete(&path).await.unwrap();
        for node in NODES {
            let read = cluster.read(node, &path).await;
            assert!(matches!(read, Err(object_store::Error::NotFound { .. })), "{writer} {node}: {read:?}");
        }
        assert_eq!(cluster.network.take_suspects(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_deleted_through_one_node_is_forgotten_by_all() {
    for deleter in NODES {
        let cluster = three(Consistency::Immutable).await;
        let mut objects = Vec::new();
        for number in 0..5 {
            let data = new_bytes();
            let path = cluster.put(&format!("object-{number}"), data.clone()).await;
            check_all(&cluster, &path, &data, "before").await;
            objects.push((path, data));
        }

        // A bucket can be deleted once it is empty, even past the cluster.
        for (path, data) in &objects {
            cluster.origin.memory.delete(path).await.unwrap();
            check_all(&cluster, path, data, "immutable").await;
        }
        cluster.nodes[deleter].store.invalidate_all_in_cluster().await;
        for node in NODES {
            assert_eq!(cluster.nodes[node].cache.stats().memory_pages, 0, "{deleter} {node}");
            for (path, _) in &objects {
                let read = cluster.read(node, path).await;
                let is_gone = matches!(read, Err(object_store::Error::NotFound { .. }));
                assert!(is_gone, "{deleter} {node}: {read:?}");
            }
        }
        assert_eq!(cluster.network.take_suspects(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_cancelled_is_told_as_well() {
    let cluster = three(Consistency::Immutable).await;
    let before = new_bytes();
    let path = cluster.put("object", before.clone()).await;
    check_all(&cluster, &path, &before, "before").await;

    let after = new_bytes();
    let writer = (cluster.network.home(&path, 0) + 1) % 3;
    cluster.network.set_latency(Duration::from_millis(50));
    let write = cluster.nodes[writer].store.put(&path, after.clone().into());
    assert!(
        tokio::time::timeout(Duration::from_millis(10), write).await.is_err(),
        "it waits for the authority"
    );
    let is_seen = async || cluster.read(writer, &path).await.unwrap() == after;
    eventually("the write to be seen", is_seen).await;
    check_all(&cluster, &path, &after, "after").await;
}

#[tokio::test(start_paused = true)]
async fn a_version_from_a_former_authority_is_asked_for_again() {
    for writer in NODES {
        let cluster = three(Consistency::Immutable).await;
        let before = new_bytes();
        let path = cluster.put("object", before.clone()).await;
        check_all(&cluster, &path, &before, "before").await;

        // The next node becomes the authority, and does not know which nodes hold the version.
        cluster.network.set_views(&[1, 2, 0]);
        let after = new_bytes();
        cluster.nodes[writer].store.put(&path, after.clone().into()).await.unwrap();
        check_all(&cluster, &path, &after, "after").await;
    }
}

/// One node finds out that an object was replaced past the cluster. From then on, no node returns the former version,
/// though all of them could for hours.
#[tokio::test(start_paused = true)]
async fn reads_through_other_nodes_do_not_go_back_to_a_replaced_version() {
    let rule = Consistency::Ttl(Duration::from_secs(3_600));
    for finder in NODES {
        let cluster = three(rule).await;
        let before = noise(3 << 20, 1);
        let path = cluster.put("object", before.clone()).await;
        let read = async |node: usize, block: usize| {
            let range = (block * BLOCK) as u64..((block + 1) * BLOCK) as u64;
            cluster.nodes[node].store.get_range(&path, range).await.unwrap()
        };
        let slice = |data: &Bytes, block: usize| data.slice(block * BLOCK..(block + 1) * BLOCK);
        for node in NODES {
            assert!(read(node, 0).await == slice(&before, 0));
        }

        let after = noise(3 << 20, 2);
        cluster.put("object", after.clone()).await;
        for node in NODES {
            assert!(read(node, 0).await == slice(&before, 0), "the rule allows it");
        }

        assert!(read(finder, 40).await == slice(&after, 40));
        for node in NODES {
            assert!(read(node, 0).await == slice(&after, 0), "{finder} {node}");
        }
    }
}

#[tokio::test]
async fn a_listing_through_any_node_tells_all_of_a_replaced_object() {
    for lister in NODES {
        let cluster = three(Consistency::Immutable).await;
        let before = new_bytes();
        let path = cluster.put("object", before.clone()).await;
        check_all(&cluster, &path, &before, "before").await;
        let after = new_bytes();
        cluster.put("object", after.clone()).await;
        check_all(&cluster, &path, &before, "immutable").await;

        let request = ListRequest { max_keys: 10, ..ListRequest::default() };
        let page = cluster.nodes[lister].store.list_page(request).await.unwrap();
        assert_eq!(page.objects.len(), 1);
        for node in NODES {
            let is_seen = async || cluster.read(node, &path).await.unwrap() == after;
            eventually("the listed version to be read", is_seen).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_origin_is_asked_if_the_authority_is_not_there() {
    let cluster = three(Consistency::DEFAULT).await;
    let data = new_bytes();
    let path = cluster.put("object", data.clone()).await;
    let authority = cluster.network.home(&path, 0);
    let [down, cut] = [(authority + 1) % 3, (authority + 2) % 3];

    cluster.network.cut(authority, cut);
    let began = Instant::now();
    assert!(cluster.read(cut, &path).await.unwrap() == data);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let suspects = cluster.network.take_suspects();
    assert!(suspects.contains(&(cut, authority, PeerFault::Late(Duration::from_secs(5)))), "{suspects:?}");

    cluster.network.set_store(authority, None);
    assert!(cluster.read(down, &path).await.unwrap() == data);
    assert!(cluster.origin.heads() >= 2);

    let missing = cluster.read(down, &Path::from("missing")).await;
    assert!(matches!(missing, Err(object_store::Error::NotFound { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_authority_does_not_hear_of_is_seen_after_the_time_of_the_rule() {
    let cluster = three(Consistency::Ttl(Duration::from_secs(10))).await;
    let before = new_bytes();
    let path = cluster.put("object", before.clone()).await;
    check_all(&cluster, &path, &before, "before").await;

    let authority = cluster.network.home(&path, 0);
    let writer = (authority + 1) % 3;
    cluster.network.cut(authority, writer);
    let after = new_bytes();
    let began = Instant::now();
    cluster.nodes[writer].store.put(&path, after.clone().into()).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(cluster.read(writer, &path).await.unwrap() == after, "the writer asks the origin");

    sleep(Duration::from_secs(10)).await;
    check_all(&cluster, &path, &after, "after the time of the rule").await;
}

#[tokio::test(start_paused = true)]
async fn all_nodes_describe_an_object_alike() {
    let cluster = three(Consistency::DEFAULT).await;
    let path = Path::from("object");
    let attributes = Attributes::from_iter([
        (Attribute::ContentType, "text/plain"),
        (Attribute::Metadata("owner".into()), "caf\u{e9}"),
    ]);
    let options = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
    cluster.origin.memory.put_opts(&path, new_bytes().into(), options).await.unwrap();

    let origin = cluster.origin.memory.head(&path).await.unwrap();
    for node in NODES {
        let options = GetOptions::new().with_head(true);
        let described = cluster.nodes[node].store.get_opts(&path, options).await.unwrap();
        assert_eq!((described.meta, described.attributes), (origin.clone(), attributes.clone()), "{node}");
    }
    assert_eq!(cluster.origin.heads(), 1);
}
