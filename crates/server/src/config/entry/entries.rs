//! Unvalidated entries of buckets and access keys.

use super::bucket_name::check_bucket_name;
use crate::{
    Result,
    config::{CorsRule, Given, Provenance, Secret, Sourced},
};

/// A `[[bucket]]` table of the file, or an `--origin` flag.
#[derive(Clone, Debug)]
pub(crate) struct BucketEntry {
    pub(crate) from: Provenance,
    /// The name, or `None` to derive it from the URL.
    pub(crate) name: Option<Given>,
    pub(crate) url: Given,
    pub(crate) options: Vec<(String, Given)>,
    pub(crate) consistency: Option<Given>,
    /// Consistency rules, each a prefix and its consistency.
    pub(crate) rules: Vec<(String, Given)>,
    pub(crate) read_only: Option<Sourced<bool>>,
    /// True if symbolic links that lead out of a folder are followed.
    pub(crate) follow_links: Option<Sourced<bool>>,
    /// Durability of completed writes to a folder.
    pub(crate) durability: Option<Given>,
    /// CORS rules, each with its provenance.
    pub(crate) cors: Vec<Sourced<CorsRule>>,
}

impl BucketEntry {
    /// Parses `NAME=URL`, or a URL that also gives the name.
    ///
    /// Text before the first `=` is a name only if it is a valid one: in `s3://lake/day=1` it is not.
    pub(crate) fn parse(text: &str, from: Provenance) -> Self {
        let name_and_url = text.split_once('=').filter(|(name, _)| check_bucket_name(name).is_ok());
        let (name, url) = match name_and_url {
            Some((name, url)) => (Some(Given::new(name, from.clone())), url),
            None => (None, text),
        };
        Self {
            name,
            url: Given::new(url, from.clone()),
            options: Vec::new(),
            consistency: None,
            rules: Vec::new(),
            read_only: None,
            follow_links: None,
            durability: None,
            cors: Vec::new(),
            from,
        }
    }
}

/// An `[[access_key]]` table of the file, or an `--access-key` flag.
#[derive(Clone, Debug)]
pub(crate) struct AccessKeyEntry {
    pub(crate) from: Provenance,
    pub(crate) id: Given,
    pub(crate) secret: SecretEntry,
    pub(crate) token: Option<SecretEntry>,
    /// The buckets, or `None` for all.
    pub(crate) buckets: Option<Vec<Given>>,
    /// The prefixes, or `None` for all keys.
    pub(crate) prefixes: Option<Vec<Given>>,
    pub(crate) write: Sourced<bool>,
}

/// Source of a secret.
#[derive(Clone)]
pub(crate) enum SecretEntry {
    Text(Given),
    /// In an environment variable.
    Env(Given),
    /// In a file, without its trailing line break.
    File(Given),
}

impl SecretEntry {
    /// Returns the text as written: the secret itself, or its location.
    pub(crate) fn given(&self) -> &Given {
        match self {
            Self::Text(given) | Self::Env(given) | Self::File(given) => given,
        }
    }

    /// Reads the secret. `key` names the entry in errors if it holds the text itself; `env` looks up environment
    /// variables.
    pub(crate) fn read(&self, key: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Secret> {
        let from = &self.given().from;
        let secret = match self {
            Self::Text(given) => given.value.clone(),
            Self::Env(given) => match env(&given.value) {
                Some(secret) => secret,
                None => return from.error(format!("{key}_env: the variable {} is not set", given.value)),
            },
            Self::File(given) => match std::fs::read_to_string(&given.value) {
                Ok(text) => text.trim_end_matches(['\r', '\n']).to_owned(),
                Err(error) => return from.error(format!("{key}_file: {}: {error}", given.value)),
            },
        };

        Ok(Secret::new(secret))
    }
}

/// Prints the location of the secret, never the secret.
impl std::fmt::Debug for SecretEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(given) => write!(f, "Text({})", given.from),
            Self::Env(given) => write!(f, "Env({})", given.value),
            Self::File(given) => write!(f, "File({})", given.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Option<String>, String) {
        let entry = BucketEntry::parse(text, Provenance::Default);
        (entry.name.map(|name| name.value), entry.url.value)
    }

    #[test]
    fn what_stands_before_the_first_equals_sign_is_the_name() {
        assert_eq!(parts("lake=s3://b/p"), (Some("lake".to_owned()), "s3://b/p".to_owned()));
        assert_eq!(parts("lake=./a=b"), (Some("lake".to_owned()), "./a=b".to_owned()));
    }

    #[test]
    fn an_equals_sign_within_a_url_is_part_of_it() {
        for url in ["./data", "s3://lake/day=1", "./day=1", "/srv/a=b", "https://h/x?sig=1"] {
            assert_eq!(parts(url), (None, url.to_owned()));
        }
    }
}
