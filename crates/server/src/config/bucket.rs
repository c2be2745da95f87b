//! What a bucket may be called, what its URL would call it, and what its entry says.

use std::{collections::BTreeMap, path::Path};

use stylobate_storage::Consistency;

use super::{BucketConfig, PrefixRule, Sourced, entries::BucketEntry, provenance::Provenance};
use crate::Result;

/// Whether a bucket may have this name: 1 to 63 lower-case letters, digits, `.`, `-` and `_`, beginning and ending
/// with a letter or digit. That is a little more than S3 allows.
pub fn check_bucket_name(name: &str) -> Result<(), String> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let edge = |c: Option<char>| c.is_some_and(letter);
    let fits = (1..=63).contains(&name.len())
        && edge(name.chars().next())
        && edge(name.chars().next_back())
        && name.chars().all(|c| letter(c) || ".-_".contains(c))
        && !name.contains("..");
    if fits {
        return Ok(());
    }
    Err(format!(
        "{name:?} cannot name a bucket: use 1 to 63 lower-case letters, digits, '.', '-' and '_', beginning and \
         ending with a letter or digit"
    ))
}

/// The name that a URL or folder gives its bucket: the last segment of the path, or else the host. `None` if
/// neither can name a bucket.
pub fn name_of_url(url: &str) -> Option<String> {
    let path = match url.split_once("://") {
        Some((scheme, "" | "/")) => scheme,
        Some((_, rest)) => rest.split(['?', '#']).next().unwrap_or_default(),
        None => url,
    };
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_host = url.contains("://") && !path.trim_end_matches('/').contains('/');
    let segment = if is_host {
        let host = last.rsplit_once('@').filter(|_| url.starts_with("http")).map_or(last, |(_, host)| host);
        host.split([':', '@']).next().unwrap_or_default().to_owned()
    } else if matches!(last, "." | "..") {
        let folder = Path::new(url).canonicalize().ok()?;
        folder.file_name()?.to_string_lossy().into_owned()
    } else {
        last.to_owned()
    };
    let name = segment.to_ascii_lowercase();
    check_bucket_name(&name).is_ok().then_some(name)
}

/// What is said once for all buckets.
pub(super) struct Defaults {
    /// How fresh answers are.
    pub(super) consistency: Sourced<Consistency>,
    /// Whether writes are refused everywhere.
    pub(super) read_only: Sourced<bool>,
}

/// A bucket, and where what was not said in its own place came from.
pub(super) struct ResolvedBucket {
    pub(super) config: BucketConfig,
    pub(super) entry: BucketEntry,
    pub(super) consistency_from: Provenance,
    pub(super) read_only_from: Provenance,
}

/// Understands an entry.
pub(super) fn resolve(entry: BucketEntry, defaults: &Defaults) -> Result<ResolvedBucket> {
    let name = match &entry.name {
        Some(name) => name.parse("name", |name| check_bucket_name(name).map(|()| name.to_owned()))?.value,
        None => match name_of_url(&entry.url.value) {
            Some(name) => name,
            None => {
                let shown = super::without_credentials(&entry.url.value);
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

    // A flag or variable for all buckets overrides what the file says of one.
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
    let options: BTreeMap<_, _> =
        entry.options.iter().map(|(key, given)| (key.clone(), given.value.clone())).collect();
    let config = BucketConfig {
        name,
        url: entry.url.value.clone(),
        options,
        consistency: consistency.value,
        rules,
        read_only: read_only.value,
    };
    Ok(ResolvedBucket { config, entry, consistency_from: consistency.from, read_only_from: read_only.from })
}

fn strongest<T: Clone>(own: Option<Sourced<T>>, all: &Sourced<T>) -> Sourced<T> {
    match own {
        Some(own) if own.from.rank() >= all.from.rank() => own,
        _ => all.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_name_follows_the_rules_of_s3_and_may_have_underscores() {
        for name in ["a", "lake", "my-lake.v1", "tpc_h", "0", &"a".repeat(63)] {
            assert_eq!(check_bucket_name(name), Ok(()), "{name}");
        }
        for name in ["", "Lake", "a/b", "-a", "a-", ".a", "a..b", "a b", "ä", &"a".repeat(64)] {
            assert!(check_bucket_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_url_gives_its_bucket_the_last_segment_or_the_host() {
        for (url, name) in [
            ("./data", "data"),
            ("/srv/Lake/", "lake"),
            ("s3://bucket", "bucket"),
            ("s3://bucket/", "bucket"),
            ("s3://bucket/a/lake", "lake"),
            ("https://host:8080", "host"),
            ("https://me:pw@host:8080", "host"),
            ("https://host/files?sig=x/y", "files"),
            ("abfss://container@account.dfs", "container"),
            ("memory://", "memory"),
            ("memory:///", "memory"),
            ("file:///srv/lake", "lake"),
        ] {
            assert_eq!(name_of_url(url).as_deref(), Some(name), "{url}");
        }
        for url in ["", "/", "s3://bucket/day=1", "./my data"] {
            assert_eq!(name_of_url(url), None, "{url}");
        }
    }

    #[test]
    fn the_folder_here_is_called_by_its_real_name() {
        let here = std::env::current_dir().unwrap();
        let name = here.file_name().unwrap().to_str().unwrap().to_ascii_lowercase();
        assert_eq!(name_of_url("."), Some(name));
    }
}
