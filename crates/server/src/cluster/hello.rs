//! The hello that nodes exchange at each probe, and the check that two nodes are compatible.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stylobate_client::NodeId;
use stylobate_storage::{ByteSize, Origin};

use super::status::NodeTraffic;

/// Version of the requests and answers of the peer door.
pub(crate) const PROTOCOL: u64 = 2;

/// A node's description of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct NodeHello {
    /// Version of the peer door.
    pub(crate) protocol: u64,
    /// Version of the software.
    pub(crate) version: String,
    pub(crate) id: String,
    /// A random number of the process, which distinguishes two processes configured with the same id.
    pub(crate) instance: u64,
    /// Bytes of a page.
    pub(crate) page_size: u64,
    /// Buckets whose pages can be shared, each with the hash of its origin.
    pub(crate) buckets: BTreeMap<String, String>,
    /// Digest of the node's view of the cluster.
    pub(crate) digest: String,
    pub(crate) draining: bool,
    /// Ports of the client doors that are reachable at the host of the peer door.
    #[serde(default)]
    pub(crate) ports: DoorPorts,
    /// True if its Flight door runs tasks of queries that other nodes planned.
    #[serde(default)]
    pub(crate) runs_queries: bool,
}

/// Ports of a node's client doors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct DoorPorts {
    pub(crate) s3: Option<u16>,
    pub(crate) flight: Option<u16>,
}

/// The answer to a hello.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct HelloAnswer {
    pub(crate) hello: NodeHello,
    pub(crate) traffic: NodeTraffic,
}

/// The result of comparing the settings of two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HelloVerdict {
    Agrees,
    /// They can work together, except for the difference that the text names.
    Differs(String),
    /// They cannot work together.
    Refused(String),
}

impl HelloAnswer {
    /// Parses the answer of a peer. The error is one line that names the fault.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let unreadable = |_| "its answer cannot be read: is it a node of this version?".to_owned();
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(unreadable)?;
        // Another protocol version may have other fields, so the version is read first.
        let protocol = value.pointer("/hello/protocol").and_then(|protocol| protocol.as_u64());
        if let Some(protocol) = protocol.filter(|protocol| *protocol != PROTOCOL) {
            return Err(other_protocol(protocol));
        }

        let answer: Self = serde_json::from_value(value).map_err(unreadable)?;
        NodeId::new(&answer.hello.id).map_err(|error| error.to_string())?;
        Ok(answer)
    }
}

fn other_protocol(protocol: u64) -> String {
    format!(
        "it speaks version {protocol} of the peer protocol, and this node version {PROTOCOL}: update the older one"
    )
}

impl NodeHello {
    /// Compares the settings of a peer with those of this node.
    pub(super) fn compare(&self, peer: &Self) -> HelloVerdict {
        if peer.protocol != self.protocol {
            return HelloVerdict::Refused(other_protocol(peer.protocol));
        }
        if peer.page_size != self.page_size {
            let [theirs, ours] = [peer.page_size, self.page_size].map(ByteSize::bytes);
            return HelloVerdict::Refused(format!(
                "its page_size is {theirs}, and that of this node is {ours}: give all nodes the same"
            ));
        }

        for (name, origin) in &self.buckets {
            match peer.buckets.get(name) {
                Some(other) if other == origin => {}
                Some(_) => {
                    return HelloVerdict::Differs(format!(
                        "bucket {name} has another origin there: give all nodes the same URL and endpoint"
                    ));
                }
                None => {
                    return HelloVerdict::Differs(format!("it has no bucket {name}, which this node has"));
                }
            }
        }
        match peer.buckets.keys().find(|name| !self.buckets.contains_key(*name)) {
            Some(name) => HelloVerdict::Differs(format!("it has a bucket {name}, which this node has not")),
            None => HelloVerdict::Agrees,
        }
    }
}

/// Returns a hash that identifies an origin, or `None` if no other machine can read the same bytes: for a folder,
/// whose versions contain inodes of this machine, and for a store in memory.
pub(crate) fn origin_hash(origin: &Origin) -> Option<String> {
    if origin.folder().is_some() || origin.name().starts_with("memory:") {
        return None;
    }
    let endpoint = origin.s3().map_or("", |s3| s3.url());
    let mut hasher = blake3::Hasher::new();
    hasher.update(origin.name().as_bytes()).update(b"\0").update(endpoint.as_bytes());
    let hash = hasher.finalize().to_hex();
    Some(hash.chars().take(32).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cluster) fn hello(id: &str, instance: u64) -> NodeHello {
        NodeHello {
            protocol: PROTOCOL,
            version: "1.0.0".to_owned(),
            id: id.to_owned(),
            instance,
            page_size: 1 << 20,
            buckets: [("lake".to_owned(), "hash".to_owned())].into(),
            digest: String::new(),
            draining: false,
            ports: DoorPorts::default(),
            runs_queries: true,
        }
    }

    #[test]
    fn nodes_of_another_protocol_or_page_size_cannot_work_together() {
        let own = hello("a", 1);
        assert_eq!(own.compare(&hello("b", 2)), HelloVerdict::Agrees);
        let refused = |peer: NodeHello| match own.compare(&peer) {
            HelloVerdict::Refused(reason) => reason,
            other => panic!("{other:?}"),
        };

        let protocol = refused(NodeHello { protocol: 1, ..hello("b", 2) });
        assert!(protocol.starts_with("it speaks version 1 of the peer protocol"), "{protocol}");
        let page_size = refused(NodeHello { page_size: 2 << 20, ..hello("b", 2) });
        assert!(page_size.starts_with("its page_size is 2MiB, and that of this node is 1MiB"), "{page_size}");
    }

    #[test]
    fn a_bucket_that_only_one_of_them_has_is_no_obstacle() {
        let own = hello("a", 1);
        let with = |buckets: &[(&str, &str)]| {
            let pairs = buckets.iter().map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()));
            let peer = NodeHello { buckets: pairs.collect(), ..hello("b", 2) };
            match own.compare(&peer) {
                HelloVerdict::Differs(reason) => reason,
                other => panic!("{other:?}"),
            }
        };
        assert!(with(&[("lake", "another")]).starts_with("bucket lake has another origin there"));
        assert!(with(&[]).starts_with("it has no bucket lake"));
        assert!(with(&[("lake", "hash"), ("sea", "hash")]).starts_with("it has a bucket sea"));
    }

    #[test]
    fn an_answer_of_another_protocol_is_told_from_noise() {
        let traffic = NodeTraffic { bytes_read: 10, bytes_cached: 5, ..NodeTraffic::default() };
        let text = serde_json::to_string(&HelloAnswer { hello: hello("b", u64::MAX), traffic }).unwrap();
        let answer = HelloAnswer::parse(text.as_bytes()).unwrap();
        assert_eq!((answer.hello, answer.traffic), (hello("b", u64::MAX), traffic));

        let newer = HelloAnswer::parse(br#"{"hello":{"protocol":3,"name":"b"}}"#).unwrap_err();
        assert!(newer.starts_with("it speaks version 3"), "{newer}");
        for noise in ["", "{}", "[1]", "<html>", &text.replace("\"b\"", "\"b c\"")] {
            assert!(HelloAnswer::parse(noise.as_bytes()).is_err(), "{noise}");
        }
    }
}
