//! `[cluster]`: the id of the node, its peer door, the other nodes, and the secret that all of them share.

use std::{fmt, net::SocketAddr, path::PathBuf};

use stylobate_client::{ClusterNode, NodeAddress, NodeDoor, NodeId, parse_nodes};

use super::{NodeSettings, Provenance, Secret, Setting, entry::entries::SecretEntry, shared_secret};
use crate::Result;

/// Membership of a node in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Id of the node, unique in the cluster.
    pub id: NodeId,
    /// Address of its peer door, at which the other nodes reach it.
    pub listen: SocketAddr,
    /// Source of the list of nodes.
    pub nodes: NodeListSource,
    /// Secret that all nodes of the cluster share.
    pub secret: Secret,
}

/// Source of the list of nodes. Addresses are those of peer doors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeListSource {
    /// The nodes, with distinct ids and addresses.
    Fixed(Vec<ClusterNode>),
    /// A file with one node per line, which is reread when it changes.
    File(PathBuf),
    /// A DNS name whose addresses are those of the nodes, and their common port. Each node reports its own id.
    Dns(NodeAddress),
}

impl fmt::Display for NodeListSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("configuration"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Dns(name) => write!(f, "DNS {name}"),
        }
    }
}

const SOURCES: &str = "one of `nodes`, `nodes_file` and `nodes_dns`";

impl NodeSettings {
    /// Returns true if a source of the node list is configured.
    pub(super) fn has_cluster(&self) -> bool {
        !self.cluster_nodes.is_empty()
            || self.cluster_nodes_file.is_some()
            || self.cluster_nodes_dns.is_some()
    }

    /// Returns the cluster that the node is in, if a source of the node list is configured; `env` looks up
    /// environment variables.
    pub(super) fn cluster(
        &self,
        provenance: &dyn Fn(Setting) -> Provenance,
        secret: Option<&SecretEntry>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<ClusterConfig>> {
        let mut sources = self.node_list_sources(provenance)?.into_iter();
        let Some((setting, nodes)) = sources.next() else {
            let given = [Setting::ClusterId, Setting::ClusterListen, Setting::ClusterNodes].map(provenance);
            let given = given.into_iter().find(|source| *source != Provenance::Default);
            return match given.or(secret.map(|secret| secret.given().from.clone())) {
                Some(source) => source.error(format!("a cluster needs a list of its nodes: give {SOURCES}")),
                None => Ok(None),
            };
        };

        if let Some((second, _)) = sources.next() {
            return provenance(second).error(format!("give {SOURCES}"));
        }
        let Some(secret) = shared_secret::resolve("secret", secret, env)? else {
            return provenance(setting).error(
                "a cluster needs a secret that all its nodes share: give `secret_file`, `secret_env` or `secret` in \
                 [cluster], such as `openssl rand -hex 32`",
            );
        };

        let id = match NodeId::new(&self.cluster_id) {
            Ok(id) => id,
            Err(error) => {
                return provenance(setting).error(format!(
                    "the name of this host cannot be the id of the node: {error}; give `id`"
                ));
            }
        };
        Ok(Some(ClusterConfig { id, listen: self.cluster_listen, nodes, secret }))
    }

    /// Returns the configured sources of the node list.
    fn node_list_sources(
        &self,
        provenance: &dyn Fn(Setting) -> Provenance,
    ) -> Result<Vec<(Setting, NodeListSource)>> {
        let mut sources = Vec::new();
        if !self.cluster_nodes.is_empty() {
            match parse_nodes(&self.cluster_nodes, NodeDoor::Peer) {
                Ok(nodes) => sources.push((Setting::ClusterNodes, NodeListSource::Fixed(nodes))),
                Err(error) => return provenance(Setting::ClusterNodes).error(format!("nodes: {error}")),
            }
        }
        if let Some(path) = &self.cluster_nodes_file {
            sources.push((Setting::ClusterNodesFile, NodeListSource::File(path.clone())));
        }
        if let Some(name) = &self.cluster_nodes_dns {
            sources.push((Setting::ClusterNodesDns, NodeListSource::Dns(name.clone())));
        }

        Ok(sources)
    }
}
