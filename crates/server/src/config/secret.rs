//! Text that is never printed, and what is left of URLs and options when they are.

use std::fmt;

use serde::{Serialize, Serializer};

/// What stands where a secret is.
pub(crate) const HIDDEN: &str = "***";

/// A secret. `Debug`, `Display` and `Serialize` all print `***`; only [`expose`](Self::expose) gives the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text into custody.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself: for checking a signature, never for printing.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `candidate` is this secret, in a time that does not tell how much of it is right.
    pub fn matches(&self, candidate: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), candidate.as_bytes());
        let differences = ours.iter().zip(theirs).fold(0, |all, (a, b)| all | (a ^ b));
        ours.len() == theirs.len() && std::hint::black_box(differences) == 0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

/// A URL without what may be a credential: user and password, query and fragment.
pub fn without_credentials(url: &str) -> String {
    let (rest, query) = match url.find(['?', '#']).filter(|_| url.contains("://")) {
        Some(at) => (&url[..at], format!("{}{HIDDEN}", &url[at..=at])),
        None => (url, String::new()),
    };
    let Some((scheme, rest)) = rest.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // `abfss://container@account` names a container where others have a user.
    match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') || scheme.starts_with("http") => {
            format!("{scheme}://{HIDDEN}@{host}{path}{query}")
        }
        _ => format!("{scheme}://{authority}{path}{query}"),
    }
}

/// A text in which every URL is one [`without_credentials`]: an origin's own errors may quote what they sent.
pub(crate) fn scrubbed(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let scheme =
            rest[..at].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '+').map_or(0, |end| end + 1);
        // What is not ASCII is longer than the one byte that is skipped here.
        let scheme = (scheme..=at).find(|start| rest.is_char_boundary(*start)).unwrap_or(at);
        let end = rest[at..].find(|c: char| c.is_whitespace() || "\"'<>()`".contains(c));
        let end = end.map_or(rest.len(), |end| at + end);
        out.push_str(&rest[..scheme]);
        out.push_str(&without_credentials(&rest[scheme..end]));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Whether the value of an origin's option must not be shown.
pub(crate) fn is_secret_option(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["secret", "token", "password", "key", "credential", "sas", "signature"]
        .iter()
        .any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {}", serde_json::to_string(&secret).unwrap()),
            "*** *** \"***\""
        );
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn a_secret_matches_only_itself() {
        let secret = Secret::new("hunter2");
        assert!(secret.matches("hunter2"));
        for other in ["", "hunter", "hunter3", "hunter22"] {
            assert!(!secret.matches(other), "{other}");
        }
    }

    #[test]
    fn a_url_is_shown_without_user_password_and_query() {
        for (url, shown) in [
            ("./data", "./data"),
            ("a?b", "a?b"),
            ("s3://bucket/a/b", "s3://bucket/a/b"),
            ("https://me:pw@host:80/a", "https://***@host:80/a"),
            ("https://token@host", "https://***@host"),
            ("https://host/a?sig=abc&x=1", "https://host/a?***"),
            ("https://a:b@host/a@b#c", "https://***@host/a@b#***"),
            ("abfss://container@account.dfs/x", "abfss://container@account.dfs/x"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    #[test]
    fn urls_within_a_text_are_scrubbed() {
        for (text, shown) in [
            ("no url", "no url"),
            ("HEAD http://me:pw@h/a in 5ms", "HEAD http://***@h/a in 5ms"),
            ("(https://h/?sig=x) and é\"s3://b/c\"", "(https://h/?***) and é\"s3://b/c\""),
            ("éhttp://a:b@c", "éhttp://***@c"),
            ("://", "://"),
        ] {
            assert_eq!(scrubbed(text), shown);
        }
    }

    #[test]
    fn options_that_may_hold_credentials_are_told_by_their_name() {
        for key in ["access_key_id", "AWS_SECRET_ACCESS_KEY", "session_token", "password", "sas_key"] {
            assert!(is_secret_option(key), "{key}");
        }
        for key in ["endpoint", "region", "allow_http"] {
            assert!(!is_secret_option(key), "{key}");
        }
    }
}
