//! Access control of the admin door.

use axum::http::{HeaderMap, StatusCode, header};
use base64::{Engine, prelude::BASE64_STANDARD};

use crate::config::{AccessKeyConfig, Secret};

/// The node's keys in the form in which the admin door receives them. An empty set admits everyone.
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
    /// `base64(id:secret)`, the form that HTTP basic authentication sends. Credentials are compared with it, not
    /// decoded.
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

    /// Checks access to names of objects in all buckets, which a key that is limited to prefixes does not have.
    pub(crate) fn may_see_names(&self, headers: &HeaderMap) -> Result<(), AdminAuthError> {
        self.check(headers, |key| key.prefixes.is_empty() && key.buckets.iter().any(|name| name == "*"))
    }

    /// Checks the right to change the cached data of a bucket: the key must have write access to it.
    pub(crate) fn may_change(&self, headers: &HeaderMap, bucket: &str) -> Result<(), AdminAuthError> {
        self.check(headers, |key| key.write && key.prefixes.is_empty() && key.opens(bucket))
    }

    /// Checks the right to take the node out of its cluster's placement: the key must have write access to all
    /// buckets.
    pub(crate) fn may_drain(&self, headers: &HeaderMap) -> Result<(), AdminAuthError> {
        self.check(headers, |key| {
            key.write && key.prefixes.is_empty() && key.buckets.iter().any(|name| name == "*")
        })
    }

    /// Checks the right to read an object, or to list the keys with a prefix.
    pub(crate) fn may_read(
        &self,
        headers: &HeaderMap,
        bucket: &str,
        key: &str,
    ) -> Result<(), AdminAuthError> {
        self.check(headers, |known| {
            let is_within = known.prefixes.is_empty()
                || known.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
            is_within && known.opens(bucket)
        })
    }

    /// Checks the right to cancel reads of other callers: the key must have write access to all buckets.
    pub(crate) fn may_cancel(&self, headers: &HeaderMap) -> Result<(), AdminAuthError> {
        self.may_drain(headers)
    }

    /// Returns true if callers must send a key.
    pub(crate) fn are_needed(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Returns the id of the key that the caller sent; the first one if several share its secret.
    pub(crate) fn id_of(&self, headers: &HeaderMap) -> Option<String> {
        let known = self.known(headers).ok()?;
        known.first().map(|key| key.id.clone())
    }

    /// Returns the id of the key that the caller sent; `None` on a node without keys.
    #[cfg(feature = "sql")]
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Option<String>, AdminAuthError> {
        self.check(headers, |_| true)?;
        Ok(self.id_of(headers))
    }

    fn check(
        &self,
        headers: &HeaderMap,
        allows: impl Fn(&AccessKeyConfig) -> bool,
    ) -> Result<(), AdminAuthError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let known = self.known(headers)?;
        if known.iter().any(|key| allows(key)) {
            Ok(())
        } else if known.is_empty() {
            Err(AdminAuthError::Unknown)
        } else {
            Err(AdminAuthError::Forbidden)
        }
    }

    /// Returns the keys that match the credentials in the headers.
    fn known(&self, headers: &HeaderMap) -> Result<Vec<&AccessKeyConfig>, AdminAuthError> {
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (scheme, credentials) =
            shown.and_then(|text| text.split_once(' ')).ok_or(AdminAuthError::Unknown)?;
        let credentials = credentials.trim();
        let matches = |key: &&AdminKey| match scheme.to_ascii_lowercase().as_str() {
            "bearer" => key.config.secret.matches(credentials),
            "basic" => key.basic.matches(credentials),
            _ => false,
        };

        Ok(self.keys.iter().filter(matches).map(|key| &key.config).collect())
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
    fn reading_needs_the_bucket_and_one_of_the_prefixes() {
        let limited = AccessKeyConfig {
            id: "limited".to_owned(),
            secret: Secret::new("l"),
            token: None,
            buckets: vec!["lake".to_owned()],
            prefixes: vec!["team/a/".to_owned()],
            write: false,
        };
        let keys = AdminKeys::new(&[limited]);
        let may = |bucket, key| keys.may_read(&shown("Bearer l"), bucket, key);
        assert_eq!(may("lake", "team/a/x.parquet"), Ok(()));
        for (bucket, key) in [("lake", ""), ("lake", "team/"), ("pond", "team/a/x.parquet")] {
            assert_eq!(may(bucket, key), Err(AdminAuthError::Forbidden), "{bucket} {key}");
        }
        assert_eq!(keys.may_read(&HeaderMap::new(), "lake", "team/a/x"), Err(AdminAuthError::Unknown));
        assert_eq!(keys.may_cancel(&shown("Bearer l")), Err(AdminAuthError::Forbidden));
        assert_eq!(keys.may_see_names(&shown("Bearer l")), Err(AdminAuthError::Forbidden));
        assert_eq!(keys.id_of(&shown("Bearer l")).as_deref(), Some("limited"));
        assert_eq!((keys.id_of(&HeaderMap::new()), keys.are_needed()), (None, true));
    }

    #[test]
    fn without_keys_everybody_is_let_in() {
        assert_eq!(AdminKeys::new(&[]).may_change(&HeaderMap::new(), "lake"), Ok(()));
    }
}
