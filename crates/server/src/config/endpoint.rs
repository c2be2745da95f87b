//! Refuses a node whose origin is the node itself: each read would trigger another one, until the connections run
//! out.
//!
//! This happens if the node is started from a shell whose environment variables point S3 clients at a node.

use std::net::{IpAddr, SocketAddr};

use stylobate_storage::without_credentials;
use url::{Host, Url};

use super::{BucketConfig, NodeConfig};
use crate::{Result, ServerError};

/// Options and variables that name the endpoint of an S3 origin. A group is consulted only if the earlier ones are
/// unset, as in the object_store crate.
const ENDPOINTS: [(&[&str], &[&str]); 2] = [
    (&["aws_endpoint_url_s3"], &["AWS_ENDPOINT_URL_S3"]),
    (
        &["endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url"],
        &["AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
    ),
];

impl NodeConfig {
    /// Checks that no origin resolves to `door`, the address to which the node's S3 door is bound. `env` looks up the
    /// environment variables that origins read.
    ///
    /// # Errors
    ///
    /// [`ServerError::OwnDoor`] for the first bucket whose origin does.
    pub fn check_endpoints(&self, door: SocketAddr, env: &dyn Fn(&str) -> Option<String>) -> Result<()> {
        for bucket in &self.buckets {
            let own = endpoints(bucket, env).into_iter().find(|(_, url)| leads_to(url, door));
            if let Some((given_by, url)) = own {
                let bucket = bucket.name.clone();
                let endpoint = without_credentials(&url);
                return Err(ServerError::OwnDoor { bucket, endpoint, given_by });
            }
        }
        Ok(())
    }
}

/// Returns the possible endpoints of the bucket's origin, each with the option or variable that names it.
fn endpoints(bucket: &BucketConfig, env: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let scheme = bucket.url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https") => return vec![("its URL".to_owned(), bucket.url.clone())],
        Some("s3" | "s3a") => {}
        _ => return Vec::new(),
    }

    for (options, variables) in ENDPOINTS {
        let given = bucket.options.iter().filter(|(key, _)| options.contains(&&*key.to_ascii_lowercase()));
        let given: Vec<_> = given.map(|(key, url)| (format!("option {key}"), url.clone())).collect();
        if !given.is_empty() {
            return given;
        }
        let set = variables.iter().filter_map(|name| Some((format!("env {name}"), env(name)?)));
        let set: Vec<_> = set.collect();
        if !set.is_empty() {
            return set;
        }
    }

    Vec::new()
}

/// Returns true if a client of `url` would reach the door that listens at `door`.
fn leads_to(url: &str, door: SocketAddr) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let bound = door.ip().to_canonical();
    let same_host = match url.host() {
        Some(Host::Domain(name)) => is_localhost(name) && (bound.is_loopback() || bound.is_unspecified()),
        Some(Host::Ipv4(address)) => reaches(address.into(), bound),
        Some(Host::Ipv6(address)) => reaches(IpAddr::V6(address).to_canonical(), bound),
        None => false,
    };
    same_host && url.port_or_known_default() == Some(door.port())
}

fn is_localhost(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns true if a connection to `address` reaches a listener bound to `bound`, as far as can be decided without
/// listing this machine's addresses. A connection to the unspecified address goes to loopback.
fn reaches(address: IpAddr, bound: IpAddr) -> bool {
    let here = address.is_loopback() || address.is_unspecified();
    address == bound || bound.is_unspecified() && here || bound.is_loopback() && address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_own(url: &str, door: &str) -> bool {
        leads_to(url, door.parse().unwrap())
    }

    #[test]
    fn localhost_and_its_addresses_lead_to_a_door_on_loopback() {
        for url in [
            "http://127.0.0.1:9000",
            "http://localhost:9000/",
            "http://lake.LOCALHOST:9000",
            "http://0.0.0.0:9000",
        ] {
            assert!(is_own(url, "127.0.0.1:9000"), "{url}");
            assert!(is_own(url, "0.0.0.0:9000"), "{url}");
        }

        assert!(is_own("http://[::1]:9000", "[::1]:9000"));
        assert!(is_own("http://127.0.0.1:9000", "[::]:9000"));
        assert!(is_own("http://10.0.0.1", "10.0.0.1:80"));
    }

    #[test]
    fn another_port_or_another_host_is_another_server() {
        for url in [
            "http://127.0.0.1:9900",
            "http://127.0.0.1",
            "https://s3.example.org:9000",
            "http://10.0.0.1:9000",
            "x",
            "",
        ] {
            assert!(!is_own(url, "127.0.0.1:9000"), "{url}");
        }
        assert!(!is_own("http://127.0.0.1:9000", "10.0.0.1:9000"));
        assert!(!is_own("http://localhost:9000", "10.0.0.1:9000"));
    }

    #[test]
    fn the_endpoint_is_the_one_that_the_origin_will_use() {
        let all = |name: &str| Some(format!("http://{name}"));
        let generic = |name: &str| (name == "AWS_ENDPOINT_URL").then(|| "http://generic".to_owned());
        let sources = |bucket: &BucketConfig, env| {
            endpoints(bucket, env).into_iter().map(|(given_by, _)| given_by).collect::<Vec<_>>()
        };
        let mut bucket = BucketConfig::new("lake", "s3://lake");
        assert_eq!(sources(&bucket, &|_| None), [""; 0]);
        assert_eq!(sources(&bucket, &generic), ["env AWS_ENDPOINT_URL"]);
        bucket.options.insert("Endpoint".to_owned(), "http://there".to_owned());

        assert_eq!(sources(&bucket, &generic), ["option Endpoint"]);
        assert_eq!(sources(&bucket, &all), ["env AWS_ENDPOINT_URL_S3"]);
        bucket.options.insert("aws_endpoint_url_s3".to_owned(), "http://there".to_owned());
        assert_eq!(sources(&bucket, &all), ["option aws_endpoint_url_s3"]);
    }

    #[test]
    fn what_the_variables_say_is_nothing_to_other_kinds_of_origins() {
        let door = |_: &str| Some("http://127.0.0.1:9000".to_owned());
        let check = |url: &str| {
            let config =
                NodeConfig { buckets: vec![BucketConfig::new("lake", url)], ..NodeConfig::default() };
            config.check_endpoints("127.0.0.1:9000".parse().unwrap(), &door)
        };

        for url in ["./data", "gs://lake", "az://lake", "memory:///", "http://127.0.0.1:9900/lake"] {
            assert!(check(url).is_ok(), "{url}");
        }
        let error = check("s3://lake").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("env AWS_ENDPOINT_URL_S3"), "{error}");
        let error = check("http://me:hunter2@127.0.0.1:9000/lake").unwrap_err().to_string();
        assert!(error.contains("its URL") && !error.contains("hunter2"), "{error}");
    }
}
