//! URLs, and texts with URLs, without the credentials in them: fit for errors, logs and names.

use std::borrow::Cow;

const HIDDEN: &str = "***";

/// The URL without what may be a secret: user and password, and the query and fragment of a web server's URL. In other
/// URLs a `?` is a wildcard, and `abfss://container@account` names a container where others have a user.
pub fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let scheme_name = scheme.to_ascii_lowercase();
    let is_web = scheme_name.ends_with("http") || scheme_name.ends_with("https");
    let names_container = ["abfs", "abfss", "wasb", "wasbs"].contains(&scheme_name.as_str());
    // A query such as `?sv=1&sig=SECRET`, and not a wildcard before `/year=2026`.
    let is_query = |query: &str| query.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let is_hidden = |at: &usize| is_web || path.get(*at..).is_some_and(is_query);
    let (path, query) = match path.find(['?', '#']).filter(is_hidden) {
        Some(at) => (&path[..at], format!("{}{HIDDEN}", &path[at..=at])),
        None => (path, String::new()),
    };
    match authority.rsplit_once('@') {
        Some((user, host)) if !names_container || user.contains(':') => {
            format!("{scheme}://{HIDDEN}@{host}{path}{query}")
        }
        _ => format!("{scheme}://{authority}{path}{query}"),
    }
}

/// The text with every URL in it shown [`without_credentials`]: an origin's own errors may quote what was sent to it.
pub fn redacted(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let ends_url = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`');
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let begins = before.trim_end_matches(is_scheme).len();
        let ends = after.find(ends_url).map_or(rest.len(), |at| before.len() + "://".len() + at);
        let url = &rest[begins..ends];
        // A sentence may go on behind a URL without a blank.
        let shown = url.trim_end_matches([')', ']', '}', ',', ';', ':', '.']);
        safe.push_str(&before[..begins]);
        safe.push_str(&without_credentials(shown));
        safe.push_str(&url[shown.len()..]);
        rest = &rest[ends..];
    }
    safe.push_str(rest);
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_user_password_and_query() {
        for (url, shown) in [
            ("./data", "./data"),
            ("a?b", "a?b"),
            ("s3://bucket/a/b", "s3://bucket/a/b"),
            ("s3://bucket/a?b/*.parquet", "s3://bucket/a?b/*.parquet"),
            ("s3://key:secret@bucket/a", "s3://***@bucket/a"),
            ("https://me:pw@host:80/a", "https://***@host:80/a"),
            ("https://token@host", "https://***@host"),
            ("HTTP://h/x?sig=abc", "HTTP://h/x?***"),
            ("s3://token@bucket/a", "s3://***@bucket/a"),
            ("az://c/p?sv=1&sig=abc", "az://c/p?***"),
            ("s3://bucket/a?b/year=2026/*", "s3://bucket/a?b/year=2026/*"),
            ("https://host?sig=a@b", "https://host?***"),
            ("https://host/a?sig=abc&x=1", "https://host/a?***"),
            ("https://a:b@host/a@b#c", "https://***@host/a@b#***"),
            ("abfss://container@account.dfs/x", "abfss://container@account.dfs/x"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    #[test]
    fn urls_within_a_text_are_shown_without_credentials() {
        for (text, shown) in [
            ("no url", "no url"),
            ("://", "://"),
            ("HEAD http://me:pw@h/a in 5ms", "HEAD http://***@h/a in 5ms"),
            ("(https://h/?sig=x) and é\"s3://b/c\"", "(https://h/?***) and é\"s3://b/c\""),
            ("éhttp://a:b@c, then http://h/?t=1.", "éhttp://***@c, then http://h/?***."),
            (
                "GET http://h/x[1],(2)}.parquet?sig=a,b)c]d, in 5 ms",
                "GET http://h/x[1],(2)}.parquet?***, in 5 ms",
            ),
            ("a=http://h/?x=http://i/?sig=y", "a=http://h/?***"),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }
}
