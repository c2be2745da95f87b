//! The response that a form requests after its file is stored.

use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, LOCATION},
};
use s3s::{Body, HttpResponse};
use url::Url;

use crate::s3::wire::{error::push_element, form::fields::FormFields, header_text, target::encode_path};

/// Action after a file is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::s3) enum SuccessAction {
    /// Redirects the browser to a page, with parameters that describe the object.
    Redirect(Url),
    /// Answers without a body, or with XML for [`StatusCode::CREATED`].
    Status(StatusCode),
}

impl SuccessAction {
    /// Reads the fields `success_action_redirect` (formerly `redirect`) and `success_action_status`. An invalid URL
    /// and an unknown status are ignored, as in S3.
    pub(in crate::s3) fn of(fields: &FormFields) -> Self {
        let page = fields.get("success_action_redirect").or_else(|| fields.get("redirect"));
        let page = page.and_then(|page| Url::parse(page).ok());
        if let Some(page) = page.filter(|page| matches!(page.scheme(), "http" | "https")) {
            return Self::Redirect(page);
        }
        Self::Status(match fields.get("success_action_status") {
            Some("200") => StatusCode::OK,
            Some("201") => StatusCode::CREATED,
            _ => StatusCode::NO_CONTENT,
        })
    }

    /// Builds the answer for an object, with the headers that describe it, including its ETag.
    pub(in crate::s3) fn answer(self, bucket: &str, key: &str, mut headers: HeaderMap) -> HttpResponse {
        let etag = header_text::value(&headers, &ETAG).map(str::to_owned);
        let location = format!("/{bucket}/{}", encode_path(key));
        let mut body = Body::empty();
        headers.remove(CONTENT_TYPE);
        let status = match self {
            Self::Redirect(mut page) => {
                let mut parameters = page.query_pairs_mut();
                parameters.append_pair("bucket", bucket).append_pair("key", key);
                if let Some(etag) = &etag {
                    parameters.append_pair("etag", etag);
                }
                drop(parameters);
                header_text::set(&mut headers, LOCATION, page.as_str());
                StatusCode::SEE_OTHER
            }
            Self::Status(status) => {
                header_text::set(&mut headers, LOCATION, &location);
                if status == StatusCode::CREATED {
                    let etag = etag.as_deref().unwrap_or_default();
                    body = Body::from(to_xml(&location, bucket, key, etag));
                    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
                }
                status
            }
        };

        headers.remove(CONTENT_LENGTH);
        if let Some(length) =
            body.bytes().map(|bytes| bytes.len()).filter(|_| status != StatusCode::NO_CONTENT)
        {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }

        let mut answer = HttpResponse::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        answer
    }
}

fn to_xml(location: &str, bucket: &str, key: &str, etag: &str) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<PostResponse>");
    for (name, text) in [("Location", location), ("Bucket", bucket), ("Key", key), ("ETag", etag)] {
        push_element(&mut xml, name, text);
    }
    xml.push_str("</PostResponse>");
    xml
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(fields: &[(&str, &str)]) -> (u16, String, String) {
        let headers = [(ETAG, HeaderValue::from_static("\"e\""))].into_iter().collect();
        let answer = SuccessAction::of(&FormFields::of(fields)).answer("lake", "a b&c", headers);
        let (head, mut body) = answer.into_parts();
        let body = body.store_all_limited(1 << 16).await.unwrap();
        let location = head.headers.get(LOCATION).unwrap().to_str().unwrap().to_owned();
        (head.status.as_u16(), location, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_form_says_what_follows() {
        let location = "/lake/a%20b%26c".to_owned();
        for (fields, status) in [
            (&[][..], 204),
            (&[("success_action_status", "200")], 200),
            (&[("success_action_status", "404")], 204),
            (&[("success_action_redirect", "no address")], 204),
            (&[("success_action_redirect", "javascript:alert(1)")], 204),
        ] {
            assert_eq!(answered(fields).await, (status, location.clone(), String::new()), "{fields:?}");
        }

        let (status, header, xml) = answered(&[("success_action_status", "201")]).await;
        assert_eq!((status, header), (201, location));
        assert!(
            xml.contains("<Location>/lake/a%20b%26c</Location><Bucket>lake</Bucket><Key>a b&amp;c</Key>")
        );
        assert!(xml.ends_with("<ETag>&quot;e&quot;</ETag></PostResponse>"), "{xml}");
    }

    #[tokio::test]
    async fn a_page_learns_of_the_object_by_parameters() {
        let query = "bucket=lake&key=a+b%26c&etag=%22e%22";
        for (page, expected) in [
            ("http://h:1/p", format!("http://h:1/p?{query}")),
            ("https://h/p?x=1#f", format!("https://h/p?x=1&{query}#f")),
        ] {
            let fields = [("redirect", page), ("success_action_status", "200")];
            assert_eq!(answered(&fields).await, (303, expected, String::new()));
        }
    }
}
