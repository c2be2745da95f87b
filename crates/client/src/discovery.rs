//! Parses node lists: the entries of a configuration, and the content of a node file.
//!
//! ```text
//! [id=]host:port[,weight][,s3=host:port][,flight=host:port][,peer=host:port][,draining]
//! ```
//!
//! The first address belongs to the door that the reader of the list needs. Without an id, the host is the id.

use crate::{
    Error, Result,
    address::{NodeAddress, NodeAddresses, without_user},
    door::NodeDoor,
    node::{ClusterNode, NodeId, NodeState, NodeWeight},
};

/// Parses an entry such as `a=10.0.0.1:9003`, `10.0.0.1:9003,2` or `a=10.0.0.1:9003,weight=2,s3=10.0.0.1:9000`. The
/// first address belongs to `door`.
///
/// # Errors
///
/// [`Error::InvalidId`], [`Error::InvalidAddress`], [`Error::InvalidWeight`] or [`Error::InvalidField`].
pub fn parse_node(entry: &str, door: NodeDoor) -> Result<ClusterNode> {
    // Check this first, so that no part of a password is quoted as another field.
    if entry.contains('@') {
        let text = without_user(entry).to_owned();
        return Err(Error::InvalidAddress { text, reason: "an address must not contain a user or password" });
    }

    let mut fields = entry.split(',').map(str::trim);
    let first = fields.next().unwrap_or_default();
    let (id, address) = match first.split_once('=') {
        Some((id, address)) => (Some(id.trim()), address.trim()),
        None => (None, first),
    };
    let address: NodeAddress = address.parse()?;
    let id = NodeId::new(id.unwrap_or(address.host()))?;

    let addresses = NodeAddresses::default().with(door, address);
    parse_fields(fields, id, addresses)
}

/// Parses the fields after the first, and returns the node with this id.
fn parse_fields<'a>(
    fields: impl Iterator<Item = &'a str>,
    id: NodeId,
    mut addresses: NodeAddresses,
) -> Result<ClusterNode> {
    let mut weight: Option<NodeWeight> = None;
    let mut state = NodeState::Up;
    for field in fields {
        let given_twice = || Error::InvalidField { field: field.to_owned(), reason: "is given twice" };
        match parse_field(field)? {
            NodeField::Weight(_) if weight.is_some() => return Err(given_twice()),
            NodeField::Weight(given) => weight = Some(given),
            NodeField::Address(door, _) if addresses.get(door).is_some() => return Err(given_twice()),
            NodeField::Address(door, address) => addresses = addresses.with(door, address),
            NodeField::Draining if state == NodeState::Draining => return Err(given_twice()),
            NodeField::Draining => state = NodeState::Draining,
        }
    }

    let node = ClusterNode::new(id, addresses).with_weight(weight.unwrap_or_default());
    Ok(node.with_state(state))
}

/// A field of an entry after the first.
enum NodeField {
    Weight(NodeWeight),
    Address(NodeDoor, NodeAddress),
    Draining,
}

fn parse_field(field: &str) -> Result<NodeField> {
    let unknown = || Error::InvalidField { field: field.to_owned(), reason: "is unknown" };
    let Some((name, value)) = field.split_once('=') else {
        let is_weight = field.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
        return match field {
            "draining" => Ok(NodeField::Draining),
            _ if is_weight => field.parse().map(NodeField::Weight),
            _ => Err(unknown()),
        };
    };

    let value = value.trim();
    match name.trim() {
        "weight" => value.parse().map(NodeField::Weight),
        name => {
            let door = NodeDoor::ALL.into_iter().find(|door| door.name() == name).ok_or_else(unknown)?;
            Ok(NodeField::Address(door, value.parse()?))
        }
    }
}

/// Parses the entries of a list. [`ClusterView::new`](crate::ClusterView::new) checks that they are consistent.
///
/// # Errors
///
/// See [`parse_node`].
pub fn parse_nodes(
    entries: impl IntoIterator<Item = impl AsRef<str>>,
    door: NodeDoor,
) -> Result<Vec<ClusterNode>> {
    entries.into_iter().map(|entry| parse_node(entry.as_ref(), door)).collect()
}

/// Parses the content of a file: one entry per line. Blank lines and text after a `#` are ignored.
///
/// A file that is being rewritten may be empty or truncated: if the content is invalid, keep the previous view.
///
/// # Errors
///
/// [`Error::InvalidLine`].
pub fn parse_node_file(text: &str, door: NodeDoor) -> Result<Vec<ClusterNode>> {
    let mut nodes = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let node = parse_node(entry, door)
            .map_err(|error| Error::InvalidLine { line: number, error: Box::new(error) })?;
        nodes.push(node);
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(entry: &str) -> Result<ClusterNode> {
        parse_node(entry, NodeDoor::Peer)
    }

    #[test]
    fn an_entry_has_an_id_an_address_and_a_weight() {
        let node = parse("a=10.0.0.1:9003,2").unwrap();
        assert_eq!((node.id().as_str(), node.weight().get(), node.state()), ("a", 2, NodeState::Up));
        assert_eq!(node.addresses().peer, Some("10.0.0.1:9003".parse().unwrap()));
        assert_eq!(parse(" a = 10.0.0.1:9003 , weight = 2 ").unwrap(), node);

        let named = parse("Node-1.lake:9003").unwrap();
        assert_eq!((named.id().as_str(), named.weight().get()), ("node-1.lake", 1));
        assert_eq!(parse("[fd00::1]:9003").unwrap().id().as_str(), "fd00::1");
    }

    #[test]
    fn an_entry_may_name_all_doors() {
        let node = parse("a=h:1,s3=h:2,flight=h:3,draining").unwrap();
        let addresses = NodeDoor::ALL.map(|door| node.addresses().get(door).map(NodeAddress::port));
        assert_eq!(addresses, [Some(2), Some(3), Some(1)]);
        assert_eq!(node.state(), NodeState::Draining);
        let client = parse_node("a=h:2,peer=h:1,flight=h:3,draining", NodeDoor::S3).unwrap();
        assert_eq!(client, node);
    }

    #[test]
    fn a_wrong_entry_says_what_is_wrong() {
        for (entry, expected) in [
            ("", "\"\" is not the address of a node: the port is missing"),
            ("a=", "\"\" is not the address"),
            ("=h:1", "\"\" is not a node id: it is empty"),
            ("a b=h:1", "\"a b\" is not a node id"),
            ("a=h:1,0", "\"0\" is not a weight: use a whole number from 1 to 65535"),
            ("a=h:1,1.5", "\"1.5\" is not a weight"),
            ("a=h:1,weight=x", "\"x\" is not a weight"),
            ("a=h:1,", "\"\" of a node is unknown: an entry is `id=host:port`"),
            ("a=h:1,wieght=2", "\"wieght=2\" of a node is unknown"),
            ("a=h:1,2,weight=2", "\"weight=2\" of a node is given twice"),
            ("a=h:1,peer=h:2", "\"peer=h:2\" of a node is given twice"),
            ("a=h:1,draining,draining", "\"draining\" of a node is given twice"),
        ] {
            let error = parse(entry).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{entry:?}: {error}");
        }
    }

    #[test]
    fn a_password_in_an_entry_is_in_no_error() {
        for entry in
            ["http://me:hunter2@h:1", "a=me:hunter2@h:1", "a=h:1,s3=me:hunter2@h:2", "me:hunter2=x@h:1"]
        {
            let error = parse(entry).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_file_has_an_entry_per_line() {
        let text = "# three nodes\r\na=h:1\r\n\n  b=h:2,3 # larger\n#c=h:3\nd=h:4";
        let nodes = parse_node_file(text, NodeDoor::Peer).unwrap();
        let ids: Vec<_> = nodes.iter().map(|node| (node.id().as_str(), node.weight().get())).collect();
        assert_eq!(ids, [("a", 1), ("b", 3), ("d", 1)]);
        assert_eq!(nodes.len(), parse_nodes(["a=h:1", "b=h:2,3", "d=h:4"], NodeDoor::Peer).unwrap().len());

        let error = parse_node_file("a=h:1\n\nb=h", NodeDoor::Peer).unwrap_err().to_string();
        assert!(error.starts_with("line 3: \"h\" is not the address of a node"), "{error}");
        assert_eq!(parse_node_file("", NodeDoor::Peer), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a=:,\\[\\]0-9@#\\n é]{0,40}|\\PC{0,40}") {
            let _ = parse_node_file(&text, NodeDoor::S3);
        }

        #[test]
        fn an_address_prints_as_it_is_parsed(host in "[a-z0-9][a-z0-9.-]{0,20}", port in 1_u16..) {
            let text = format!("{host}:{port}");
            if let Ok(address) = text.parse::<NodeAddress>() {
                prop_assert_eq!(address.to_string(), text);
            }
        }
    }
}
