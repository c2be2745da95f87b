//! Who may do what: access keys, the buckets that each sees, and whether it writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::config::{AccessKeyConfig, Secret};

/// What a request wants of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To see objects, their metadata or their names.
    Read,
    /// To add, replace or delete objects.
    Write,
}

/// The access keys of a node. None at all means that everything is allowed: such a node listens on loopback only.
#[derive(Debug, Default)]
pub struct AccessKeys {
    keys: BTreeMap<String, AccessKey>,
    /// Tells these keys from those of another configuration.
    generation: u64,
}

struct AccessKey {
    secret: Secret,
    bearer: Secret,
    buckets: AllowedBuckets,
    /// What the keys of objects must begin with; any will do if there are none.
    prefixes: Vec<String>,
    write: bool,
}

#[derive(Debug)]
enum AllowedBuckets {
    All,
    Named(BTreeSet<String>),
}

impl AccessKeys {
    /// The keys that the configuration names. `"*"` among the buckets of a key stands for all of them.
    pub fn new(keys: &[AccessKeyConfig]) -> Self {
        let keys = keys.iter().map(|key| {
            let all = key.buckets.iter().any(|name| name == "*");
            let buckets = match all {
                true => AllowedBuckets::All,
                false => AllowedBuckets::Named(key.buckets.iter().cloned().collect()),
            };
            let (secret, bearer) = (key.secret.clone(), key.bearer().clone());
            let prefixes = key.prefixes.clone();
            (key.id.clone(), AccessKey { secret, bearer, buckets, prefixes, write: key.write })
        });
        Self { keys: keys.collect(), generation: rand::random() }
    }

    /// A number that the keys of no other configuration have.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether no key is configured, so that everything is allowed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The secret that signs requests of the key `id`.
    pub fn secret(&self, id: &str) -> Option<&Secret> {
        self.keys.get(id).map(|key| &key.secret)
    }

    /// The id of the key that this is the token of. Takes as long for one token as for another; where two keys
    /// have one token, it is the first key's.
    pub fn of_bearer(&self, token: &str) -> Option<&str> {
        let matching = |found: Option<_>, (id, key): (_, &AccessKey)| match key.bearer.matches(token) {
            true => found.or(Some(id)),
            false => found,
        };
        self.keys.iter().fold(None, matching).map(String::as_str)
    }

    /// Whether the key `id` sees all buckets, or a caller without one on a node without keys.
    pub fn sees_all(&self, id: Option<&str>) -> bool {
        let key = id.and_then(|id| self.keys.get(id));
        self.is_empty()
            || key.is_some_and(|key| matches!(key.buckets, AllowedBuckets::All) && key.prefixes.is_empty())
    }

    /// Whether the key `id`, or a caller without one, may do this to the bucket.
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

    /// Whether the key `id`, or a caller without one, may do this to an object, or to all objects whose keys begin so.
    pub fn allows_key(&self, id: Option<&str>, bucket: &str, object: &str, action: Action) -> bool {
        let key = id.and_then(|id| self.keys.get(id));
        let begins = |prefix: &String| object.starts_with(prefix.as_str());
        let is_within = key.is_none_or(|key| key.prefixes.is_empty() || key.prefixes.iter().any(begins));
        is_within && self.allows(id, bucket, action)
    }

    /// Whether the key `id` is for objects of certain prefixes only.
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
    fn debug_shows_no_secret() {
        let keys = AccessKeys::new(&[key("reader", &["lake"], false)]);
        assert!(!format!("{keys:?}").contains("hunter2") && !format!("{keys:?}").contains("token of"));
    }
}
