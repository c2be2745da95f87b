//! Authenticates the callers of the Flight door.

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use http::header::AUTHORIZATION;
use tonic::{Code, Status, metadata::MetadataMap};

use super::error::status;
use crate::{AccessKeys, config::Secret};

/// Returns the id of the access key that the caller presented; `None` on a node without keys, which needs none.
///
/// A key is presented by its token (`Bearer TOKEN`), or by its id and its secret or token (`Basic`, in base64).
pub(super) fn caller(keys: &AccessKeys, metadata: &MetadataMap) -> Result<Option<String>, Status> {
    if keys.is_empty() {
        return Ok(None);
    }
    let (scheme, shown) = authorization(metadata);
    let known = if scheme.eq_ignore_ascii_case("bearer") {
        keys.of_bearer(shown).map(str::to_owned)
    } else {
        basic(scheme, shown).filter(|(id, password)| keys.token_of(id, password).is_some()).map(|(id, _)| id)
    };

    match known {
        Some(id) => Ok(Some(id)),
        None => Err(status(
            Code::Unauthenticated,
            "show the token of an access key in the header: authorization: Bearer TOKEN",
        )),
    }
}

/// Returns the token for a caller that presents the id and the secret of an access key; `None` on a node without
/// keys.
pub(super) fn token(keys: &AccessKeys, metadata: &MetadataMap) -> Result<Option<Secret>, Status> {
    if keys.is_empty() {
        return Ok(None);
    }
    let (scheme, shown) = authorization(metadata);
    let token = basic(scheme, shown).and_then(|(id, password)| keys.token_of(&id, &password).cloned());
    match token {
        Some(token) => Ok(Some(token)),
        None => Err(status(
            Code::Unauthenticated,
            "log in with the id of an access key as the user, and its secret as the password",
        )),
    }
}

/// Splits the header into its scheme and the rest.
fn authorization(metadata: &MetadataMap) -> (&str, &str) {
    let shown = metadata.get(AUTHORIZATION.as_str()).and_then(|value| value.to_str().ok());
    let (scheme, shown) = shown.and_then(|text| text.split_once(' ')).unwrap_or_default();
    (scheme, shown.trim())
}

/// Decodes a user and a password. Some clients omit the padding, such as the ADBC drivers.
fn basic(scheme: &str, shown: &str) -> Option<(String, String)> {
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD_NO_PAD.decode(shown.trim_end_matches('=')).ok()?).ok()?;
    let (id, password) = decoded.split_once(':')?;
    Some((id.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;

    use super::*;
    use crate::config::{AccessKeyConfig, Secret};

    fn keys() -> AccessKeys {
        let key = |id: &str, token: Option<&str>| AccessKeyConfig {
            id: id.to_owned(),
            secret: Secret::new(format!("secret of {id}")),
            token: token.map(Secret::new),
            buckets: vec!["*".to_owned()],
            prefixes: Vec::new(),
            write: false,
        };
        AccessKeys::new(&[key("one", Some("token1")), key("two", None)])
    }

    fn shown(authorization: &str) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        metadata.insert("authorization", authorization.parse().unwrap());
        metadata
    }

    #[test]
    fn a_key_is_told_by_its_token_or_its_secret_where_it_has_none() {
        let keys = keys();
        for (text, id) in
            [("Bearer token1", "one"), ("bearer  token1 ", "one"), ("Bearer secret of two", "two")]
        {
            assert_eq!(caller(&keys, &shown(text)).unwrap().as_deref(), Some(id), "{text}");
        }

        for text in
            ["Bearer secret of one", "Bearer", "Bearer ", "token1", "Basic token1", "Bearer token", ""]
        {
            let refused = caller(&keys, &shown(text)).unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated, "{text}");
        }
        assert!(caller(&keys, &MetadataMap::new()).is_err());
    }

    #[test]
    fn a_user_and_a_password_are_the_id_of_a_key_and_its_secret_or_token() {
        let keys = keys();
        let basic = |text: &str| shown(&format!("Basic {}", BASE64_STANDARD.encode(text)));
        for (text, id, expected) in [
            ("one:secret of one", "one", "token1"),
            ("one:token1", "one", "token1"),
            ("two:secret of two", "two", "secret of two"),
        ] {
            assert_eq!(caller(&keys, &basic(text)).unwrap().as_deref(), Some(id), "{text}");
            assert_eq!(token(&keys, &basic(text)).unwrap().unwrap().expose(), expected, "{text}");
        }

        let unpadded = shown(&format!("Basic {}", BASE64_STANDARD_NO_PAD.encode("two:secret of two")));
        assert_eq!(caller(&keys, &unpadded).unwrap().as_deref(), Some("two"));
        for text in ["one:secret of two", "one:", "one", ":", "", "three:token1"] {
            assert_eq!(caller(&keys, &basic(text)).unwrap_err().code(), Code::Unauthenticated, "{text}");
            assert_eq!(token(&keys, &basic(text)).unwrap_err().code(), Code::Unauthenticated, "{text}");
        }
        assert!(token(&keys, &shown("Bearer token1")).is_err());
        assert!(token(&AccessKeys::default(), &MetadataMap::new()).unwrap().is_none());
    }

    #[test]
    fn without_keys_nothing_needs_to_be_shown() {
        assert_eq!(caller(&AccessKeys::default(), &shown("Bearer anything")).unwrap(), None);
    }
}
