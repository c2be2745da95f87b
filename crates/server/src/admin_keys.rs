//! Access control of the admin door.

use axum::http::{HeaderMap, StatusCode, header};
use base64::{Engine, prelude::BASE64_STANDARD};

use crate::config::{AccessKeyConfig, Secret};

/// The node's keys in the form that the admin door receives them. An empty set admits everybody.
pub(crate) struct AdminKeys {
    keys: Vec<AdminKey>,
}

impl std::fmt::Debug for AdminKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminKeys").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

struct AdminKey {
    config: AccessKeyConfig,
    /// `base64(id:secret)`, as HTTP basic authentication sends it. Credentials are compared with it, not decoded.
    basic: Secret,
}

/// Reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminAuthError {
    /// No key was sent, or an unknown one.
    Unknown,
    /// The key does not allow this.
    Forbidden,
}

impl AdminAuthError {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
        }
    }

    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Unknown => "show an access key: Authorization: Bearer SECRET, or basic with ID and SECRET",
            Self::Forbidden => "this access key does not allow it",
        }
    }
}

impl AdminKeys {
    pub(crate) fn new(keys: &[AccessKeyConfig]) -> Self {
        let with_basic = |config: &AccessKeyConfig| {
            let pair = format!("{}:{}", config.id, config.secret.expose());
            AdminKey { config: config.clone(), basic: Secret::new(BASE64_STANDARD.encode(pair)) }
        };
        Self { keys: keys.iter().map(with_basic).collect() }
    }

    /// Checks access to statistics, which cover all buckets and so need a key for all buckets.
    pub(crate) fn may_see(&self, headers: &HeaderMap) -> Result<(), AdminAuthError> {
        self.check(headers, |key| key.buckets.iter().any(|name| name == "*"))
    }

    /// Checks the right to change what is cached of a bucket: the key must write to it.
    pub(crate) fn may_change(&self, headers: &HeaderMap, bucket: &str) -> Result<(), AdminAuthError> {
        self.check(headers, |key| key.write && key.prefixes.is_empty() && key.opens(bucket))
    }

    /// Checks the right to take the node out of its cluster's placement: the key must write to all buckets.
    pub(crate) fn may_drain(&self, headers: &HeaderMap) -> Result<(), AdminAuthError> {
        self.check(headers, |key| {
            key.write && key.prefixes.is_empty() && key.buckets.iter().any(|name| name == "*")
        })
    }

    fn check(
        &self,
        headers: &HeaderMap,
        allows: impl Fn(&AccessKeyConfig) -> bool,
    ) -> Result<(), AdminAuthError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (scheme, credentials) =
            shown.and_then(|text| text.split_once(' ')).ok_or(AdminAuthError::Unknown)?;
        let credentials = credentials.trim();
        let known: Vec<_> = match scheme.to_ascii_lowercase().as_str() {
            "bearer" => self.keys.iter().filter(|key| key.config.secret.matches(credentials)).collect(),
            "basic" => self.keys.iter().filter(|key| key.basic.matches(credentials)).collect(),
            _ => Vec::new(),
        };

        if known.iter().any(|key| allows(&key.config)) {
            Ok(())
        } else if known.is_empty() {
            Err(AdminAuthError::Unknown)
        } else {
            Err(AdminAuthError::Forbidden)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> AdminKeys {
        let key = |id: &str, secret: &str, buckets: &[&str], write| AccessKeyConfig {
            id: id.to_owned(),
            secret: Secret::new(secret),
            token: None,
            buckets: buckets.iter().map(|name| (*name).to_owned()).collect(),
            prefixes: Vec::new(),
            write,
        };
        AdminKeys::new(&[
            key("admin", "a", &["*"], true),
            key("viewer", "v", &["*"], false),
            key("writer", "w", &["lake"], true),
        ])
    }

    fn shown(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn a_key_is_shown_as_bearer_or_basic() {
        assert_eq!(keys().may_see(&shown("Bearer a")), Ok(()));
        assert_eq!(keys().may_see(&shown(&format!("basic {}", BASE64_STANDARD.encode("admin:a")))), Ok(()));
        let wrong_id = format!("Basic {}", BASE64_STANDARD.encode("viewer:a"));
        for text in ["Bearer x", "Bearer", "Bearer ", "Digest a", wrong_id.as_str()] {
            assert_eq!(keys().may_see(&shown(text)), Err(AdminAuthError::Unknown), "{text}");
        }
        assert_eq!(keys().may_see(&HeaderMap::new()), Err(AdminAuthError::Unknown));
    }

    #[test]
    fn seeing_needs_all_buckets_and_changing_needs_to_write() {
        assert_eq!(keys().may_see(&shown("Bearer v")), Ok(()));
        assert_eq!(keys().may_see(&shown("Bearer w")), Err(AdminAuthError::Forbidden));
        assert_eq!(keys().may_change(&shown("Bearer a"), "lake"), Ok(()));
        assert_eq!(keys().may_change(&shown("Bearer w"), "lake"), Ok(()));
        assert_eq!(keys().may_change(&shown("Bearer w"), "other"), Err(AdminAuthError::Forbidden));
        assert_eq!(keys().may_change(&shown("Bearer v"), "lake"), Err(AdminAuthError::Forbidden));
        assert_eq!(keys().may_drain(&shown("Bearer a")), Ok(()));
        for key in ["Bearer v", "Bearer w"] {
            assert_eq!(keys().may_drain(&shown(key)), Err(AdminAuthError::Forbidden), "{key}");
        }
    }

    #[test]
    fn without_keys_everybody_is_let_in() {
        assert_eq!(AdminKeys::new(&[]).may_change(&HeaderMap::new(), "lake"), Ok(()));
    }
}
