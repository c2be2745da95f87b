//! Access control: access keys, and the buckets that each may read or write.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::config::{AccessKeyConfig, Secret};

/// Kind of access to a bucket that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads objects, their metadata or their names.
    Read,
    /// Adds, replaces or deletes objects.
    Write,
}

/// Access keys of a node. An empty set allows everything, which is safe since such a node listens on loopback only.
#[derive(Debug, Default)]
pub struct AccessKeys {
    keys: BTreeMap<String, AccessKey>,
    /// Random number that distinguishes these keys from those of an earlier or later configuration.
    generation: u64,
}

struct AccessKey {
    secret: Secret,
    bearer: Secret,
    buckets: AllowedBuckets,
    /// Object key prefixes that it grants access to; empty grants access to all keys.
    prefixes: Vec<String>,
    write: bool,
}

#[derive(Debug)]
enum AllowedBuckets {
    All,
    Named(BTreeSet<String>),
}

impl AccessKeys {
    /// Builds the set from the configured keys. `"*"` among the buckets of a key stands for all buckets.
    pub fn new(keys: &[AccessKeyConfig]) -> Self {
        let keys = keys.iter().map(|key| {
            let all = key.buckets.iter().any(|name| name == "*");
            let buckets = if all {
                AllowedBuckets::All
            } else {
                AllowedBuckets::Named(key.buckets.iter().cloned().collect())
            };
            let secret = key.secret.clone();
            let bearer = key.bearer().clone();
            let prefixes = key.prefixes.clone();
            (key.id.clone(), AccessKey { secret, bearer, buckets, prefixes, write: key.write })
        });
        Self { keys: keys.collect(), generation: rand::random() }
    }

    /// Returns the generation: a random number that distinguishes these keys from those of any other
    /// configuration.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns true if no key is configured, so that everything is allowed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the secret that signs requests of the key `id`.
    pub fn secret(&self, id: &str) -> Option<&Secret> {
        self.keys.get(id).map(|key| &key.secret)
    }

    /// Returns the id of the key with this token, in time that does not depend on the token. If two keys share a
    /// token, the first one wins.
    pub fn of_bearer(&self, token: &str) -> Option<&str> {
        let matching = |found: Option<_>, (id, key): (_, &AccessKey)| {
            if key.bearer.matches(token) { found.or(Some(id)) } else { found }
        };
        self.keys.iter().fold(None, matching).map(String::as_str)
    }

    /// Returns the token of the key `id`, if the password is its secret or its token.
    pub(crate) fn token_of(&self, id: &str, password: &str) -> Option<&Secret> {
        let key = self.keys.get(id)?;
        let is_secret = key.secret.matches(password);
        let is_token = key.bearer.matches(password);
        (is_secret || is_token).then_some(&key.bearer)
    }

    /// Returns true if the key `id` sees all buckets, as does a caller without a key on a node without keys.
    pub fn sees_all(&self, id: Option<&str>) -> bool {
        let key = id.and_then(|id| self.keys.get(id));
        self.is_empty()
            || key.is_some_and(|key| matches!(key.buckets, AllowedBuckets::All) && key.prefixes.is_empty())
    }

    /// Returns true if the key `id`, or a caller without one, may do `action` in the bucket.
    pub fn allows(&self, id: Option<&str>, bucket: &str, action: Action) -> bool {
        if self.is_empty() {
            return true;
        }
        let Some(key) = id.and_then(|id| self.keys.get(id)) else { return false };
        let sees = match &key.buckets {
            AllowedBuckets::All => true,
            AllowedBuckets::Named(names) => names.contains(bucket),
        };
        sees && (action == Action::Read || key.write)
    }

    /// Returns true if the key `id`, or a caller without one, may do `action` to the object, or to all objects with
    /// this prefix.
    pub fn allows_key(&self, id: Option<&str>, bucket: &str, object: &str, action: Action) -> bool {
        let key = id.and_then(|id| self.keys.get(id));
        let begins = |prefix: &String| object.starts_with(prefix.as_str());
        let is_within = key.is_none_or(|key| key.prefixes.is_empty() || key.prefixes.iter().any(begins));
        is_within && self.allows(id, bucket, action)
    }

    /// Returns the object key prefixes that the key `id` grants access to: a single empty prefix if it is not
    /// limited.
    #[cfg(feature = "sql")]
    pub(crate) fn prefixes(&self, id: Option<&str>) -> Vec<String> {
        let key = id.and_then(|id| self.keys.get(id));
        let prefixes = key.map(|key| key.prefixes.clone()).filter(|prefixes| !prefixes.is_empty());
        prefixes.unwrap_or_else(|| vec![String::new()])
    }

    /// Returns true if the key `id` is limited to certain prefixes.
    pub fn is_limited_to_prefixes(&self, id: Option<&str>) -> bool {
        id.and_then(|id| self.keys.get(id)).is_some_and(|key| !key.prefixes.is_empty())
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKey").field("buckets", &self.buckets).field("write", &self.write).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, buckets: &[&str], write: bool) -> AccessKeyConfig {
        AccessKeyConfig {
            id: id.into(),
            secret: Secret::new("hunter2"),
            token: Some(Secret::new(format!("token of {id}"))),
            buckets: buckets.iter().map(|&name| name.into()).collect(),
            prefixes: Vec::new(),
            write,
        }
    }

    #[test]
    fn a_key_sees_only_its_buckets_and_writes_only_if_it_may() {
        let keys = AccessKeys::new(&[key("reader", &["lake"], false), key("admin", &["*"], true)]);
        assert!(keys.allows(Some("reader"), "lake", Action::Read));
        assert!(!keys.allows(Some("reader"), "lake", Action::Write));
        assert!(!keys.allows(Some("reader"), "other", Action::Read));
        assert!(keys.allows(Some("admin"), "other", Action::Write));
        assert!(!keys.allows(Some("stranger"), "lake", Action::Read));
        assert!(!keys.allows(None, "lake", Action::Read));
    }

    #[test]
    fn a_key_may_be_limited_to_prefixes() {
        let limited = AccessKeyConfig {
            prefixes: vec!["team/a/".into(), "shared/".into()],
            ..key("limited", &["lake"], true)
        };
        let keys = AccessKeys::new(&[limited, key("reader", &["lake"], false)]);
        let allows = |object| keys.allows_key(Some("limited"), "lake", object, Action::Write);
        assert!(allows("team/a/x") && allows("shared/"));
        assert!(!allows("team/b") && !allows("team/a") && !allows(""));
        assert!(!keys.allows_key(Some("limited"), "pond", "shared/x", Action::Read));
        assert!(keys.allows_key(Some("reader"), "lake", "any", Action::Read));
        assert!(keys.is_limited_to_prefixes(Some("limited")) && !keys.is_limited_to_prefixes(Some("reader")));
    }

    #[test]
    fn without_keys_everything_is_allowed() {
        assert!(AccessKeys::default().allows(None, "lake", Action::Write));
    }

    #[test]
    fn a_token_tells_whose_it_is() {
        let keys = AccessKeys::new(&[key("reader", &["lake"], false), key("admin", &["*"], true)]);
        assert_eq!(keys.of_bearer("token of reader"), Some("reader"));
        assert_eq!(keys.of_bearer("token of admin"), Some("admin"));
        for wrong in ["", "hunter2", "token of", "token of admin "] {
            assert_eq!(keys.of_bearer(wrong), None, "{wrong:?}");
        }
        assert!(keys.sees_all(Some("admin")) && !keys.sees_all(Some("reader")) && !keys.sees_all(None));
    }

    #[test]
    fn an_id_and_a_secret_or_token_give_the_token() {
        let keys = AccessKeys::new(&[key("reader", &["lake"], false), key("admin", &["*"], true)]);
        for password in ["hunter2", "token of reader"] {
            assert_eq!(keys.token_of("reader", password).map(Secret::expose), Some("token of reader"));
        }
        for (id, password) in [("reader", "token of admin"), ("reader", ""), ("stranger", "hunter2")] {
            assert_eq!(keys.token_of(id, password), None);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let keys = AccessKeys::new(&[key("reader", &["lake"], false)]);
        assert!(!format!("{keys:?}").contains("hunter2") && !format!("{keys:?}").contains("token of"));
    }
}
