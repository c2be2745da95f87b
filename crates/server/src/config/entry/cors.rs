//! CORS rules: access to a bucket by web pages of other sites.

use std::time::Duration;

/// Requests that web pages of certain origins may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsRule {
    /// Origins such as `https://app.example.com`, each with at most one `*`, which matches any text.
    pub origins: Vec<String>,
    /// Methods such as `GET`. Default: `GET` and `HEAD`.
    pub methods: Vec<String>,
    /// Request headers that are allowed; `*` allows any. Default: any.
    pub headers: Vec<String>,
    /// Response headers that pages may read. Default: those that describe an object and its range.
    pub expose: Vec<String>,
    /// Maximum age of a cached preflight answer. Default: an hour.
    pub max_age: Duration,
}

impl CorsRule {
    /// Creates the default rule for these origins: read access.
    pub fn reading(origins: Vec<String>) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            origins,
            methods: owned(&["GET", "HEAD"]),
            headers: owned(&["*"]),
            expose: owned(&[
                "accept-ranges",
                "content-length",
                "content-range",
                "etag",
                "last-modified",
                "x-amz-request-id",
                "x-amz-version-id",
            ]),
            max_age: Duration::from_secs(60 * 60),
        }
    }

    /// Returns true if pages of this origin may send requests of this method.
    pub fn allows(&self, origin: &str, method: &str) -> bool {
        self.methods.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(method))
            && self.origins.iter().any(|pattern| matches(pattern, origin))
    }

    /// Returns true if a request may carry this header.
    pub fn allows_header(&self, header: &str) -> bool {
        self.headers
            .iter()
            .any(|pattern| matches(&pattern.to_ascii_lowercase(), &header.to_ascii_lowercase()))
    }
}

/// Returns true if `text` matches `pattern`, in which one `*` matches anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((begin, end)) => {
            text.len() >= begin.len() + end.len() && text.starts_with(begin) && text.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_compared_whole_or_with_a_wildcard() {
        let rule = CorsRule::reading(vec!["https://*.example.com".into(), "http://localhost:3000".into()]);
        assert!(rule.allows("https://app.example.com", "GET"));
        assert!(rule.allows("http://localhost:3000", "HEAD"));
        for (origin, method) in [
            ("https://example.com", "GET"),
            ("https://app.example.com.evil", "GET"),
            ("http://localhost:3000", "PUT"),
            ("null", "GET"),
        ] {
            assert!(!rule.allows(origin, method), "{origin} {method}");
        }
        assert!(rule.allows_header("X-Amz-Date"));
    }
}
