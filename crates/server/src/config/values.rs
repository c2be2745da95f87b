//! Parsers of setting values.

use std::{fmt::Display, net::SocketAddr, ops::RangeInclusive, path::PathBuf, str::FromStr};

use stylobate_client::{ClusterView, NodeAddress, NodeDoor, NodeId, parse_nodes};
use stylobate_storage::ByteSize;

use super::otlp;

const PAGE_SIZES: RangeInclusive<u64> = ByteSize::kib(64).as_u64()..=ByteSize::mib(16).as_u64();

/// Parses `127.0.0.1:9000`, `[::1]:9000` or `localhost:9000`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let spelled = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    spelled.parse().map_err(|_| {
        format!(
            "{text:?} is not an address and a port: write 127.0.0.1:9000, or 0.0.0.0:9000 for all interfaces"
        )
    })
}

/// Parses the address of an optional door; `off` means none.
pub(super) fn address_or_off(text: &str) -> Result<Option<SocketAddr>, String> {
    match text {
        "off" | "none" => Ok(None),
        _ => address(text).map(Some),
    }
}

/// Splits `FOLDER=SIZE`. A folder's name may contain `=`, so only text that parses as a size counts as one.
pub(super) fn folder_and_size(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once('=') {
        Some((folder, size)) if size.parse::<ByteSize>().is_ok() => (folder, Some(size)),
        _ => (text, None),
    }
}

pub(super) fn folder(text: &str) -> Result<Option<PathBuf>, &'static str> {
    match text {
        "" => Err("write FOLDER or FOLDER=SIZE, such as /var/cache/stylobate=100GiB"),
        folder => Ok(Some(folder.into())),
    }
}

pub(super) fn pem_file(text: &str) -> Result<Option<PathBuf>, &'static str> {
    match text {
        "" => Err("write the path of a file in PEM"),
        path => Ok(Some(path.into())),
    }
}

pub(super) fn page_size(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    if PAGE_SIZES.contains(&size.as_u64()) && size.as_u64().is_power_of_two() {
        return Ok(size);
    }
    Err(format!("{size} cannot be the size of a page: use a power of two from 64KiB to 16MiB"))
}

/// Parses a number within a range. Underscores between digits are allowed.
pub(super) fn whole_number<T: FromStr + PartialOrd + Display>(
    text: &str,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    let number = text.replace('_', "").parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from {} to {}", range.start(), range.end()))
}

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("must be true or false, not {text:?}"))
}

/// Parses a quantile of latencies, or `off`.
pub(super) fn quantile_or_off(text: &str) -> Result<Option<f64>, String> {
    match text.parse::<f64>() {
        _ if text == "off" => Ok(None),
        Ok(quantile) if (0.5..1.0).contains(&quantile) => Ok(Some(quantile)),
        _ => Err(format!("{text:?} is not a quantile: write 0.5 to 0.999, such as 0.95, or off")),
    }
}

/// Parses the endpoint of traces, or `off`.
pub(super) fn otlp_endpoint(text: &str) -> Result<Option<String>, String> {
    match text {
        "off" => Ok(None),
        _ => otlp::endpoint(text).map(Some),
    }
}

/// Parses comma-separated domains.
pub(super) fn domains(text: &str) -> Result<Vec<String>, String> {
    let domains = text.split(',').map(str::trim).filter(|domain| !domain.is_empty());
    domains.map(|domain| host(domain).map(|()| domain.to_ascii_lowercase())).collect()
}

pub(super) fn region(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    fits.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is not a region, such as us-east-1"))
}

/// Returns the name of this host; empty if the system reports none.
pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Validates the id of a cluster node.
pub(super) fn node_id(text: &str) -> Result<String, String> {
    NodeId::new(text).map(|id| id.to_string()).map_err(|error| error.to_string())
}

/// Parses the entries of a list of nodes, separated by semicolons: an entry may contain commas.
pub(super) fn node_entries(text: &str) -> Result<Vec<String>, String> {
    let entries: Vec<_> = text.split(';').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    if !entries.is_empty() {
        let nodes = parse_nodes(&entries, NodeDoor::Peer).map_err(|error| error.to_string())?;
        ClusterView::new(nodes).map_err(|error| error.to_string())?;
    }
    Ok(entries.into_iter().map(str::to_owned).collect())
}

pub(super) fn node_file(text: &str) -> Result<Option<PathBuf>, &'static str> {
    match text {
        "" => Err("write the path of a file with a node per line"),
        path => Ok(Some(path.into())),
    }
}

/// Parses the DNS name and port of the nodes, or `off`.
pub(super) fn node_address_or_off(text: &str) -> Result<Option<NodeAddress>, String> {
    match text {
        "off" => Ok(None),
        _ => text.parse().map(Some).map_err(|error: stylobate_client::Error| error.to_string()),
    }
}

fn host(domain: &str) -> Result<(), String> {
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    let (name, port) = domain.split_once(':').unwrap_or((domain, "0"));
    let fits = name.split('.').all(label) && port.parse::<u16>().is_ok();
    if fits { Ok(()) } else { Err(format!("{domain:?} is not a domain, such as s3.example.org")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_say_localhost_and_must_have_a_port() {
        assert_eq!(address("localhost:9"), Ok("127.0.0.1:9".parse().unwrap()));
        assert_eq!(address("[::1]:9"), Ok("[::1]:9".parse().unwrap()));
        for text in ["", "9000", ":9000", "127.0.0.1", "host:9000", "1.2.3.4:99999"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_after_the_folder_is_its_capacity() {
        assert_eq!(folder_and_size("/c=1GiB"), ("/c", Some("1GiB")));
        assert_eq!(folder_and_size("/a=b/c"), ("/a=b/c", None));
        assert_eq!(folder_and_size("/a=b=2MB"), ("/a=b", Some("2MB")));
        assert_eq!(folder_and_size("/c"), ("/c", None));
        assert_eq!(folder_and_size("=1GiB"), ("", Some("1GiB")));
        assert!(folder("").is_err());
    }

    #[test]
    fn a_page_is_a_power_of_two_from_64_kib_to_16_mib() {
        for text in ["64KiB", "1MiB", "16MiB", "131072"] {
            assert!(page_size(text).is_ok(), "{text}");
        }
        for text in ["0", "32KiB", "32MiB", "100KiB", "1MB", "x"] {
            assert!(page_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_of_nodes_is_checked_as_a_whole() {
        assert_eq!(node_entries("a=h:1,2; b=h:2"), Ok(vec!["a=h:1,2".to_owned(), "b=h:2".to_owned()]));
        assert_eq!(node_entries(""), Ok(Vec::new()));
        for (text, said) in [
            ("a=h:1;a=h:2", "two nodes have the id \"a\""),
            ("a=h:1;b=h:1", "have the same peer address h:1"),
            ("a=h", "the port is missing"),
        ] {
            let error = node_entries(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_domain_has_labels_and_perhaps_a_port() {
        for text in ["s3.example.org", "localhost", "localhost:9000"] {
            assert!(host(text).is_ok(), "{text}");
        }
        for text in ["", "a..b", "http://a", "a:b", "a/b"] {
            assert!(host(text).is_err(), "{text}");
        }
    }
}
