//! Writes and listings: they go to the authority, and are repeated only if that is safe.

use futures::TryStreamExt;
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart, path::Path,
};
use stylobate_client::PathHash;

use crate::fake::{FakeCluster, Fault};

fn payload(text: &str) -> PutPayload {
    text.as_bytes().to_vec().into()
}

/// Returns the ids of the nodes in rank order for stripe 0 of a path.
fn ranked(cluster: &FakeCluster, path: &Path) -> Vec<String> {
    let key = PathHash::of("lake", path.as_ref()).stripe(0);
    cluster.view().rank(key, 3).iter().map(|node| node.id().to_string()).collect()
}

/// Returns the operations requested from a node since the last call.
fn operations(cluster: &FakeCluster, id: &str) -> Vec<&'static str> {
    cluster.node(id).take_requests().into_iter().map(|request| request.operation).collect()
}

#[tokio::test]
async fn writes_go_to_the_authority() {
    let cluster = FakeCluster::of_three();
    let store = cluster.store();
    for n in 0..10 {
        let path = Path::from(format!("table/{n}"));
        let ranked = ranked(&cluster, &path);
        store.put(&path, payload("x")).await.unwrap();
        let mut upload = WriteMultipart::new(store.put_multipart(&path).await.unwrap());
        upload.write(b"parts");
        upload.finish().await.unwrap();
        store.head(&path).await.unwrap();
        store.copy(&path, &path).await.unwrap();
        store.delete(&path).await.unwrap();
        assert_eq!(operations(&cluster, &ranked[0]), ["put", "upload", "head", "copy", "delete"]);
        assert!(operations(&cluster, &ranked[1]).is_empty() && operations(&cluster, &ranked[2]).is_empty());
    }
}

#[tokio::test]
async fn a_write_without_a_condition_is_repeated_at_the_deputy() {
    let cluster = FakeCluster::of_three();
    let path = Path::from("a");
    let ranked = ranked(&cluster, &path);
    for fault in [Fault::Refuse, Fault::Break] {
        let store = cluster.store();
        cluster.node(&ranked[0]).fail_next([fault]);
        store.put(&path, payload("x")).await.unwrap();
        assert_eq!(operations(&cluster, &ranked[1]), ["put"], "{fault:?}");
        cluster.node(&ranked[0]).take_requests();
    }
}

#[tokio::test]
async fn a_write_on_a_condition_is_repeated_only_if_nothing_was_done() {
    let cluster = FakeCluster::of_three();
    let store = cluster.store();
    let path = Path::from("a");
    let ranked = ranked(&cluster, &path);

    cluster.node(&ranked[0]).fail_next([Fault::Refuse]);
    store.put_opts(&path, payload("x"), PutMode::Create.into()).await.unwrap();
    assert_eq!(operations(&cluster, &ranked[1]), ["put"]);
    let again = store.put_opts(&path, payload("x"), PutMode::Create.into()).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })));

    let store = cluster.store();
    cluster.node(&ranked[0]).fail_next([Fault::Break]);
    let broken = store.put_opts(&path, payload("x"), PutMode::Create.into()).await;
    assert!(matches!(broken, Err(Error::Generic { .. })), "another attempt could conflict with this one");
}

#[tokio::test]
async fn a_listing_goes_on_after_the_last_key() {
    let cluster = FakeCluster::of_three();
    let store = cluster.store();
    let mut expected: Vec<Path> = (0..50).map(|n| Path::from(format!("t/{n:02}"))).collect();
    for path in &expected {
        cluster.bucket.put(path, payload("x")).await.unwrap();
    }
    expected.sort();

    let prefix = Path::from("t");
    let key = |listed: Vec<ObjectMeta>| listed.into_iter().map(|meta| meta.location).collect::<Vec<_>>();
    for node in cluster.nodes() {
        node.fail_next([Fault::BreakAfter(7), Fault::BreakAfter(3), Fault::Refuse]);
    }
    let listed = store.list(Some(&prefix)).try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(key(listed), expected);

    for node in cluster.nodes() {
        node.fail_next([Fault::BreakAfter(7)]);
    }
    let listed = store.list_with_offset(Some(&prefix), &expected[10]);
    assert_eq!(key(listed.try_collect::<Vec<_>>().await.unwrap()), expected[11..]);

    for node in cluster.nodes().take(2) {
        node.fail(Some(Fault::Break));
    }
    assert_eq!(store.list_with_delimiter(Some(&prefix)).await.unwrap().objects.len(), 50);
}

#[tokio::test]
async fn a_listing_that_no_node_answers_fails() {
    let cluster = FakeCluster::of_three();
    for node in cluster.nodes() {
        node.fail(Some(Fault::Break));
    }
    assert!(cluster.store().list(None).try_collect::<Vec<_>>().await.is_err());
}
