//! Validates bucket names, and derives them from URLs.

use std::path::Path;

/// A name that no bucket may have. Choose another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} cannot name a bucket: use 1 to 63 lower-case letters, digits, '.', '-' and '_', beginning and ending \
     with a letter or digit"
)]
pub struct InvalidBucketNameError {
    name: String,
}

/// Checks that a bucket may have this name: 1 to 63 lower-case letters, digits, `.`, `-` and `_`, beginning and
/// ending with a letter or digit. S3 allows slightly less.
///
/// # Errors
///
/// [`InvalidBucketNameError`] if it may not.
pub fn check_bucket_name(name: &str) -> Result<(), InvalidBucketNameError> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let edge = |c: Option<char>| c.is_some_and(letter);
    let fits = (1..=63).contains(&name.len())
        && edge(name.chars().next())
        && edge(name.chars().next_back())
        && name.chars().all(|c| letter(c) || ".-_".contains(c))
        && !name.contains("..");

    if fits { Ok(()) } else { Err(InvalidBucketNameError { name: name.to_owned() }) }
}

/// Returns the name that a URL or folder gives its bucket: the last segment of the path, or else the host. `None` if
/// neither is a valid bucket name.
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
