//! The admin door of a node as the arguments of a command name it: its URL, and the file with a secret.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use stylobate_server::config::Secret;

/// Parses the URL of an admin door.
pub(crate) fn url(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    if host.is_some_and(|host| !host.is_empty() && !host.starts_with('/')) {
        return Ok(text.to_owned());
    }

    match text.split_once("://") {
        Some(("http" | "https", _)) => Err("it names no host: write http://HOST:9001".to_owned()),
        Some((scheme, _)) => Err(format!("the admin door speaks HTTP, not {scheme}: write http://HOST:9001")),
        None => Err(format!("write http://{text}")),
    }
}

/// Reads the secret of an access key from a file, without the end of its line.
///
/// # Errors
///
/// If the file cannot be read.
pub(crate) fn read_secret(file: Option<&Path>) -> Result<Option<Secret>> {
    let Some(file) = file else { return Ok(None) };
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_an_admin_door_has_a_scheme_and_a_host() {
        for text in ["http://127.0.0.1:9001", "https://node-1:9001/", "http://[::1]:9001"] {
            assert_eq!(url(text), Ok(text.to_owned()));
        }
        for (text, advice) in [
            ("localhost:9001", "write http://localhost:9001"),
            ("grpc://node:9002", "not grpc: write http://HOST:9001"),
            ("http://", "write http://HOST:9001"),
            ("http:///api", "write http://HOST:9001"),
        ] {
            assert!(url(text).unwrap_err().ends_with(advice), "{text}");
        }
    }
}
