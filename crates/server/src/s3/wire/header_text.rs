//! Reads header values and lists as text, and sets headers from text.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Returns the first value of a header, if it is visible ASCII.
pub(crate) fn value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the elements of a comma-separated header, from all of its occurrences, in lower case.
pub(crate) fn list(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|element| element.trim().to_ascii_lowercase())
        .filter(|element| !element.is_empty())
        .collect()
}

/// Sets a header. Does nothing if the value is invalid.
pub(crate) fn set(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_spans_all_values_of_its_header() {
        let name = HeaderName::from_static("x-amz-trailer");
        let mut headers = HeaderMap::new();
        headers.append(&name, HeaderValue::from_static("A, b"));
        headers.append(&name, HeaderValue::from_static("c,,"));
        assert_eq!(list(&headers, &name), ["a", "b", "c"]);
    }
}
