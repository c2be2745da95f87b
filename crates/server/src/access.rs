//! Who may do what: access keys, the buckets that each sees, and whether it writes.

use std::{
    collections::{BTreeSet, HashMap},
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
    keys: HashMap<String, AccessKey>,
}

struct AccessKey {
    secret: Secret,
    buckets: Buckets,
    write: bool,
}

#[derive(Debug)]
enum Buckets {
    All,
    Named(BTreeSet<String>),
}

impl AccessKeys {
    /// The keys that the configuration names. `"*"` among the buckets of a key stands for all of them.
    pub fn new(keys: &[AccessKeyConfig]) -> Self {
        let keys = keys.iter().map(|key| {
            let all = key.buckets.iter().any(|name| name == "*");
            let buckets = match all {
                true => Buckets::All,
                false => Buckets::Named(key.buckets.iter().cloned().collect()),
            };
            (key.id.clone(), AccessKey { secret: key.secret.clone(), buckets, write: key.write })
        });
        Self { keys: keys.collect() }
    }

    /// Whether no key is configured, so that everything is allowed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The secret that signs requests of the key `id`.
    pub fn secret(&self, id: &str) -> Option<&Secret> {
        self.keys.get(id).map(|key| &key.secret)
    }

    /// Whether the key `id`, or a caller without one, may do this to the bucket.
    pub fn allows(&self, id: Option<&str>, bucket: &str, action: Action) -> bool {
        if self.is_empty() {
            return true;
        }
        let Some(key) = id.and_then(|id| self.keys.get(id)) else { return false };
        let sees = match &key.buckets {
            Buckets::All => true,
            Buckets::Named(names) => names.contains(bucket),
        };
        sees && (action == Action::Read || key.write)
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
            buckets: buckets.iter().map(|&name| name.into()).collect(),
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
    fn without_keys_everything_is_allowed() {
        assert!(AccessKeys::default().allows(None, "lake", Action::Write));
    }

    #[test]
    fn debug_shows_no_secret() {
        let keys = AccessKeys::new(&[key("reader", &["lake"], false)]);
        assert!(!format!("{keys:?}").contains("hunter2"));
    }
}
