//! Texts with URLs, made fit for errors and logs.

use std::borrow::Cow;

/// The text without what may be a secret in its URLs: user, password and query.
pub fn redacted(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let ends_url = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>');
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let (url, remainder) = after.split_at(after.find(ends_url).unwrap_or(after.len()));
        let host_begins = match url.find('/').map_or(url, |slash| &url[..slash]).rfind('@') {
            Some(at) => at + 1,
            None => 0,
        };
        safe.push_str(before);
        safe.push_str("://");
        match url[host_begins..].split_once('?') {
            Some((shown, query)) => {
                safe.push_str(shown);
                safe.push_str("?***");
                // A sentence may go on behind a URL without a blank.
                let end = query.trim_end_matches([')', ']', '}', ',', ';', ':', '.']).len();
                safe.push_str(&query[end..]);
            }
            None => safe.push_str(&url[host_begins..]),
        }
        rest = remainder;
    }
    safe.push_str(rest);
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_query_and_no_user_is_shown() {
        let text = "(https://me:pw@host/a?X-Amz-Signature=abc) and s3://bucket/key, \"http://h/?t=1\"";
        assert_eq!(redacted(text), "(https://host/a?***) and s3://bucket/key, \"http://h/?***\"");
        assert_eq!(redacted("plain"), "plain");
        assert_eq!(
            redacted("GET http://h/x[1],(2)}.parquet?sig=a,b)c]d, in 5 ms"),
            "GET http://h/x[1],(2)}.parquet?***, in 5 ms"
        );
    }
}
