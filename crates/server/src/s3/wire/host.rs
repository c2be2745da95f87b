//! Extracts the bucket from the Host header: `bucket.domain` for one of the node's domains.

use std::sync::Arc;

use s3s::{
    S3Result,
    host::{S3Host, VirtualHost},
    validation::NameValidation,
};

use crate::node::Node;

/// Resolves virtual-hosted style for the node's domains; any other host, such as the name of a proxy, means path
/// style.
pub(crate) struct VirtualHosts {
    pub(crate) node: Arc<Node>,
}

impl S3Host for VirtualHosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let name = without_port(host);
        let parsed = VirtualHost::new(name);
        Ok(match bucket_of(name, self.node.domains()) {
            Some(bucket) => parsed.with_bucket(bucket),
            None => parsed,
        })
    }
}

/// Returns the bucket that a Host header names, if any.
pub(crate) fn bucket_of_host<'a>(host: &'a str, domains: &[String]) -> Option<&'a str> {
    bucket_of(without_port(host), domains)
}

/// Accepts any bucket name: the answer for an unknown bucket is the same, whether or not its name is valid.
pub(crate) struct AnyBucketName;

impl NameValidation for AnyBucketName {
    fn validate_bucket_name(&self, name: &str) -> bool {
        !name.is_empty()
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Returns the bucket in `host`, using the longest domain that the host ends with: with the domains `a.b` and `b`,
/// `x.a.b` is the bucket `x`, not `x.a`.
fn bucket_of<'a>(host: &'a str, domains: &[String]) -> Option<&'a str> {
    let bucket = |domain: &String| {
        let at = host.len().checked_sub(domain.len())?;
        let head = host.get(..at)?;
        let tail = host.get(at..)?;
        tail.eq_ignore_ascii_case(domain).then_some(head)
    };
    let longest =
        domains.iter().filter_map(|domain| bucket(domain).filter(|h| h.is_empty() || h.ends_with('.')));
    longest.min_by_key(|head| head.len())?.strip_suffix('.').filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(host: &str) -> Option<&str> {
        let domains = ["localhost", "s3.example.com", "example.com"].map(String::from);
        bucket_of(without_port(host), &domains)
    }

    #[test]
    fn a_host_below_a_domain_names_a_bucket() {
        assert_eq!(bucket("lake.localhost"), Some("lake"));
        assert_eq!(bucket("lake.localhost:9000"), Some("lake"));
        assert_eq!(bucket("lake.LOCALHOST:9000"), Some("lake"));
        assert_eq!(bucket("my.lake.localhost"), Some("my.lake"));
    }

    #[test]
    fn the_longest_domain_decides() {
        assert_eq!(bucket("lake.s3.example.com"), Some("lake"));
        assert_eq!(bucket("s3.example.com"), None);
    }

    #[test]
    fn a_domain_itself_an_address_or_an_unknown_host_is_path_style() {
        for host in [
            "localhost",
            "localhost:9000",
            "127.0.0.1:9000",
            "[::1]:9000",
            "proxy",
            "notlocalhost",
            ".localhost",
        ] {
            assert_eq!(bucket(host), None, "{host}");
        }
    }
}
