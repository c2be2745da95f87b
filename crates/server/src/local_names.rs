//! Host names that a node without access keys answers to.
//!
//! Such a node listens on loopback only, which does not keep out a web page in a browser on the same machine: a page
//! can have its own name resolved to 127.0.0.1 and send the node any request. The browser sends the page's name in
//! Host and Origin, by which the node recognizes and refuses such requests.

use std::net::IpAddr;

use http::{
    HeaderMap, Uri,
    header::{HOST, ORIGIN},
};

/// Message for a refused client.
pub(crate) const REFUSED: &str = "This node has no access keys and answers to names of this machine only: use localhost or 127.0.0.1, name the host with --domain, or configure an access key.";

/// Returns true if the request names a host other than this machine, or was sent by a web page of another host.
/// `checks_page` is false if the page is known to be allowed.
pub(crate) fn is_foreign(uri: &Uri, headers: &HeaderMap, domains: &[String], checks_page: bool) -> bool {
    let text = |name| headers.get(name).map(|value: &http::HeaderValue| value.to_str().unwrap_or("?"));
    let host = text(HOST).or_else(|| uri.authority().map(http::uri::Authority::as_str));
    let origin = text(ORIGIN).map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    [host, origin.filter(|_| checks_page)].into_iter().flatten().any(|host| !is_local(host, domains))
}

fn is_local(host: &str, domains: &[String]) -> bool {
    let name = without_port(host);
    let is_below = |domain: &str| {
        let at = name.len().checked_sub(domain.len());
        at.and_then(|at| name.get(at..)).is_some_and(|tail| tail.eq_ignore_ascii_case(domain))
            && at.is_none_or(|at| at == 0 || name.as_bytes().get(at - 1) == Some(&b'.'))
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_loopback = address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    name.is_empty() || is_loopback || is_below("localhost") || domains.iter().any(|domain| is_below(domain))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(pairs: &[(&'static str, &'static str)]) -> bool {
        let headers =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        is_foreign(&Uri::from_static("/"), &headers, &["s3.example.com".to_owned()], true)
    }

    #[test]
    fn names_of_this_machine_are_answered() {
        for host in [
            "localhost",
            "localhost:9000",
            "lake.localhost:9000",
            "127.0.0.1",
            "127.3.2.1:80",
            "[::1]:9000",
            "[::1]",
            "s3.example.com",
            "lake.s3.example.com:443",
            "LOCALHOST",
        ] {
            assert!(!is_refused(&[("host", host)]), "{host}");
        }
        assert!(!is_refused(&[]));
        assert!(!is_refused(&[("host", "localhost"), ("origin", "http://localhost:3000")]));
    }

    #[test]
    fn other_names_are_refused_as_host_and_as_origin() {
        for host in
            ["evil.example", "evil.example:9000", "notlocalhost", "localhost.evil.example", "10.0.0.1", "::2"]
        {
            assert!(is_refused(&[("host", host)]), "{host}");
        }
        for origin in ["http://evil.example", "null", "https://s3.example.com.evil"] {
            assert!(is_refused(&[("host", "localhost"), ("origin", origin)]), "{origin}");
        }
    }
}
