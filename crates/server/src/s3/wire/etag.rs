//! Converts ETags between an origin, which may or may not quote them, and S3, which does.

use s3s::dto::ETag;

/// Converts an origin's ETag, which may or may not be quoted, and keeps it strong or weak.
pub(crate) fn from_origin(raw: &str) -> ETag {
    if let Some(value) = raw.strip_prefix("W/").or_else(|| raw.strip_prefix("w/")) {
        return ETag::Weak(unquoted(value).to_owned());
    }
    ETag::Strong(unquoted(raw).to_owned())
}

/// Formats a client's ETag as a header value.
pub(crate) fn quoted(etag: &ETag) -> String {
    match etag {
        ETag::Strong(value) => format!("\"{value}\""),
        ETag::Weak(value) => format!("W/\"{value}\""),
    }
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_keeps_its_value_and_its_strength() {
        assert_eq!(from_origin("\"abc-2\""), ETag::Strong("abc-2".into()));
        assert_eq!(from_origin("0-5f-1a"), ETag::Strong("0-5f-1a".into()));
        assert_eq!(from_origin("W/\"abc\""), ETag::Weak("abc".into()));
        assert_eq!(quoted(&from_origin("\"abc\"")), "\"abc\"");
        assert_eq!(quoted(&from_origin("W/\"abc\"")), "W/\"abc\"");
    }
}
