//! CORS: preflight requests, and the headers that let a page read the answer.

use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
        ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
    },
};
use s3s::{Body, HttpResponse, S3Error, S3ErrorCode, S3Result, s3_error};

use crate::{config::CorsRule, s3::wire::header_text};

/// Returns the rule that allows a page to send a request, if a page sent it.
pub(crate) fn rule_of<'a>(rules: &'a [CorsRule], headers: &HeaderMap, method: &str) -> Option<&'a CorsRule> {
    let origin = header_text::value(headers, &ORIGIN)?;
    rules.iter().find(|rule| rule.allows(origin, method))
}

/// Answers a preflight request.
pub(crate) fn preflight(rules: &[CorsRule], headers: &HeaderMap) -> S3Result<HttpResponse> {
    let Some(method) =
        header_text::value(headers, &ACCESS_CONTROL_REQUEST_METHOD).filter(|_| headers.contains_key(ORIGIN))
    else {
        return Err(s3_error!(InvalidRequest, "Insufficient information. Origin request header needed."));
    };
    let asked = header_text::list(headers, &ACCESS_CONTROL_REQUEST_HEADERS);
    let rule = rule_of(rules, headers, method)
        .filter(|rule| asked.iter().all(|header| rule.allows_header(header)))
        .ok_or_else(|| forbidden(rules.is_empty()))?;

    let mut answer = HttpResponse::new(Body::empty());
    let response_headers = answer.headers_mut();
    allow(response_headers, rule, headers);
    header_text::set(response_headers, ACCESS_CONTROL_ALLOW_METHODS, &rule.methods.join(", "));
    if !asked.is_empty() {
        header_text::set(response_headers, ACCESS_CONTROL_ALLOW_HEADERS, &asked.join(", "));
    }
    header_text::set(response_headers, ACCESS_CONTROL_MAX_AGE, &rule.max_age.as_secs().to_string());

    Ok(answer)
}

/// Adds the headers that let the requesting page read the answer.
pub(crate) fn allow(answer: &mut HeaderMap, rule: &CorsRule, request: &HeaderMap) {
    if let Some(origin) = request.get(ORIGIN) {
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.append(VARY, HeaderValue::from_static("Origin"));
        header_text::set(answer, ACCESS_CONTROL_EXPOSE_HEADERS, &rule.expose.join(", "));
    }
}

fn forbidden(is_off: bool) -> S3Error {
    let message = if is_off {
        "CORSResponse: CORS is not enabled for this bucket."
    } else {
        "CORSResponse: This CORS request is not allowed."
    };
    let mut error = S3Error::with_message(S3ErrorCode::Custom("AccessForbidden".into()), message);
    error.set_status_code(StatusCode::FORBIDDEN);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(origin: &'static str, method: &'static str, asked: &'static str) -> HeaderMap {
        HeaderMap::from_iter([
            (ORIGIN, HeaderValue::from_static(origin)),
            (ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static(method)),
            (ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static(asked)),
        ])
    }

    #[test]
    fn a_page_that_may_read_is_told_so() {
        let rules = [CorsRule::reading(vec!["https://app.example".into()])];
        let answer = preflight(&rules, &question("https://app.example", "GET", "Range, x-amz-date")).unwrap();
        assert_eq!(answer.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
        assert_eq!(answer.headers()[ACCESS_CONTROL_ALLOW_HEADERS], "range, x-amz-date");
        assert_eq!(answer.headers()[ACCESS_CONTROL_MAX_AGE], "3600");
    }

    #[test]
    fn others_are_refused() {
        let rules = [CorsRule::reading(vec!["https://app.example".into()])];
        assert!(preflight(&rules, &question("https://evil.example", "GET", "range")).is_err());
        assert!(preflight(&rules, &question("https://app.example", "PUT", "range")).is_err());
        assert!(preflight(&[], &question("https://app.example", "GET", "range")).is_err());
        assert!(preflight(&rules, &HeaderMap::new()).is_err());
    }
}
