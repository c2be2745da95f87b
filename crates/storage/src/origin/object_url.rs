//! Splits URLs of objects into the store and the path within it.

use std::{borrow::Cow, str::Utf8Error};

use percent_encoding::percent_decode_str;

use crate::redacted::authority_end;

/// Splits the URL of an object, a prefix or a pattern into the URL of its store and the path within the store.
///
/// The path has no leading slash and is percent-decoded: `~`, `%7E` and `%7e` name the same object. Pass it to
/// [`Path::parse`](object_store::path::Path::parse), which takes it verbatim. (`Path::from` would encode some
/// characters again, and name another object.)
///
/// # Errors
///
/// If the path is not UTF-8 once it is decoded.
pub fn split_object_url(url: &str) -> Result<(&str, Cow<'_, str>), Utf8Error> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = url.len() - rest.len() + authority_end(scheme, rest);
    let slash = url.get(end..).and_then(|after| after.find('/'));
    let (store, path) = url.split_at(slash.map_or(url.len(), |slash| end + slash));
    let path = percent_decode_str(path.trim_start_matches('/')).decode_utf8()?;

    Ok(match path {
        Cow::Borrowed(path) => (store, Cow::Borrowed(path.trim_start_matches('/'))),
        Cow::Owned(path) => (store, Cow::Owned(path.trim_start_matches('/').to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once_and_nothing_else_is_done_to_it() {
        for (url, store, path) in [
            ("s3://bucket", "s3://bucket", ""),
            ("s3://bucket/", "s3://bucket", ""),
            ("s3://bucket/a?b/*.parquet", "s3://bucket", "a?b/*.parquet"),
            ("s3://bucket//a/b/", "s3://bucket", "a/b/"),
            ("s3://bucket/~a", "s3://bucket", "~a"),
            ("s3://bucket/%7Ea", "s3://bucket", "~a"),
            ("s3://bucket/%41%2541", "s3://bucket", "A%41"),
            ("s3://bucket/a b/a%20b", "s3://bucket", "a b/a b"),
            ("s3://bucket/ü/%C3%BC", "s3://bucket", "ü/ü"),
            ("s3://bucket/100%", "s3://bucket", "100%"),
            ("https://host:80/x", "https://host:80", "x"),
            ("memory:///x", "memory://", "x"),
            // Not the URL of a store: shown as a whole, without the password.
            ("s3://user:pa/ss@bucket/x", "s3://user:pa/ss@bucket", "x"),
        ] {
            assert_eq!(split_object_url(url), Ok((store, path.into())), "{url}");
        }
        split_object_url("s3://bucket/%FF").unwrap_err();
    }
}
