//! Identifies the caller.

use http::header::AUTHORIZATION;
use tonic::{Code, Status, metadata::MetadataMap};

use super::error::status;
use crate::AccessKeys;

/// Returns the id of the access key whose token was sent; `None` on a node without keys, which needs no token.
pub(super) fn caller(keys: &AccessKeys, metadata: &MetadataMap) -> Result<Option<String>, Status> {
    if keys.is_empty() {
        return Ok(None);
    }
    let shown = metadata.get(AUTHORIZATION.as_str()).and_then(|value| value.to_str().ok());
    let (scheme, token) = shown.and_then(|text| text.split_once(' ')).unwrap_or_default();
    let known = scheme.eq_ignore_ascii_case("bearer").then(|| keys.of_bearer(token.trim())).flatten();

    match known {
        Some(id) => Ok(Some(id.to_owned())),
        None => Err(status(
            Code::Unauthenticated,
            "show the token of an access key in the header: authorization: Bearer TOKEN",
        )),
    }
}

#[cfg(test)]
mod tests {
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
    fn without_keys_nothing_needs_to_be_shown() {
        assert_eq!(caller(&AccessKeys::default(), &shown("Bearer anything")).unwrap(), None);
    }
}
