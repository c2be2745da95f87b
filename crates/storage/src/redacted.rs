//! Redacts credentials in URLs and in texts that contain URLs: safe for errors, logs and names.

use std::borrow::Cow;

const HIDDEN: &str = "***";

/// Returns the URL without possible secrets: user and password, and the query and fragment of a web server's URL. In
/// other URLs a `?` is a wildcard, and `abfss://container@account` has a container in the position of the user.
pub fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let scheme_name = scheme.to_ascii_lowercase();
    let is_web = is_web(scheme);
    let names_container = ["abfs", "abfss", "wasb", "wasbs"].contains(&scheme_name.as_str());
    // A query such as `?sv=1&sig=SECRET`, not a wildcard before `/year=2026`.
    let is_query = |query: &str| query.split_once('=').is_some_and(|(name, _)| !name.contains('/'));

    let (authority, path) = rest.split_at(authority_end(scheme, rest));
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

/// Returns the end of a URL's authority in the text that follows its `://`.
///
/// A password may contain unencoded characters that end an authority. This is recognized by a colon without a port
/// after it, or by an `@` without a host after it, followed by another `@`: everything up to the last `@` then counts
/// as user and password, so that no part of it is shown.
pub(crate) fn authority_end(scheme: &str, rest: &str) -> usize {
    const ENDS: [char; 3] = ['/', '?', '#'];
    let end = rest.find(ENDS).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_cut = authority.ends_with('@') || begins_password(scheme, host);

    match after.rfind('@').filter(|_| is_cut) {
        None => end,
        Some(at) => {
            let host = end + at + '@'.len_utf8();
            rest[host..].find(ENDS).map_or(rest.len(), |end| host + end)
        }
    }
}

/// Returns whether the text in the position of host and port may be a user and the start of a password. Only web
/// servers have ports: elsewhere the host is a bucket or a container.
fn begins_password(scheme: &str, host: &str) -> bool {
    // Brackets enclose an IPv6 address.
    let host = host.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(host, |(_, port)| port);
    let Some((_, port)) = host.split_once(':') else { return false };
    let is_port = port.is_empty() || port.parse::<u16>().is_ok();
    !(scheme.eq_ignore_ascii_case("file") || is_web(scheme) && is_port)
}

fn is_web(scheme: &str) -> bool {
    let scheme = scheme.to_ascii_lowercase();
    scheme.ends_with("http") || scheme.ends_with("https")
}

/// Returns the text with all its URLs shown [`without_credentials`]: an origin's own errors may quote the request.
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

        // Punctuation may follow a URL without a space.
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
    fn a_password_that_is_not_encoded_is_in_nothing_that_is_shown() {
        for (url, shown) in [
            ("s3://user:pa/ss@host/a/b", "s3://***@host/a/b"),
            ("s3://user:/pa/ss@host", "s3://***@host"),
            ("s3://user:12/34@host/a", "s3://***@host/a"),
            ("s3://user:pa/s@s@host/a", "s3://***@host/a"),
            ("s3://me@x.org:pa/ss@host/a", "s3://***@host/a"),
            ("s3://user:pa@/ss@host/a", "s3://***@host/a"),
            ("s3://user:pa?ss@host/a", "s3://***@host/a"),
            ("s3://user:pa#ss@host/a", "s3://***@host/a"),
            ("https://user:pa/ss@host:80/a?sig=x", "https://***@host:80/a?***"),
            ("https://user:pa?ss#t@host/a", "https://***@host/a"),
            ("abfss://user:pa/ss@account.dfs/x", "abfss://***@account.dfs/x"),
            // These have a port, but no password.
            ("http://localhost:9000/npm/@scope", "http://localhost:9000/npm/@scope"),
            ("http://localhost:/a@b", "http://localhost:/a@b"),
            ("http://[::1]:9000/a@b", "http://[::1]:9000/a@b"),
            ("http://[::1]/a@b", "http://[::1]/a@b"),
            ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
            ("s3://bucket/mail/me@x.org", "s3://bucket/mail/me@x.org"),
            ("s3://arn:aws:s3:eu-west-1:1:accesspoint/a", "s3://arn:aws:s3:eu-west-1:1:accesspoint/a"),
            ("file:///a:b/c@d", "file:///a:b/c@d"),
            ("file://c:/a@b", "file://c:/a@b"),
            // Hidden credentials stay hidden.
            ("s3://***@host/a/b", "s3://***@host/a/b"),
        ] {
            assert_eq!(without_credentials(url), shown);
            assert_eq!(redacted(&format!("at {url}: no")), format!("at {shown}: no"));
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
