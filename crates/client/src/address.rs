//! Addresses at which other machines reach a node.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use crate::{Error, Result, door::NodeDoor};

/// Maximum length of a host name in bytes.
pub(crate) const MAX_HOST_BYTES: usize = 253;

/// Host and port at which other machines reach a listener of a node: `node-1:9003`, `10.0.0.1:9003`,
/// `[fd00::1]:9003`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress {
    host: String,
    port: u16,
}

impl NodeAddress {
    /// Returns the host in lower case: a name or an IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of another port on the same host.
    pub fn with_port(&self, port: u16) -> Self {
        Self { host: self.host.clone(), port }
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for NodeAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |reason| Error::InvalidAddress { text: without_user(text).to_owned(), reason };
        if text.contains("://") || text.contains('/') {
            return Err(invalid("give host and port only, without a scheme or a path"));
        }
        if text.contains('@') {
            return Err(invalid("an address must not contain a user or password"));
        }

        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(invalid("the port is missing, as in `host:9003`"));
        };
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = Some(port).filter(|_| is_number).and_then(|port| port.parse().ok());
        let Some(port) = port.filter(|port: &u16| *port > 0) else {
            return Err(invalid("the port is not a number from 1 to 65535"));
        };

        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) => match inner.parse::<Ipv6Addr>() {
                Ok(address) => address.to_string(),
                Err(_) => return Err(invalid("the brackets contain no IPv6 address")),
            },
            None if host.contains(':') => {
                return Err(invalid("an IPv6 address is written in brackets, as in `[fd00::1]:9003`"));
            }
            None => host.to_ascii_lowercase(),
        };

        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        if host.is_empty() || host.len() > MAX_HOST_BYTES || !host.bytes().all(is_allowed) {
            return Err(invalid("the host is not a name or an IP address"));
        }
        if host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
            return Err(invalid("other machines cannot connect to an unspecified address"));
        }

        Ok(Self { host, port })
    }
}

/// Returns the input without the user and password before an `@`, so that it can be quoted in an error.
pub(crate) fn without_user(text: &str) -> &str {
    text.rsplit_once('@').map_or(text, |(_, rest)| rest)
}

/// Known addresses of a node's listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAddresses {
    /// Address of the S3 door.
    pub s3: Option<NodeAddress>,
    /// Address of the Flight door.
    pub flight: Option<NodeAddress>,
    /// Address of the peer door.
    pub peer: Option<NodeAddress>,
}

impl NodeAddresses {
    /// Returns the address of a door.
    pub fn get(&self, door: NodeDoor) -> Option<&NodeAddress> {
        match door {
            NodeDoor::S3 => self.s3.as_ref(),
            NodeDoor::Flight => self.flight.as_ref(),
            NodeDoor::Peer => self.peer.as_ref(),
        }
    }

    /// Adds or replaces the address of a door.
    pub fn with(mut self, door: NodeDoor, address: NodeAddress) -> Self {
        *self.slot(door) = Some(address);
        self
    }

    fn slot(&mut self, door: NodeDoor) -> &mut Option<NodeAddress> {
        match door {
            NodeDoor::S3 => &mut self.s3,
            NodeDoor::Flight => &mut self.flight,
            NodeDoor::Peer => &mut self.peer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (text, host, shown) in [
            ("Node-1.Lake:9003", "node-1.lake", "node-1.lake:9003"),
            ("10.0.0.1:9003", "10.0.0.1", "10.0.0.1:9003"),
            ("[FD00:0::1]:9003", "fd00::1", "[fd00::1]:9003"),
        ] {
            let address: NodeAddress = text.parse().unwrap();
            assert_eq!((address.host(), address.port()), (host, 9003));
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse(), Ok(address));
        }

        for text in [
            "",
            "host",
            "host:",
            ":9003",
            "host:0",
            "host:65536",
            "host:+1",
            "fd00::1:9003",
            "[host]:9003",
            "[]:1",
            "http://host:9003",
            "host:9003/",
            "a host:1",
            "0.0.0.0:9003",
            "[::]:9003",
        ] {
            assert!(matches!(text.parse::<NodeAddress>(), Err(Error::InvalidAddress { .. })), "{text:?}");
        }
    }

    #[test]
    fn a_password_is_in_no_error() {
        for text in ["http://me:hunter2@host:9003", "me:hunter2@host:9003", "me:hunter2@"] {
            let error = text.parse::<NodeAddress>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
