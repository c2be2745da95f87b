//! Parses and validates the entry of an access key.

use super::entries::{AccessKeyEntry, SecretEntry};
use crate::{
    Result,
    config::{AccessKeyConfig, Given, Provenance, Sourced},
};

impl AccessKeyEntry {
    /// Parses `ID:SECRET`: a key with write access to all buckets, as a user's own key should have.
    pub(crate) fn parse(text: &str, from: Provenance) -> Result<Self> {
        let Some((id, secret)) = text.split_once(':') else {
            return from.error("an access key is written ID:SECRET");
        };
        Ok(Self {
            id: Given::new(id, from.clone()),
            secret: SecretEntry::Text(Given::new(secret, from.clone())),
            token: None,
            buckets: None,
            prefixes: None,
            write: Sourced::new(true, from.clone()),
            from,
        })
    }
}

/// Resolves an entry; `env` looks up environment variables.
pub(crate) fn resolve(
    entry: &AccessKeyEntry,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<AccessKeyConfig> {
    let id = &entry.id.value;
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_graphic() && !"/:,".contains(c)) {
        return entry.id.from.error(format!(
            "id: {id:?} cannot be an id: use letters and digits, without spaces and '/', ':', ','"
        ));
    }

    let secret = entry.secret.read("secret", env)?;
    if secret.expose().is_empty() {
        return entry.secret.given().from.error(format!("the secret of access key {id} is empty"));
    }
    let token = match &entry.token {
        Some(entry) => {
            let token = entry.read("token", env)?;
            // A header value can carry visible ASCII only, so no client could send any other token.
            if token.expose().is_empty() || !token.expose().chars().all(|c| c.is_ascii_graphic()) {
                return entry.given().from.error(format!(
                    "the token of access key {id} must be letters, digits and signs of ASCII, without spaces"
                ));
            }
            Some(token)
        }
        None => None,
    };

    let buckets = match &entry.buckets {
        Some(buckets) => buckets.iter().map(|bucket| bucket.value.clone()).collect(),
        None => vec!["*".to_owned()],
    };
    let prefixes = entry.prefixes.iter().flatten().map(|prefix| prefix.value.clone()).collect();
    Ok(AccessKeyConfig { id: id.clone(), secret, token, buckets, prefixes, write: entry.write.value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: SecretEntry) -> AccessKeyEntry {
        AccessKeyEntry { secret, ..AccessKeyEntry::parse("me:x", Provenance::Default).unwrap() }
    }

    fn given(text: &str) -> Given {
        Given::new(text, Provenance::Default)
    }

    #[test]
    fn a_key_of_the_command_line_opens_everything_for_writing() {
        let entry = AccessKeyEntry::parse("me:se:cret", Provenance::Flag("--access-key".to_owned())).unwrap();
        let key = resolve(&entry, &|_| None).unwrap();
        assert_eq!((key.id.as_str(), key.secret.expose(), key.write), ("me", "se:cret", true));
        assert!(key.opens("anything"));
    }

    #[test]
    fn a_key_without_a_colon_does_not_show_what_may_be_its_secret() {
        let error =
            AccessKeyEntry::parse("hunter2", Provenance::Flag("--access-key".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "flag --access-key: an access key is written ID:SECRET");
    }

    #[test]
    fn a_secret_is_read_from_a_variable_or_a_file() {
        let env = |name: &str| (name == "MY_SECRET").then(|| "from-env".to_owned());
        let read = resolve(&key(SecretEntry::Env(given("MY_SECRET"))), &env).unwrap();
        assert_eq!(read.secret.expose(), "from-env");
        let error = resolve(&key(SecretEntry::Env(given("NOT_SET"))), &env).unwrap_err();
        assert!(error.to_string().contains("NOT_SET is not set"), "{error}");

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "from-file\n").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(resolve(&key(SecretEntry::File(given(path))), &env).unwrap().secret.expose(), "from-file");
        let error = resolve(&key(SecretEntry::File(given("/nowhere"))), &env).unwrap_err();
        assert!(error.to_string().contains("/nowhere"), "{error}");
    }

    #[test]
    fn a_key_shows_its_token_or_else_its_secret() {
        let with = |token: &str| AccessKeyEntry {
            token: Some(SecretEntry::Text(given(token))),
            ..key(SecretEntry::Text(given("secret")))
        };
        let plain = resolve(&key(SecretEntry::Text(given("secret"))), &|_| None).unwrap();
        assert_eq!(plain.bearer().expose(), "secret");
        assert_eq!(resolve(&with("t0ken"), &|_| None).unwrap().bearer().expose(), "t0ken");

        for odd in ["", "a b", "schlüssel", "a\nb"] {
            let error = resolve(&with(odd), &|_| None).unwrap_err().to_string();
            assert!(
                error.contains("token of access key me") && (odd.is_empty() || !error.contains(odd)),
                "{error}"
            );
        }
    }

    #[test]
    fn an_empty_secret_or_an_id_with_spaces_is_refused() {
        assert!(resolve(&key(SecretEntry::Text(given(""))), &|_| None).is_err());
        for id in ["", "a b", "a/b"] {
            let entry = AccessKeyEntry { id: given(id), ..key(SecretEntry::Text(given("x"))) };
            assert!(resolve(&entry, &|_| None).is_err(), "{id:?}");
        }
    }
}
