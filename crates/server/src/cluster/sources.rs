//! Sources of the list of nodes: the configuration, a file, or DNS.

use std::{collections::BTreeSet, time::Duration};

use stylobate_client::{ClusterNode, ClusterView, NodeAddress, NodeDoor, parse_node_file};
use stylobate_storage::run_blocking;
use tokio::{net::lookup_host, time::timeout};

use crate::config::NodeListSource;

/// Interval at which a file is reread.
const READ_FILE_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which a name is resolved again.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(3);
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A peer door named by a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedPeer {
    pub(super) address: NodeAddress,
    /// The node, or `None` if the peer reports its id itself.
    pub(super) node: Option<ClusterNode>,
}

impl NodeListSource {
    /// Returns the interval at which the list is reread; `None` if it cannot change.
    pub(super) fn interval(&self) -> Option<Duration> {
        match self {
            Self::Fixed(_) => None,
            Self::File(_) => Some(READ_FILE_INTERVAL),
            Self::Dns(_) => Some(RESOLVE_INTERVAL),
        }
    }

    /// Returns true if the list contains the ids of nodes. Otherwise each node reports its own.
    pub(super) fn has_ids(&self) -> bool {
        !matches!(self, Self::Dns(_))
    }

    /// Returns the host name that certificates of nodes must have, if it is not the host of their addresses.
    pub(super) fn certificate_name(&self) -> Option<&str> {
        match self {
            Self::Dns(name) => Some(name.host()),
            Self::Fixed(_) | Self::File(_) => None,
        }
    }

    /// Reads the list, which has at least one node. The error is one line that names the fault.
    pub(super) async fn read(&self) -> Result<Vec<ListedPeer>, String> {
        match self {
            Self::Fixed(nodes) => listed(nodes.clone()).map_err(|error| error.to_string()),
            Self::File(path) => {
                let file = path.clone();
                let text = run_blocking(move || std::fs::read_to_string(file)).await;
                let text = text.map_err(|error| error.to_string())?;
                let nodes = text.map_err(|error| error.to_string()).and_then(|text| {
                    let nodes = parse_node_file(&text, NodeDoor::Peer);
                    nodes.and_then(listed).map_err(|error| error.to_string())
                });
                nodes.map_err(|error| format!("{}: {error}", path.display()))
            }
            Self::Dns(name) => resolve(name).await.map_err(|error| format!("{name}: {error}")),
        }
    }
}

fn listed(nodes: Vec<ClusterNode>) -> stylobate_client::Result<Vec<ListedPeer>> {
    // Checks that ids and addresses are unique.
    let view = ClusterView::new(nodes)?;
    let peer = |node: &ClusterNode| {
        let address = node.addresses().peer.clone()?;
        Some(ListedPeer { address, node: Some(node.clone()) })
    };
    Ok(view.nodes().iter().filter_map(peer).collect())
}

async fn resolve(name: &NodeAddress) -> Result<Vec<ListedPeer>, String> {
    let found = timeout(RESOLVE_TIMEOUT, lookup_host((name.host(), name.port()))).await;
    let found = found.map_err(|_| "DNS does not answer in time".to_owned())?;
    let addresses: BTreeSet<_> = found.map_err(|error| error.to_string())?.collect();

    let addresses = addresses.into_iter().filter_map(|address| address.to_string().parse().ok());
    let peers: Vec<_> = addresses.map(|address| ListedPeer { address, node: None }).collect();
    if peers.is_empty() { Err("the name has no address".to_owned()) } else { Ok(peers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(peers: &[ListedPeer]) -> Vec<String> {
        peers.iter().map(|peer| peer.address.to_string()).collect()
    }

    #[tokio::test]
    async fn a_file_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes");
        let source = NodeListSource::File(path.clone());
        assert!(source.has_ids() && source.interval().is_some());
        let missing = source.read().await.unwrap_err();
        assert!(missing.contains("nodes: ") && missing.contains("No such file"), "{missing}");

        std::fs::write(&path, "b=127.0.0.1:2\na=127.0.0.1:1 # first\n").unwrap();
        let peers = source.read().await.unwrap();
        assert_eq!(addresses(&peers), ["127.0.0.1:1", "127.0.0.1:2"]);
        assert_eq!(peers[0].node.as_ref().unwrap().id().as_str(), "a");

        for (text, said) in [
            ("", "the list of nodes is empty"),
            ("a=h", "line 1: "),
            ("a=h:1\na=h:2", "two nodes have the id \"a\""),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = source.read().await.unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[tokio::test]
    async fn a_name_is_each_of_its_addresses() {
        let local = NodeListSource::Dns("localhost:9003".parse().unwrap());
        assert!(!local.has_ids());
        let peers = local.read().await.unwrap();
        assert!(addresses(&peers).contains(&"127.0.0.1:9003".to_owned()), "{peers:?}");
        assert!(peers.iter().all(|peer| peer.node.is_none()));

        let gone = NodeListSource::Dns("no-such-name.invalid:9003".parse().unwrap());
        let error = gone.read().await.unwrap_err();
        assert!(error.starts_with("no-such-name.invalid:9003: "), "{error}");
    }
}
