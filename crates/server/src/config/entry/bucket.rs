//! Parses and validates the entry of a bucket.

use std::collections::BTreeMap;

use stylobate_storage::{Consistency, Durability, without_credentials};

use super::{
    bucket_name::{check_bucket_name, name_of_url},
    entries::BucketEntry,
};
use crate::{
    Result,
    config::{BucketConfig, PrefixRule, Provenance, Sourced},
};

/// Settings that apply to all buckets.
pub(crate) struct BucketDefaults {
    /// Default consistency.
    pub(crate) consistency: Sourced<Consistency>,
    /// True if all buckets refuse writes.
    pub(crate) read_only: Sourced<bool>,
}

/// A bucket, and the provenance of the values that its entry does not set.
pub(crate) struct ResolvedBucket {
    pub(crate) config: BucketConfig,
    pub(crate) entry: BucketEntry,
    pub(crate) consistency_from: Provenance,
    pub(crate) read_only_from: Provenance,
}

/// Resolves an entry.
pub(crate) fn resolve(entry: BucketEntry, defaults: &BucketDefaults) -> Result<ResolvedBucket> {
    let name = match &entry.name {
        Some(name) => name.parse("name", |name| check_bucket_name(name).map(|()| name.to_owned()))?.value,
        None => match name_of_url(&entry.url.value) {
            Some(name) => name,
            None => {
                let shown = without_credentials(&entry.url.value);
                return entry.from.error(format!("{shown} cannot name its bucket: write NAME={shown}"));
            }
        },
    };

    if entry.url.value.is_empty() {
        return entry
            .url
            .from
            .error(format!("bucket {name} has no URL: write a folder or a URL such as s3://…"));
    }

    // A flag or variable for all buckets overrides the file's value for one.
    let own = match &entry.consistency {
        Some(given) => Some(given.parse("consistency", str::parse::<Consistency>)?),
        None => None,
    };
    let consistency = strongest(own, &defaults.consistency);
    let read_only = strongest(entry.read_only.clone(), &defaults.read_only);

    let mut rules = Vec::new();
    for (prefix, given) in &entry.rules {
        let consistency = given.parse("consistency", str::parse::<Consistency>)?.value;
        rules.push(PrefixRule { prefix: prefix.clone(), consistency });
    }
    let durability = match &entry.durability {
        Some(given) => given.parse("durability", str::parse::<Durability>)?.value,
        None => Durability::default(),
    };
    let options: BTreeMap<_, _> =
        entry.options.iter().map(|(key, given)| (key.clone(), given.value.clone())).collect();
    let config = BucketConfig {
        name,
        url: entry.url.value.clone(),
        options,
        consistency: consistency.value,
        rules,
        read_only: read_only.value,
        follow_links: entry.follow_links.as_ref().is_some_and(|given| given.value),
        durability,
        cors: entry.cors.iter().map(|rule| rule.value.clone()).collect(),
    };

    Ok(ResolvedBucket { config, entry, consistency_from: consistency.from, read_only_from: read_only.from })
}

fn strongest<T: Clone>(own: Option<Sourced<T>>, all: &Sourced<T>) -> Sourced<T> {
    match own {
        Some(own) if own.from.rank() >= all.from.rank() => own,
        _ => all.clone(),
    }
}
