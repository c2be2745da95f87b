//! The view: described by the nodes, refreshed, and otherwise that of the given nodes.

use std::time::Duration;

use object_store::{ObjectStoreExt, PutPayload, path::Path};
use serde_json::json;
use stylobate_client::{ClusterStore, ClusterStoreOptions, ClusterView, NodeState};

use crate::{
    eventually::eventually,
    fake::{FakeCluster, Fault},
};

fn states(store: &ClusterStore) -> Vec<(String, NodeState)> {
    let view: ClusterView = store.view();
    view.nodes().iter().map(|node| (node.id().to_string(), node.state())).collect()
}

fn ids(store: &ClusterStore) -> Vec<String> {
    store.view().nodes().iter().map(|node| node.id().to_string()).collect()
}

/// Returns a description of nodes, each with an id, a state and an S3 address.
fn description(nodes: &[(&str, &str, Option<&str>)]) -> String {
    let nodes: Vec<_> = nodes
        .iter()
        .map(|(id, state, s3)| json!({"id": id, "weight": 1, "state": state, "s3": s3, "flight": null}))
        .collect();
    json!({"digest": "0123456789abcdef", "nodes": nodes}).to_string()
}

fn brisk() -> ClusterStoreOptions {
    ClusterStoreOptions::default().with_refresh_interval(Duration::from_millis(20))
}

/// Sends a request, and checks that it is answered.
async fn touch(store: &ClusterStore) {
    let path = Path::from("a");
    store.put(&path, PutPayload::new()).await.unwrap();
    store.get(&path).await.unwrap();
}

#[tokio::test]
async fn the_nodes_tell_the_view_before_the_first_request() {
    let cluster = FakeCluster::of_three();
    let nodes = [("a", "up", Some("a:1")), ("b", "up", Some("b:1")), ("c", "draining", Some("c:1"))];
    cluster.node("b").describe_as(&description(&nodes));
    let store = cluster.store_of(cluster.seeds(&["b"]), ClusterStoreOptions::default());
    assert_eq!(ids(&store), ["b"]);
    touch(&store).await;
    let expected = [("a", NodeState::Up), ("b", NodeState::Up), ("c", NodeState::Draining)];
    assert_eq!(states(&store), expected.map(|(id, state)| (id.to_owned(), state)));
}

#[tokio::test]
async fn nodes_without_a_cluster_are_the_view_themselves() {
    let cluster = FakeCluster::of_three();
    cluster.node("a").describe_as("<ListAllMyBucketsResult></ListAllMyBucketsResult>");
    cluster.node("c").describe_as(r#"{"digest": null, "nodes": []}"#);
    let store = cluster.store();
    touch(&store).await;
    assert_eq!(ids(&store), ["a", "b", "c"]);
}

#[tokio::test]
async fn the_view_is_asked_for_again_while_the_store_is_used() {
    let cluster = FakeCluster::of_three();
    let store = cluster.store_of(cluster.seeds(&["a", "b"]), brisk());
    touch(&store).await;
    assert_eq!(ids(&store), ["a", "b"]);

    let nodes = [("a", "up", Some("a:1")), ("b", "up", Some("b:1")), ("c", "up", Some("c:1"))];
    for node in cluster.nodes() {
        node.describe_as(&description(&nodes));
    }
    eventually("the third node", async || {
        touch(&store).await;
        ids(&store) == ["a", "b", "c"]
    })
    .await;

    // An invalid description is ignored.
    for node in cluster.nodes() {
        node.describe_as(&description(&[("a", "up", Some("a:1")), ("a", "up", Some("b:1"))]));
    }
    touch(&store).await;
    assert_eq!(ids(&store), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_node_that_fails_is_down_until_it_answers_again() {
    let cluster = FakeCluster::of_three();
    let store = cluster.store_of(cluster.seeds(&["a", "b", "c"]), brisk());
    touch(&store).await;
    cluster.node("b").fail(Some(Fault::Refuse));
    let is_down =
        |store: &ClusterStore| store.view().node("b").is_some_and(|node| node.state() == NodeState::Down);
    eventually("b is down", async || {
        for n in 0..20 {
            store.put(&Path::from(format!("{n}")), PutPayload::new()).await.unwrap();
        }
        is_down(&store)
    })
    .await;

    cluster.node("b").fail(None);
    eventually("b is up", async || {
        touch(&store).await;
        !is_down(&store)
    })
    .await;
}

#[tokio::test]
async fn the_given_nodes_are_asked_if_those_of_the_view_cannot_be_reached() {
    let cluster = FakeCluster::new(&["door=balancer:1"]);
    let nodes = [("a", "up", Some("inside-a:1")), ("b", "up", Some("inside-b:1")), ("c", "up", None)];
    cluster.node("door").describe_as(&description(&nodes));
    let store = cluster.store();
    touch(&store).await;
    assert_eq!(ids(&store), ["a", "b", "c"]);
    assert!(!cluster.node("door").take_requests().is_empty());
}

#[test]
fn nodes_without_s3_addresses_are_refused() {
    let cluster = FakeCluster::of_three();
    let nodes = stylobate_client::parse_nodes(["a=h:1"], stylobate_client::NodeDoor::Peer).unwrap();
    let error = ClusterStore::new(nodes, cluster.clone(), brisk()).unwrap_err().to_string();
    assert!(error.contains("the node \"a\" has no S3 address"), "{error}");
    let error = ClusterStore::new([], cluster, brisk()).unwrap_err().to_string();
    assert!(error.contains("the list of nodes is empty"), "{error}");
}
